//! When multicast groups that changed are to be planned.
//!
//! Every plan costs the writing of some blocks of forwarding tables, and a block that is written for
//! one member may be written for a thousand: so changes that come in numbers are gathered until
//! there is a pause, or the first of them has waited for [`LONGEST`]. A change that comes alone is
//! planned at once.

use std::time::Duration;
use tokio::time::Instant;

/// Nothing came for so long: a pause.
const PAUSE: Duration = Duration::from_millis(10);

/// The first change of a batch waits so long at most. With a pass behind it that is well below
/// the second after which clients ask again.
const LONGEST: Duration = Duration::from_millis(250);

/// So many changes in the last batch and in this one are not worth waiting for more.
const FEW: u64 = 16;

/// Changes of the groups that nobody has asked for yet, by the generations of the registry.
#[derive(Debug)]
pub(super) struct PlanBatcher {
    /// What was asked for last.
    asked: u64,
    latest: u64,
    /// How many changes the last batch had.
    last_batch: u64,
    /// When the first and the last change after `asked` came.
    since: Option<(Instant, Instant)>,
    /// The manager was told that there is something to plan.
    is_told: bool,
}

impl PlanBatcher {
    /// The registry is at this generation, which is going to be asked for.
    pub(super) fn new(generation: u64) -> Self {
        Self { asked: generation, latest: generation, last_batch: 0, since: None, is_told: false }
    }

    /// The registry is at this generation now.
    pub(super) fn changed(&mut self, now: Instant, generation: u64) {
        if generation != self.latest {
            self.latest = generation;
            let first = self.since.map_or(now, |(first, _)| first);
            self.since = Some((first, now));
        }
    }

    /// The groups of this generation are being planned.
    pub(super) fn asked(&mut self, generation: u64) {
        self.last_batch = generation.saturating_sub(self.asked);
        self.known(generation);
    }

    /// The groups of this generation are going to be asked for in any case.
    pub(super) fn known(&mut self, generation: u64) {
        (self.asked, self.latest) = (generation, generation);
        (self.since, self.is_told) = (None, false);
    }

    /// The manager knows.
    pub(super) fn told(&mut self) {
        self.is_told = true;
    }

    /// When the manager is to be told; `None` if there is nothing new to tell.
    pub(super) fn due(&self) -> Option<Instant> {
        let (first, last) = self.since.filter(|_| !self.is_told)?;
        let are_few = self.last_batch.max(self.latest - self.asked) <= FEW;
        Some(if are_few { first } else { (last + PAUSE).min(first + LONGEST) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn what_comes_alone_does_not_wait() {
        let (mut batcher, now) = (PlanBatcher::new(7), Instant::now());
        batcher.changed(now, 7);
        assert_eq!(batcher.due(), None);
        batcher.changed(now, 9);
        assert_eq!(batcher.due(), Some(now));
        batcher.told();
        batcher.changed(now + MILLISECOND, 10);
        assert_eq!(batcher.due(), None, "once is enough");
        batcher.asked(10);
        batcher.changed(now + MILLISECOND, 11);
        assert_eq!(batcher.due(), Some(now + MILLISECOND));
        batcher.known(11);
        assert_eq!(batcher.due(), None);
    }

    #[test]
    fn what_comes_in_numbers_is_gathered() {
        let (mut batcher, start) = (PlanBatcher::new(0), Instant::now());
        let mut now = start;
        for generation in 1..=1000 {
            batcher.changed(now, generation);
            now += MILLISECOND;
        }
        assert_eq!(batcher.due(), Some(start + LONGEST));
        batcher.asked(1000);
        batcher.changed(now, 1001);
        assert_eq!(batcher.due(), Some(now + PAUSE), "there may be more of them");
        batcher.asked(1001);
        batcher.changed(now, 1002);
        assert_eq!(batcher.due(), Some(now), "there were no more");
    }
}
