//! One pass through the stages: plan, verify, apply, publish. `decision`: what a planning came to;
//! `groups`: a short pass where only multicast groups changed.

mod multicast;
mod outcome;

use crate::apply::{Acknowledged, ApplyReport, apply};
use crate::config::files;
use crate::config::options::Options;
use crate::config::partitions::PartitionsConfig;
use crate::config::prefix_routes::PrefixRoute;
use crate::daemon::messages::SaCommand;
use crate::daemon::process::operator_log;
use crate::daemon::process::priority::spawn_low_priority;
use crate::daemon::sm_loop::baseline_cache::BaselineCache;
use crate::daemon::sm_loop::context::ManagerContext;
use crate::daemon::sm_loop::file_writer::{FileWriter, WriteJob};
use crate::daemon::sm_loop::files::StateFiles;
use crate::daemon::sm_loop::partitions::PartitionState;
use crate::daemon::sm_loop::planning::PlanRequest;
use crate::daemon::sm_loop::qos_policy::{PolicyInputs, QosPolicyState};
use crate::daemon::sm_loop::transitions::TransitionMonitor;
use crate::fabric::{Fabric, PortId};
use crate::notes::{Note, Severity};
use crate::observe::{Observation, SweepError};
use crate::plan::Plan;
use crate::plan::aliases::AliasBlock;
use crate::plan::lids::Memory;
use crate::plan::multicast::GroupMembers;
use crate::plan::qos::policy::EffectivePolicy;
use crate::publish::Subnet;
use crate::publish::rejected::PlanRejected;
use crate::transport::client::SmpClient;
use crate::verify::baseline::VerifiedBaseline;
use crate::verify::{Checks, Extent, Verified};
use crate::wire::attr::{CapMask, PortState};
use multicast::MulticastUpdateState;
use outcome::decide;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::{debug, error, info, warn};

/// How a pass ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReconfigureOutcome {
    /// Everything is as planned.
    Up,
    /// Some devices did not take what they were sent.
    Incomplete(String),
    /// There is no plan: the fabric stays as it is.
    Rejected(String),
}

/// What outlives a pass.
pub struct Reconfigurer {
    memory: Memory,
    partitions: PartitionState,
    policy: QosPolicyState,
    /// prefix-routes.conf as last read, and what was odd about it.
    prefix_routes: (Vec<PrefixRoute>, Vec<Note>),
    acknowledged: Acknowledged,
    file_writer: FileWriter,
    transitions: TransitionMonitor,
    last_plan: Option<Arc<Plan>>,
    /// What `last_plan` was made from.
    last_order: Option<PlanRequest>,
    /// What passes over groups alone go by; `None` if there cannot be one.
    multicast: Option<MulticastUpdateState>,
    baselines: BaselineCache<VerifiedBaseline>,
    generation: u64,
    was_up: bool,
    /// No plan has been applied since this SM became master.
    is_new_master: bool,
    last_notes: Vec<Note>,
    last_faults: Vec<String>,
    /// The last pass left something undone.
    pub is_unsettled: bool,
}

impl Reconfigurer {
    /// Before the first pass: remembers the LIDs of the cache file.
    pub fn new(
        context: &ManagerContext,
        options: &Options,
        partitions: Arc<PartitionsConfig>,
    ) -> Self {
        Self {
            memory: context.files.read_memory(options),
            partitions: PartitionState::new(partitions),
            policy: QosPolicyState::default(),
            prefix_routes: Default::default(),
            acknowledged: Acknowledged::default(),
            file_writer: FileWriter::new(context.files.clone()),
            transitions: TransitionMonitor::default(),
            last_plan: None,
            last_order: None,
            multicast: None,
            baselines: BaselineCache::default(),
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
        self.multicast = None;
    }

    /// Another SM ruled meanwhile: what it gave out counts, and what was written before it does
    /// not any more.
    pub fn after_standby(&mut self, files: &StateFiles, options: &Options) {
        let stored = files.read_memory(options).guid2lid;
        self.memory = std::mem::take(&mut self.memory).after_standby(options, stored);
        self.acknowledged.forget_all();
        self.last_plan = None;
        (self.last_order, self.baselines) = (None, BaselineCache::default());
        self.multicast = None;
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
            SweepError::LocalDown => operator_log::port_down(),
            _ => error!("heavy sweep: {text}"),
        }
        self.last_faults = vec![text];
    }

