//! Reads opensm-subnet.lst, the list of links that OpenSM dumps: each link twice, once from each end.

use super::topology::{Topology, TopologyNode};
use crate::ids::{Guid, PortNum};
use crate::wire::attr::NodeKind;
use std::collections::{BTreeMap, BTreeSet};

/// The links of a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubnetList {
    /// With the LIDs of the list.
    pub topology: Topology,
    /// Index of the node at which the subnet manager ran, if the list has it, and its port.
    pub manager: Option<(usize, PortNum)>,
}

/// One end of a link.
struct ListedEnd<'a> {
    kind: NodeKind,
    is_manager: bool,
    num_ports: u8,
    system_guid: Guid,
    guid: Guid,
    port_guid: Guid,
    description: &'a str,
    lid: u16,
    port: PortNum,
}

/// Parses the text of a list.
///
/// # Errors
/// The first line that is not in the format, with its number.
pub fn parse(text: &str) -> Result<SubnetList, String> {
    let mut reader = SubnetListReader::default();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let link = link(line).ok_or_else(|| format!("line {number}: not a link of this format"))?;
        reader.add(&link);
    }
    let SubnetListReader { nodes, cables, manager, .. } = reader;
    if nodes.is_empty() {
        return Err("the list has no link".to_owned());
    }
    let cables = cables.into_iter().collect();
    Ok(SubnetList { topology: Topology { nodes, cables, rates: BTreeMap::new() }, manager })
}

#[derive(Default)]
struct SubnetListReader {
    nodes: Vec<TopologyNode>,
    by_guid: BTreeMap<Guid, usize>,
    cables: BTreeSet<[(usize, PortNum); 2]>,
    manager: Option<(usize, PortNum)>,
}

impl SubnetListReader {
    fn add(&mut self, link: &[ListedEnd<'_>; 2]) {
        let mut cable = link.each_ref().map(|end| (self.node(end), end.port));
        cable.sort_unstable();
        self.cables.insert(cable);
    }

    /// The index of the node of an end, with what the end tells about its port.
    fn node(&mut self, end: &ListedEnd<'_>) -> usize {
        let next = self.nodes.len();
        let index = *self.by_guid.entry(end.guid).or_insert(next);
        if index == next {
            let node = TopologyNode::new(end.kind, end.guid, end.num_ports);
            let system_guid = end.system_guid;
            self.nodes.push(TopologyNode { system_guid, ..node.described(end.description) });
        }
        // The LID and the GUID of a switch are those of its port 0.
        let port = if end.kind == NodeKind::Switch { PortNum(0) } else { end.port };
        let node = &mut self.nodes[index];
        if end.lid != 0 && node.lids.iter().all(|(known, ..)| *known != port) {
            node.lids.push((port, end.lid, 0));
        }
        if node.port_guid(port) != end.port_guid {
            node.port_guids.push((port, end.port_guid));
        }
        if end.is_manager {
            self.manager = Some((index, port));
        }
        index
    }
}

/// Both ends of the link of a line; `None` if the line is not in the format.
fn link(line: &str) -> Option<[ListedEnd<'_>; 2]> {
    let (one, rest) = end(line)?;
    let (other, _) = end(rest)?;
    Some([one, other])
}

/// The first end of a text, and what follows it.
fn end(text: &str) -> Option<(ListedEnd<'_>, &str)> {
    let (head, rest) = text.trim_start().strip_prefix("{ ")?.split_once(" {")?;
    let (description, rest) = rest.split_once("} LID:")?;
    let (lid, rest) = rest.split_once(" PN:")?;
    let (port, rest) = rest.split_once(" }")?;
    let mut words = head.split_whitespace();
    let kind = words.next()?;
    let fields: BTreeMap<&str, &str> = words.filter_map(|word| word.split_once(':')).collect();
    let (kind, is_manager) = match kind.strip_suffix("-SM") {
        Some(kind) => (kind, true),
        None => (kind, false),
    };
    let kind = match kind {
        "CA" => NodeKind::Ca,
        "SW" => NodeKind::Switch,
        "Rt" => NodeKind::Router,
        _ => return None,
    };
    let end = ListedEnd {
        kind,
        is_manager,
        num_ports: u8::try_from(field_number(&fields, "Ports")?).ok()?,
        system_guid: Guid(field_number(&fields, "SystemGUID")?),
        guid: Guid(field_number(&fields, "NodeGUID")?),
        port_guid: Guid(field_number(&fields, "PortGUID")?),
        description,
        lid: u16::from_str_radix(lid, 16).ok()?,
        port: PortNum(u8::from_str_radix(port, 16).ok()?),
    };
    Some((end, rest))
}

fn field_number(fields: &BTreeMap<&str, &str>, name: &str) -> Option<u64> {
    u64::from_str_radix(fields.get(name)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_opensm_gives_nodes_cables_and_lids() {
        let text = include_str!("../../tests/vectors/dumps/opensm-subnet.lst");
        let list = parse(text).expect("a list of OpenSM");
        let Topology { nodes, cables, .. } = &list.topology;
        assert_eq!((nodes.len(), cables.len()), (4, 4));
        assert_eq!(list.manager, Some((1, PortNum(0))));
        let lids: Vec<u16> = nodes.iter().map(|node| node.lids[0].1).collect();
        assert_eq!(lids, [2, 1, 3, 4]);
        for length in (0..text.len()).step_by(7) {
            // A part of the list is a shorter list, or wrong.
            drop(parse(&text[..length]));
        }
        assert_eq!(parse("{ CA }"), Err("line 1: not a link of this format".to_owned()));
    }
}
