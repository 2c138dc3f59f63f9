//! Changes of this SM's role: performs the transitions of [`crate::sm::role`].

use super::{AnnouncedChange, Mastership, PORT_CHECK_INTERVAL, SUCCESSOR_QUERY_LIMIT};
use super::{announce, confirm_master, hand_over, peers, query};
use crate::config::options::Options;
use crate::daemon::process::operator_log;
use crate::daemon::sm_loop::agenda::{FollowUp, TaskKind};
use crate::daemon::sm_loop::env::LoopEnv;
use crate::daemon::sm_loop::timers::Timer;
use crate::ids::Guid;
use crate::manage::action::RequestId;
use crate::manage::loop_status::Cause;
use crate::notes::counted;
use crate::observe::Observation;
use crate::observe::m_keys::MKeys;
use crate::record::entry::EventKind;
use crate::sm::peer::Peer;
use crate::sm::polling::{self, PollVerdict};
use crate::sm::role::{self, Action, RoleEvent};
use crate::transport::transactions::SmpError;
use crate::wire::attr::{SmInfo, SmState};
use tokio::time::{Instant, timeout};
use tracing::{error, info, warn};

/// The reason why the state of the devices is unknown after a change of the role.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Distrust {
    /// Another master has configured the subnet; this SM may have read it as standby.
    AfterStandby,
    /// Another master may have written to devices of this subnet.
    Devices,
}

/// The consequences of a change of the role.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[must_use]
pub struct RoleOutcome {
    /// The state that was entered last.
    pub entered: Option<SmState>,
    pub distrust: Option<Distrust>,
    pub follow_up: FollowUp,
}

impl RoleOutcome {
    pub fn merge(self, later: Self) -> Self {
        Self {
            entered: later.entered.or(self.entered),
            distrust: later.distrust.or(self.distrust),
            follow_up: self.follow_up.merge(later.follow_up),
        }
    }
}

impl From<FollowUp> for RoleOutcome {
    fn from(follow_up: FollowUp) -> Self {
        Self { follow_up, ..Self::default() }
    }
}

impl Mastership {
    /// Enters the first state: DISCOVERING, or NOT-ACTIVE with `sm_inactive`.
    pub(in crate::daemon::sm_loop) fn enter_first_state(&mut self, env: &mut LoopEnv) {
        let state = env.role();
        if env.options.sm_key == Options::default().sm_key && !env.once {
            operator_log::published_sm_key();
        }
        operator_log::entering(state);
        self.enter(env, state);
    }

    fn enter(&mut self, env: &mut LoopEnv, state: SmState) {
        if env.role() != state {
            operator_log::entering(state);
            env.monitor.role_changed(state);
            env.record(EventKind::Role, || format!("entering {state} state"));
        }
        env.context.published.sm_status.send_modify(|sm_status| {
            sm_status.state = state;
            sm_status.handing_over = None;
        });
        self.announced = None;
        self.has_taken_part |= matches!(state, SmState::Master | SmState::Standby);
        env.timers.stop(Timer::Look);
        if state == SmState::Master {
            env.timers.set(Timer::PortCheck, Instant::now() + PORT_CHECK_INTERVAL);
            return;
        }
        // Another SM may be master now, so the snapshot is no longer valid.
        env.timers.stop(Timer::PortCheck);
        env.timers.stop(Timer::Sweep);
        env.context.published.subnet.send_replace(None);
        env.context.published.first_sweep.send_replace(None);
        env.context.published.refused.send_replace(None);
    }

