//! The SM loop: the one task that owns the state of the subnet. It collects events, takes the most
//! urgent task from the agenda, executes it, and adds what follows from it to the agenda.
//!
//! ```text
//!  signals ─────────────┐                                   ┌─► watch: SmStatus ──► SMP server
//!  SMP server (traps, ──┤  SmEvent    ┌───────────────────┐ ├─► watch: Subnet ────► SA, SMP server
//!   SubnSet(SMInfo))    ├──(mpsc)───► │  collect events   │ │
//!  SA server ───────────┤             │        │          │ ├─► SaCommand (mpsc) ─► SA server
//!  management interface ┘             │        ▼          │ │
//!                                     │   agenda.next     │ ├─► LoopStatus, Event ► management
//!  Timers (deadlines) ──────────────► │        │ Task     │ │
//!  replies to polls of other SMs ───► │        ▼          │ ├─► WriteJob (thread) ► files
//!  audit, readers of mappings ──────► │     execute ──────┼─┤
//!                                     │        │ FollowUp │ ├─► SMPs (SmpClient) ─► devices
//!                                     │        ▼          │ │
//!                                     │  agenda.absorb    │ └─► planner threads (plan, verify)
//!                                     └───────────────────┘
//! ```
//!
//! Tasks: [`sweep_tasks`] observe the fabric, [`configure_tasks`] plan and program it. Each takes its
//! input from the state, and returns an exit if the daemon must end.

mod configure_tasks;
mod sweep_tasks;

use super::agenda::{Agenda, FollowUp, Task, TaskKind};
use super::context::{Configuration, ManagerContext};
use super::env::LoopEnv;
use super::event_queue::EventQueue;
use super::file_writer::EXIT_TIME;
use super::monitor::Monitor;
use super::quarantine::LinkQuarantine;
use super::stages::mastership::{self, Distrust, Due, Mastership, PollEvent, RoleOutcome};
use super::stages::reconfigure::Reconfigurer;
use super::state::{LoopState, MIN_RETRY_DELAY};
use super::timers::{Timer, Timers};
use super::unresponsive_devices::UnresponsiveDevices;
use super::{config_status, event_text, reload};
use crate::config::config_files::FileVersion;
use crate::config::options::Options;
use crate::contained;
use crate::daemon::messages::SmEvent;
use crate::daemon::process::operator_log;
use crate::daemon::process::priority::spawn_idle;
use crate::fabric::{End, Fabric};
use crate::ids::{Guid, Lid};
use crate::manage::action::{OperatorAction, RequestId};
use crate::observe::Observation;
use crate::record::entry::EventKind;
use crate::wire::attr::SmState;
use std::sync::Arc;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{info, warn};

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

pub struct SmLoop {
    env: LoopEnv,
    events: EventQueue,
    agenda: Agenda,
    state: LoopState,
    /// The configuration files as this SM last read them, those that it rejected included.
    read_files: Vec<FileVersion>,
    reconfigurer: Reconfigurer,
    mastership: Mastership,
    links: LinkQuarantine,
    unresponsive: UnresponsiveDevices,
    /// One permit for a plan without a link that an operator asks for.
    studies: Arc<Semaphore>,
}

impl SmLoop {
    /// A loop that starts in the state that `context.published.sm_status` shows.
    pub fn new(
        context: ManagerContext,
        events: EventQueue,
        configuration: Configuration,
        once: bool,
    ) -> Self {
        let options = Arc::new(configuration.options);
        context.recordings.configure(&options, &configuration.files.sources.texts);
        let opensm_conf = context.config_file.as_deref();
        let opensm_conf = opensm_conf.map(|path| FileVersion::read("config", path));
        let named = configuration.files.sources.versions.iter().cloned();
        let read_files: Vec<FileVersion> = opensm_conf.into_iter().chain(named).collect();
        let mut monitor = Monitor::new(context.shared.feed.clone());
        let errors = [&configuration.ignored_lines[..], configuration.files.errors()].concat();
        monitor.configured(config_status::at_start(&read_files, &errors));
        Self {
            reconfigurer: Reconfigurer::new(&context, &options, configuration.files),
            env: LoopEnv { context, options, monitor, timers: Timers::default(), once },
            events,
            agenda: Agenda::at_start(),
            state: LoopState::default(),
            read_files,
            mastership: Mastership::default(),
            links: LinkQuarantine::default(),
            unresponsive: UnresponsiveDevices::default(),
            studies: Arc::new(Semaphore::new(1)),
        }
    }

