//! One pass through the stages: plan, verify, apply, publish. `decision`: what a planning came to;
//! `groups`: a short pass where only multicast groups changed.

mod decision;
mod groups;

use super::files::Files;
use super::groundwork::Groundwork;
use super::partitions::Partitions;
use super::planning::Order;
use super::policy::{Ground, Policy};
use super::priority::spawn_behind;
use super::sa_desk::Errand;
use super::scribe::{Job, Scribe};
use super::surroundings::Surroundings;
use super::tell;
use super::transitions::Transitions;
use crate::apply::{Acknowledged, ApplyReport, apply};
use crate::config::files;
use crate::config::options::Options;
use crate::config::partitions::PartitionsConfig;
use crate::config::prefix_routes::PrefixRoute;
use crate::fabric::{Fabric, PortId};
use crate::notes::{Note, Severity};
use crate::observe::{Observation, SweepError};
use crate::plan::Plan;
use crate::plan::aliases::AliasBlock;
use crate::plan::lids::Memory;
use crate::plan::multicast::GroupMembers;
use crate::plan::qos::policy::EffectivePolicy;
use crate::publish::Subnet;
use crate::publish::refused::Refused;
use crate::transport::client::SmpClient;
use crate::verify::foundation::Foundation;
use crate::verify::{Checks, Extent, Verified};
use crate::wire::attr::{CapMask, PortState};
use decision::decide;
use groups::Standing;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::{debug, error, info, warn};

/// How a pass ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pass {
    /// Everything is as planned.
    Up,
    /// Some devices did not take what they were sent.
    Incomplete(String),
    /// There is no plan: the fabric stays as it is.
    Refused(String),
}

/// What outlives a pass.
pub struct Passes {
    memory: Memory,
    partitions: Partitions,
    policy: Policy,
    /// prefix-routes.conf as last read, and what was odd about it.
    prefix_routes: (Vec<PrefixRoute>, Vec<Note>),
    acknowledged: Acknowledged,
    scribe: Scribe,
    transitions: Transitions,
    last_plan: Option<Arc<Plan>>,
    /// What `last_plan` was made from.
    last_order: Option<Order>,
    /// What passes over groups alone go by; `None` if there cannot be one.
    standing: Option<Standing>,
    groundwork: Groundwork<Foundation>,
    generation: u64,
    was_up: bool,
    /// No plan has been applied since this SM became master.
    is_new_master: bool,
    last_notes: Vec<Note>,
    last_faults: Vec<String>,
    /// The last pass left something undone.
    pub is_unsettled: bool,
}

impl Passes {
    /// Before the first pass: remembers the LIDs of the cache file.
    pub fn new(
        around: &Surroundings,
        options: &Options,
        partitions: Arc<PartitionsConfig>,
    ) -> Self {
        Self {
            memory: around.files.read_memory(options),
            partitions: Partitions::new(partitions),
            policy: Policy::default(),
            prefix_routes: Default::default(),
            acknowledged: Acknowledged::default(),
            scribe: Scribe::new(around.files.clone()),
            transitions: Transitions::default(),
            last_plan: None,
            last_order: None,
            standing: None,
            groundwork: Groundwork::default(),
            generation: 0,
            was_up: false,
            is_new_master: true,
            last_notes: Vec::new(),
            last_faults: Vec::new(),
            is_unsettled: false,
        }
    }

    /// What counts from the next pass on.
    pub fn reconfigure(&mut self, partitions: Arc<PartitionsConfig>) {
        self.partitions.reconfigure(partitions);
        self.policy.reconfigure();
        self.standing = None;
    }

    /// Another SM ruled meanwhile: what it gave out counts, and what was written before it does
    /// not any more.
    pub fn after_standby(&mut self, files: &Files, options: &Options) {
        let stored = files.read_memory(options).guid2lid;
        self.memory = std::mem::take(&mut self.memory).after_standby(options, stored);
        self.acknowledged.forget_all();
        self.last_plan = None;
        (self.last_order, self.groundwork) = (None, Groundwork::default());
        self.standing = None;
        self.was_up = false;
        self.is_new_master = true;
    }

