//! The manager: the task that owns the state of the subnet, and starts sweeps and reconfigurations.
//!
//! `roles`: its role among several SMs; `operator_requests`: actions of the management interface;
//! `reload`: reads the configuration again; `failures`: retries and fatal errors; `balancing`:
//! balances routes between sweeps; `configure`: reconfigurations, and which events end them early;
//! `events`: descriptions of events for the flight recorder.

mod balancing;
mod configure;
mod events;
mod failures;
mod foreign_master;
mod operator_requests;
mod reload;
mod roles;

use crate::config::config_files::FileVersion;
use crate::config::options::Options;
use crate::contained;
use crate::daemon::messages::SaCommand;
use crate::daemon::messages::SmEvent;
use crate::daemon::process::operator_log;
use crate::daemon::sm_loop::config_status;
use crate::daemon::sm_loop::context::{Configuration, ManagerContext};
use crate::daemon::sm_loop::event_queue::EventQueue;
use crate::daemon::sm_loop::link_quarantine::LinkQuarantine;
use crate::daemon::sm_loop::link_storm::LinkStorm;
use crate::daemon::sm_loop::mastership::{Mastership, StrangerLog};
use crate::daemon::sm_loop::monitor::Monitor;
use crate::daemon::sm_loop::pending::{PendingWork, switch_of};
use crate::daemon::sm_loop::reconfigure::{ReconfigureOutcome, Reconfigurer};
use crate::daemon::sm_loop::unresponsive_devices::UnresponsiveDevices;
use crate::fabric::Fabric;
use crate::ids::Guid;
use crate::manage::loop_status::{Cause, Causes};
use crate::observe::Observation;
use crate::record::entry::EventKind;
use crate::transport::transactions::SmpLimits;
use crate::wire::attr::SmState;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// Delay before a failed sweep is repeated. It doubles with each failure, up to the sweep interval.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(500);

/// Number of sweeps and reconfigurations in a row that changed links may interrupt.
pub(super) const MAX_UNFINISHED: u32 = 8;

/// How the daemon ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Exit {
    /// After a signal, or with `-o` once the subnet is up.
    Clean,
    /// With `-o`: the subnet could not be configured.
    SubnetDown(String),
    /// The port was closed.
    PortLost(String),
    /// A fatal fault of the fabric (`exit_on_fatal`).
    Fatal(String),
}

pub struct Manager {
    pub(super) context: ManagerContext,
    pub(super) events: EventQueue,
    pub(super) options: Arc<Options>,
    /// The configuration files as this SM last read them, those that it rejected included.
    read_files: Vec<FileVersion>,
    once: bool,
    pub(super) reconfigurer: Reconfigurer,
    pub(super) observation: Option<Observation>,
    pub(super) links: LinkQuarantine,
    pub(super) unresponsive: UnresponsiveDevices,
    pub(super) storm: LinkStorm,
    pub(super) mastership: Mastership,
    strangers: StrangerLog,
    /// This SM was master or standby since its start.
    has_taken_part: bool,
    /// The better SM that did not accept the last HANDOVER.
    refused_by: Option<Guid>,
    /// An operator inhibits all sweeps.
    pub(super) are_sweeps_inhibited: bool,
    /// The last sweep found the local port without a link.
    is_port_down: bool,
    /// Time of the next light sweep or retry.
    pub(super) next_sweep: Option<Instant>,
    /// Time at which the routes are balanced again, unless the subnet changes before.
    next_balancing: Option<Instant>,
    retry_delay: Duration,
    /// Sweeps and reconfigurations in a row that ended early.
    pub(super) unfinished: u32,
    /// The snapshot of the last reconfiguration that did not end early.
    completed: Option<Arc<Fabric>>,
    /// The last reconfiguration ended early because devices were silent.
    was_silent: bool,
    /// Light sweeps that confirmed focused ones since the last trap or light sweep without a
    /// change.
    pub(super) rechecks: u32,
    pub(super) monitor: Monitor,
    /// Why the work in progress is done.
    pub(super) causes: Causes,
}