    /// Waits for the files of the last pass, and writes what a later start is to remember.
    pub async fn leave(&mut self, files: &StateFiles, options: &Options) {
        self.file_writer.finish().await;
        self.transitions.finish().await;
        if self.generation > 0 {
            files.write_memory(&self.memory, options);
        }
    }

    /// Plans for what was observed and brings the fabric there.
    pub async fn run(
        &mut self,
        context: &ManagerContext,
        options: &Arc<Options>,
        observation: &mut Observation,
    ) -> ReconfigureOutcome {
        let start = Instant::now();
        self.multicast = None;
        if let Some(groups) = self.partitions.resolve(options) {
            // Without a desk there is nobody who wants to know.
            let _ = context.sa_server.send(SaCommand::SetPermanentGroups(groups)).await;
        }
        self.tell_prefix_routes(context, options).await;
        let (groups_planned, groups) = ask_groups(context, observation).await;
        let planned = self.plan(context, options, observation, groups).await;
        let verified = match planned {
            Ok(verified) => verified,
            Err(refused) => {
                return ReconfigureOutcome::Rejected(self.refused(context, options, refused));
            }
        };
        let planned_after = start.elapsed();
        self.transitions.begin(&self.acknowledged);
        let mut report =
            apply(&context.client, observation, &verified, &mut self.acknowledged, options).await;
        self.tell_applied(observation, &report, planned_after, start.elapsed());
        tell_traffic(&context.client);
        let policy = self.policy(context, options, observation, &verified).await;
        let subnet =
            self.publish(context, options, observation, &verified, (policy, report.failed.len()));
        let memory = self.memory.clone();
        let job =
            WriteJob { memory, options: options.clone(), subnet: Some(subnet), refused: None };
        self.file_writer.write(job);
        if let Some(order) = self.last_order.take() {
            self.multicast = Some(MulticastUpdateState::new(groups_planned, observation, &order));
            self.prepare(observation, verified.plan(), order);
        }
        // Without a desk there is nobody who waits for it.
        let _ = context.sa_server.send(SaCommand::GroupsProgrammed).await;
        let checks = Checks::new(options.qos);
        self.is_unsettled |= report.transition.is_some_and(|order| order.withheld > 0);
        self.transitions.end(&observation.fabric, &verified, checks, &mut report);
        if report.failed.is_empty() {
            operator_log::subnet_up(!self.was_up);
            self.was_up = true;
            return ReconfigureOutcome::Up;
        }
        operator_log::errors_during_initialization();
        ReconfigureOutcome::Incomplete(format!(
            "{} Sets were not acknowledged",
            report.failed.len()
        ))
    }

    /// Tells the SA desk which routers lead to other subnets, if the file has changed.
    async fn tell_prefix_routes(&mut self, context: &ManagerContext, options: &Options) {
        let read = files::prefix_routes(options);
        if read == self.prefix_routes {
            return;
        }
        read.1.iter().for_each(operator_log::note);
        let _ = context.sa_server.send(SaCommand::SetPrefixRoutes(read.0.clone())).await;
        self.prefix_routes = read;
    }

