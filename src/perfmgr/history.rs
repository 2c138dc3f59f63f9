//! Samples of a port within a window, and its rates.

use super::counters::{DataCounters, ErrorCounters, XMIT_WAIT};
use std::collections::VecDeque;

/// Number of parts of the window, each of which has a sample at most: a fabric of 33,000 ports then
/// needs 40 MB for them.
pub const MAX_SAMPLES: usize = 16;

/// Octets in a unit of PortXmitData and PortRcvData.
pub const OCTETS_PER_WORD: u64 = 4;

/// The totals of a port at a time.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Sample {
    /// Seconds since the start of the daemon.
    pub at: f64,
    /// PortXmitData, PortRcvData in words of 4 octets, PortXmitPkts, PortRcvPkts.
    pub data: [u64; 4],
    /// PortXmitWait in ticks.
    pub xmit_wait: u64,
    /// Sum of the error counters.
    pub errors: u64,
}

impl Sample {
    pub fn new(at: f64, data: &DataCounters, errors: &ErrorCounters) -> Self {
        let [xmit_data, rcv_data, xmit_pkts, rcv_pkts, ..] = data.0;
        Self {
            at,
            data: [xmit_data, rcv_data, xmit_pkts, rcv_pkts],
            xmit_wait: errors.0[XMIT_WAIT],
            errors: errors.sum(),
        }
    }
}

/// Rates between two samples.
#[derive(Clone, Copy, PartialEq, Debug, Default, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Rates {
    /// Time between the samples.
    pub seconds: f64,
    pub transmit_bytes_per_second: f64,
    pub receive_bytes_per_second: f64,
    pub transmit_packets_per_second: f64,
    pub receive_packets_per_second: f64,
    /// Ticks of PortXmitWait.
    pub transmit_wait_per_second: f64,
    /// Increase of the sum of the error counters.
    pub errors: u64,
}

/// The samples of a port: the last two, and some older ones at distances of a part of the window.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct History {
    /// Oldest first.
    older: VecDeque<Sample>,
    previous: Option<Sample>,
    last: Option<Sample>,
}

impl History {
    /// Adds a sample, and drops those that are more than `window` seconds older.
    pub fn push(&mut self, sample: Sample, window: f64) {
        let distance = window / MAX_SAMPLES as f64;
        if self.older.back().is_none_or(|last| sample.at - last.at >= distance) {
            self.older.push_back(sample);
        }
        while self.older.len() > MAX_SAMPLES + 1
            || self.older.front().is_some_and(|old| old.at < sample.at - window)
        {
            self.older.pop_front();
        }
        self.previous = self.last.replace(sample);
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// The rates between the two last samples.
    pub fn latest(&self) -> Option<Rates> {
        rates(self.previous.as_ref()?, self.last.as_ref()?)
    }

    /// The rates over the window, or between the two last samples if they are further apart.
    pub fn window(&self) -> Option<Rates> {
        let last = self.last.as_ref()?;
        let first = self.older.front().filter(|first| first.at < last.at);
        rates(first.or(self.previous.as_ref())?, last)
    }
}

fn rates(first: &Sample, last: &Sample) -> Option<Rates> {
    let seconds = last.at - first.at;
    if seconds <= 0.0 {
        return None;
    }
    let [xmit, rcv, xmit_pkts, rcv_pkts] =
        std::array::from_fn(|at| per_second(last.data[at], first.data[at], seconds));
    Some(Rates {
        seconds,
        transmit_bytes_per_second: xmit * OCTETS_PER_WORD as f64,
        receive_bytes_per_second: rcv * OCTETS_PER_WORD as f64,
        transmit_packets_per_second: xmit_pkts,
        receive_packets_per_second: rcv_pkts,
        transmit_wait_per_second: per_second(last.xmit_wait, first.xmit_wait, seconds),
        errors: last.errors.saturating_sub(first.errors),
    })
}

fn per_second(now: u64, before: u64, seconds: f64) -> f64 {
    now.saturating_sub(before) as f64 / seconds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: f64, words: u64) -> Sample {
        Sample { at, data: [words, 0, words / 64, 0], xmit_wait: 0, errors: words / 100 }
    }

    #[test]
    fn rates_are_those_of_the_interval_and_of_the_window() {
        let mut history = History::default();
        assert_eq!(history.latest(), None);
        for (at, words) in [(0.0, 0), (10.0, 1000), (20.0, 5000)] {
            history.push(sample(at, words), 60.0);
        }
        let latest = history.latest().expect("two samples");
        assert_eq!((latest.seconds, latest.transmit_bytes_per_second), (10.0, 1600.0));
        let window = history.window().expect("two samples");
        assert_eq!((window.seconds, window.transmit_bytes_per_second), (20.0, 1000.0));
        assert_eq!(window.errors, 50);
    }

    #[test]
    fn samples_outside_the_window_are_dropped_but_the_last_two() {
        let mut history = History::default();
        for second in 0..200 {
            history.push(sample(f64::from(second), 0), 10.0);
        }
        assert_eq!(history.window().map(|rates| rates.seconds), Some(10.0));
        history.push(sample(1000.0, 0), 10.0);
        assert_eq!(history.window().map(|rates| rates.seconds), Some(801.0));
        for second in 1001..3000 {
            history.push(sample(f64::from(second), 0), 160.0);
        }
        assert!(history.older.len() <= MAX_SAMPLES + 1, "{}", history.older.len());
        let seconds = history.window().expect("samples").seconds;
        assert!((150.0..=160.0).contains(&seconds), "{seconds}");
    }
}
