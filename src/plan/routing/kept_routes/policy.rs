//! The policy of an engine whose routes are kept for a fabric that it cannot route.

use super::renumbering::Renumbering;
use super::{RoutedFabric, is_in_place};
use crate::config::guid_lists::HopWeight;
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::{Lid, Mlid, PortNum, Sl};
use crate::plan::LidTable;
use crate::plan::routing::port_hops::PortHops;
use crate::plan::routing::structure::EngineStructure;
use crate::plan::routing::{Dump, MulticastTree, RoutedPart, Routing, RoutingPolicy};
use crate::wire::attr::tables::{SlToVl, VlArbBlock};
use std::sync::Arc;

/// SL group of all end ports that the engine did not route.
const UNROUTED_GROUP: u32 = u32::MAX;

/// The policy of the engine, whose ids are those of the routed fabric.
pub(super) struct KeptPolicy {
    routed_fabric: Arc<Fabric>,
    routing: Arc<Routing>,
    map: Renumbering,
    /// By port slot of the present fabric: an end port that is attached where the engine routed it.
    is_routed: Vec<bool>,
    /// By port slot of the present fabric: the switch and port to which an end port of another
    /// node type is attached.
    attachments: Vec<Option<(SwitchId, PortNum)>>,
}

impl KeptPolicy {
    pub(super) fn new(routed: &RoutedFabric<'_>, fabric: &Fabric, map: Renumbering) -> Self {
        let mut is_routed = vec![false; fabric.ports().len()];
        let mut attachments = vec![None; fabric.ports().len()];
        for port in fabric.end_ports() {
            is_routed[port.index()] =
                map.routed_port(port).is_some() && is_in_place(fabric, &map, port);
            if let Some(far) = fabric.port(port).peer {
                let switch = fabric.node_of(far).switch;
                attachments[port.index()] = switch.map(|switch| (switch, fabric.port(far).num));
            }
        }
        Self {
            routed_fabric: routed.fabric.clone(),
            routing: routed.routing.clone(),
            map,
            is_routed,
            attachments,
        }
    }

    fn inner(&self) -> &dyn RoutingPolicy {
        &*self.routing.policy
    }

    /// The port of the routed fabric; `None` for a new one, and for an end port elsewhere.
    fn end_port(&self, port: PortId) -> Option<PortId> {
        self.map.routed_port(port).filter(|_| self.has_routes(port))
    }

    /// The port that a member of a group has in the routed fabric. Port 0 of its switch stands for
    /// an end port that the engine did not route.
    fn member(&self, member: PortId) -> Option<PortId> {
        self.end_port(member).or_else(|| {
            let (switch, _) = self.attachments.get(member.index()).copied().flatten()?;
            let switch = self.map.routed_switch(switch)?;
            Some(self.routed_fabric.switch(switch).first_port)
        })
    }

    /// Replaces port 0 of the switches of new members by the ports to these members.
    fn attach_new(&self, members: &[PortId], tree: &mut MulticastTree) {
        let new = members.iter().filter(|&&member| self.end_port(member).is_none());
        let exits: Vec<(SwitchId, PortNum)> =
            new.filter_map(|member| self.attachments.get(member.index()).copied()?).collect();
        for (switch, mask) in &mut tree.switches {
            let switch = *switch;
            let port_0 = self
                .map
                .routed_switch(switch)
                .map(|routed| self.routed_fabric.switch(routed).first_port);
            let is_member =
                port_0.is_some() && members.iter().any(|&member| self.end_port(member) == port_0);
            if !is_member && exits.iter().any(|(at, _)| *at == switch) {
                mask.remove(0);
            }
            let own = exits.iter().filter(|(at, _)| *at == switch);
            own.for_each(|(_, exit)| mask.insert(exit.0));
        }
    }

    /// True if a tree in ids of the routed fabric uses cables that are still there.
    fn has_cables(&self, tree: &MulticastTree) -> bool {
        tree.switches.iter().all(|(routed, mask)| {
            let first = self.routed_fabric.switch(*routed).first_port;
            mask.iter().filter(|&num| num > 0).all(|num| {
                let port = self.routed_fabric.port(PortId(first.0 + u32::from(num)));
                port.peer.is_some() && self.map.keeps_cable(*routed, num)
            })
        })
    }
}

impl RoutingPolicy for KeptPolicy {
    fn path_sl(&self, source: PortId, destination: PortId, hint: Sl) -> Sl {
        match (self.end_port(source), self.end_port(destination)) {
            (Some(source), Some(destination)) => self.inner().path_sl(source, destination, hint),
            _ => hint,
        }
    }

