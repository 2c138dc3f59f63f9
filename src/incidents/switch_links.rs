//! The cables between the switches of a snapshot.

use crate::fabric::{Fabric, PortId, SwitchId};

/// A cable between two switches, or of a switch to itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwitchLink {
    /// The lower port is first.
    pub ports: [PortId; 2],
    /// The switches of these ports.
    pub ends: [SwitchId; 2],
}

/// The links of the switches.
pub struct SwitchLinks {
    /// In the order of their lower ports.
    pub links: Vec<SwitchLink>,
    /// By switch: number of its cables to hosts and routers.
    pub hosts: Vec<usize>,
}

impl SwitchLinks {
    pub fn of(fabric: &Fabric) -> Self {
        // Nodes and ports are read once, from one page after the other.
        let mut switches = Vec::with_capacity(fabric.nodes().len());
        fabric.nodes().iter().for_each(|node| switches.push(node.switch));
        let mut ports = Vec::with_capacity(fabric.ports().len());
        fabric.ports().iter().for_each(|port| ports.push((switches[port.node.index()], port.peer)));
        let mut links = Vec::with_capacity(ports.len() / 2);
        let mut hosts = vec![0; fabric.switches().len()];
        for (port, &(near, peer)) in fabric.port_ids().zip(&ports) {
            let Some(peer) = peer.filter(|&peer| peer > port) else { continue };
            match [near, ports[peer.index()].0] {
                [Some(one), Some(other)] => {
                    links.push(SwitchLink { ports: [port, peer], ends: [one, other] });
                }
                [None, None] => {}
                [Some(switch), None] | [None, Some(switch)] => hosts[switch.index()] += 1,
            }
        }
        Self { links, hosts }
    }
}
