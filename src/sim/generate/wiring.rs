//! A fabric under construction: switches and the cables between them, without port numbers.

use super::{FIRST_HOST_GUID, FIRST_SWITCH_GUID, MAX_PORTS, ShapeError};
use crate::fabric::topology::{NextPorts, Topology, TopologyNode};
use crate::ids::{Guid, PortNum};
use crate::wire::attr::NodeKind;

/// Cables per pair of neighbours, and hosts per switch that takes hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CablesAndHosts {
    pub(super) hosts: u8,
    pub(super) parallel: u8,
}

struct WiredSwitch {
    description: String,
    /// Name of the switch in the descriptions of its hosts; `None` if it takes no hosts.
    host_prefix: Option<String>,
}

/// Switches are numbered from 0 in the order in which they are added.
pub(super) struct Wiring {
    switches: Vec<WiredSwitch>,
    /// Neighbouring switches. A switch numbers its ports in this order.
    links: Vec<[usize; 2]>,
}

impl Wiring {
    pub(super) fn new() -> Self {
        Self { switches: Vec::new(), links: Vec::new() }
    }

    /// Adds a switch and returns its number. With `host_prefix` it takes hosts.
    pub(super) fn switch(&mut self, description: String, host_prefix: Option<String>) -> usize {
        self.switches.push(WiredSwitch { description, host_prefix });
        self.switches.len() - 1
    }

    pub(super) fn link(&mut self, from: usize, to: usize) {
        self.links.push([from, to]);
    }

    pub(super) fn links(&self) -> &[[usize; 2]] {
        &self.links
    }

    /// Builds the fabric. Ports are numbered in the order of links, with parallel cables together,
    /// followed by the ports of hosts. The first node is a host, if there are hosts.
    pub(super) fn build(&self, extent: CablesAndHosts) -> Result<Topology, ShapeError> {
        let mut degrees = vec![0usize; self.switches.len()];
        self.links.iter().flatten().for_each(|&switch| degrees[switch] += 1);
        let mut topology = Topology::default();
        let mut indices = Vec::with_capacity(self.switches.len());
        for (number, switch) in self.switches.iter().enumerate() {
            let cables = degrees[number] * usize::from(extent.parallel);
            indices.push(add_switch(&mut topology, number, switch, cables, extent.hosts)?);
        }
        let mut ports = NextPorts::new(topology.nodes.len());
        for &[from, to] in &self.links {
            for _ in 0..extent.parallel {
                topology.cables.push([ports.take(indices[from]), ports.take(indices[to])]);
            }
        }
        topology.normalize();
        Ok(topology)
    }
}

/// Adds a switch behind its hosts, and returns its index.
fn add_switch(
    topology: &mut Topology,
    number: usize,
    switch: &WiredSwitch,
    cables: usize,
    hosts: u8,
) -> Result<usize, ShapeError> {
    let hosts = if switch.host_prefix.is_some() { hosts } else { 0 };
    let needed = cables + usize::from(hosts);
    let ports = u8::try_from(needed).ok().filter(|&ports| ports <= MAX_PORTS);
    let ports = ports.ok_or_else(|| ShapeError::SwitchPorts {
        switch: switch.description.clone(),
        cables,
        hosts,
        needed,
    })?;
    let first_host = topology.nodes.len();
    for host in 0..hosts {
        let prefix = switch.host_prefix.as_deref().unwrap_or("");
        let guid = host_guid(number, hosts, host);
        let description = format!("h{prefix}-{host} HCA-1");
        topology.nodes.push(TopologyNode::new(NodeKind::Ca, guid, 1).described(description));
    }
    let index = topology.nodes.len();
    let guid = Guid(FIRST_SWITCH_GUID + number as u64);
    let node = TopologyNode::new(NodeKind::Switch, guid, ports.max(1));
    topology.nodes.push(node.described(&switch.description));
    for host in 0..hosts {
        let port = PortNum(cables as u8 + 1 + host);
        topology.cables.push([(first_host + usize::from(host), PortNum(1)), (index, port)]);
    }
    Ok(index)
}

/// Node GUID of a host: four GUIDs for each host, and at least 64 for each switch.
pub(super) fn host_guid(switch: usize, hosts: u8, host: u8) -> Guid {
    let stride = (u64::from(hosts) * 4).next_multiple_of(0x40).max(0x40);
    Guid(FIRST_HOST_GUID + switch as u64 * stride + u64::from(host) * 4)
}
