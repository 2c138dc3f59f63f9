//! The manager's role among several SMs: performs the transitions of [`crate::sm::role`].

use super::{Exit, Manager};
use crate::config::options::Options;
use crate::daemon::messages::SaCommand;
use crate::daemon::process::operator_log;
use crate::daemon::sm_loop::mastership::{self, Change, Due, PollEvent};
use crate::daemon::sm_loop::pending::PendingWork;
use crate::fabric::PortId;
use crate::ids::Guid;
use crate::manage::loop_status::Cause;
use crate::notes::counted;
use crate::observe::Observation;
use crate::record::entry::EventKind;
use crate::replication::comparison;
use crate::sm::peer::{Peer, hides_sm_key};
use crate::sm::polling::{self, PollVerdict};
use crate::sm::role::{self, Action, RoleEvent};
use crate::transport::transactions::SmpError;
use crate::wire::attr::{SmInfo, SmState};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tracing::{error, info, warn};

/// Interval at which an SM whose port has no link looks whether the link is back.
const PORT_RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Pause before the sweep that asks configured peers for their SM_Keys again.
const KEY_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Time for which a starting SM waits for the SM_Key of a configured peer that knows the subnet.
const KEY_LIMIT: Duration = Duration::from_secs(2);

/// The same for a peer that is still DISCOVERING: the time of a first sweep.
const DISCOVERY_LIMIT: Duration = Duration::from_secs(10);

impl Manager {
    pub(in crate::daemon::sm_loop) fn state(&self) -> SmState {
        self.context.sm_status.borrow().state
    }

    /// Enters the first state: DISCOVERING, or NOT-ACTIVE with `sm_inactive`.
    pub(super) fn enter_first_state(&mut self) {
        let state = self.state();
        if self.options.sm_key == Options::default().sm_key && !self.once {
            operator_log::published_sm_key();
        }
        operator_log::entering(state);
        self.set_state(state);
    }

    fn set_state(&mut self, state: SmState) {
        if self.state() != state {
            operator_log::entering(state);
            self.monitor.role_changed(state);
            self.record(EventKind::Role, || format!("entering {state} state"));
        }
        self.context.sm_status.send_modify(|sm_status| {
            sm_status.state = state;
            sm_status.handing_over = None;
        });
        self.mastership.enter(state);
        self.has_taken_part |= matches!(state, SmState::Master | SmState::Standby);
        if state == SmState::NotActive {
            self.reconfigurer.stop_following();
        }
        if state != SmState::Master {
            // Another SM may be master now, so the snapshot is no longer valid.
            self.forget_unresponsive();
            self.context.subnet.send_replace(None);
            self.context.refused.send_replace(None);
            self.next_sweep = None;
        }
    }

    /// Performs a transition of the role state machine, except for the actions that only follow
    /// sweeps: Configure and HandOver. `peer` is the SM that the event is about.
    pub(super) fn change_role(
        &mut self,
        event: RoleEvent,
        peer: Option<&Peer>,
        pending: &mut PendingWork,
    ) {
        let state = self.state();
        self.record(EventKind::Role, || match peer {
            Some(peer) => format!("{event}, SM at port GUID {}", peer.guid()),
            None => event.to_string(),
        });
        let Some((next, actions)) = role::step(state, event) else {
            warn!("role event ignored in {state} state: {event}");
            return;
        };
        if next != state {
            self.set_state(next);
        }
        for action in actions {
            match action {
                Action::StartPolling | Action::AwaitHandover => self.start_polling(peer),
                Action::StopPolling => self.mastership.stop_polling(),
                Action::Acknowledge => self.acknowledge(peer),
                Action::Distrust if state == SmState::Standby => {
                    self.reconfigurer.after_standby(&self.context, &self.options);
                }
                Action::Distrust => self.reconfigurer.distrust_devices(),
                Action::Sweep => {
                    pending.heavy = true;
                    pending.causes.insert(Cause::Role);
                }
                Action::Configure | Action::HandOver => {}
            }
        }
    }

    fn start_polling(&mut self, peer: Option<&Peer>) {
        if let Some(peer) = peer {
            let keys = self.reconfigurer.m_keys();
            self.mastership.start_polling(&self.context.client, (&self.options, keys), peer);
        }
    }

    fn acknowledge(&self, peer: Option<&Peer>) {
        if let Some(peer) = peer {
            let status = *self.context.sm_status.borrow();
            let key = self.reconfigurer.m_keys().of(peer.guid());
            self.mastership.acknowledge(&self.context.client, (&status, key), peer);
        }
    }

