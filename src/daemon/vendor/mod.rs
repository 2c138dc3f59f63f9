//! Vendor-specific attributes: a task that asks devices for their capabilities after each published
//! subnet, writes groups of ports for adaptive routing (`adaptive`), and the rate limits of ports (`rates`).
//! The SM loop holds the groups while it writes plain tables (`gate`).
//!
//! It sends few SMPs at a time, so that neither sweeps nor programming wait for it: one to a device,
//! repeated at most once. [`crate::vendor`] decides which requests are due.

mod adaptive;
mod rates;

use crate::config::options::VendorAttributes;
use crate::daemon::sm_loop::vendor_gate::{GateCommand, GateReceiver};
use crate::ids::Guid;
use crate::notes::{Note, counted};
use crate::observe::m_keys::MKeys;
use crate::publish::Subnet;
use crate::transport::client::SmpClient;
use crate::transport::tagged::Tagged;
use crate::transport::transactions::SmpResult;
use crate::vendor::nodes::{VendorNodes, capability_request};
use crate::vendor::rates::RateLimiter;
use crate::vendor::status::{CapabilityAnswer, VendorStatus};
use crate::wire::smp::DirectedRoute;
use crate::wire::vendor::facts::GENERAL_INFO_CAPABILITIES;
use adaptive::AdaptiveState;
use arc_swap::ArcSwap;
use std::sync::Arc;
use tokio::sync::watch;
use tracing::{debug, info};

/// Requests in flight.
const WINDOW: usize = 4;
/// Requests per second.
const RATE: u32 = 5_000;
/// Repetitions of an unanswered request.
const MAX_RETRIES: u32 = 1;

/// The connections to the rest of the daemon.
pub struct VendorConnections {
    pub client: SmpClient,
    /// The published subnet; `None` while this SM is not master of a configured subnet.
    pub subnet: watch::Receiver<Option<Arc<Subnet>>>,
    /// The M_Keys that ports hold.
    pub m_keys: Arc<ArcSwap<MKeys>>,
    /// The status for readers, stored after each change.
    pub published: Arc<ArcSwap<VendorStatus>>,
    /// Commands of the SM loop.
    pub gate: GateReceiver,
}

/// The task that reads the capabilities of devices.
pub struct VendorManager {
    connections: VendorConnections,
    nodes: VendorNodes,
    adaptive: AdaptiveState,
    rates: RateLimiter,
    /// Findings about the rate limits that the log has.
    noted: Vec<Note>,
    /// Ports with rate limits that do not support them.
    incapable: usize,
    gets: u64,
    /// A log line has told that the numbers of these attributes are not confirmed.
    has_warned: bool,
    /// The SM loop writes plain tables, so that no group may change.
    is_held: bool,
}

impl VendorManager {
    pub fn new(connections: VendorConnections) -> Self {
        let client = connections.client.paced(WINDOW, RATE).with_retries(MAX_RETRIES);
        let connections = VendorConnections { client, ..connections };
        Self {
            connections,
            nodes: VendorNodes::default(),
            adaptive: AdaptiveState::default(),
            rates: RateLimiter::default(),
            noted: Vec::new(),
            incapable: 0,
            gets: 0,
            has_warned: false,
            is_held: false,
        }
    }

    /// Runs until the daemon ends.
    pub async fn run(mut self) {
        let mut subnets = self.connections.subnet.clone();
        loop {
            let subnet = subnets.borrow_and_update().clone();
            self.update(subnet, &mut subnets).await;
            let mut is_due = false;
            while !is_due || self.is_held {
                tokio::select! {
                    changed = subnets.changed() => {
                        if changed.is_err() {
                            return;
                        }
                        is_due = true;
                        // Without a subnet there is nothing to hold.
                        self.is_held &= subnets.borrow().is_some();
                    }
                    Some(command) = self.connections.gate.commands.recv() => {
                        is_due |= self.is_held;
                        self.obey(command).await;
                    }
                }
            }
        }
    }

    /// Executes a command of the SM loop.
    async fn obey(&mut self, command: GateCommand) {
        match command {
            GateCommand::Hold(reply) => {
                self.is_held = true;
                // The SM loop may have given up waiting.
                let _ = reply.send(self.adaptive.hold());
            }
            GateCommand::SwitchOff { fabric, switches, reply } => {
                let left = self.switch_off(&fabric, &switches).await;
                let _ = reply.send(left);
            }
            GateCommand::Release => self.is_held = false,
        }
    }

    /// The next answer of a batch; commands are executed meanwhile.
    async fn next_answer<T: Copy>(&mut self, batch: &mut Tagged<T>) -> Option<(T, SmpResult)> {
        loop {
            tokio::select! {
                biased;
                Some(command) = self.connections.gate.commands.recv() => self.obey(command).await,
                result = batch.next() => return result,
            }
        }
    }

