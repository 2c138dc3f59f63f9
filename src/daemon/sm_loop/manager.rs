//! The manager: the one task that owns the state of the subnet.

use crate::config::options::Options;
use crate::daemon::messages::SaCommand;
use crate::daemon::messages::SmEvent;
use crate::daemon::process::operator_log;
use crate::daemon::sm_loop::context::{Configuration, ManagerContext};
use crate::daemon::sm_loop::pending::PendingWork;
use crate::daemon::sm_loop::reconfigure::{ReconfigureOutcome, Reconfigurer};
use crate::ids::Guid;
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

/// The first pause before a sweep that failed is repeated; it doubles up to the sweep interval.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// How the daemon ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Exit {
    /// A signal, or `-o` and the subnet is up.
    Clean,
    /// `-o` and the subnet could not be brought up.
    SubnetDown(String),
    /// The port is gone.
    PortLost(String),
    /// The fabric has a fault that the daemon is configured not to live with.
    Fatal(String),
}

/// The manager.
pub struct Manager {
    context: ManagerContext,
    options: Arc<Options>,
    once: bool,
    reconfigurer: Reconfigurer,
    observation: Option<Observation>,
    /// The master that is polled while standing by: its route and its last counter.
    master: Option<Master>,
    /// When the next light sweep or retry is due.
    next_look: Option<Instant>,
    retry_pause: Duration,
}

