//! The server's side: its inputs from the daemon.

use super::action::Control;
use super::earlier_ports::EarlierPorts;
use super::feed::EventReceiver;
use super::loop_status::LoopStatus;
use super::sa_query::SaQuery;
use crate::congestion::status::CongestionStatus;
use crate::ids::Guid;
use crate::incidents::book::IncidentList;
use crate::perfmgr::status::PerfStatus;
use crate::vendor::status::VendorStatus;
use crate::vendor::virtual_ports::VirtualStatus;
use arc_swap::ArcSwap;
use std::sync::Arc;
use tokio::sync::watch;

/// Sends a query to the SA server; false if it has ended, or too many commands are on their way.
pub type SaQueryFn = Box<dyn Fn(SaQuery) -> bool + Send + Sync>;

/// The inputs of the server, from the daemon.
pub struct ManageSources {
    /// GUID of the SM's port, which names the socket.
    pub port_guid: Guid,
    pub live: LiveSources,
    pub events: EventReceiver,
    /// Ports that an earlier run has seen.
    pub earlier: Arc<EarlierPorts>,
}

/// The parts of the daemon that requests are answered from.
pub struct LiveSources {
    pub status: Arc<ArcSwap<LoopStatus>>,
    /// The port counters.
    pub perf: Arc<ArcSwap<PerfStatus>>,
    pub congestion: Arc<ArcSwap<CongestionStatus>>,
    /// Vendor-specific capabilities of the nodes.
    pub vendor: Arc<ArcSwap<VendorStatus>>,
    /// Vports of adapter ports.
    pub virtual_ports: Arc<ArcSwap<VirtualStatus>>,
    /// The incidents, also of a standby, which has none.
    pub incidents: watch::Receiver<Arc<IncidentList>>,
    pub query_sa: SaQueryFn,
    pub control: Arc<dyn Control>,
}
