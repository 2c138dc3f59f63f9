//! A step of a routing chain: the fabric of its topology, and the result of its engine.

use super::port_sets::PortSet;
use crate::config::routing_chain::ConfiguredStep;
use crate::fabric::part::FabricPart;
use crate::fabric::{PortId, SwitchId};
use crate::ids::Lid;
use crate::plan::LidTable;
use crate::plan::routing::{Engine, Routing, RoutingError, RoutingInput};
use std::sync::Arc;

/// The fabric that a step routes.
pub(super) enum Area {
    Whole,
    Part {
        part: Box<FabricPart>,
        /// LIDs by port of the part.
        lids: LidTable,
    },
}

impl Area {
    /// The whole fabric without `ports`, else the part with these ports; `None` if it has no switch.
    pub(super) fn new(input: &RoutingInput<'_>, ports: Option<PortSet>) -> Option<Self> {
        let Some(ports) = ports else { return Some(Self::Whole) };
        let fabric = input.fabric;
        let part = FabricPart::new(fabric, fabric.local(), |port| ports.contains(port))?;
        let mut lids = LidTable::new(part.fabric.ports().len());
        for port in part.fabric.end_ports() {
            let whole = part.whole(port);
            if let Some(base) = input.lids.base(whole) {
                lids.assign(port, base, input.lids.lmc(whole));
            }
        }
        Some(Self::Part { part: Box::new(part), lids })
    }

    /// The id of a port in the area.
    pub(super) fn port(&self, whole: PortId) -> Option<PortId> {
        match self {
            Self::Whole => Some(whole),
            Self::Part { part, .. } => part.port(whole),
        }
    }

    /// The id of a switch in the area.
    pub(super) fn switch(&self, whole: SwitchId) -> Option<SwitchId> {
        match self {
            Self::Whole => Some(whole),
            Self::Part { part, .. } => part.switch(whole),
        }
    }

    /// Port 0 of a switch of the area.
    pub(super) fn management_port(&self, switch: SwitchId) -> Option<PortId> {
        match self {
            Self::Whole => None,
            Self::Part { part, .. } => Some(part.fabric.switch(switch).first_port),
        }
    }
}

/// A step that was tried.
pub(super) struct StepResult {
    pub id: u64,
    pub engine: &'static str,
    pub path_bit: u8,
    pub area: Area,
    /// The routes of the area; `None` if the engine failed.
    pub routing: Option<Arc<Routing>>,
    pub error: Option<RoutingError>,
}

impl StepResult {
    /// True if the step routes this LID of a port. `lids` are those of the area.
    pub(super) fn owns(&self, lids: &LidTable, lid: Lid, port: PortId) -> bool {
        if matches!(self.area, Area::Whole) || lids.lmc(port) == 0 {
            return true;
        }
        let base = lids.base_or_zero(port);
        lid.0.wrapping_sub(base.0) == u16::from(self.path_bit)
    }
}

/// Routes the area of a step. `previous` are its routes before, by the same engine.
pub(super) fn route(
    input: &RoutingInput<'_>,
    configured: &ConfiguredStep,
    engine: &dyn Engine,
    area: Area,
    previous: Option<&Routing>,
) -> StepResult {
    let step = &configured.step;
    let options = configured.settings.over(input.options);
    let (fabric, lids) = match &area {
        Area::Whole => (input.fabric, input.lids),
        Area::Part { part, lids } => (&part.fabric, lids),
    };
    let routed = engine.route(&RoutingInput {
        fabric,
        lids,
        options: &options,
        torus_config: configured.torus_config.as_ref().unwrap_or(input.torus_config),
        previous,
        previous_fabric: None,
    });
    let (routing, error) = match routed {
        Ok(routing) => (Some(Arc::new(routing)), None),
        Err(error) => (None, Some(error)),
    };
    StepResult { id: step.id, engine: engine.name(), path_bit: step.path_bit, area, routing, error }
}
