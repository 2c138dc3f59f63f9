//! Plans, proves and writes groups of ports to switches with adaptive routing.
//!
//! Planning and proof run on a low-priority thread; the plain forwarding tables, which the SM loop has
//! written before, have the static routes meanwhile. When the subnet changes, the work in progress ends
//! after the requests in flight, and begins again with the new subnet.

use super::VendorManager;
use crate::config::options::Options;
use crate::daemon::process::priority::spawn_low_priority;
use crate::daemon::sm_loop::baseline_cache::CarriedBaseline;
use crate::fabric::Fabric;
use crate::ids::{Guid, Lid};
use crate::notes::{Note, Severity, counted, on_or_off};
use crate::observe::m_keys::MKeys;
use crate::plan::Plan;
use crate::plan::adaptive::modes::AdaptiveModes;
use crate::plan::adaptive::{AdaptiveGroups, GroupsInput};
use crate::plan::routing::{PortMask, Routing};
use crate::publish::Subnet;
use crate::transport::tagged::Tagged;
use crate::transport::transactions::SmpRequest;
use crate::vendor::adaptive::failure::AdaptiveFailure;
use crate::vendor::adaptive::running::RunningTables;
use crate::vendor::adaptive::switch::AdaptiveRequest;
use crate::vendor::adaptive::target::{AdaptiveSettings, AdaptiveTarget};
use crate::vendor::adaptive::{AdaptiveCounts, AdaptiveSwitchState, AdaptiveSwitches};
use crate::vendor::nodes::VendorNodes;
use crate::verify::Checks;
use crate::verify::adaptive::coexistence::CoexistingTables;
use crate::verify::adaptive::prove;
use crate::verify::baseline::VerifiedBaseline;
use crate::wire::attr::AttrId;
use crate::wire::smp::SmpRoute;
use crate::wire::vendor::capabilities::Capabilities;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tokio::sync::watch;
use tracing::{debug, error, info, warn};

/// Requests in flight; one to a switch.
const WINDOW: usize = 32;
/// Requests per second.
const RATE: u32 = 50_000;
/// Switches that a log line names; the others are counted.
const MAX_NAMED: usize = 16;
/// All transports that ARInfo names.
const ALL_TRANSPORTS: u8 = 0xF;

type SubnetReceiver = watch::Receiver<Option<Arc<Subnet>>>;

/// What the task knows of adaptive routing.
#[derive(Default)]
pub(super) struct AdaptiveState {
    switches: AdaptiveSwitches,
    target: Option<AdaptiveTarget>,
    /// What the target was made for, once the switches have it.
    done: Option<AdaptiveInputs>,
    /// Findings that the log has.
    noted: Vec<Note>,
    /// The counts and modes of the last log line.
    logged: Option<(AdaptiveModes, AdaptiveCounts)>,
    /// Switches without the capability when the log was told last.
    incapable: usize,
}

/// The parts of a subnet on which groups depend. Later subnets share them if only multicast groups have
/// changed.
struct AdaptiveInputs {
    fabric: Arc<Fabric>,
    routing: Arc<Routing>,
    options: Arc<Options>,
}

impl AdaptiveInputs {
    fn of(subnet: &Subnet) -> Self {
        let Subnet { fabric, plan, options, .. } = subnet;
        let routing = plan.routing.clone();
        Self { fabric: fabric.clone(), routing, options: options.clone() }
    }

    fn are_those_of(&self, subnet: &Subnet) -> bool {
        Arc::ptr_eq(&self.fabric, &subnet.fabric)
            && Arc::ptr_eq(&self.routing, &subnet.plan.routing)
            && (Arc::ptr_eq(&self.options, &subnet.options) || self.options == subnet.options)
    }
}

/// The groups that switches hold, and the number that they can hold.
struct GroupTables {
    before: HashMap<Guid, Vec<PortMask>>,
    capacity: HashMap<Guid, u16>,
}

impl AdaptiveState {
    fn group_tables(&self) -> GroupTables {
        let mut tables = GroupTables { before: HashMap::new(), capacity: HashMap::new() };
        for guid in self.switches.guids() {
            let Some(switch) = self.switches.get(guid) else { continue };
            let held = switch.held_groups().iter().map(|&ports| PortMask(ports)).collect();
            tables.before.insert(guid, held);
            tables.capacity.insert(guid, switch.group_cap());
        }
        tables
    }

    pub(super) fn counts(&self) -> AdaptiveCounts {
        self.switches.counts()
    }