    /// Runs until the daemon ends; `shutdown` interrupts any work in progress.
    pub async fn run(mut self, mut shutdown: watch::Receiver<bool>) -> Exit {
        let exit = tokio::select! {
            biased;
            _ = shutdown.wait_for(|&requested| requested) => Exit::Clean,
            exit = self.run_tasks() => exit,
        };
        if !matches!(exit, Exit::PortLost(_)) {
            self.leave().await;
        }
        self.env.monitor.exiting();
        self.env.record(EventKind::Daemon, || "end");
        let is_once = self.env.once;
        let gives_up = async {
            // With `-o`, the dumps are part of the work, however long they take.
            if is_once {
                let _ = shutdown.wait_for(|&requested| requested).await;
            }
            sleep(EXIT_TIME).await;
        };
        self.reconfigurer.shut_down(&self.env.context, &self.env.options, gives_up).await;
        operator_log::exiting();
        exit
    }

    async fn run_tasks(&mut self) -> Exit {
        let role = self.env.role();
        self.env.record(EventKind::Daemon, || format!("start in {role} state"));
        self.mastership.enter_first_state(&mut self.env);
        self.after_role_change(RoleOutcome { entered: Some(role), ..RoleOutcome::default() });
        loop {
            let step = contained::run_async(self.step()).await;
            let exit = step.unwrap_or_else(|panic| self.step_failed(&panic));
            if let Some(exit) = exit {
                return exit;
            }
        }
    }

    /// Does the most urgent task, or waits for work.
    async fn step(&mut self) -> Option<Exit> {
        let situation = self.state.situation(self.env.role());
        let task = self.agenda.next(&situation, Instant::now());
        if let Some(exit) = self.execute(task).await {
            return Some(exit);
        }
        if self.env.role() == SmState::Standby {
            self.reconfigurer.keep_warm(&self.env.context, &self.env.options).await;
        }
        self.publish_status();
        // Events that arrived together are handled by one sweep.
        self.take_events();
        None
    }

    async fn execute(&mut self, task: Task) -> Option<Exit> {
        match task {
            Task::End(reason) => return Some(Exit::PortLost(reason)),
            Task::Reload => self.reload().await,
            Task::Operator(request, action) => self.carry_out(request, action).await,
            Task::Role(event, peer) => {
                let keys = self.reconfigurer.m_keys();
                let outcome = self.mastership.change(&mut self.env, keys, event, Some(&peer));
                self.after_role_change(outcome);
            }
            Task::Watch(due) => self.watch_others(due).await,
            Task::LinkErrors(errors) => self.link_errors(&errors).await,
            Task::Collect(until) => sleep_until(until).await,
            Task::FocusedSweep(suspects) => return self.focused_sweep(&suspects).await,
            Task::HeavySweep => return self.heavy_sweep().await,
            Task::LocalChanges(ports) => self.read_local_changes(&ports).await,
            Task::Configure => return self.configure().await,
            Task::Multicast => return self.update_multicast().await,
            Task::Confirm => self.confirm().await,
            Task::LightSweep => self.light_sweep().await,
            Task::ReleaseLinks => self.release_links(),
            Task::Balance => self.balance().await,
            Task::RenewBaseline => {
                if let Some(observation) = &self.state.observation {
                    self.reconfigurer.renew_baseline(observation);
                }
            }
            Task::Wait => self.wait().await,
        }
        None
    }

