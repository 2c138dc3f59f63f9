//! Notices of traps (IBA vol. 1, 14.2.5.1), and traps that await their repress.

use super::packet::Packet;
use crate::ids::{Lid, MKey, PortNum};
use crate::wire::attr::{AttrId, ChangeFlag, NodeKind, Notice, TrapNumber};
use crate::wire::bits::Field;
use crate::wire::mad::{Class, Mad, Method};
use crate::wire::smp::{DATA_SIZE, RETURN_PATH, SmpFields, SmpRoute, request};
use std::collections::BTreeMap;
use std::time::Duration;

/// A trap that is repeated until a TrapRepress with its transaction ID arrives.
pub(super) struct PendingTrap {
    pub(super) number: u16,
    pub(super) tid: u64,
    pub(super) packet: Packet,
}

/// Time after which a device repeats a trap unless [`DeviceTraps::interval`] is changed.
const DEFAULT_INTERVAL: Duration = Duration::from_millis(500);

/// The traps of all devices that await their repress.
pub(super) struct DeviceTraps {
    /// Time after which a trap is repeated.
    pub(super) interval: Duration,
    /// Repeated traps by the number of their node.
    pub(super) pending: BTreeMap<u32, Vec<PendingTrap>>,
    /// Transaction ID of the next trap.
    pub(super) next_tid: u64,
}

impl Default for DeviceTraps {
    fn default() -> Self {
        Self { interval: DEFAULT_INTERVAL, pending: BTreeMap::new(), next_tid: 1 }
    }
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
            notice.set_subject_lid(lid);
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

/// Fills in the details of trap 256 about `request` from a port with the LID `from`. The LID of a
/// requester by directed route is unknown, so that of the issuer stays.
pub(super) fn fill_bad_m_key(notice: &mut Notice, from: Lid, request: &Mad) {
    let header = request.header();
    notice.set_method(header.method());
    notice.set_attr_id(header.attr_id());
    notice.set_attr_mod(header.attr_mod());
    notice.set_m_key(request.smp().m_key());
    if header.class() != Class::SUBN_DIRECTED {
        notice.set_subject_lid(from);
        return;
    }
    let smp = request.smp();
    notice.set_dr_slid(smp.dr_slid());
    let hops = usize::from(smp.hop_count());
    notice.set_return_path(request.0.get(RETURN_PATH + 1..=RETURN_PATH + hops).unwrap_or(&[]));
}

/// A LID-routed Trap MAD with this notice. Its M_Key is 0: the key of the sender is a secret of the
/// subnet manager that has set it.
pub(super) fn mad(tid: u64, notice: &Notice) -> Mad {
    let mut data = [0; DATA_SIZE];
    data.copy_from_slice(&notice.0[..DATA_SIZE]);
    // The destination LID is in the packet, not in the MAD.
    let route = SmpRoute::Lid(Lid(0));
    request(
        &route,
        SmpFields {
            method: Method::TRAP,
            attr_id: AttrId::NOTICE,
            attr_mod: 0,
            m_key: MKey::NONE,
            tid,
        },
        &data,
    )
}
