//! The policy of an engine whose routes are kept.

use super::UnicastCache;
use super::record::IdMap;
use crate::config::guid_lists::HopWeight;
use crate::fabric::{Fabric, PortId};
use crate::ids::{Lid, Mlid, Sl};
use crate::plan::LidTable;
use crate::plan::routing::port_hops::PortHops;
use crate::plan::routing::structure::EngineStructure;
use crate::plan::routing::{Dump, MulticastTree, RoutedPart, RoutingPolicy};
use crate::wire::attr::tables::{SlToVl, VlArbBlock};
use std::sync::Arc;

/// The policy of an engine with its cache. Ids are translated to those of the fabric for which the
/// engine ran, if the present one lacks nodes of it.
pub(super) struct CachedPolicy {
    cache: Arc<UnicastCache>,
    /// `None` if the ids are the same.
    map: Option<IdMap>,
}

impl CachedPolicy {
    pub(super) fn new(cache: Arc<UnicastCache>, map: Option<IdMap>) -> Self {
        Self { cache, map }
    }

    fn inner(&self) -> &dyn RoutingPolicy {
        &*self.cache.routing.policy
    }

    fn port(&self, port: PortId) -> PortId {
        self.map.as_ref().and_then(|map| map.port(port)).unwrap_or(port)
    }
}

impl RoutingPolicy for CachedPolicy {
    fn path_sl(&self, source: PortId, destination: PortId, hint: Sl) -> Sl {
        self.inner().path_sl(self.port(source), self.port(destination), hint)
    }

    fn path_sl_to_lid(&self, source: PortId, destination: PortId, lid: Lid, hint: Sl) -> Sl {
        self.inner().path_sl_to_lid(self.port(source), self.port(destination), lid, hint)
    }

    fn sl_to_vl(&self, input: PortId, output: PortId) -> Option<SlToVl> {
        self.inner().sl_to_vl(self.port(input), self.port(output))
    }

    fn decides_sl_to_vl(&self) -> bool {
        self.inner().decides_sl_to_vl()
    }

    fn vl_arbitration_warning(&self, port: PortId, weights: &[u32; 16]) -> Option<&'static str> {
        self.inner().vl_arbitration_warning(self.port(port), weights)
    }

    fn vl_arbitration(&self, port: PortId, configured: VlArbBlock) -> VlArbBlock {
        self.inner().vl_arbitration(self.port(port), configured)
    }

    /// The tree of the engine while all switches are present.
    fn multicast_tree(&self, mlid: Mlid, members: &[PortId]) -> Option<MulticastTree> {
        let Some(map) = &self.map else { return self.inner().multicast_tree(mlid, members) };
        if !map.has_all_switches() {
            return None;
        }
        let members: Vec<PortId> = members.iter().map(|&member| self.port(member)).collect();
        let mut tree = self.inner().multicast_tree(mlid, &members)?;
        for (switch, _) in &mut tree.switches {
            *switch = map.present(*switch)?;
        }
        Some(tree)
    }

    fn port_hops(&self) -> Option<&PortHops> {
        self.inner().port_hops().filter(|_| self.map.is_none())
    }

    fn sl_group(&self, port: PortId) -> u32 {
        self.inner().sl_group(self.port(port))
    }

    fn destination_group(&self, port: PortId, lid: Lid) -> u32 {
        self.inner().destination_group(self.port(port), lid)
    }

    fn changes_since(&self, before: &dyn RoutingPolicy) -> Option<Vec<PortId>> {
        self.map.is_none().then(|| self.inner().changes_since(before))?
    }

    fn same_path_sls_as(&self, before: &dyn RoutingPolicy) -> bool {
        self.map.is_none() && self.inner().same_path_sls_as(before)
    }

    fn same_multicast_trees_as(&self, before: &dyn RoutingPolicy) -> bool {
        self.map.is_none() && self.inner().same_multicast_trees_as(before)
    }

    fn hop_weights(&self) -> &[HopWeight] {
        self.inner().hop_weights()
    }

    fn guarantees_no_credit_loops(&self) -> bool {
        self.inner().guarantees_no_credit_loops()
    }

    fn avoids_credit_loops(&self) -> bool {
        self.inner().avoids_credit_loops()
    }

    fn unrouted_remedy(&self) -> &'static str {
        self.inner().unrouted_remedy()
    }

    fn may_omit_switch_routes(&self) -> bool {
        self.inner().may_omit_switch_routes()
    }

    fn may_use_uncabled_ports(&self) -> bool {
        self.inner().may_use_uncabled_ports()
    }

    fn lists_own_routes(&self) -> bool {
        self.inner().lists_own_routes()
    }

    fn dumps(&self, fabric: &Fabric, lids: &LidTable) -> Vec<Dump> {
        if self.map.is_some() { Vec::new() } else { self.inner().dumps(fabric, lids) }
    }

    fn standing_dumps(&self) -> Vec<Dump> {
        if self.map.is_some() { Vec::new() } else { self.inner().standing_dumps() }
    }

    fn structure(&self) -> EngineStructure {
        match self.map {
            Some(_) => EngineStructure::default(),
            None => self.inner().structure(),
        }
    }

    fn qos_level(&self, sl: Sl) -> Sl {
        self.inner().qos_level(sl)
    }

    fn separates_paths_by_sl(&self) -> bool {
        self.inner().separates_paths_by_sl()
    }

    fn parts<'a>(&'a self, fabric: &'a Fabric, lids: &'a LidTable) -> Vec<RoutedPart<'a>> {
        if self.map.is_some() { Vec::new() } else { self.inner().parts(fabric, lids) }
    }

    fn unicast_cache(&self) -> Option<&Arc<UnicastCache>> {
        Some(&self.cache)
    }

    /// The policy of the engine, unless its ids are those of another fabric.
    fn as_any(&self) -> &dyn std::any::Any {
        if self.map.is_some() { self } else { self.inner().as_any() }
    }
}
