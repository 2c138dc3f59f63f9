//! OpenSM's formats of the database: for people, and separated by tabs.

use super::counters::{DATA_NAMES, ERROR_NAMES, ErrorCounters};
use super::database::{Database, NodeEntry, PortEntry};
use chrono::{DateTime, Local, Utc};
use std::fmt::Write as _;

/// Name of the dump file in `dump_files_dir` unless `event_db_dump_file` is set.
pub const DEFAULT_FILE: &str = "opensm_port_counters.log";

/// Width of a counter's name in the format for people.
const NAME_WIDTH: usize = 20;

/// All ports, a line each with tabs between the fields (`perfmgr dump_counters mach`).
pub fn machine_readable(database: &Database) -> String {
    let mut out = String::new();
    for node in database.nodes() {
        out.push_str("\nName\tGUID\tActive\tPort\tLast Reset\tLast Error Update\tLast Data Update");
        for name in ERROR_NAMES.iter().chain(&DATA_NAMES) {
            // Writing to a String cannot fail.
            let _ = write!(out, "\t{name}");
        }
        out.push('\n');
        for (number, port) in node.valid_ports() {
            put_machine_line(&mut out, node, number, port);
        }
    }
    out
}

fn put_machine_line(out: &mut String, node: &NodeEntry, number: u8, port: &PortEntry) {
    let times = [port.last_reset, port.errors_updated, port.data_updated].map(ctime);
    let active = boolean(node.is_active);
    let _ = write!(out, "{}\t0x{:x}\t{active}\t{number}\t", node.name, node.guid.0);
    out.push_str(&times.join("\t"));
    for count in port.errors.0.iter().chain(&port.data.0) {
        let _ = write!(out, "\t{count}");
    }
    out.push('\n');
}

/// All ports, or those with errors (`perfmgr dump_counters`, `print_counters`, `print_errors`).
pub fn human_readable(database: &Database, errors_only: bool) -> String {
    database.nodes().map(|node| node_text(node, None, errors_only)).collect()
}

/// The ports of a node, or one of them.
pub fn node_text(node: &NodeEntry, only: Option<u8>, errors_only: bool) -> String {
    let mut out = String::new();
    for (number, port) in
        node.valid_ports().filter(|&(number, _)| only.is_none_or(|only| only == number))
    {
        if errors_only && port.errors == ErrorCounters::default() {
            continue;
        }
        put_port(&mut out, node, number, port, errors_only);
    }
    out
}

fn put_port(out: &mut String, node: &NodeEntry, number: u8, port: &PortEntry, errors_only: bool) {
    let active = boolean(node.is_active);
    let _ = writeln!(out, "\"{}\" 0x{:x} active {active} port {number}", node.name, node.guid.0);
    put_field(out, "Last Reset", &ctime(port.last_reset));
    put_field(out, "Last Error Update", &ctime(port.errors_updated));
    for (name, &count) in ERROR_NAMES.iter().zip(&port.errors.0) {
        if !errors_only || count != 0 {
            put_field(out, long_name(name), &count.to_string());
        }
    }
    if errors_only {
        return;
    }
    put_field(out, "Last Data Update", &ctime(port.data_updated));
    for (at, (name, &count)) in DATA_NAMES.iter().zip(&port.data.0).enumerate() {
        // The first two are PortXmitData and PortRcvData, the others numbers of packets.
        put_field(out, name, &format!("{count} ({})", with_unit(count, at < 2)));
    }
}

fn put_field(out: &mut String, name: &str, value: &str) {
    let _ = writeln!(out, "     {name:<NAME_WIDTH$} : {value}");
}

/// Names in the format for people that differ from those of the other one.
fn long_name(name: &'static str) -> &'static str {
    if name == "link_int_err" { "link_integrity_err" } else { name }
}

/// A time as ctime(3) shows it.
fn ctime(time: DateTime<Utc>) -> String {
    time.with_timezone(&Local).format("%a %b %e %H:%M:%S %Y").to_string()
}

fn boolean(value: bool) -> &'static str {
    if value { "TRUE" } else { "FALSE" }
}

/// A counter in the unit that OpenSM chooses, by powers of 1024; data as octets. OpenSM computes in
/// single precision.
fn with_unit(count: u64, is_data: bool) -> String {
    const UNITS: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];
    let mut unit = 0;
    let mut divisor = 1_u64;
    let mut rest = count / 1024;
    while rest > 0 {
        (unit, divisor, rest) = (unit + 1, divisor * 1024, rest / 1024);
    }
    let mut value = count as f32;
    if is_data {
        value *= 4.0;
        if value / divisor as f32 > 1024.0 {
            (unit, divisor) = (unit + 1, divisor.saturating_mul(1024));
        }
    }
    let suffix = if is_data { "B" } else { "" };
    format!("{:5.3}{}{suffix}", value / divisor as f32, UNITS.get(unit).unwrap_or(&""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Guid, PortNum};
    use crate::perfmgr::counters::DataCounters;
    use crate::perfmgr::database::ReadingTime;

    fn database() -> Database {
        let time = ReadingTime { date: DateTime::UNIX_EPOCH, since_start: 0.0 };
        let mut database = Database::default();
        database.activate(Guid(0xab), "S 1", 2, false, time.date);
        let at = (Guid(0xab), PortNum(2));
        let mut errors = ErrorCounters::default();
        errors.0[9] = 3;
        database.add_errors(at, errors, time);
        database.add_data(at, DataCounters([4096, 1, 2000, 3, 4, 5, 6, 7]), time, 60.0);
        database
    }

    #[test]
    fn lines_for_machines_have_all_fields() {
        let text = machine_readable(&database());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].is_empty());
        let [names, fields] = [lines[1], lines[2]].map(|line| line.split('\t').collect::<Vec<_>>());
        assert_eq!((names.len(), fields.len()), (28, 28));
        assert_eq!(fields[..4], ["S 1", "0xab", "TRUE", "2"]);
        assert_eq!((names[16], fields[16]), ("link_int_err", "3"));
        assert_eq!(fields[20..], ["4096", "1", "2000", "3", "4", "5", "6", "7"]);
    }

    #[test]
    fn text_for_people_has_units() {
        let text = human_readable(&database(), false);
        assert!(text.starts_with("\"S 1\" 0xab active TRUE port 2\n     Last Reset           : "));
        assert!(text.contains("     link_integrity_err   : 3\n"), "{text}");
        assert!(text.contains("     xmit_data            : 4096 (16.000KB)\n"), "{text}");
        assert!(text.contains("     xmit_pkts            : 2000 (1.953K)\n"), "{text}");
        assert!(text.contains("     rcv_data             : 1 (4.000B)\n"), "{text}");
        let errors = human_readable(&database(), true);
        assert_eq!(errors.lines().count(), 4, "{errors}");
        assert_eq!(node_text(database().node(Guid(0xab)).expect("it"), Some(1), false), "");
    }

    #[test]
    fn units_follow_the_value_in_octets() {
        assert_eq!(with_unit(0, true), "0.000B");
        assert_eq!(with_unit(1000, true), "3.906KB");
        assert_eq!(with_unit(u64::MAX, false), "16.000E");
        assert_eq!(with_unit(u64::MAX, true), "64.000EB");
    }
}
