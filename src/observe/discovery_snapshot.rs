//! The conversion of a snapshot into the state of a discovery, and of that state into a snapshot.
//!
//! The new snapshot has recomputed directed routes along the cables, shortest first, and omits the
//! nodes that they do not reach. A focused sweep usually finds the nodes and end ports of the last
//! snapshot again; then the new one takes over its order and indexes, which saves most of the time.

use super::discovery_state::{DiscoveredNode, DiscoveredPort, DiscoveryState};
use crate::fabric::{End, Fabric, Node, NodeParts, Port, PortId};
use crate::ids::{Guid, PortNum};
use crate::wire::attr::tables::PkeyBlock;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A snapshot, and the P_Key tables by its port slots.
pub(super) type Snapshot = (Fabric, Arc<Vec<Vec<PkeyBlock>>>);

impl DiscoveryState {
    /// The state that represents `fabric`, with its faults.
    pub fn of(fabric: &Arc<Fabric>, pkeys: &Arc<Vec<Vec<PkeyBlock>>>) -> Self {
        let local = fabric.port(fabric.local());
        let names = fabric.nodes().iter();
        let names = names.filter_map(|node| Some((node.guid(), node.mapped_name.clone()?)));
        Self {
            entries: fabric.nodes().par_iter().map(|node| discovered(fabric, node)).collect(),
            last: Some((fabric.clone(), pkeys.clone())),
            local: Some((local.node.index(), local.num)),
            faults: fabric.faults().to_vec(),
            names: Arc::new(names.collect()),
            ..Self::default()
        }
    }

    /// The snapshot of all reachable nodes, and the P_Key tables by its port slots; `None` if the
    /// local port is unknown.
    pub fn finish(mut self) -> Option<Snapshot> {
        let reached = self.reroute();
        let (mut fabric, pkeys) = match self.with_last_indexes(&reached) {
            Some(snapshot) => snapshot,
            None => self.assembled(&reached)?,
        };
        fabric.use_names(&self.names);
        let extended = self
            .last
            .iter()
            .flat_map(|(last, _)| last.extended_ports().map(|(id, info)| (last.end_of(id), *info)));
        for (end, info) in extended {
            let port = fabric.port_by_end(end).filter(|&id| fabric.port(id).info.is_some());
            if let Some(id) = port {
                fabric.set_extended_port_info(id, info);
            }
        }
        // In a large fabric this takes milliseconds for which nothing should wait.
        rayon::spawn(move || drop(self));
        Some((fabric, pkeys))
    }

    /// The snapshot, if it has the nodes and end ports of the last one.
    fn with_last_indexes(&self, reached: &[bool]) -> Option<Snapshot> {
        let (last, last_pkeys) = self.last.as_ref()?;
        if self.entries.len() != last.nodes().len() || reached.contains(&false) {
            return None;
        }
        let (local, own_port) = self.local?;
        let mut nodes = Vec::with_capacity(self.entries.len());
        let mut ports = Vec::with_capacity(last.ports().len());
        let mut pkeys = Vec::new();
        for (entry, node) in self.entries.iter().zip(last.nodes()) {
            if entry.is_switch() != node.is_switch()
                || entry.info.num_ports() != node.num_ports()
                || entry.ports.len() != usize::from(node.num_ports()) + 1
            {
                return None;
            }
            nodes.push(Node {
                info: entry.info,
                description: entry.description,
                mapped_name: None,
                switch_info: entry.switch_info,
                route: entry.route,
                ..*node
            });
            for slot in &entry.ports {
                let port = &last.ports()[ports.len()];
                if slot.guid != port.guid {
                    return None;
                }
                if let Some(read) = &slot.pkeys {
                    pkeys.push((ports.len(), read));
                }
                let peer = slot.peer.map(|peer| slot_of(last, peer));
                ports.push(Port { info: slot.info, peer, ..*port });
            }
        }
        let local = slot_of(last, (local, own_port));
        let fabric = last.with_contents(nodes, ports, local, self.faults.clone());
        let mut tables = last_pkeys.clone();
        for (slot, read) in pkeys {
            Arc::make_mut(&mut tables)[slot].clone_from(read);
        }
        Some((fabric, tables))
    }

