//! Virtual ports (SR-IOV): a task that discovers the vports of adapter ports after each published
//! subnet, and makes them ACTIVE once a published subnet has their P_Keys.
//!
//! ```text
//! subnet ─► discover ─► VirtualPorts ─► SM loop plans P_Keys, LIDs ─► subnet ─► P_Keys, LID, ACTIVE
//! ```
//!
//! A new master discovers the ports that are in INIT before their fabric is planned (`early`).
//!
//! Descriptions of vnodes are read when the vports are ACTIVE. Ports that fail are tried again ([`retries`]).
//!
//! Before the first plan of a new master, `takeover` reads the LIDs that vports have from the last one.
//!
//! Traps of vports and a poll every `sweep_interval` make it look for changes. Only ports that announce
//! virtualization get requests, and none does with `virt_enabled 0`.

mod activate;
mod client;
mod describe;
mod discover;
mod dump;
pub mod early;
mod in_process;
mod report;
mod retries;
pub mod takeover;
mod targets;

use crate::config::options::{ActivitySubjects, Options, VendorAttributes};
use crate::daemon::activity::ActivityReport;
use crate::daemon::messages::{FirstSweep, SmEvent, VportTrap};
use crate::fabric::Fabric;
use crate::fabric::virtual_ports::VirtualPorts;
use crate::ids::Guid;
use crate::observe::m_keys::MKeys;
use crate::publish::Subnet;
use crate::transport::client::SmpClient;
use crate::vendor::virtual_ports::{
    DisabledPorts, DiscoveryScope, MadeSnapshots, ManagedPort, ManagedPorts, ManagedVport,
    VirtualFailure, VirtualStatus, snapshot,
};
use crate::wire::attr::{AttrId, PortState};
use crate::wire::vendor::facts::TRAP_VPORT_STATE;
use activate::activate;
use arc_swap::ArcSwap;
use client::PortClients;
use discover::{DiscoveredVports, DiscoveryExtent, disable, discover};
use dump::DumpWriter;
use early::is_early;
use futures_util::stream::StreamExt;
use in_process::{handle_while_waiting, in_process};
use report::VportLog;
use retries::Retries;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use targets::{find_vports_without_lid, targets};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

/// Repetitions of an unanswered request.
const MAX_RETRIES: u32 = 2;
/// Time until a vport that changed while it was activated is read again.
const REREAD_PAUSE: Duration = Duration::from_millis(100);
/// Time from the activation of vports until their vnodes are read, while the fabric comes up.
const DESCRIPTION_PAUSE: Duration = Duration::from_secs(1);
/// `virt_enabled`: disable virtualization where it is enabled.
const DISABLE: u8 = 1;
/// `virt_enabled`: enable virtualization.
const ENABLE: u8 = 2;

/// The connections to the rest of the daemon.
pub struct VirtualPortConnections {
    pub client: SmpClient,
    /// The published subnet; `None` while this SM is not master of a configured subnet.
    pub subnet: watch::Receiver<Option<Arc<Subnet>>>,
    /// The fabric before the first plan; `None` while this SM is not master.
    pub first_sweep: watch::Receiver<Option<Arc<FirstSweep>>>,
    /// The M_Keys that ports hold.
    pub m_keys: Arc<ArcSwap<MKeys>>,
    /// The vports with which the SM loop plans.
    pub virtual_ports: Arc<ArcSwap<VirtualPorts>>,
    pub events: mpsc::UnboundedSender<SmEvent>,
    pub traps: mpsc::Receiver<VportTrap>,
    pub activity: Arc<ActivityReport>,
    /// The status for readers, stored after each change.
    pub published: Arc<ArcSwap<VirtualStatus>>,
    /// The directory of `virt_dump_file`.
    pub dump_dir: PathBuf,
}

