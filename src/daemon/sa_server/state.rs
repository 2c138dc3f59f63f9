//! The parts of the SA server's state.

use super::db_file::SaDbFile;
use super::request_queue::FairQueue;
use super::table_workers::TableWorkers;
use crate::config::options::Options;
use crate::daemon::activity::ActivityReport;
use crate::daemon::messages::SmEvent;
use crate::ids::{Guid, Lid};
use crate::manage::event::Event;
use crate::manage::feed::EventSender;
use crate::manage::offenders::{Offence, Offenders};
use crate::notes::counted;
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
use tracing::warn;

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

impl SnapshotState {
    /// The name of the node with a LID.
    pub(super) fn node_description(&self, lid: Lid) -> String {
        let subnet = self.subnet.as_ref();
        let port = subnet.and_then(|subnet| Some((subnet, subnet.plan.lids.port(lid)?)));
        port.map_or_else(
            || "unknown node".to_owned(),
            |(s, port)| s.fabric.node_of(port).name().to_string(),
        )
    }

    /// A port as `"node"[1]`, with its LID.
    pub(super) fn port_description(&self, lid: Lid) -> String {
        let subnet = self.subnet.as_ref();
        let port = subnet.and_then(|subnet| Some((subnet, subnet.plan.lids.port(lid)?)));
        let Some((subnet, port)) = port else { return format!("LID {lid}") };
        let name = subnet.fabric.node_of(port).name();
        let num = subnet.fabric.port(port).num;
        format!("\"{name}\"[{num}], LID {lid}")
    }
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
    /// The generation of alias GUIDs that the SM loop knows.
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

/// Subscriptions of a queue pair that does not respond to reports.
pub(super) struct EndedSubscriptions {
    pub(super) subscriber: Guid,
    pub(super) qpn: u32,
    pub(super) count: usize,
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

impl MisuseCounts {
    /// Counts and logs subscriptions of a queue pair that ended because it did not respond to reports.
    pub(super) fn subscriptions_ended(
        &mut self,
        ended: &EndedSubscriptions,
        snapshots: &SnapshotState,
        feed: &EventSender,
    ) {
        let EndedSubscriptions { subscriber, qpn, count } = *ended;
        self.ended_subscriptions += count as u64;
        let port = snapshots.subnet.as_ref().and_then(|subnet| {
            let port = subnet.fabric.port_by_guid(subscriber)?;
            let lid = subnet.plan.lids.base_or_zero(port);
            Some((lid, subnet.fabric.node_of(port).name().to_string()))
        });
        let (lid, description) = port.unwrap_or((Lid(0), String::new()));
        self.offenders.count(lid, Offence::SilentSubscriber, count as u64);
        warn!(
            "{} of port {subscriber} (LID {lid}, {description}), QP {qpn}, ended: it responds to no \
             report (sa_max_subscriber_silence)",
            counted(count, "event subscription", "event subscriptions")
        );
        let guid = subscriber.to_string();
        let lid = lid.0;
        let subscriptions = count as u64;
        feed.send(Event::SubscriptionsEnded { guid, lid, description, qpn, subscriptions });
    }
}
