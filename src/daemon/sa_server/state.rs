//! The parts of the SA server's state.

use super::db_file::SaDbFile;
use super::request_queue::FairQueue;
use super::table_workers::TableWorkers;
use crate::config::options::Options;
use crate::daemon::activity::ActivityReport;
use crate::daemon::messages::SmEvent;
use crate::ids::Lid;
use crate::manage::feed::EventSender;
use crate::manage::offenders::Offenders;
use crate::publish::Subnet;
use crate::sa::PathIndex;
use crate::sa::counters::DropReason;
use crate::sa::registry::replica::Importer;
use crate::transport::MadPort;
use crate::transport::demux::Inbound;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The snapshots that requests are answered from.
pub(super) struct SnapshotState {
    pub(super) published: watch::Receiver<Option<Arc<Subnet>>>,
    /// The one in use.
    pub(super) subnet: Option<Arc<Subnet>>,
    /// Indexes the snapshot that will replace `subnet`.
    pub(super) indexing: Option<JoinHandle<(Arc<Subnet>, PathIndex)>>,
    /// The configuration of the last snapshot.
    pub(super) options: Option<Arc<Options>>,
}

/// Requests that wait or are being answered.
pub(super) struct RequestState {
    pub(super) queue: FairQueue,
    pub(super) table_workers: TableWorkers,
    /// The read requests of the present batch. A field only to reuse its memory.
    pub(super) reads: Vec<Inbound>,
}

/// The state of the registry outside of the responder.
pub(super) struct RegistryState {
    pub(super) db_file: SaDbFile,
    /// The generation of alias GUIDs that the manager knows.
    pub(super) alias_generation: u64,
    /// The registry of the master that this SM stands by for.
    pub(super) importer: Importer,
    /// Time at which registrations of absent ports end.
    pub(super) absence_end: Option<Instant>,
}

/// Destinations of replies, events and reports.
pub(super) struct SaOutputs {
    pub(super) port: Arc<dyn MadPort>,
    pub(super) events: mpsc::UnboundedSender<SmEvent>,
    /// Events for the management interface.
    pub(super) feed: EventSender,
    /// Wakes the sessions with other instances when registrations have changed.
    pub(super) replicas: watch::Sender<()>,
    /// `None` in tests of the server alone.
    pub(super) activity: Option<Arc<ActivityReport>>,
}

/// Requests and clients that got no service.
#[derive(Default)]
pub(super) struct MisuseCounts {
    /// Number of requests received while this SM was not master of a configured subnet.
    pub(super) ignored_requests: u64,
    /// Subscriptions that ended because their queue pairs did not respond.
    pub(super) ended_subscriptions: u64,
    pub(super) offenders: Arc<Offenders>,
    /// Forged requests by source that the log has.
    pub(super) logged_forgeries: BTreeMap<(Lid, DropReason), u64>,
}
