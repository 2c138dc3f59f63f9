//! Polls of one SM: SubnGet(SMInfo) at intervals. A poll does not wait for the reply to the one
//! before, so that the retries of unanswered polls do not delay a takeover.

use crate::config::options::Options;
use crate::ids::MKey;
use crate::sm::peer::Peer;
use crate::transport::client::{SmpBatch, SmpClient};
use crate::transport::transactions::SmpRequest;
use crate::wire::attr::{AttrId, SmInfo, SmState};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// An event of a [`Poller`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PollEvent {
    /// The time for the next poll has come.
    Due,
    /// The polled SM replied.
    Reply(SmInfo),
}

pub(super) struct Poller {
    peer: Peer,
    /// M_Keys that its port may have, at least one. An unanswered poll is followed by one with the
    /// next key: its master may have changed the key.
    keys: Vec<MKey>,
    batch: SmpBatch,
    /// Polls since the last sign of life.
    unanswered: u32,
    next_poll: Instant,
    /// Time of a query between polls, which does not count as one: the polled SM is not master yet.
    next_query: Option<Instant>,
    /// Delay of the next such query.
    query_delay: Duration,
}

/// Delay of the first query of a polled SM that is not master; it doubles with each.
const MIN_QUERY_DELAY: Duration = Duration::from_millis(250);

impl Poller {
    /// Sends the first poll at once.
    pub(super) fn start(
        client: &SmpClient,
        options: &Options,
        peer: Peer,
        keys: Vec<MKey>,
    ) -> Self {
        let batch = client.batch();
        let mut poller = Self {
            peer,
            keys,
            batch,
            unanswered: 0,
            next_poll: Instant::now(),
            next_query: None,
            query_delay: MIN_QUERY_DELAY,
        };
        poller.poll(options);
        poller
    }

    pub(super) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Polls on a new route.
    pub(super) fn update(&mut self, peer: Peer) {
        self.peer = peer;
    }

    /// Waits for the next event. Cancel safe.
    pub(super) async fn next(&mut self) -> PollEvent {
        loop {
            let next_poll = self.next_poll;
            let is_polling = self.batch.outstanding() > 0;
            let next_query = self.next_query.filter(|&due| due < next_poll);
            tokio::select! {
                biased;
                Some((_, result)) = self.batch.next(), if is_polling => {
                    if let Ok(reply) = result {
                        let info = SmInfo::read(&reply.data);
                        self.plan_query(info.state());
                        return PollEvent::Reply(info);
                    }
                }
                () = sleep_until(next_query.unwrap_or(next_poll)) => match next_query {
                    Some(_) => {
                        self.next_query = None;
                        self.send();
                    }
                    None => return PollEvent::Due,
                },
            }
        }
    }

    /// The successor of a HANDOVER is master after its first sweep: it is queried soon again until
    /// it shows that.
    fn plan_query(&mut self, state: SmState) {
        if state == SmState::Master {
            self.next_query = None;
            self.query_delay = MIN_QUERY_DELAY;
        } else {
            self.next_query = Some(Instant::now() + self.query_delay);
            self.query_delay = self.query_delay.saturating_mul(2);
        }
    }

    /// Sends a poll. Returns false instead if, as in OpenSM, one poll more than
    /// `polling_retry_number` brought no sign of life.
    pub(super) fn poll(&mut self, options: &Options) -> bool {
        let interval = Duration::from_millis(options.sminfo_polling_timeout.max(1).into());
        self.next_poll = Instant::now() + interval;
        if self.unanswered > options.polling_retry_number {
            return false;
        }
        if self.unanswered > 0 {
            self.keys.rotate_left(1);
        }
        self.unanswered += 1;
        self.send();
        true
    }

    fn send(&mut self) {
        let request = SmpRequest::get(self.peer.route, AttrId::SM_INFO, 0);
        debug_assert!(!self.keys.is_empty(), "a port has at least one M_Key");
        let key = self.keys.first().copied().unwrap_or(MKey::NONE);
        self.batch.submit(0, request.with_m_key(key));
    }

    /// Uses these M_Keys, of which there is at least one.
    pub(super) fn use_keys(&mut self, keys: Vec<MKey>) {
        self.keys = keys;
    }

    pub(super) fn alive(&mut self) {
        self.unanswered = 0;
    }
}
