//! A metric: name, help, and samples with their labels.

use crate::histogram::Histogram;

/// Labels of a sample: names and values.
pub type Labels = Vec<(&'static str, String)>;

/// The samples of a metric.
#[derive(Clone, PartialEq, Debug)]
pub enum MetricSamples {
    /// Values that only increase; the name gets the suffix `_total`.
    Counter(Vec<(Labels, u64)>),
    /// A counter that is no whole number.
    FloatCounter(f64),
    Gauge(Vec<(Labels, f64)>),
    Histogram(Vec<(Labels, Histogram)>),
}

/// A metric.
#[derive(Clone, PartialEq, Debug)]
pub struct MetricFamily {
    /// Without the suffixes of its type.
    pub name: &'static str,
    /// One sentence without its full stop.
    pub help: &'static str,
    pub samples: MetricSamples,
}

impl MetricFamily {
    /// A counter without labels.
    pub fn counter(name: &'static str, help: &'static str, value: u64) -> Self {
        Self::counters(name, help, vec![(Labels::new(), value)])
    }

    pub fn counters(name: &'static str, help: &'static str, samples: Vec<(Labels, u64)>) -> Self {
        Self { name, help, samples: MetricSamples::Counter(samples) }
    }

    /// A counter without labels that is no whole number, such as seconds.
    pub fn float_counter(name: &'static str, help: &'static str, value: f64) -> Self {
        Self { name, help, samples: MetricSamples::FloatCounter(value) }
    }

    /// A gauge without labels.
    pub fn gauge(name: &'static str, help: &'static str, value: f64) -> Self {
        Self::gauges(name, help, vec![(Labels::new(), value)])
    }

    pub fn gauges(name: &'static str, help: &'static str, samples: Vec<(Labels, f64)>) -> Self {
        Self { name, help, samples: MetricSamples::Gauge(samples) }
    }

    /// A histogram of durations in seconds without labels.
    pub fn histogram(name: &'static str, help: &'static str, value: Histogram) -> Self {
        Self::histograms(name, help, vec![(Labels::new(), value)])
    }

    pub fn histograms(
        name: &'static str,
        help: &'static str,
        samples: Vec<(Labels, Histogram)>,
    ) -> Self {
        Self { name, help, samples: MetricSamples::Histogram(samples) }
    }
}