impl Manager {
    /// A manager that starts in the state that `context.sm_status` shows.
    pub fn new(
        context: ManagerContext,
        events: EventQueue,
        configuration: Configuration,
        once: bool,
    ) -> Self {
        let options = Arc::new(configuration.options);
        context.recordings.configure(&options, &configuration.files.texts);
        let opensm_conf = context.config_file.as_deref();
        let opensm_conf = opensm_conf.map(|path| FileVersion::read("config", path));
        let named = configuration.files.versions.iter().cloned();
        let read_files: Vec<FileVersion> = opensm_conf.into_iter().chain(named).collect();
        let reconfigurer = Reconfigurer::new(&context, &options, configuration.files);
        let mut monitor = Monitor::new(context.feed.clone());
        monitor.configured(config_status::in_force(&read_files));
        Self {
            context,
            events,
            options,
            read_files,
            once,
            reconfigurer,
            observation: None,
            links: LinkQuarantine::default(),
            unresponsive: UnresponsiveDevices::default(),
            storm: LinkStorm::default(),
            mastership: Mastership::default(),
            strangers: StrangerLog::default(),
            has_taken_part: false,
            refused_by: None,
            are_sweeps_inhibited: false,
            is_port_down: false,
            next_sweep: None,
            next_balancing: None,
            retry_delay: MIN_RETRY_DELAY,
            unfinished: 0,
            completed: None,
            was_silent: false,
            rechecks: 0,
            monitor,
            causes: Causes::new(),
        }
    }

    /// Runs until the daemon ends; `shutdown` interrupts any work in progress.
    pub async fn run(mut self, mut shutdown: watch::Receiver<bool>) -> Exit {
        let exit = tokio::select! {
            biased;
            _ = shutdown.wait_for(|&requested| requested) => Exit::Clean,
            exit = self.run_loop() => exit,
        };
        if !matches!(exit, Exit::PortLost(_)) {
            self.leave().await;
        }
        self.shut_down().await;
        exit
    }

    async fn run_loop(&mut self) -> Exit {
        self.record(EventKind::Daemon, || format!("start in {} state", self.state()));
        self.enter_first_state();
        let mut pending = PendingWork { heavy: true, ..PendingWork::default() };
        pending.causes.insert(Cause::Start);
        loop {
            let pass = contained::run_async(self.pass(&mut pending)).await;
            let exit = pass.unwrap_or_else(|panic| {
                pending = PendingWork::default();
                self.pass_failed(&panic)
            });
            if let Some(exit) = exit {
                return exit;
            }
        }
    }

    /// Does the pending work, and waits for more.
    async fn pass(&mut self, pending: &mut PendingWork) -> Option<Exit> {
        if let Some(exit) = self.work(pending).await {
            return Some(exit);
        }
        if self.state() == SmState::Standby {
            self.reconfigurer.keep_warm(&self.context, &self.options).await;
        }
        self.publish_status();
        if pending.is_empty() {
            pending.causes.clear();
            pending.trap_arrived = None;
            self.wait(pending).await;
            self.publish_status();
        }
        // Events that arrived together are handled by one sweep.
        self.take_events(pending);
        if let Some(due) = self.storm.collect_until(Instant::now())
            && !pending.suspects.is_empty()
        {
            sleep_until(due).await;
            self.take_events(pending);
        }
        None
    }

    /// A pass panicked: the next one trusts nothing that it may have left half done. Like a failed
    /// sweep, it comes after a delay, which grows if it panics, too.
    fn pass_failed(&mut self, panic: &contained::Panic) -> Option<Exit> {
        let consequence = "the next sweep starts from scratch; the routes in force stay";
        contained::log("a sweep or reconfiguration", panic, consequence);
        self.observation = None;
        (self.unfinished, self.was_silent, self.rechecks) = (0, false, 0);
        self.completed = None;
        self.reconfigurer.start_from_scratch();
        self.failed(format!("a sweep or reconfiguration failed: {panic}"))
    }

    fn publish_status(&mut self) {
        self.show_followed();
        let (context, observation) = (&self.context, self.observation.as_ref());
        self.monitor.publish(context, observation, &self.options, self.events.waiting());
    }

    async fn shut_down(&mut self) {
        self.monitor.exiting();
        self.record(EventKind::Daemon, || "end");
        self.reconfigurer.shut_down(&self.context, &self.options).await;
        operator_log::exiting();
    }

    /// Adds the work of all events that have arrived.
    pub(super) fn take_events(&mut self, pending: &mut PendingWork) {
        while let Some(event) = self.events.try_recv() {
            self.add(pending, event);
        }
    }

