//! Distributions of durations, as metrics show them.

use std::time::Duration;

/// Number of buckets that have an upper bound.
pub const BUCKETS: usize = 14;

/// Upper bounds of buckets in seconds, ascending.
pub type Bounds = [f64; BUCKETS];

/// Bounds for work of the SM, such as sweeps: 1 ms to 60 s.
pub const WORK_BOUNDS: Bounds =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0];

/// Bounds for responses to single MADs: 2.5 us to 5 s.
pub const RESPONSE_BOUNDS: Bounds =
    [2.5e-6, 5e-6, 10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 0.001, 0.005, 0.025, 0.1, 0.5, 5.0];

/// A distribution of durations.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Histogram {
    bounds: &'static Bounds,
    /// Durations by bucket; the last one has those above all bounds.
    counts: [u64; BUCKETS + 1],
    sum: f64,
}

/// No durations, with [`WORK_BOUNDS`].
impl Default for Histogram {
    fn default() -> Self {
        Self::new(&WORK_BOUNDS)
    }
}

impl Histogram {
    const fn new(bounds: &'static Bounds) -> Self {
        Self { bounds, counts: [0; BUCKETS + 1], sum: 0.0 }
    }

    pub fn observe(&mut self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let bucket = self.bounds.iter().position(|&bound| seconds <= bound).unwrap_or(BUCKETS);
        self.counts[bucket] += 1;
        self.sum += seconds;
    }

    /// Number of durations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Sum of the durations in seconds.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// Upper bound and number of durations of each bucket, not cumulative; the last bound is
    /// infinite.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        self.bounds.iter().copied().chain([f64::INFINITY]).zip(self.counts)
    }
}

/// A distribution of response times, with [`RESPONSE_BOUNDS`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ResponseTimes(Histogram);

impl Default for ResponseTimes {
    fn default() -> Self {
        Self(Histogram::new(&RESPONSE_BOUNDS))
    }
}

impl ResponseTimes {
    pub fn observe(&mut self, duration: Duration) {
        self.0.observe(duration);
    }

    /// Adds the response times of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.0.counts.iter_mut().zip(other.0.counts) {
            *count += more;
        }
        self.0.sum += other.0.sum;
    }

    pub fn histogram(&self) -> Histogram {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_fall_into_the_bucket_of_the_next_bound() {
        let mut histogram = Histogram::default();
        for millis in [1, 2, 60_000, 60_001] {
            histogram.observe(Duration::from_millis(millis));
        }
        let filled: Vec<_> = histogram.buckets().filter(|&(_, count)| count > 0).collect();
        assert_eq!(filled, [(0.001, 1), (0.0025, 1), (60.0, 1), (f64::INFINITY, 1)]);
        assert_eq!(histogram.count(), 4);
        assert!((histogram.sum() - 120.004).abs() < 1e-9);
    }

    #[test]
    fn response_times_of_threads_are_added_up() {
        let [mut one, mut other] = [ResponseTimes::default(); 2];
        one.observe(Duration::from_micros(3));
        other.observe(Duration::from_micros(4));
        other.observe(Duration::from_secs(6));
        one.merge(&other);
        let sum = one.histogram();
        let filled: Vec<_> = sum.buckets().filter(|&(_, count)| count > 0).collect();
        assert_eq!(filled, [(5e-6, 2), (f64::INFINITY, 1)]);
        assert!((sum.sum() - 6.000_007).abs() < 1e-9);
    }

    #[test]
    fn bounds_ascend() {
        for bounds in [WORK_BOUNDS, RESPONSE_BOUNDS] {
            assert!(bounds.windows(2).all(|pair| pair[0] < pair[1]), "{bounds:?}");
        }
    }
}
