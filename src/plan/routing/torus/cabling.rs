//! Input of the discovery: cables between switches, and end ports at switches. All discovered
//! cables count, whatever the state, width and speed of their links.

use crate::fabric::difference::Difference;
use crate::fabric::{Fabric, NodeId, PortId, SwitchId};
use crate::ids::PortNum;
use crate::wire::attr::NodeKind;

/// A cable between two switches, seen from one of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CablingLink {
    pub port: u8,
    pub peer: SwitchId,
    pub peer_port: u8,
    /// Identity of the cable: the lower of its two port slots.
    pub cable: PortId,
}

/// A member of a switch's local port group: a port cabled to a CA or router, or port 0 itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LocalMember {
    /// Port number of the switch; 0 for its management port.
    pub port: u8,
    /// The CA or router port, or the switch's port 0.
    pub end: PortId,
}

/// Cables and end ports of all switches of a fabric.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Cabling {
    /// Sorted by switch, then port number.
    links: Vec<CablingLink>,
    /// Sorted by switch, then port number.
    hosts: Vec<LocalMember>,
    /// By switch: end of its entries in `links` and `hosts`.
    ends: Vec<(u32, u32)>,
    /// All cables between switches as pairs of port slots, lower slot first, ascending.
    pub cables: Vec<[PortId; 2]>,
    /// Number of port slots of the fabric.
    slots: usize,
}

impl Cabling {
    /// Collects the cables of `fabric`. Cables from a port to itself and between end ports are
    /// ignored.
    pub(crate) fn new(fabric: &Fabric) -> Self {
        let mut cabling = Self { slots: fabric.ports().len(), ..Self::default() };
        for &node in fabric.switches() {
            cabling.add_switch(fabric, node);
            cabling.cables.extend(cables_up(fabric, node));
        }
        cabling
    }

    /// The cabling of `fabric`, which has the nodes of the fabric of `self` and differs from it by
    /// `difference`.
    pub(crate) fn updated(&self, fabric: &Fabric, difference: &Difference) -> Self {
        let nodes = difference.ports.iter().map(|&id| fabric.port(id).node);
        let mut nodes: Vec<NodeId> = nodes.filter(|&id| fabric.node(id).is_switch()).collect();
        nodes.dedup();
        let mut cabling = Self {
            links: Vec::with_capacity(self.links.len() + nodes.len()),
            hosts: Vec::with_capacity(self.hosts.len() + nodes.len()),
            ends: Vec::with_capacity(self.ends.len()),
            cables: self.cables.clone(),
            slots: self.slots,
        };
        for node in nodes {
            let Some(switch) = fabric.node(node).switch else { continue };
            cabling.copy(self, switch.index());
            cabling.add_switch(fabric, node);
            let (first, end) = slots(fabric, node);
            let start = cabling.cables.partition_point(|cable| cable[0].0 < first);
            let count = cabling.cables[start..].partition_point(|cable| cable[0].0 < end);
            cabling.cables.splice(start..start + count, cables_up(fabric, node));
        }
        cabling.copy(self, self.ends.len());
        cabling
    }

    /// Copies the entries of the switches up to `end` that are still missing.
    fn copy(&mut self, from: &Self, end: usize) {
        let start = self.ends.len();
        let (first_link, first_host) = ends_of(&from.ends, start);
        let (links, hosts) = ends_of(&from.ends, end);
        let to_link = self.links.len() as u32;
        let to_host = self.hosts.len() as u32;
        self.links.extend_from_slice(&from.links[first_link as usize..links as usize]);
        self.hosts.extend_from_slice(&from.hosts[first_host as usize..hosts as usize]);
        self.ends.extend(
            from.ends[start..end]
                .iter()
                .map(|&(link, host)| (link - first_link + to_link, host - first_host + to_host)),
        );
    }

    /// Appends the links and hosts of the next switch.
    fn add_switch(&mut self, fabric: &Fabric, node: NodeId) {
        let first = fabric.node(node).first_port;
        for port in fabric.ports_of(node).skip(1) {
            let Some(peer) = port.peer else { continue };
            let id = PortId(first.0 + u32::from(port.num.0));
            let far = fabric.port(peer);
            match fabric.node(far.node).switch {
                Some(_) if peer == id => {}
                Some(switch) => self.links.push(CablingLink {
                    port: port.num.0,
                    peer: switch,
                    peer_port: far.num.0,
                    cable: id.min(peer),
                }),
                None if is_end_port(fabric, peer) => {
                    self.hosts.push(LocalMember { port: port.num.0, end: peer });
                }
                None => {}
            }
        }
        self.ends.push((self.links.len() as u32, self.hosts.len() as u32));
    }