    /// Waits for an event or a deadline, and adds its work to the agenda.
    async fn wait(&mut self) {
        debug_assert!(self.agenda.is_empty(), "there is work to do: {:?}", self.agenda);
        self.agenda.clear_causes();
        self.env.timers.set(Timer::Renewal, self.reconfigurer.next_renewal());
        self.env.timers.set(Timer::Release, self.links.next_release());
        let deadline = self.env.timers.next_deadline();
        tokio::select! {
            event = self.events.recv() => self.received(event),
            event = self.mastership.poll_event() => {
                let text = match event {
                    PollEvent::Due => "poll the master",
                    PollEvent::Reply(_) => "the master answered a poll",
                };
                self.env.record(EventKind::Timer, || text);
                self.agenda.watch(Due::Poll(event));
            }
            () = self.reconfigurer.device_tables_read() => {
                self.agenda.absorb(FollowUp::task(TaskKind::Configure));
            }
            () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                self.take_expired_timers();
            }
        }
    }

    fn take_expired_timers(&mut self) {
        let now = Instant::now();
        while let Some((timer, deadline)) = self.env.timers.expire(now) {
            match timer {
                Timer::Look => self.env.record(EventKind::Timer, || "query the other SMs"),
                Timer::PortCheck => mastership::port_check_due(&mut self.env.timers, deadline, now),
                Timer::Sweep => self.env.schedule_light_sweep(),
                Timer::Balancing | Timer::Renewal | Timer::Release => {}
            }
            self.agenda.expired(timer);
        }
    }

    fn received(&mut self, event: Option<SmEvent>) {
        self.add(
            event
                .unwrap_or_else(|| SmEvent::PortClosed("the SMP and SA servers have ended".into())),
        );
    }

    /// Adds the work of all events that have arrived.
    fn take_events(&mut self) {
        while let Some(event) = self.events.try_recv() {
            self.add(event);
        }
    }

    fn add(&mut self, event: SmEvent) {
        let (kind, text) = event_text::describe(&event);
        self.env.record(kind, || text);
        if let SmEvent::Trap(trap) = &event {
            self.env.monitor.trap(trap);
            if trap.calls_for_sweep() {
                if !self.env.options.sweep_on_trap {
                    // The next light sweep detects the change.
                    return;
                }
                self.state.rechecks = 0;
            }
        }
        let observation = self.state.observation.as_ref();
        self.agenda.add(event, Instant::now(), |trap| {
            observation.and_then(|seen| switch_with_lid(&seen.fabric, trap.subject))
        });
    }

    /// A task panicked: the next one trusts nothing that it may have left half done. Like a failed
    /// sweep, it comes after a delay, which grows if it panics, too.
    fn step_failed(&mut self, panic: &contained::Panic) -> Option<Exit> {
        let consequence = "the next sweep starts from scratch; the routes in force stay";
        contained::log("a sweep or reconfiguration", panic, consequence);
        self.agenda = Agenda::default();
        self.state.start_from_scratch();
        self.reconfigurer.start_from_scratch();
        self.failed(format!("a sweep or reconfiguration failed: {panic}"))
    }

    /// Handles a failure to configure the subnet: ends with `-o`, else schedules a retry.
    fn failed(&mut self, problem: String) -> Option<Exit> {
        if let Some(write) = self.env.context.recordings.failed(&problem) {
            // The task ends by itself.
            drop(spawn_idle(write));
        }
        if self.env.once {
            return Some(Exit::SubnetDown(problem));
        }
        let max_delay = self.env.sweep_interval().unwrap_or(MIN_RETRY_DELAY * 64);
        let delay = self.state.retry_delay.min(max_delay);
        self.env.timers.set(Timer::Sweep, Instant::now() + delay);
        self.state.retry_delay = (self.state.retry_delay * 2).min(max_delay.max(MIN_RETRY_DELAY));
        self.state.needs_heavy_sweep = true;
        None
    }

    fn publish_status(&mut self) {
        self.mastership.show_followed(&self.env);
        let LoopEnv { context, options, monitor, .. } = &mut self.env;
        let queued = self.events.waiting();
        monitor.set_link_downs(self.links.downs());
        monitor.publish(context, self.state.observation.as_ref(), options, queued);
    }

    /// Does what follows from a change of the role.
    fn after_role_change(&mut self, outcome: RoleOutcome) {
        let RoleOutcome { entered, distrust, follow_up } = outcome;
        if entered == Some(SmState::NotActive) {
            self.reconfigurer.stop_following();
        }
        if entered.is_some_and(|state| state != SmState::Master) {
            self.unresponsive.forget(&mut self.env.monitor);
        }
        match distrust {
            Some(Distrust::AfterStandby) => {
                self.reconfigurer.after_standby(&self.env.context, &self.env.options);
            }
            Some(Distrust::Devices) => self.reconfigurer.distrust_devices(),
            None => {}
        }
        self.agenda.absorb(follow_up);
    }

    /// Does the work that is due because of other SMs or of the local port.
    async fn watch_others(&mut self, due: Due) {
        let keys = self.reconfigurer.m_keys();
        match due {
            Due::Poll(PollEvent::Due) => {
                let outcome = self.mastership.poll_due(&mut self.env, keys);
                self.after_role_change(outcome);
            }
            Due::Poll(PollEvent::Reply(info)) => {
                let seen = self.state.observation.as_mut();
                let outcome = self.mastership.poll_replied(&mut self.env, keys, seen, &info).await;
                self.after_role_change(outcome);
            }
            Due::Look => self.query_others().await,
            Due::PortCheck => {
                let Some(seen) = &self.state.observation else { return };
                let is_down = mastership::is_port_down(&self.env.context.client, keys, seen).await;
                self.agenda.absorb(FollowUp::nothing().and(TaskKind::HeavySweep, is_down));
            }
        }
    }

    async fn reload(&mut self) {
        let old_priority = self.env.options.sm_priority;
        let seen = self.state.observation.as_ref();
        let files = &mut self.read_files;
        let is_new = reload::reload(&mut self.env, &mut self.reconfigurer, files, seen).await;
        let keys = self.reconfigurer.m_keys();
        if is_new {
            self.mastership.use_keys(keys);
        }
        self.mastership.priority_changed(&self.env, keys, seen, old_priority).await;
    }

    /// Carries out the action of an operator. Its name and result go to the management interface.
    async fn carry_out(&mut self, request: RequestId, action: OperatorAction) {
        let name = action.name();
        match action {
            OperatorAction::Sweeping(is_enabled) => self.allow_sweeps(is_enabled),
            OperatorAction::Priority(priority) => {
                let result = self.set_priority(priority).await;
                self.env.monitor.events().action_ended(name, request, Ok(result));
            }
            OperatorAction::Dump | OperatorAction::Handover(_) | OperatorAction::WhatIf(..) if self.env.role() != SmState::Master => {
                let problem = format!("this SM is not master: its state is {}", self.env.role());
                self.env.monitor.events().action_ended(name, request, Err(problem));
            }
            OperatorAction::Dump => self.reconfigurer.dump(&self.env.context, request),
            OperatorAction::Handover(to) => {
                let keys = self.reconfigurer.m_keys();
                let seen = self.state.observation.as_ref();
                let handed_over =
                    self.mastership.hand_over_by_request(&mut self.env, keys, seen, request, to);
                match handed_over.await {
                    Ok(outcome) => self.after_role_change(outcome),
                    Err(problem) => {
                        warn!("no HANDOVER as an operator requests: {problem}");
                        self.env.monitor.events().action_ended(name, request, Err(problem));
                    }
                }
            }
            OperatorAction::Quarantine(guid, num) => self.quarantine_by_request((guid, num)),
            OperatorAction::Release(guid, num) => self.release_by_request((guid, num)),
            OperatorAction::WhatIf(guid, num) => self.what_if(request, (guid, num)).await,
            // The agenda makes these tasks of their own.
            OperatorAction::Resweep | OperatorAction::LightSweep | OperatorAction::Reroute
            // These are no work of the SM loop.
            | OperatorAction::Reload
            | OperatorAction::LogFlush(_)
            | OperatorAction::LogLevel(_)
            | OperatorAction::Record
            | OperatorAction::Perfmgr(_)
            | OperatorAction::Accept(_)
            | OperatorAction::Exit => debug_assert!(false, "the action {name} is carried out elsewhere"),
        }
    }

    /// Allows or inhibits sweeps. A heavy sweep replaces those that were inhibited.
    fn allow_sweeps(&mut self, is_enabled: bool) {
        if is_enabled != self.state.are_sweeps_inhibited {
            return;
        }
        self.state.are_sweeps_inhibited = !is_enabled;
        self.env.monitor.sweeps_enabled(is_enabled);
        self.agenda.absorb(FollowUp::nothing().and(TaskKind::HeavySweep, is_enabled));
        info!("an operator {} sweeps", if is_enabled { "allows" } else { "inhibits" });
    }

    /// Sets the priority of this SM until the next reload. Returns the result in words.
    async fn set_priority(&mut self, priority: u8) -> String {
        let old = self.env.options.sm_priority;
        info!("an operator changes the priority of this SM from {old} to {priority}");
        let options = Options { sm_priority: priority, ..Options::clone(&self.env.options) };
        self.env.context.published.sm_status.send_modify(|status| status.reload(&options));
        self.env.options = Arc::new(options);
        let keys = self.reconfigurer.m_keys();
        let seen = self.state.observation.as_ref();
        self.mastership.priority_changed(&self.env, keys, seen, old).await;
        if self.env.role() == SmState::Master {
            mastership::look_soon(&mut self.env);
        }
        match self.env.options.master_sm_priority {
            master if master > priority => format!("priority {priority}, {master} as master"),
            _ => format!("priority {priority}"),
        }
    }

    /// Quarantines the link at a port, and requests a plan without it.
    fn quarantine_by_request(&mut self, port: End) {
        if self.env.role() != SmState::Master {
            return;
        }
        let Some(observation) = self.state.observation.take() else { return };
        let follow_up = self.links.hold(&observation.fabric, port);
        self.agenda.absorb(follow_up);
        self.state.observation = Some(self.without_quarantined(observation));
    }

    /// Ends the quarantine of the link at a port.
    fn release_by_request(&mut self, port: End) {
        if let Some(observation) = &self.state.observation
            && self.env.role() == SmState::Master
        {
            let released = self.links.release(&self.env.monitor, &observation.fabric, port);
            self.agenda.absorb(released);
        }
    }

    /// Ends the quarantines of links that were calm.
    fn release_links(&mut self) {
        let fabric = self.state.observation.as_ref().map(|seen| &*seen.fabric);
        let released = self.links.release_calm(&self.env.monitor, fabric);
        self.agenda.absorb(released);
    }

    /// Removes quarantined links from a snapshot, which the next plan shows as treated as down.
    fn without_quarantined(&mut self, observation: Observation) -> Observation {
        let observation = self.links.remove_from(&self.env.monitor, observation);
        self.reconfigurer.set_quarantined(self.links.removed().to_vec());
        observation
    }

    /// Before the daemon ends: a master hands over to the best standby.
    async fn leave(&mut self) {
        if self.env.role() != SmState::Master {
            return;
        }
        let Some(observation) = self.state.observation.take() else { return };
        let LoopEnv { context, options, .. } = &self.env;
        let keys = self.reconfigurer.m_keys();
        mastership::leave(context, &mut self.events, options, keys, &observation).await;
    }
}

/// The node GUID of the switch with a LID.
fn switch_with_lid(fabric: &Fabric, lid: Lid) -> Option<Guid> {
    let switches = fabric.switches().iter().map(|&node| fabric.node(node));
    let found = switches.into_iter().find(|node| fabric.observed_lid(node.first_port) == Some(lid));
    found.map(|node| node.guid())
}
