//! Polls of one SM: SubnGet(SMInfo) at intervals. A poll does not wait for the reply to the one
//! before, so that the retries of unanswered polls do not delay a takeover.

use crate::config::options::Options;
use crate::ids::MKey;
use crate::sm::peer::Peer;
use crate::transport::client::{SmpBatch, SmpClient};
use crate::transport::transactions::SmpRequest;
use crate::wire::attr::{AttrId, SmInfo};
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
}

impl Poller {
    /// Sends the first poll at once.
    pub(super) fn start(
        client: &SmpClient,
        options: &Options,
        peer: Peer,
        keys: Vec<MKey>,
    ) -> Self {
        let batch = client.batch();
        let mut poller = Self { peer, keys, batch, unanswered: 0, next_poll: Instant::now() };
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
            let (next_poll, is_polling) = (self.next_poll, self.batch.outstanding() > 0);
            tokio::select! {
                biased;
                Some((_, result)) = self.batch.next(), if is_polling => {
                    if let Ok(reply) = result {
                        return PollEvent::Reply(SmInfo::read(&reply.data));
                    }
                }
                () = sleep_until(next_poll) => return PollEvent::Due,
            }
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
        let request = SmpRequest::get(self.peer.route, AttrId::SM_INFO, 0);
        let key = self.keys.first().copied().unwrap_or_default();
        self.batch.submit(0, request.with_m_key(key));
        true
    }

    /// Uses these M_Keys, of which there is at least one.
    pub(super) fn use_keys(&mut self, keys: Vec<MKey>) {
        self.keys = keys;
    }

    pub(super) fn alive(&mut self) {
        self.unanswered = 0;
    }
}
