//! The multicast trees in the forwarding tables of a simulated fabric.

use std::collections::{BTreeSet, HashMap};
use torus_sm::fabric::topology::Topology;
use torus_sm::ids::{Guid, Mlid};
use torus_sm::sim::SimFabric;
use torus_sm::wire::attr::NodeKind;

/// The multicast forwarding tables of all switches.
pub struct MulticastTrees<'a> {
    topology: &'a Topology,
    /// Port masks by node and MLID - 0xC000; empty for hosts.
    masks: Vec<Vec<u16>>,
    /// The far end of a link by its near end (node index, port).
    peers: HashMap<(usize, u8), (usize, u8)>,
}

impl<'a> MulticastTrees<'a> {
    /// Reads the tables. Only ports below 16 are supported.
    pub fn read(fabric: &SimFabric, topology: &'a Topology) -> Self {
        let masks = topology.nodes.iter().map(|node| {
            assert!(node.kind != NodeKind::Switch || node.num_ports < 16, "one position is read");
            fabric.mft(node.guid, 0).unwrap_or_default()
        });
        let ends = topology.cables.iter().flat_map(|&[a, b]| [(a, b), (b, a)]);
        let peers = ends.map(|(a, b)| ((a.0, a.1.0), (b.0, b.1.0))).collect();
        Self { topology, masks: masks.collect(), peers }
    }

    fn ports(&self, node: usize, mlid: Mlid) -> impl Iterator<Item = u8> + use<> {
        let index = usize::from(mlid.0 - Mlid::FIRST.0);
        let mask = self.masks[node].get(index).copied().unwrap_or(0);
        (0..16).filter(move |port| mask >> port & 1 == 1)
    }

    /// The hosts (node GUIDs) that the tree of `mlid` reaches.
    ///
    /// # Errors
    /// A description of the fault: the entries are no tree, or several.
    pub fn members(&self, mlid: Mlid) -> Result<BTreeSet<Guid>, String> {
        let switches: Vec<usize> =
            (0..self.masks.len()).filter(|&node| self.ports(node, mlid).next().is_some()).collect();
        let mut members = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut next: Vec<(usize, Option<u8>)> =
            switches.first().map(|&s| (s, None)).into_iter().collect();
        while let Some((node, came)) = next.pop() {
            if !seen.insert(node) {
                return Err(format!(
                    "{mlid}: a packet comes to {} twice",
                    self.topology.nodes[node].guid
                ));
            }
            for port in self.ports(node, mlid).filter(|&port| Some(port) != came) {
                let Some(&(peer, peer_port)) = self.peers.get(&(node, port)) else {
                    return Err(format!("{mlid}: no cable at port {port}"));
                };
                let other = &self.topology.nodes[peer];
                if other.kind == NodeKind::Ca {
                    members.insert(other.guid);
                } else if self.ports(peer, mlid).any(|port| port == peer_port) {
                    next.push((peer, Some(peer_port)));
                } else {
                    return Err(format!(
                        "{mlid}: {} takes nothing from port {peer_port}",
                        other.guid
                    ));
                }
            }
        }
        if seen.len() != switches.len() {
            return Err(format!(
                "{mlid}: {} of {} switches are apart",
                switches.len() - seen.len(),
                switches.len()
            ));
        }
        Ok(members)
    }

    /// MLIDs with an entry in any switch.
    pub fn mlids(&self) -> BTreeSet<Mlid> {
        let used = self.masks.iter().flat_map(|masks| masks.iter().zip(Mlid::FIRST.0..));
        used.filter(|(mask, _)| **mask != 0).map(|(_, mlid)| Mlid(mlid)).collect()
    }
}
