//! Brings the fabric to its configured state: plan, verify, apply, publish.
//!
//! [`Reconfigurer::run`] performs all stages for the fabric that a sweep found.
//! [`Reconfigurer::update_multicast`] does so for changed multicast groups only, without a sweep.
//!
//! * `state`: what a reconfiguration leaves for the next one;
//! * `request`: the input of a plan; `registry_queries`: reads multicast groups and alias GUIDs from
//!   the SA server;
//! * `reregister`: the ports that are asked to register with the SA;
//! * `decision`: turns the result of planning and verification into a plan or a rejection with
//!   its reasons; `rejection`: what is done with the routes in force after a rejection;
//! * `inherit`: what the devices hold when this SM becomes master; `warm_standby`: reads it before;
//!   `audit`: compares it afterwards, and after `moved_cables`;
//! * `mapping_reader`: SL to VL mappings that no plan writes;
//! * `balancing`: balances the routes in force again; `snapshot`: publishes a changed snapshot;
//! * `multicast`: the update of multicast groups; `multicast_state`: what it starts from;
//! * `shared_state`: the files for other instances of this program, and those of a former master;
//! * `log_once`, `fault_log`, `key_log`: log lines; `recording`: for the flight recorder;
//! * `trial`: tries new files of the routing engines before they take effect;
//! * `figures`: figures and dumps for the management interface; `silent`: silent switches.

mod audit;
mod balancing;
mod decision;
mod fault_log;
mod figures;
mod inherit;
mod key_log;
mod log_once;
mod mapping_reader;
mod moved_cables;
mod multicast;
mod multicast_state;
mod recording;
mod registry_queries;
mod rejection;
mod request;
mod reregister;
mod shared_state;
mod silent;
mod snapshot;
mod state;
mod trial;
mod warm_standby;

use crate::apply::{ApplyControl, ApplyReport, ApplySettings, Devices, apply};
use crate::config::config_files::ConfigFiles;
use crate::config::options::Options;
use crate::daemon::messages::SaCommand;
use crate::daemon::process::priority::spawn_low_priority;
use crate::daemon::process::{operator_log, port_log};
use crate::daemon::sm_loop::context::ManagerContext;
use crate::daemon::sm_loop::file_writer::{FileWriter, WriteJob};
use crate::daemon::sm_loop::planning::PlanRequest;
use crate::daemon::sm_loop::qos_policy::PolicyInputs;
use crate::fabric::Fabric;
use crate::fabric::quarantined::QuarantinedLink;
use crate::ids::Guid;
use crate::manage::loop_status::ReconfigureFigures;
use crate::notes::{Note, counted};
use crate::observe::m_keys::MKeys;
use crate::observe::{Observation, SweepError};
use crate::plan::Plan;
use crate::plan::qos::policy::EffectivePolicy;
use crate::publish::Subnet;
use crate::publish::device_faults::DeviceFaults;
use crate::publish::rejected::PlanRejected;
use crate::sa::registry::last_mlid;
use crate::verify::{Checks, Verified};
use crate::wire::attr::AttrId;
use decision::{decide, full_if_incremental_fails};
use figures::applied_figures;
use log_once::{LoggedFindings, log_applied, log_extent, log_traffic};
use multicast_state::MulticastUpdateState;
use silent::silent_switches;
use state::{ConfigState, DeviceState, MasterState, PlanState};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tracing::warn;
use warm_standby::WarmStandby;

/// The result of a reconfiguration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReconfigureOutcome {
    /// All devices are configured as planned.
    Up,
    /// Programming ended early: links changed, or only these devices were left to wait for, which
    /// do not answer; of a channel adapter, the switch before it.
    EndedEarly(Vec<Guid>),
    /// Some devices did not acknowledge their configuration.
    Incomplete(String),
    /// Some devices are not configured, because they refused or did not acknowledge Sets before;
    /// these are sent again after a delay.
    Delayed(String),
    /// There is no valid plan: the fabric keeps its configuration.
    Rejected(String),
}

/// Plans, verifies, applies and publishes, with the state kept in between.
pub struct Reconfigurer {
    config: ConfigState,
    plan: PlanState,
    devices: DeviceState,
    master: MasterState,
    warm_standby: WarmStandby,
    file_writer: FileWriter,
    logged: LoggedFindings,
    /// The last reconfiguration is incomplete, so that the next sweep must be a heavy one.
    pub needs_heavy_sweep: bool,
    /// The last reconfiguration took links down, which a heavy sweep must bring up at once.
    pub links_in_init: bool,
    /// Figures of the reconfiguration in progress, or of the last one.
    figures: ReconfigureFigures,
}

