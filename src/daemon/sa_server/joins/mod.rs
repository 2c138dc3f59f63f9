//! What becomes of requests that change multicast groups, between the client, the registry and the
//! plan.
//!
//! * `gathering`: when the manager is told to plan; all changes until then are one piece of work;
//! * `held`: answers that wait until the tree has a place for the port;
//! * `repeats`: requests that come again, because their answer waits or was lost.

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

/// What is to be done with a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Disposition {
    /// It is new: to be carried out.
    New,
    /// It was carried out, and its answer will come.
    Waits,
    /// It was carried out with this answer, which is to be given again.
    Answered(Reply),
}

/// All of them.
#[derive(Debug)]
pub struct Joins {
    held: HeldJoins,
    replies: ReplyCache,
    batcher: PlanBatcher,
}

impl Joins {
    /// The registry is at this generation.
    pub fn new(generation: u64) -> Self {
        let (held, replies) = Default::default();
        Self { held, replies, batcher: PlanBatcher::new(generation) }
    }

    /// What is to be done with a request of this name, if it has one.
    pub fn course(
        &mut self,
        now: Instant,
        request: &Inbound,
        name: Option<RequestKey>,
    ) -> Disposition {
        let Some(name) = name else { return Disposition::New };
        if self.held.holds(&name) {
            return Disposition::Waits;
        }
        match self.replies.answer(now, request, name) {
            Some(reply) => {
                self.held.take(now, name, reply).map_or(Disposition::Waits, Disposition::Answered)
            }
            None => Disposition::New,
        }
    }

    /// A request was carried out with this answer, which left the registry at this generation: gives
    /// back what may go out now.
    pub fn handled(
        &mut self,
        now: Instant,
        (request, name): (&Inbound, Option<RequestKey>),
        reply: Reply,
        generation: u64,
    ) -> Option<Reply> {
        self.batcher.changed(now, generation);
        let Some(name) = name else { return Some(reply) };
        self.replies.handled(now, request, name, &reply);
        self.held.take(now, name, reply)
    }

    /// The groups of this generation are being planned.
    pub fn asked(&mut self, generation: u64) {
        self.held.asked(generation);
        self.batcher.asked(generation);
    }

    /// The groups of this generation are going to be asked for in any case.
    pub fn known(&mut self, generation: u64) {
        self.batcher.known(generation);
    }

    /// What was asked for is in the tables: some answers may go out now.
    pub fn planned(&mut self) {
        self.held.planned();
    }

    /// True if answers that were held may go out.
    pub fn has_free(&self) -> bool {
        self.held.has_free()
    }

    /// At most `limit` of them.
    pub fn free(&mut self, limit: usize) -> Vec<Reply> {
        self.held.free(limit)
    }

    /// When [`Self::overdue`] or [`Self::is_ripe`] will have something.
    pub fn next_deadline(&self) -> Option<Instant> {
        [self.held.next_deadline(), self.batcher.due()].into_iter().flatten().min()
    }

    /// Lets answers go that were held back for too long.
    pub fn overdue(&mut self, now: Instant) {
        self.held.overdue(now);
    }

    /// True, once, when the manager is to be told that there are groups to be planned.
    pub fn is_ripe(&mut self, now: Instant) -> bool {
        let is_due = self.batcher.due().is_some_and(|due| due <= now);
        if is_due {
            self.batcher.told();
        }
        is_due
    }

    /// Forgets what waits: the subnet is another's.
    pub fn clear(&mut self) {
        self.held.clear();
    }
}
