//! Routing chains: parts of the fabric routed one after the other, each by its own engine (MLNX
//! OpenSM, "Routing Chains").
//!
//! The first step routes the whole fabric. Each further step routes the fabric of its topology: the
//! switches and ports of one group, and the hosts of another. Its routes replace the earlier ones at
//! its switches, for the LIDs of its switches and hosts, so that the last step has the last word. A
//! step with a path bit routes one LID of each port only; LIDs of switches have no offset.
//!
//! If the engine of a step fails, its fallback steps are tried in the order of their IDs. Without
//! one that routes, the part keeps the routes of earlier steps, with a warning; if the first step
//! fails, the chain fails.
//!
//! * `port_sets`: the ports of the configured groups;
//! * `part`: a step with the fabric of its topology, and its result;
//! * `policy`: path SLs, SL to VL mappings and dumps of the combined routes.
//!
//! The combined routes are verified as a whole. If the engines of all steps guarantee routes without
//! credit loops, so does the chain, and a loop across parts rejects the plan with the cycle. Else the
//! loop is a warning, as for a step's engine alone.

mod part;
mod policy;
pub(in crate::plan) mod port_sets;

pub use policy::ChainPolicy;

use super::{Engine, Lft, Routing, RoutingError, RoutingInput};
use crate::config::routing_chain::{ConfiguredStep, ENGINE, RoutingChain};
use crate::notes::{Note, Severity};
use part::{Area, StepResult};
use port_sets::PortSets;
use std::sync::Arc;

/// The engine, with its files and the engines of its steps.
#[derive(Default)]
pub struct UnicastSteps {
    /// The policy files or the errors in them; `None` if the engine is not configured.
    chain: Option<Arc<Result<RoutingChain, Vec<Note>>>>,
    /// By step: its engine.
    engines: Vec<Option<Arc<dyn Engine>>>,
}

impl UnicastSteps {
    /// `engines` has the engine of each step of `chain`.
    pub fn new(
        chain: Arc<Result<RoutingChain, Vec<Note>>>,
        engines: Vec<Option<Arc<dyn Engine>>>,
    ) -> Self {
        Self { chain: Some(chain), engines }
    }
}

fn refused(notes: Vec<Note>) -> RoutingError {
    RoutingError { engine: ENGINE, notes, dump: None }
}

fn error(text: impl Into<String>) -> Note {
    Note::new(Severity::Error, None, text)
}

impl Engine for UnicastSteps {
    fn name(&self) -> &'static str {
        ENGINE
    }

    fn route(&self, input: &RoutingInput<'_>) -> Result<Routing, RoutingError> {
        let chain = match self.chain.as_deref() {
            Some(Ok(chain)) => chain,
            Some(Err(notes)) => return Err(refused(notes.clone())),
            None => return Err(refused(vec![error("the routing chain has not been read")])),
        };
        let ports = PortSets::new(&chain.groups, input.fabric);
        let mut run = Run { input, chain, engines: &self.engines, notes: ports.notes().to_vec() };
        let steps = run.steps(&ports).map_err(refused)?;
        let lfts = combine(input, &steps);
        let policy = ChainPolicy::new(input.fabric, input.lids, steps);
        Ok(Routing {
            engine: ENGINE,
            lfts,
            policy: Arc::new(policy),
            notes: run.notes,
            routing_errors: Vec::new(),
        })
    }
}

/// One routing of all steps.
struct Run<'a> {
    input: &'a RoutingInput<'a>,
    chain: &'a RoutingChain,
    engines: &'a [Option<Arc<dyn Engine>>],
    notes: Vec<Note>,
}