    /// Does the work that is due because of other SMs.
    pub(super) async fn watch_others(&mut self, due: Due, pending: &mut PendingWork) {
        match due {
            Due::Poll(PollEvent::Due) => self.poll(pending),
            Due::Poll(PollEvent::Reply(info)) => self.poll_replied(&info, pending).await,
            Due::Look => self.look(pending).await,
            Due::PortCheck => {
                let Some(observation) = self.observation.as_ref() else { return };
                let keys = self.reconfigurer.m_keys();
                let is_down = mastership::is_port_down(&self.context.client, keys, observation);
                pending.heavy |= is_down.await;
            }
        }
    }

    fn poll(&mut self, pending: &mut PendingWork) {
        if self.mastership.poll(&self.options) {
            return;
        }
        let Some(polled) = self.mastership.polled() else { return };
        let polls = self.options.polling_retry_number.saturating_add(1) as usize;
        warn!(
            "{} brought no sign of a master at port GUID {}: this SM starts a sweep to take over",
            counted(polls, "poll", "polls"),
            polled.guid()
        );
        self.change_role(RoleEvent::MasterSilent, Some(&polled), pending);
        self.mastership.silent(polled.guid());
    }

    async fn poll_replied(&mut self, info: &SmInfo, pending: &mut PendingWork) {
        let Some(polled) = self.mastership.polled() else { return };
        self.show_state(info);
        let own = self.context.sm_status.borrow().voter();
        match polling::judge(&own, &polled, info) {
            PollVerdict::Alive => self.mastership.polled_alive(),
            PollVerdict::Outranked => {
                self.mastership.polled_alive();
                if self.mastership.announces_priority(polled.guid()) {
                    self.announce(&polled, Change::Priority).await;
                }
            }
            PollVerdict::NoMaster => {}
            PollVerdict::Changed => {
                self.change_role(RoleEvent::MasterYielded, Some(&polled), pending);
            }
        }
    }

    /// The status shows the state of a polled SM as that says, between sweeps, too.
    fn show_state(&mut self, info: &SmInfo) {
        let managers = self.observation.as_mut().map(|observation| &mut observation.managers);
        let known = managers.into_iter().flatten().find(|(_, known)| known.guid() == info.guid());
        if let Some((_, known)) = known {
            known.set_state(info.state());
            known.set_priority(info.priority());
        }
    }

    async fn announce(&self, to: &Peer, change: Change) {
        let (keys, seen) = (self.reconfigurer.m_keys(), self.observation.as_ref());
        mastership::announce(&self.context, keys, seen, to, change).await;
    }

    /// After a reload: a standby whose priority was raised tells the master.
    pub(super) async fn priority_reloaded(&self, old: u8) {
        let is_raised = self.options.sm_priority > old && self.state() == SmState::Standby;
        if let Some(master) = self.mastership.polled().filter(|_| is_raised) {
            self.announce(&master, Change::Priority).await;
        }
    }

    /// Queries the other SMs as master, between heavy sweeps.
    pub(super) async fn look(&mut self, pending: &mut PendingWork) {
        if self.state() != SmState::Master || self.options.ignore_other_sm {
            return;
        }
        let Some(observation) = self.observation.as_ref() else { return };
        let fabric = observation.fabric.clone();
        let (client, keys) = (self.context.client.clone(), self.reconfigurer.m_keys().clone());
        // One that hangs must not delay the repair of routes.
        let query = mastership::query(&client, &keys, &fabric);
        match self.unless_links_change(pending, query).await {
            Some(managers) => self.others_answered(managers, pending).await,
            None => self.mastership.look_soon(),
        }
    }

    /// Handles the answers of the other SMs to [`Self::look`].
    pub(in crate::daemon::sm_loop) async fn others_answered(
        &mut self,
        managers: Vec<(PortId, SmInfo)>,
        pending: &mut PendingWork,
    ) {
        if self.options.ignore_other_sm {
            return;
        }
        let Some(observation) = self.observation.as_mut() else { return };
        let has_changed = summary(&observation.managers) != summary(&managers);
        observation.managers = managers;
        if has_changed {
            self.report_managers().await;
        }
        self.weigh_others(pending).await;
    }

