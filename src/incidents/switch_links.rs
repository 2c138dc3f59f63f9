//! The cables between the switches of a snapshot.

use crate::fabric::{Fabric, PortId, SwitchId};

/// A cable between two switches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwitchLink {
    /// The lower port is first.
    pub ports: [PortId; 2],
    /// The switches of these ports.
    pub ends: [SwitchId; 2],
}

/// The links of the switches, without those of a switch to itself.
pub struct SwitchLinks {
    /// In the order of their lower ports.
    pub links: Vec<SwitchLink>,
    /// By switch: number of its cables to hosts and routers.
    pub hosts: Vec<usize>,
}

impl SwitchLinks {
    pub fn of(fabric: &Fabric) -> Self {
        // Nodes and ports are read once, in their order: their tables are in pages.
        let switches: Vec<Option<SwitchId>> =
            fabric.nodes().iter().map(|node| node.switch).collect();
        let ports: Vec<Option<SwitchId>> =
            fabric.ports().iter().map(|port| switches[port.node.index()]).collect();
        let mut links = Vec::with_capacity(ports.len() / 2);
        let mut hosts = vec![0; fabric.switches().len()];
        for (port, known) in fabric.port_ids().zip(fabric.ports()) {
            let Some(peer) = known.peer.filter(|&peer| peer > port) else { continue };
            match [ports[port.index()], ports[peer.index()]] {
                [Some(one), Some(other)] if one != other => {
                    links.push(SwitchLink { ports: [port, peer], ends: [one, other] });
                }
                [Some(_), Some(_)] | [None, None] => {}
                [Some(switch), None] | [None, Some(switch)] => hosts[switch.index()] += 1,
            }
        }
        Self { links, hosts }
    }
}
