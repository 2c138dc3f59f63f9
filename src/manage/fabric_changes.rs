//! Nodes and links that a sweep lost or found, from two snapshots of the fabric.

use super::event::{Event, LinkEnd, NodeName};
use crate::fabric::{End, Fabric, Node, PortId};
use crate::wire::attr::NodeKind;
use std::collections::BTreeSet;

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

/// The links of a fabric, the end with the lower GUID first.
pub(super) fn links(fabric: &Fabric) -> BTreeSet<(End, End)> {
    let end = |port: PortId| fabric.end_of(port);
    let ports =
        fabric.port_ids().filter_map(|port| Some((end(port), end(fabric.port(port).peer?))));
    ports.filter(|(from, to)| from <= to).collect()
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
    let before = links(old);
    let after = links(new);
    for &(a, b) in before.difference(&after) {
        list.add_link(|| Event::LinkLost { ends: [link_end(old, a), link_end(old, b)] });
    }
    for &(a, b) in after.difference(&before) {
        list.add_link(|| Event::LinkFound { ends: [link_end(new, a), link_end(new, b)] });
    }
    list.finish()
}

/// The name of a node for events.
pub fn name(node: &Node) -> NodeName {
    NodeName {
        guid: node.guid().to_string(),
        kind: kind_name(node.kind()).to_owned(),
        description: node.name().to_string(),
    }
}

/// An end of a link, with the description that the node has in `fabric`.
pub fn link_end(fabric: &Fabric, (guid, port): End) -> LinkEnd {
    let node = fabric.node_by_guid(guid).map(|id| fabric.node(id));
    let description = node.map(|node| node.name().to_string());
    LinkEnd::new(guid, port, description.unwrap_or_default())
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
