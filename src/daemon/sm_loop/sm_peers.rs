//! Finds the port that sent an SMInfo request, to which the reply may show the SM_Key.

use crate::fabric::{Fabric, PortId};
use crate::ids::{Guid, Lid};
use crate::publish::Subnet;
use crate::wire::mad::{Class, Mad};
use crate::wire::smp::DirectedRoute;

/// The GUID of the port that sent a request: the owner of the source LID, or the end of the return
/// path. `None` if the fabric does not show it.
pub(super) fn sender(
    fabric: &Fabric,
    subnet: Option<&Subnet>,
    from: Lid,
    request: &Mad,
) -> Option<Guid> {
    let port = if request.header().class() == Class::SUBN_DIRECTED {
        end_of(fabric, &request.smp().return_route()?)?
    } else {
        with_lid(fabric, subnet, from)?
    };
    Some(fabric.port(fabric.owner(port)).guid)
}

fn with_lid(fabric: &Fabric, subnet: Option<&Subnet>, lid: Lid) -> Option<PortId> {
    match subnet {
        Some(subnet) => {
            let guid = subnet.fabric.port(subnet.plan.lids.port(lid)?).guid;
            fabric.port_by_guid(guid)
        }
        None => fabric.end_ports().find(|&port| fabric.observed_lid(port) == Some(lid)),
    }
}

/// The port at the end of a route from the local port, whose nodes on the way are switches: a host
/// on the way could have invented the part of a return path beyond itself.
fn end_of(fabric: &Fabric, route: &DirectedRoute) -> Option<PortId> {
    let mut at = fabric.local();
    for (hop, exit) in route.exits().enumerate() {
        let node = fabric.port(at).node;
        if hop > 0 && !fabric.node(node).is_switch() {
            return None;
        }
        at = fabric.port(fabric.port_of(node, exit)?).peer?;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::synthetic::SyntheticView;
    use crate::fabric::topology::{Topology, TopologyNode};
    use crate::ids::PortNum;
    use crate::wire::attr::NodeKind;

    /// Two hosts at a switch: the local one at its port 1, the other at its ports 2 and 3.
    fn fabric() -> Fabric {
        let nodes = vec![
            node(NodeKind::Ca, 0x10, 1),
            node(NodeKind::Ca, 0x20, 2),
            node(NodeKind::Switch, 0x30, 4),
        ];
        let cables = vec![cable(0, 1, 1), cable(1, 1, 2), cable(1, 2, 3)];
        let topology = Topology { nodes, cables, ..Topology::default() };
        Fabric::from_topology(&topology, 0, &SyntheticView::default()).expect("a local port")
    }

    fn cable(host: usize, num: u8, at: u8) -> [(usize, PortNum); 2] {
        [(host, PortNum(num)), (2, PortNum(at))]
    }

    fn node(kind: NodeKind, guid: u64, num_ports: u8) -> TopologyNode {
        TopologyNode::new(kind, Guid(guid), num_ports)
    }

    #[test]
    fn a_return_path_names_its_sender_unless_it_leads_through_a_host() {
        let fabric = fabric();
        assert_eq!(end(&fabric, &[1]), Some(Guid(0x30)));
        assert_eq!(end(&fabric, &[1, 2]), Some(Guid(0x20)));
        assert_eq!(end(&fabric, &[1, 2, 2]), None, "through a host");
        assert_eq!(end(&fabric, &[1, 4]), None, "no cable");
        assert_eq!(end(&fabric, &[9]), None, "no port");
    }

    fn end(fabric: &Fabric, exits: &[u8]) -> Option<Guid> {
        let ports: Vec<PortNum> = exits.iter().map(|&exit| PortNum(exit)).collect();
        let port = end_of(fabric, &DirectedRoute::new(&ports).expect("a route"))?;
        Some(fabric.node_of(port).guid())
    }
}
