//! Families as text.

use super::family::{Family, Samples};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::fmt;

/// Content type of OpenMetrics.
pub(super) const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Content type of Prometheus' older text format.
pub(super) const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Debug)]
struct Snapshot(Vec<Family>);

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|family| encode_family(family, &mut encoder))
    }
}

fn encode_family(family: &Family, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let kind = match family.samples {
        Samples::Counter(_) | Samples::FloatCounter(_) => MetricType::Counter,
        Samples::Gauge(_) => MetricType::Gauge,
        Samples::Histogram(_) => MetricType::Histogram,
    };
    let mut metric = encoder.encode_descriptor(family.name, family.help, None, kind)?;
    match &family.samples {
        Samples::Counter(samples) => samples.iter().try_for_each(|(labels, value)| {
            with_labels(&mut metric, labels, |metric| {
                metric.encode_counter::<NoLabelSet, u64, u64>(value, None)
            })
        }),
        Samples::FloatCounter(value) => metric.encode_counter::<NoLabelSet, f64, f64>(value, None),
        Samples::Gauge(samples) => samples.iter().try_for_each(|(labels, value)| {
            with_labels(&mut metric, labels, |metric| metric.encode_gauge(value))
        }),
        Samples::Histogram(samples) => samples.iter().try_for_each(|(labels, value)| {
            let buckets: Vec<(f64, u64)> = value.buckets().collect();
            with_labels(&mut metric, labels, |metric| {
                metric.encode_histogram::<NoLabelSet>(value.sum(), value.count(), &buckets, None)
            })
        }),
    }
}

fn with_labels(
    metric: &mut MetricEncoder<'_>,
    labels: &[(&'static str, String)],
    encode: impl FnOnce(&mut MetricEncoder<'_>) -> fmt::Result,
) -> fmt::Result {
    match labels.is_empty() {
        true => encode(metric),
        false => encode(&mut metric.encode_family(&labels.to_vec())?),
    }
}

/// The families in the format of OpenMetrics 1.0.
///
/// # Errors
/// None: writing to a `String` cannot fail.
pub(super) fn openmetrics(families: Vec<Family>) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Snapshot(families)));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(text)
}

/// A text of OpenMetrics in Prometheus' older format: there, the suffix `_total` belongs to the
/// name of a counter, and there is no `# EOF`.
pub(super) fn as_prometheus(openmetrics: &str) -> String {
    let mut out = String::with_capacity(openmetrics.len());
    let mut lines = openmetrics.lines().peekable();
    while let Some(line) = lines.next() {
        let counter = |line: &str| -> Option<String> {
            let name = line.strip_prefix("# TYPE ")?.strip_suffix(" counter")?;
            Some(format!("{name}_total"))
        };
        if line == "# EOF" {
            break;
        }
        if let Some(help) = line.strip_prefix("# HELP ")
            && let Some(name) = lines.peek().and_then(|next| counter(next))
        {
            let help = help.split_once(' ').map_or("", |(_, help)| help);
            out.push_str(&format!("# HELP {name} {help}\n# TYPE {name} counter\n"));
            lines.next();
            continue;
        }
        out.push_str(line);
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manage::histogram::Histogram;
    use std::time::Duration;

    fn families() -> Vec<Family> {
        let mut histogram = Histogram::default();
        histogram.observe(Duration::from_millis(3));
        let labels = vec![("kind", "a \"quoted\"\n\\ text".to_owned())];
        vec![
            Family::counters("things", "Things", vec![(labels, 2)]),
            Family::gauge("level", "Level", 1.5),
            Family::histogram("time_seconds", "Times", histogram),
        ]
    }

    #[test]
    fn openmetrics_ends_with_eof_and_escapes_labels() {
        let text = openmetrics(families()).expect("text");
        assert!(text.starts_with("# HELP things Things\n# TYPE things counter\n"), "{text}");
        assert!(text.contains("things_total{kind=\"a \\\"quoted\\\"\\n\\\\ text\"} 2\n"), "{text}");
        assert!(text.contains("level 1.5\n"), "{text}");
        assert!(text.contains("time_seconds_bucket{le=\"0.005\"} 1\n"), "{text}");
        assert!(text.contains("time_seconds_bucket{le=\"+Inf\"} 1\n"), "{text}");
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn the_older_format_has_counters_with_their_suffix() {
        let text = as_prometheus(&openmetrics(families()).expect("text"));
        let start = "# HELP things_total Things\n# TYPE things_total counter\nthings_total{";
        assert!(text.starts_with(start), "{text}");
        assert!(text.contains("# TYPE level gauge\nlevel 1.5\n"), "{text}");
        assert!(!text.contains("EOF"));
    }
}
