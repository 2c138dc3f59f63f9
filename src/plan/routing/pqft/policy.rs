//! The policy of the engine: SLs and VLs are left to the configuration.

use crate::fabric::PortId;
use crate::plan::routing::RoutingPolicy;
use crate::plan::routing::structure::EngineStructure;

#[derive(Debug)]
pub(super) struct PqftPolicy {
    pub structure: EngineStructure,
}

impl RoutingPolicy for PqftPolicy {
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

    fn guarantees_no_credit_loops(&self) -> bool {
        true
    }

    /// Switches that are not above a leaf switch have no route to some others.
    fn may_omit_switch_routes(&self) -> bool {
        true
    }

    fn structure(&self) -> EngineStructure {
        self.structure.clone()
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
