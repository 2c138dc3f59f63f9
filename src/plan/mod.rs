//! Computes the desired state of a fabric (the [`Plan`]) from its observed state, the configuration
//! and the assignments that must stay as they are ([`lids::Memory`]).
//!
//! Nothing under `plan/` opens a file, reads a clock, sends a MAD or writes a log; messages for the
//! operator are returned as [`Note`]s. Planning is deterministic: equal input gives an equal plan
//! on any machine.
//!
//! * [`compute`]: the entry point, which runs the stages in order;
//! * [`lids`]: LID assignment; * [`links`]: the PortInfo of every port;
//! * [`partitions`]: P_Key tables;
//! * [`qos`]: SL to VL mapping and VL arbitration tables, and qos-policy.conf resolved for a
//!   fabric;
//! * [`routing`]: the routing engines, and the chain in which they are tried;
//! * [`idle_ports`]: ports that carry no data, while there is no acceptable plan;
//! * [`multicast`]: multicast forwarding tables; * [`aliases`]: GUID tables (alias GUIDs);
//! * [`mod@update`]: incremental planning after a small change of the fabric;
//! * [`mod@multicast_update`]: incremental planning after a change of multicast groups;

pub mod aliases;
pub mod compute;
pub mod idle_ports;
mod interned;
pub mod lids;
pub mod links;
pub mod multicast;
pub mod multicast_sls;
pub mod multicast_update;
pub mod partitions;
pub mod qos;
pub mod rate_limits;
pub mod routing;
#[cfg(test)]
pub(crate) mod tests;
pub mod update;

use crate::fabric::{Fabric, PortId};
use crate::ids::Lid;
use crate::notes::Note;
use crate::paged_vec::PagedVec;
use crate::wire::attr::{PortInfo, SwitchInfo};
use std::sync::Arc;

/// The LIDs of all end ports, by port and by LID.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LidTable {
    /// Base LID (0: none) and LMC, by port slot.
    by_port: Vec<(Lid, u8)>,
    by_lid: Vec<Option<PortId>>,
}

impl LidTable {
    /// Creates an empty table for a fabric with `ports` port slots.
    pub fn new(ports: usize) -> Self {
        Self { by_port: vec![(Lid(0), 0); ports], by_lid: Vec::new() }
    }

    /// Assigns the 2^`lmc` LIDs from `base` on to `port`. They must be free.
    pub fn assign(&mut self, port: PortId, base: Lid, lmc: u8) {
        self.by_port[port.index()] = (base, lmc);
        let range = base.index()..base.index() + (1 << lmc);
        if self.by_lid.len() < range.end {
            self.by_lid.resize(range.end, None);
        }
        debug_assert!(self.by_lid[range.clone()].iter().all(Option::is_none));
        self.by_lid[range].fill(Some(port));
    }

    /// The base LID of an end port; `None` if no LID is assigned.
    pub fn base(&self, port: PortId) -> Option<Lid> {
        let (base, _) = *self.by_port.get(port.index())?;
        (base.0 != 0).then_some(base)
    }

    /// The LMC of an end port (0 to 7).
    pub fn lmc(&self, port: PortId) -> u8 {
        self.by_port.get(port.index()).map_or(0, |&(_, lmc)| lmc)
    }

    /// The base LID of `port`, or of port 0 if `port` is an external switch port.
    pub fn base_of_owner(&self, fabric: &Fabric, port: PortId) -> Option<Lid> {
        let node = fabric.node_of(port);
        self.base(if node.is_switch() { node.first_port } else { port })
    }

    /// The end port that owns a LID.
    pub fn port(&self, lid: Lid) -> Option<PortId> {
        self.by_lid.get(lid.index()).copied().flatten()
    }

    /// The highest assigned LID; 0 if no LID is assigned.
    pub fn max(&self) -> Lid {
        Lid(self.by_lid.len().saturating_sub(1) as u16)
    }

    /// All assigned LIDs with their ports, ascending by LID.
    pub fn iter(&self) -> impl Iterator<Item = (Lid, PortId)> + '_ {
        let used = self.by_lid.iter().enumerate();
        used.filter_map(|(lid, port)| port.map(|port| (Lid(lid as u16), port)))
    }
}

/// The desired state of a fabric.
#[derive(Clone, Debug)]
pub struct Plan {
    pub lids: Arc<LidTable>,
    /// The PortInfo to set, by port slot, with [`crate::wire::attr::PortState::NoChange`] as port
    /// state; `None` for ports that are not programmed.
    pub ports: PagedVec<Option<PortInfo>>,
    /// The SwitchInfo to set, by switch.
    pub switch_infos: Vec<SwitchInfo>,
    /// Blocks of GUID tables, ascending by port and block.
    pub aliases: Vec<aliases::AliasBlock>,
    /// Unicast routes and the policy of the engine that computed them.
    pub routing: Arc<routing::Routing>,
    /// SL to VL mapping and VL arbitration tables.
    pub qos: qos::QosTables,
    /// P_Key tables and P_Key enforcement.
    pub partitions: partitions::PartitionTables,
    pub multicast: Arc<multicast::MulticastTables>,
    /// Messages for the operator, in the order of the stages.
    pub notes: Vec<Note>,
}

impl Plan {
    /// Replaces tables by those of `other` that are equal. Comparisons of the two plans, and of
    /// plans that are derived from them, skip tables that both share.
    pub fn share_tables(&mut self, other: &Self) {
        self.ports.share_pages(&other.ports);
        self.qos.sl_to_vl.share_pages(&other.qos.sl_to_vl);
        self.qos.vl_arbitration.share_pages(&other.qos.vl_arbitration);
        self.partitions.blocks.share_pages(&other.partitions.blocks);
        self.partitions.keys.share_pages(&other.partitions.keys);
        self.partitions.enforcement.share_pages(&other.partitions.enforcement);
    }
}
