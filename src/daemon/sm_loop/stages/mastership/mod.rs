//! Actions of this SM towards other SMs: polls, queries, HANDOVER, ACKNOWLEDGE and trap 144.
//!
//! [`crate::sm`] decides; this module sends, waits and logs. The role is in [`SmStatus`].
//!
//! * [`role`]: changes of the role; [`election`]: the election of the master;
//! * `poller`: polls of one SM at intervals;
//! * `peers`: the other SMs of a fabric;
//! * `leave`: HANDOVER, and the end of a master;
//! * `announce`: trap 144.

mod announce;
mod election;
mod leave;
mod peers;
mod poller;
mod role;

pub use announce::{AnnouncedChange, announce};
pub use election::Election;
pub(in crate::daemon::sm_loop) use election::look_soon;
pub use leave::{confirm_master, hand_over, leave};
pub use peers::{StrangerLog, peers, query};
pub use poller::PollEvent;
pub use role::{Distrust, RoleOutcome};

use crate::config::options::Options;
use crate::daemon::sm_loop::timers::{Timer, Timers};
use crate::ids::{Guid, MKey, PortNum};
use crate::observe::Observation;
use crate::observe::m_keys::MKeys;
use crate::sm::peer::Peer;
use crate::sm::sm_info::SmStatus;
use crate::transport::client::SmpClient;
use crate::transport::transactions::{SmpError, SmpRequest};
use crate::wire::attr::{AttrId, PortInfo, PortState};
use crate::wire::smp::{DirectedRoute, SmpRoute};
use poller::Poller;
use std::time::Duration;
use tokio::time::Instant;

/// Interval at which a better SM is queried that is still DISCOVERING.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// Interval at which a master checks the link of its own port, of which no trap can tell.
const PORT_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Time in which the other SMs must answer before a HANDOVER that an operator requests.
const SUCCESSOR_QUERY_LIMIT: Duration = Duration::from_secs(1);

/// Bounds of the pause between traps 144 to an SM that does not react. OpenSM ignores the sender of
/// more than ten traps that are less than 5 s apart.
const ANNOUNCE_PAUSE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];

/// Work that is due because of other SMs or of the local port.
#[derive(Debug)]
pub enum Due {
    Poll(PollEvent),
    /// Query the other SMs.
    Look,
    /// Check the link of the local port.
    PortCheck,
}

/// This SM among others.
#[derive(Default)]
pub struct Mastership {
    /// As STANDBY, polls the master; as MASTER, another master whose HANDOVER is awaited.
    poller: Option<Poller>,
    announced: Option<Announced>,
    /// The SM that did not answer its polls, until a sweep has asked it once more.
    silent: Option<Guid>,
    /// Time from which this SM, while DISCOVERING, waits for the SM_Keys of configured peers.
    keys_awaited_since: Option<Instant>,
    strangers: StrangerLog,
    /// This SM was master or standby since its start.
    has_taken_part: bool,
    /// The better SM that did not accept the last HANDOVER.
    refused_by: Option<Guid>,
    /// The last sweep found the local port without a link.
    is_port_down: bool,
}

/// The last trap 144 about the priority.
struct Announced {
    to: Guid,
    /// Earliest time of the next one.
    next: Instant,
    pause: Duration,
}

impl Mastership {
    /// Waits for an event of the poller; for ever if no SM is polled. Cancel safe.
    pub async fn poll_event(&mut self) -> PollEvent {
        match self.poller.as_mut() {
            Some(poller) => poller.next().await,
            None => std::future::pending().await,
        }
    }

    /// Polls `peer` from now on. Goes on with the count of failures if it is polled already.
    pub fn start_polling(
        &mut self,
        client: &SmpClient,
        options: &Options,
        keys: &MKeys,
        peer: &Peer,
    ) {
        match self.poller.as_mut().filter(|poller| poller.peer().guid() == peer.guid()) {
            Some(poller) => poller.update(*peer),
            None => {
                let keys = keys.candidates(peer.guid());
                self.poller = Some(Poller::start(client, options, *peer, keys));
            }
        }
    }

