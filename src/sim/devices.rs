//! Nodes, ports and switches, in flat arrays. A port is identified by its slot: ports 0 to N of a
//! node have consecutive slots. Tables are allocated on the first write.

use super::adaptive_tables::AdaptiveTables;
use super::cable_fault::CableFault;
use super::negotiation::{negotiate, set_link_up};
use super::vendor::VendorAgents;
use crate::fabric::node_name::{self, NodeNameError};
use crate::fabric::synthetic::{Hardware, set_rate};
use crate::fabric::topology::Topology;
use crate::ids::{Guid, Lid, Pkey, PortNum};
use crate::wire::attr::tables::{LFT_NO_PATH, SlToVl, VlArbBlock};
use crate::wire::attr::{NodeDescription, NodeInfo, NodeKind, PortInfo, PortState, SwitchInfo};
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::time::Duration;
use tokio::time::Instant;

/// Marks the absence of an index.
pub(super) const NONE: u32 = u32::MAX;

pub(super) struct Node {
    pub(super) info: NodeInfo,
    pub(super) description: NodeDescription,
    /// Slot of port 0.
    pub(super) first: u32,
    /// Index into the switches, or [`NONE`].
    pub(super) switch: u32,
}

pub(super) struct Port {
    pub(super) info: PortInfo,
    pub(super) guid: Guid,
    pub(super) node: u32,
    /// Slot of the port at the other end of the cable, or [`NONE`].
    pub(super) peer: u32,
    pub(super) num: PortNum,
    /// The cable is plugged in at both ends.
    pub(super) plugged: bool,
    /// `None`: the factory defaults.
    pub(super) tables: Option<Box<PortTables>>,
}

#[derive(Clone)]
pub(super) struct PortTables {
    pub(super) vl_arb: [VlArbBlock; 4],
    pub(super) pkeys: Vec<Pkey>,
    pub(super) guids: Vec<Guid>,
    /// SL to VL mapping of a channel adapter or router port.
    pub(super) sl2vl: SlToVl,
}

pub(super) struct Switch {
    pub(super) info: SwitchInfo,
    /// Output port by LID, up to the last block written.
    pub(super) lft: Vec<u8>,
    /// Port masks by position and MLID - 0xC000; empty until the first write.
    pub(super) mft: Vec<u16>,
    /// By input port and output port; empty until the first write.
    pub(super) sl2vl: Vec<SlToVl>,
    pub(super) adaptive: AdaptiveTables,
}

/// SL to VL mapping of an unconfigured device: SL n to VL n, SL 15 to VL 7.
pub(super) const FACTORY_SL2VL: SlToVl = SlToVl([0x01, 0x23, 0x45, 0x67, 0x89, 0xAB, 0xCD, 0xE7]);

/// A switch without tables.
pub(super) fn factory_switch(hardware: &Hardware) -> Switch {
    Switch {
        info: hardware.switch_info(),
        lft: Vec::new(),
        mft: Vec::new(),
        sl2vl: Vec::new(),
        adaptive: AdaptiveTables::default(),
    }
}

/// Number of events of an end port that its driver reports to the programs on the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortEvents {
    /// The port became ACTIVE.
    pub activations: u64,
    /// The subnet manager has set ClientReregister.
    pub reregistrations: u64,
}

/// Effects of changed links outside the devices, until
/// [`super::net::Net::report_link_changes`] causes them.
#[derive(Default)]
pub(super) struct LinkEffects {
    /// Switches with a port state change, to be reported by a trap.
    pub(super) switches: Vec<u32>,
    /// Ports whose link went down, to be counted by LinkDownedCounter.
    pub(super) downed_ports: Vec<u32>,
    /// Links that train slowly, to be completed by a timer: port and training time.
    pub(super) training: Vec<(u32, Duration)>,
}

/// Cables that are not as they were made.
#[derive(Default)]
pub(super) struct CableStates {
    /// Defects by the port at which they were made.
    pub(super) faults: HashMap<u32, CableFault>,
    /// Ports at the cables that a split of the fabric has unplugged.
    pub(super) cut: Vec<u32>,
}

/// All devices and cables of a fabric.
pub(super) struct Devices {
    pub(super) nodes: Vec<Node>,
    pub(super) ports: Vec<Port>,
    pub(super) switches: Vec<Switch>,
    pub(super) by_guid: HashMap<Guid, u32>,
    pub(super) hardware: Hardware,
    pub(super) link_changes: LinkEffects,
    pub(super) cables: CableStates,
    /// Time of the last Set that changed a forwarding table.
    pub(super) last_route_change: Option<Instant>,
    /// End of the running lease of an M_Key, by slot of the end port.
    pub(super) leases: HashMap<u32, Instant>,
    /// By port slot; without ports that had none.
    pub(super) port_events: HashMap<u32, PortEvents>,
    pub(super) vendor: VendorAgents,
}