/// The task that manages vports.
pub struct VirtualPortManager {
    connections: VirtualPortConnections,
    ports: ManagedPorts,
    /// The physical ports at which this SM activated vports, by the GUID of the vport.
    homes: FxHashMap<Guid, Guid>,
    dump: DumpWriter,
    /// `virt_enabled` when the ports were discovered; `None` while this SM does not manage vports.
    mode: Option<u8>,
    /// The fabric of which vports were discovered before the first plan.
    first_sweep: Option<Arc<FirstSweep>>,
    /// When missing descriptions are read.
    describe_at: Option<Instant>,
    retries: Retries,
    requests: Arc<AtomicU64>,
    activations: u64,
    log: VportLog,
}

impl VirtualPortManager {
    pub fn new(connections: VirtualPortConnections) -> Self {
        let client = connections.client.with_retries(MAX_RETRIES).woken_at_end();
        Self {
            connections: VirtualPortConnections { client, ..connections },
            ports: ManagedPorts::default(),
            homes: FxHashMap::default(),
            dump: DumpWriter::default(),
            mode: None,
            first_sweep: None,
            describe_at: None,
            retries: Retries::new(),
            requests: Arc::default(),
            activations: 0,
            log: VportLog::default(),
        }
    }

    /// Runs until the daemon ends.
    pub async fn run(mut self) {
        let mut subnets = self.connections.subnet.clone();
        let mut first_sweeps = self.connections.first_sweep.clone();
        let mut next_poll: Option<Instant> = None;
        loop {
            let subnet = subnets.borrow_and_update().clone();
            let first_sweep = first_sweeps.borrow_and_update().clone();
            match (subnet, first_sweep) {
                (Some(subnet), _) if is_used(&subnet.options) => {
                    let has_outdated = self.update(&subnet).await;
                    let period = Duration::from_secs(subnet.options.sweep_interval.into());
                    let is_polled = !period.is_zero() && !self.ports.0.is_empty();
                    next_poll =
                        is_polled.then(|| next_poll.unwrap_or_else(|| Instant::now() + period));
                    if has_outdated {
                        sleep(REREAD_PAUSE).await;
                        continue;
                    }
                }
                (None, Some(first_sweep)) if is_early(&first_sweep) => {
                    self.discover_early(first_sweep).await;
                    next_poll = None;
                }
                _ => {
                    self.forget();
                    next_poll = None;
                }
            }
            tokio::select! {
                changed = subnets.changed() => if changed.is_err() { return },
                changed = first_sweeps.changed() => if changed.is_err() { return },
                trap = self.connections.traps.recv() => match trap {
                    Some(trap) => self.trap(trap),
                    None => return,
                },
                () = sleep_until(self.describe_at.unwrap_or_else(Instant::now)),
                    if self.describe_at.is_some() => {}
                () = sleep_until(next_poll.unwrap_or_else(Instant::now)), if next_poll.is_some() => {
                    next_poll = None;
                    self.ports.request_polls();
                }
            }
        }
    }

    /// Requests a discovery of the port that sent a trap.
    fn trap(&mut self, trap: VportTrap) {
        let subnet = self.connections.subnet.borrow().clone();
        let Some(subnet) = subnet else { return };
        let Some(port) = subnet.plan.lids.port(trap.lid) else { return };
        let guid = subnet.fabric.port(port).guid;
        let is_state = trap.number == TRAP_VPORT_STATE.value;
        let scope = if is_state { DiscoveryScope::Changes } else { DiscoveryScope::Full };
        self.ports.request(guid, scope);
    }

    /// This SM does not manage vports.
    fn forget(&mut self) {
        // What `takeover` read stays until the first subnet.
        if self.mode.take().is_some() {
            self.store(VirtualPorts::default());
        }
        self.homes.clear();
        self.ports = ManagedPorts::default();
        self.first_sweep = None;
        self.describe_at = None;
        self.log.forget_failures();
        self.publish(false);
    }

