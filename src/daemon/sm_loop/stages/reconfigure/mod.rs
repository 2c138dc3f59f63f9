//! Brings the fabric to its configured state: plan, verify, apply, publish.
//!
//! [`Reconfigurer::run`] performs all stages for the fabric that a sweep found.
//! [`Reconfigurer::update_multicast`] does so for changed multicast groups only, without a sweep.
//!
//! * `state`: what a reconfiguration leaves for the next one;
//! * `programmable`: plans the fabric, and what is done with the routes in force if the plan is rejected;
//!   `registry_queries`: reads multicast groups and alias GUIDs from the SA server;
//! * `adaptive_gate`: adaptive routing while plain tables change;
//! * `reregister`: the ports that are asked to register with the SA;
//! * `decision`: turns the result of planning and verification into a plan or a rejection with
//!   its reasons;
//! * `inherit`: what the devices hold when this SM becomes master; `warm_standby`: reads it before;
//!   `audit`: compares it afterwards, and after `moved_cables`;
//! * `mapping_reader`: SL to VL mappings that no plan writes;
//! * `balancing`: balances the routes in force again; [`what_if`]: plans without a link;
//! * `snapshot`: publishes a changed snapshot;
//! * `multicast`: the update of multicast groups; `multicast_state`: what it starts from;
//! * `shared_state`: the files for other instances of this program, and those of a former master;
//! * `log_once`, `fault_log`, `key_log`: log lines; `recording`: for the flight recorder;
//! * `trial`: tries new files of the routing engines before they take effect;
//! * `figures`: figures and dumps for the management interface; `outcome`: the result for the SM loop.

mod adaptive_gate;
mod audit;
mod balancing;
pub(in crate::daemon) mod decision;
mod fault_log;
mod figures;
mod inherit;
mod key_log;
mod log_once;
mod mapping_reader;
mod moved_cables;
mod multicast;
mod multicast_state;
mod outcome;
mod programmable;
mod recording;
mod registry_queries;
pub(in crate::daemon) mod reregister;
mod shared_state;
mod snapshot;
mod state;
mod trial;
mod warm_standby;
pub mod what_if;

use crate::apply::{ApplyControl, ApplyReport, ApplySettings, PassDevices, apply};
use crate::config::config_files::ConfigFiles;
use crate::config::options::Options;
use crate::daemon::messages::SaCommand;
use crate::daemon::process::operator_log;
use crate::daemon::sm_loop::context::ManagerContext;
use crate::daemon::sm_loop::file_writer::FileWriter;
use crate::fabric::End;
use crate::fabric::quarantined::QuarantinedLink;
use crate::ids::{Guid, Mlid};
use crate::manage::action::RequestId;
use crate::manage::loop_status::{ReconfigureFigures, ReconfigureResult};
use crate::notes::Note;
use crate::observe::m_keys::MKeys;
use crate::observe::{Observation, SweepError, SweepSettings};
use crate::sa::registry::last_mlid;
use crate::verify::{Checks, Verified};
use crate::wire::attr::AttrId;
use adaptive_gate::PlainChange;
use figures::applied_figures;
use log_once::{LoggedFindings, log_applied, log_traffic};
use multicast_state::MulticastUpdateState;
pub use outcome::Reconfigured;
use outcome::outcome;
use programmable::ProgrammablePlan;
use state::{ConfigState, DeviceState, MasterState, PlanState};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tracing::warn;
use trial::Trial;
use warm_standby::{Follower, WarmStandby, WarmState};
use what_if::{LinkLoss, LinkStudy};

/// Plans, verifies, applies and publishes, with the state kept in between.
pub struct Reconfigurer {
    config: ConfigState,
    plan: PlanState,
    devices: DeviceState,
    master: MasterState,
    warm_standby: WarmStandby,
    file_writer: FileWriter,
    logged: LoggedFindings,
    /// Figures of the reconfiguration in progress, or of the last one.
    figures: ReconfigureFigures,
}

