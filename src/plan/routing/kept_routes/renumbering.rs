//! The ids that two snapshots of a fabric give to the same nodes, ports and cables.

use crate::fabric::{Fabric, Node, PortId, SwitchId};
use crate::plan::routing::switch_graph::linked_peer;

/// The ids of a present fabric beside those of an earlier one, the *routed* fabric.
pub(super) struct Renumbering {
    /// By port slot of the present fabric: the port of the routed fabric.
    routed_ports: Vec<Option<PortId>>,
    /// By switch of the present fabric: the switch of the routed fabric.
    routed_switches: Vec<Option<SwitchId>>,
    /// By switch of the routed fabric: the switch of the present fabric.
    present_switches: Vec<Option<SwitchId>>,
    /// By port slot of the present fabric: the port leads to the same end as before.
    has_same_cable: Vec<bool>,
    /// By switch of the present fabric: its port 0.
    first_ports: Vec<PortId>,
    /// Both fabrics have the same nodes and port slots with the same ids.
    is_identity: bool,
}

impl Renumbering {
    /// Compares the fabrics by GUIDs and port numbers.
    pub(super) fn between(routed: &Fabric, present: &Fabric) -> Self {
        let mut map = Self {
            routed_ports: vec![None; present.ports().len()],
            routed_switches: vec![None; present.switches().len()],
            present_switches: vec![None; routed.switches().len()],
            has_same_cable: vec![false; present.ports().len()],
            first_ports: present.switch_ids().map(|id| present.switch(id).first_port).collect(),
            is_identity: present.has_same_ids(routed),
        };
        for node in present.nodes() {
            let same = routed.node_by_guid(node.guid()).map(|id| routed.node(id));
            if let Some(before) = same.filter(|before| has_same_ports(before, node)) {
                map.add(before, node);
            }
        }
        for port in present.port_ids() {
            let far =
                |fabric: &Fabric, port| linked_peer(fabric, port).map(|far| fabric.end_of(far));
            map.has_same_cable[port.index()] = map
                .routed_port(port)
                .is_some_and(|before| far(routed, before) == far(present, port));
        }
        map
    }

    fn add(&mut self, before: &Node, now: &Node) {
        for num in 0..=u32::from(now.num_ports()) {
            let slot = PortId(now.first_port.0 + num).index();
            if let Some(port) = self.routed_ports.get_mut(slot) {
                *port = Some(PortId(before.first_port.0 + num));
            }
        }
        if let (Some(before), Some(now)) = (before.switch, now.switch) {
            self.routed_switches[now.index()] = Some(before);
            self.present_switches[before.index()] = Some(now);
        }
    }

    pub(super) fn is_identity(&self) -> bool {
        self.is_identity
    }

    /// The port of the routed fabric; `None` if its node is new.
    pub(super) fn routed_port(&self, port: PortId) -> Option<PortId> {
        self.routed_ports.get(port.index()).copied().flatten()
    }

    /// The switch of the routed fabric; `None` for a new switch.
    pub(super) fn routed_switch(&self, switch: SwitchId) -> Option<SwitchId> {
        self.routed_switches.get(switch.index()).copied().flatten()
    }

    /// The present switch; `None` if it is gone.
    pub(super) fn present_switch(&self, routed: SwitchId) -> Option<SwitchId> {
        self.present_switches.get(routed.index()).copied().flatten()
    }

    /// True if a switch is still there, and its port `num` leads to the same end.
    pub(super) fn keeps_cable(&self, routed: SwitchId, num: u8) -> bool {
        let first = self.present_switch(routed).and_then(|it| self.first_ports.get(it.index()));
        first.is_some_and(|first| self.has_same_cable(PortId(first.0 + u32::from(num))))
    }

    /// True if a port leads to the same end as in the routed fabric, or to none in both.
    pub(super) fn has_same_cable(&self, port: PortId) -> bool {
        self.has_same_cable.get(port.index()).copied().unwrap_or(false)
    }
}

fn has_same_ports(one: &Node, other: &Node) -> bool {
    one.kind() == other.kind() && one.num_ports() == other.num_ports()
}