impl Reconfigurer {
    /// Starts with the LIDs of guid2lid, and the M_Keys of guid2mkey.
    pub fn new(context: &ManagerContext, options: &Options, files: Arc<ConfigFiles>) -> Self {
        Self {
            config: ConfigState::new(files),
            plan: PlanState::new(context.files.read_memory(options)),
            devices: DeviceState::new(context.files.read_m_keys(options)),
            master: MasterState::default(),
            warm_standby: WarmStandby::default(),
            file_writer: FileWriter::new(context.files.clone()),
            logged: LoggedFindings::default(),
            needs_heavy_sweep: false,
            links_in_init: false,
            figures: ReconfigureFigures::default(),
        }
    }

    /// Uses new configuration files from the next reconfiguration on.
    pub fn reload(&mut self, options: &Options, files: Arc<ConfigFiles>) {
        self.devices.m_keys.configure(options);
        self.config.reload(files);
        self.plan.multicast = None;
        self.warm_standby.stop();
    }

    /// The configuration files in force.
    pub fn config_files(&self) -> &Arc<ConfigFiles> {
        &self.config.files
    }

    /// Discards the state from before this SM was standby: another master may have changed LIDs and
    /// tables since. Keeps what this SM has read from the devices as standby.
    pub fn after_standby(&mut self, context: &ManagerContext, options: &Options) {
        let stored = context.files.read_memory(options).guid2lid;
        let memory = std::mem::take(&mut self.plan.memory).after_standby(options, stored);
        let generation = self.plan.generation;
        self.plan = PlanState { generation, ..PlanState::new(memory) };
        self.use_received_files(context, options);
        self.devices.forget_tables();
        self.use_warm_tables();
        self.master = MasterState::default();
    }

    /// Discards what the devices are known to hold, but keeps the LIDs of this SM: another master
    /// may have written to devices of this subnet, or a subnet with another master was merged with
    /// it.
    pub fn distrust_devices(&mut self) {
        let memory = std::mem::take(&mut self.plan.memory);
        let generation = self.plan.generation;
        self.plan = PlanState { generation, ..PlanState::new(memory) };
        self.devices.forget_tables();
        self.master = MasterState::default();
    }

    /// Discards everything that an interrupted reconfiguration may have left half done, except for
    /// the LIDs. Ports are not asked to register again.
    pub fn start_from_scratch(&mut self) {
        let generation = self.plan.generation;
        let memory = std::mem::take(&mut self.plan.memory);
        self.plan = PlanState { generation, ..PlanState::new(memory) };
        self.devices.forget_tables();
    }

    /// The M_Keys that ports hold.
    pub fn m_keys(&self) -> &MKeys {
        &self.devices.m_keys
    }

    /// Logs new faults that a heavy sweep found, and takes over the M_Keys and cables that it
    /// found.
    pub fn swept(&mut self, observation: &Observation, duration: Duration) {
        let keys = &mut self.devices.m_keys;
        keys.learn(&observation.fabric);
        keys.learn_cables(&observation.fabric);
        self.logged.log_faults(observation, keys, duration);
    }

    /// Logs why a heavy sweep failed.
    pub fn log_sweep_failure(&mut self, problem: &SweepError) {
        self.logged.log_failure(problem);
    }

    /// Waits for files being written and checks in progress, and writes guid2lid.
    pub async fn shut_down(&mut self, context: &ManagerContext, options: &Options) {
        self.file_writer.finish().await;
        self.devices.transitions.finish().await;
        // Files that the present master has sent are newer than the memory of this SM.
        if self.plan.generation > 0 && context.replication.received.get().is_none() {
            let files = &context.files;
            let written = files.write_memory(&self.plan.memory, options);
            let fabric = self.plan.request.as_ref().map(|request| request.fabric.clone());
            let keys = files.write_m_keys(&self.devices.m_keys, fabric.as_deref(), options);
            for problem in [written, keys].into_iter().filter_map(Result::err) {
                warn!("{problem}");
            }
        }
    }

