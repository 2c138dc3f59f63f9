//! Multicast groups → multicast forwarding tables.

use super::routing::PortMask;
use crate::fabric::PortId;
use crate::ids::Mlid;

/// The multicast forwarding tables of a fabric.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MulticastTables {
    /// By switch: (MLID, ports), ascending by MLID, only non-empty masks.
    pub by_switch: Vec<Vec<(Mlid, PortMask)>>,
}

/// A group as the registry gives it to the plan: several groups may share an MLID.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupMembers {
    /// The group's MLID.
    pub mlid: Mlid,
    /// Ports that receive (full and non members) or send (send-only members): all get a branch.
    pub members: Vec<PortId>,
}