    /// The vports as they are now, without those whose GUIDs are in use.
    fn snapshot(&self) -> VirtualPorts {
        let before = self.connections.virtual_ports.load_full();
        self.ports.snapshot(&before, &MadeSnapshots::new()).0
    }

    /// Keeps the vports for the plans of the SM loop. True if they are others than before.
    fn keep(&self, virtual_ports: VirtualPorts) -> bool {
        let is_changed = **self.connections.virtual_ports.load() != virtual_ports;
        if is_changed {
            self.connections.virtual_ports.store(Arc::new(virtual_ports));
        }
        is_changed
    }

    /// Lets the SM loop plan again.
    fn request_plan(&self) {
        // The loop ends with the daemon.
        let _ = self.connections.events.send(SmEvent::VirtualPortsChanged);
    }

    /// Gives the vports to the SM loop, which plans again if they are others.
    fn store(&self, virtual_ports: VirtualPorts) {
        if self.keep(virtual_ports) {
            self.request_plan();
        }
    }

    /// Discovers what is due, and activates what the subnet has planned. True if a vport changed while
    /// it was activated.
    async fn update(&mut self, subnet: &Arc<Subnet>) -> bool {
        let describe_at = self.describe_at.take();
        let mode = subnet.options.virt_enabled;
        if self.mode.replace(mode) != Some(mode) {
            self.ports = ManagedPorts::default();
        }
        let has_changed = self.ports.observe(&subnet.fabric, |guid| subnet.restarts.last(guid));
        if self.retries.are_due(&subnet.options) {
            self.ports.request_retries();
        }
        let due = self.ports.due();
        if mode == DISABLE {
            self.disable(subnet, due).await;
            self.store(VirtualPorts::default());
            self.publish(true);
            return false;
        }
        let keys = self.connections.m_keys.load_full();
        let none = DisabledPorts::default();
        let made = self.discover(&subnet.fabric, &subnet.options, keys, &none).await;
        if (has_changed || !due.is_empty()) && self.keep_discovered(&made) {
            self.request_plan();
        }
        // Arcs, of which equal ones are mostly the same.
        let is_planned =
            self.connections.virtual_ports.load_full() == *subnet.fabric.virtual_ports();
        let has_outdated = self.activate(subnet).await;
        if is_planned || describe_at.is_some() {
            self.describe(subnet, describe_at).await;
        }
        self.log.failures(&subnet.fabric, &self.ports);
        self.publish(true);
        if let Some(file) = &subnet.options.virt_dump_file {
            let dump_dir = &self.connections.dump_dir;
            self.dump.write(dump_dir, file, &subnet.fabric, &self.ports).await;
        }
        has_outdated
    }

    fn clients(&self, fabric: &Arc<Fabric>, keys: Arc<MKeys>) -> PortClients {
        let client = self.connections.client.clone();
        PortClients { client, fabric: fabric.clone(), keys, requests: self.requests.clone() }
    }

    /// Disables virtualization where another subnet manager has enabled it.
    async fn disable(&mut self, subnet: &Subnet, due: Vec<(Guid, DiscoveryScope)>) {
        let clients = self.clients(&subnet.fabric, self.connections.m_keys.load_full());
        let ports = due.into_iter().filter_map(|(guid, _)| {
            let client = clients.of_port(guid)?;
            Some(async move { (guid, disable(&client).await) })
        });
        let disabled: Vec<_> = in_process(ports, &subnet.options).collect().await;
        for (guid, result) in disabled {
            if let Some(port) = self.ports.0.get_mut(&guid) {
                port.due = None;
                port.failure = result.err();
            }
        }
        self.log.failures(&subnet.fabric, &self.ports);
    }

