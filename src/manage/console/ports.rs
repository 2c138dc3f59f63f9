//! The commands `querylid`, `portstatus` and `dump_portguid`.

use super::ConsoleSources;
use crate::config::options::value::number;
use crate::fabric::{Fabric, Node, Port, PortId};
use crate::ids::{Guid, Lid, PortNum};
use crate::wire::attr::{CapMask, MlnxExtPortInfo, NodeKind, PhysState, PortInfo, PortState};
use regex::Regex;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use tokio::time::Instant;

/// LinkSpeedActive: 10 Gb/s per lane, or an extended speed (IBA vol. 1, 14.2.5.6).
const SPEED_10: u8 = 4;
/// LinkSpeedExtEnabled: no extended speed.
const NO_EXTENDED_SPEED: u8 = 30;

/// Longest compiled form of a regular expression in bytes.
const MAX_EXPRESSION: usize = 1 << 20;

/// A GUID that is not 0.
pub(super) fn guid(text: &str) -> Option<Guid> {
    let number = number(text).ok().and_then(|number| u64::try_from(number).ok());
    number.filter(|&number| number != 0).map(Guid)
}

/// `querylid LID`.
pub(super) fn query_lid(sources: &ConsoleSources, word: &str) -> String {
    let number = number(word).ok().and_then(|number| u16::try_from(number).ok());
    let status = sources.status.load();
    let found = number.and_then(|lid| {
        let subnet = status.subnet.as_ref()?;
        Some((lid, &subnet.fabric, subnet.plan.lids.port(Lid(lid))?))
    });
    let Some((lid, fabric, port)) = found else { return format!("Invalid lid {word}\n") };
    let node = fabric.node_of(port);
    let mut text = format!(
        "Query results for LID {lid}\n   GUID                : {}\n   \
         Node Desc           : {}\n   Node Type           : {}\n   \
         Num Ports           : {}\n",
        fabric.port(port).guid,
        node.name(),
        kind_name(node.kind()),
        node.num_ports()
    );
    let first = u8::from(!node.is_switch());
    let links = status.subnet.as_ref().map(|subnet| &subnet.devices.quarantined);
    for num in first..=node.num_ports() {
        let end = (node.guid(), PortNum(num));
        let is_bad = links.is_some_and(|links| links.iter().any(|link| link.ends.contains(&end)));
        let health = if is_bad { "ERROR" } else { "OK" };
        let _ = writeln!(text, "   Port {num} health       : {health}");
    }
    text
}

fn kind_name(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Ca => "Channel Adapter",
        NodeKind::Switch => "Switch",
        NodeKind::Router => "Router",
        _ => "UNKNOWN",
    }
}

/// A line that counts ports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct CountLine {
    place: u8,
    what: &'static str,
}

/// Counts of ports, and the ports with possible issues.
#[derive(Default)]
struct PortCounts<'a> {
    nodes: u64,
    ports: u64,
    /// By state, width and speed, in the order and with the words of OpenSM.
    counts: BTreeMap<CountLine, u64>,
    issues: BTreeMap<CountLine, Vec<(&'a Node, PortNum)>>,
}

/// `portstatus [ca|switch|router]`; `None` for another word.
pub(super) fn port_status(sources: &ConsoleSources, word: Option<&str>) -> Option<String> {
    let start = Instant::now();
    let kind = match word {
        None => None,
        Some("ca") => Some(NodeKind::Ca),
        Some("switch") => Some(NodeKind::Switch),
        Some("router") => Some(NodeKind::Router),
        Some(_) => return None,
    };
    let status = sources.status.load();
    let mut counts = PortCounts::default();
    let fabric = status.fabric.as_deref();
    for (fabric, node) in fabric.iter().flat_map(|f| f.nodes().iter().map(move |node| (f, node))) {
        if kind.is_none_or(|kind| node.kind() == kind) {
            counts.add_node(fabric, node);
        }
    }
    let mut text = format!(
        "\"{}\" port status:\n   {} port(s) scanned on {} nodes in {} us\n",
        kind.map_or("ALL", kind_name),
        counts.ports,
        counts.nodes,
        start.elapsed().as_micros()
    );
    for (CountLine { what, .. }, count) in &counts.counts {
        let _ = writeln!(text, "   {count} {what}");
    }
    if !counts.issues.is_empty() {
        text.push_str("\nPossible issues:\n");
    }
    for (CountLine { what, .. }, ports) in &counts.issues {
        let _ = writeln!(text, "   {} {what}", ports.len());
        for (node, num) in ports {
            let _ = writeln!(text, "      {} {num} ({})", node.guid(), node.name());
        }
    }
    text.push('\n');
    Some(text)
}

/// The attributes that tell the speed of a port.
struct SpeedSources<'a> {
    info: &'a PortInfo,
    has_extended: bool,
    fdr10: Option<&'a MlnxExtPortInfo>,
}

impl<'a> PortCounts<'a> {
    fn add_node(&mut self, fabric: &Fabric, node: &'a Node) {
        self.nodes += 1;
        let first = fabric.port(node.first_port).node;
        let external = fabric.ports_of(first).filter(|port| port.num != PortNum::ZERO);
        for port in external {
            self.add_port(fabric, node, port);
        }
    }