impl Devices {
    /// The node with a name of [`node_name`], with positions as in the descriptions of generated tori.
    ///
    /// # Errors
    /// No node has the name, or several begin with it.
    pub(super) fn find_node(&self, name: &str) -> Result<u32, NodeNameError> {
        let nodes = self
            .nodes
            .iter()
            .zip(0u32..)
            .map(|(node, index)| (index, node.description.to_string()));
        node_name::find(
            name,
            nodes,
            |guid| self.by_guid.get(&guid).copied().or_else(|| of_port(&self.ports, guid)),
            |_| None,
        )
    }

    pub(super) fn new(topology: &Topology, hardware: Hardware) -> Self {
        let mut devices = Self {
            nodes: Vec::with_capacity(topology.nodes.len()),
            ports: Vec::new(),
            switches: Vec::new(),
            by_guid: HashMap::with_capacity(topology.nodes.len()),
            hardware,
            link_changes: LinkEffects::default(),
            cables: CableStates::default(),
            last_route_change: None,
            leases: HashMap::new(),
            port_events: HashMap::new(),
            vendor: VendorAgents::default(),
        };
        for node in &topology.nodes {
            let index = devices.nodes.len() as u32;
            let first = devices.ports.len() as u32;
            let is_switch = node.kind == NodeKind::Switch;
            let switch = if is_switch { devices.switches.len() as u32 } else { NONE };
            let hardware = devices.hardware.of_node(node);
            if is_switch {
                devices.switches.push(factory_switch(&hardware));
            }
            for num in (0..=node.num_ports).map(PortNum) {
                let mut info = hardware.port_info(node.kind, num, false);
                set_rate(&mut info, topology, index as usize, num);
                if let Some(&(_, lid, lmc)) = node.lids.iter().find(|&&(port, ..)| port == num) {
                    info.set_lid(Lid(lid));
                    info.set_lmc(lmc);
                }
                devices.ports.push(Port {
                    info,
                    guid: node.port_guid(if is_switch { PortNum::ZERO } else { num }),
                    node: index,
                    peer: NONE,
                    num,
                    plugged: false,
                    tables: None,
                });
            }
            devices.by_guid.entry(node.guid).or_insert(index);
            devices.nodes.push(Node {
                info: devices.hardware.node_info(node, PortNum::ZERO),
                description: NodeDescription::new(&node.description),
                first,
                switch,
            });
        }
        devices.connect(topology);
        devices
    }

    fn connect(&mut self, topology: &Topology) {
        for cable in &topology.cables {
            let ends = cable.map(|(node, num)| self.slot(u32::try_from(node).ok()?, num));
            let [Some(a), Some(b)] = ends else { continue };
            for (end, other) in [(a, b), (b, a)] {
                let port = &mut self.ports[end as usize];
                port.peer = other;
                port.plugged = true;
            }
            let (width, speed) =
                negotiate(&self.port(a).info, &self.port(b).info, CableFault::NONE);
            for end in [a, b] {
                set_link_up(&mut self.ports[end as usize].info, width, speed);
            }
        }
    }

    /// The properties of a device as it was made.
    pub(super) fn hardware_of(&self, node: u32) -> Hardware {
        let enhanced_port0 = self.switch(node).is_some_and(|switch| switch.info.enhanced_port0());
        Hardware { enhanced_port0, ..self.hardware.clone() }
    }

    /// Slot of a port of the node with index `node`.
    pub(super) fn slot(&self, node: u32, num: PortNum) -> Option<u32> {
        let node = self.nodes.get(node as usize)?;
        (num.0 <= node.info.num_ports()).then(|| node.first + u32::from(num.0))
    }

    /// Slot of a port by its node's GUID.
    pub(super) fn find(&self, guid: Guid, num: PortNum) -> Option<u32> {
        self.slot(*self.by_guid.get(&guid)?, num)
    }

    /// Slots of all ports of a node, port 0 included.
    pub(super) fn slots_of(&self, node: u32) -> RangeInclusive<u32> {
        let node = self.node(node);
        node.first..=node.first + u32::from(node.info.num_ports())
    }

    pub(super) fn port(&self, slot: u32) -> &Port {
        &self.ports[slot as usize]
    }