impl Run<'_> {
    /// Routes all steps. The results are in the order in which they apply.
    ///
    /// # Errors
    /// Returns all notes if the first step fails.
    fn steps(&mut self, ports: &PortSets) -> Result<Vec<StepResult>, Vec<Note>> {
        let mut results: Vec<StepResult> = Vec::new();
        let all = self.chain.steps.iter().zip(self.engines);
        for (configured, _) in all.filter(|(configured, _)| configured.step.fallback_to.is_none()) {
            let id = configured.step.id;
            let is_first = results.is_empty();
            let tried = self.step_or_fallbacks(id, ports);
            let is_routed = tried.iter().any(|result| result.routing.is_some());
            results.extend(tried);
            if is_routed {
                continue;
            }
            if is_first {
                let text = format!("step {id} cannot route the fabric, and no fallback can");
                self.notes.insert(0, error(text));
                return Err(std::mem::take(&mut self.notes));
            }
            self.notes.push(Note::warning(format!(
                "step {id} has no routes; its part keeps the routes of earlier steps"
            )));
        }
        Ok(results)
    }

    /// Tries a step, then its fallbacks, until one routes.
    fn step_or_fallbacks(&mut self, id: u64, ports: &PortSets) -> Vec<StepResult> {
        let chain = self.chain;
        let engines = self.engines;
        let steps = chain.steps.iter().zip(engines);
        let mut steps: Vec<_> =
            steps.filter(|(configured, _)| concerns_port_group(configured, id)).collect();
        // The step itself comes first, even if a fallback has a lower ID.
        steps.sort_by_key(|(configured, _)| configured.step.fallback_to.is_some());
        let mut results: Vec<StepResult> = Vec::new();
        for (configured, engine) in steps {
            let Some(engine) = engine else { continue };
            if let Some(result) = self.step(configured, &**engine, ports) {
                let is_routed = result.routing.is_some();
                results.push(result);
                if is_routed {
                    break;
                }
            }
        }
        results
    }

    /// Routes one step; `None` if its topology has no switch.
    fn step(
        &mut self,
        configured: &ConfiguredStep,
        engine: &dyn Engine,
        ports: &PortSets,
    ) -> Option<StepResult> {
        let step = &configured.step;
        let title = format!("step {} ({})", step.id, step.engine);
        let topology = step.topology.and_then(|index| self.chain.topologies.get(index));
        let Some(area) = Area::new(self.input, topology.map(|topology| ports.of(topology))) else {
            self.notes.push(Note::warning(format!("{title}: its topology has no switch")));
            return None;
        };
        let previous = previous(self.input, step.id, engine.name());
        let result = part::route(self.input, configured, engine, area, previous.as_deref());
        let found = match (&result.routing, &result.error) {
            (Some(routing), _) => &routing.notes[..],
            (None, Some(error)) => &error.notes[..],
            (None, None) => &[],
        };
        self.notes.extend(
            found.iter().map(|note| Note::new(note.severity, None, format!("{title}: {note}"))),
        );
        Some(result)
    }
}

fn concerns_port_group(configured: &ConfiguredStep, id: u64) -> bool {
    configured.step.id == id || configured.step.fallback_to == Some(id)
}

/// The forwarding tables: the entries of each step replace those of the steps before it.
fn combine(input: &RoutingInput<'_>, steps: &[StepResult]) -> Vec<Arc<Lft>> {
    let mut lfts: Vec<Arc<Lft>> = Vec::new();
    for result in steps {
        let Some(routing) = &result.routing else { continue };
        let Area::Part { part, lids, .. } = &result.area else {
            lfts = routing.lfts.clone();
            continue;
        };
        let wanted: Vec<_> =
            lids.iter().filter(|&(lid, port)| result.owns(lids, lid, port)).collect();
        for switch in input.fabric.switch_ids() {
            let Some(inner) = part.switch(switch) else { continue };
            let table = Arc::make_mut(&mut lfts[switch.index()]);
            for &(lid, _) in &wanted {
                if let Some(port) = routing.lft(inner).out(lid) {
                    table.set(lid, port);
                }
            }
        }
    }
    lfts
}

/// The routes of the same step by the same engine in the previous routing.
fn previous(input: &RoutingInput<'_>, id: u64, engine: &str) -> Option<Arc<Routing>> {
    let policy = input.previous?.policy.as_any().downcast_ref::<ChainPolicy>()?;
    policy.routing_of(id).filter(|routing| routing.engine == engine)
}
