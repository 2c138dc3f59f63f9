//! Writer of fabric files.

use crate::fabric::topology::{DeviceModel, Topology, TopologyNode};
use crate::ids::{Guid, PortNum};
use crate::wire::attr::NodeKind;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// `write!` to a `String`, which cannot fail.
macro_rules! put {
    ($text:expr, $($arg:tt)*) => { let _ = write!($text, $($arg)*); };
}

/// The fabric file of `topology`, in the format that ibnetdiscover prints and ibsim loads. Parsing
/// it gives the same topology in normal form ([`Topology::normalize`]), except for quotation marks
/// and control characters in descriptions, which the format cannot represent.
pub fn write(topology: &Topology) -> String {
    let mut cabled = BTreeMap::new();
    for &[a, b] in &topology.cables {
        cabled.insert(a, b);
        cabled.insert(b, a);
    }
    let mut text = String::new();
    for (index, node) in topology.nodes.iter().enumerate() {
        header(&mut text, node);
        let range = (index, PortNum(0))..=(index, PortNum(u8::MAX));
        for (&(_, port), &(peer, peer_port)) in cabled.range(range) {
            if let Some(peer) = topology.nodes.get(peer) {
                let rate = topology.rate(index, port);
                cable(&mut text, node, port, peer, peer_port);
                put!(text, " {rate}\n");
            }
        }
        text.push('\n');
    }
    text
}

fn header(text: &mut String, node: &TopologyNode) {
    let Guid(guid) = node.guid;
    if (node.model.vendor_id, node.model.device_id) != (0, 0) {
        let DeviceModel { vendor_id, device_id, .. } = node.model;
        put!(text, "vendid={vendor_id:#x}\ndevid={device_id:#x}\n");
    }
    put!(text, "sysimgguid={:#x}\n", node.system_guid.0);
    let (key, word) = match node.kind {
        NodeKind::Switch => ("switchguid", "Switch"),
        NodeKind::Router => ("rtguid", "Rt"),
        NodeKind::Ca | NodeKind::Unknown(_) => ("caguid", "Ca"),
    };
    put!(text, "{key}={guid:#x}");
    if node.kind == NodeKind::Switch {
        put!(text, "({:x})", node.port_guid(PortNum::ZERO).0);
    }
    put!(text, "\n{word}\t{} \"{}\"\t\t# \"{}\"", node.num_ports, name(node), description(node));
    if node.kind == NodeKind::Switch {
        let (lid, lmc) = lid_of(node, PortNum::ZERO);
        let kind = if node.model.enhanced_port0 { "enhanced" } else { "base" };
        put!(text, " {kind} port 0 lid {lid} lmc {lmc}");
    }
    text.push('\n');
}

fn cable(
    text: &mut String,
    node: &TopologyNode,
    port: PortNum,
    peer: &TopologyNode,
    peer_port: PortNum,
) {
    put!(text, "[{port}]");
    if node.kind != NodeKind::Switch {
        put!(text, "({:x}) ", node.port_guid(port).0);
    }
    put!(text, "\t\"{}\"[{peer_port}]", name(peer));
    if peer.kind != NodeKind::Switch {
        put!(text, "({:x}) ", peer.port_guid(peer_port).0);
    }
    text.push_str("\t\t#");
    if node.kind != NodeKind::Switch {
        let (lid, lmc) = lid_of(node, port);
        put!(text, " lid {lid} lmc {lmc}");
    }
    // ibsim parses options (`w=4`) in comments as well.
    let description = description(peer).replace('=', "_");
    let owner = if peer.kind == NodeKind::Switch { PortNum::ZERO } else { peer_port };
    put!(text, " \"{description}\" lid {}", lid_of(peer, owner).0);
}

/// The name of a node in the file: a letter for its kind, and its GUID.
fn name(node: &TopologyNode) -> String {
    let letter = match node.kind {
        NodeKind::Switch => 'S',
        NodeKind::Router => 'R',
        NodeKind::Ca | NodeKind::Unknown(_) => 'H',
    };
    format!("{letter}-{:016x}", node.guid.0)
}

fn description(node: &TopologyNode) -> String {
    node.description
        .chars()
        .map(|c| {
            if c == '"' {
                '\''
            } else if c.is_control() {
                '?'
            } else {
                c
            }
        })
        .collect()
}

fn lid_of(node: &TopologyNode, port: PortNum) -> (u16, u8) {
    let lid = node.lids.iter().find(|&&(of, ..)| of == port);
    lid.map_or((0, 0), |&(_, lid, lmc)| (lid, lmc))
}