    pub(super) fn states(&self) -> BTreeMap<Guid, AdaptiveSwitchState> {
        self.switches.states()
    }

    /// Ends the work in progress; it begins again with the next subnet. Returns the tables in force.
    pub(super) fn hold(&mut self) -> RunningTables {
        self.done = None;
        self.switches.hold()
    }

    /// The groups in force, or on their way to the switches.
    pub(super) fn target(&self) -> Option<&AdaptiveTarget> {
        self.target.as_ref()
    }
}

impl VendorManager {
    /// Brings the switches of a subnet to their groups. Returns early when there is a newer subnet.
    pub(super) async fn adapt(&mut self, subnet: &Arc<Subnet>, subnets: &mut SubnetReceiver) {
        let baseline = self.connections.gate.take_baseline();
        if self.adaptive.done.as_ref().is_some_and(|done| done.are_those_of(subnet)) {
            return;
        }
        if self.is_held {
            return;
        }
        self.adaptive.done = None;
        let fabric = &subnet.fabric;
        let modes = AdaptiveModes::of(&subnet.options, subnet.plan.routing.engine);
        let mut capable = Vec::new();
        for switch in fabric.switch_ids() {
            let guid = fabric.switch(switch).guid();
            if self.nodes.capabilities(guid).has(Capabilities::ADAPTIVE_ROUTING) {
                capable.push((guid, subnet.restarts.last(guid)));
            }
        }
        self.warn_of_static_switches(modes, fabric.switches().len(), capable.len());
        let is_none = capable.is_empty();
        self.connections.gate.set_in_use(!is_none);
        self.adaptive.switches.observe(capable.into_iter());
        if is_none {
            self.adaptive.target = None;
            return;
        }
        // ARInfo of all, and the groups of those that are running.
        self.send_adaptive(fabric, Some(subnets)).await;
        if self.is_out_of_date(subnets) {
            return;
        }
        let target = if modes.needs_groups() {
            self.plan_groups(subnet, modes, baseline).await
        } else {
            None
        };
        if self.is_out_of_date(subnets) {
            return;
        }
        self.prepare(subnet, target.as_ref()).await;
        if self.is_out_of_date(subnets) {
            return;
        }
        self.adaptive.switches.set_target(target.as_ref());
        self.adaptive.target = target;
        self.publish(0);
        self.send_adaptive(fabric, Some(subnets)).await;
        if !self.is_out_of_date(subnets) {
            self.adaptive.done = Some(AdaptiveInputs::of(subnet));
            let is_static =
                self.adaptive.target.is_none() && self.adaptive.switches.running().is_empty();
            self.connections.gate.set_in_use(!is_static);
        }
        self.log_adaptive(modes);
    }

    /// Switches adaptive routing off before vendor-specific attributes are given up.
    pub(super) async fn end_adaptive(&mut self, subnet: &Subnet, subnets: &SubnetReceiver) {
        self.adaptive.switches.set_target(None);
        self.send_adaptive(&subnet.fabric, Some(subnets)).await;
    }

    /// Switches adaptive routing off in these switches. Returns those that may still be on.
    pub(super) async fn switch_off(&mut self, fabric: &Fabric, guids: &[Guid]) -> Vec<Guid> {
        self.adaptive.switches.switch_off(guids);
        self.send_adaptive(fabric, None).await;
        let running = self.adaptive.switches.running();
        running.guids().filter(|guid| guids.contains(guid)).collect()
    }

    /// Switches adaptive routing off where the groups in force and those of a target together may let packets
    /// circle. The plain tables of all switches have the static routes of the target.
    async fn prepare(&mut self, subnet: &Arc<Subnet>, target: Option<&AdaptiveTarget>) {
        let running = self.adaptive.switches.running();
        let Some(target) = target.filter(|_| !running.is_empty()).cloned() else { return };
        let all: Vec<Guid> = self.adaptive.switches.guids().collect();
        let of = subnet.clone();
        let found = spawn_low_priority(move || to_switch_off(&of, &running, &target, &all)).await;
        let guids = found.unwrap_or_else(|problem| {
            error!("adaptive routing is switched off, because a check failed: {problem}");
            self.adaptive.switches.guids().collect()
        });
        if guids.is_empty() {
            return;
        }
        let switches = counted(guids.len(), "switch forwards", "switches forward");
        info!("adaptive routing: {switches} by static tables while groups change");
        self.switch_off(&subnet.fabric, &guids).await;
    }

    /// True if there is a newer subnet, or the SM loop is about to write plain tables.
    fn is_out_of_date(&self, subnets: &SubnetReceiver) -> bool {
        self.is_held
            || !self.connections.gate.commands.is_empty()
            || subnets.has_changed().unwrap_or(true)
    }