struct Master {
    info: SmInfo,
    route: SmpRoute,
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
            next_look: None,
            retry_pause: RETRY_PAUSE,
        }
    }

    /// Runs until the daemon is to end; `shutdown` interrupts whatever is under way.
    pub async fn run(mut self, mut shutdown: watch::Receiver<bool>) -> Exit {
        let exit = tokio::select! {
            biased;
            _ = shutdown.wait_for(|&asked| asked) => Exit::Clean,
            exit = self.cycle() => exit,
        };
        self.leave().await;
        exit
    }

    async fn cycle(&mut self) -> Exit {
        self.set_state(SmState::Discovering);
        let mut agenda = PendingWork { heavy: true, ..PendingWork::default() };
        loop {
            if let Some(exit) = self.work(&mut agenda).await {
                return exit;
            }
            if agenda.is_empty() {
                self.wait(&mut agenda).await;
            }
            // Events that arrived together are one piece of work.
            while let Ok(event) = self.context.events.try_recv() {
                self.add(&mut agenda, event);
            }
        }
    }

    async fn leave(&mut self) {
        self.reconfigurer.leave(&self.context.files, &self.options).await;
        operator_log::exiting();
    }

    fn state(&self) -> SmState {
        self.context.sm_status.borrow().state
    }

    fn set_state(&mut self, state: SmState) {
        if self.state() != state || state == SmState::Discovering {
            operator_log::entering(state);
        }
        self.context.sm_status.send_modify(|sm_status| sm_status.state = state);
        if state != SmState::Master {
            // What was published is another's to say now, and stale when the subnet returns.
            self.context.subnet.send_replace(None);
            self.context.refused.send_replace(None);
        }
    }

    fn add(&self, agenda: &mut PendingWork, event: SmEvent) {
        if matches!(event, SmEvent::Trap(_)) && !self.options.sweep_on_trap {
            // The next light sweep sees what changed.
            return;
        }
        let observation = self.observation.as_ref();
        agenda.add(event, |news| observation.and_then(|seen| switch_of(seen, news)));
    }

    /// Waits for something to do.
    async fn wait(&mut self, agenda: &mut PendingWork) {
        let poll = self.master.as_ref().map(|master| master.next_poll);
        let look = self.next_look;
        let renewal = self.reconfigurer.next_renewal();
        let now = Instant::now();
        tokio::select! {
            event = self.context.events.recv() => match event {
                Some(event) => self.add(agenda, event),
                None => agenda.port_closed = Some("all desks are closed".into()),
            },
            () = sleep_until(poll.unwrap_or(now)), if poll.is_some() => self.poll(agenda).await,
            () = sleep_until(look.unwrap_or(now)), if look.is_some() => self.look(agenda).await,
            () = sleep_until(renewal.unwrap_or(now)), if renewal.is_some() => self.renew(),
        }
    }

    /// Groups changed, and rest: the next plan is to build on them.
    fn renew(&mut self) {
        if let Some(observation) = self.observation.as_ref() {
            self.reconfigurer.renew(observation);
        }
    }

    /// Works off the agenda; an exit if the daemon is to end.
    async fn work(&mut self, agenda: &mut PendingWork) -> Option<Exit> {
        let todo = std::mem::take(agenda);
        if let Some(reason) = todo.port_closed {
            return Some(Exit::PortLost(reason));
        }
        if todo.reload {
            self.reload();
        }
        for event in &todo.roles {
            agenda.heavy |= self.change_role(*event);
        }
        let watches = matches!(self.state(), SmState::Master | SmState::Discovering);
        if !watches {
            return None;
        }
        if todo.heavy || agenda.heavy {
            agenda.heavy = false;
            return self.heavy_sweep(agenda).await;
        }
        if !todo.suspects.is_empty() {
            let suspects: Vec<Guid> = todo.suspects.into_iter().collect();
            return self.focused_sweep(&suspects, agenda).await;
        }
        if todo.plan && self.state() == SmState::Master {
            return self.configure(agenda).await;
        }
        if todo.membership {
            return self.replan(agenda).await;
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
                self.reconfigurer.reconfigure(partitions);
                info!("configuration read again");
            }
            Err(problem) => error!("the configuration stays as it was: {problem}"),
        }
    }

    /// Takes a step of the role state machine; true if a sweep is due.
    fn change_role(&mut self, event: RoleEvent) -> bool {
        let state = self.state();
        let Some((next, actions)) = role::step(state, event) else {
            warn!("{event:?} has no meaning in {state} state");
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

    async fn heavy_sweep(&mut self, agenda: &mut PendingWork) -> Option<Exit> {
        let start = Instant::now();
        match heavy::sweep(&self.context.client, self.options.m_key).await {
            Ok(observation) => {
                self.reconfigurer.told_faults(&observation, start.elapsed());
                self.tell_sa_desk(&observation, true).await;
                self.observed(observation, agenda).await
            }
            Err(problem) => {
                self.reconfigurer.told_failure(&problem);
                self.failed(problem.to_string())
            }
        }
    }

    async fn focused_sweep(&mut self, suspects: &[Guid], agenda: &mut PendingWork) -> Option<Exit> {
        let Some(last) = self.observation.as_ref() else {
            agenda.heavy = true;
            return None;
        };
        let key = self.options.m_key;
        match focused::sweep(&self.context.client, key, last, suspects).await {
            Ok(observation) => {
                // A heavy sweep confirms what the focused one took for granted.
                agenda.heavy = true;
                self.tell_sa_desk(&observation, false).await;
                self.observed(observation, agenda).await
            }
            Err(problem) => {
                error!("focused sweep: {problem}");
                agenda.heavy = true;
                None
            }
        }
    }

    /// Tells the SA desk what a sweep met; `whole` if it asked every node anew.
    async fn tell_sa_desk(&self, observation: &Observation, whole: bool) {
        let sent = self.context.client.sent() as u32;
        self.context.sm_status.send_modify(|sm_status| sm_status.act_count = sent);
        let managers = observation.managers.iter().map(|&(_, info)| info).collect();
        let whole = whole.then(|| observation.fabric.clone());
        // Without a desk there is nobody who wants to know.
        let drop_subscriptions = self.options.drop_event_subscriptions;
        let command = SaCommand::SweepFinished { managers, whole, drop_subscriptions };
        let _ = self.context.sa_server.send(command).await;
    }

    /// A sweep ended: who is to be master, and what is to be done.
    async fn observed(
        &mut self,
        observation: Observation,
        agenda: &mut PendingWork,
    ) -> Option<Exit> {
        if let Some(exit) = self.fatal(&observation) {
            return Some(exit);
        }
        let met = self.obstacle(&observation);
        self.observation = Some(observation);
        if self.state() != SmState::Master {
            let event =
                if met.is_some() { RoleEvent::SweepMetBetter } else { RoleEvent::SweepAlone };
            self.change_role(event);
        }
        if self.state() == SmState::Standby {
            self.master = met;
            self.next_look = None;
            return self.once.then(|| Exit::SubnetDown("another SM is master".into()));
        }
        self.configure(agenda).await
    }

    async fn replan(&mut self, agenda: &mut PendingWork) -> Option<Exit> {
        if self.state() != SmState::Master {
            return None;
        }
        let observation = self.observation.as_mut()?;
        match self.reconfigurer.regroup(&self.context, &self.options, observation).await {
            // The fabric was not looked at: the next sweep stays where it is.
            Some(ReconfigureOutcome::Up) => None,
            Some(
                ReconfigureOutcome::Incomplete(problem) | ReconfigureOutcome::Rejected(problem),
            ) => self.failed(problem),
            None => self.configure(agenda).await,
        }
    }

    async fn configure(&mut self, agenda: &mut PendingWork) -> Option<Exit> {
        let observation = self.observation.as_mut()?;
        let outcome = self.reconfigurer.run(&self.context, &self.options, observation).await;
        match outcome {
            ReconfigureOutcome::Up => {
                self.retry_pause = RETRY_PAUSE;
                self.next_look = self.interval().map(|pause| Instant::now() + pause);
                (self.once && !agenda.heavy).then_some(Exit::Clean)
            }
            ReconfigureOutcome::Incomplete(problem) | ReconfigureOutcome::Rejected(problem) => {
                self.failed(problem)
            }
        }
    }

    /// A pass did not bring the subnet up: with `-o` that is the end, else it is repeated.
    fn failed(&mut self, problem: String) -> Option<Exit> {
        if self.once {
            return Some(Exit::SubnetDown(problem));
        }
        let longest = self.interval().unwrap_or(RETRY_PAUSE * 64);
        self.next_look = Some(Instant::now() + self.retry_pause.min(longest));
        self.retry_pause = (self.retry_pause * 2).min(longest.max(RETRY_PAUSE));
        self.reconfigurer.is_unsettled = true;
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

    /// The SM that keeps this one from being master, with the way to it.
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

    /// Asks the master whether it lives.
    async fn poll(&mut self, agenda: &mut PendingWork) {
        let next_poll = self.next_poll();
        let retries = self.options.polling_retry_number;
        let Some(master) = self.master.as_mut() else { return };
        master.next_poll = next_poll;
        let request = SmpRequest::get(master.route, AttrId::SM_INFO, 0);
        match self.context.client.call(&request).await {
            Ok(reply) => {
                let info = SmInfo::read(&reply.data);
                let lives = info.act_count() != master.info.act_count()
                    && info.guid() == master.info.guid();
                master.failures = if lives { 0 } else { master.failures + 1 };
                master.info = info;
            }
            Err(_) => master.failures += 1,
        }
        if master.failures >= retries.max(1) {
            warn!("the master SM {} does not answer any more", master.info.guid());
            agenda.roles.push(RoleEvent::MasterSilent);
        }
    }

    /// The light sweep, or the heavy one where the last pass failed.
    async fn look(&mut self, agenda: &mut PendingWork) {
        self.next_look = self.interval().map(|pause| Instant::now() + pause);
        let unsettled = std::mem::take(&mut self.reconfigurer.is_unsettled);
        let Some(observation) = self.observation.as_ref() else {
            agenda.heavy = true;
            return;
        };
        if unsettled || self.options.force_heavy_sweep {
            agenda.heavy = true;
            return;
        }
        let findings =
            light::sweep(&self.context.client, self.options.m_key, &observation.fabric).await;
        if findings.is_empty() {
            return;
        }
        info!(
            "light sweep: {} switches changed, {} lost, {} silent places answer",
            findings.changed.len(),
            findings.lost.len(),
            findings.recovered.len()
        );
        agenda.heavy = true;
    }
}

/// The switch a trap speaks of.
fn switch_of(observation: &Observation, news: &TrapEvent) -> Option<Guid> {
    let fabric = &observation.fabric;
    fabric
        .switches()
        .iter()
        .map(|&node| fabric.node(node))
        .find(|node| fabric.observed_lid(node.first_port) == Some(news.subject))
        .map(|node| node.guid())
}

/// The limits of the SMP client as configured.
pub fn limits(options: &Options) -> SmpLimits {
    SmpLimits {
        window: options.max_wire_smps as usize,
        timeout: Duration::from_millis(options.transaction_timeout.into()),
        retries: options.transaction_retries,
    }
}
