//! What the fabric offers to the discovery: cables between switches, and end ports at switches.
//! State, width and speed of links do not matter; a cable that was discovered counts.

use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::PortNum;
use crate::wire::attr::NodeKind;

/// A cable between two switch ports, seen from one of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// Port number on this side.
    pub port: u8,
    /// The switch at the far end.
    pub peer: SwitchId,
    /// Port number at the far end.
    pub peer_port: u8,
    /// The cable, an index into [`Wiring::cables`].
    pub cable: u32,
}

/// An end port at a switch: the port number of the switch and the CA or router port behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Host {
    /// Port number of the switch.
    pub port: u8,
    /// The CA or router port.
    pub end: PortId,
}

/// Cables and end ports of all switches.
#[derive(Debug, Default)]
pub struct Wiring {
    /// Those of a switch together, ascending by port number.
    links: Vec<Link>,
    /// Those of a switch together, ascending by port number.
    hosts: Vec<Host>,
    /// By switch: where its links and hosts end.
    ends: Vec<(u32, u32)>,
    /// All cables between switches, by their two switch ports (lower slot first).
    pub cables: Vec<[PortId; 2]>,
}

impl Wiring {
    /// Collects the cables of `fabric`. A port cabled to itself is ignored, as are cables
    /// between end ports.
    pub fn new(fabric: &Fabric) -> Self {
        let mut wiring = Self::default();
        let mut cable_of = vec![u32::MAX; fabric.ports().len()];
        for &node in fabric.switches() {
            for port in fabric.ports_of(node).iter().skip(1) {
                let Some(peer) = port.peer else { continue };
                let id = PortId(fabric.node(node).first_port.0 + u32::from(port.num.0));
                let far = fabric.port(peer);
                match fabric.node(far.node).switch {
                    Some(_) if peer == id => {}
                    Some(switch) => {
                        let cable = wiring.cable(&mut cable_of, id, peer);
                        let (port, peer_port) = (port.num.0, far.num.0);
                        wiring.links.push(Link { port, peer: switch, peer_port, cable });
                    }
                    None if is_end_port(fabric, peer) => {
                        wiring.hosts.push(Host { port: port.num.0, end: peer });
                    }
                    None => {}
                }
            }
            wiring.ends.push((wiring.links.len() as u32, wiring.hosts.len() as u32));
        }
        wiring
    }

    /// The index of the cable between two ports, which is new if its other end was not met yet.
    fn cable(&mut self, cable_of: &mut [u32], id: PortId, peer: PortId) -> u32 {
        let known = cable_of[peer.index()];
        if known != u32::MAX {
            return known;
        }
        let cable = self.cables.len() as u32;
        self.cables.push([id, peer]);
        cable_of[id.index()] = cable;
        cable
    }

    /// Number of switches.
    pub fn switch_count(&self) -> usize {
        self.ends.len()
    }

    /// Where the links and hosts of a switch begin and end.
    fn range(&self, switch: SwitchId) -> [(usize, usize); 2] {
        let (links, hosts) = self.ends[switch.index()];
        let first = switch.index().checked_sub(1).map_or((0, 0), |before| self.ends[before]);
        [(first.0 as usize, links as usize), (first.1 as usize, hosts as usize)]
    }

    /// Cables of a switch to switches, ascending by its port number.
    pub fn links(&self, switch: SwitchId) -> &[Link] {
        let [(first, end), _] = self.range(switch);
        &self.links[first..end]
    }

    /// End ports at a switch, ascending by its port number.
    pub fn hosts(&self, switch: SwitchId) -> &[Host] {
        let [_, (first, end)] = self.range(switch);
        &self.hosts[first..end]
    }

    /// Number of end ports at switches.
    pub fn host_count(&self) -> usize {
        self.hosts.len()
    }
}

fn is_end_port(fabric: &Fabric, port: PortId) -> bool {
    let kind = fabric.node_of(port).kind();
    matches!(kind, NodeKind::Ca | NodeKind::Router) && fabric.port(port).num != PortNum::ZERO
}
