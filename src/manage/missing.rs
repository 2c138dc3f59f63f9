//! Nodes and links that were in the fabric and are not found any more.

use super::earlier_ports::EarlierPorts;
use super::event::{EventNode, LinkEnd};
use super::fabric_changes::{link_end, links_missing_in, name};
use crate::fabric::{End, Fabric};
use crate::ids::{Guid, Lid};
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of nodes, and of links, that are kept; the latest ones are.
const MAX_KEPT: usize = 4096;

/// A node that is not found any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MissingNode {
    pub name: EventNode,
    /// GUIDs and LIDs of its ports.
    pub ports: Vec<(Guid, Option<Lid>)>,
    /// Time at which it was lost.
    pub since: DateTime<Utc>,
}

/// A link that is not found any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MissingLink {
    pub ends: [LinkEnd; 2],
    /// Time at which it was lost.
    pub since: DateTime<Utc>,
}

/// All of them since the start of the daemon, and ports from before.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MissingParts {
    pub nodes: BTreeMap<Guid, MissingNode>,
    pub links: BTreeMap<[End; 2], MissingLink>,
    /// Ports that an earlier run has seen.
    pub earlier: Arc<EarlierPorts>,
}

impl MissingParts {
    /// Adds what `new` lacks of `old`, and removes what it has. A link is not missing any more when
    /// a port of it has another one.
    pub fn update(&mut self, old: &Fabric, new: &Fabric, now: DateTime<Utc>) {
        self.nodes.retain(|&guid, _| new.node_by_guid(guid).is_none());
        for node in old.nodes().iter().filter(|node| new.node_by_guid(node.guid()).is_none()) {
            let id = old.node_by_guid(node.guid());
            let slots = old.end_ports().filter(|&port| Some(old.port(port).node) == id);
            let ports = slots.map(|port| (old.port(port).guid, old.observed_lid(port))).collect();
            self.nodes.insert(node.guid(), MissingNode { name: name(node), ports, since: now });
        }
        for (a, b) in links_missing_in(new, old) {
            let ends = [link_end(old, a), link_end(old, b)];
            self.links.insert([a, b], MissingLink { ends, since: now });
        }
        self.links.retain(|ends, _| !ends.iter().any(|a| is_linked(new, a)));
        forget_oldest(&mut self.nodes, |node| node.since);
        forget_oldest(&mut self.links, |link| link.since);
    }

    /// The node with this GUID, of it or of a port, LID or beginning of its description.
    pub fn find(&self, text: &str) -> Option<&MissingNode> {
        let lid = text.parse().ok().map(Lid);
        let digits = text.strip_prefix("0x");
        let guid = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).map(Guid);
        let numbered = self.nodes.iter().find(|(own, node)| {
            let mut ports = node.ports.iter();
            guid == Some(**own)
                || ports.any(|&(port, at)| guid == Some(port) || at.is_some() && lid == at)
        });
        let found = numbered.or_else(|| {
            let mut named = self.nodes.iter().filter(|_| !text.is_empty());
            named.find(|(_, node)| node.name.description.starts_with(text))
        });
        found.map(|(_, node)| node)
    }
}

fn is_linked(new: &Fabric, &(guid, num): &End) -> bool {
    let port = new.node_by_guid(guid).and_then(|node| new.port_of(node, num));
    port.is_some_and(|port| new.port(port).peer.is_some())
}

fn forget_oldest<K: Ord + Copy, V>(kept: &mut BTreeMap<K, V>, since: fn(&V) -> DateTime<Utc>) {
    while kept.len() > MAX_KEPT {
        let oldest = kept.iter().min_by_key(|(_, value)| since(value)).map(|(&key, _)| key);
        if let Some(key) = oldest {
            kept.remove(&key);
        }
    }
}
