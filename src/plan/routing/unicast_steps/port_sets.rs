//! The ports of the groups and topologies of a routing chain.

use crate::config::routing_chain::port_groups::{
    ChainPortGroup, GroupRef, GuidPorts, HostPorts, PortRule,
};
use crate::config::routing_chain::topologies::ChainTopology;
use crate::fabric::{Fabric, Node, PortId};
use crate::ids::{Guid, PortNum};
use crate::notes::Note;
use crate::wire::attr::NodeKind;

/// A set of ports of a fabric, including those without a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::plan) struct PortSet(Vec<bool>);

impl PortSet {
    fn of(fabric: &Fabric, contains: impl Fn(PortId) -> bool) -> Self {
        Self(fabric.port_ids().map(contains).collect())
    }

    pub(in crate::plan) fn contains(&self, port: PortId) -> bool {
        self.0.get(port.index()).is_some_and(|&is_in| is_in)
    }

    fn combine(&mut self, other: &Self, with: impl Fn(bool, bool) -> bool) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, &other)| *own = with(*own, other));
    }

    fn is_empty(&self) -> bool {
        !self.0.contains(&true)
    }
}

/// The ports of all groups.
pub(in crate::plan) struct PortSets<'a> {
    fabric: &'a Fabric,
    by_group: Vec<PortSet>,
    notes: Vec<Note>,
}

impl<'a> PortSets<'a> {
    /// Finds the ports of all groups. Groups without ports are noted.
    pub(in crate::plan) fn new(groups: &[ChainPortGroup], fabric: &'a Fabric) -> Self {
        let nothing = PortSet::of(fabric, |_| false);
        let mut sets = Self { fabric, by_group: vec![nothing; groups.len()], notes: Vec::new() };
        for index in order(groups) {
            let set = sets.resolve(&groups[index]);
            if set.is_empty() {
                let ChainPortGroup { name, line, .. } = &groups[index];
                let text = format!("port group {name} (line {line}) has no port of the fabric");
                sets.notes.push(Note::warning(text));
            }
            sets.by_group[index] = set;
        }
        sets
    }

    pub(in crate::plan) fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Ports of a topology: switch ports of one group, ports of other nodes of the other group.
    pub(super) fn of(&self, topology: &ChainTopology) -> PortSet {
        let switches = self.group(topology.switches);
        let hosts = self.group(topology.hosts);
        PortSet::of(self.fabric, |port| {
            if self.fabric.node_of(port).is_switch() {
                switches.contains(port)
            } else {
                hosts.contains(port)
            }
        })
    }

    /// The ports of a group.
    pub(in crate::plan) fn group(&self, group: GroupRef) -> PortSet {
        match group {
            GroupRef::All => PortSet::of(self.fabric, |_| true),
            GroupRef::AllSwitches => self.of_kind(NodeKind::Switch),
            GroupRef::AllCas => self.of_kind(NodeKind::Ca),
            GroupRef::AllRouters => self.of_kind(NodeKind::Router),
            GroupRef::Defined(index) => self.by_group[index].clone(),
        }
    }

    fn of_kind(&self, kind: NodeKind) -> PortSet {
        PortSet::of(self.fabric, |port| self.fabric.node_of(port).kind() == kind)
    }

    fn by_node(&self, contains: impl Fn(&Node, PortId, PortNum) -> bool) -> PortSet {
        PortSet::of(self.fabric, |port| {
            contains(self.fabric.node_of(port), port, self.fabric.port(port).num)
        })
    }

    fn resolve(&self, group: &ChainPortGroup) -> PortSet {
        let mut all = PortSet::of(self.fabric, |_| false);
        for rule in &group.rules {
            all.combine(&self.ports(rule), |own, other| own | other);
        }
        all
    }

    fn ports(&self, rule: &PortRule) -> PortSet {
        match rule {
            PortRule::Guids(list) => self.by_node(|node, port, num| {
                list.iter().any(|guid| self.is_named(guid, node, port, num))
            }),
            PortRule::GuidRange(first, last) => self.by_node(|node, port, _| {
                is_within(first, last, node.guid())
                    || is_within(first, last, self.fabric.port(port).guid)
            }),
            PortRule::Names(list) => {
                self.by_node(|node, _, num| list.iter().any(|host| is_host(host, node, num)))
            }
            PortRule::Pattern(pattern, wanted) => {
                let matches: Vec<bool> = self
                    .fabric
                    .nodes()
                    .iter()
                    .map(|node| pattern.matches(&node.description.to_string()))
                    .collect();
                PortSet::of(self.fabric, |port| {
                    let port = self.fabric.port(port);
                    matches[port.node.index()] && wanted.is_none_or(|wanted| wanted == port.num.0)
                })
            }
            PortRule::Union([first, second]) => {
                let mut set = self.group(*first);
                set.combine(&self.group(*second), |one, other| one | other);
                set
            }
            PortRule::Subtract([first, second]) => {
                let mut set = self.group(*first);
                set.combine(&self.group(*second), |one, other| one & !other);
                set
            }
        }
    }

    /// True if a GUID of a node or end port, with its port numbers, names the port.
    fn is_named(&self, wanted: &GuidPorts, node: &Node, port: PortId, num: PortNum) -> bool {
        let is_node = node.guid() == wanted.guid && wanted.contains(num.0);
        // The port GUID of a channel adapter names one port.
        let is_port = !node.is_switch() && self.fabric.port(port).guid == wanted.guid;
        is_node || (is_port && wanted.contains(num.0))
    }
}

fn is_within(first: &Guid, last: &Guid, guid: Guid) -> bool {
    (*first..=*last).contains(&guid)
}

/// True for a port of a channel adapter whose node description is the host name, or begins with it
/// and `HCA-` with the number.
fn is_host(host: &HostPorts, node: &Node, num: PortNum) -> bool {
    if node.kind() != NodeKind::Ca || host.port.is_some_and(|port| port != num.0) {
        return false;
    }
    let description = node.description.to_string();
    let mut words = description.split_whitespace();
    let name = words.next().unwrap_or("");
    let index = words.next().and_then(|word| word.strip_prefix("HCA-")?.parse().ok());
    name == host.hostname && host.hca_index.is_none_or(|wanted| index == Some(wanted))
}

/// The groups in an order in which every group follows those that it refers to.
fn order(groups: &[ChainPortGroup]) -> Vec<usize> {
    let mut order = Vec::with_capacity(groups.len());
    let mut seen = vec![false; groups.len()];
    for start in 0..groups.len() {
        // A group, and whether its references have been followed.
        let mut open = vec![(start, false)];
        while let Some((group, is_followed)) = open.pop() {
            if is_followed {
                order.push(group);
            } else if !std::mem::replace(&mut seen[group], true) {
                open.push((group, true));
                open.extend(references(&groups[group]).map(|to| (to, false)));
            }
        }
    }
    order
}

/// The groups that a group names.
fn references(group: &ChainPortGroup) -> impl Iterator<Item = usize> + '_ {
    let pairs = group.rules.iter().filter_map(|rule| match rule {
        PortRule::Union(pair) | PortRule::Subtract(pair) => Some(*pair),
        _ => None,
    });
    pairs.flatten().filter_map(|group| match group {
        GroupRef::Defined(index) => Some(index),
        _ => None,
    })
}
