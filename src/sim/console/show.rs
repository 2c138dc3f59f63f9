//! What there is, as text.

use super::ConsoleError;
use super::resolve;
use super::verb::{Name, Show};
use crate::ids::{Lid, PortNum};
use crate::sim::device::{Devices, NONE};
use crate::sim::forward::{OpenRoad, Road};
use crate::sim::net::Net;
use crate::wire::attr::NodeKind;
use crate::wire::perf::GROUPS;
use std::fmt::Write as _;

type Answer = Result<String, ConsoleError>;

/// `show …`.
pub(super) fn show(net: &Net, what: &Show) -> Answer {
    let mut text = String::new();
    match what {
        Show::Nodes => {
            for node in 0..net.devices.nodes.len() as u32 {
                text += &node_line(&net.devices, node);
            }
        }
        Show::Links => links(&net.devices, &mut text),
        Show::Faults => faults(net, &mut text),
        Show::Node(name) => {
            let node = resolve::node(&net.devices, name)?;
            text += &node_line(&net.devices, node);
            ports(&net.devices, node, &mut text);
        }
        Show::Port(name) => {
            let slot = resolve::port(&net.devices, name)?;
            text = port_line(&net.devices, slot) + &counters(net, slot);
        }
    }
    Ok(text)
}

/// All nodes with their ports, or one.
pub(super) fn dump(net: &Net, name: Option<&Name>) -> Answer {
    let devices = &net.devices;
    let nodes = match name {
        Some(name) => {
            let node = resolve::node(devices, name)?;
            node..node + 1
        }
        None => 0..devices.nodes.len() as u32,
    };
    let mut text = String::new();
    for node in nodes {
        text += &node_line(devices, node);
        ports(devices, node, &mut text);
    }
    Ok(text)
}

fn ports(devices: &Devices, node: u32, text: &mut String) {
    let first = if devices.is_switch(node) { 0 } else { 1 };
    let base = devices.node(node).first;
    for num in first..=u32::from(devices.node(node).info.num_ports()) {
        *text += "  ";
        *text += &port_line(devices, base + num);
    }
}

/// `switch 0x… "sw 0,0,0" 7 ports`.
fn node_line(devices: &Devices, index: u32) -> String {
    let node = devices.node(index);
    let kind = match node.info.kind() {
        NodeKind::Switch => "switch",
        NodeKind::Ca => "adapter",
        NodeKind::Router => "router",
        NodeKind::Unknown(_) => "unknown",
    };
    let (guid, ports) = (node.info.node_guid(), node.info.num_ports());
    format!("{kind:8}{guid} \"{}\" {ports} ports\n", node.description)
}

/// `"sw 0,0,0"[3]`.
fn port_name(devices: &Devices, slot: u32) -> String {
    let port = devices.port(slot);
    format!("\"{}\"[{}]", devices.node(port.node).description, port.num)
}

fn port_line(devices: &Devices, slot: u32) -> String {
    let port = devices.port(slot);
    let info = &port.info;
    let mut line = format!("[{}]", port.num);
    if port.num != PortNum::ZERO {
        let _ = write!(line, " {}", info.port_state());
        match (port.peer, port.plugged) {
            (NONE, _) => line += ", no cable",
            (peer, true) => {
                let _ = write!(line, " {}", port_name(devices, peer));
            }
            (peer, false) => {
                let _ = write!(line, ", pulled from {}", port_name(devices, peer));
            }
        }
    }
    if devices.is_end_port(slot) {
        let (guid, sm) = (port.guid, info.master_sm_lid());
        let _ = write!(line, " guid {guid} lid {} lmc {} sm lid {sm}", info.lid(), info.lmc());
    }
    line + "\n"
}

fn links(devices: &Devices, text: &mut String) {
    for (slot, port) in (0u32..).zip(&devices.ports) {
        // Each cable once, from its first end.
        if port.peer == NONE || port.peer < slot {
            continue;
        }
        let [near, far] = [slot, port.peer].map(|slot| devices.port(slot).info.port_state());
        let state = match port.plugged {
            false => "pulled".to_owned(),
            true if near == far => near.to_string(),
            true => format!("{near}/{far}"),
        };
        let ends = [slot, port.peer].map(|slot| port_name(devices, slot));
        let _ = writeln!(text, "{state:8}{} - {}", ends[0], ends[1]);
    }
}