    /// Performs a transition of the role state machine, except for the actions that only follow
    /// sweeps: Configure and HandOver. `peer` is the SM that the event is about.
    pub(in crate::daemon::sm_loop) fn change(
        &mut self,
        env: &mut LoopEnv,
        keys: &MKeys,
        event: RoleEvent,
        peer: Option<&Peer>,
    ) -> RoleOutcome {
        let state = env.role();
        env.record(EventKind::Role, || match peer {
            Some(peer) => format!("{event}, SM at port GUID {}", peer.guid()),
            None => event.to_string(),
        });
        let mut outcome = RoleOutcome::default();
        let Some((next, actions)) = role::step(state, event) else {
            warn!("role event ignored in {state} state: {event}");
            return outcome;
        };
        if next != state {
            self.enter(env, next);
            outcome.entered = Some(next);
        }
        for action in actions {
            match (action, peer) {
                (Action::StartPolling | Action::AwaitHandover, Some(peer)) => {
                    self.start_polling(&env.context.client, &env.options, keys, peer);
                }
                (Action::Acknowledge, Some(peer)) => {
                    let status = *env.context.published.sm_status.borrow();
                    let key = keys.of(peer.guid());
                    super::acknowledge(&env.context.client, &status, key, peer);
                }
                (Action::StopPolling, _) => self.stop_polling(),
                (Action::Distrust, _) if state == SmState::Standby => {
                    outcome.distrust = Some(Distrust::AfterStandby);
                }
                (Action::Distrust, _) => outcome.distrust = Some(Distrust::Devices),
                (Action::Sweep, _) => {
                    let sweep = FollowUp::task(TaskKind::HeavySweep).because_of(Cause::Role);
                    outcome.follow_up = sweep;
                }
                (Action::StartPolling | Action::AwaitHandover | Action::Acknowledge, None)
                | (Action::Configure | Action::HandOver, _) => {}
            }
        }
        outcome
    }

    /// The time for a poll has come.
    pub(in crate::daemon::sm_loop) fn poll_due(
        &mut self,
        env: &mut LoopEnv,
        keys: &MKeys,
    ) -> RoleOutcome {
        if self.poll(&env.options) {
            return RoleOutcome::default();
        }
        let Some(polled) = self.polled() else { return RoleOutcome::default() };
        let polls = env.options.polling_retry_number.saturating_add(1) as usize;
        warn!(
            "{} brought no sign of a master at port GUID {}: this SM starts a sweep to take over",
            counted(polls, "poll", "polls"),
            polled.guid()
        );
        let outcome = self.change(env, keys, RoleEvent::MasterSilent, Some(&polled));
        self.silent = Some(polled.guid());
        outcome
    }

    /// The polled SM replied.
    pub(in crate::daemon::sm_loop) async fn poll_replied(
        &mut self,
        env: &mut LoopEnv,
        keys: &MKeys,
        observation: Option<&mut Observation>,
        info: &SmInfo,
    ) -> RoleOutcome {
        let Some(polled) = self.polled() else { return RoleOutcome::default() };
        let seen = observation.map(|seen| {
            show_state(seen, info);
            &*seen
        });
        let own = env.context.published.sm_status.borrow().voter();
        match polling::judge(&own, &polled, info) {
            PollVerdict::Alive => self.polled_alive(),
            PollVerdict::Outranked => {
                self.polled_alive();
                if self.announces_priority(polled.guid()) {
                    announce(&env.context, keys, seen, &polled, AnnouncedChange::Priority).await;
                }
            }
            PollVerdict::NoMaster => {}
            PollVerdict::Changed => {
                return self.change(env, keys, RoleEvent::MasterYielded, Some(&polled));
            }
        }
        RoleOutcome::default()
    }

    /// After the priority of this SM changed from `old`: a standby whose priority was raised tells
    /// the master.
    pub(in crate::daemon::sm_loop) async fn priority_changed(
        &self,
        env: &LoopEnv,
        keys: &MKeys,
        observation: Option<&Observation>,
        old: u8,
    ) {
        if env.options.sm_priority > old
            && env.role() == SmState::Standby
            && let Some(master) = self.polled()
        {
            announce(&env.context, keys, observation, &master, AnnouncedChange::Priority).await;
        }
    }

    /// Hands over to another SM.
    ///
    /// # Errors
    /// It does not answer or refuses: this SM stays master.
    async fn hand_over_to(
        &mut self,
        env: &mut LoopEnv,
        keys: &MKeys,
        to: &Peer,
    ) -> Result<RoleOutcome, SmpError> {
        hand_over(&env.context, to, keys.of(to.guid()), SmState::Standby).await?;
        self.refused_by = None;
        Ok(self.change(env, keys, RoleEvent::HandoverAccepted, Some(to)))
    }

