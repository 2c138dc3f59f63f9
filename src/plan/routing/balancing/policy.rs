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
    pub(super) avoids_loops: bool,
    pub(super) may_omit_switch_routes: bool,
    pub(super) may_use_uncabled_ports: bool,
    pub(super) unrouted_remedy: Option<&'static str>,
    pub(super) dumps: Vec<Dump>,
    pub(super) structure: EngineStructure,
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
        self.avoids_loops
    }

    fn may_omit_switch_routes(&self) -> bool {
        self.may_omit_switch_routes
    }

    fn may_use_uncabled_ports(&self) -> bool {
        self.may_use_uncabled_ports
    }

    fn unrouted_remedy(&self) -> &'static str {
        self.unrouted_remedy.unwrap_or(DEFAULT_UNROUTED_REMEDY)
    }

    fn dumps(&self, fabric: &Fabric, lids: &LidTable) -> Vec<Dump> {
        let matrix = lid_matrix::dump(fabric, lids, self.hop_weights(), self.rule());
        self.dumps.iter().cloned().chain(matrix).collect()
    }

    fn structure(&self) -> EngineStructure {
        self.structure.clone()
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
