//! Resolves the port groups of a policy to ports of a fabric.

use crate::config::qos_policy::{PortName, QosPolicy, QosPortGroup};
use crate::fabric::{Fabric, Node, PortId};
use crate::ids::Pkey;
use crate::notes::Note;
use crate::paged_vec::PagedVec;
use crate::plan::partitions::Partition;
use crate::wire::attr::NodeKind;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The ports of each group. The external ports of a switch belong to the groups of its port 0; a
/// name with a port number selects a single port.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GroupPorts {
    /// One bit per port slot, by group.
    by_group: Vec<Vec<u64>>,
}

impl GroupPorts {
    /// Resolves all groups. `keys` are the P_Keys of end ports by port slot; empty if all ports
    /// hold the default key only. The notes name groups without ports, and names that match no
    /// port.
    pub fn new(
        policy: &QosPolicy,
        fabric: &Fabric,
        keys: &PagedVec<Arc<[Pkey]>>,
        partitions: &[Partition],
        own: Option<PortId>,
    ) -> (Self, Vec<Note>) {
        let mut all = Self::default();
        let mut notes = Vec::new();
        for group in &policy.groups {
            let resolver = GroupResolver { fabric, keys, partitions, own };
            let (ports, found) = resolver.ports(group);
            all.by_group.push(ports);
            notes.extend(found);
        }
        (all, notes)
    }

    /// True if `port` is in the group with index `group`.
    pub fn contains(&self, group: usize, port: PortId) -> bool {
        let word = self.by_group.get(group).and_then(|ports| ports.get(port.index() / 64));
        word.is_some_and(|word| word >> (port.index() % 64) & 1 == 1)
    }
}

struct GroupResolver<'a> {
    fabric: &'a Fabric,
    keys: &'a PagedVec<Arc<[Pkey]>>,
    partitions: &'a [Partition],
    own: Option<PortId>,
}

impl GroupResolver<'_> {
    fn ports(&self, group: &QosPortGroup) -> (Vec<u64>, Vec<Note>) {
        let fabric = self.fabric;
        let mut notes = Vec::new();
        let numbers = self.numbers(group, &mut notes);
        let mut bits = vec![0_u64; fabric.ports().len().div_ceil(64)];
        let mut used = vec![false; group.names.len()];
        for node in fabric.nodes() {
            let named = matching_names(node, &group.names);
            for num in 0..=node.num_ports() {
                let port = PortId(node.first_port.0 + u32::from(num));
                let fitting: Vec<usize> = named
                    .iter()
                    .filter(|&&(name, _)| name.port.is_none_or(|n| n == num))
                    .map(|&(_, index)| index)
                    .collect();
                fitting.iter().for_each(|&index| used[index] = true);
                if !fitting.is_empty() || self.is_in(group, &numbers, port) {
                    bits[port.index() / 64] |= 1 << (port.index() % 64);
                }
            }
        }
        for (name, _) in group.names.iter().zip(used).filter(|(_, used)| !used) {
            let port = name.port.map_or("*".to_owned(), |port| format!("P{port}"));
            notes.push(Note::warning(format!(
                "port group {}: no port of the fabric matches {}/{port}",
                group.name, name.node
            )));
        }
        if bits.iter().all(|word| *word == 0) && group.names.is_empty() {
            let text = format!("port group {} (line {}) matches no port", group.name, group.line);
            notes.push(Note::info(text));
        }
        (bits, notes)
    }

    /// The partition numbers of the partition names in a group.
    fn numbers(&self, group: &QosPortGroup, notes: &mut Vec<Note>) -> BTreeSet<u16> {
        let mut numbers = BTreeSet::new();
        for name in &group.partitions {
            let known = self.partitions.iter().find(|part| part.name.eq_ignore_ascii_case(name));
            match known {
                Some(partition) => {
                    numbers.insert(partition.pkey.base());
                }
                None => notes.push(Note::warning(format!(
                    "port group {}: there is no partition {name}",
                    group.name
                ))),
            }
        }
        numbers
    }

    fn is_in(&self, group: &QosPortGroup, numbers: &BTreeSet<u16>, port: PortId) -> bool {
        let node = self.fabric.node_of(port);
        let owner = if node.is_switch() { node.first_port } else { port };
        let kinds = group.kinds;
        let by_kind = match node.kind() {
            NodeKind::Ca => kinds.ca,
            NodeKind::Switch => kinds.switch,
            NodeKind::Router => kinds.router,
            NodeKind::Unknown(_) => false,
        };
        by_kind
            || kinds.own && self.own == Some(owner)
            || group.guids.contains(self.fabric.port(owner).guid.0)
            || self.keys_of(owner).iter().any(|key| {
                group.pkeys.contains(u64::from(key.base())) || numbers.contains(&key.base())
            })
    }

    fn keys_of(&self, port: PortId) -> &[Pkey] {
        if self.keys.is_empty() {
            return &[Pkey::DEFAULT_FULL];
        }
        self.keys.get(port.index()).map_or(&[], |keys| keys)
    }
}

/// The names that match the node, each with its index.
fn matching_names<'n>(node: &Node, names: &'n [PortName]) -> Vec<(&'n PortName, usize)> {
    if names.is_empty() {
        return Vec::new();
    }
    let description = node.name().to_string();
    names.iter().zip(0..).filter(|(name, _)| name_matches(&description, &name.node)).collect()
}

/// True if `wanted` matches the node description, its first word, or its first two words joined by
/// a slash.
fn name_matches(description: &str, wanted: &str) -> bool {
    let mut words = description.split_whitespace();
    let host = words.next().unwrap_or("");
    let device = words.next().unwrap_or("");
    let has_slash = wanted.contains('/');
    glob_matches(description, wanted)
        || !has_slash && glob_matches(host, wanted)
        || has_slash && glob_matches(&format!("{host}/{device}"), wanted)
}

/// True if `text` matches `pattern` case-insensitively; `*` matches any characters.
fn glob_matches(text: &str, pattern: &str) -> bool {
    let text: Vec<char> = text.to_lowercase().chars().collect();
    let pattern: Vec<char> = pattern.to_lowercase().chars().collect();
    let mut at = 0;
    let mut next = 0;
    let mut star: Option<(usize, usize)> = None;
    while at < text.len() {
        if pattern.get(next) == Some(&'*') {
            star = Some((next, at));
            next += 1;
        } else if pattern.get(next) == Some(&text[at]) {
            at += 1;
            next += 1;
        } else if let Some((seen, from)) = star {
            star = Some((seen, from + 1));
            at = from + 1;
            next = seen + 1;
        } else {
            return false;
        }
    }
    pattern[next..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_matches_any_characters() {
        let like = [("vs1 HCA-1", "VS1 hca-1"), ("vs1", "*"), ("vs12", "vs*"), ("abcbd", "a*bd")];
        for (text, pattern) in like {
            assert!(glob_matches(text, pattern), "{text} {pattern}");
        }
        for (text, pattern) in [("vs1", "vs"), ("vs", "vs1"), ("abc", "*b"), ("", "a")] {
            assert!(!glob_matches(text, pattern), "{text} {pattern}");
        }
        assert!(glob_matches("", "**"));
    }
}
