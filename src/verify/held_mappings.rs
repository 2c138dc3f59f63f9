//! SL to VL mappings that switches hold and this subnet manager has not written.
//!
//! While QoS is off, plans contain no mappings, and switches keep those from before: of the factory,
//! or of another subnet manager. An engine that keeps paths apart by SLs depends on them. The check
//! uses them for those pairs of ports that packets between switches can take.

use crate::fabric::{Fabric, NodeId, SwitchId};
use crate::ids::Guid;
use crate::plan::Plan;
use crate::wire::attr::tables::SlToVl;
use std::collections::{BTreeMap, HashMap};

/// A mapping of a switch: that of packets from one port to another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MappedPorts {
    pub input: u8,
    pub output: u8,
}

/// Mappings by switch. `None` for one that was asked for without a usable answer; it counts as the
/// mapping of all SLs to VL 0.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HeldMappings {
    switches: HashMap<Guid, BTreeMap<MappedPorts, Option<SlToVl>>>,
}

impl HeldMappings {
    /// Records the answer of a switch.
    pub fn record(&mut self, switch: Guid, pair: MappedPorts, map: Option<SlToVl>) {
        self.switches.entry(switch).or_default().insert(pair, map);
    }

    /// Adds the answers of `newer`, which replace earlier ones.
    pub fn update(&mut self, newer: Self) {
        for (switch, maps) in newer.switches {
            self.switches.entry(switch).or_default().extend(maps);
        }
    }

    /// Forgets the mappings of these nodes, which may have been restarted.
    pub fn forget(&mut self, nodes: &[Guid]) {
        nodes.iter().for_each(|node| {
            self.switches.remove(node);
        });
    }

    /// The number of mappings that are known.
    pub fn known(&self) -> usize {
        self.switches.values().flat_map(BTreeMap::values).flatten().count()
    }

    /// The number of switches with a mapping that could not be read.
    pub fn unread_switches(&self) -> usize {
        self.switches.values().filter(|maps| maps.values().any(Option::is_none)).count()
    }

    /// The mappings that a check uses and that are not known: from each port in use to each port
    /// that is cabled to another switch.
    pub fn missing(&self, fabric: &Fabric) -> Vec<(NodeId, MappedPorts)> {
        let mut missing = Vec::new();
        for switch in fabric.switch_ids() {
            let node = fabric.switches()[switch.index()];
            let known = self.switches.get(&fabric.node(node).guid());
            for output in
                ports_in_use(fabric, switch).filter(|&num| leads_to_switch(fabric, switch, num))
            {
                let pairs = ports_in_use(fabric, switch).map(|input| MappedPorts { input, output });
                let unknown = pairs.filter(|pair| {
                    !known.is_some_and(|maps| matches!(maps.get(pair), Some(Some(_))))
                });
                missing.extend(unknown.map(|pair| (node, pair)));
            }
        }
        missing
    }

    /// The mappings of a switch as rows of a plan. Those that were not asked for yet are left out.
    pub(super) fn rows(&self, switch: Guid) -> Vec<(u8, u8, SlToVl)> {
        let maps = self.switches.get(&switch).into_iter().flatten();
        let on_vl_0 = SlToVl::new([0; 16]);
        maps.map(|(pair, map)| (pair.input, pair.output, map.unwrap_or(on_vl_0))).collect()
    }
}

/// True if the engine keeps paths free of credit loops by SLs, but the plan has no SL to VL mappings
/// (`qos` is FALSE), so that those of the switches decide.
pub fn are_needed(plan: &Plan) -> bool {
    plan.qos.sl_to_vl.iter().all(|rows| rows.is_empty())
        && plan.routing.policy.separates_paths_by_sl()
}

/// Port 0 and the cabled ports of a switch.
fn ports_in_use(fabric: &Fabric, switch: SwitchId) -> impl Iterator<Item = u8> + '_ {
    let ports = 0..=fabric.switch(switch).num_ports();
    ports.filter(move |&num| num == 0 || peer_is_switch(fabric, switch, num).is_some())
}

fn leads_to_switch(fabric: &Fabric, switch: SwitchId, num: u8) -> bool {
    peer_is_switch(fabric, switch, num) == Some(true)
}

/// Whether the peer of a port is a switch; `None` without a peer.
fn peer_is_switch(fabric: &Fabric, switch: SwitchId, num: u8) -> Option<bool> {
    let peer = fabric.switch_port(switch, num.into()).and_then(|port| fabric.port(port).peer)?;
    Some(fabric.node_of(peer).is_switch())
}