    /// Discovers the ports that are due, a bounded number at a time.
    /// Returns the vports of those that have answered. `disabled`: ports of which VirtualizationInfo is known.
    async fn discover(
        &mut self,
        fabric: &Arc<Fabric>,
        options: &Options,
        keys: Arc<MKeys>,
        disabled: &DisabledPorts,
    ) -> MadeSnapshots {
        // The activity report names the vnodes.
        let with_vnodes = self.connections.activity.wants(ActivitySubjects::VIRTUALIZATION);
        let clients = self.clients(fabric, keys);
        let ports = self.ports.due().into_iter().filter_map(|(guid, scope)| {
            let client = clients.of_port(guid)?;
            let known = self.ports.0.get(&guid)?;
            let info = disabled.get(&guid).copied().filter(|_| !known.was_tried);
            let extent = DiscoveryExtent { scope, info, with_vnodes };
            Some(async move { (guid, scope, discover(&client, known, extent).await) })
        });
        let mut results = Vec::new();
        handle_while_waiting(in_process(ports, options), |(guid, scope, found)| {
            let made = found.map(|found| {
                let found = found?.without_taken_guids(fabric, guid);
                Some((Arc::new(snapshot(found.top_index, &found.vports)), found))
            });
            results.push((guid, scope, made));
        })
        .await;
        let mut counts = report::DiscoveryCounts::default();
        let mut made = MadeSnapshots::new();
        for (guid, scope, result) in results {
            let Some(port) = self.ports.0.get_mut(&guid) else { continue };
            port.due = None;
            port.was_tried = true;
            match result {
                Ok(None) => {}
                Ok(Some((snapshot, found))) => {
                    made.insert(guid, snapshot);
                    counts.add(scope, &found);
                    let DiscoveredVports { top_index, vports, .. } = found;
                    let now = ManagedPort { top_index, vports, failure: None, ..*port };
                    let before = std::mem::replace(port, now);
                    report::discovered(&self.connections.activity, guid, &before, port);
                }
                Err(failure) => port.failure = Some(failure),
            }
        }
        self.log.discovery(&counts);
        made
    }

    /// Keeps what a discovery found, without vports whose GUIDs are in use, for the plans of the SM loop.
    /// True if it differs from what was known.
    fn keep_discovered(&mut self, made: &MadeSnapshots) -> bool {
        let before = self.connections.virtual_ports.load_full();
        let (snapshot, duplicates) = self.ports.snapshot(&before, made);
        self.ports.clear_duplicates();
        for (port, index) in duplicates {
            self.fail_duplicate(port, index);
        }
        self.keep(snapshot)
    }

    /// A GUID that another vport has: it may have moved from there, which is asked for changes.
    fn fail_duplicate(&mut self, port: Guid, index: u16) {
        let managed = self.ports.0.get_mut(&port).and_then(|port| port.vports.get_mut(&index));
        let Some(managed) = managed else { return };
        let guid = managed.vport.guid;
        managed.failure = Some(VirtualFailure::DuplicateGuid(guid));
        let holder = self.connections.virtual_ports.load().by_guid(guid).map(|(port, _)| port);
        if let Some(holder) = holder {
            self.ports.request(holder, DiscoveryScope::Changes);
        }
    }

    /// Brings vports to the state that a subnet has planned for them. True if one changed meanwhile.
    async fn activate(&mut self, subnet: &Arc<Subnet>) -> bool {
        let clients = self.clients(&subnet.fabric, self.connections.m_keys.load_full());
        let guids: Vec<Guid> = self.ports.0.keys().copied().collect();
        let ports = guids.into_iter().filter_map(|guid| {
            let port = self.ports.0.get_mut(&guid)?;
            find_vports_without_lid(subnet, guid, port);
            let targets = targets(subnet, guid, port, &self.homes);
            if targets.is_empty() {
                return None;
            }
            let client = clients.of_port(guid)?;
            // They come back with what was acknowledged.
            let mut vports = std::mem::take(&mut port.vports);
            Some(async move {
                let changed = activate(&client, &mut vports, &targets).await;
                (guid, vports, changed)
            })
        });
        let reached: Vec<_> = in_process(ports, &subnet.options).collect().await;
        let activated = reached.iter().map(|(.., changed)| changed.len()).sum();
        report::log_activation(activated);
        self.activations += activated as u64;
        let mut has_outdated = false;
        for (guid, vports, changed) in reached {
            has_outdated |= self.activated(guid, vports, &changed);
        }
        let snapshot = self.snapshot();
        // The same vports with what they hold now: the plan stays.
        self.keep(snapshot);
        has_outdated
    }

