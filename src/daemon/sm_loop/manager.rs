//! The manager: the task that owns the state of the subnet, and starts sweeps and reconfigurations.

use crate::config::options::Options;
use crate::daemon::messages::SaCommand;
use crate::daemon::messages::SmEvent;
use crate::daemon::process::operator_log;
use crate::daemon::sm_loop::context::{Configuration, ManagerContext};
use crate::daemon::sm_loop::pending::PendingWork;
use crate::daemon::sm_loop::reconfigure::{ReconfigureOutcome, Reconfigurer};
use crate::ids::Guid;
use crate::notes::counted;
use crate::observe::traps::TrapEvent;
use crate::observe::{Observation, focused, heavy, light};
use crate::sm::election::{self, Candidate};
use crate::sm::role::{self, Action, RoleEvent};
use crate::transport::transactions::{SmpLimits, SmpRequest};
use crate::wire::attr::{AttrId, SmInfo, SmState};
use crate::wire::smp::SmpRoute;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tracing::{error, info, warn};

/// Delay before a failed sweep is repeated. It doubles with each failure, up to the sweep interval.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(500);

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
    pub(super) options: Arc<Options>,
    once: bool,
    pub(super) reconfigurer: Reconfigurer,
    pub(super) observation: Option<Observation>,
    /// The master SM, polled while this SM is standby.
    master: Option<Master>,
    /// Time of the next light sweep or retry.
    next_sweep: Option<Instant>,
    retry_delay: Duration,
}

/// The master SM, as polled by this standby SM.
struct Master {
    /// Its last reply.
    info: SmInfo,
    route: SmpRoute,
    /// Consecutive polls without a sign of life.
    failures: u32,
    next_poll: Instant,
}

impl Manager {
    /// A manager that starts in DISCOVERING.
    pub fn new(context: ManagerContext, configuration: Configuration, once: bool) -> Self {
        let options = Arc::new(configuration.options);
        let reconfigurer = Reconfigurer::new(&context, &options, configuration.partitions);
        Self {
            context,
            options,
            once,
            reconfigurer,
            observation: None,
            master: None,
            next_sweep: None,
            retry_delay: MIN_RETRY_DELAY,
        }
    }

    /// Runs until the daemon ends; `shutdown` interrupts any work in progress.
    pub async fn run(mut self, mut shutdown: watch::Receiver<bool>) -> Exit {
        let exit = tokio::select! {
            biased;
            _ = shutdown.wait_for(|&requested| requested) => Exit::Clean,
            exit = self.run_loop() => exit,
        };
        self.shut_down().await;
        exit
    }

    async fn run_loop(&mut self) -> Exit {
        self.set_state(SmState::Discovering);
        let mut pending = PendingWork { heavy: true, ..PendingWork::default() };
        loop {
            if let Some(exit) = self.work(&mut pending).await {
                return exit;
            }
            if pending.is_empty() {
                self.wait(&mut pending).await;
            }
            // Events that arrived together are handled by one sweep.
            while let Ok(event) = self.context.events.try_recv() {
                self.add(&mut pending, event);
            }
        }
    }

    async fn shut_down(&mut self) {
        self.reconfigurer.shut_down(&self.context.files, &self.options).await;
        operator_log::exiting();
    }

    pub(super) fn state(&self) -> SmState {
        self.context.sm_status.borrow().state
    }

    fn set_state(&mut self, state: SmState) {
        if self.state() != state || state == SmState::Discovering {
            operator_log::entering(state);
        }
        self.context.sm_status.send_modify(|sm_status| sm_status.state = state);
        if state != SmState::Master {
            // Another SM may be master now, so the snapshot is no longer valid.
            self.context.subnet.send_replace(None);
            self.context.refused.send_replace(None);
        }
    }

    fn add(&self, pending: &mut PendingWork, event: SmEvent) {
        let asks_for_sweep = matches!(&event, SmEvent::Trap(trap) if trap.calls_for_sweep());
        if asks_for_sweep && !self.options.sweep_on_trap {
            // The next light sweep detects the change.
            return;
        }
        let observation = self.observation.as_ref();
        pending.add(event, |trap| observation.and_then(|seen| switch_of(seen, trap)));
    }