    /// Polls with new M_Keys from now on.
    pub fn use_keys(&mut self, keys: &MKeys) {
        if let Some(poller) = self.poller.as_mut() {
            poller.use_keys(keys.candidates(poller.peer().guid()));
        }
    }

    pub fn stop_polling(&mut self) {
        self.poller = None;
    }

    /// The polled SM.
    pub fn polled(&self) -> Option<Peer> {
        self.poller.as_ref().map(|poller| *poller.peer())
    }

    /// True if this SM polls the one with port GUID `guid`.
    pub fn polls(&self, guid: Guid) -> bool {
        self.polled().is_some_and(|peer| peer.guid() == guid)
    }

    /// The time for a poll has come: sends it. Returns false if too many were unanswered.
    pub fn poll(&mut self, options: &Options) -> bool {
        self.poller.as_mut().is_none_or(|poller| poller.poll(options))
    }

    /// The SM that did not answer its polls, for the first sweep after that.
    pub fn take_silent(&mut self) -> Option<Guid> {
        self.silent.take()
    }

    /// The polled SM lives.
    pub fn polled_alive(&mut self) {
        if let Some(poller) = self.poller.as_mut() {
            poller.alive();
        }
    }

    /// Whether the SM `to` is to learn of the priority of this one now: at once the first time,
    /// then after growing pauses.
    pub fn announces_priority(&mut self, to: Guid) -> bool {
        let now = Instant::now();
        let [min, max] = ANNOUNCE_PAUSE;
        let pause = match self.announced.as_ref().filter(|last| last.to == to) {
            Some(last) if now < last.next => return false,
            Some(last) => (last.pause * 2).min(max),
            None => min,
        };
        self.announced = Some(Announced { to, next: now + pause, pause });
        true
    }
}

/// Sends ACKNOWLEDGE to the sender of a HANDOVER, without waiting for the reply. `key`: the M_Key of its
/// port.
fn acknowledge(client: &SmpClient, status: &SmStatus, key: MKey, to: &Peer) {
    let client = client.clone();
    let request = status.acknowledge(to).with_m_key(key);
    // The specification lets the sender wait for it; OpenSM does not.
    tokio::spawn(async move { client.call(&request).await });
}

/// The check of the local port was due at `deadline`: sets the next one.
pub fn port_check_due(timers: &mut Timers, deadline: Instant, now: Instant) {
    if now - deadline >= PORT_CHECK_INTERVAL {
        // The process stood still, and others may have taken its role for lost.
        timers.set(Timer::Look, now);
    }
    timers.set(Timer::PortCheck, now + PORT_CHECK_INTERVAL);
}

/// True if the local port is known to have no link, or to be lost. Port 0 of a switch has no cable.
pub async fn is_port_down(client: &SmpClient, keys: &MKeys, observation: &Observation) -> bool {
    let fabric = &observation.fabric;
    let num = fabric.port(fabric.local()).num;
    if num == PortNum::ZERO {
        return false;
    }
    let route = SmpRoute::Directed(DirectedRoute::LOCAL);
    let request = SmpRequest::get(route, AttrId::PORT_INFO, num.0.into());
    let key = keys.of_port(fabric, fabric.local());
    match client.call(&request.with_m_key(key)).await {
        Ok(reply) => PortInfo::read(&reply.data).port_state() == PortState::Down,
        Err(error) => matches!(error, SmpError::Send(_)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_master_that_stood_still_queries_the_others_at_once() {
        let start = Instant::now();
        let mut timers = Timers::default();
        timers.set(Timer::PortCheck, start);
        for (delay, expected) in [(0, None), (1, None), (3, Some(Timer::Look))] {
            let due = timers.get(Timer::PortCheck).expect("the check is repeated");
            let now = due + PORT_CHECK_INTERVAL / 2 * delay;
            assert_eq!(timers.expire(now), Some((Timer::PortCheck, due)));
            port_check_due(&mut timers, due, now);
            assert_eq!(timers.expire(now).map(|(timer, _)| timer), expected, "{delay}");
        }
    }
}
