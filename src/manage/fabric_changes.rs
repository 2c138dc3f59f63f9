//! Nodes and links that a sweep lost or found, from two snapshots of the fabric.

use super::event::{Event, EventNode, LinkEnd};
use crate::fabric::{End, Fabric, Node};
use crate::wire::attr::NodeKind;

/// Maximum number of events about one sweep; the other changes are only counted.
pub const MAX_CHANGES: usize = 256;

/// The name of a kind of node.
pub fn kind_name(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Switch => "switch",
        NodeKind::Ca => "ca",
        NodeKind::Router => "router",
        NodeKind::Unknown(_) => "unknown",
    }
}

/// The links of a fabric that `other` lacks, ascending, the end with the lower GUID of each first.
pub(super) fn links_missing_in(other: &Fabric, fabric: &Fabric) -> Vec<(End, End)> {
    let same_ids = fabric.has_same_ids(other);
    let mut missing = Vec::new();
    // Ports are ordered by GUID and number.
    for (at, port) in fabric.port_ids().zip(fabric.ports()) {
        let Some(peer) = port.peer else { continue };
        if same_ids && other.port(at).peer == Some(peer) {
            continue;
        }
        let from = fabric.end_of(at);
        let to = fabric.end_of(peer);
        let now = other.port_by_end(from).and_then(|port| other.port(port).peer);
        if from <= to && now.map(|peer| other.end_of(peer)) != Some(to) {
            missing.push((from, to));
        }
    }
    missing
}

/// Events about the nodes and links in which `new` differs from `old`: at most [`MAX_CHANGES`], and
/// one that counts the others.
pub fn changes(old: &Fabric, new: &Fabric) -> Vec<Event> {
    let mut list = ChangeList::default();
    for node in old.nodes().iter().filter(|node| new.node_by_guid(node.guid()).is_none()) {
        list.add_node(Event::NodeLost(name(node)));
    }
    for node in new.nodes().iter().filter(|node| old.node_by_guid(node.guid()).is_none()) {
        list.add_node(Event::NodeFound(name(node)));
    }
    for (a, b) in links_missing_in(new, old) {
        list.add_link(|| Event::LinkLost { ends: [link_end(old, a), link_end(old, b)] });
    }
    for (a, b) in links_missing_in(old, new) {
        list.add_link(|| Event::LinkFound { ends: [link_end(new, a), link_end(new, b)] });
    }
    list.finish()
}

/// The name of a node for events.
pub fn name(node: &Node) -> EventNode {
    EventNode {
        guid: node.guid().to_string(),
        kind: kind_name(node.kind()).to_owned(),
        description: node.name().to_string(),
    }
}

/// An end of a link, with the description that the node has in `fabric`.
pub fn link_end(fabric: &Fabric, (guid, port): End) -> LinkEnd {
    let node = fabric.node_by_guid(guid).map(|id| fabric.node(id));
    let description = node.map_or_else(String::new, |node| node.name().to_string());
    LinkEnd::new(guid, port, description)
}

#[derive(Default)]
struct ChangeList {
    events: Vec<Event>,
    more_nodes: usize,
    more_links: usize,
}

impl ChangeList {
    fn add_node(&mut self, event: Event) {
        if self.events.len() < MAX_CHANGES { self.events.push(event) } else { self.more_nodes += 1 }
    }

    fn add_link(&mut self, event: impl FnOnce() -> Event) {
        if self.events.len() < MAX_CHANGES {
            self.events.push(event())
        } else {
            self.more_links += 1
        }
    }

    fn finish(mut self) -> Vec<Event> {
        let nodes = self.more_nodes;
        let links = self.more_links;
        if nodes + links > 0 {
            self.events.push(Event::MoreChanges { nodes, links });
        }
        self.events
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::synthetic::SyntheticView;
    use crate::fabric::topology::Topology;
    use crate::sim::generate::Shape;
    use std::collections::BTreeSet;

    fn snapshot(topology: &Topology) -> Fabric {
        let fabric = Fabric::from_topology(topology, 0, &SyntheticView::default());
        fabric.expect("a node of the topology")
    }

    fn links(fabric: &Fabric) -> BTreeSet<(End, End)> {
        let ends = fabric
            .port_ids()
            .filter_map(|port| Some((fabric.end_of(port), fabric.end_of(fabric.port(port).peer?))));
        ends.filter(|(from, to)| from <= to).collect()
    }

    #[test]
    fn links_are_compared_by_their_ends() {
        let whole = Shape::torus([4, 4, 1]).build().expect("a torus");
        let mut cut = whole.clone();
        cut.cables.remove(3);
        let mut swapped = whole.clone();
        (swapped.cables[5][1], swapped.cables[9][1]) = (whole.cables[9][1], whole.cables[5][1]);
        let mut without = whole.clone();
        without.cables.retain(|ends| ends.iter().all(|&(node, _)| node != 7));
        let fabrics = [whole, cut, swapped, without].map(|topology| snapshot(&topology));
        let mut found = 0;
        for one in &fabrics {
            for other in &fabrics {
                let expected: Vec<_> = links(one).difference(&links(other)).copied().collect();
                assert_eq!(links_missing_in(other, one), expected);
                found += expected.len();
            }
        }
        assert!(found > 20, "{found} differences");
    }
}