    /// Waits for an event or a deadline, and adds its work to `pending`.
    async fn wait(&mut self, pending: &mut PendingWork) {
        let poll = self.master.as_ref().map(|master| master.next_poll);
        let sweep = self.next_sweep;
        let renewal = self.reconfigurer.next_renewal();
        let now = Instant::now();
        tokio::select! {
            event = self.context.events.recv() => match event {
                Some(event) => self.add(pending, event),
                None => pending.port_closed = Some("the SMP and SA servers have ended".into()),
            },
            () = sleep_until(poll.unwrap_or(now)), if poll.is_some() => self.poll(pending).await,
            () = sleep_until(sweep.unwrap_or(now)), if sweep.is_some() => self.light_sweep(pending).await,
            () = sleep_until(renewal.unwrap_or(now)), if renewal.is_some() => self.renew_baseline(),
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
        let todo = std::mem::take(pending);
        if let Some(reason) = todo.port_closed {
            return Some(Exit::PortLost(reason));
        }
        if todo.reload {
            self.reload();
        }
        for event in &todo.roles {
            pending.heavy |= self.change_role(*event);
        }
        let sweeps = matches!(self.state(), SmState::Master | SmState::Discovering);
        if !sweeps {
            return None;
        }
        if todo.heavy || pending.heavy {
            pending.heavy = false;
            return self.heavy_sweep(pending).await;
        }
        if !todo.suspects.is_empty() {
            let suspects: Vec<Guid> = todo.suspects.into_iter().collect();
            return self.focused_sweep(&suspects, pending).await;
        }
        if !todo.changed_ports.is_empty() {
            self.read_local_changes(&todo.changed_ports, pending).await;
        }
        if (todo.plan || std::mem::take(&mut pending.plan)) && self.state() == SmState::Master {
            return self.configure(pending).await;
        }
        if todo.membership {
            return self.update_multicast(pending).await;
        }
        None
    }

    fn reload(&mut self) {
        match (self.context.reload)() {
            Ok(Configuration { options, partitions }) => {
                self.context.client.set_limits(limits(&options));
                self.context.sm_status.send_modify(|sm_status| {
                    sm_status.sm_key = options.sm_key;
                    sm_status.priority = options.sm_priority;
                });
                self.options = Arc::new(options);
                self.reconfigurer.reload(partitions);
                info!("configuration read again");
            }
            Err(problem) => error!("the configuration stays as it was: {problem}"),
        }
    }

    /// Performs a transition of the role state machine. Returns true if a sweep is due.
    fn change_role(&mut self, event: RoleEvent) -> bool {
        let state = self.state();
        let Some((next, actions)) = role::step(state, event) else {
            warn!("role event ignored in {state} state: {event}");
            return false;
        };
        if next != state {
            self.set_state(next);
        }
        if state == SmState::Standby {
            self.reconfigurer.after_standby(&self.context.files, &self.options);
        }
        if actions.contains(&Action::StopPolling) {
            self.master = None;
        }
        actions.contains(&Action::Sweep)
    }

    async fn heavy_sweep(&mut self, pending: &mut PendingWork) -> Option<Exit> {
        let start = Instant::now();
        match heavy::sweep(&self.context.client, self.options.m_key).await {
            Ok(observation) => {
                self.reconfigurer.log_faults(&observation, start.elapsed());
                self.notify_sa_server(&observation, true).await;
                self.observed(observation, pending).await
            }
            Err(problem) => {
                self.reconfigurer.log_sweep_failure(&problem);
                self.failed(problem.to_string())
            }
        }
    }

    async fn focused_sweep(
        &mut self,
        suspects: &[Guid],
        pending: &mut PendingWork,
    ) -> Option<Exit> {
        let Some(last) = self.observation.as_ref() else {
            pending.heavy = true;
            return None;
        };
        let key = self.options.m_key;
        match focused::sweep(&self.context.client, key, last, suspects).await {
            Ok(observation) => {
                // A heavy sweep follows, which reads the nodes that the focused one did not.
                pending.heavy = true;
                self.notify_sa_server(&observation, false).await;
                self.observed(observation, pending).await
            }
            Err(problem) => {
                error!("focused sweep failed, a heavy sweep follows: {problem}");
                pending.heavy = true;
                None
            }
        }
    }

    /// Sends the result of a sweep to the SA server. `whole`: a heavy sweep, which read every node.
    async fn notify_sa_server(&self, observation: &Observation, whole: bool) {
        let sent = self.context.client.sent() as u32;
        self.context.sm_status.send_modify(|sm_status| sm_status.act_count = sent);
        let managers = observation.managers.iter().map(|&(_, info)| info).collect();
        let whole = whole.then(|| observation.fabric.clone());
        let drop_subscriptions = self.options.drop_event_subscriptions;
        let command = SaCommand::SweepFinished { managers, whole, drop_subscriptions };
        let _ = self.context.sa_server.send(command).await;
    }

    /// Handles the result of a sweep: elects the master, and configures the subnet as master.
    async fn observed(
        &mut self,
        observation: Observation,
        pending: &mut PendingWork,
    ) -> Option<Exit> {
        if let Some(exit) = self.fatal(&observation) {
            return Some(exit);
        }
        let other = self.obstacle(&observation);
        self.observation = Some(observation);
        if self.state() != SmState::Master {
            let event =
                if other.is_some() { RoleEvent::SweepMetBetter } else { RoleEvent::SweepAlone };
            self.change_role(event);
        }
        if self.state() == SmState::Standby {
            log_master(other.as_ref(), self.observation.as_ref());
            self.master = other;
            self.next_sweep = None;
            return self.once.then(|| Exit::SubnetDown("another SM is master".into()));
        }
        self.configure(pending).await
    }

    async fn update_multicast(&mut self, pending: &mut PendingWork) -> Option<Exit> {
        if self.state() != SmState::Master {
            return None;
        }
        let observation = self.observation.as_mut()?;
        match self.reconfigurer.update_multicast(&self.context, &self.options, observation).await {
            // There was no sweep, so the time of the next one does not change.
            Some(ReconfigureOutcome::Up) => None,
            Some(
                ReconfigureOutcome::Incomplete(problem) | ReconfigureOutcome::Rejected(problem),
            ) => self.failed(problem),
            Some(ReconfigureOutcome::Delayed(_)) => None,
            None => self.configure(pending).await,
        }
    }

    async fn configure(&mut self, pending: &mut PendingWork) -> Option<Exit> {
        let observation = self.observation.as_mut()?;
        let outcome = self.reconfigurer.run(&self.context, &self.options, observation).await;
        match outcome {
            ReconfigureOutcome::Up => {
                self.retry_delay = MIN_RETRY_DELAY;
                self.next_sweep = self.interval().map(|pause| Instant::now() + pause);
                (self.once && !pending.heavy).then_some(Exit::Clean)
            }
            ReconfigureOutcome::Delayed(problem) if self.once => Some(Exit::SubnetDown(problem)),
            ReconfigureOutcome::Delayed(_) => {
                self.retry_delay = MIN_RETRY_DELAY;
                let sweep = self.interval().map(|pause| Instant::now() + pause);
                self.next_sweep = sweep.into_iter().chain(self.reconfigurer.next_retry()).min();
                None
            }
            ReconfigureOutcome::Incomplete(problem) | ReconfigureOutcome::Rejected(problem) => {
                self.failed(problem)
            }
        }
    }

    /// Handles a failure to configure the subnet: ends with `-o`, else schedules a retry.
    fn failed(&mut self, problem: String) -> Option<Exit> {
        if self.once {
            return Some(Exit::SubnetDown(problem));
        }
        let max_delay = self.interval().unwrap_or(MIN_RETRY_DELAY * 64);
        self.next_sweep = Some(Instant::now() + self.retry_delay.min(max_delay));
        self.retry_delay = (self.retry_delay * 2).min(max_delay.max(MIN_RETRY_DELAY));
        self.reconfigurer.needs_heavy_sweep = true;
        None
    }

    fn fatal(&self, observation: &Observation) -> Option<Exit> {
        use crate::fabric::DiscoveryFault;
        let duplicate = observation.fabric.faults().iter().find(|fault| {
            matches!(
                fault,
                DiscoveryFault::DuplicateNodeGuid { .. } | DiscoveryFault::DuplicatePortGuid { .. }
            )
        })?;
        let is_first = self.observation.is_none();
        (is_first && self.options.exit_on_fatal).then(|| Exit::Fatal(duplicate.to_string()))
    }

    fn interval(&self) -> Option<Duration> {
        let seconds = self.options.sweep_interval;
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    /// The SM that prevents this one from being master.
    fn obstacle(&self, observation: &Observation) -> Option<Master> {
        if self.options.ignore_other_sm {
            return None;
        }
        let sm_status = *self.context.sm_status.borrow();
        let own = Candidate { priority: sm_status.priority, guid: sm_status.guid };
        let others = observation.managers.iter().filter(|(_, info)| info.guid() != own.guid);
        let best = election::obstacle(own, others.clone().map(|(_, info)| info))?;
        let (port, info) = others.clone().find(|(_, info)| info == best)?;
        let route = SmpRoute::Directed(observation.fabric.route_to(*port));
        Some(Master { info: *info, route, failures: 0, next_poll: self.next_poll() })
    }

    fn next_poll(&self) -> Instant {
        Instant::now() + Duration::from_millis(self.options.sminfo_polling_timeout.max(1).into())
    }

    async fn poll(&mut self, pending: &mut PendingWork) {
        let next_poll = self.next_poll();
        let retries = self.options.polling_retry_number;
        let Some(master) = self.master.as_mut() else { return };
        master.next_poll = next_poll;
        let request = SmpRequest::get(master.route, AttrId::SM_INFO, 0);
        match self.context.client.call(&request).await {
            Ok(reply) => {
                let info = SmInfo::read(&reply.data);
                let is_alive = info.act_count() != master.info.act_count()
                    && info.guid() == master.info.guid();
                master.failures = if is_alive { 0 } else { master.failures + 1 };
                master.info = info;
            }
            Err(_) => master.failures += 1,
        }
        if master.failures >= retries.max(1) {
            warn!(
                "master SM {} did not answer {}: this SM starts a sweep to take over",
                master.info.guid(),
                counted(master.failures as usize, "poll", "polls")
            );
            pending.roles.push(RoleEvent::MasterSilent);
        }
    }

    /// Runs a light sweep, and requests a heavy one if it finds changes or if the last
    /// reconfiguration is incomplete.
    async fn light_sweep(&mut self, pending: &mut PendingWork) {
        self.next_sweep = self.interval().map(|pause| Instant::now() + pause);
        let is_incomplete = std::mem::take(&mut self.reconfigurer.needs_heavy_sweep);
        let Some(observation) = self.observation.as_ref() else {
            pending.heavy = true;
            return;
        };
        if is_incomplete || self.options.force_heavy_sweep {
            pending.heavy = true;
            return;
        }
        // Sets that devices refused are sent again after a delay.
        pending.plan |= self.reconfigurer.is_retry_due();
        let mut findings =
            light::sweep(&self.context.client, self.options.m_key, &observation.fabric).await;
        findings.changed.retain(|&guid| self.reconfigurer.clears_state_change(guid));
        if findings.is_empty() {
            return;
        }
        info!(
            "light sweep: {} changed, {} lost, {} answered again",
            counted(findings.changed.len(), "switch", "switches"),
            findings.lost.len(),
            counted(findings.recovered.len(), "silent port", "silent ports")
        );
        pending.heavy = true;
    }
}

/// The switch that a trap is about.
fn switch_of(observation: &Observation, trap: &TrapEvent) -> Option<Guid> {
    let fabric = &observation.fabric;
    fabric
        .switches()
        .iter()
        .map(|&node| fabric.node(node))
        .find(|node| fabric.observed_lid(node.first_port) == Some(trap.subject))
        .map(|node| node.guid())
}

/// Logs which SM keeps this one in STANDBY.
fn log_master(master: Option<&Master>, observation: Option<&Observation>) {
    let Some(Master { info, .. }) = master else { return };
    let node = observation.and_then(|seen| {
        let port = seen.fabric.port_by_guid(info.guid())?;
        Some(format!(" ({})", seen.fabric.node_of(port).description))
    });
    info!(
        "standing by for the SM at port GUID {}{}, priority {}, {}",
        info.guid(),
        node.unwrap_or_default(),
        info.priority(),
        info.state()
    );
}

/// The limits of the SMP client as configured.
pub fn limits(options: &Options) -> SmpLimits {
    SmpLimits {
        window: options.max_wire_smps as usize,
        timeout: Duration::from_millis(options.transaction_timeout.into()),
        retries: options.transaction_retries,
    }
}