    /// Plans for the observed fabric and programs it.
    pub async fn run(
        &mut self,
        context: &ManagerContext,
        options: &Arc<Options>,
        observation: &mut Observation,
        control: ApplyControl<'_>,
    ) -> ReconfigureOutcome {
        let start = Instant::now();
        self.figures = ReconfigureFigures::default();
        self.plan.multicast = None;
        self.update_sa_server(context, options, last_mlid(&observation.fabric)).await;
        let (generation, groups) = registry_queries::groups(&context.sa_server, observation).await;
        let programmable = self.programmable(context, options, observation, groups).await;
        let plan = match programmable {
            Ok(plan) => plan,
            Err(headline) => return ReconfigureOutcome::Rejected(headline),
        };
        let verified = &plan.verified;
        let options = &plan.request.options;
        self.figures.planning = start.elapsed();
        self.devices.transitions.begin(&self.devices.acknowledged);
        self.inherit(context, observation, verified).await;
        let DeviceState { acknowledged, unreachable_peers, quarantined, m_keys, .. } =
            &mut self.devices;
        let unreachable = unreachable_peers.due(&observation.fabric, quarantined, start);
        self.needs_heavy_sweep |= unreachable_peers.needs_sweep();
        let applying = start.elapsed();
        let devices =
            Devices { client: &context.client, observation, acknowledged, keys: &*m_keys };
        let settings = ApplySettings::from(&**options);
        let mut report = apply(devices, verified, settings, control, &unreachable).await;
        self.plan.baselines.start_carrying();
        m_keys.learn(&observation.fabric);
        self.logged.log_unknown_keys(&observation.fabric, m_keys, &report);
        self.links_in_init |= !report.reset_links.is_empty();
        applied_figures(&report, applying, &mut self.figures);
        self.start_audit(context, observation);
        self.start_reading_mappings(context, observation, verified, &report.unknown);
        log_applied(observation, &report, self.figures.planning, start.elapsed());
        log_traffic(&context.client);
        recording::applied(context, &report);
        self.record_registered(&observation.fabric, &report);
        let policy = self.effective_policy(context, options, observation, verified).await;
        let failed = report.failures() + report.delayed_essential;
        self.devices.record_restarts(observation, self.plan.generation + 1, &report);
        let subnet = match self.unchanged_subnet(context, observation, verified, &report) {
            Some(subnet) => subnet,
            None => self.publish(context, options, observation, verified, (policy, failed)),
        };
        let headline = self.conclude(context, observation, &plan, subnet);
        self.provide_files(context);
        let keeps_routes = headline.is_some();
        let state = MulticastUpdateState::new(generation, observation, &plan.request, keeps_routes);
        self.plan.multicast = Some(state);
        self.plan.request = None;
        if !keeps_routes {
            self.prepare_baseline(observation, verified.plan(), plan.request.clone());
        }
        send(context, SaCommand::GroupsProgrammed).await;
        let outcome = outcome(&observation.fabric, &report);
        // Routes over a device that does not let itself be configured come with its next attempt.
        let is_delayed = matches!(outcome, ReconfigureOutcome::Delayed(_));
        let withheld = report.transition.map_or(0, |order| order.withheld);
        self.needs_heavy_sweep |= withheld > 0 && !is_delayed;
        let checks = Checks::of(options);
        self.devices.transitions.end(&observation.fabric, verified, checks, &mut report);
        if let Some(headline) = headline
            && !matches!(outcome, ReconfigureOutcome::EndedEarly(_))
        {
            return ReconfigureOutcome::Rejected(headline);
        }
        match outcome {
            ReconfigureOutcome::Up => {
                operator_log::subnet_up(verified.plan().routing.engine, !self.master.was_up);
                self.master.was_up = true;
            }
            ReconfigureOutcome::Delayed(_) | ReconfigureOutcome::EndedEarly(_) => {}
            _ => operator_log::errors_during_initialization(),
        }
        outcome
    }

    /// True if programming may end early. The first plan as master is programmed to the end.
    pub fn may_end_early(&self) -> bool {
        self.master.was_up
    }

    /// Time at which a Set that a device refused may be sent again.
    pub fn next_retry(&self) -> Option<Instant> {
        self.devices.acknowledged.failures().next_try(Instant::now())
    }

    /// False for a switch that does not let PortStateChange be cleared, so that the bit tells
    /// nothing.
    pub fn clears_state_change(&self, guid: Guid) -> bool {
        self.devices.acknowledged.failures().takes_set(guid, AttrId::SWITCH_INFO, 0)
    }

    /// Publishes these links as treated as down with the next plan.
    pub fn set_quarantined(&mut self, links: Vec<QuarantinedLink>) {
        self.devices.quarantined = links;
    }

    /// True if a Set that a device refused may be sent again.
    pub fn is_retry_due(&self) -> bool {
        self.devices.acknowledged.failures().has_due(Instant::now())
    }

