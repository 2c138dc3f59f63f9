//! The topology of kept routes.

use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::{Guid, Lid, PortNum};
use crate::plan::LidTable;
use crate::plan::routing::switch_graph::linked_peer;
use std::collections::HashMap;

/// An end of a link.
type End = (Guid, PortNum);

/// A node of the record.
struct RecordedNode {
    first_port: PortId,
    num_ports: u8,
    switch: Option<SwitchId>,
}

/// Nodes, links and LIDs of a fabric.
pub(super) struct TopologyRecord {
    nodes: HashMap<Guid, RecordedNode>,
    /// The far end of each port with a link.
    links: HashMap<End, End>,
    /// Base LID and LMC of each end port.
    lids: HashMap<End, (Lid, u8)>,
    ports: usize,
}

/// The ids that the nodes of a fabric have in the record.
pub(super) struct IdMap {
    /// By port of the fabric.
    ports: Vec<PortId>,
    /// By switch of the fabric.
    switches: Vec<SwitchId>,
    missing_nodes: usize,
    /// Number of switches of the record.
    recorded_switches: usize,
}

impl IdMap {
    pub(super) fn port(&self, port: PortId) -> Option<PortId> {
        self.ports.get(port.index()).copied()
    }

    pub(super) fn switch(&self, switch: SwitchId) -> Option<SwitchId> {
        self.switches.get(switch.index()).copied()
    }

    /// The id in the fabric of a switch of the record.
    pub(super) fn present(&self, recorded: SwitchId) -> Option<SwitchId> {
        // Switches are in the order of their GUIDs in both.
        self.switches.binary_search(&recorded).ok().map(|index| SwitchId(index as u32))
    }

    pub(super) fn missing_nodes(&self) -> usize {
        self.missing_nodes
    }

    pub(super) fn has_all_switches(&self) -> bool {
        self.switches.len() == self.recorded_switches
    }

    pub(super) fn is_identity(&self) -> bool {
        self.missing_nodes == 0
    }
}

fn links(fabric: &Fabric) -> HashMap<End, End> {
    fabric
        .port_ids()
        .filter_map(|port| Some((fabric.end_of(port), fabric.end_of(linked_peer(fabric, port)?))))
        .collect()
}

impl TopologyRecord {
    pub(super) fn new(fabric: &Fabric, lids: &LidTable) -> Self {
        let nodes = fabric.nodes().iter().map(|node| {
            let first_port = node.first_port;
            let num_ports = node.num_ports();
            (node.guid(), RecordedNode { first_port, num_ports, switch: node.switch })
        });
        let with_lids = fabric
            .end_ports()
            .filter_map(|port| Some((fabric.end_of(port), (lids.base(port)?, lids.lmc(port)))));
        Self {
            nodes: nodes.collect(),
            links: links(fabric),
            lids: with_lids.collect(),
            ports: fabric.ports().len(),
        }
    }

    /// Maps a fabric that lacks only hosts and leaf switches to the record; `None` if it has or
    /// lacks anything else.
    pub(super) fn map(&self, fabric: &Fabric, lids: &LidTable) -> Option<IdMap> {
        let mut ports = Vec::with_capacity(fabric.ports().len());
        let mut switches = Vec::with_capacity(fabric.switches().len());
        for node in fabric.nodes() {
            let known = self.nodes.get(&node.guid())?;
            if known.num_ports != node.num_ports() || known.switch.is_some() != node.is_switch() {
                return None;
            }
            let first = known.first_port.0;
            ports.extend((0..=u32::from(known.num_ports)).map(|num| PortId(first + num)));
            switches.extend(known.switch);
        }
        let missing_nodes = self.nodes.len() - fabric.nodes().len();
        let suits = fabric.end_ports().all(|port| {
            match (lids.base(port), self.lids.get(&fabric.end_of(port))) {
                (Some(base), known) => known == Some(&(base, lids.lmc(port))),
                (None, known) => known.is_none(),
            }
        }) && self.allows(fabric);
        let is_whole = missing_nodes > 0 || self.ports == ports.len();
        let recorded_switches = self.nodes.values().filter(|node| node.switch.is_some()).count();
        (suits && is_whole).then_some(IdMap { ports, switches, missing_nodes, recorded_switches })
    }

    /// True if all links of the fabric are recorded, and missing ones lead to hosts or to missing
    /// leaf switches.
    fn allows(&self, fabric: &Fabric) -> bool {
        let present = links(fabric);
        if present.iter().any(|(near, far)| self.links.get(near) != Some(far)) {
            return false;
        }
        let mut leaves = HashMap::new();
        for (near, far) in &self.links {
            *leaves.entry(near.0).or_insert(false) |= !is_switch(&self.nodes, far.0);
        }
        let mut lost = self.links.iter().filter(|(near, _)| !present.contains_key(near));
        lost.all(|(near, far)| {
            let between = is_switch(&self.nodes, near.0) && is_switch(&self.nodes, far.0);
            // Routes of others may pass a link between leaf switches.
            !between
                || ((is_gone(&leaves, fabric, near.0) || is_gone(&leaves, fabric, far.0))
                    && !(is_leaf(&leaves, near.0) && is_leaf(&leaves, far.0)))
        })
    }
}

fn is_gone(leaves: &HashMap<Guid, bool>, fabric: &Fabric, at: Guid) -> bool {
    is_missing(fabric, at) && is_leaf(leaves, at)
}

fn is_leaf(leaves: &HashMap<Guid, bool>, guid: Guid) -> bool {
    leaves.get(&guid).copied().unwrap_or(false)
}

fn is_switch(nodes: &HashMap<Guid, RecordedNode>, guid: Guid) -> bool {
    nodes.get(&guid).is_some_and(|node| node.switch.is_some())
}

fn is_missing(fabric: &Fabric, guid: Guid) -> bool {
    fabric.node_by_guid(guid).is_none()
}
