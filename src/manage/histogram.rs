//! Distributions of durations, as metrics show them.

use std::time::Duration;

/// Upper bounds of the buckets in seconds: 1 ms to 60 s.
pub const BOUNDS: [f64; 14] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0];

/// A distribution of durations.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Histogram {
    /// Durations by bucket; the last one has those above all bounds.
    counts: [u64; BOUNDS.len() + 1],
    sum: f64,
}

impl Histogram {
    pub fn observe(&mut self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let bucket = BOUNDS.iter().position(|&bound| seconds <= bound).unwrap_or(BOUNDS.len());
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
        BOUNDS.into_iter().chain([f64::INFINITY]).zip(self.counts)
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
}
