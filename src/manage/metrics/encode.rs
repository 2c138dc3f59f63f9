//! Families as text.
//!
//! The text is written once, in the format that the client accepts: a fabric of 16x16x16 has 200,000
//! samples of port counters.

use super::family::{Labels, MetricFamily, MetricSamples};
use crate::histogram::Histogram;
use std::fmt::Write as _;

/// The text formats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MetricsFormat {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus' older text format.
    Prometheus,
}

impl MetricsFormat {
    /// The format for a header Accept.
    pub(super) fn accepted(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Writes families. Text is appended to a `String`, where `write!` cannot fail.
pub(super) struct TextWriter {
    format: MetricsFormat,
    text: String,
}

impl TextWriter {
    /// `capacity`: the expected length in bytes.
    pub(super) fn new(format: MetricsFormat, capacity: usize) -> Self {
        Self { format, text: String::with_capacity(capacity) }
    }

    /// The complete text.
    pub(super) fn finish(mut self) -> String {
        if self.format == MetricsFormat::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }

    pub(super) fn family(&mut self, family: &MetricFamily) {
        let MetricFamily { name, help, ref samples } = *family;
        match samples {
            MetricSamples::Counter(samples) => {
                self.start_counter(name, help);
                for (labels, value) in samples {
                    self.sample(name, "_total", None, labels);
                    let _ = writeln!(self.text, "{value}");
                }
            }
            MetricSamples::FloatCounter(value) => {
                self.start_counter(name, help);
                let _ = writeln!(self.text, "{name}_total {value:?}");
            }
            MetricSamples::Gauge(samples) => {
                self.start(name, help, "gauge");
                for (labels, value) in samples {
                    self.sample(name, "", None, labels);
                    let _ = writeln!(self.text, "{value:?}");
                }
            }
            MetricSamples::Histogram(samples) => {
                self.start(name, help, "histogram");
                for (labels, value) in samples {
                    self.histogram(name, labels, value);
                }
            }
        }
    }

    fn start(&mut self, name: &str, help: &str, kind: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Starts a family of counters. In Prometheus' format, the suffix `_total` belongs to its name.
    pub(super) fn start_counter(&mut self, name: &str, help: &str) {
        match self.format {
            MetricsFormat::OpenMetrics => self.start(name, help, "counter"),
            MetricsFormat::Prometheus => self.start(&format!("{name}_total"), help, "counter"),
        }
    }

    /// A sample of a counter; `labels` is the text between the braces.
    pub(super) fn counter(&mut self, name: &str, labels: &str, value: u64) {
        for part in [name, "_total{", labels, "} "] {
            self.text.push_str(part);
        }
        let _ = writeln!(self.text, "{value}");
    }

    /// Starts a family of gauges.
    pub(super) fn start_gauge(&mut self, name: &str, help: &str) {
        self.start(name, help, "gauge");
    }

    /// A sample of a gauge; `labels` is the text between the braces.
    pub(super) fn gauge(&mut self, name: &str, labels: &str, value: f64) {
        for part in [name, "{", labels, "} "] {
            self.text.push_str(part);
        }
        let _ = writeln!(self.text, "{value:?}");
    }

    /// Name and labels of a sample, with the bound of its bucket first.
    fn sample(&mut self, name: &str, suffix: &str, bound: Option<f64>, labels: &Labels) {
        self.text.push_str(name);
        self.text.push_str(suffix);
        let mut separator = '{';
        if let Some(bound) = bound {
            let _ = if bound.is_finite() {
                write!(self.text, "{{le=\"{bound:?}\"")
            } else {
                write!(self.text, "{{le=\"+Inf\"")
            };
            separator = ',';
        }
        for (label, value) in labels {
            self.text.push(separator);
            let _ = write!(self.text, "{label}=\"");
            value.chars().for_each(|c| push_escaped(&mut self.text, c));
            self.text.push('"');
            separator = ',';
        }
        self.text.push_str(if separator == ',' { "} " } else { " " });
    }

    fn histogram(&mut self, name: &str, labels: &Labels, value: &Histogram) {
        self.sample(name, "_sum", None, labels);
        let _ = writeln!(self.text, "{:?}", value.sum());
        self.sample(name, "_count", None, labels);
        let _ = writeln!(self.text, "{}", value.count());
        let mut cumulative = 0;
        for (bound, count) in value.buckets() {
            cumulative += count;
            self.sample(name, "_bucket", Some(bound), labels);
            let _ = writeln!(self.text, "{cumulative}");
        }
    }
}

/// Appends a character of a label value.
fn push_escaped(text: &mut String, c: char) {
    match c {
        '\\' => text.push_str("\\\\"),
        '"' => text.push_str("\\\""),
        '\n' => text.push_str("\\n"),
        c => text.push(c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn text(format: MetricsFormat) -> String {
        let mut histogram = Histogram::default();
        histogram.observe(Duration::from_millis(3));
        let labels = vec![("kind", "a \"quoted\"\n\\ text".to_owned())];
        let mut writer = TextWriter::new(format, 0);
        for family in [
            MetricFamily::counters("things", "Things", vec![(labels.clone(), 2)]),
            MetricFamily::float_counter("busy_seconds", "Time", 0.25),
            MetricFamily::gauge("level", "Level", 1.5),
            MetricFamily::histograms("time_seconds", "Times", vec![(labels, histogram)]),
        ] {
            writer.family(&family);
        }
        writer.start_counter("bytes", "Octets");
        writer.counter("bytes", "port=\"1\"", 7);
        writer.finish()
    }

    #[test]
    fn openmetrics_ends_with_eof_and_escapes_labels() {
        let text = text(MetricsFormat::OpenMetrics);
        assert!(text.starts_with("# HELP things Things\n# TYPE things counter\n"), "{text}");
        assert!(
            text.contains("\nthings_total{kind=\"a \\\"quoted\\\"\\n\\\\ text\"} 2\n"),
            "{text}"
        );
        assert!(text.contains("# TYPE busy_seconds counter\nbusy_seconds_total 0.25\n"), "{text}");
        assert!(text.contains("\nlevel 1.5\n"), "{text}");
        assert!(text.contains("\ntime_seconds_bucket{le=\"0.0025\",kind="), "{text}");
        assert!(text.contains("\ntime_seconds_bucket{le=\"+Inf\",kind="), "{text}");
        assert!(text.contains("# TYPE bytes counter\nbytes_total{port=\"1\"} 7\n"), "{text}");
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn the_older_format_has_counters_with_their_suffix() {
        let text = text(MetricsFormat::Prometheus);
        let start = "# HELP things_total Things\n# TYPE things_total counter\nthings_total{";
        assert!(text.starts_with(start), "{text}");
        assert!(text.contains("# TYPE level gauge\nlevel 1.5\n"), "{text}");
        assert!(text.contains("# TYPE bytes_total counter\nbytes_total{port=\"1\"} 7\n"), "{text}");
        assert!(!text.contains("EOF"));
    }

    #[test]
    fn buckets_are_cumulative() {
        let mut histogram = Histogram::default();
        for millis in [1, 3, 90_000] {
            histogram.observe(Duration::from_millis(millis));
        }
        let mut writer = TextWriter::new(MetricsFormat::Prometheus, 0);
        writer.family(&MetricFamily::histogram("time_seconds", "Times", histogram));
        let text = writer.finish();
        for line in [
            "time_seconds_count 3",
            "time_seconds_bucket{le=\"0.001\"} 1",
            "time_seconds_bucket{le=\"0.005\"} 2",
            "time_seconds_bucket{le=\"60.0\"} 2",
            "time_seconds_bucket{le=\"+Inf\"} 3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
    }
}
