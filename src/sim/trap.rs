//! Notices of traps (IBA vol. 1, 14.2.5.1), and traps that await their repress.

use super::packet::Packet;
use crate::ids::{Lid, PortNum};
use crate::wire::attr::{AttrId, ChangeFlag, NodeKind, Notice, TrapNumber};
use crate::wire::bits::Field;
use crate::wire::mad::{Mad, Method};
use crate::wire::smp::{DATA_SIZE, SmpRoute, request};
use std::time::Duration;

/// A trap that is repeated until a TrapRepress with its transaction ID arrives.
pub(super) struct PendingTrap {
    pub(super) number: u16,
    pub(super) tid: u64,
    pub(super) packet: Packet,
}

/// Traps that a port sends at regular intervals, repressed or not.
#[derive(Clone, Copy)]
pub(super) struct TrapStorm {
    /// The port that sends or, on a switch, that the traps name.
    pub(super) slot: u32,
    pub(super) number: u16,
    pub(super) period: Duration,
    /// Number of traps to come.
    pub(super) left: u32,
}

/// The notice of trap `number` from a node of type `kind` whose port (port 0 of a switch) has the
/// LID `lid`. Traps 129 to 131 name the port `num`.
pub(super) fn notice(kind: NodeKind, number: u16, lid: Lid, num: PortNum) -> Notice {
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
        TrapNumber::LINK_INTEGRITY..=TrapNumber::FLOW_CONTROL => {
            notice.set_notice_type(1);
            notice.set_subject_lid(lid);
            notice.set_port(num);
        }
        TrapNumber::LOCAL_CHANGES => {
            // The only local change that a simulated node reports is that of its description.
            notice.set_notice_type(4);
            notice.set_subject_lid(lid);
            notice.set_other_local_changes(true);
            notice.set_change_flags(ChangeFlag::NODE_DESCRIPTION);
        }
        _ => notice.set_subject_lid(lid),
    }
    notice
}

/// A LID-routed Trap MAD with this notice.
pub(super) fn mad(tid: u64, m_key: u64, notice: &Notice) -> Mad {
    let mut data = [0; DATA_SIZE];
    data.copy_from_slice(&notice.0[..DATA_SIZE]);
    // The destination LID is in the packet, not in the MAD.
    let route = SmpRoute::Lid(Lid(0));
    request(&route, Method::TRAP, AttrId::NOTICE, 0, m_key, tid, &data)
}