    /// Tells the faults of a sweep that were not told before.
    pub fn told_faults(&mut self, observation: &Observation, took: Duration) {
        let fabric = &observation.fabric;
        let (nodes, switches) = (fabric.nodes().len(), fabric.switches().len());
        debug!("heavy sweep: {nodes} nodes, {switches} switches in {took:?}");
        let faults: Vec<String> = fabric.faults().iter().map(ToString::to_string).collect();
        for fault in faults.iter().filter(|fault| !self.last_faults.contains(fault)) {
            warn!("{fault}");
        }
        self.last_faults = faults;
    }

    /// Tells why a sweep brought nothing home, once for each reason.
    pub fn told_failure(&mut self, problem: &SweepError) {
        let text = problem.to_string();
        if self.last_faults == [text.clone()] {
            return;
        }
        match problem {
            SweepError::LocalDown => tell::port_down(),
            _ => error!("heavy sweep: {text}"),
        }
        self.last_faults = vec![text];
    }

    /// Waits for the files of the last pass, and writes what a later start is to remember.
    pub async fn leave(&mut self, files: &Files, options: &Options) {
        self.scribe.finish().await;
        self.transitions.finish().await;
        if self.generation > 0 {
            files.write_memory(&self.memory, options);
        }
    }

    /// Plans for what was observed and brings the fabric there.
    pub async fn run(
        &mut self,
        around: &Surroundings,
        options: &Arc<Options>,
        observation: &mut Observation,
    ) -> Pass {
        let start = Instant::now();
        self.standing = None;
        if let Some(groups) = self.partitions.resolve(options) {
            // Without a desk there is nobody who wants to know.
            let _ = around.sa_desk.send(Errand::PermanentGroups(groups)).await;
        }
        self.tell_prefix_routes(around, options).await;
        let (groups_planned, groups) = ask_groups(around, observation).await;
        let planned = self.plan(around, options, observation, groups).await;
        let verified = match planned {
            Ok(verified) => verified,
            Err(refused) => return Pass::Refused(self.refused(around, options, refused)),
        };
        let planned_after = start.elapsed();
        self.transitions.begin(&self.acknowledged);
        let mut report =
            apply(&around.client, observation, &verified, &mut self.acknowledged, options).await;
        self.tell_applied(observation, &report, planned_after, start.elapsed());
        tell_traffic(&around.client);
        let policy = self.policy(around, options, observation, &verified).await;
        let subnet =
            self.publish(around, options, observation, &verified, (policy, report.failed.len()));
        let memory = self.memory.clone();
        let job = Job { memory, options: options.clone(), subnet: Some(subnet), refused: None };
        self.scribe.write(job);
        if let Some(order) = self.last_order.take() {
            self.standing = Some(Standing::new(groups_planned, observation, &order));
            self.prepare(observation, verified.plan(), order);
        }
        // Without a desk there is nobody who waits for it.
        let _ = around.sa_desk.send(Errand::Planned).await;
        let checks = Checks::new(options.qos);
        self.is_unsettled |= report.transition.is_some_and(|order| order.stayed_back > 0);
        self.transitions.end(&observation.fabric, &verified, checks, &mut report);
        if report.failed.is_empty() {
            tell::subnet_up(!self.was_up);
            self.was_up = true;
            return Pass::Up;
        }
        tell::errors_during_initialization();
        Pass::Incomplete(format!("{} Sets were not acknowledged", report.failed.len()))
    }

    /// Tells the SA desk which routers lead to other subnets, if the file has changed.
    async fn tell_prefix_routes(&mut self, around: &Surroundings, options: &Options) {
        let read = files::prefix_routes(options);
        if read == self.prefix_routes {
            return;
        }
        read.1.iter().for_each(tell::note);
        let _ = around.sa_desk.send(Errand::PrefixRoutes(read.0.clone())).await;
        self.prefix_routes = read;
    }

