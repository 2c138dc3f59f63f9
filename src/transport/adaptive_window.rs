//! A window of requests in flight that follows the round trips, where no limit is configured.
//!
//! Requests go to devices in turn, few to each ([`super::device_queue`]), so a larger window loads more
//! devices, not a device more. But directed-route requests may all pass the management processor of one
//! slow switch, whose queue then grows with the window, and with it the round trip of every request. The window
//! therefore grows while round trips are below twice the lowest ones, by one request in each round trip.
//! Otherwise, and if a request stalls or is sent again, it is halved. Short round trips may be longer by
//! [`SLACK`]: where devices answer within microseconds, the threads of this program alone double them.
//!
//! Round trips are judged by rounds of at least [`MIN_ROUND`] answers, of which an eighth took at most the
//! time that counts. A queue that all requests pass delays these, too, while the mean follows the load of this
//! machine and the few devices that are slow themselves. A single answer would not do: those of the local
//! port come at once. In a round, the window grows by at most a quarter.
//!
//! At its start the window itself causes no queue worth mentioning, so a round there says what the
//! lowest round trip is from then on: devices answer some attributes much later than others.

use std::time::Duration;

/// The window at the start, and at least: that of OpenSM.
pub(super) const START: usize = 4;

/// Answers in a round at least.
const MIN_ROUND: usize = 64;

/// Time by which round trips may exceed the lowest ones in any case. A switch that all requests pass has few
/// of them in its queue in that time: 10 if it needs 10 microseconds for each.
const SLACK: Duration = Duration::from_micros(100);

pub(super) struct AdaptiveWindow {
    bound: usize,
    window: usize,
    /// The lowest round trip of a round since the window was last at its start.
    lowest: Option<Duration>,
    /// The round trips of the answers of this round.
    round_trips: Vec<Duration>,
    /// True if a request had to wait for the window in this round.
    is_used: bool,
    /// True if the window was halved in this round.
    is_halved: bool,
}

impl AdaptiveWindow {
    /// A window of [`START`] up to `bound` requests.
    pub(super) fn new(bound: usize) -> Self {
        Self {
            bound: bound.max(START),
            window: START,
            lowest: None,
            round_trips: Vec::new(),
            is_used: false,
            is_halved: false,
        }
    }

    pub(super) fn window(&self) -> usize {
        self.window
    }

    /// A request waits because the window is full.
    pub(super) fn full(&mut self) {
        self.is_used = true;
    }

    /// A request that was sent once and did not stall was answered.
    pub(super) fn answered(&mut self, round_trip: Duration) {
        self.round_trips.push(round_trip);
        if self.round_trips.len() >= MIN_ROUND.max(self.window) {
            self.end_round();
        }
    }

    /// A request stalled or is sent again. The window is halved once in a round, because requests that were
    /// sent together are lost together.
    pub(super) fn lost(&mut self) {
        if !self.is_halved {
            self.halve();
            self.is_halved = true;
        }
    }

    fn end_round(&mut self) {
        let answers = self.round_trips.len();
        let (_, round_trip, _) = self.round_trips.select_nth_unstable(answers / 8);
        let round_trip = *round_trip;
        let lowest = match self.lowest {
            Some(lowest) if self.window > START => lowest.min(round_trip),
            _ => round_trip,
        };
        self.lowest = Some(lowest);
        if round_trip > (lowest * 2).max(lowest + SLACK) {
            self.halve();
        } else if self.is_used && !self.is_halved {
            let growth = (answers / self.window).min(self.window / 4).max(1);
            self.window = self.bound.min(self.window + growth);
        }
        debug_assert!((START..=self.bound).contains(&self.window), "the window has bounds");
        self.round_trips.clear();
        self.is_used = false;
        self.is_halved = false;
    }

    fn halve(&mut self) {
        self.window = START.max(self.window / 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIP: Duration = Duration::from_micros(60);

    fn rounds(window: &mut AdaptiveWindow, count: usize, round_trip: impl Fn(usize) -> Duration) {
        for _ in 0..count {
            window.full();
            let answers = MIN_ROUND.max(window.window());
            let round_trip = round_trip(window.window());
            (0..answers).for_each(|_| window.answered(round_trip));
        }
    }

    #[test]
    fn it_grows_to_its_bound_while_round_trips_stay_short() {
        let mut window = AdaptiveWindow::new(64);
        rounds(&mut window, 1, |_| TRIP);
        assert_eq!(window.window(), 5);
        rounds(&mut window, 60, |window| TRIP + TRIP * window as u32 / 70);
        assert_eq!(window.window(), 64);
    }

    #[test]
    fn it_stays_small_behind_one_slow_device() {
        let mut window = AdaptiveWindow::new(64);
        let mut largest = 0;
        for _ in 0..200 {
            rounds(&mut window, 1, |window| TRIP * window as u32);
            largest = largest.max(window.window());
        }
        assert!((8..=10).contains(&largest), "{largest}");
    }

    #[test]
    fn the_load_of_this_machine_does_not_stop_it_among_fast_devices() {
        let mut window = AdaptiveWindow::new(64);
        let fast = Duration::from_micros(3);
        rounds(&mut window, 60, |window| fast + fast * window as u32 / 3);
        assert_eq!(window.window(), 64);
        let mut window = AdaptiveWindow::new(64);
        let mut largest = 0;
        for _ in 0..200 {
            rounds(&mut window, 1, |window| Duration::from_micros(10) * window as u32);
            largest = largest.max(window.window());
        }
        assert!((13..=15).contains(&largest), "behind a switch that needs 10 us: {largest}");
    }

    #[test]
    fn neither_a_busy_machine_nor_answers_of_the_local_port_stop_it() {
        let mut window = AdaptiveWindow::new(64);
        for answer in 0..100_000_u32 {
            window.full();
            window.answered(match answer % 32 {
                0 => TRIP / 20,
                1..24 => TRIP * (answer % 32),
                _ => TRIP,
            });
        }
        assert_eq!(window.window(), 64);
    }

    #[test]
    fn it_grows_again_among_slower_answers() {
        let mut window = AdaptiveWindow::new(64);
        rounds(&mut window, 100, |_| TRIP);
        rounds(&mut window, 5, |_| TRIP * 9);
        assert!(window.window() < 8, "{}", window.window());
        rounds(&mut window, 100, |_| TRIP * 9);
        assert_eq!(window.window(), 64);
    }

    #[test]
    fn a_loss_halves_it_once_in_a_round() {
        let mut window = AdaptiveWindow::new(64);
        rounds(&mut window, 100, |_| TRIP);
        window.lost();
        window.lost();
        assert_eq!(window.window(), 32);
        rounds(&mut window, 1, |_| TRIP);
        assert_eq!(window.window(), 32, "no growth in the round of the loss");
        window.lost();
        assert_eq!(window.window(), 16);
        (0..9).for_each(|_| {
            rounds(&mut window, 1, |_| TRIP);
            window.lost();
        });
        assert_eq!(window.window(), START);
    }

    #[test]
    fn it_does_not_grow_unused() {
        let mut window = AdaptiveWindow::new(64);
        (0..1000).for_each(|_| window.answered(TRIP));
        assert_eq!(window.window(), START);
    }
}
