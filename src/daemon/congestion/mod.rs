//! Configures congestion control: a task that reads and writes the settings of switches and channel
//! adapters after each published subnet.
//!
//! It sends through an agent and a window of its own (`cc_max_outstanding_mads`), so that neither
//! sweeps nor SA answers wait for it. [`crate::congestion`] decides which requests are due; `round`
//! sends them, `failures` logs devices that are not configured.

mod failures;
mod round;

use crate::congestion::devices::{CongestionDevices, SeenDevice};
use crate::congestion::settings::CongestionSettings;
use crate::congestion::status::CongestionStatus;
use crate::ids::Guid;
use crate::manage::event::Event;
use crate::manage::feed::EventSender;
use crate::publish::Subnet;
use crate::transport::gsi::{GsiClient, GsiTimeouts};
use arc_swap::ArcSwap;
use failures::CongestionFailureLog;
use round::CongestionPass;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tracing::info;

/// Least time between a round and one that tries failed devices again.
const MIN_PAUSE: Duration = Duration::from_secs(1);

/// The connections to the rest of the daemon.
pub struct CongestionConnections {
    pub client: GsiClient,
    /// The published subnet; `None` while this SM is not master of a configured subnet.
    pub subnet: watch::Receiver<Option<Arc<Subnet>>>,
    /// The status for readers, stored after each change.
    pub published: Arc<ArcSwap<CongestionStatus>>,
    pub events: EventSender,
}

/// The task that configures congestion control.
pub struct CongestionManager {
    connections: CongestionConnections,
    devices: CongestionDevices,
    status: CongestionStatus,
    /// The subnet to which the last round belonged.
    last: Option<Arc<Subnet>>,
}

impl CongestionManager {
    pub fn new(connections: CongestionConnections) -> Self {
        let devices = CongestionDevices::default();
        let status = CongestionStatus::default();
        Self { connections, devices, status, last: None }
    }

    /// Runs until the daemon ends.
    pub async fn run(mut self) {
        let mut subnets = self.connections.subnet.clone();
        loop {
            let subnet = subnets.borrow_and_update().clone();
            self.update(subnet, &subnets).await;
            let now = Instant::now();
            let retry = self.devices.next_retry().map(|retry| retry.max(now + MIN_PAUSE));
            tokio::select! {
                changed = subnets.changed() => if changed.is_err() { return },
                () = sleep_until(retry.unwrap_or(now)), if retry.is_some() => {}
            }
        }
    }

    /// Brings the devices of a subnet to their settings.
    async fn update(
        &mut self,
        subnet: Option<Arc<Subnet>>,
        subnets: &watch::Receiver<Option<Arc<Subnet>>>,
    ) {
        let settings = subnet.as_ref().and_then(|subnet| CongestionSettings::new(&subnet.options));
        let Some((subnet, settings)) = subnet.zip(settings) else {
            self.stop();
            return;
        };
        if !self.last.as_ref().is_some_and(|last| has_same_devices(last, &subnet)) {
            self.devices.observe(settings, subnet.generation, seen_devices(&subnet));
        }
        self.last = Some(subnet.clone());
        let due = self.devices.due(Instant::now());
        self.status.is_enabled = true;
        self.status.is_busy = !due.is_empty();
        self.publish();
        if !due.is_empty() {
            self.round(&subnet, due, subnets.clone()).await;
        }
    }

    /// Forgets the devices: other programs may configure them now. Devices keep their settings.
    fn stop(&mut self) {
        if self.last.take().is_some() {
            self.devices.clear();
            self.status = CongestionStatus {
                gets: self.status.gets,
                sets: self.status.sets,
                unanswered: self.status.unanswered,
                refused: self.status.refused,
                ..CongestionStatus::default()
            };
            self.publish();
        }
    }

    fn publish(&mut self) {
        self.status.devices = self.devices.counts();
        self.connections.published.store(Arc::new(self.status));
    }

    /// Sends the requests to these devices, until all are done or a newer subnet has other settings
    /// or none.
    async fn round(
        &mut self,
        subnet: &Arc<Subnet>,
        due: Vec<Guid>,
        subnets: watch::Receiver<Option<Arc<Subnet>>>,
    ) {
        let timeouts = GsiTimeouts {
            timeout: Duration::from_millis(subnet.options.transaction_timeout.into()),
            retries: subnet.options.transaction_retries,
        };
        let batch = self.connections.client.batch(timeouts);
        let mut failures = CongestionFailureLog::default();
        let round = CongestionPass::new(subnet, &mut self.devices, &mut failures, due);
        let figures = round.run(batch, subnets).await;
        failures.log(subnet);
        let last = figures.round;
        self.status.gets += last.gets;
        self.status.sets += last.sets;
        self.status.unanswered += figures.unanswered;
        self.status.refused += figures.refused;
        self.status.last_round = Some(last);
        self.status.is_busy = false;
        self.publish();
        if last.sets > 0 {
            let counts = self.status.devices;
            info!(
                "congestion control: {} of {} devices configured, {} Sets, {} Gets in {:.3} s",
                counts.configured,
                counts.all,
                last.sets,
                last.gets,
                last.duration.as_secs_f64()
            );
        }
        self.connections.events.send(Event::CongestionConfigured {
            duration_seconds: last.duration.as_secs_f64(),
            devices: last.devices,
            gets: last.gets,
            sets: last.sets,
            failed: last.failed,
        });
    }
}

/// True if two subnets have the same devices with the same settings, as after a change of
/// multicast groups.
fn has_same_devices(a: &Arc<Subnet>, b: &Arc<Subnet>) -> bool {
    Arc::ptr_eq(&a.fabric, &b.fabric)
        && Arc::ptr_eq(&a.options, &b.options)
        && Arc::ptr_eq(&a.restarts, &b.restarts)
}

/// The end ports of a subnet that have a LID.
fn seen_devices(subnet: &Subnet) -> impl Iterator<Item = SeenDevice> + '_ {
    let fabric = &subnet.fabric;
    let ports = fabric.end_ports().filter(|&port| subnet.plan.lids.base(port).is_some());
    ports.map(|port| SeenDevice {
        port_guid: fabric.port(port).guid,
        kind: fabric.node_of(port).kind(),
        restarted: subnet.restarts.last(fabric.node_of(port).guid()),
    })
}
