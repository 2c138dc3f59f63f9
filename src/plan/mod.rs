//! Computes the desired state of a fabric (the [`Plan`]) from its observed state, the configuration
//! and the assignments that must stay as they are ([`lids::Memory`]).
//!
//! Nothing under `plan/` opens a file, reads a clock, sends a MAD or writes a log; messages for the
//! operator are returned as [`Note`]s. Planning is deterministic: equal input gives an equal plan
//! on any machine.
//!
//! * [`compute`]: the entry point, which runs the stages in order;
//! * [`lids`]: LID assignment, whose result is a [`LidTable`]; * [`links`]: the PortInfo of every port;
//! * [`partitions`]: P_Key tables;
//! * [`qos`]: SL to VL mapping and VL arbitration tables, and qos-policy.conf resolved for a
//!   fabric;
//! * [`routing`]: the routing engines, and the chain in which they are tried;
//! * [`idle_ports`]: ports that carry no data, while there is no acceptable plan;
//! * [`adaptive`]: groups of ports for adaptive routing;
//! * [`multicast`]: multicast forwarding tables; * [`aliases`]: GUID tables (alias GUIDs);
//! * [`mod@update`]: incremental planning after a small change of the fabric;
//! * [`mod@multicast_update`]: incremental planning after a change of multicast groups;

pub mod adaptive;
pub mod aliases;
pub mod compute;
pub mod idle_ports;
mod lid_table;
pub mod lids;
pub mod links;
pub mod multicast;
pub mod multicast_sls;
pub mod multicast_update;
pub mod partitions;
pub mod port_targets;
pub mod qos;
pub mod rate_limits;
pub mod routing;
#[cfg(test)]
pub(crate) mod tests;
pub mod update;

pub use lid_table::LidTable;

use crate::fabric::PortId;
use crate::ids::{Lid, Sl};
use crate::notes::Note;
use crate::wire::attr::SwitchInfo;
use std::sync::Arc;

/// The desired state of a fabric.
#[derive(Clone, Debug)]
pub struct Plan {
    pub lids: Arc<LidTable>,
    /// The PortInfo to set, by port slot, with [`crate::wire::attr::PortState::NoChange`] as port
    /// state; `None` for ports that are not programmed.
    pub ports: port_targets::PortTargets,
    /// The SwitchInfo to set, by switch.
    pub switch_infos: Vec<SwitchInfo>,
    /// Blocks of GUID tables, ascending by port and block.
    pub aliases: Vec<aliases::AliasBlock>,
    /// Blocks of GUID tables of vports, ascending by vport and block.
    pub vport_aliases: Vec<aliases::AliasBlock>,
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
    /// The SL of packets from an end port to a LID of another one. Packets to the LID of a vport have
    /// the SL of those to its physical port.
    pub fn path_sl(&self, source: PortId, destination: PortId, lid: Lid, hint: Sl) -> Sl {
        let lid = self.lids.route_lid(lid);
        self.routing.policy.path_sl_to_lid(source, destination, lid, hint)
    }

    /// Replaces tables by those of `other` that are equal. Comparisons of the two plans, and of
    /// plans that are derived from them, skip tables that both share. They take memory once.
    pub fn share_tables(&mut self, other: &Self) {
        self.ports.share_pages(&other.ports);
        self.qos.sl_to_vl.share_pages(&other.qos.sl_to_vl);
        self.qos.vl_arbitration.share_pages(&other.qos.vl_arbitration);
        self.partitions.blocks.share_pages(&other.partitions.blocks);
        self.partitions.keys.share_pages(&other.partitions.keys);
        self.partitions.enforcement.share_pages(&other.partitions.enforcement);
    }
}