    pub(super) fn port_mut(&mut self, slot: u32) -> &mut Port {
        &mut self.ports[slot as usize]
    }

    /// The name of a port in texts: `"sw 0,0,0"[3]`.
    pub(super) fn port_name(&self, slot: u32) -> String {
        let port = self.port(slot);
        format!("\"{}\"[{}]", self.node(port.node).description, port.num)
    }

    pub(super) fn node(&self, node: u32) -> &Node {
        &self.nodes[node as usize]
    }

    pub(super) fn is_switch(&self, node: u32) -> bool {
        self.node(node).switch != NONE
    }

    pub(super) fn switch(&self, node: u32) -> Option<&Switch> {
        self.switches.get(self.nodes.get(node as usize)?.switch as usize)
    }

    pub(super) fn switch_mut(&mut self, node: u32) -> Option<&mut Switch> {
        self.switches.get_mut(self.nodes.get(node as usize)?.switch as usize)
    }

    pub(super) fn is_switch_slot(&self, slot: u32) -> bool {
        self.is_switch(self.port(slot).node)
    }

    /// Slot of the port that has the LID, M_Key and SM of `slot`: port 0 of a switch, `slot` itself
    /// on other nodes.
    pub(super) fn end_port(&self, slot: u32) -> u32 {
        let node = self.port(slot).node;
        if self.is_switch(node) { self.node(node).first } else { slot }
    }

    pub(super) fn is_end_port(&self, slot: u32) -> bool {
        self.end_port(slot) == slot
    }

    /// Slot at the other end of the link, if the link is up.
    pub(super) fn linked_peer(&self, slot: u32) -> Option<u32> {
        let port = self.port(slot);
        let up = port.plugged && port.info.port_state() != PortState::Down;
        (up && port.peer != NONE).then_some(port.peer)
    }

    /// True if `lid` is one of the LIDs of the end port `slot`, or of a vport of it.
    pub(super) fn owns_lid(&self, slot: u32, lid: Lid) -> bool {
        let info = &self.port(slot).info;
        let base = info.lid();
        let lmc = info.lmc();
        let is_own = base.is_unicast() && lid.0 >> lmc == base.0 >> lmc;
        is_own || self.vport_with_lid(slot, lid).is_some()
    }

    /// Output port for `lid` in the switch's LFT.
    pub(super) fn lft_entry(&self, node: u32, lid: Lid) -> Option<PortNum> {
        let switch = self.switch(node)?;
        if lid.0 > switch.info.linear_fdb_top() {
            return None;
        }
        let port = *switch.lft.get(lid.index())?;
        (port != LFT_NO_PATH && port <= self.node(node).info.num_ports()).then_some(PortNum(port))
    }

    /// Makes a port ACTIVE.
    pub(super) fn activate(&mut self, slot: u32) {
        let info = &mut self.port_mut(slot).info;
        if info.port_state() != PortState::Active {
            info.set_port_state(PortState::Active);
            self.port_events.entry(slot).or_default().activations += 1;
        }
    }

    /// Tables of a port, allocated if the port has the factory defaults.
    pub(super) fn tables_mut(&mut self, slot: u32) -> &mut PortTables {
        let tables = match self.ports[slot as usize].tables.take() {
            Some(tables) => tables,
            None => Box::new(self.factory_tables(slot)),
        };
        self.ports[slot as usize].tables.insert(tables)
    }

    /// Factory defaults of a port's tables.
    pub(super) fn factory_tables(&self, slot: u32) -> PortTables {
        let mut pkeys = vec![Pkey(0); self.pkey_cap(slot)];
        if let Some(first) = pkeys.first_mut() {
            *first = Pkey::DEFAULT_FULL;
        }
        let mut guids = vec![Guid(0); usize::from(self.port(slot).info.guid_cap())];
        if let Some(first) = guids.first_mut() {
            *first = self.port(slot).guid;
        }
        PortTables { vl_arb: [VlArbBlock::default(); 4], pkeys, guids, sl2vl: FACTORY_SL2VL }
    }

    /// Number of entries in the P_Key table of a port.
    pub(super) fn pkey_cap(&self, slot: u32) -> usize {
        let hardware = &self.hardware;
        let cap = if self.is_end_port(slot) {
            hardware.partition_cap
        } else {
            hardware.partition_enforcement_cap
        };
        usize::from(cap)
    }
}

fn of_port(ports: &[Port], guid: Guid) -> Option<u32> {
    ports.iter().find(|port| port.guid == guid).map(|port| port.node)
}