    /// Records an event.
    pub(super) fn record<T: AsRef<str>>(&self, kind: EventKind, text: impl FnOnce() -> T) {
        self.context.recordings.event(kind, text);
    }

    fn add(&mut self, pending: &mut PendingWork, event: SmEvent) {
        if let SmEvent::Trap(trap) = &event {
            self.monitor.trap(trap);
        }
        let (kind, text) = events::describe(&event);
        self.record(kind, || text);
        let asks_for_sweep = matches!(&event, SmEvent::Trap(trap) if trap.calls_for_sweep());
        if asks_for_sweep && !self.options.sweep_on_trap {
            // The next light sweep detects the change.
            return;
        }
        if asks_for_sweep {
            self.rechecks = 0;
            self.storm.changed(Instant::now());
        }
        let observation = self.observation.as_ref();
        pending.add(event, |trap| observation.and_then(|seen| switch_of(seen, trap)));
    }

    /// Waits for an event or a deadline, and adds its work to `pending`.
    async fn wait(&mut self, pending: &mut PendingWork) {
        let sweep = self.next_sweep;
        let renewal = self.reconfigurer.next_renewal();
        let release = self.links.next_release();
        let balancing = self.next_balancing;
        let now = Instant::now();
        tokio::select! {
            event = self.events.recv() => match event {
                Some(event) => self.add(pending, event),
                None => pending.port_closed = Some("the SMP and SA servers have ended".into()),
            },
            due = self.mastership.next() => {
                if let Some(text) = events::describe_due(&due) {
                    self.record(EventKind::Timer, || text);
                }
                self.watch_others(due, pending).await;
            }
            () = self.reconfigurer.device_tables_read() => pending.plan = true,
            () = sleep_until(sweep.unwrap_or(now)), if sweep.is_some() => {
                pending.causes.insert(Cause::Timer);
                self.light_sweep(pending).await;
            }
            () = sleep_until(balancing.unwrap_or(now)), if balancing.is_some() => {
                self.balance(pending).await;
            }
            () = sleep_until(renewal.unwrap_or(now)), if renewal.is_some() => self.renew_baseline(),
            () = sleep_until(release.unwrap_or(now)), if release.is_some() => {
                pending.causes.insert(Cause::Timer);
                self.release_links(pending);
            }
        }
    }

    /// Includes changed multicast groups in the baseline of the next plan.
    fn renew_baseline(&mut self) {
        if let Some(observation) = self.observation.as_ref() {
            self.reconfigurer.renew_baseline(observation);
        }
    }

    /// Does the pending work. Returns an exit if the daemon must end.
    async fn work(&mut self, pending: &mut PendingWork) -> Option<Exit> {
        let mut todo = std::mem::take(pending);
        if let Some(reason) = todo.port_closed {
            return Some(Exit::PortLost(reason));
        }
        if todo.reload {
            self.reload().await;
        }
        (pending.causes, pending.trap_arrived) = (todo.causes.clone(), todo.trap_arrived);
        for &(request, priority) in &todo.priorities {
            self.set_priority(request, priority).await;
        }
        self.allow_sweeps(todo.sweeping, pending);
        for (event, peer) in &todo.roles {
            self.change_role(*event, Some(peer), pending);
        }
        self.carry_out(&todo, pending).await;
        if !matches!(self.state(), SmState::Master | SmState::Discovering) {
            return None;
        }
        if self.are_sweeps_inhibited {
            todo.drop_sweeps();
            pending.drop_sweeps();
        }
        pending.heavy |= todo.heavy;
        pending.confirmation |= todo.confirmation;
        pending.changed_ports = todo.changed_ports;
        if !todo.link_errors.is_empty() {
            self.port_errors(&todo.link_errors, pending).await;
        }
        // Changes reported by traps come first: routes over lost links are repaired before the
        // rest is read.
        if !todo.suspects.is_empty() && self.may_focus() {
            let suspects: Vec<Guid> = todo.suspects.into_iter().collect();
            return self.focused_sweep(&suspects, pending).await;
        }
        pending.heavy |= !todo.suspects.is_empty();
        if std::mem::take(&mut pending.heavy) {
            pending.changed_ports.clear();
            return self.heavy_sweep(pending).await;
        }
        let changed_ports = std::mem::take(&mut pending.changed_ports);
        if !changed_ports.is_empty() {
            self.read_local_changes(&changed_ports, pending).await;
        }
        if (todo.plan || std::mem::take(&mut pending.plan)) && self.state() == SmState::Master {
            return self.configure(pending).await;
        }
        if todo.membership {
            return self.update_multicast(pending).await;
        }
        if std::mem::take(&mut pending.confirmation) {
            self.confirm(pending).await;
        }
        None
    }

