//! Commands that show the state of the fabric.

use super::ConsoleError;
use super::command::{Show, TargetName};
use super::{paths, resolve, show_faults, show_sma};
use crate::ids::{Lid, PortNum};
use crate::sim::devices::{Devices, NONE};
use crate::sim::forwarding::LinkObserver;
use crate::sim::net::Net;
use crate::wire::attr::NodeKind;
use crate::wire::perf::GROUPS;
use std::fmt::Write as _;

type Output = Result<String, ConsoleError>;

pub(super) fn show(net: &Net, what: &Show) -> Output {
    let mut text = String::new();
    match what {
        Show::Nodes => {
            for node in 0..net.devices.nodes.len() as u32 {
                text += &node_line(&net.devices, node);
            }
        }
        Show::Links => links(&net.devices, &mut text),
        Show::Faults => text = show_faults::faults(net),
        Show::Paths => text = paths::show(net),
        Show::Sma => text = show_sma::show(net),
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

pub(super) fn dump(net: &Net, name: Option<&TargetName>) -> Output {
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
    let guid = node.info.node_guid();
    let ports = node.info.num_ports();
    format!("{kind:8}{guid} \"{}\" {ports} ports\n", node.description)
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
                let _ = write!(line, " {}", devices.port_name(peer));
            }
            (peer, false) => {
                let _ = write!(line, ", unplugged from {}", devices.port_name(peer));
            }
        }
    }
    if devices.is_end_port(slot) {
        let guid = port.guid;
        let sm = info.master_sm_lid();
        let _ = write!(line, " guid {guid} lid {} lmc {} sm lid {sm}", info.lid(), info.lmc());
    }
    line + "\n"
}

fn links(devices: &Devices, text: &mut String) {
    for (slot, port) in (0u32..).zip(&devices.ports) {
        // Each cable is listed once, at the end with the smaller slot.
        if port.peer == NONE || port.peer < slot {
            continue;
        }
        let [near, far] = [slot, port.peer].map(|slot| devices.port(slot).info.port_state());
        let state = match port.plugged {
            false => "unplugged".to_owned(),
            true if near == far => near.to_string(),
            true => format!("{near}/{far}"),
        };
        let ends = [slot, port.peer].map(|slot| devices.port_name(slot));
        let _ = writeln!(text, "{state:10}{} - {}", ends[0], ends[1]);
    }
}

/// Counters of a port, by attribute.
pub(super) fn counters(net: &Net, slot: u32) -> String {
    let mut text = String::new();
    for group in &GROUPS {
        let _ = writeln!(text, "{}:", group.name);
        for counter in group.counters {
            let value = net.counters.value(slot, group, counter);
            let _ = writeln!(text, "  {:32}{value}", counter.name);
        }
    }
    text
}

/// Ports with registered agents.
pub(super) fn attached(net: &Net) -> String {
    let mut text = String::new();
    for (slot, agents) in net.kernel.agents.count() {
        let plural = if agents == 1 { "" } else { "s" };
        let sm = if net.has_sm(slot) { ", subnet manager" } else { "" };
        let _ = writeln!(text, "{}: {agents} agent{plural}{sm}", net.devices.port_name(slot));
    }
    if text.is_empty() { "none\n".to_owned() } else { text }
}

/// Records the ports of a packet's path.
struct PathTrace<'a> {
    devices: &'a Devices,
    text: String,
    fault: String,
}

impl LinkObserver for PathTrace<'_> {
    fn cross(&mut self, exit: u32, entry: u32) -> bool {
        let num = self.devices.port(exit).num;
        let _ = writeln!(self.text, "[{num}] -> {}", self.devices.port_name(entry));
        true
    }
    fn no_route(&mut self, entry: u32) {
        let node = self.devices.node(self.devices.port(entry).node);
        self.fault = format!("\"{}\" has no route for this LID", node.description);
    }
    fn routing_loop(&mut self, entry: u32) {
        self.fault = format!("routing loop at {}", self.devices.port_name(entry));
    }
    fn link_inactive(&mut self, exit: u32) {
        self.fault = format!("the link at {} is not ACTIVE", self.devices.port_name(exit));
    }
}

/// The path from one LID to another.
pub(super) fn route(devices: &Devices, from: Lid, to: Lid) -> Output {
    let start = owner_of(devices, from)?;
    let end = owner_of(devices, to)?;
    let text = format!("from {} lid {from}\n", devices.port_name(start));
    let mut trace = PathTrace { devices, text, fault: String::new() };
    match devices.forward_by_lid(start, to, true, &mut trace) {
        Some(_) => Ok(format!("{}to {} lid {to}\n", trace.text, devices.port_name(end))),
        None => Err(ConsoleError::new(1, trace.fault)),
    }
}

fn owner_of(devices: &Devices, lid: Lid) -> Result<u32, ConsoleError> {
    let slots = 0..devices.ports.len() as u32;
    let mut end_ports = slots.filter(|&slot| devices.is_end_port(slot));
    let found = end_ports.find(|&slot| devices.owns_lid(slot, lid));
    found.ok_or_else(|| ConsoleError::new(1, format!("no port has LID {lid}")))
}