    fn add_port(&mut self, fabric: &Fabric, node: &'a Node, port: &Port) {
        let Some(info) = port.info() else { return };
        self.ports += 1;
        match port.state() {
            PortState::Down => self.count(0, "down"),
            PortState::Active => self.count(1, "active"),
            _ => {}
        }
        if info.phys_state() == PhysState::Disabled {
            self.issue(0, "disabled", node, port);
        }
        if port.state() == PortState::Down {
            return;
        }
        let owner = if node.is_switch() { fabric.port(node.first_port).info() } else { Some(info) };
        let has_extended = owner.is_some_and(|owner| owner.has(CapMask::EXTENDED_SPEEDS));
        self.add_width(node, port, &info);
        let id = PortId(node.first_port.0 + u32::from(port.num.0));
        let fdr10 = fabric.extended_port_info(id);
        self.add_speed(node, port, &SpeedSources { info: &info, has_extended, fdr10 });
    }

    fn add_width(&mut self, node: &'a Node, port: &Port, info: &PortInfo) {
        let active = info.link_width_active();
        let enabled = info.link_width_enabled();
        if active & enabled == 0 {
            self.issue(4, "with unenabled width", node, port);
        } else if enabled ^ active > active {
            self.issue(5, "with reduced width", node, port);
        }
        match active {
            1 => self.count(2, "at 1X"),
            2 => self.count(3, "at 4X"),
            4 => self.count(4, "at 8X"),
            8 => self.count(5, "at 12X"),
            // OpenSM counts these and prints nothing.
            16 => {}
            _ => self.issue(6, "with unknown width", node, port),
        }
    }

    fn add_speed(&mut self, node: &'a Node, port: &Port, speeds: &SpeedSources<'_>) {
        let SpeedSources { info, has_extended, fdr10 } = *speeds;
        let active = info.link_speed_active();
        let enabled = info.link_speed_enabled();
        self.compare_speeds(active, enabled, node, port);
        let extended = if has_extended { info.link_speed_ext_active() } else { 0 };
        match (active, extended) {
            (1, _) => self.count(6, "at 2.5 Gbps"),
            (2, _) => self.count(7, "at 5.0 Gbps"),
            (SPEED_10, 0) if fdr10.is_some_and(MlnxExtPortInfo::is_fdr10) => {
                self.count(9, "at 10.0 Gbps (FDR10)");
            }
            (SPEED_10, 0) => {
                self.count(8, "at 10.0 Gbps");
                if fdr10.is_some_and(MlnxExtPortInfo::has_fdr10_enabled) {
                    self.issue(2, "with reduced speed", node, port);
                }
            }
            (SPEED_10 | 0, _) => {}
            _ => self.issue(3, "with unknown speed", node, port),
        }
        let enabled = info.link_speed_ext_enabled();
        let may_be_extended = has_extended && info.link_speed_ext_supported() != 0;
        if !may_be_extended || enabled == NO_EXTENDED_SPEED || active != SPEED_10 {
            return;
        }
        self.compare_speeds(extended, enabled, node, port);
        match extended {
            0 => {}
            1 => self.count(10, "at 14.0625 Gbps"),
            2 => self.count(11, "at 25.78125 Gbps"),
            4 => self.count(12, "at 53.125 Gbps"),
            8 => self.count(13, "at 106.25 Gbps"),
            _ => self.issue(3, "with unknown speed", node, port),
        }
    }

    fn compare_speeds(&mut self, active: u8, enabled: u8, node: &'a Node, port: &Port) {
        if active & enabled == 0 {
            self.issue(1, "with unenabled speed", node, port);
        } else if enabled ^ active > active {
            self.issue(2, "with reduced speed", node, port);
        }
    }

    fn count(&mut self, place: u8, what: &'static str) {
        *self.counts.entry(CountLine { place, what }).or_default() += 1;
    }

    fn issue(&mut self, place: u8, what: &'static str, node: &'a Node, port: &Port) {
        self.issues.entry(CountLine { place, what }).or_default().push((node, port.num));
    }
}

/// `dump_portguid [file FILE] REGEXP …`: the GUIDs of ports whose node's description matches.
pub(super) fn dump_port_guids(sources: &ConsoleSources, words: &[&str], is_remote: bool) -> String {
    let mut text = String::new();
    let mut file = None;
    let mut expressions = Vec::new();
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        if word == "file" {
            match words.next() {
                Some(_) if is_remote => text += "Only sessions on this host write files\n",
                Some(name) => file = Some(*name),
                None => text += "No file name passed\n",
            }
            continue;
        }
        match regex::RegexBuilder::new(word).size_limit(MAX_EXPRESSION).build() {
            Ok(expression) => expressions.push(expression),
            Err(_) => {
                let _ = writeln!(text, "Cannot parse regular expression '{word}'. Skipping");
            }
        }
    }
    if expressions.is_empty() {
        return text + "No valid expression provided. Aborting\n";
    }
    let status = sources.status.load();
    let Some(subnet) = &status.subnet else {
        return text + "Subnet is not ready yet. Try again later\n";
    };
    let guids = matching(&subnet.fabric, &expressions);
    match file {
        None => text + &guids,
        Some(file) => match std::fs::write(file, guids) {
            Ok(()) => text,
            Err(error) => text + &format!("Could not open file {file}: {error}\n"),
        },
    }
}

fn matching(fabric: &Fabric, expressions: &[Regex]) -> String {
    let ports = fabric.end_ports().filter(|&port| {
        let name = fabric.node_of(port).name().to_string();
        expressions.iter().any(|expression| expression.is_match(&name))
    });
    let mut guids: Vec<Guid> = ports.map(|port| fabric.port(port).guid).collect();
    guids.sort_by_key(|guid| guid.opensm_order());
    guids.into_iter().map(|guid| format!("0x{:x}\n", guid.0)).collect()
}