    /// Trap 144 reported other SMs, or ports that changed. A new SM may not answer yet.
    pub(in crate::daemon::sm_loop) async fn others_changed(&mut self, pending: &mut PendingWork) {
        self.report_managers().await;
        if self.state() == SmState::Master {
            self.mastership.look_soon();
            self.weigh_others(pending).await;
        }
    }

    /// As master, compares this SM with the others of the observation.
    async fn weigh_others(&mut self, pending: &mut PendingWork) {
        let Some(observation) = self.observation.clone() else { return };
        let (event, peer) = self.survey(&observation);
        match (event, peer) {
            (RoleEvent::SweepMetBetter, Some(peer)) => {
                self.change_role(event, Some(&peer), pending);
                self.give_way(&peer, pending).await;
            }
            (RoleEvent::SweepMetLowerMaster, Some(peer)) => {
                // The sweep reads the fabric as the other master has left it.
                pending.heavy |= !self.mastership.polls(peer.guid());
            }
            _ => {}
        }
    }

    async fn report_managers(&self) {
        let Some(observation) = self.observation.as_ref() else { return };
        let managers = observation.managers.iter().map(|&(_, info)| info).collect();
        let drop_subscriptions = self.options.drop_event_subscriptions;
        let command = SaCommand::SweepFinished { managers, whole: None, drop_subscriptions };
        let _ = self.context.sa_server.send(command).await;
    }

    /// The role event of a sweep, and the SM that it is about.
    fn survey(&mut self, observation: &Observation) -> (RoleEvent, Option<Peer>) {
        if self.options.ignore_other_sm {
            return (RoleEvent::SweepAlone, None);
        }
        let peers = mastership::peers(observation);
        let own = self.context.sm_status.borrow().voter();
        self.strangers.update(own.sm_key, &peers, &observation.fabric);
        if own.state == SmState::Master && own.expects_better(&peers) {
            self.mastership.look_soon();
        }
        own.survey(&peers)
    }

    /// True if this SM, which would become master now, has configured peers that may show it their
    /// SM_Keys soon and then win the election: they do not know its port before their first sweep.
    fn awaits_keys(&mut self, observation: &Observation) -> bool {
        let own = self.context.sm_status.borrow().voter();
        let peers = mastership::peers(observation);
        let is_to_be_master = own.state == SmState::Discovering
            && !self.options.ignore_other_sm
            && own.survey(&peers).0 == RoleEvent::SweepAlone;
        let now = Instant::now();
        let since = self.mastership.keys_awaited_since.filter(|_| is_to_be_master).unwrap_or(now);
        let may_show_key = |peer: &Peer| {
            let limit = match peer.info.state() {
                SmState::Discovering => DISCOVERY_LIMIT,
                SmState::NotActive => return false,
                _ => KEY_LIMIT,
            };
            hides_sm_key(&self.options, &peer.info) && now - since < limit
        };
        let waits = is_to_be_master && peers.iter().any(may_show_key);
        self.mastership.keys_awaited_since = is_to_be_master.then_some(since);
        waits
    }

    /// Elects the master after a sweep. Returns an error with the exit, if any, unless this SM is
    /// to configure the subnet.
    pub(super) async fn elect(
        &mut self,
        observation: &Observation,
        pending: &mut PendingWork,
    ) -> Result<(), Option<Exit>> {
        if self.awaits_keys(observation) {
            self.next_sweep = Some(Instant::now() + KEY_RETRY_INTERVAL);
            self.reconfigurer.needs_heavy_sweep = true;
            return Err(None);
        }
        if let Some(master) = self.blocking_master(observation) {
            self.survey(observation);
            return Err(self.wait_for_foreign_master(master));
        }
        self.monitor.set_foreign_master(None);
        let (event, peer) = self.survey(observation);
        let is_awaited = peer.is_some_and(|peer| self.mastership.polls(peer.guid()));
        self.change_role(event, peer.as_ref(), pending);
        match (event, peer, self.state()) {
            (_, Some(peer), SmState::Standby) => {
                log_master(&peer, observation);
                self.announce(&peer, Change::Standby).await;
                Err(self.once_is_over())
            }
            (RoleEvent::SweepMetBetter, Some(peer), SmState::Master) => {
                self.give_way(&peer, pending).await;
                match (self.state(), peer.info.state()) {
                    (SmState::Standby, _) => Err(self.once_is_over()),
                    // It does not take over, so this SM goes on, unless both are masters.
                    (_, SmState::Master) => Err(self.failed("another SM is master".into())),
                    _ => Ok(()),
                }
            }
            (RoleEvent::SweepMetLowerMaster, Some(peer), _) => {
                if !is_awaited {
                    warn!(
                        "the SM at port GUID {} is master, too, and loses the election: this SM \
                         waits for its HANDOVER",
                        peer.guid()
                    );
                }
                self.next_sweep = self.interval().map(|pause| Instant::now() + pause);
                Err(self.once_is_over())
            }
            _ => Ok(()),
        }
    }