    /// Plans and verifies with the engines of the request.
    async fn plan(
        &mut self,
        context: &ManagerContext,
        request: PlanRequest,
    ) -> Result<Verified, PlanRejected> {
        let from_scratch = self.plan.from_scratch.take();
        let from_scratch = from_scratch.is_some_and(|it| Arc::ptr_eq(&it, &request.fabric));
        let previous = self.plan.accepted.as_ref().map(|accepted| accepted.subnet.plan.clone());
        recording::plan_begins(context, &request, previous.is_some() && !from_scratch);
        let baseline = self.plan.baselines.latest().await;
        self.plan.request = Some(request.clone());
        let work = move |is_full: bool| {
            let is_full = is_full || from_scratch;
            let previous = previous.as_deref().filter(|_| !is_full);
            let baseline = baseline.as_deref().filter(|_| !is_full);
            let mut verifying = Duration::ZERO;
            let outcome = request.plan_timed(previous, baseline, &mut verifying);
            let (decision, pending) = decide(outcome);
            (decision, (pending.map(|it| (request.clone(), it)), verifying))
        };
        let planned = spawn_low_priority(|| full_if_incremental_fails(work)).await;
        let planned = planned.map_err(|error| error.to_string());
        let planned = planned.and_then(|planned| planned.map_err(|panic| panic.to_string()));
        let ((verified, memory), (pending, verifying)) =
            planned.map_err(|problem| PlanRejected::of(format!("planning failed: {problem}")))?;
        (self.figures.verifying, self.plan.memory) = (verifying, memory);
        if let Some((request, pending)) = pending {
            self.plan.baselines.carry(move || request.complete_baseline(pending));
        }
        let verified = verified?;
        log_extent(verified.summary().extent);
        self.log_notes(&verified);
        Ok(verified)
    }

    /// Computes the baseline for the next plan, on another thread.
    fn prepare_baseline(
        &mut self,
        observation: &Observation,
        plan: &Arc<Plan>,
        request: PlanRequest,
    ) {
        let request = PlanRequest {
            fabric: observation.fabric.clone(),
            pkeys: observation.pkeys.clone(),
            memory: self.plan.memory.clone(),
            reregister: HashSet::new(),
            ..request
        };
        let plan = plan.clone();
        self.plan.baselines.compute(move |last| request.prepare_baseline(&plan, last));
    }

    fn write_files(
        &mut self,
        options: &Arc<Options>,
        subnet: Option<Arc<Subnet>>,
        rejected: Option<Arc<PlanRejected>>,
    ) {
        let (memory, options) = (self.plan.memory.clone(), options.clone());
        let m_keys = self.devices.m_keys.clone();
        self.file_writer.write(WriteJob { memory, m_keys, options, subnet, rejected });
    }

    /// Logs the notes of a plan that passed.
    fn log_notes(&mut self, verified: &Verified) {
        let notes = verified.plan().notes.iter().chain(&verified.summary().notes);
        let notes: Vec<Note> =
            self.config.partitions.notes().iter().chain(notes).cloned().collect();
        self.logged.log_notes(notes);
    }

    async fn effective_policy(
        &mut self,
        context: &ManagerContext,
        options: &Options,
        observation: &Observation,
        verified: &Verified,
    ) -> Option<Arc<EffectivePolicy>> {
        let own_port = context.sm_status.borrow().guid;
        let inputs = PolicyInputs {
            fabric: observation.fabric.clone(),
            plan: verified.plan().clone(),
            partitions: self.config.partitions.current(),
            own_port,
        };
        self.config.qos_policy.effective(options, inputs).await
    }

    fn publish(
        &mut self,
        context: &ManagerContext,
        options: &Arc<Options>,
        observation: &Observation,
        verified: &Verified,
        (qos_policy, failed_sets): (Option<Arc<EffectivePolicy>>, usize),
    ) -> Arc<Subnet> {
        self.plan.generation += 1;
        self.figures.generation = self.plan.generation;
        let plan = verified.plan().clone();
        self.plan.in_force = Some(plan.clone());
        let subnet = Arc::new(Subnet {
            generation: self.plan.generation,
            fabric: observation.fabric.clone(),
            plan,
            options: options.clone(),
            qos_policy,
            summary: Arc::new(verified.summary().clone()),
            failed_sets,
            devices: Arc::new(DeviceFaults::new(
                self.devices.acknowledged.failures(),
                self.devices.quarantined.clone(),
            )),
            restarts: self.devices.restarts.clone(),
            repair_view: Arc::default(),
        });
        port_log::changes(context.subnet.send_replace(Some(subnet.clone())).as_deref(), &subnet);
        subnet
    }
}

fn outcome(fabric: &Fabric, report: &ApplyReport) -> ReconfigureOutcome {
    if let Some(stop) = &report.stop {
        return ReconfigureOutcome::EndedEarly(silent_switches(fabric, stop));
    }
    match (report.failures(), report.delayed_essential) {
        (0, 0) => ReconfigureOutcome::Up,
        (0, delayed) => ReconfigureOutcome::Delayed(format!(
            "{} for a device that refused or did not acknowledge them before",
            counted(delayed, "Set waits", "Sets wait")
        )),
        (failed, _) => ReconfigureOutcome::Incomplete(format!(
            "{} not acknowledged",
            counted(failed, "Set was", "Sets were")
        )),
    }
}

/// Sends a command to the SA server. Errors are ignored: the server ends with the daemon.
async fn send(context: &ManagerContext, command: SaCommand) {
    let _ = context.sa_server.send(command).await;
}
