//! The conversion of a snapshot into the state of a discovery, and of that state into a snapshot.
//!
//! The new snapshot has recomputed directed routes along the cables, shortest first, and omits the
//! nodes that they do not reach. A focused sweep usually finds the nodes and end ports of the last
//! snapshot again; then the new one keeps its order and indexes, and shares with it what is equal.

use super::discovery_state::{DiscoveryState, LastSnapshot};
use crate::fabric::{DiscoveryFault, End, Fabric, NodeId, NodeParts};
use crate::ids::Guid;
use crate::interned::Interned;
use crate::wire::attr::tables::PkeyTable;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A snapshot, and the P_Key tables by its port slots.
pub(super) type Snapshot = (Fabric, Arc<Vec<PkeyTable>>);

impl DiscoveryState {
    /// The state that represents `fabric`, with its faults.
    pub fn of(fabric: &Arc<Fabric>, pkeys: &Arc<Vec<PkeyTable>>) -> Self {
        let local = fabric.port(fabric.local());
        let names = fabric.nodes().iter();
        let names = names.filter_map(|node| Some((node.guid(), node.mapped_name.clone()?)));
        Self {
            nodes: fabric.nodes().clone(),
            ports: fabric.ports().clone(),
            last: Some((fabric.clone(), pkeys.clone())),
            local: Some((local.node.index(), local.num)),
            faults: fabric.faults().to_vec(),
            unresponsive: fabric.unresponsive().map(NodeId::index).collect(),
            names: Arc::new(names.collect()),
            ..Self::default()
        }
    }

    /// The snapshot of all reachable nodes, and the P_Key tables by its port slots; `None` if the
    /// local port is unknown.
    pub fn finish(mut self) -> Option<Snapshot> {
        let reached = self.reroute();
        self.forget_unreached_ports(&reached);
        self.name_unresponsive(&reached);
        let names = self.names.clone();
        let last = self.last.clone();
        let (mut fabric, pkeys) = match last.clone().filter(|last| self.has_ids_of(last, &reached))
        {
            Some(last) => self.with_ids_of(last)?,
            None => self.assembled(&reached)?,
        };
        names.give_to(&mut fabric);
        let extended = last
            .iter()
            .flat_map(|(last, _)| last.extended_ports().map(|(id, info)| (last.end_of(id), *info)));
        for (end, info) in extended {
            let port = fabric.port_by_end(end).filter(|&id| fabric.port(id).info().is_some());
            if let Some(id) = port {
                fabric.set_extended_port_info(id, info);
            }
        }
        Some((fabric, pkeys))
    }

    /// Forgets ports of channel adapters and routers whose cables lead to no device of the snapshot,
    /// although the device is reached by another port: packets cannot reach them, and nobody has
    /// asked them.
    fn forget_unreached_ports(&mut self, reached: &[bool]) {
        let adapters = self
            .nodes
            .iter()
            .zip(reached)
            .filter(|(node, is_reached)| **is_reached && !node.is_switch());
        let slots = adapters.flat_map(|(node, _)| node.slots().skip(1));
        for slot in slots.map(|slot| slot.index()).collect::<Vec<_>>() {
            let port = &self.ports[slot];
            let is_local = self.local == Some((port.node.index(), port.num));
            let has_peer =
                port.peer.is_some_and(|peer| reached[self.ports[peer.index()].node.index()]);
            if !is_local && !has_peer && (port.guid.0 != 0 || port.info().is_some()) {
                let port = &mut self.ports[slot];
                port.guid = Guid(0);
                port.set_info(None);
            }
        }
    }

    /// Renews the faults of unresponsive devices: those that answered or are cut off have none.
    fn name_unresponsive(&mut self, reached: &[bool]) {
        self.faults.retain(|fault| !matches!(fault, DiscoveryFault::Unresponsive { .. }));
        for &index in self.unresponsive.iter().filter(|&&index| reached[index]) {
            let node = &self.nodes[index];
            let name = self.names.get(node.guid()).map(ToString::to_string);
            let name = name.unwrap_or_else(|| node.description.to_string());
            self.faults.push(DiscoveryFault::Unresponsive {
                guid: node.guid(),
                what: format!("{} {} \"{name}\"", node.kind(), node.guid()),
                route: node.route,
            });
        }
    }

    /// True if the snapshot will have the nodes and end ports of the last one. A known node keeps
    /// its kind and number of ports, so only GUIDs of ports may differ.
    fn has_ids_of(&self, (last, _): &LastSnapshot, reached: &[bool]) -> bool {
        self.nodes.len() == last.nodes().len()
            && !reached.contains(&false)
            && self.ports.is_equal_by(last.ports(), |now, last| now.guid == last.guid)
    }