    async fn plan(
        &mut self,
        around: &Surroundings,
        options: &Arc<Options>,
        observation: &Observation,
        groups: Vec<GroupMembers>,
    ) -> Result<Verified, Refused> {
        let last = around.subnet.borrow().clone();
        let failed = |problem: String| {
            let (notes, dumps) = (Vec::new(), Vec::new());
            Refused::new(notes, dumps, problem, last.as_deref(), &observation.fabric)
        };
        let order = Order {
            fabric: observation.fabric.clone(),
            pkeys: observation.pkeys.clone(),
            options: options.clone(),
            torus_config: Arc::new(around.files.read_torus_config(options)),
            chain: Arc::new(around.files.chain(options).map_err(failed)?),
            partitions: self.partitions.current(),
            qos_policy: self.policy.current(options),
            groups: Arc::new(groups),
            memory: self.memory.clone(),
            aliases: Arc::new(ask_aliases(around, observation).await),
            reregister: self.clients_to_reregister(&observation.fabric, options),
        };
        let (previous, foundation) = (self.last_plan.clone(), self.groundwork.latest().await);
        self.last_order = Some(order.clone());
        let before = last.clone();
        let work = move || {
            let outcome = order.plan(previous.as_deref(), foundation.as_deref());
            let (decision, remains) = decide(outcome, before.as_deref(), &order.fabric);
            (decision, remains.map(|remains| (order, remains)))
        };
        let planned = spawn_behind(work).await;
        let ((outcome, memory), remains) =
            planned.map_err(|panic| failed(format!("planning failed: {panic}")))?;
        self.memory = memory;
        if let Some((order, remains)) = remains {
            self.groundwork.carry(move || order.carry(remains));
        }
        let verified = outcome?;
        match verified.summary().extent {
            Extent::Whole => {}
            Extent::Changes => {
                debug!("verified what changed: old and new routes together have no credit loop");
            }
            Extent::Earlier => {
                debug!("verified what changed since before the failure that is repaired now");
            }
        }
        let notes = verified.plan().notes.iter().chain(&verified.summary().notes);
        let notes = self.partitions.notes().iter().chain(notes);
        self.tell_notes(&notes.cloned().collect::<Vec<_>>());
        Ok(verified)
    }

    /// Lays the foundation for the next plan, beside the loop.
    fn prepare(&mut self, observation: &Observation, plan: &Arc<Plan>, order: Order) {
        let order = Order {
            fabric: observation.fabric.clone(),
            pkeys: observation.pkeys.clone(),
            memory: self.memory.clone(),
            reregister: HashSet::new(),
            ..order
        };
        let plan = plan.clone();
        self.groundwork.lay(move |last| order.prepare(&plan, last));
    }

    /// Tells why there is no plan, in the log and to whoever watches; the last words of it.
    fn refused(
        &mut self,
        around: &Surroundings,
        options: &Arc<Options>,
        refused: Refused,
    ) -> String {
        let mut errors = refused.notes.iter().filter(|note| note.severity == Severity::Error);
        let headline = errors.next_back().map(ToString::to_string).unwrap_or_default();
        let notes: Vec<Note> =
            self.partitions.notes().iter().chain(&refused.notes).cloned().collect();
        self.tell_notes(&notes);
        let is_new = around.refused.borrow().as_deref() != Some(&refused);
        if is_new {
            let refused = Some(Arc::new(refused));
            around.refused.send_replace(refused.clone());
            // What was published last may not be written yet.
            let subnet = around.subnet.borrow().clone();
            let (memory, options) = (self.memory.clone(), options.clone());
            self.scribe.write(Job { memory, options, subnet, refused });
        }
        headline
    }