    /// Takes over the vports of a port as its device has acknowledged them. `changed`: those that became
    /// ACTIVE. True if one has another GUID than when it was discovered.
    fn activated(
        &mut self,
        guid: Guid,
        vports: BTreeMap<u16, ManagedVport>,
        changed: &[u16],
    ) -> bool {
        let Some(port) = self.ports.0.get_mut(&guid) else { return false };
        port.vports = vports;
        let mut has_outdated = false;
        for managed in port.vports.values_mut().filter(is_outdated) {
            managed.failure = None;
            managed.is_known = false;
            // A vport of unknown state is read again.
            managed.info.set_state(PortState::NoChange);
            port.due = port.due.max(Some(DiscoveryScope::Changes));
            has_outdated = true;
        }
        let active = port.vports.values().filter(|managed| managed.is_known);
        self.homes.extend(active.map(|managed| (managed.vport.guid, guid)));
        if port.vports.values().any(is_silent) {
            port.failure = Some(VirtualFailure::Unanswered(AttrId::VPORT_INFO));
        }
        report::activated(&self.connections.activity, guid, port, changed);
        has_outdated
    }

    /// Reads the vnodes and descriptions that are not known: at `due`, or [`DESCRIPTION_PAUSE`] from now.
    async fn describe(&mut self, subnet: &Subnet, due: Option<Instant>) {
        if !self.ports.0.values().any(is_missing) {
            return;
        }
        let now = Instant::now();
        let due = due.unwrap_or(now + DESCRIPTION_PAUSE);
        if due > now {
            self.describe_at = Some(due);
            return;
        }
        let clients = self.clients(&subnet.fabric, self.connections.m_keys.load_full());
        let of_port = |(&guid, port): (&Guid, &ManagedPort)| {
            if !is_missing(port) {
                return None;
            }
            let client = clients.of_port(guid)?;
            let mut vports = port.vports.clone();
            Some(async move {
                let read = describe::describe(&client, &mut vports).await;
                (guid, vports, read)
            })
        };
        let ports = self.ports.0.iter().filter_map(of_port);
        let described: Vec<_> = in_process(ports, &subnet.options).collect().await;
        for (guid, vports, read) in described {
            let Some(port) = self.ports.0.get_mut(&guid) else { continue };
            port.vports = vports;
            port.failure = read.err();
        }
        let snapshot = self.snapshot();
        self.store(snapshot);
    }

    fn publish(&self, is_enabled: bool) {
        self.connections.published.store(Arc::new(VirtualStatus {
            is_enabled,
            ports: self.ports.status(),
            requests: self.requests.load(Ordering::Relaxed),
            activations: self.activations,
        }));
    }
}

fn is_missing(port: &ManagedPort) -> bool {
    let mut vports = port.vports.values();
    port.failure.is_none() && vports.any(|vport| !vport.is_described && vport.failure.is_none())
}

fn is_silent(managed: &ManagedVport) -> bool {
    matches!(managed.failure, Some(VirtualFailure::Unanswered(_)))
}

fn is_outdated(managed: &&mut ManagedVport) -> bool {
    managed.failure == Some(VirtualFailure::GuidChanged)
}

fn is_used(options: &Options) -> bool {
    options.vendor_attributes == VendorAttributes::Auto
        && [DISABLE, ENABLE].contains(&options.virt_enabled)
}
