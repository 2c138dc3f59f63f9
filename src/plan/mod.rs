//! What SHOULD BE, computed from what is, the configuration and what must stay as it was.
//!
//! Nothing under `plan/` opens a file, reads a clock, draws a random number, sends a MAD or
//! writes a log: what the operator is to hear comes back as [`Note`]s. The same input gives the
//! same plan on any machine.
//!
//! * [`compute`]: the entry, which calls the others in order;
//! * [`lids`]: LID assignment; * [`links`]: the PortInfo of every port;
//! * [`partitions`]: P_Key tables;
//! * [`qos`]: SL to VL mapping and VL arbitration tables, and qos-policy.conf resolved for a fabric;
//! * [`routing`]: the engines, and the chain in which they are tried;
//! * [`multicast`]: groups → multicast forwarding tables; * [`aliases`]: GUID tables;
//! * [`paged_vec`]: tables of which plans share what did not change; [`mod@update`]: a plan after a small
//!   change of the fabric; [`mod@multicast_update`]: after a change of groups.

pub mod aliases;
pub mod compute;
pub mod lids;
pub mod links;
pub mod multicast;
pub mod multicast_update;
pub mod paged_vec;
pub mod partitions;
pub mod qos;
pub mod routing;
#[cfg(test)]
mod tests;
pub mod update;

use crate::fabric::{Fabric, PortId};
use crate::ids::Lid;
use crate::notes::Note;
use crate::wire::attr::{PortInfo, SwitchInfo};
use paged_vec::PagedVec;
use std::sync::Arc;

/// Which LIDs belong to whom.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LidTable {
    /// By port slot: base LID (0: none) and LMC.
    by_port: Vec<(Lid, u8)>,
    /// By LID.
    by_lid: Vec<Option<PortId>>,
}

impl LidTable {
    /// A table without any LID for a fabric of `ports` port slots.
    pub fn new(ports: usize) -> Self {
        Self { by_port: vec![(Lid(0), 0); ports], by_lid: Vec::new() }
    }

    /// Gives `port` the 2^`lmc` LIDs from `base` on, which must be free.
    pub fn assign(&mut self, port: PortId, base: Lid, lmc: u8) {
        self.by_port[port.index()] = (base, lmc);
        let range = base.index()..base.index() + (1 << lmc);
        if self.by_lid.len() < range.end {
            self.by_lid.resize(range.end, None);
        }
        debug_assert!(self.by_lid[range.clone()].iter().all(Option::is_none));
        self.by_lid[range].fill(Some(port));
    }

    /// The base LID of an end port; `None` if it has none.
    pub fn base(&self, port: PortId) -> Option<Lid> {
        let (base, _) = *self.by_port.get(port.index())?;
        (base.0 != 0).then_some(base)
    }

    /// The LMC of an end port.
    pub fn lmc(&self, port: PortId) -> u8 {
        self.by_port.get(port.index()).map_or(0, |&(_, lmc)| lmc)
    }

    /// Base LID of the switch or end port that `port` belongs to.
    pub fn base_of_owner(&self, fabric: &Fabric, port: PortId) -> Option<Lid> {
        let node = fabric.node_of(port);
        self.base(if node.is_switch() { node.first_port } else { port })
    }

    /// The end port a LID belongs to.
    pub fn port(&self, lid: Lid) -> Option<PortId> {
        self.by_lid.get(lid.index()).copied().flatten()
    }

    /// The highest LID in use; 0 if there is none.
    pub fn max(&self) -> Lid {
        Lid(self.by_lid.len().saturating_sub(1) as u16)
    }

    /// All LIDs in use with their ports, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (Lid, PortId)> + '_ {
        let used = self.by_lid.iter().enumerate();
        used.filter_map(|(lid, port)| port.map(|port| (Lid(lid as u16), port)))
    }
}

/// Everything the fabric should be.
#[derive(Clone, Debug)]
pub struct Plan {
    /// LIDs of all end ports.
    pub lids: Arc<LidTable>,
    /// By port slot: the PortInfo to be set, with [`crate::wire::attr::PortState::NoChange`] as its
    /// state; `None` where nothing is to be set.
    pub ports: PagedVec<Option<PortInfo>>,
    /// By switch: the SwitchInfo to be set.
    pub switch_infos: Vec<SwitchInfo>,
    /// Blocks of GUID tables, ascending by port and block.
    pub aliases: Vec<aliases::AliasBlock>,
    /// Unicast routes, and what depends on them.
    pub routing: Arc<routing::Routing>,
    /// SL to VL and VL arbitration tables.
    pub qos: qos::QosTables,
    /// P_Key tables.
    pub partitions: partitions::PartitionTables,
    /// Multicast forwarding tables.
    pub multicast: Arc<multicast::MulticastTables>,
    /// What the operator is to hear, in order.
    pub notes: Vec<Note>,
}