    /// The snapshot, with the indexes of the last one.
    fn with_ids_of(self, (last, mut tables): LastSnapshot) -> Option<Snapshot> {
        let local = self.slot(self.local?)?;
        let fabric = last.with_contents(self.nodes, self.ports, local, self.faults);
        for (slot, read) in self.read_pkeys {
            if *tables[slot.index()] != *read {
                Arc::make_mut(&mut tables)[slot.index()] = read.into();
            }
        }
        Some((fabric, tables))
    }

    /// The snapshot, ordered anew.
    fn assembled(&self, reached: &[bool]) -> Option<Snapshot> {
        let (local, own_port) = self.local?;
        let local: End = (self.guid(local), own_port);
        let reachable = (0..self.nodes.len()).filter(|&index| reached[index]);
        let parts = reachable.clone().map(|index| self.parts(index)).collect();
        let cables = self.cables(reached);
        let fabric = Fabric::assemble(parts, &cables, local, self.faults.clone())?;
        let index: FxHashMap<Guid, usize> =
            reachable.map(|index| (self.guid(index), index)).collect();
        let mut known = Interned::default();
        let tables = fabric.ports().iter().map(|port| {
            let index = index.get(&fabric.node(port.node).guid());
            let slot = index.and_then(|&index| self.slot((index, port.num)));
            known.share(slot.map_or(&[][..], |slot| self.pkeys(slot)))
        });
        let tables = tables.collect();
        Some((fabric, Arc::new(tables)))
    }

    fn guid(&self, index: usize) -> Guid {
        self.nodes[index].guid()
    }

    /// The cables between reachable nodes.
    fn cables(&self, reached: &[bool]) -> Vec<(End, End)> {
        let mut cables = Vec::new();
        for port in self.ports.iter().filter(|port| reached[port.node.index()]) {
            let here = (port.node.index(), port.num);
            if let Some(peer) = self.peer(here).filter(|&peer| reached[peer.0] && here < peer) {
                cables.push(((self.guid(here.0), here.1), (self.guid(peer.0), peer.1)));
            }
        }
        cables
    }