    fn warn_of_static_switches(&mut self, modes: AdaptiveModes, all: usize, capable: usize) {
        let incapable = if modes.needs_groups() { all - capable } else { 0 };
        if incapable > 0 && incapable != self.adaptive.incapable {
            let switches = counted(incapable, "switch does", "switches do");
            warn!(
                "adaptive routing: {switches} not announce revised tables of adaptive routing \
                 (GeneralInfo, bit {}): their forwarding stays static",
                Capabilities::ADAPTIVE_ROUTING
            );
        }
        self.adaptive.incapable = incapable;
    }

    /// The groups for the routes of a subnet that are proven; `None` if the proof panicked.
    async fn plan_groups(
        &mut self,
        subnet: &Arc<Subnet>,
        modes: AdaptiveModes,
        baseline: Option<CarriedBaseline<VerifiedBaseline>>,
    ) -> Option<AdaptiveTarget> {
        let GroupTables { before, capacity } = self.adaptive.group_tables();
        let of = subnet.clone();
        let baseline = match baseline {
            Some(carried) => carried.made().await,
            None => None,
        };
        let mut proven = spawn_low_priority(move || {
            let fabric = &of.fabric;
            let input = GroupsInput {
                fabric,
                plan: &of.plan,
                before: &|switch| {
                    before.get(&fabric.switch(switch).guid()).cloned().unwrap_or_default()
                },
                capacity: &|switch| {
                    capacity.get(&fabric.switch(switch).guid()).copied().unwrap_or(0)
                },
            };
            let checks = Checks::of(&of.options);
            match baseline {
                Some(known) => known.prove_groups(fabric, &of.plan, &checks, input.groups()),
                None => prove(fabric, &of.plan, &checks, input.groups()),
            }
        });
        let result = loop {
            tokio::select! {
                biased;
                Some(command) = self.connections.gate.commands.recv() => self.obey(command).await,
                result = &mut proven => break result,
            }
        };
        let Ok(proven) = result else {
            error!(
                "adaptive routing: planning groups failed, all switches forward by static tables"
            );
            return None;
        };
        self.note_groups(&subnet.fabric, &proven.groups, proven.notes);
        let options = &subnet.options;
        let fabric = subnet.fabric.clone();
        let plan = subnet.plan.clone();
        let settings = settings(options, modes);
        let target =
            AdaptiveTarget::new(fabric.clone(), plan.clone(), proven.groups, settings, |lid| {
                reorders(&plan, &fabric, options, &self.nodes, lid)
            });
        Some(target)
    }

    /// Logs findings about groups when they change.
    fn note_groups(&mut self, fabric: &Fabric, groups: &AdaptiveGroups, mut notes: Vec<Note>) {
        // Switches without adaptive routing have no groups and are counted elsewhere.
        let limited = groups.limited.iter().map(|&switch| fabric.switch(switch));
        let limited: Vec<_> = limited
            .filter(|node| {
                let switch = self.adaptive.switches.get(node.guid());
                switch.is_some_and(|switch| switch.group_cap() > 0)
            })
            .collect();
        if let Some(first) = limited.first() {
            let switches = counted(limited.len(), "switch has", "switches have");
            notes.push(Note::warning(format!(
                "{switches} more groups than the table holds, such as \"{}\": the most used ones are \
                 written, other entries stay static",
                first.name()
            )));
        }
        if self.adaptive.noted != notes {
            for note in &notes {
                match note.severity {
                    Severity::Info => info!("adaptive routing: {}", note.text),
                    _ => warn!("adaptive routing: {}", note.text),
                }
            }
            self.adaptive.noted = notes;
        }
    }

    /// Sends the requests to all switches, one at a time to each, until there are none or a newer subnet.
    /// With `subnets`, no more are sent when this work is out of date.
    async fn send_adaptive(&mut self, fabric: &Fabric, subnets: Option<&SubnetReceiver>) {
        let keys = self.connections.m_keys.load_full();
        let client = self.connections.client.paced(WINDOW, RATE);
        let mut batch = Tagged::new(&client);
        let mut failed: BTreeMap<AdaptiveFailure, Vec<Guid>> = BTreeMap::new();
        let due: Vec<Guid> = self.adaptive.switches.guids().collect();
        for guid in due {
            if let Some(request) = self.next_adaptive(fabric, &keys, guid) {
                batch.submit(guid, request);
            }
        }
        while let Some((guid, result)) = batch.next().await {
            if let Some(failure) = self.adaptive.switches.answered(guid, &result) {
                failed.entry(failure).or_default().push(guid);
            }
            if subnets.is_some_and(|subnets| self.is_out_of_date(subnets)) {
                // What was not sent is planned anew.
                continue;
            }
            if let Some(request) = self.next_adaptive(fabric, &keys, guid) {
                batch.submit(guid, request);
            }
        }
        for (failure, guids) in &failed {
            log_failure(fabric, *failure, guids);
        }
    }

