//! The command `show faults`.

use crate::sim::devices::{Devices, NONE};
use crate::sim::net::Net;
use crate::sim::node_faults::NodeFaults;
use crate::sim::redirection::PerfRedirection;
use crate::sim::transit_faults::{FaultsByKind, MadKind, TransitFaults};
use std::fmt::Write as _;
use std::time::Duration;

/// All faults in force, one per line; `none` without any.
pub(super) fn faults(net: &Net) -> String {
    let mut text = String::new();
    for line in transit("", &net.faults.transit) {
        text += &format!("{line}\n");
    }
    let corruption = net.faults.corruption;
    for (kind, probability) in
        [("requests", corruption.requests), ("responses", corruption.responses)]
    {
        if probability > 0.0 {
            let _ = writeln!(text, "corrupt {}% {kind}", percent(probability));
        }
    }
    let mut lines = by_port(net);
    lines.sort();
    lines.iter().for_each(|(_, line)| text += &format!("{line}\n"));
    if text.is_empty() { "none\n".to_owned() } else { text }
}

/// Faults of ports and nodes, with the port slots by which they are sorted.
fn by_port(net: &Net) -> Vec<(u32, String)> {
    let faults = &net.faults;
    let devices = &net.devices;
    let mut lines: Vec<(u32, String)> = Vec::new();
    for (slot, link) in faults.links.iter() {
        let name = format!("{} ", devices.port_name(slot));
        lines.extend(transit(&name, link).into_iter().map(|line| (slot, line)));
    }
    for (&slot, &(probability, attr)) in &faults.errors {
        let attr = attr.map_or_else(String::new, |attr| format!(" attribute 0x{attr:04x}"));
        let line = format!("error {} {}%{attr}", devices.port_name(slot), percent(probability));
        lines.push((slot, line));
    }
    for (node, faults) in faults.nodes.iter() {
        let node = devices.node(node);
        let name = format!("\"{}\"", node.description);
        lines.extend(of_node(&name, faults).into_iter().map(|line| (node.first, line)));
    }
    lines.extend(of_cables(devices));
    lines
}

fn percent(probability: f64) -> f64 {
    probability * 100.0
}

/// Faults of MADs on their way. `port` is the port that sends them with a blank, or empty.
fn transit(port: &str, faults: &FaultsByKind) -> Vec<String> {
    let first = faults.of(MadKind::Request);
    if MadKind::ALL.iter().all(|&kind| faults.of(kind) == first) {
        return transit_lines(port, first, "");
    }
    let names = [" requests", " responses", " traps"];
    let kinds = MadKind::ALL.into_iter().zip(names);
    kinds.flat_map(|(kind, name)| transit_lines(port, faults.of(kind), name)).collect()
}

fn transit_lines(port: &str, faults: &TransitFaults, kind: &str) -> Vec<String> {
    let probabilities = [("loss", faults.loss), ("duplicate", faults.duplication)];
    let times = [("delay", faults.delay), ("jitter", faults.jitter)];
    let probabilities = probabilities.into_iter().filter(|(_, value)| *value > 0.0);
    let probabilities =
        probabilities.map(|(name, value)| format!("{name} {port}{}%{kind}", percent(value)));
    let times = times.into_iter().filter(|(_, value)| !value.is_zero());
    probabilities
        .chain(times.map(|(name, value)| format!("{name} {port}{value:?}{kind}")))
        .collect()
}

fn of_node(name: &str, faults: &NodeFaults) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(how) = faults.misbehaviour {
        lines.push(format!("{how} {name}"));
    }
    if faults.response_time > Duration::ZERO {
        lines.push(format!("slow {name} {:?}", faults.response_time));
    }
    if let Some(count) = faults.num_ports {
        lines.push(format!("numports {name} {count}"));
    }
    if let Some(how) = faults.congestion {
        lines.push(format!("congestion control {how}: {name}"));
    }
    if let Some(PerfRedirection { qpn, .. }) = faults.perf_redirection {
        lines.push(format!("redirect {name} to queue pair 0x{qpn:x}"));
    }
    for (attr, how) in &faults.sets {
        lines.push(format!("{how}: {name} attribute 0x{attr:04x}"));
    }
    for (attr, how) in &faults.attributes {
        lines.push(format!("{how}: {name} attribute 0x{attr:04x}"));
    }
    lines
}

fn of_cables(devices: &Devices) -> Vec<(u32, String)> {
    let mut lines = Vec::new();
    for (&slot, cable) in &devices.cables.faults {
        let name = devices.port_name(slot);
        if !cable.training_time.is_zero() {
            lines.push((slot, format!("training {name} {:?}", cable.training_time)));
        }
        if cable.is_degraded() {
            let widths = cable.widths;
            let speeds = cable.speeds;
            lines.push((slot, format!("degrade {name} widths 0x{widths:x} speeds 0x{speeds:x}")));
        }
    }
    for (slot, port) in (0u32..).zip(&devices.ports) {
        if port.peer != NONE && !port.plugged && slot < port.peer {
            let ends = [slot, port.peer].map(|slot| devices.port_name(slot));
            lines.push((slot, format!("unplugged {} - {}", ends[0], ends[1])));
        }
    }
    lines
}