    /// On the first pass as master, the clients of all hosts are asked to register again, for
    /// this SM knows nothing of their groups, services and subscriptions; later those that came.
    fn clients_to_reregister(&self, fabric: &Fabric, options: &Options) -> HashSet<PortId> {
        if options.no_clients_rereg {
            return HashSet::new();
        }
        let is_host_port = |&port: &PortId| {
            let info = fabric.port(port).info;
            let able = info.is_some_and(|info| info.has(CapMask::CLIENT_REREGISTER));
            let comes_up = fabric.port(port).state() == PortState::Init;
            able && !fabric.node_of(port).is_switch() && (self.is_new_master || comes_up)
        };
        fabric.end_ports().filter(is_host_port).collect()
    }

    /// Tells notes that the last pass did not have.
    fn tell_notes(&mut self, notes: &[Note]) {
        notes.iter().filter(|note| !self.last_notes.contains(note)).for_each(tell::note);
        self.last_notes = notes.to_vec();
    }

    fn tell_applied(
        &self,
        observation: &Observation,
        report: &ApplyReport,
        planned: Duration,
        total: Duration,
    ) {
        for (item, problem) in report.failed.iter().take(20) {
            error!("{}: {problem}", item.describe(&observation.fabric));
        }
        if report.failed.len() > 20 {
            error!("… and {} more Sets failed", report.failed.len() - 20);
        }
        for (item, problem) in &report.without_aliases {
            let what = item.describe(&observation.fabric);
            warn!("{what}: {problem}; its alias GUIDs are not in its table");
        }
        let lfts = report.lfts_done.unwrap_or_default();
        info!(
            "programmed {} Sets ({} LFT blocks, the last after {lfts:?}); planned in {planned:?}, \
             all in {total:?}",
            report.sets(),
            report.lft_blocks
        );
    }

    /// What the QoS policy means for this fabric.
    async fn policy(
        &mut self,
        around: &Surroundings,
        options: &Options,
        observation: &Observation,
        verified: &Verified,
    ) -> Option<Arc<EffectivePolicy>> {
        let own = around.portrait.borrow().guid;
        let ground = Ground {
            fabric: observation.fabric.clone(),
            plan: verified.plan().clone(),
            partitions: self.partitions.current(),
            own,
        };
        self.policy.effective(options, ground).await
    }

    fn publish(
        &mut self,
        around: &Surroundings,
        options: &Arc<Options>,
        observation: &Observation,
        verified: &Verified,
        (qos_policy, failed_sets): (Option<Arc<EffectivePolicy>>, usize),
    ) -> Arc<Subnet> {
        self.generation += 1;
        self.is_new_master = false;
        let plan = verified.plan().clone();
        self.last_plan = Some(plan.clone());
        let subnet = Arc::new(Subnet {
            generation: self.generation,
            fabric: observation.fabric.clone(),
            plan,
            options: options.clone(),
            qos_policy,
            summary: Arc::new(verified.summary().clone()),
            failed_sets,
        });
        around.subnet.send_replace(Some(subnet.clone()));
        around.refused.send_replace(None);
        subnet
    }
}

/// Asks the registry who is in which multicast group, and for its generation.
async fn ask_groups(around: &Surroundings, observation: &Observation) -> (u64, Vec<GroupMembers>) {
    let (reply, answer) = oneshot::channel();
    let errand = Errand::Groups { fabric: observation.fabric.clone(), reply };
    if around.sa_desk.send(errand).await.is_err() {
        return (0, Vec::new());
    }
    answer.await.unwrap_or_default()
}

/// Tells how many SMPs went out since the start, for those who watch the load on VL15.
fn tell_traffic(client: &SmpClient) {
    let counters = client.counters();
    info!(
        "SMPs since the start: {} Gets, {} Sets, {} without answer, {} refused",
        counters.gets, counters.sets, counters.unanswered, counters.refused
    );
}

/// Asks the registry for the alias GUIDs.
async fn ask_aliases(around: &Surroundings, observation: &Observation) -> Vec<AliasBlock> {
    let (reply, answer) = oneshot::channel();
    let errand = Errand::Aliases { fabric: observation.fabric.clone(), reply };
    if around.sa_desk.send(errand).await.is_err() {
        return Vec::new();
    }
    answer.await.unwrap_or_default()
}