    /// Hands over to a better SM. If it does not accept, this SM stays master.
    pub(super) async fn give_way(
        &mut self,
        env: &mut LoopEnv,
        keys: &MKeys,
        to: &Peer,
    ) -> RoleOutcome {
        let guid = to.guid();
        match self.hand_over_to(env, keys, to).await {
            Ok(outcome) => {
                info!("handed over to the SM at port GUID {guid}, which wins the election");
                outcome
            }
            Err(problem) => {
                if self.refused_by.replace(guid) != Some(guid) {
                    error!(
                        "the SM at port GUID {guid} wins the election, but does not take over: \
                         {problem}; this SM stays master"
                    );
                }
                RoleOutcome::default()
            }
        }
    }

    /// Hands over to the standby SM at port GUID `to`, or to the best one, as an operator requests.
    /// A task reports when that is master.
    ///
    /// # Errors
    /// The reason why this SM does not hand over.
    pub(in crate::daemon::sm_loop) async fn hand_over_by_request(
        &mut self,
        env: &mut LoopEnv,
        keys: &MKeys,
        observation: Option<&Observation>,
        request: RequestId,
        to: Option<Guid>,
    ) -> Result<RoleOutcome, String> {
        let observation = observation.ok_or("the fabric has not been swept yet")?;
        let client = env.context.client.clone();
        let answers =
            timeout(SUCCESSOR_QUERY_LIMIT, query(&client, keys, &observation.fabric)).await;
        // If one of them does not answer, all are judged as last seen.
        let managers = answers.unwrap_or_else(|_| observation.managers.clone());
        let others = peers(&Observation { managers, ..observation.clone() });
        let status = *env.context.published.sm_status.borrow();
        let successor = status.chosen_successor(&others, to)?;
        let guid = successor.guid();
        let key = keys.of(guid);
        let outcome = self.hand_over_to(env, keys, &successor).await.map_err(|problem| {
            format!(
                "the SM at port GUID {guid} does not take over: {problem}; this SM stays master"
            )
        })?;
        info!("handed over to the SM at port GUID {guid}, as an operator requests");
        let own = status.standby_candidate();
        let events = env.monitor.events().clone();
        tokio::spawn(async move {
            let confirmed = confirm_master(&client, &successor, key, own).await;
            events.action_ended("handover", request, confirmed);
        });
        Ok(outcome)
    }

    /// The link of the local port is down: this SM cannot be master until it is back.
    pub(in crate::daemon::sm_loop) fn port_down(
        &mut self,
        env: &mut LoopEnv,
        keys: &MKeys,
    ) -> RoleOutcome {
        self.is_port_down = true;
        env.record(EventKind::Failed, || "the link of the SM port is down");
        self.change(env, keys, RoleEvent::PortDown, None)
    }

    /// The link of the local port is up.
    pub(in crate::daemon::sm_loop) fn port_up(&mut self) {
        if std::mem::replace(&mut self.is_port_down, false) {
            operator_log::port_up();
        }
    }

    /// The shared state is that of the SM that this one stands by for.
    pub(in crate::daemon::sm_loop) fn show_followed(&self, env: &LoopEnv) {
        let polled = self.polled().filter(|_| env.role() == SmState::Standby);
        let followed = polled.map(|peer| peer.guid());
        env.context.replication.follows.send_if_modified(|current| {
            let is_new = *current != followed;
            *current = followed;
            is_new
        });
    }
}

/// The status shows the state of a polled SM as that says, between sweeps, too.
fn show_state(observation: &mut Observation, info: &SmInfo) {
    let known = observation.managers.iter_mut().find(|(_, known)| known.guid() == info.guid());
    if let Some((_, known)) = known {
        known.set_state(info.state());
        known.set_priority(info.priority());
    }
}