    pub(crate) fn slots(&self) -> usize {
        self.slots
    }

    pub(crate) fn switch_count(&self) -> usize {
        self.ends.len()
    }

    /// Start and end of a switch's entries in `links` and in `hosts`.
    fn range(&self, switch: SwitchId) -> [(usize, usize); 2] {
        let (links, hosts) = self.ends[switch.index()];
        let first = switch.index().checked_sub(1).map_or((0, 0), |before| self.ends[before]);
        [(first.0 as usize, links as usize), (first.1 as usize, hosts as usize)]
    }

    /// Cables of a switch to other switches, by ascending port number.
    pub(crate) fn links(&self, switch: SwitchId) -> &[CablingLink] {
        let [(first, end), _] = self.range(switch);
        &self.links[first..end]
    }

    /// End ports at a switch, by ascending port number.
    pub(crate) fn hosts(&self, switch: SwitchId) -> &[LocalMember] {
        let [_, (first, end)] = self.range(switch);
        &self.hosts[first..end]
    }

    pub(crate) fn host_count(&self) -> usize {
        self.hosts.len()
    }
}

fn ends_of(ends: &[(u32, u32)], count: usize) -> (u32, u32) {
    count.checked_sub(1).map_or((0, 0), |last| ends[last])
}

/// The port slots of a node as a half-open range.
fn slots(fabric: &Fabric, node: NodeId) -> (u32, u32) {
    let node = fabric.node(node);
    (node.first_port.0, node.first_port.0 + u32::from(node.num_ports()) + 1)
}

/// Cables of a switch to switch ports in higher slots.
fn cables_up(fabric: &Fabric, node: NodeId) -> impl Iterator<Item = [PortId; 2]> + '_ {
    let (first, _) = slots(fabric, node);
    fabric.ports_of(node).zip(first..).skip(1).filter_map(|(port, slot)| {
        let peer = port.peer.filter(|&peer| peer.0 > slot && fabric.node_of(peer).is_switch())?;
        Some([PortId(slot), peer])
    })
}

fn is_end_port(fabric: &Fabric, port: PortId) -> bool {
    let kind = fabric.node_of(port).kind();
    matches!(kind, NodeKind::Ca | NodeKind::Router) && fabric.port(port).num != PortNum::ZERO
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::fabric::synthetic::SyntheticView;
    use crate::fabric::topology::Topology;
    use crate::sim::generate::Shape;
    use proptest::prelude::*;

    /// A variant of a fabric: the cables with the indices `lost` are removed, and the far ends of
    /// the two cables `crossed` are exchanged.
    pub(crate) fn fabric_variant(
        whole: &Topology,
        lost: &[usize],
        crossed: [usize; 2],
    ) -> Option<Fabric> {
        let mut topology = whole.clone();
        let count = topology.cables.len();
        let [one, two] = crossed.map(|number| number % count);
        let cables = &mut topology.cables;
        (cables[one][1], cables[two][1]) = (cables[two][1], cables[one][1]);
        let lost: Vec<usize> = lost.iter().map(|number| number % count).collect();
        let mut number = 0..;
        cables.retain(|_| number.next().is_some_and(|number| !lost.contains(&number)));
        Fabric::from_topology(&topology, 0, &SyntheticView::default())
    }

    proptest! {
        #[test]
        fn an_updated_cabling_equals_a_new_one(
            parallel in 1..=2u8,
            lost in prop::array::uniform2(prop::collection::vec(any::<usize>(), 0..4)),
            crossed in prop::array::uniform2(any::<[usize; 2]>()),
        ) {
            let shape = Shape { parallel, hosts: 2, ..Shape::torus([4, 3, 2]) };
            let whole = shape.build().expect("it fits");
            let fabrics = [0, 1].map(|n| fabric_variant(&whole, &lost[n], crossed[n]));
            let [Some(old), Some(new)] = fabrics else { return Ok(()) };
            let Some(difference) = Difference::between(&old, &new) else { return Ok(()) };
            let cabling = Cabling::new(&old).updated(&new, &difference);
            prop_assert_eq!(&cabling, &Cabling::new(&new));
            prop_assert!(cabling.cables.is_sorted());
        }
    }
}
