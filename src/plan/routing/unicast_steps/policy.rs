//! The policy of a routing chain: each path has the SL of the step that routes it.

use super::part::{Area, StepResult};
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::{Lid, Sl};
use crate::plan::LidTable;
use crate::plan::routing::{Dump, RoutedPart, Routing, RoutingPolicy, step_file};
use crate::wire::attr::tables::{SlToVl, VlArbBlock};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

/// The policy of a routing chain.
pub struct ChainPolicy {
    /// In the order in which they apply, failed ones included.
    steps: Vec<StepResult>,
    /// By port of the fabric: the switch behind it.
    switches: Vec<Option<SwitchId>>,
    base_lids: Vec<Lid>,
    /// By port and by LID: classes of sources and of destinations with equal SLs.
    sources: Vec<u32>,
    destinations: Vec<u32>,
}

/// Numbers equal values alike, in the order of their first appearance.
struct Classes<T>(HashMap<T, u32>);

impl<T: Eq + Hash> Classes<T> {
    fn of(&mut self, value: T) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(value).or_insert(next)
    }
}

/// The position of a port or LID for a step: its class there; `None` outside of the area.
type StepClass = Option<u32>;

impl ChainPolicy {
    pub(super) fn new(fabric: &Fabric, lids: &LidTable, steps: Vec<StepResult>) -> Self {
        let base_lids = fabric.port_ids().map(|port| lids.base_or_zero(port));
        let mut policy = Self {
            switches: fabric.port_ids().map(|port| fabric.switch_behind(port)).collect(),
            base_lids: base_lids.collect(),
            sources: Vec::new(),
            destinations: vec![0; lids.max().index() + 1],
            steps,
        };
        let mut classes = Classes(HashMap::new());
        policy.sources =
            fabric.port_ids().map(|port| classes.of(policy.source_classes(port))).collect();
        let mut classes = Classes(HashMap::new());
        // LIDs without a port have class 0.
        classes.of(Vec::new());
        for (lid, port) in lids.iter() {
            policy.destinations[lid.index()] = classes.of(policy.destination_classes(port, lid));
        }
        policy
    }

    /// The routes of a step.
    pub(super) fn routing_of(&self, id: u64) -> Option<Arc<Routing>> {
        let step = self.steps.iter().find(|step| step.id == id)?;
        step.routing.clone()
    }

    fn routed(&self) -> impl DoubleEndedIterator<Item = (&StepResult, &Routing)> {
        self.steps.iter().filter_map(|step| Some((step, &**step.routing.as_ref()?)))
    }

    /// The port from which a step knows the paths of a source: the source itself, else its switch.
    fn source_at(&self, area: &Area, port: PortId) -> Option<PortId> {
        let switch = area.switch((*self.switches.get(port.index())?)?)?;
        area.port(port).or_else(|| area.management_port(switch))
    }

    fn source_classes(&self, port: PortId) -> Vec<StepClass> {
        self.routed()
            .map(|(step, routing)| Some(routing.policy.sl_group(self.source_at(&step.area, port)?)))
            .collect()
    }

    fn destination_classes(&self, port: PortId, lid: Lid) -> Vec<StepClass> {
        self.routed()
            .map(|(step, routing)| {
                let inner = step.destination(port, lid)?;
                Some(routing.policy.destination_group(inner, lid))
            })
            .collect()
    }
}

impl StepResult {
    /// The id in the area of a destination port, if the step routes this LID of it.
    fn destination(&self, port: PortId, lid: Lid) -> Option<PortId> {
        let inner = self.area.port(port)?;
        match &self.area {
            Area::Whole => Some(inner),
            Area::Part { lids, .. } => {
                (lids.base(inner).is_some() && self.owns(lids, lid, inner)).then_some(inner)
            }
        }
    }
}

impl RoutingPolicy for ChainPolicy {
    fn path_sl(&self, source: PortId, destination: PortId, hint: Sl) -> Sl {
        let lid = self.base_lids.get(destination.index()).copied().unwrap_or(Lid(0));
        self.path_sl_to_lid(source, destination, lid, hint)
    }