fn faults(net: &Net, text: &mut String) {
    let (faults, devices) = (&net.faults, &net.devices);
    let percent = |chance: f64| chance * 100.0;
    let chances = [
        ("loss", faults.loss),
        ("duplicate", faults.duplication),
        ("corrupt requests", faults.corruption.requests),
        ("corrupt answers", faults.corruption.answers),
    ];
    for (name, chance) in chances.into_iter().filter(|(_, chance)| *chance > 0.0) {
        let _ = writeln!(text, "{name} {}%", percent(chance));
    }
    if !faults.delay.is_zero() {
        let _ = writeln!(text, "delay {:?}", faults.delay);
    }
    let mut lines: Vec<(u32, String)> = Vec::new();
    for (&slot, &chance) in &faults.link_loss {
        let line = format!("loss {} {}%", port_name(devices, slot), percent(chance));
        lines.push((slot, line));
    }
    for (&slot, &(chance, attr)) in &faults.errors {
        let attr = attr.map(|attr| format!(" attribute 0x{attr:04x}")).unwrap_or_default();
        let line = format!("error {} {}%{attr}", port_name(devices, slot), percent(chance));
        lines.push((slot, line));
    }
    for (&node, how) in &faults.nodes {
        let node = devices.node(node);
        lines.push((node.first, format!("{how:?} \"{}\"", node.description)));
    }
    for (slot, port) in (0u32..).zip(&devices.ports) {
        if port.peer != NONE && !port.plugged && slot < port.peer {
            let ends = [slot, port.peer].map(|slot| port_name(devices, slot));
            lines.push((slot, format!("pulled {} - {}", ends[0], ends[1])));
        }
    }
    lines.sort();
    lines.iter().for_each(|(_, line)| *text += &format!("{line}\n"));
    if text.is_empty() {
        *text += "none\n";
    }
}

/// The counters of a port; of those that two attributes have, both.
pub(super) fn counters(net: &Net, slot: u32) -> String {
    let mut text = String::new();
    for group in &GROUPS {
        let _ = writeln!(text, "{}:", group.name);
        for counter in group.counters {
            let value = net.meters.value(slot, group, counter);
            let _ = writeln!(text, "  {:32}{value}", counter.name);
        }
    }
    text
}

/// Programs at the ports, from what the kernels there have.
pub(super) fn attached(net: &Net) -> String {
    let mut text = String::new();
    for (slot, agents) in net.kernel.agents.count() {
        let sm = if net.has_sm(slot) { ", subnet manager" } else { "" };
        let _ = writeln!(text, "{}: {agents} agents{sm}", port_name(&net.devices, slot));
    }
    if text.is_empty() { "none\n".to_owned() } else { text }
}

/// Writes down which ports a packet goes through.
struct Trace<'a> {
    devices: &'a Devices,
    text: String,
    fault: String,
}

impl Road for Trace<'_> {
    fn crosses(&mut self, exit: u32, entry: u32) -> bool {
        let num = self.devices.port(exit).num;
        let _ = writeln!(self.text, "[{num}] -> {}", port_name(self.devices, entry));
        OpenRoad.crosses(exit, entry)
    }
    fn has_no_way(&mut self, entry: u32) {
        let node = self.devices.node(self.devices.port(entry).node);
        self.fault = format!("\"{}\" has no way for this LID", node.description);
    }
    fn loops(&mut self, entry: u32) {
        self.fault = format!("the way goes round in circles at {}", port_name(self.devices, entry));
    }
    fn is_closed(&mut self, exit: u32) {
        self.fault = format!("the link at {} is not active", port_name(self.devices, exit));
    }
}

/// The way from one LID to another.
pub(super) fn route(devices: &Devices, from: Lid, to: Lid) -> Answer {
    let owner = |lid: Lid| {
        let slots = 0..devices.ports.len() as u32;
        let mut ends = slots.filter(|&slot| devices.is_end_port(slot));
        let found = ends.find(|&slot| devices.owns(slot, lid));
        found.ok_or_else(|| ConsoleError::new(1, format!("nobody has the LID {lid}")))
    };
    let (start, end) = (owner(from)?, owner(to)?);
    let text = format!("from {} lid {from}\n", port_name(devices, start));
    let mut trace = Trace { devices, text, fault: String::new() };
    match devices.walk_lid(start, to, true, &mut trace) {
        Some(_) => Ok(format!("{}to {} lid {to}\n", trace.text, port_name(devices, end))),
        None => Err(ConsoleError::new(1, trace.fault)),
    }
}