    fn parts(&self, index: usize) -> NodeParts {
        let node = &self.nodes[index];
        NodeParts {
            info: node.info,
            description: node.description,
            switch_info: node.switch_info,
            route: node.route,
            ports: self
                .ports_of(index)
                .map(|port| (port.guid, port.shared_info().clone()))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::ibnet;
    use crate::fabric::synthetic::SyntheticView;
    use crate::ids::{Lid, PortNum};
    use crate::sim::generate::Shape;
    use crate::wire::attr::tables::PkeyBlock;
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

    fn tables(fabric: &Fabric) -> Arc<Vec<PkeyTable>> {
        Arc::new(
            fabric.port_ids().map(|id| vec![PkeyBlock::default(); id.index() % 3].into()).collect(),
        )
    }

    /// What a device, or an operator, changes.
    #[derive(Clone, Debug)]
    enum DeviceChange {
        Lid(Index, u16),
        Unplug(Index),
        Move(Index, Index),
        ReadPkeys(Index),
        Forget(Index),
    }

    fn change() -> impl Strategy<Value = DeviceChange> {
        let port = any::<Index>;
        prop_oneof![
            (port(), 1..100_u16).prop_map(|(port, lid)| DeviceChange::Lid(port, lid)),
            port().prop_map(DeviceChange::Unplug),
            (port(), port()).prop_map(|(from, to)| DeviceChange::Move(from, to)),
            port().prop_map(DeviceChange::ReadPkeys),
            port().prop_map(DeviceChange::Forget),
        ]
    }

    fn make(state: &mut DiscoveryState, fabric: &Fabric, change: &DeviceChange) {
        match change {
            DeviceChange::Lid(port, lid) => {
                let (node, num) = end(fabric, port);
                if let Some(port) = state.port_mut((node, num)) {
                    port.change_info(|info| info.set_lid(Lid(*lid)));
                }
            }
            DeviceChange::Unplug(port) => drop(state.disconnect(end(fabric, port))),
            DeviceChange::Move(from, to) => {
                if let Some(other) = state.disconnect(end(fabric, from)) {
                    let to = end(fabric, to);
                    if state.peer(to).is_none() && to.1 != PortNum::ZERO && to.0 != other.0 {
                        state.connect(other, to);
                    }
                }
            }
            DeviceChange::ReadPkeys(port) => {
                let (node, num) = end(fabric, port);
                let slot = state.slot((node, num)).expect("a port");
                state.read_pkeys.insert(slot, vec![PkeyBlock::default(); 5]);
            }
            DeviceChange::Forget(port) => {
                let (node, num) = end(fabric, port);
                let slot = state.port_mut((node, num)).expect("a port");
                slot.set_info(None);
                slot.guid = Guid(0);
            }
        }
    }

    fn end(fabric: &Fabric, index: &Index) -> (usize, PortNum) {
        let port = &fabric.ports()[index.index(fabric.ports().len())];
        (port.node.index(), port.num)
    }

    /// All that callers can see of a snapshot.
    fn contents((fabric, pkeys): &Snapshot) -> String {
        let guids = fabric.nodes().iter().map(|node| fabric.node_by_guid(node.guid()));
        let ports = fabric.ports().iter().map(|port| fabric.port_by_guid(port.guid));
        let lookups = (guids.collect::<Vec<_>>(), ports.collect::<Vec<_>>());
        let own = (fabric.local(), fabric.switches(), fabric.faults());
        format!("{:?} {:?} {own:?} {lookups:?} {pkeys:?}", fabric.nodes(), fabric.ports())
    }

    #[test]
    fn names_that_were_taken_back_are_gone() {
        let mut named = Arc::unwrap_or_clone(fabric());
        let guid = named.nodes()[0].guid();
        let names: crate::fabric::node_names::NodeNames =
            [(guid, "rack 1".into())].into_iter().collect();
        names.give_to(&mut named);
        let mut state = DiscoveryState::of(&Arc::new(named), &Arc::default());
        assert_eq!(node(state.clone()).as_deref(), Some("rack 1"));
        state.names = Arc::default();
        assert_eq!(node(state), None);
    }

    fn node(state: DiscoveryState) -> Option<Arc<str>> {
        let (fabric, _) = state.finish().expect("a snapshot");
        fabric.nodes()[0].mapped_name.clone()
    }

    /// Several snapshots are in use at a time: what did not change is stored once.
    #[test]
    fn a_snapshot_shares_what_did_not_change() {
        let topology = Shape::torus([6, 6, 6]).build().expect("a torus");
        let view = SyntheticView::default();
        let fabric = Arc::new(Fabric::from_topology(&topology, 0, &view).expect("a torus"));
        let tables = tables(&fabric);
        let (same, _) = DiscoveryState::of(&fabric, &tables).finish().expect("a snapshot");
        let (tail, _) = unshared(&fabric, &same);
        let mut state = DiscoveryState::of(&fabric, &tables);
        let port = state.port_mut((200, PortNum(1))).expect("a port");
        port.change_info(|info| info.set_lid(Lid(7)));
        let (changed, _) = state.finish().expect("a snapshot");
        let (nodes, ports) = unshared(&fabric, &changed);
        assert_eq!(nodes, tail, "no node changed");
        assert!(
            ports > unshared(&fabric, &same).1 && ports <= unshared(&fabric, &same).1 + 128,
            "{ports}"
        );
        assert!(fabric.ports().len() > 4 * ports);
    }

    fn unshared(fabric: &Fabric, new: &Fabric) -> (usize, usize) {
        let nodes: usize = fabric.nodes().unshared(new.nodes()).map(|part| part.1.len()).sum();
        let ports: usize = fabric.ports().unshared(new.ports()).map(|part| part.1.len()).sum();
        (nodes, ports)
    }

    proptest! {
        #[test]
        fn taking_over_indexes_changes_nothing(changes in prop::collection::vec(change(), 0..6)) {
            let fabric = fabric();
            let mut state = DiscoveryState::of(&fabric, &tables(&fabric));
            changes.iter().for_each(|change| make(&mut state, &fabric, change));
            let reached = state.reroute();
            let assembled = state.assembled(&reached).expect("a snapshot");
            let last = state.last.clone().expect("a snapshot");
            if state.has_ids_of(&last, &reached) {
                let renewed = state.with_ids_of(last).expect("a snapshot");
                prop_assert_eq!(contents(&renewed), contents(&assembled));
            } else {
                let has_same_ports = assembled.0.ports().len() == fabric.ports().len();
                let mut changes = changes.iter();
                let forgot = changes.any(|change| matches!(change, DeviceChange::Forget(_)));
                prop_assert!(!has_same_ports || forgot);
            }
        }
    }
}