    fn next_adaptive(&mut self, fabric: &Fabric, keys: &MKeys, guid: Guid) -> Option<SmpRequest> {
        let node = fabric.node_by_guid(guid)?;
        let AdaptiveRequest { attr_id, modifier, set } = self.adaptive.switches.request(guid)?;
        let route = SmpRoute::Directed(fabric.node(node).route);
        let request = match set {
            Some(data) => SmpRequest::set(route, attr_id, modifier, data),
            None => SmpRequest::get(route, attr_id, modifier),
        };
        debug!("{} of {guid}, modifier {modifier}", AttrId::name(attr_id));
        Some(request.with_m_key(keys.at_end(fabric, &fabric.node(node).route)))
    }

    fn log_adaptive(&mut self, modes: AdaptiveModes) {
        let counts = self.adaptive.counts();
        let logged = Some((modes, counts));
        if self.adaptive.logged == logged || self.adaptive.logged.is_none() && !modes.needs_groups()
        {
            return;
        }
        self.adaptive.logged = logged;
        info!(
            "adaptive routing (experimental, not confirmed on hardware) is {}, local repair {}: {} \
             with {}, {} static after a failure",
            on_or_off(modes.routing),
            on_or_off(modes.healing),
            counted(counts.configured, "switch", "switches"),
            counted(counts.groups, "group", "groups"),
            counted(counts.failed, "switch", "switches")
        );
    }
}

fn reorders(
    plan: &Arc<Plan>,
    fabric: &Fabric,
    options: &Options,
    nodes: &VendorNodes,
    lid: Lid,
) -> bool {
    let node = plan.lids.port(lid).map(|port| fabric.node_of(port).guid());
    let capabilities = node.map(|node| nodes.capabilities(node));
    !options.enable_ar_by_device_cap
        || capabilities.is_some_and(|known| known.has(Capabilities::OUT_OF_ORDER))
}

/// The running switches that must forward by their plain tables while they are brought to a target.
fn to_switch_off(
    subnet: &Subnet,
    running: &RunningTables,
    target: &AdaptiveTarget,
    all: &[Guid],
) -> Vec<Guid> {
    let fabric = &subnet.fabric;
    let lids: Vec<Lid> = running.changed_lids(target).into_iter().collect();
    let both = running.with_target(target, all);
    let by_switch = both.of(fabric);
    let tables = &subnet.plan.routing.lfts;
    let before = tables.iter().map(|table| Some(&**table)).collect();
    let found = CoexistingTables::new(fabric, before, tables, &|switch, lid| {
        by_switch.choices(switch, lid)
    })
    .to_switch_off(&lids);
    let found = found.into_iter().map(|switch| fabric.switch(switch).guid());
    found.filter(|guid| running.is_known(*guid)).collect()
}

fn settings(options: &Options, modes: AdaptiveModes) -> AdaptiveSettings {
    AdaptiveSettings {
        routing: modes.routing,
        healing: modes.healing,
        sl_mask: options.ar_sl_mask,
        excluded_transports: !options.ar_transport_mask & ALL_TRANSPORTS,
    }
}

fn log_failure(fabric: &Fabric, failure: AdaptiveFailure, guids: &[Guid]) {
    let mut names = guids
        .iter()
        .take(MAX_NAMED)
        .map(|&guid| match fabric.node_by_guid(guid) {
            Some(node) => format!("\"{}\"", fabric.node(node).name()),
            None => guid.to_string(),
        })
        .collect::<Vec<_>>()
        .join(", ");
    if let Some(others) = guids.len().checked_sub(MAX_NAMED).filter(|&others| others > 0) {
        names += &format!(" and {others} others");
    }
    let switches = counted(guids.len(), "switch", "switches");
    let remedy = match failure {
        AdaptiveFailure::Unanswered(_) => "are asked again with the next change of the subnet",
        _ => "stay so until they restart",
    };
    error!(
        "adaptive routing: {failure} by {switches}: {names}; they forward by static tables, and {remedy}"
    );
}
