//! Requests that change multicast membership, between client, registry and plan.
//!
//! * `batching`: collects changes and decides when the SM loop is notified to plan them;
//! * `held`: holds replies to joins until the multicast tree includes the port;
//! * `reply_cache`: keeps replies to requests that must not be executed twice.

mod batching;
mod held;
mod reply_cache;

use crate::daemon::sa_server::request_key::RequestKey;
use crate::sa::Reply;
use crate::transport::demux::Inbound;
use batching::PlanBatcher;
use held::HeldJoins;
use reply_cache::ReplyCache;
use tokio::time::Instant;

/// How a request is handled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Disposition {
    /// The request is new and must be executed.
    New,
    /// A retransmission: the request was executed, and its reply is held.
    ReplyHeld,
    /// A retransmission: this reply is sent again.
    Answered(Reply),
}

/// The state of all membership changes.
#[derive(Debug)]
pub struct Joins {
    held: HeldJoins,
    replies: ReplyCache,
    batcher: PlanBatcher,
}

impl Joins {
    /// Starts with the registry at this generation.
    pub fn new(generation: u64) -> Self {
        let (held, replies) = Default::default();
        Self { held, replies, batcher: PlanBatcher::new(generation) }
    }

    /// Decides how a request is handled. `key` is `None` for requests that do not change
    /// membership.
    pub fn check(
        &mut self,
        now: Instant,
        request: &Inbound,
        key: Option<RequestKey>,
    ) -> Disposition {
        let Some(key) = key else { return Disposition::New };
        if self.held.holds(&key) {
            return Disposition::ReplyHeld;
        }
        match self.replies.get(now, request, key) {
            Some(reply) => self
                .held
                .hold(now, key, reply)
                .map_or(Disposition::ReplyHeld, Disposition::Answered),
            None => Disposition::New,
        }
    }

    /// Records an executed request, after which the registry is at `generation`. Returns the reply
    /// unless it is held.
    pub fn executed(
        &mut self,
        now: Instant,
        request: &Inbound,
        key: Option<RequestKey>,
        reply: Reply,
        generation: u64,
    ) -> Option<Reply> {
        self.batcher.changed(now, generation);
        let Some(key) = key else { return Some(reply) };
        self.replies.executed(now, request, key, &reply);
        self.held.hold(now, key, reply)
    }

    /// Records that the SM loop plans the groups of this generation.
    pub fn planning_started(&mut self, generation: u64) {
        self.held.planning_started(generation);
        self.batcher.planning_started(generation);
    }

    /// Records that the SM loop will plan the groups of this generation without being notified.
    pub fn will_be_planned(&mut self, generation: u64) {
        self.batcher.will_be_planned(generation);
    }

    /// Releases the replies of the groups of the last [`Self::planning_started`], which are
    /// programmed now.
    pub fn planning_finished(&mut self) {
        self.held.planning_finished();
    }

    /// True if released replies await sending.
    pub fn has_released(&self) -> bool {
        self.held.has_released()
    }

    /// Removes at most `limit` released replies.
    pub fn take_released(&mut self, limit: usize) -> Vec<Reply> {
        self.held.take_released(limit)
    }

    /// Time at which [`Self::overdue`] or [`Self::is_batch_complete`] has an effect.
    pub fn next_deadline(&self) -> Option<Instant> {
        [self.held.next_deadline(), self.batcher.due()].into_iter().flatten().min()
    }

    /// Releases replies that were held for the maximum time.
    pub fn overdue(&mut self, now: Instant) {
        self.held.overdue(now);
    }

    /// True, once for each batch, when the SM loop should be notified to plan the changed groups.
    pub fn is_batch_complete(&mut self, now: Instant) -> bool {
        let is_due = self.batcher.due().is_some_and(|due| due <= now);
        if is_due {
            self.batcher.notified();
        }
        is_due
    }

    /// Drops all held replies, when this SM is no longer master.
    pub fn clear(&mut self) {
        self.held.clear();
    }
}
