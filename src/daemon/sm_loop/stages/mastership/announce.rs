//! Trap 144 to another master: it sweeps, and learns of this SM or of its priority.

use crate::daemon::sm_loop::context::ManagerContext;
use crate::ids::{Lid, MKey};
use crate::observe::Observation;
use crate::observe::m_keys::MKeys;
use crate::sm::peer::Peer;
use crate::transport::transactions::SmpRequest;
use crate::transport::{Address, Agent};
use crate::wire::attr::{AttrId, CapMask, ChangeFlag, Notice, PortInfo, SmState, TrapNumber};
use crate::wire::mad::Method;
use crate::wire::smp::{DATA_SIZE, DirectedRoute, SmpFields, SmpRoute, request};
use std::sync::atomic::{AtomicU32, Ordering};
use tracing::{debug, info};

/// The change to be announced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnnouncedChange {
    /// This SM entered STANDBY. Devices that send trap 144 when IsSM changes have told so already.
    Standby,
    /// The priority was raised, or its receiver, a master of lower priority, did not hand over.
    Priority,
}

/// Notice type of information (IBA vol. 1, 13.4.8.2).
const INFORMATIONAL: u8 = 4;

/// A transaction ID that a daemon started shortly before did not use: receivers discard duplicates.
fn transaction_id() -> u32 {
    static SERIAL: AtomicU32 = AtomicU32::new(1);
    std::process::id() << 16 | SERIAL.fetch_add(1, Ordering::Relaxed) & 0xFFFF
}

/// Sends trap 144 to the SM `to`. The trap is not repeated, because later polls that find its cause
/// unchanged send another. Does nothing if one of the ports has no LID yet.
pub async fn announce(
    context: &ManagerContext,
    keys: &MKeys,
    observation: Option<&Observation>,
    to: &Peer,
    change: AnnouncedChange,
) {
    // The master may have changed the LIDs since the last sweep of a standby SM.
    let local = SmpRoute::Directed(DirectedRoute::LOCAL);
    let get = SmpRequest::get(local, AttrId::PORT_INFO, 0);
    let get = get.with_m_key(keys.of(context.client.port().identity().guid));
    let Ok(reply) = context.client.call(&get).await else { return };
    let own = PortInfo::read(&reply.data);
    let is_told = own.has(CapMask::TRAPS) && own.has(CapMask::CAP_MASK_NOTICE);
    let destination = destination(context, &own, observation, to);
    let Some(to_lid) = destination.filter(|_| own.lid().is_unicast()) else { return };
    if change == AnnouncedChange::Standby && is_told {
        return;
    }
    let data = notice(&own, observation, change);
    let tid = transaction_id();
    let route = SmpRoute::Lid(to_lid);
    // The receiver must not learn a key.
    let none = MKey::NONE;
    let mad = request(
        &route,
        SmpFields {
            method: Method::TRAP,
            attr_id: AttrId::NOTICE,
            attr_mod: 0,
            m_key: none,
            tid: tid.into(),
        },
        &data,
    );
    info!("sending trap 144 to the SM at port GUID {} (LID {to_lid})", to.guid());
    if let Err(problem) = context.client.post_only(Agent::SmiLid, Address::smi(to_lid), &mad.0) {
        debug!("cannot send trap 144: {problem}");
    }
}

/// The LID of the SM `to`: as its master sets it in this port, else as the last sweep found it.
fn destination(
    context: &ManagerContext,
    own: &PortInfo,
    observation: Option<&Observation>,
    to: &Peer,
) -> Option<Lid> {
    let is_standby = context.published.sm_status.borrow().state == SmState::Standby;
    let master =
        Some(own.master_sm_lid()).filter(|&lid| is_standby && lid.is_unicast() && lid != own.lid());
    let routed = match to.route {
        SmpRoute::Lid(lid) => Some(lid),
        SmpRoute::Directed(_) => None,
    };
    master.or(routed).or_else(|| {
        let fabric = &observation?.fabric;
        fabric.observed_lid(fabric.port_by_guid(to.guid())?)
    })
}

fn notice(
    own: &PortInfo,
    observation: Option<&Observation>,
    change: AnnouncedChange,
) -> [u8; DATA_SIZE] {
    use crate::wire::attr::NodeKind;
    use crate::wire::bits::Field;
    let fabric = observation.map(|seen| &seen.fabric);
    let kind = fabric.map_or(NodeKind::Ca, |fabric| fabric.node_of(fabric.local()).info.kind());
    let mut notice = Notice::default();
    notice.set_is_generic(true);
    notice.set_notice_type(INFORMATIONAL);
    notice.set_producer_type(kind.to_bits() as u32);
    notice.set_trap_number(TrapNumber::LOCAL_CHANGES);
    notice.set_issuer_lid(own.lid());
    notice.set_subject_lid(own.lid());
    notice.set_capability_mask(own.capability_mask());
    if change == AnnouncedChange::Priority {
        notice.set_other_local_changes(true);
        notice.set_change_flags(ChangeFlag::SM_PRIORITY);
    }
    let mut data = [0; DATA_SIZE];
    data.copy_from_slice(&notice.0[..DATA_SIZE]);
    data
}
