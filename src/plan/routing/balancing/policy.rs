//! The policy of engines that use a single VL: SLs and VLs are left to the configuration.

use super::hops::HopRule;
use super::lid_matrix;
use super::topology_record::RoutingRecord;
use crate::config::guid_lists::HopWeight;
use crate::fabric::{Fabric, PortId};
use crate::plan::LidTable;
use crate::plan::routing::structure::EngineStructure;
use crate::plan::routing::{DEFAULT_UNROUTED_REMEDY, Dump, RoutingPolicy};
use std::sync::Arc;

/// The policy of minhop, updn, dnup and dor. It carries the record of the routed topology for the
/// next routing, and the rule by which multicast trees follow the hops of the engine.
#[derive(Debug)]
pub struct BalancedPolicy {
    pub(super) record: RoutingRecord,
    pub(super) rule: Arc<dyn HopRule>,
    pub(super) properties: RouteProperties,
}

/// Properties of an engine's routes that follow from its rules, not from the fabric.
#[derive(Debug, Default)]
pub struct RouteProperties {
    /// True if the rules of the engine are meant to exclude credit loops.
    pub avoids_loops: bool,
    /// True if switches without hosts may lack routes to each other.
    pub may_omit_switch_routes: bool,
    /// True if entries may lead to ports without a cable.
    pub may_use_uncabled_ports: bool,
    /// Advice about pairs of hosts without a route, if the engine has any of its own.
    pub unrouted_remedy: Option<&'static str>,
    /// Dump files of the engine beside that of the min hop tables.
    pub dumps: Vec<Dump>,
    pub structure: EngineStructure,
}

impl BalancedPolicy {
    /// How the engine computes hops.
    pub fn rule(&self) -> &dyn HopRule {
        &*self.rule
    }
}

impl RoutingPolicy for BalancedPolicy {
    /// One group for all ports, because the SL of a path is always the requested one.
    fn sl_group(&self, _port: PortId) -> u32 {
        0
    }

    /// Two of these policies never differ.
    fn changes_since(&self, before: &dyn RoutingPolicy) -> Option<Vec<PortId>> {
        before.as_any().is::<Self>().then(Vec::new)
    }

    fn same_path_sls_as(&self, before: &dyn RoutingPolicy) -> bool {
        before.as_any().is::<Self>()
    }

    fn hop_weights(&self) -> &[HopWeight] {
        &self.record.lists.hop_weights
    }

    fn avoids_credit_loops(&self) -> bool {
        self.properties.avoids_loops
    }

    fn may_omit_switch_routes(&self) -> bool {
        self.properties.may_omit_switch_routes
    }

    fn may_use_uncabled_ports(&self) -> bool {
        self.properties.may_use_uncabled_ports
    }

    fn unrouted_remedy(&self) -> &'static str {
        self.properties.unrouted_remedy.unwrap_or(DEFAULT_UNROUTED_REMEDY)
    }

    fn dumps(&self, fabric: &Fabric, lids: &LidTable) -> Vec<Dump> {
        let matrix = lid_matrix::dump(fabric, lids, self.hop_weights(), self.rule());
        self.properties.dumps.iter().cloned().chain(matrix).collect()
    }

    fn structure(&self) -> EngineStructure {
        self.properties.structure.clone()
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
