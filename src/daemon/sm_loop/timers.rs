//! The deadlines of the SM loop, in one table.

use tokio::time::Instant;

/// A deadline, by the work that it begins. If several have passed, the first of this list comes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timer {
    /// Query the other SMs.
    Look,
    /// Check the link of the local port, of which no trap can tell.
    PortCheck,
    /// The next light sweep, or the retry of a failed sweep or reconfiguration.
    Sweep,
    /// Balance the routes again, unless the subnet changes before.
    Balancing,
    /// Include changed multicast groups in the baseline of the next plan.
    Renewal,
    /// End the quarantine of links that were calm.
    Release,
}

impl Timer {
    pub const ALL: [Self; 6] =
        [Self::Look, Self::PortCheck, Self::Sweep, Self::Balancing, Self::Renewal, Self::Release];
}

/// A table of deadlines.
#[derive(Clone, Debug, Default)]
pub struct Timers {
    deadlines: [Option<Instant>; Timer::ALL.len()],
}

impl Timers {
    pub fn get(&self, timer: Timer) -> Option<Instant> {
        self.deadlines[timer as usize]
    }

    /// Replaces a deadline; `None` stops the timer.
    pub fn set(&mut self, timer: Timer, deadline: impl Into<Option<Instant>>) {
        self.deadlines[timer as usize] = deadline.into();
    }

    pub fn stop(&mut self, timer: Timer) {
        self.set(timer, None);
    }

    /// The earliest deadline.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.iter().flatten().min().copied()
    }

    /// Stops a timer whose deadline has passed, and returns it with the deadline.
    pub fn expire(&mut self, now: Instant) -> Option<(Timer, Instant)> {
        let timer = Timer::ALL
            .into_iter()
            .find(|&timer| self.get(timer).is_some_and(|deadline| deadline <= now))?;
        let deadline = self.deadlines[timer as usize].take()?;
        Some((timer, deadline))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_timer_expires_once_and_in_order() {
        let start = Instant::now();
        let mut timers = Timers::default();
        assert_eq!(timers.next_deadline(), None);
        timers.set(Timer::Release, at(1, start));
        timers.set(Timer::Sweep, at(2, start));
        timers.set(Timer::Balancing, at(3, start));
        timers.set(Timer::Sweep, at(4, start));
        assert_eq!(timers.next_deadline(), Some(at(1, start)));
        assert_eq!(timers.expire(start), None);
        timers.stop(Timer::Balancing);
        assert_eq!(timers.expire(at(5, start)), Some((Timer::Sweep, at(4, start))));
        assert_eq!(timers.expire(at(5, start)), Some((Timer::Release, at(1, start))));
        assert_eq!(timers.expire(at(5, start)), None);
    }

    fn at(seconds: u64, start: Instant) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn every_timer_has_its_place_in_the_table() {
        for (place, timer) in Timer::ALL.into_iter().enumerate() {
            assert_eq!(timer as usize, place, "{timer:?}");
        }
    }
}