    /// The snapshot, ordered anew.
    fn assembled(&self, reached: &[bool]) -> Option<Snapshot> {
        let (local, own_port) = self.local?;
        let local: End = (self.guid(local), own_port);
        let reachable = || (0..self.entries.len()).filter(|&index| reached[index]);
        let parts = reachable().map(|index| parts(&self.entries[index])).collect();
        let cables = self.cables(reached);
        let fabric = Fabric::assemble(parts, &cables, local, self.faults.clone())?;
        let index: FxHashMap<Guid, usize> =
            reachable().map(|index| (self.guid(index), index)).collect();
        let tables = fabric.ports().iter().map(|port| {
            let index = index.get(&fabric.node(port.node).guid());
            index.map_or_else(Vec::new, |&index| self.pkeys(index, port.num).to_vec())
        });
        let tables = tables.collect();
        Some((fabric, Arc::new(tables)))
    }

    fn guid(&self, index: usize) -> Guid {
        self.entries[index].info.node_guid()
    }

    /// The cables between reachable nodes.
    fn cables(&self, reached: &[bool]) -> Vec<(End, End)> {
        let mut cables = Vec::new();
        for (index, entry) in self.entries.iter().enumerate().filter(|(index, _)| reached[*index]) {
            for (num, slot) in entry.ports.iter().enumerate() {
                let here = (index, PortNum(num as u8));
                if let Some(peer) = slot.peer.filter(|&peer| reached[peer.0] && here < peer) {
                    cables.push(((self.guid(index), here.1), (self.guid(peer.0), peer.1)));
                }
            }
        }
        cables
    }
}

fn discovered(fabric: &Fabric, node: &Node) -> DiscoveredNode {
    let first = node.first_port.index();
    let slots = &fabric.ports()[first..=first + usize::from(node.num_ports())];
    let ports = slots.iter().map(|port| {
        let peer = port.peer.map(|peer| fabric.port(peer));
        let peer = peer.map(|peer| (peer.node.index(), peer.num));
        DiscoveredPort { guid: port.guid, info: port.info, peer, pkeys: None }
    });
    DiscoveredNode {
        info: node.info,
        description: node.description,
        switch_info: node.switch_info,
        route: node.route,
        ports: ports.collect(),
    }
}

fn parts(entry: &DiscoveredNode) -> NodeParts {
    NodeParts {
        info: entry.info,
        description: entry.description,
        switch_info: entry.switch_info,
        route: entry.route,
        ports: entry.ports.iter().map(|slot| (slot.guid, slot.info)).collect(),
    }
}

