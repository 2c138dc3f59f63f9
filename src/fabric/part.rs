//! Parts of a fabric: some of its nodes with some of their ports.

use super::{Fabric, NodeParts, PortId, SwitchId};

/// A part of a fabric as a fabric of its own, with the ids of its ports and switches in the whole.
#[derive(Clone, Debug)]
pub struct FabricPart {
    pub fabric: Fabric,
    /// By port of the whole fabric: its id in the part.
    to_part: Vec<Option<PortId>>,
    /// By port of the part: its id in the whole fabric.
    to_whole: Vec<PortId>,
    /// By switch of the whole fabric: its id in the part.
    switches: Vec<Option<SwitchId>>,
}

impl FabricPart {
    /// The switches with a port for which `contains` holds, the links between such ports, and the
    /// ports of other nodes that are linked so. Port `local` of the whole fabric is the SM's port if
    /// it is in the part, else the first end port. `None` if the part has no switch.
    pub fn new(whole: &Fabric, local: PortId, contains: impl Fn(PortId) -> bool) -> Option<Self> {
        let is_linked = |port: PortId| peer_in_part(whole, port, &contains).is_some();
        let nodes: Vec<_> = whole
            .node_ids()
            .filter(|&node| {
                let is_switch = whole.node(node).is_switch();
                let first = whole.node(node).first_port;
                let ports = (0..whole.ports_of(node).len() as u32).map(|n| PortId(first.0 + n));
                ports.skip(1).any(|port| if is_switch { contains(port) } else { is_linked(port) })
            })
            .collect();
        let mut to_whole = Vec::new();
        let mut parts = Vec::new();
        for &id in &nodes {
            let node = whole.node(id);
            let ports = whole.ports_of(id).enumerate().map(|(num, port)| {
                let at = PortId(node.first_port.0 + num as u32);
                to_whole.push(at);
                let is_present = node.is_switch() || is_linked(at);
                (port.guid, port.shared_info().clone().filter(|_| is_present))
            });
            parts.push(NodeParts {
                info: node.info,
                description: node.description,
                switch_info: node.switch_info,
                route: node.route,
                ports: ports.collect(),
            });
        }
        let cables = to_whole.iter().filter_map(|&port| {
            let peer = peer_in_part(whole, port, &contains)?;
            (port < peer).then(|| (whole.end_of(port), whole.end_of(peer)))
        });
        let cables: Vec<_> = cables.collect();
        let mut end_ports = to_whole.iter().copied().filter(|&port| {
            let is_management = whole.port(port).num.0 == 0;
            is_management == whole.node_of(port).is_switch() && (is_management || is_linked(port))
        });
        let own = end_ports.clone().find(|&port| port == local).or_else(|| end_ports.next())?;
        let fabric = Fabric::assemble(parts, &cables, whole.end_of(own), Vec::new())?;
        let mut part = Self {
            to_part: vec![None; whole.ports().len()],
            switches: vec![None; whole.switches().len()],
            to_whole,
            fabric,
        };
        part.index(whole);
        for (inner, &id) in part.fabric.nodes.iter_mut().zip(&nodes) {
            inner.mapped_name.clone_from(&whole.node(id).mapped_name);
        }
        (!part.fabric.switches().is_empty()).then_some(part)
    }

    /// Fills the maps from the whole fabric. Nodes are in the order of their GUIDs in both.
    fn index(&mut self, whole: &Fabric) {
        for (port, &at) in (0..).map(PortId).zip(&self.to_whole) {
            self.to_part[at.index()] = Some(port);
            let inner = self.fabric.node_of(port).switch;
            let outer = whole.node_of(at).switch;
            if let (Some(inner), Some(outer)) = (inner, outer) {
                self.switches[outer.index()] = Some(inner);
            }
        }
    }

    /// The id of a port in the part.
    pub fn port(&self, whole: PortId) -> Option<PortId> {
        *self.to_part.get(whole.index())?
    }

    /// The id of a switch in the part.
    pub fn switch(&self, whole: SwitchId) -> Option<SwitchId> {
        *self.switches.get(whole.index())?
    }

    /// The id in the whole fabric of a port of the part.
    pub fn whole(&self, port: PortId) -> PortId {
        self.to_whole[port.index()]
    }
}

/// The peer of a port, if both are in the part.
fn peer_in_part(
    whole: &Fabric,
    port: PortId,
    contains: &impl Fn(PortId) -> bool,
) -> Option<PortId> {
    let peer = whole.port(port).peer?;
    (contains(port) && contains(peer)).then_some(peer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::ibnet;
    use crate::fabric::synthetic::SyntheticView;
    use crate::ids::Guid;
    use std::path::Path;

    /// Two switches with two cables between them, a host at each, and a host at both.
    fn fabric() -> Fabric {
        let text = "Switch 4 \"a\"\n[1] \"b\"[1]\n[2] \"b\"[2]\n[3] \"h\"[1]\n[4] \"d\"[1]\n\n\
                    Switch 4 \"b\"\n[1] \"a\"[1]\n[2] \"a\"[2]\n[3] \"i\"[1]\n[4] \"d\"[2]\n\n\
                    Hca 1 \"h\"\n[1] \"a\"[3]\n\nHca 1 \"i\"\n[1] \"b\"[3]\n\n\
                    Hca 2 \"d\"\n[1] \"a\"[4]\n[2] \"b\"[4]\n";
        let topology = ibnet::parse(Path::new("net"), text).expect("a fabric");
        let local = topology.nodes.iter().position(|node| node.num_ports == 1);
        Fabric::from_topology(&topology, local.expect("a host"), &SyntheticView::default())
            .expect("a node")
    }

    #[test]
    fn a_part_has_the_links_between_its_ports() {
        let whole = fabric();
        let part =
            FabricPart::new(&whole, whole.local(), |port| contains(&whole, port)).expect("a part");
        let cables = part.fabric.ports().iter().filter(|port| port.peer.is_some()).count() / 2;
        assert_eq!((part.fabric.switches().len(), cables), (2, 3));
        assert_eq!(part.fabric.nodes().len(), 4, "the host at both switches is left out");
        assert_eq!(part.whole(part.fabric.local()), whole.local());
        for port in part.fabric.port_ids() {
            let at = part.whole(port);
            assert_eq!(part.port(at), Some(port));
            assert_eq!(part.fabric.port(port).num, whole.port(at).num);
            assert_eq!(part.fabric.node_of(port).guid(), whole.node_of(at).guid());
        }
        for switch in whole.switch_ids() {
            let inner = part.switch(switch).expect("both switches are in the part");
            assert_eq!(part.fabric.switch(inner).guid(), whole.switch(switch).guid());
        }
    }

    /// Without the second cable, port 4 of both switches and the second host.
    fn contains(whole: &Fabric, port: PortId) -> bool {
        let node = whole.node_of(port);
        let num = whole.port(port).num.0;
        if node.is_switch() { num != 2 && num != 4 } else { true }
    }

    #[test]
    fn a_part_without_the_sm_has_another_local_port() {
        let whole = fabric();
        let own = guid(&whole, whole.local());
        let part = FabricPart::new(&whole, whole.local(), |port| guid(&whole, port) != own);
        let part = part.expect("a part");
        assert_eq!(part.port(whole.local()), None);
        assert_ne!(part.fabric.node_of(part.fabric.local()).guid(), own);
        assert!(FabricPart::new(&whole, whole.local(), |_| false).is_none());
        assert_ne!(own, Guid(0));
    }

    fn guid(whole: &Fabric, port: PortId) -> Guid {
        whole.node_of(port).guid()
    }
}
