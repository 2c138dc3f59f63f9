//! The counters of ports. Their samples are written from the database without being collected as
//! families: they are nearly all of the text.

use super::encode::TextWriter;
use crate::perfmgr::counters::{ERROR_NAMES, XMIT_WAIT};
use crate::perfmgr::database::{Database, PortEntry};
use crate::perfmgr::history::{OCTETS_PER_WORD, Rates};
use std::fmt::Write as _;
use std::ops::Range;

/// Name, help and value of a counter.
type Counter = (&'static str, &'static str, fn(&PortEntry) -> u64);

const COUNTERS: [Counter; 5] = [
    ("torus_sm_port_transmit_bytes", "Octets that a port sent", |port| {
        port.data.0[0].saturating_mul(OCTETS_PER_WORD)
    }),
    ("torus_sm_port_receive_bytes", "Octets that a port received", |port| {
        port.data.0[1].saturating_mul(OCTETS_PER_WORD)
    }),
    ("torus_sm_port_transmit_packets", "Packets that a port sent", |port| port.data.0[2]),
    ("torus_sm_port_receive_packets", "Packets that a port received", |port| port.data.0[3]),
    (
        "torus_sm_port_transmit_wait_ticks",
        "Ticks in which a port had data but no credits",
        |port| port.errors.0[XMIT_WAIT],
    ),
];

/// Name, help and value of a rate.
type Rate = (&'static str, &'static str, fn(&Rates) -> f64);

const RATES: [Rate; 2] = [
    (
        "torus_sm_port_transmit_bytes_per_second",
        "Octets per second that a port sent between the last two sweeps of the counters; only of \
         ports that sent any",
        |rates| rates.transmit_bytes_per_second,
    ),
    (
        "torus_sm_port_receive_bytes_per_second",
        "Octets per second that a port received between the last two sweeps of the counters; only \
         of ports that received any",
        |rates| rates.receive_bytes_per_second,
    ),
];

const ERRORS: &str = "torus_sm_port_errors";
const ERRORS_HELP: &str = "Errors of a port by counter; only those that are not 0";

/// Length of a sample in bytes, of which labels take half.
const SAMPLE_LENGTH: usize = 96;

/// Ports that are in the fabric, with their labels.
pub(super) struct LabelledPorts<'a> {
    /// The labels of all ports as text.
    labels: String,
    ports: Vec<(Range<usize>, &'a PortEntry)>,
}

impl<'a> LabelledPorts<'a> {
    pub(super) fn new(database: &'a Database) -> Self {
        let mut labels = String::new();
        let mut ports = Vec::new();
        for node in database.nodes().filter(|node| node.is_active) {
            for (number, port) in node.valid_ports() {
                let start = labels.len();
                let _ = write!(labels, "node=\"{}\",port=\"{number}\"", node.guid);
                ports.push((start..labels.len(), port));
            }
        }
        Self { labels, ports }
    }

    fn iter(&self) -> impl Iterator<Item = (&str, &'a PortEntry)> {
        self.ports.iter().map(|(range, port)| (&self.labels[range.clone()], *port))
    }

    /// The expected length of the samples in bytes.
    pub(super) fn text_length(&self) -> usize {
        self.ports.len() * (COUNTERS.len() + RATES.len()) * SAMPLE_LENGTH
    }

    /// Writes the families. Error counters that are 0 have no samples, as nearly all are.
    pub(super) fn write(&self, out: &mut TextWriter) {
        for (name, help, value) in COUNTERS {
            out.start_counter(name, help);
            for (labels, port) in self.iter() {
                out.counter(name, labels, value(port));
            }
        }
        for (name, help, value) in RATES {
            out.start_gauge(name, help);
            for (labels, port) in self.iter() {
                let rate = port.history.latest().map_or(0.0, |rates| value(&rates));
                if rate > 0.0 {
                    out.gauge(name, labels, rate);
                }
            }
        }
        out.start_counter(ERRORS, ERRORS_HELP);
        for (labels, port) in self.iter() {
            let counted = ERROR_NAMES.iter().zip(&port.errors.0[..XMIT_WAIT]);
            for (counter, &count) in counted.filter(|(_, count)| **count > 0) {
                out.counter(ERRORS, &format!("{labels},counter=\"{counter}\""), count);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::encode::MetricsFormat;
    use super::*;
    use crate::ids::{Guid, PortNum};
    use crate::perfmgr::counters::{DataCounters, ErrorCounters};
    use crate::perfmgr::database::ReadingTime;

    fn text(database: &Database) -> (String, usize) {
        let ports = LabelledPorts::new(database);
        let mut writer = TextWriter::new(MetricsFormat::Prometheus, 0);
        ports.write(&mut writer);
        (writer.finish(), ports.text_length())
    }

    #[test]
    fn ports_in_the_fabric_that_were_read_have_samples() {
        let time = ReadingTime { date: chrono::Utc::now(), since_start: 1.0 };
        let mut database = Database::default();
        for guid in [7, 8] {
            database.activate(Guid(guid), "a", 2, false, time.date);
            let mut errors = ErrorCounters::default();
            (errors.0[2], errors.0[XMIT_WAIT]) = (3, 40);
            database.add_errors((Guid(guid), PortNum(1)), errors, time);
            let data = DataCounters([10, 20, 1, 2, 0, 0, 0, 0]);
            database.add_data((Guid(guid), PortNum(1)), data, time, 60.0);
        }
        database.deactivate(Guid(8));
        let (text, expected) = text(&database);
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let port = "node=\"0x0000000000000007\",port=\"1\"";
        assert_eq!(
            samples,
            [
                format!("torus_sm_port_transmit_bytes_total{{{port}}} 40"),
                format!("torus_sm_port_receive_bytes_total{{{port}}} 80"),
                format!("torus_sm_port_transmit_packets_total{{{port}}} 1"),
                format!("torus_sm_port_receive_packets_total{{{port}}} 2"),
                format!("torus_sm_port_transmit_wait_ticks_total{{{port}}} 40"),
                format!("torus_sm_port_errors_total{{{port},counter=\"{}\"}} 3", ERROR_NAMES[2]),
            ]
        );
        assert!(samples.iter().take(5).map(|line| line.len() + 1).sum::<usize>() <= expected);
    }

    #[test]
    fn ports_with_traffic_have_rates() {
        let mut database = Database::default();
        database.activate(Guid(7), "a", 1, false, time(0.0).date);
        for at in [1, 3] {
            // PortXmitData in words of 4 octets; nothing is received.
            let data = DataCounters([10 * at, 0, at, 0, 0, 0, 0, 0]);
            database.add_data((Guid(7), PortNum(1)), data, time(at as f64), 60.0);
        }
        let (text, _) = text(&database);
        let rates: Vec<&str> = text.lines().filter(|line| line.contains("_second{")).collect();
        let port = "node=\"0x0000000000000007\",port=\"1\"";
        assert_eq!(rates, [format!("torus_sm_port_transmit_bytes_per_second{{{port}}} 40.0")]);
    }

    fn time(since_start: f64) -> ReadingTime {
        ReadingTime { date: chrono::Utc::now(), since_start }
    }

    #[test]
    fn families_without_samples_have_their_types() {
        let (text, _) = text(&Database::default());
        let types = text.lines().filter(|line| line.starts_with("# TYPE torus_sm_port_"));
        assert_eq!(types.count(), COUNTERS.len() + RATES.len() + 1);
    }
}