    async fn plan(
        &mut self,
        context: &ManagerContext,
        options: &Arc<Options>,
        observation: &Observation,
        groups: Vec<GroupMembers>,
    ) -> Result<Verified, PlanRejected> {
        let last = context.subnet.borrow().clone();
        let failed = |problem: String| {
            let (notes, dumps) = (Vec::new(), Vec::new());
            PlanRejected::new(notes, dumps, problem, last.as_deref(), &observation.fabric)
        };
        let order = PlanRequest {
            fabric: observation.fabric.clone(),
            pkeys: observation.pkeys.clone(),
            options: options.clone(),
            torus_config: Arc::new(context.files.read_torus_config(options)),
            chain: Arc::new(context.files.chain(options).map_err(failed)?),
            partitions: self.partitions.current(),
            qos_policy: self.policy.current(options),
            groups: Arc::new(groups),
            memory: self.memory.clone(),
            aliases: Arc::new(ask_aliases(context, observation).await),
            reregister: self.clients_to_reregister(&observation.fabric, options),
        };
        let (previous, foundation) = (self.last_plan.clone(), self.baselines.latest().await);
        self.last_order = Some(order.clone());
        let before = last.clone();
        let work = move || {
            let outcome = order.plan(previous.as_deref(), foundation.as_deref());
            let (decision, remains) = decide(outcome, before.as_deref(), &order.fabric);
            (decision, remains.map(|remains| (order, remains)))
        };
        let planned = spawn_low_priority(work).await;
        let ((outcome, memory), remains) =
            planned.map_err(|panic| failed(format!("planning failed: {panic}")))?;
        self.memory = memory;
        if let Some((order, remains)) = remains {
            self.baselines.carry(move || order.carry(remains));
        }
        let verified = outcome?;
        match verified.summary().extent {
            Extent::Full => {}
            Extent::Incremental => {
                debug!("verified what changed: old and new routes together have no credit loop");
            }
            Extent::FaultFree => {
                debug!("verified what changed since before the failure that is repaired now");
            }
        }
        let notes = verified.plan().notes.iter().chain(&verified.summary().notes);
        let notes = self.partitions.notes().iter().chain(notes);
        self.tell_notes(&notes.cloned().collect::<Vec<_>>());
        Ok(verified)
    }

    /// Lays the foundation for the next plan, beside the loop.
    fn prepare(&mut self, observation: &Observation, plan: &Arc<Plan>, order: PlanRequest) {
        let order = PlanRequest {
            fabric: observation.fabric.clone(),
            pkeys: observation.pkeys.clone(),
            memory: self.memory.clone(),
            reregister: HashSet::new(),
            ..order
        };
        let plan = plan.clone();
        self.baselines.lay(move |last| order.prepare(&plan, last));
    }

    /// Tells why there is no plan, in the log and to whoever watches; the last words of it.
    fn refused(
        &mut self,
        context: &ManagerContext,
        options: &Arc<Options>,
        refused: PlanRejected,
    ) -> String {
        let mut errors = refused.notes.iter().filter(|note| note.severity == Severity::Error);
        let headline = errors.next_back().map(ToString::to_string).unwrap_or_default();
        let notes: Vec<Note> =
            self.partitions.notes().iter().chain(&refused.notes).cloned().collect();
        self.tell_notes(&notes);
        let is_new = context.refused.borrow().as_deref() != Some(&refused);
        if is_new {
            let refused = Some(Arc::new(refused));
            context.refused.send_replace(refused.clone());
            // What was published last may not be written yet.
            let subnet = context.subnet.borrow().clone();
            let (memory, options) = (self.memory.clone(), options.clone());
            self.file_writer.write(WriteJob { memory, options, subnet, refused });
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
        notes.iter().filter(|note| !self.last_notes.contains(note)).for_each(operator_log::note);
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
        context: &ManagerContext,
        options: &Options,
        observation: &Observation,
        verified: &Verified,
    ) -> Option<Arc<EffectivePolicy>> {
        let own = context.sm_status.borrow().guid;
        let ground = PolicyInputs {
            fabric: observation.fabric.clone(),
            plan: verified.plan().clone(),
            partitions: self.partitions.current(),
            own,
        };
        self.policy.effective(options, ground).await
    }

    fn publish(
        &mut self,
        context: &ManagerContext,
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
        context.subnet.send_replace(Some(subnet.clone()));
        context.refused.send_replace(None);
        subnet
    }
}

/// Asks the registry who is in which multicast group, and for its generation.
async fn ask_groups(
    context: &ManagerContext,
    observation: &Observation,
) -> (u64, Vec<GroupMembers>) {
    let (reply, answer) = oneshot::channel();
    let command = SaCommand::GetGroups { fabric: observation.fabric.clone(), reply };
    if context.sa_server.send(command).await.is_err() {
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
async fn ask_aliases(context: &ManagerContext, observation: &Observation) -> Vec<AliasBlock> {
    let (reply, answer) = oneshot::channel();
    let command = SaCommand::GetAliases { fabric: observation.fabric.clone(), reply };
    if context.sa_server.send(command).await.is_err() {
        return Vec::new();
    }
    answer.await.unwrap_or_default()
}