    /// Asks the devices of a subnet that were not asked since they joined it.
    async fn update(
        &mut self,
        subnet: Option<Arc<Subnet>>,
        subnets: &mut watch::Receiver<Option<Arc<Subnet>>>,
    ) {
        let Some(subnet) = subnet.clone().filter(is_used) else {
            if let Some(subnet) = subnet {
                self.end_adaptive(&subnet, subnets).await;
            }
            self.nodes = VendorNodes::default();
            self.rates = RateLimiter::default();
            self.adaptive = AdaptiveState::default();
            self.connections.gate.set_in_use(false);
            drop(self.connections.gate.take_baseline());
            let status = VendorStatus { gets: self.gets, ..VendorStatus::default() };
            self.connections.published.store(Arc::new(status));
            return;
        };
        self.nodes.observe(&subnet.fabric, |guid| subnet.restarts.last(guid));
        let due: Vec<Guid> = self.nodes.due().collect();
        self.publish(due.len());
        if !due.is_empty() {
            self.ask(&subnet, due, subnets).await;
        }
        self.adapt(&subnet, subnets).await;
        self.set_rates(&subnet).await;
        self.publish(self.nodes.due().count());
    }

    /// Asks these nodes, while this SM is master and uses vendor-specific attributes.
    async fn ask(
        &mut self,
        subnet: &Subnet,
        due: Vec<Guid>,
        subnets: &mut watch::Receiver<Option<Arc<Subnet>>>,
    ) {
        let fabric = &subnet.fabric;
        let client = self.connections.client.clone();
        let keys = self.connections.m_keys.load_full();
        let mut batch = Tagged::new(&client);
        let mut left = due.len();
        for guid in due {
            let Some(node) = fabric.node_by_guid(guid) else { continue };
            let route = fabric.node(node).route;
            let key = keys.at_end(fabric, &route);
            batch.submit(guid, capability_request(route).with_m_key(key));
        }
        let mut counts = AnswerCounts::default();
        let mut newest = None;
        loop {
            tokio::select! {
                biased;
                changed = subnets.changed() => {
                    newest = subnets.borrow_and_update().clone();
                    if changed.is_err() || !newest.as_ref().is_some_and(is_used) {
                        newest = None;
                        subnets.mark_changed();
                        break;
                    }
                }
                Some(command) = self.connections.gate.commands.recv() => self.obey(command).await,
                result = batch.next() => {
                    let Some((guid, result)) = result else { break };
                    self.gets += 1;
                    left = left.saturating_sub(1);
                    let is_lost = result.is_err()
                        && newest.as_ref().is_some_and(|newest| has_moved(guid, subnet, newest));
                    if !is_lost && let Some(answer) = self.nodes.answered(guid, &result) {
                        counts.add(answer);
                        debug!("GeneralInfo of node GUID {guid}: {answer:?}");
                    }
                }
            }
        }
        if newest.is_some() {
            subnets.mark_changed();
        }
        self.publish(left);
        self.log(&counts);
    }

    fn publish(&self, waiting: usize) {
        let nodes = self.nodes.answers();
        let status = VendorStatus {
            is_enabled: true,
            waiting,
            nodes,
            gets: self.gets,
            rates: self.rates.counts(),
            adaptive: self.adaptive.counts(),
            adaptive_switches: self.adaptive.states(),
            groups: self.adaptive.target().cloned(),
        };
        self.connections.published.store(Arc::new(status));
    }

    fn log(&mut self, counts: &AnswerCounts) {
        if counts.all == 0 {
            return;
        }
        info!(
            "GeneralInfo: {} asked for vendor-specific capabilities: {} answered, {} without \
             support, {} did not answer or refused",
            counted(counts.all, "device", "devices"),
            counts.answered,
            counts.unsupported,
            counts.failed
        );
        if counts.answered > 0 && !self.has_warned {
            self.has_warned = true;
            info!(
                "vendor-specific attributes are experimental: their numbers are {}, and not \
                 confirmed on hardware; vendor_attributes off sends none",
                GENERAL_INFO_CAPABILITIES.certainty
            );
        }
    }
}

fn is_used(subnet: &Arc<Subnet>) -> bool {
    subnet.options.vendor_attributes == VendorAttributes::Auto
}

/// True if a newer subnet reaches a node by another route, so that a request by the old one may have
/// been lost.
fn has_moved(guid: Guid, old: &Subnet, newer: &Subnet) -> bool {
    route_to(old, guid) != route_to(newer, guid)
}

fn route_to(subnet: &Subnet, guid: Guid) -> Option<DirectedRoute> {
    let fabric = &subnet.fabric;
    fabric.node_by_guid(guid).map(|node| fabric.node(node).route)
}

/// Answers of a round.
#[derive(Default)]
struct AnswerCounts {
    all: usize,
    answered: usize,
    unsupported: usize,
    failed: usize,
}

impl AnswerCounts {
    fn add(&mut self, answer: CapabilityAnswer) {
        self.all += 1;
        *match answer {
            CapabilityAnswer::Capabilities(_) => &mut self.answered,
            CapabilityAnswer::Unsupported => &mut self.unsupported,
            CapabilityAnswer::Unanswered | CapabilityAnswer::Refused(_) => &mut self.failed,
        } += 1;
    }
}
