//! Detects traps that their sender cannot have, because any host can send one (IBA vol. 1, 13.4.8.2
//! and 14.2.5.1): the issuer and the subject are the device at the source LID, the number is one
//! that such devices send, and the producer is of its type.

use crate::fabric::PortId;
use crate::ids::Lid;
use crate::plan::Plan;
use crate::publish::Subnet;
use crate::wire::attr::{NodeKind, Notice, TrapNumber};
use std::sync::Arc;

const OTHER_SUBJECT: &str = "it is about another port";

/// The port with the source LID of a trap. Traps of the local port arrive with LID 0.
pub fn sender(subnet: &Subnet, lid: Lid) -> Option<PortId> {
    if lid == Lid(0) { Some(subnet.fabric.local()) } else { subnet.plan.lids.port(lid) }
}

/// Checks that the device of `sender` can be the origin of a trap, as far as its effect depends on
/// that: its issuer, number and subject. Notices 64 to 67 have their origin in the SA itself.
///
/// # Errors
/// The reason why it cannot.
pub fn check(subnet: &Subnet, sender: PortId, notice: &Notice) -> Result<(), &'static str> {
    if !owns(&subnet.plan, notice.issuer_lid(), sender) {
        return Err("it names another port as its issuer");
    }
    if !notice.is_generic() {
        return Ok(());
    }
    let is_switch = subnet.fabric.node_of(sender).kind() == NodeKind::Switch;
    match notice.trap_number() {
        TrapNumber::GID_IN..=TrapNumber::MCAST_DELETED => Err("only the SA issues this notice"),
        TrapNumber::LINK_STATE | TrapNumber::SWITCH_BAD_P_KEY if !is_switch => {
            Err("only switches send this trap")
        }
        TrapNumber::LINK_STATE if !owns(&subnet.plan, notice.link_state_lid(), sender) => {
            Err(OTHER_SUBJECT)
        }
        TrapNumber::LINK_INTEGRITY..=TrapNumber::FLOW_CONTROL
        | TrapNumber::LOCAL_CHANGES
        | TrapNumber::SYSTEM_GUID
            if !owns(&subnet.plan, notice.subject_lid(), sender) =>
        {
            Err(OTHER_SUBJECT)
        }
        _ => Ok(()),
    }
}

fn owns(plan: &Arc<Plan>, lid: Lid, sender: PortId) -> bool {
    lid == Lid(0) || plan.lids.port(lid) == Some(sender)
}

/// Checks that ProducerType is that of the device of `sender`. Firmware with another one exists, so
/// that this alone is no reason to ignore a changed link.
///
/// # Errors
/// The reason why the device is not the origin.
pub fn check_producer(
    subnet: &Subnet,
    sender: PortId,
    notice: &Notice,
) -> Result<(), &'static str> {
    let expected = producer_type(subnet.fabric.node_of(sender).kind());
    let is_plausible = !notice.is_generic() || notice.producer_type() == expected;
    if is_plausible { Ok(()) } else { Err("its producer type is not that of the device") }
}

/// ProducerType of the traps of a device (IBA vol. 1, 13.4.8.2).
fn producer_type(kind: NodeKind) -> u32 {
    match kind {
        NodeKind::Ca => 1,
        NodeKind::Switch => 2,
        NodeKind::Router => 3,
        NodeKind::Unknown(code) => code.into(),
    }
}
