//! Observation of the fabric: sweeps, and the intake of traps that report changes.
//!
//! * [`discovery_state`]: nodes and cables while they are being collected; `discovery_snapshot`: its
//!   conversion from and into a [`Fabric`];
//! * `discovery_queries`: the queries of a sweep, and the order in which evidence is taken;
//!   `query`, `query_fault`, `evidence`, `unanswered`, `node_info`: their parts;
//! * [`heavy`]: the heavy sweep, which queries all devices;
//! * [`focused`]: the focused sweep after a trap, which queries only changed switches and takes the
//!   rest from the last snapshot. A light sweep confirms it, but rerouting does not wait for that;
//! * [`light`]: the light sweep, a periodic query to each switch whether anything changed;
//! * [`backoff`]: growing delays between attempts at devices that fail;
//! * [`link_health`]: links that flap or report errors; [`quarantine`]: removes them from a
//!   snapshot;
//! * `duplicates`: asks devices with the same GUID again;
//! * `extended_ports`: ExtendedPortInfo of Mellanox devices;
//! * [`local_changes`]: queries of the attributes that traps 144 and 145 report as changed;
//! * [`m_keys`]: the M_Keys that ports hold; `discovery_keys`: those of a sweep's queries;
//! * [`traps`]: deduplication and rate limit of traps;
//! * [`unresponsive`]: devices that do not answer although nothing shows that they are gone.
//!
//! Sweeps only send Gets. A node that does not answer, or answers with invalid data, becomes a
//! [`DiscoveryFault`](crate::fabric::DiscoveryFault) of the snapshot and never ends a sweep.

pub mod backoff;
mod discovery_keys;
mod discovery_pkeys;
mod discovery_queries;
mod discovery_snapshot;
pub mod discovery_state;
mod duplicates;
mod evidence;
mod extended_ports;
pub mod focused;
pub mod heavy;
pub mod light;
pub mod link_health;
pub mod local_changes;
pub mod m_keys;
mod node_info;
pub mod quarantine;
mod query;
mod query_fault;
pub mod recent_snapshots;
pub mod traps;
mod unanswered;
pub mod unresponsive;

use crate::config::options::Options;
use crate::fabric::node_names::NodeNames;
use crate::fabric::virtual_ports::VirtualPorts;
use crate::fabric::{Fabric, PortId};
use crate::ids::Guid;
use crate::wire::attr::SmInfo;
use crate::wire::attr::tables::PkeyTable;
use std::sync::Arc;
use unresponsive::KnownDevices;

/// The configuration of sweeps.
#[derive(Clone, Debug, Default)]
pub struct SweepSettings {
    /// Names that replace the descriptions of nodes.
    pub names: Arc<NodeNames>,
    /// Read ExtendedPortInfo of Mellanox devices.
    pub reads_extended_ports: bool,
    /// Port GUID of an SM that has not answered its polls. It is asked twice more and given up when
    /// both queries stall: a takeover does not wait for the timeout of an SM that is known to be
    /// silent.
    pub silent_manager: Option<Guid>,
    /// The devices that stay in the snapshot if they do not answer a heavy sweep and nothing shows
    /// that they are gone; `None` if no device is known from before.
    pub known: Option<KnownDevices>,
}

impl SweepSettings {
    /// The settings with these options and the names of the node name map.
    pub fn new(options: &Options, names: Arc<NodeNames>) -> Self {
        Self { names, reads_extended_ports: options.fdr10 > 0, silent_manager: None, known: None }
    }
}

/// The result of a sweep.
#[derive(Clone, Debug)]
pub struct Observation {
    pub fabric: Arc<Fabric>,
    /// P_Key tables of the devices by port slot, for end ports and for switch ports that face them;
    /// empty for other ports and for devices that did not answer.
    pub pkeys: Arc<Vec<PkeyTable>>,
    /// Other subnet managers: their ports and SMInfo.
    pub managers: Vec<(PortId, SmInfo)>,
    /// GUIDs of switches with PortStateChange set, which apply clears.
    pub changed_switches: Vec<Guid>,
    /// Switches whose PortStateChange was set in earlier sweeps since the last light sweep. It reads
    /// the ports of these and of `changed_switches` again, and empties both lists.
    pub unconfirmed: Vec<Guid>,
    /// A focused sweep did not wait for a device that is silent.
    pub is_unresolved: bool,
}

impl Observation {
    /// Adds the vports to the snapshot.
    pub fn set_virtual_ports(&mut self, virtual_ports: &Arc<VirtualPorts>) {
        let known = self.fabric.virtual_ports();
        if !Arc::ptr_eq(known, virtual_ports) && known != virtual_ports {
            Arc::make_mut(&mut self.fabric).set_virtual_ports(virtual_ports.clone());
        }
    }

    /// The switches whose PortStateChange was set in this sweep or in earlier ones since the last
    /// light sweep, each once.
    pub fn to_confirm(&self) -> Vec<Guid> {
        let mut switches = [&self.unconfirmed[..], &self.changed_switches].concat();
        switches.sort_unstable();
        switches.dedup();
        switches
    }
}

/// A failure of the local port, without which there is no sweep.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SweepError {
    #[error("the local port does not answer NodeInfo: {0}")]
    LocalUnresponsive(String),
    #[error("the local port answers NodeInfo with {0}")]
    LocalInvalidAnswer(String),
    #[error("the link of the local port is down")]
    LocalDown,
    /// The port hides its M_Key and refuses Sets.
    #[error("the local port is protected by an unknown M_Key")]
    LocalProtected,
    /// The port does not send: its device failed or was removed.
    #[error("the local port is lost: {0}")]
    LocalLost(String),
    /// A focused sweep found another device at the end of a known route: cables were moved.
    #[error("cables were moved: {0}")]
    RoutesOutdated(String),
}