impl Reconfigurer {
    /// Starts with the LIDs of guid2lid, and the M_Keys of guid2mkey.
    pub fn new(context: &ManagerContext, options: &Options, files: Arc<ConfigFiles>) -> Self {
        let problem = context.shared.feed.status.load().handles.file_problems.clone();
        Self {
            config: ConfigState::new(files),
            plan: PlanState::new(context.files.read_memory(options)),
            devices: DeviceState::new(context.files.read_m_keys(options)),
            master: MasterState::default(),
            warm_standby: WarmStandby::default(),
            file_writer: FileWriter::new(context.files.clone(), problem),
            logged: LoggedFindings::default(),
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
        shared_state::use_received_files(context, options, &mut self.plan, &mut self.devices);
        self.devices.forget_tables();
        if let Some(WarmState { acknowledged, blocks, baseline }) = self.warm_standby.stop() {
            self.devices.use_warm_tables(acknowledged, blocks);
            if let Some(baseline) = baseline {
                self.plan.baselines.provide(baseline);
            }
        }
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

    /// Settings of sweeps.
    pub fn sweep_settings(&self, options: &Options) -> SweepSettings {
        self.config.sweep_settings(options)
    }

    /// GUIDs of the channel adapters and routers that the last reconfiguration configured after a
    /// restart.
    pub fn restarted(&self) -> &HashSet<Guid> {
        self.devices.acknowledged.restarted()
    }

    /// As STANDBY, follows the fabric read-only (`standby_query_rate`).
    pub async fn keep_warm(&mut self, context: &ManagerContext, options: &Arc<Options>) {
        if self.warm_standby.is_running() {
            return;
        }
        let Some(client) = Follower::client(&context.client, options) else { return };
        self.update_sa_server(context, options, Mlid::LAST).await;
        let stored = if options.honor_guid2lid_file {
            context.files.read_memory(options).guid2lid
        } else {
            Arc::default()
        };
        self.warm_standby.start(Follower {
            client,
            sa_server: context.sa_server.clone(),
            files: self.config.files.clone(),
            options: options.clone(),
            partitions: self.config.partitions.current(),
            qos_policy: self.config.qos_policy.current(options),
            memory: self.plan.memory.clone().after_standby(options, stored),
            m_keys: self.devices.m_keys.clone(),
            sweeps: self.config.sweep_settings(options),
        });
    }

    /// Stops following the fabric.
    pub fn stop_following(&mut self) {
        self.warm_standby.stop();
    }

    /// The errors because of which the engine in force would not route the observed fabric with other
    /// files.
    pub async fn engine_errors(
        &self,
        context: &ManagerContext,
        options: &Options,
        files: &ConfigFiles,
        observation: &Observation,
    ) -> Vec<String> {
        let Self { config, plan, devices, .. } = self;
        let held_mappings = &devices.mapping_reader.held;
        let trial = Trial { context, config, plan, held_mappings, options, files, observation };
        trial.engine_errors().await
    }

    /// Publishes a changed snapshot with the plan in force.
    pub async fn publish_observation(
        &mut self,
        context: &ManagerContext,
        options: &Arc<Options>,
        observation: &Observation,
    ) {
        let Self { config, plan, .. } = self;
        snapshot::publish_observation(config, plan, context, options, observation).await;
    }

    /// Time without a change after which the routes in force are balanced again; `None` if they
    /// are not.
    pub fn balancing_window(&self, options: &Options) -> Option<Duration> {
        balancing::window(options, self.plan.in_force.as_ref()?)
    }

    /// Plans the fabric from scratch. True if that balances the routes better; the next
    /// reconfiguration then uses the new ones.
    pub async fn balance(
        &mut self,
        context: &ManagerContext,
        options: &Arc<Options>,
        observation: &Observation,
    ) -> bool {
        self.plan.from_scratch = None;
        let Some(in_force) = self.plan.in_force.clone() else { return false };
        let (_, groups) = registry_queries::groups(&context.sa_server, observation).await;
        let Ok(request) = self.request(context, options, observation, groups).await else {
            return false;
        };
        let is_better = balancing::is_better(request, &in_force).await;
        if is_better {
            self.plan.from_scratch = Some(observation.fabric.clone());
        }
        is_better
    }

    /// Writes all dump files of the published subnet for a request of an operator.
    pub fn dump(&mut self, context: &ManagerContext, request: RequestId) {
        figures::dump(context, &mut self.file_writer, request);
    }

    /// Records that cables were moved: Sets may have reached other devices than those meant, also if
    /// the next snapshot shows the cables where they were. All tables are compared.
    pub fn cables_moved(&mut self) {
        self.devices.needs_audit = true;
    }

    /// Waits until the fabric must be configured again because of what was read from the devices after
    /// the last plan was applied. Cancel safe.
    pub async fn device_tables_read(&mut self) {
        self.devices.tables_read().await;
    }

    /// Sends changed permanent groups and prefix routes to the SA server.
    async fn update_sa_server(&mut self, context: &ManagerContext, options: &Options, last: Mlid) {
        if let Some(specs) = self.config.partitions.resolve(options, last) {
            send(context, SaCommand::SetPermanentGroups { specs, last }).await;
        }
        let routes = &self.config.files.prefix_routes;
        if *routes != self.config.sent_prefix_routes {
            send(context, SaCommand::SetPrefixRoutes(routes.clone())).await;
            self.config.sent_prefix_routes.clone_from(routes);
        }
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

    /// Waits for files being written, for dumps until `gives_up` at most, and for checks in progress, and writes
    /// guid2lid.
    pub async fn shut_down(
        &mut self,
        context: &ManagerContext,
        options: &Options,
        gives_up: impl Future<Output = ()>,
    ) {
        self.file_writer.finish(gives_up).await;
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
    ) -> Reconfigured {
        let start = Instant::now();
        self.figures = ReconfigureFigures::default();
        self.plan.multicast = None;
        self.update_sa_server(context, options, last_mlid(&observation.fabric)).await;
        let (generation, groups) = registry_queries::groups(&context.sa_server, observation).await;
        let plan = match self.programmable(context, options, observation, groups).await {
            Ok(plan) => plan,
            Err(headline) => {
                return Reconfigured::rejected(headline, std::mem::take(&mut self.figures));
            }
        };
        let verified = &plan.verified;
        let options = &plan.request.options;
        self.figures.planning = start.elapsed();
        let holds_groups = self.prepare_devices(context, observation, &plan).await;
        let mut report = self.program(context, observation, &plan, control, start).await;
        context.adaptive.provide(self.plan.baselines.carried());
        let headline = self.publish_programmed(context, observation, &plan, &report).await;
        if holds_groups {
            context.adaptive.release().await;
        }
        let keeps_routes = headline.is_some();
        let state = MulticastUpdateState::new(generation, observation, &plan.request, keeps_routes);
        self.plan.multicast = Some(state);
        self.plan.request = None;
        if !keeps_routes {
            self.prepare_baseline(observation, verified.plan(), plan.request.clone());
        }
        send(context, SaCommand::GroupsProgrammed).await;
        let checks = Checks::of(options);
        self.devices.transitions.end(&observation.fabric, verified, checks, &mut report);
        let mut outcome = outcome(&observation.fabric, &report);
        outcome.needs_heavy_sweep |= self.devices.unreachable_peers.needs_sweep();
        match (&outcome.result, headline) {
            (ReconfigureResult::Interrupted, _) => {}
            (_, Some(headline)) => outcome.result = ReconfigureResult::Rejected(headline),
            (ReconfigureResult::Up, None) => {
                operator_log::subnet_up(verified.plan().routing.engine, !self.master.was_up);
                self.master.was_up = true;
            }
            (ReconfigureResult::Delayed(_), None) => {}
            (ReconfigureResult::Incomplete(_) | ReconfigureResult::Rejected(_), None) => {
                operator_log::errors_during_initialization();
            }
        }
        outcome.figures = std::mem::take(&mut self.figures);
        outcome
    }

    /// Reads what the devices hold from before, and holds the groups of adaptive routing if routes change.
    /// True if they must be released.
    async fn prepare_devices(
        &mut self,
        context: &ManagerContext,
        observation: &Observation,
        plan: &ProgrammablePlan,
    ) -> bool {
        let devices = &mut self.devices;
        devices.transitions.begin(&devices.acknowledged);
        devices.inherit(&context.client, observation, &plan.verified).await;
        if !context.adaptive.is_in_use() {
            return false;
        }
        let is_strict = plan.request.options.strict_transitions;
        let target = plan.verified.plan();
        let change =
            PlainChange::new(&devices.acknowledged, &observation.fabric, target, is_strict);
        let Some(change) = change else { return false };
        change.prepare(context).await;
        true
    }

    /// Programs the devices with a plan of a reconfiguration that began at `start`.
    async fn program(
        &mut self,
        context: &ManagerContext,
        observation: &mut Observation,
        plan: &ProgrammablePlan,
        control: ApplyControl<'_>,
        start: Instant,
    ) -> ApplyReport {
        let verified = &plan.verified;
        let DeviceState { acknowledged, unreachable_peers, quarantined, m_keys, .. } =
            &mut self.devices;
        let unreachable = unreachable_peers.due(&observation.fabric, quarantined, start);
        let applying = start.elapsed();
        let devices =
            PassDevices { client: &context.client, observation, acknowledged, keys: &*m_keys };
        let settings = ApplySettings::from(&*plan.request.options);
        let report = apply(devices, verified, settings, control, &unreachable).await;
        self.plan.baselines.start_carrying();
        m_keys.learn(&observation.fabric);
        self.logged.log_unknown_keys(&observation.fabric, m_keys, &report);
        applied_figures(&report, applying, &mut self.figures);
        self.devices.start_audit(&context.client, observation);
        let DeviceState { mapping_reader, m_keys, .. } = &mut self.devices;
        mapping_reader.start(&context.client, m_keys, observation, verified, &report.unknown);
        log_applied(observation, &report, self.figures.planning, start.elapsed());
        log_traffic(&context.client);
        recording::applied(context, &report);
        self.master.record_registered(&observation.fabric, &report);
        report
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

    /// The input of the plan without the link at a port.
    ///
    /// # Errors
    /// There is no plan or no such link, or a part of the fabric is reached by it alone.
    pub async fn study_link(
        &mut self,
        context: &ManagerContext,
        options: &Arc<Options>,
        observation: &Observation,
        end: End,
    ) -> Result<LinkStudy, String> {
        let in_force = self.plan.in_force.clone().ok_or("no plan is in force yet")?;
        let loss = LinkLoss::at(observation, end)?;
        let (_, groups) = registry_queries::groups(&context.sa_server, &loss.without).await;
        let request = self.request(context, options, &loss.without, groups).await?;
        Ok(LinkStudy::new(loss, in_force, request))
    }

    /// Logs the notes of a plan that passed.
    fn log_notes(&mut self, verified: &Verified) {
        let notes = verified.plan().notes.iter().chain(&verified.summary().notes);
        let notes: Vec<Note> =
            self.config.partitions.notes().iter().chain(notes).cloned().collect();
        self.logged.log_notes(notes);
    }
}

/// Sends a command to the SA server. Errors are ignored: the server ends with the daemon.
async fn send(context: &ManagerContext, command: SaCommand) {
    let _ = context.sa_server.send(command).await;
}