    /// That of the last step which contains the switch of the source and routes the LID.
    fn path_sl_to_lid(&self, source: PortId, destination: PortId, lid: Lid, hint: Sl) -> Sl {
        let sl = self.routed().rev().find_map(|(step, routing)| {
            let from = self.source_at(&step.area, source)?;
            let to = step.destination(destination, lid)?;
            Some(routing.policy.path_sl_to_lid(from, to, lid, hint))
        });
        sl.unwrap_or(hint)
    }

    /// That of the last step with both ports that has a mapping for them.
    fn sl_to_vl(&self, input: PortId, output: PortId) -> Option<SlToVl> {
        self.routed().rev().find_map(|(step, routing)| {
            let input = step.area.port(input)?;
            let output = step.area.port(output)?;
            routing.policy.sl_to_vl(input, output)
        })
    }

    fn vl_arbitration_warning(&self, port: PortId, weights: &[u32; 16]) -> Option<&'static str> {
        self.routed().rev().find_map(|(step, routing)| {
            routing.policy.vl_arbitration_warning(step.area.port(port)?, weights)
        })
    }

    fn vl_arbitration(&self, port: PortId, configured: VlArbBlock) -> VlArbBlock {
        let mut deciding = self.routed().rev().filter_map(|(step, routing)| {
            let port = step.area.port(port)?;
            routing.policy.decides_sl_to_vl().then_some((port, routing))
        });
        match deciding.next() {
            Some((port, routing)) => routing.policy.vl_arbitration(port, configured),
            None => configured,
        }
    }

    fn sl_group(&self, port: PortId) -> u32 {
        self.sources.get(port.index()).copied().unwrap_or(0)
    }

    fn destination_group(&self, _port: PortId, lid: Lid) -> u32 {
        self.destinations.get(lid.index()).copied().unwrap_or(0)
    }

    /// True if the engines of all parts promise it; parts routed by others may close loops, as
    /// these engines alone may.
    fn guarantees_no_credit_loops(&self) -> bool {
        self.routed().all(|(_, routing)| routing.policy.guarantees_no_credit_loops())
    }

    fn avoids_credit_loops(&self) -> bool {
        self.routed().all(|(_, routing)| routing.policy.avoids_credit_loops())
    }

    fn may_omit_switch_routes(&self) -> bool {
        self.routed().any(|(_, routing)| routing.policy.may_omit_switch_routes())
    }

    fn may_use_uncabled_ports(&self) -> bool {
        self.routed().any(|(_, routing)| routing.policy.may_use_uncabled_ports())
    }

    /// The dumps of each engine, named by step and engine.
    fn dumps(&self, fabric: &Fabric, lids: &LidTable) -> Vec<Dump> {
        let mut dumps = Vec::new();
        for part in self.parts(fabric, lids) {
            let failed = part.error.and_then(|error| error.dump.clone());
            let routed = part.routing.map(|routing| routing.policy.dumps(part.fabric, part.lids));
            let found = routed.into_iter().flatten().chain(failed);
            dumps.extend(found.map(|dump| Dump { file: part.file(&dump.file).into(), ..dump }));
        }
        dumps
    }

    fn standing_dumps(&self) -> Vec<Dump> {
        self.routed()
            .flat_map(|(step, routing)| {
                let id = step.id;
                let engine = step.engine;
                let dumps = routing.policy.standing_dumps().into_iter();
                dumps.map(move |dump| Dump {
                    file: step_file(id, engine, &dump.file).into(),
                    ..dump
                })
            })
            .collect()
    }

    fn separates_paths_by_sl(&self) -> bool {
        let routings = self.steps.iter().filter_map(|step| step.routing.as_deref());
        routings.into_iter().any(|routing| routing.policy.separates_paths_by_sl())
    }

    fn parts<'a>(&'a self, fabric: &'a Fabric, lids: &'a LidTable) -> Vec<RoutedPart<'a>> {
        let parts = self.steps.iter().map(|step| {
            let (fabric, lids) = match &step.area {
                Area::Whole => (fabric, lids),
                Area::Part { part, lids } => (&part.fabric, lids),
            };
            RoutedPart {
                id: step.id,
                engine: step.engine,
                fabric,
                lids,
                routing: step.routing.as_deref(),
                error: step.error.as_ref(),
            }
        });
        parts.collect()
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
