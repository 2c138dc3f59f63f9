//! The election of the master, after sweeps and between them.

use super::role::RoleOutcome;
use super::{AnnouncedChange, LOOK_INTERVAL, Mastership, announce, peers};
use crate::config::options::Options;
use crate::daemon::sm_loop::agenda::{FollowUp, TaskKind};
use crate::daemon::sm_loop::env::LoopEnv;
use crate::daemon::sm_loop::timers::Timer;
use crate::fabric::PortId;
use crate::ids::Guid;
use crate::manage::loop_status::ForeignMaster;
use crate::observe::Observation;
use crate::observe::m_keys::MKeys;
use crate::sm::peer::{Peer, hides_sm_key};
use crate::sm::role::RoleEvent;
use crate::wire::attr::{SmInfo, SmState};
use std::time::Duration;
use tokio::time::Instant;
use tracing::{error, info, warn};

/// Pause before the sweep that asks configured peers for their SM_Keys again.
const KEY_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Time for which a starting SM waits for the SM_Key of a configured peer that knows the subnet.
const KEY_LIMIT: Duration = Duration::from_secs(2);

/// The same for a peer that is still DISCOVERING: the time of a first sweep.
const DISCOVERY_LIMIT: Duration = Duration::from_secs(10);

/// Pause between the sweeps of an SM that waits beside a master with another SM_Key, if
/// `sweep_interval` is 0.
const FOREIGN_MASTER_INTERVAL: Duration = Duration::from_secs(10);

/// The remedies of an administrator against two masters with different SM_Keys.
const FOREIGN_MASTER_REMEDY: &str = "this SM stays in DISCOVERING until that one is gone. Set sm_key \
    to the same value for all SMs of the subnet, and enter this port in sm_key_peers of that SM if it \
    shows its key to some SMs only; to become master beside it, start with --ignore-other-sm";

/// The result of an election.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Election {
    /// This SM configures the subnet.
    Configure,
    /// Another SM is master, or is to hand over to this one.
    Await,
    /// This SM sweeps again after a pause; `problem`: why it cannot configure the subnet now.
    SweepAgain { pause: Duration, problem: Option<String> },
    /// Another master neither yields nor takes over.
    Failed(String),
}

impl Mastership {
    /// Elects the master after a sweep.
    pub(in crate::daemon::sm_loop) async fn elect(
        &mut self,
        env: &mut LoopEnv,
        keys: &MKeys,
        observation: &Observation,
    ) -> (Election, RoleOutcome) {
        if self.awaits_keys(env, observation) {
            let election = Election::SweepAgain { pause: KEY_RETRY_INTERVAL, problem: None };
            return (election, RoleOutcome::default());
        }
        if let Some(master) = self.blocking_master(env, observation) {
            self.survey(env, observation);
            return (wait_for_foreign_master(env, master), RoleOutcome::default());
        }
        env.monitor.set_foreign_master(None);
        let (event, peer) = self.survey(env, observation);
        let is_awaited = peer.is_some_and(|peer| self.polls(peer.guid()));
        let outcome = self.change(env, keys, event, peer.as_ref());
        match (event, peer, env.role()) {
            (_, Some(peer), SmState::Standby) => {
                log_master(&peer, observation);
                announce(&env.context, keys, Some(observation), &peer, AnnouncedChange::Standby)
                    .await;
                (Election::Await, outcome)
            }
            (RoleEvent::SweepMetBetter, Some(peer), SmState::Master) => {
                let outcome = outcome.merge(self.give_way(env, keys, &peer).await);
                let election = match (env.role(), peer.info.state()) {
                    (SmState::Standby, _) => Election::Await,
                    // It does not take over, so this SM goes on, unless both are masters.
                    (_, SmState::Master) => Election::Failed("another SM is master".into()),
                    _ => Election::Configure,
                };
                (election, outcome)
            }
            (RoleEvent::SweepMetLowerMaster, Some(peer), _) => {
                if !is_awaited {
                    warn!(
                        "the SM at port GUID {} is master, too, and loses the election: this SM \
                         waits for its HANDOVER",
                        peer.guid()
                    );
                }
                env.schedule_light_sweep();
                (Election::Await, outcome)
            }
            _ => (Election::Configure, outcome),
        }
    }

    /// True if this SM, which would become master now, has configured peers that may show it their
    /// SM_Keys soon and then win the election: they do not know its port before their first sweep.
    fn awaits_keys(&mut self, env: &LoopEnv, observation: &Observation) -> bool {
        let own = env.context.published.sm_status.borrow().voter();
        let peers = peers(observation);
        let is_to_be_master = own.state == SmState::Discovering
            && !env.options.ignore_other_sm
            && own.survey(&peers).0 == RoleEvent::SweepAlone;
        if !is_to_be_master {
            self.keys_awaited_since = None;
            return false;
        }
        let now = Instant::now();
        let since = *self.keys_awaited_since.get_or_insert(now);
        peers.iter().any(|peer| {
            let limit = match peer.info.state() {
                SmState::NotActive => return false,
                SmState::Discovering => DISCOVERY_LIMIT,
                _ => KEY_LIMIT,
            };
            hides_sm_key(&env.options, &peer.info) && now - since < limit
        })
    }