    /// Sends the result of a sweep to the SA server. `whole`: a heavy sweep, which read every node.
    pub(super) async fn notify_sa_server(&self, observation: &Observation, whole: bool) {
        let sent = self.context.client.sent() as u32;
        self.context.sm_status.send_modify(|sm_status| sm_status.act_count = sent);
        let managers = observation.managers.iter().map(|&(_, info)| info).collect();
        let whole = whole.then(|| observation.fabric.clone());
        let drop_subscriptions = self.options.drop_event_subscriptions;
        let command = SaCommand::SweepFinished { managers, whole, drop_subscriptions };
        let _ = self.context.sa_server.send(command).await;
    }

    /// Other SMs must know the M_Key that the local port holds.
    fn show_protection(&self, observation: &Observation) {
        let fabric = &observation.fabric;
        let owner = fabric.owner(fabric.local());
        if let Some(info) = fabric.port(owner).info {
            self.context.sm_status.send_modify(|sm_status| sm_status.set_protection(&info));
        }
    }

    /// Handles the result of a sweep: elects the master, and configures the subnet as master.
    pub(super) async fn observed(
        &mut self,
        observation: Observation,
        pending: &mut PendingWork,
    ) -> Option<Exit> {
        if let Some(exit) = self.fatal(&observation) {
            return Some(exit);
        }
        self.monitor.observed(&observation);
        self.note_unresponsive(&observation);
        self.observation = Some(observation.clone());
        self.show_protection(&observation);
        if let Err(exit) = self.elect(&observation, pending).await {
            return exit;
        }
        self.configure(pending).await
    }

    /// Waits for what an update of multicast groups needs. Returns false if work arrives meanwhile
    /// that comes first.
    async fn update_prepared(&mut self, pending: &mut PendingWork) -> bool {
        while !pending.is_urgent() {
            tokio::select! {
                biased;
                event = self.events.recv() => match event {
                    Some(event) => self.add(pending, event),
                    None => pending.port_closed = Some("the SMP and SA servers have ended".into()),
                },
                () = self.reconfigurer.update_prepared() => return true,
            }
        }
        false
    }

    async fn update_multicast(&mut self, pending: &mut PendingWork) -> Option<Exit> {
        if self.state() != SmState::Master {
            return None;
        }
        if !self.update_prepared(pending).await {
            pending.membership = true;
            return None;
        }
        let observation = self.observation.as_mut()?;
        let start = Instant::now();
        let update = self.reconfigurer.update_multicast(&self.context, observation);
        let outcome = update.await;
        if let Some(outcome) = &outcome {
            self.causes = std::mem::take(&mut pending.causes);
            self.record_reconfiguration(outcome, (start, None));
        }
        match outcome {
            // There was no sweep, so the time of the next one does not change. The groups are
            // programmed, also if plans with new routes are rejected.
            Some(ReconfigureOutcome::Up | ReconfigureOutcome::Rejected(_)) => None,
            Some(ReconfigureOutcome::Incomplete(problem)) => self.failed(problem),
            Some(ReconfigureOutcome::Delayed(_)) => None,
            Some(ReconfigureOutcome::EndedEarly(_)) | None => self.configure(pending).await,
        }
    }

    pub(super) fn interval(&self) -> Option<Duration> {
        let seconds = self.options.sweep_interval;
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }
}

/// The limits of the SMP client as configured. The window adapts only if none is configured.
pub fn limits(options: &Options) -> SmpLimits {
    let is_fixed = options.max_wire_smps != Options::default().max_wire_smps;
    SmpLimits {
        window: options.max_wire_smps as usize,
        adaptive: if is_fixed { 0 } else { options.max_adaptive_wire_smps as usize },
        total: options.max_wire_smps2 as usize,
        per_device: options.max_smps_per_device as usize,
        timeout: Duration::from_millis(options.transaction_timeout.into()),
        long_timeout: Duration::from_millis(options.long_transaction_timeout.into()),
        retries: options.transaction_retries,
    }
}