    fn once_is_over(&self) -> Option<Exit> {
        self.once.then(|| Exit::SubnetDown("another SM is master".into()))
    }

    /// Hands over to another SM.
    ///
    /// # Errors
    /// It does not answer or refuses: this SM stays master.
    pub(super) async fn hand_over(
        &mut self,
        to: &Peer,
        pending: &mut PendingWork,
    ) -> Result<(), SmpError> {
        let key = self.reconfigurer.m_keys().of(to.guid());
        mastership::hand_over(&self.context, (to, key), SmState::Standby).await?;
        self.refused_by = None;
        self.change_role(RoleEvent::HandoverAccepted, Some(to), pending);
        Ok(())
    }

    /// Hands over to a better SM. If it does not accept, this SM stays master.
    async fn give_way(&mut self, to: &Peer, pending: &mut PendingWork) {
        let guid = to.guid();
        match self.hand_over(to, pending).await {
            Ok(()) => info!("handed over to the SM at port GUID {guid}, which wins the election"),
            Err(problem) => {
                if self.refused_by.replace(guid) != Some(guid) {
                    error!(
                        "the SM at port GUID {guid} wins the election, but does not take over: \
                         {problem}; this SM stays master"
                    );
                }
            }
        }
    }

    /// The link of the local port is down: this SM cannot be master until it is back.
    pub(in crate::daemon::sm_loop) fn port_down(
        &mut self,
        pending: &mut PendingWork,
    ) -> Option<Exit> {
        self.is_port_down = true;
        self.record(EventKind::Failed, || "the link of the SM port is down");
        self.change_role(RoleEvent::PortDown, None, pending);
        if self.once {
            return Some(Exit::SubnetDown("the link of the SM port is down".into()));
        }
        self.next_sweep = Some(Instant::now() + PORT_RETRY_INTERVAL);
        self.reconfigurer.needs_heavy_sweep = true;
        None
    }

    /// The link of the local port is up.
    pub(in crate::daemon::sm_loop) fn port_up(&mut self) {
        if std::mem::take(&mut self.is_port_down) {
            operator_log::port_up();
        }
    }

    /// The shared state is that of the SM that this one stands by for.
    pub(super) fn show_followed(&self) {
        let polled = self.mastership.polled().filter(|_| self.state() == SmState::Standby);
        let followed = polled.map(|peer| peer.guid());
        self.context.replication.follows.send_if_modified(|current| {
            let is_new = *current != followed;
            *current = followed;
            is_new
        });
    }

    /// Other instances compare their configurations with the new one.
    pub(super) fn share_configuration(&self, options: &Options) {
        let description = Arc::new(comparison::describe(options));
        self.context.replication.configuration.send_replace(description);
    }

    /// Before the daemon ends: a master hands over to the best standby.
    pub(super) async fn leave(&mut self) {
        if self.state() != SmState::Master {
            return;
        }
        let Some(observation) = self.observation.take() else { return };
        let (options, keys) = (&self.options, self.reconfigurer.m_keys());
        mastership::leave(&self.context, &mut self.events, (options, keys), &observation).await;
    }
}

/// The properties of other SMs that matter, without ActCount.
fn summary(managers: &[(PortId, SmInfo)]) -> Vec<(PortId, Guid, SmState, u8)> {
    let of = |&(port, info): &(PortId, SmInfo)| (port, info.guid(), info.state(), info.priority());
    managers.iter().map(of).collect()
}

/// Logs which SM keeps this one in STANDBY.
fn log_master(master: &Peer, observation: &Observation) {
    let fabric = &observation.fabric;
    let port = fabric.port_by_guid(master.guid());
    let node = port.map(|port| format!(" ({})", fabric.node_of(port).name()));
    info!(
        "standing by for the SM at port GUID {}{}, priority {}, {}",
        master.guid(),
        node.unwrap_or_default(),
        master.info.priority(),
        master.info.state()
    );
}
