//! What traps look like (IBA vol. 1, 14.2.5.1).

use crate::ids::Lid;
use crate::wire::attr::{AttrId, NodeKind, Notice, TrapNumber};
use crate::wire::bits::Field;
use crate::wire::mad::{Mad, Method};
use crate::wire::smp::{DATA_SIZE, SmpRoute, request};

/// The notice of trap `number` from the node of `kind` whose port or port 0 has the LID `lid`.
pub(super) fn notice(kind: NodeKind, number: u16, lid: Lid) -> Notice {
    let mut notice = Notice::default();
    notice.set_is_generic(true);
    notice.set_producer_type(kind.to_bits() as u32);
    notice.set_trap_number(number);
    notice.set_issuer_lid(lid);
    match number {
        TrapNumber::LINK_STATE => {
            notice.set_notice_type(1);
            notice.set_link_state_lid(lid);
        }
        TrapNumber::BAD_M_KEY => {
            notice.set_notice_type(2);
            notice.set_link_state_lid(lid);
        }
        _ => notice.set_subject_lid(lid),
    }
    notice
}

/// The Trap MAD with that notice.
pub(super) fn mad(tid: u64, m_key: u64, notice: &Notice) -> Mad {
    let mut data = [0; DATA_SIZE];
    data.copy_from_slice(&notice.0[..DATA_SIZE]);
    let nowhere = SmpRoute::Lid(Lid(0));
    request(&nowhere, Method::TRAP, AttrId::NOTICE, 0, m_key, tid, &data)
}