/// The slot of a port of the last snapshot.
fn slot_of(last: &Fabric, (node, port): (usize, PortNum)) -> PortId {
    PortId(last.nodes()[node].first_port.0 + u32::from(port.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::ibnet;
    use crate::fabric::synthetic::SyntheticView;
    use crate::ids::Lid;
    use proptest::prelude::*;
    use proptest::sample::Index;
    use std::path::Path;

    /// A ring of four switches with parallel cables, and a host with two ports.
    fn fabric() -> Arc<Fabric> {
        let text = "Switch 4 \"c\"\n[1] \"b\"[2]\n[2] \"d\"[1]\n[3] \"i\"[1]\n\n\
                    Switch 4 \"a\"\n[1] \"d\"[2]\n[2] \"b\"[1]\n[3] \"h\"[1]\n[4] \"b\"[4]\n\n\
                    Switch 4 \"b\"\n[1] \"a\"[2]\n[2] \"c\"[1]\n[3] \"i\"[2]\n[4] \"a\"[4]\n\n\
                    Switch 4 \"d\"\n[1] \"c\"[2]\n[2] \"a\"[1]\n\n\
                    Hca 1 \"h\"\n[1] \"a\"[3]\n\nHca 2 \"i\"\n[1] \"c\"[3]\n[2] \"b\"[3]\n";
        let topology = ibnet::parse(Path::new("net"), text).expect("a fabric");
        let local = topology.nodes.iter().position(|node| node.num_ports == 1);
        let view = SyntheticView::default();
        Arc::new(Fabric::from_topology(&topology, local.expect("a host"), &view).expect("a node"))
    }

    fn tables(fabric: &Fabric) -> Arc<Vec<Vec<PkeyBlock>>> {
        Arc::new(fabric.port_ids().map(|id| vec![PkeyBlock::default(); id.index() % 3]).collect())
    }

    /// What a device, or an operator, changes.
    #[derive(Clone, Debug)]
    enum Change {
        Lid(Index, u16),
        Unplug(Index),
        Move(Index, Index),
        ReadPkeys(Index),
        Forget(Index),
    }

    fn change() -> impl Strategy<Value = Change> {
        let port = any::<Index>;
        prop_oneof![
            (port(), 1..100_u16).prop_map(|(port, lid)| Change::Lid(port, lid)),
            port().prop_map(Change::Unplug),
            (port(), port()).prop_map(|(from, to)| Change::Move(from, to)),
            port().prop_map(Change::ReadPkeys),
            port().prop_map(Change::Forget),
        ]
    }

    fn make(state: &mut DiscoveryState, fabric: &Fabric, change: &Change) {
        let end = |index: &Index| {
            let port = &fabric.ports()[index.index(fabric.ports().len())];
            (port.node.index(), port.num)
        };
        match change {
            Change::Lid(port, lid) => {
                let (node, num) = end(port);
                if let Some(info) = state.entries[node].ports[num.index()].info.as_mut() {
                    info.set_lid(Lid(*lid));
                }
            }
            Change::Unplug(port) => drop(state.disconnect(end(port))),
            Change::Move(from, to) => {
                if let Some(other) = state.disconnect(end(from)) {
                    let to = end(to);
                    if state.peer(to).is_none() && to.1 != PortNum::ZERO && to.0 != other.0 {
                        state.connect(other, to);
                    }
                }
            }
            Change::ReadPkeys(port) => {
                let (node, num) = end(port);
                state.entries[node].ports[num.index()].pkeys = Some(vec![PkeyBlock::default(); 5]);
            }
            Change::Forget(port) => {
                let (node, num) = end(port);
                let slot = &mut state.entries[node].ports[num.index()];
                (slot.info, slot.guid) = (None, Guid(0));
            }
        }
    }

    /// All that callers can see of a snapshot.
    fn contents((fabric, pkeys): &Snapshot) -> String {
        let guids = fabric.nodes().iter().map(|node| fabric.node_by_guid(node.guid()));
        let ports = fabric.ports().iter().map(|port| fabric.port_by_guid(port.guid));
        let lookups = (guids.collect::<Vec<_>>(), ports.collect::<Vec<_>>());
        let own = (fabric.local(), fabric.switches(), fabric.faults());
        format!("{:?} {:?} {own:?} {lookups:?} {pkeys:?}", fabric.nodes(), fabric.ports())
    }

    proptest! {
        #[test]
        fn taking_over_indexes_changes_nothing(changes in prop::collection::vec(change(), 0..6)) {
            let fabric = fabric();
            let mut state = DiscoveryState::of(&fabric, &tables(&fabric));
            changes.iter().for_each(|change| make(&mut state, &fabric, change));
            let reached = state.reroute();
            let assembled = state.assembled(&reached).expect("a snapshot");
            if let Some(renewed) = state.with_last_indexes(&reached) {
                prop_assert_eq!(contents(&renewed), contents(&assembled));
            } else {
                let has_same_ports = assembled.0.ports().len() == fabric.ports().len();
                let forgot = |change| matches!(change, &Change::Forget(_));
                prop_assert!(!has_same_ports || changes.iter().any(forgot));
            }
        }
    }
}