    fn path_sl_to_lid(&self, source: PortId, destination: PortId, lid: Lid, hint: Sl) -> Sl {
        match (self.end_port(source), self.end_port(destination)) {
            (Some(source), Some(to)) => self.inner().path_sl_to_lid(source, to, lid, hint),
            _ => hint,
        }
    }

    /// Port numbers decide, wherever the cables lead now.
    fn sl_to_vl(&self, input: PortId, output: PortId) -> Option<SlToVl> {
        self.inner().sl_to_vl(self.map.routed_port(input)?, self.map.routed_port(output)?)
    }

    fn decides_sl_to_vl(&self) -> bool {
        self.inner().decides_sl_to_vl()
    }

    fn vl_arbitration_warning(&self, port: PortId, weights: &[u32; 16]) -> Option<&'static str> {
        self.inner().vl_arbitration_warning(self.map.routed_port(port)?, weights)
    }

    fn vl_arbitration(&self, port: PortId, configured: VlArbBlock) -> VlArbBlock {
        match self.map.routed_port(port) {
            Some(port) => self.inner().vl_arbitration(port, configured),
            None => configured,
        }
    }

    /// The tree of the engine while all its cables are there.
    fn multicast_tree(&self, mlid: Mlid, members: &[PortId]) -> Option<MulticastTree> {
        let routed: Option<Vec<PortId>> =
            members.iter().map(|&member| self.member(member)).collect();
        let mut tree = self.inner().multicast_tree(mlid, &routed?)?;
        if !self.has_cables(&tree) {
            return None;
        }
        for (switch, _) in &mut tree.switches {
            *switch = self.map.present_switch(*switch)?;
        }
        tree.switches.sort_unstable_by_key(|&(switch, _)| switch);
        self.attach_new(members, &mut tree);
        Some(tree)
    }

    fn hop_weights(&self) -> &[HopWeight] {
        self.inner().hop_weights()
    }

    fn port_hops(&self) -> Option<&PortHops> {
        self.inner().port_hops().filter(|_| self.map.is_identity())
    }

    fn sl_group(&self, port: PortId) -> u32 {
        self.end_port(port).map_or(UNROUTED_GROUP, |port| self.inner().sl_group(port))
    }

    fn destination_group(&self, port: PortId, lid: Lid) -> u32 {
        self.end_port(port).map_or(UNROUTED_GROUP, |port| self.inner().destination_group(port, lid))
    }

    fn guarantees_no_credit_loops(&self) -> bool {
        self.inner().guarantees_no_credit_loops()
    }

    fn avoids_credit_loops(&self) -> bool {
        self.inner().avoids_credit_loops()
    }

    fn multicast_sl_problem(&self, sl: Sl) -> Option<&'static str> {
        self.inner().multicast_sl_problem(sl)
    }

    fn unrouted_remedy(&self) -> &'static str {
        self.inner().unrouted_remedy()
    }

    fn may_omit_switch_routes(&self) -> bool {
        self.inner().may_omit_switch_routes()
    }

    /// Kept entries lead to dead cables, too.
    fn may_use_uncabled_ports(&self) -> bool {
        true
    }

    fn has_routes(&self, port: PortId) -> bool {
        self.is_routed.get(port.index()).copied().unwrap_or(false)
    }

    fn lists_own_routes(&self) -> bool {
        self.inner().lists_own_routes()
    }

    fn dumps(&self, fabric: &Fabric, lids: &LidTable) -> Vec<Dump> {
        if self.map.is_identity() { self.inner().dumps(fabric, lids) } else { Vec::new() }
    }

    fn standing_dumps(&self) -> Vec<Dump> {
        if self.map.is_identity() { self.inner().standing_dumps() } else { Vec::new() }
    }

    fn structure(&self) -> EngineStructure {
        let mut structure = self.inner().structure();
        structure.roots =
            structure.roots.iter().filter_map(|&root| self.map.present_switch(root)).collect();
        structure
    }

    fn parts<'a>(&'a self, fabric: &'a Fabric, lids: &'a LidTable) -> Vec<RoutedPart<'a>> {
        if self.map.is_identity() { self.inner().parts(fabric, lids) } else { Vec::new() }
    }

    /// The policy of the engine, unless its ids are those of another fabric.
    fn as_any(&self) -> &dyn std::any::Any {
        if self.map.is_identity() { self.inner().as_any() } else { self }
    }
}