    /// The master with another SM_Key that keeps this SM, which has just started, from becoming master
    /// too, with the name of its node. An SM that has been master or standby already ignores SMs with
    /// another key: else any host could keep a standby from taking over. One with the published default
    /// key ignores them as OpenSM does.
    fn blocking_master(&self, env: &LoopEnv, observation: &Observation) -> Option<ForeignMaster> {
        let own = env.context.published.sm_status.borrow().voter();
        let is_newcomer = own.state == SmState::Discovering && !self.has_taken_part;
        let has_default_key = own.sm_key == Options::default().sm_key;
        if !is_newcomer || has_default_key || env.options.ignore_other_sm {
            return None;
        }
        let peers = peers(observation);
        if own.survey(&peers).0 != RoleEvent::SweepAlone {
            return None;
        }
        let peer = own.foreign_master(&peers)?;
        let fabric = &observation.fabric;
        let node = match fabric.port_by_guid(peer.guid()) {
            Some(port) => fabric.node_of(port).name().to_string(),
            None => String::new(),
        };
        Some(ForeignMaster { guid: peer.guid(), node, priority: peer.info.priority() })
    }

    /// The role event of a sweep, and the SM that it is about.
    fn survey(
        &mut self,
        env: &mut LoopEnv,
        observation: &Observation,
    ) -> (RoleEvent, Option<Peer>) {
        if env.options.ignore_other_sm {
            return (RoleEvent::SweepAlone, None);
        }
        let peers = peers(observation);
        let own = env.context.published.sm_status.borrow().voter();
        self.strangers.update(own.sm_key, &peers, &observation.fabric);
        if own.state == SmState::Master && own.expects_better(&peers) {
            look_soon(env);
        }
        own.survey(&peers)
    }

    /// Handles the answers of the other SMs to a query between heavy sweeps.
    pub(in crate::daemon::sm_loop) async fn others_answered(
        &mut self,
        env: &mut LoopEnv,
        keys: &MKeys,
        observation: &mut Observation,
        managers: Vec<(PortId, SmInfo)>,
    ) -> RoleOutcome {
        if env.options.ignore_other_sm {
            return RoleOutcome::default();
        }
        let has_changed = summary(&observation.managers) != summary(&managers);
        observation.managers = managers;
        if has_changed {
            env.report_managers(observation, false).await;
        }
        self.weigh_others(env, keys, observation).await
    }

    /// Trap 144 reported other SMs, or ports that changed. A new SM may not answer yet.
    pub(in crate::daemon::sm_loop) async fn others_changed(
        &mut self,
        env: &mut LoopEnv,
        keys: &MKeys,
        observation: &Observation,
    ) -> RoleOutcome {
        env.report_managers(observation, false).await;
        if env.role() != SmState::Master {
            return RoleOutcome::default();
        }
        look_soon(env);
        self.weigh_others(env, keys, observation).await
    }

    /// As master, compares this SM with the others of the observation.
    async fn weigh_others(
        &mut self,
        env: &mut LoopEnv,
        keys: &MKeys,
        observation: &Observation,
    ) -> RoleOutcome {
        let (event, peer) = self.survey(env, observation);
        match (event, peer) {
            (RoleEvent::SweepMetBetter, Some(peer)) => {
                let outcome = self.change(env, keys, event, Some(&peer));
                outcome.merge(self.give_way(env, keys, &peer).await)
            }
            (RoleEvent::SweepMetLowerMaster, Some(peer)) => {
                // The sweep reads the fabric as the other master has left it.
                let is_new = !self.polls(peer.guid());
                FollowUp::nothing().and(TaskKind::HeavySweep, is_new).into()
            }
            _ => RoleOutcome::default(),
        }
    }
}

/// Queries the other SMs again soon.
pub(in crate::daemon::sm_loop) fn look_soon(env: &mut LoopEnv) {
    env.timers.set(Timer::Look, Instant::now() + LOOK_INTERVAL);
}

/// Stays in DISCOVERING beside a master with another SM_Key, and looks again later.
fn wait_for_foreign_master(env: &mut LoopEnv, master: ForeignMaster) -> Election {
    let problem = format!(
        "the SM at port GUID {} ({}), priority {}, is master with another SM_Key: two masters \
         would both write to the devices",
        master.guid, master.node, master.priority
    );
    if env.monitor.set_foreign_master(Some(master)) {
        error!("{problem}; {FOREIGN_MASTER_REMEDY}");
    }
    let pause = env.sweep_interval().unwrap_or(FOREIGN_MASTER_INTERVAL);
    Election::SweepAgain { pause, problem: Some(problem) }
}

/// The properties of other SMs that matter, without ActCount.
fn summary(managers: &[(PortId, SmInfo)]) -> Vec<(PortId, Guid, SmState, u8)> {
    managers
        .iter()
        .map(|&(port, info)| (port, info.guid(), info.state(), info.priority()))
        .collect()
}

/// Logs which SM keeps this one in STANDBY.
fn log_master(master: &Peer, observation: &Observation) {
    let fabric = &observation.fabric;
    let node = match fabric.port_by_guid(master.guid()) {
        Some(port) => format!(" ({})", fabric.node_of(port).name()),
        None => String::new(),
    };
    info!(
        "standing by for the SM at port GUID {}{node}, priority {}, {}",
        master.guid(),
        master.info.priority(),
        master.info.state()
    );
}
