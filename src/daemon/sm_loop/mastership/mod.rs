//! Actions of this SM towards other SMs: polls, queries, HANDOVER, ACKNOWLEDGE and trap 144.
//!
//! [`crate::sm`] decides; this module sends, waits and logs. It holds no role: that is in
//! [`SmStatus`], which the manager changes.
//!
//! * `poller`: polls of one SM at intervals;
//! * `peers`: the other SMs of a fabric;
//! * `leave`: HANDOVER, and the end of a master;
//! * `announce`: trap 144.

mod announce;
mod leave;
mod peers;
mod poller;

pub use announce::{Change, announce};
pub use leave::{confirm_master, hand_over, leave};
pub use peers::{StrangerLog, peers, query};
pub use poller::PollEvent;

use crate::config::options::Options;
use crate::ids::{Guid, MKey, PortNum};
use crate::observe::Observation;
use crate::observe::m_keys::MKeys;
use crate::sm::peer::Peer;
use crate::sm::sm_info::SmStatus;
use crate::transport::client::SmpClient;
use crate::transport::transactions::{SmpError, SmpRequest};
use crate::wire::attr::{AttrId, PortInfo, PortState, SmState};
use crate::wire::smp::{DirectedRoute, SmpRoute};
use poller::Poller;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Interval at which a better SM is queried that is still DISCOVERING.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// Interval at which a master checks the link of its own port, of which no trap can tell.
const PORT_CHECK_INTERVAL: Duration = Duration::from_secs(1);

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

/// The SMs that this one watches.
#[derive(Default)]
pub struct Mastership {
    /// As STANDBY, polls the master; as MASTER, another master whose HANDOVER is awaited.
    poller: Option<Poller>,
    /// Time at which the other SMs are queried again.
    next_look: Option<Instant>,
    next_port_check: Option<Instant>,
    announced: Option<Announced>,
    /// The SM that did not answer its polls, until a sweep has asked it once more.
    silent: Option<Guid>,
    /// Time from which this SM, while DISCOVERING, waits for the SM_Keys of configured peers.
    pub keys_awaited_since: Option<Instant>,
}

/// The last trap 144 about the priority.
struct Announced {
    to: Guid,
    /// Earliest time of the next one.
    next: Instant,
    pause: Duration,
}

impl Mastership {
    /// Waits until something is due; for ever if nothing is watched. Cancel safe.
    pub async fn next(&mut self) -> Due {
        let (look, check) = (self.next_look, self.next_port_check);
        let now = Instant::now();
        let poll = async {
            match self.poller.as_mut() {
                Some(poller) => poller.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = poll => Due::Poll(event),
            () = sleep_until(look.unwrap_or(now)), if look.is_some() => {
                self.next_look = None;
                Due::Look
            }
            () = sleep_until(check.unwrap_or(now)), if check.is_some() => {
                if check.is_some_and(|due| due.elapsed() >= PORT_CHECK_INTERVAL) {
                    // The process stood still, and others may have taken its role for lost.
                    self.next_look = Some(Instant::now());
                }
                self.next_port_check = Some(Instant::now() + PORT_CHECK_INTERVAL);
                Due::PortCheck
            }
        }
    }

    /// Starts and stops the watches that depend on the role.
    pub fn enter(&mut self, state: SmState) {
        self.next_look = None;
        self.announced = None;
        let is_master = state == SmState::Master;
        self.next_port_check = is_master.then(|| Instant::now() + PORT_CHECK_INTERVAL);
    }

    /// Polls `peer` from now on. Goes on with the count of failures if it is polled already.
    pub fn start_polling(
        &mut self,
        client: &SmpClient,
        (options, keys): (&Options, &MKeys),
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

    /// The SM with port GUID `guid` did not answer its polls.
    pub fn silent(&mut self, guid: Guid) {
        self.silent = Some(guid);
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

    /// Queries the other SMs again soon.
    pub fn look_soon(&mut self) {
        self.next_look = Some(Instant::now() + LOOK_INTERVAL);
    }

    /// Sends ACKNOWLEDGE to the sender of a HANDOVER, without waiting for the reply.
    pub fn acknowledge(&self, client: &SmpClient, (status, key): (&SmStatus, MKey), to: &Peer) {
        let (client, request) = (client.clone(), status.acknowledge(to).with_m_key(key));
        // The specification lets the sender wait for it; OpenSM does not.
        tokio::spawn(async move { client.call(&request).await });
    }
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
    use tokio::time::advance;

    /// The names of the next two kinds of work that are due; the second is none if it comes later.
    async fn next_two(mastership: &mut Mastership) -> String {
        let first = mastership.next().await;
        let second = tokio::time::timeout(LOOK_INTERVAL, mastership.next()).await;
        format!("{first:?} {:?}", second.ok())
    }

    #[tokio::test(start_paused = true)]
    async fn a_master_that_stood_still_queries_the_others_at_once() {
        let mut mastership = Mastership::default();
        mastership.enter(SmState::Master);
        assert_eq!(next_two(&mut mastership).await, "PortCheck None");
        advance(PORT_CHECK_INTERVAL).await;
        assert_eq!(next_two(&mut mastership).await, "PortCheck None");
        advance(3 * PORT_CHECK_INTERVAL).await;
        assert_eq!(next_two(&mut mastership).await, "PortCheck Some(Look)");
    }
}
