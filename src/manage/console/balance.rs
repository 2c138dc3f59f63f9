//! The commands `switchbalance` and `lidbalance`: how evenly forwarding tables use ports.

use super::ConsoleSources;
use crate::fabric::{Fabric, Node, PortId, SwitchId};
use crate::ids::{Guid, Lid, PortNum};
use crate::publish::Subnet;
use crate::wire::attr::NodeKind;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// Difference of the most and least used port from which OpenSM calls a switch unbalanced.
const MIN_DIFFERENCE: u32 = 2;

/// `switchbalance [verbose] [guid]`; `None` if a word is no GUID.
pub(super) fn switches(sources: &ConsoleSources, words: &[&str]) -> Option<String> {
    let is_verbose = words.first() == Some(&"verbose");
    let guid = words.get(usize::from(is_verbose)).copied();
    each_switch(sources, guid, "guid not found\n", |subnet, switch, text| {
        switch_balance(subnet, switch, is_verbose, text);
    })
}

/// `lidbalance [switchguid]`; `None` if the word is no GUID.
pub(super) fn lids(sources: &ConsoleSources, guid: Option<&str>) -> Option<String> {
    each_switch(sources, guid, "switchguid not found\n", lid_balance)
}

/// Adds the text of the switch with this GUID, or of all switches.
fn each_switch(
    sources: &ConsoleSources,
    guid: Option<&str>,
    absent: &str,
    add: impl Fn(&Subnet, SwitchId, &mut String),
) -> Option<String> {
    let guid = match guid.map(super::ports::guid) {
        Some(None) => return None,
        Some(Some(guid)) => Some(guid),
        None => None,
    };
    let Some(subnet) = sources.status.load().subnet.clone() else { return Some(String::new()) };
    let wanted: Vec<SwitchId> =
        subnet.fabric.switch_ids().filter(|&id| is_wanted(&guid, &subnet, id)).collect();
    if wanted.is_empty() && guid.is_some() {
        return Some(absent.to_owned());
    }
    let mut text = String::new();
    wanted.into_iter().for_each(|id| add(&subnet, id, &mut text));
    Some(text)
}

fn is_wanted(guid: &Option<Guid>, subnet: &Arc<Subnet>, id: SwitchId) -> bool {
    guid.is_none_or(|guid| subnet.fabric.switch(id).guid() == guid)
}

/// The output port of each LID of an end port that is no switch.
fn outputs(subnet: &Subnet, switch: SwitchId, port: PortId) -> impl Iterator<Item = PortNum> {
    let lids = &subnet.plan.lids;
    let base = lids.base(port).map_or(0, |lid| lid.0);
    let count = if base == 0 { 0 } else { 1u16 << lids.lmc(port) };
    let lft = subnet.plan.routing.lfts.get(switch.index());
    let outputs = (base..base.saturating_add(count)).filter_map(move |lid| lft?.out(Lid(lid)));
    outputs.map(PortNum)
}

/// End ports of channel adapters and routers.
fn end_nodes(fabric: &Fabric) -> impl Iterator<Item = PortId> + '_ {
    fabric.end_ports().filter(|&port| !fabric.node_of(port).is_switch())
}

/// The node at the far end of a port.
fn peer(fabric: &Fabric, switch: SwitchId, num: PortNum) -> Option<&Node> {
    let port = fabric.switch_port(switch, num)?;
    Some(fabric.node_of(fabric.port(port).peer?))
}

fn switch_balance(subnet: &Subnet, switch: SwitchId, is_verbose: bool, text: &mut String) {
    let fabric = &subnet.fabric;
    let mut counts: BTreeMap<PortNum, u32> = (1..=fabric.switch(switch).num_ports())
        .map(PortNum)
        .filter(|&num| peer(fabric, switch, num).is_some_and(Node::is_switch))
        .map(|num| (num, 0))
        .collect();
    for num in end_nodes(fabric).flat_map(|port| outputs(subnet, switch, port)) {
        if let Some(count) = counts.get_mut(&num) {
            *count += 1;
        }
    }
    let is_unbalanced = difference(counts.values()) >= MIN_DIFFERENCE;
    if is_verbose || is_unbalanced {
        let node = fabric.switch(switch);
        let title = if is_unbalanced { "Unbalanced Switch" } else { "Switch" };
        let _ = writeln!(text, "{title}: {} ({})", node.guid(), node.name());
        for (num, count) in counts {
            let _ = writeln!(text, "Port {num}: {count}");
        }
    }
}

fn difference<'a>(counts: impl Iterator<Item = &'a u32> + Clone) -> u32 {
    let least = counts.clone().min();
    let most = counts.max();
    most.zip(least).map_or(0, |(most, least)| most - least)
}

fn lid_balance(subnet: &Subnet, switch: SwitchId, text: &mut String) {
    let fabric = &subnet.fabric;
    for port in end_nodes(fabric) {
        let mut ports = BTreeMap::new();
        let mut nodes: BTreeMap<Guid, (String, u32)> = BTreeMap::new();
        for num in outputs(subnet, switch, port) {
            let Some(node) = peer(fabric, switch, num) else { continue };
            *ports.entry(num).or_insert(0) += 1;
            let entry = nodes.entry(node.guid());
            entry.or_insert_with(|| (node.name().to_string(), 0)).1 += 1;
        }
        if difference(nodes.values().map(|(_, count)| count)) >= MIN_DIFFERENCE {
            let _ = write!(text, "{}", line_head("Remote", fabric, switch, port));
            for (guid, (name, count)) in &nodes {
                let _ = write!(text, "Dest {guid}({name}) - {count} ");
            }
            text.push('\n');
        }
        if difference(ports.values()) >= MIN_DIFFERENCE {
            let _ = write!(text, "{}", line_head("Port", fabric, switch, port));
            for (num, count) in &ports {
                let _ = write!(text, "Port {num} - {count}: ");
            }
            text.push('\n');
        }
    }
}

fn line_head(what: &str, fabric: &Fabric, switch: SwitchId, port: PortId) -> String {
    let switch = fabric.switch(switch);
    let node = fabric.node_of(port);
    let kind = match node.kind() {
        NodeKind::Ca => "CA",
        NodeKind::Router => "Router",
        _ => "",
    };
    format!(
        "Unbalanced {what} Forwarding: Switch {} ({}): {kind} {} ({}): ",
        switch.guid(),
        switch.name(),
        node.guid(),
        node.name()
    )
}
