//! What becomes of requests that change multicast groups, between the client, the registry and the
//! plan.
//!
//! * `gathering`: when the manager is told to plan; all changes until then are one piece of work;
//! * `held`: answers that wait until the tree has a place for the port;
//! * `repeats`: requests that come again, because their answer waits or was lost.

mod gathering;
mod held;
mod repeats;

use super::name::Name;
use crate::sa::Reply;
use crate::transport::intake::Inbound;
use gathering::Gathering;
use held::HeldJoins;
use repeats::Repeats;
use tokio::time::Instant;

/// What is to be done with a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Course {
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
    repeats: Repeats,
    gathering: Gathering,
}

impl Joins {
    /// The registry is at this generation.
    pub fn new(generation: u64) -> Self {
        let (held, repeats) = Default::default();
        Self { held, repeats, gathering: Gathering::new(generation) }
    }

    /// What is to be done with a request of this name, if it has one.
    pub fn course(&mut self, now: Instant, request: &Inbound, name: Option<Name>) -> Course {
        let Some(name) = name else { return Course::New };
        if self.held.holds(&name) {
            return Course::Waits;
        }
        match self.repeats.answer(now, request, name) {
            Some(reply) => self.held.take(now, name, reply).map_or(Course::Waits, Course::Answered),
            None => Course::New,
        }
    }

    /// A request was carried out with this answer, which left the registry at this generation: gives
    /// back what may go out now.
    pub fn handled(
        &mut self,
        now: Instant,
        (request, name): (&Inbound, Option<Name>),
        reply: Reply,
        generation: u64,
    ) -> Option<Reply> {
        self.gathering.changed(now, generation);
        let Some(name) = name else { return Some(reply) };
        self.repeats.handled(now, request, name, &reply);
        self.held.take(now, name, reply)
    }

    /// The groups of this generation are being planned.
    pub fn asked(&mut self, generation: u64) {
        self.held.asked(generation);
        self.gathering.asked(generation);
    }

    /// The groups of this generation are going to be asked for in any case.
    pub fn known(&mut self, generation: u64) {
        self.gathering.known(generation);
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
        [self.held.next_deadline(), self.gathering.due()].into_iter().flatten().min()
    }

    /// Lets answers go that were held back for too long.
    pub fn overdue(&mut self, now: Instant) {
        self.held.overdue(now);
    }

    /// True, once, when the manager is to be told that there are groups to be planned.
    pub fn is_ripe(&mut self, now: Instant) -> bool {
        let is_due = self.gathering.due().is_some_and(|due| due <= now);
        if is_due {
            self.gathering.told();
        }
        is_due
    }

    /// Forgets what waits: the subnet is another's.
    pub fn clear(&mut self) {
        self.held.clear();
    }
}
