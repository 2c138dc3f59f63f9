//! Incremental planning after a small change of the fabric.
//!
//! A [`PlanBaseline`] is a plan together with its input. [`update`] takes a baseline and new input,
//! and gives the same result as [`compute()`] with the baseline's plan as the previous one.
//!
//! Invariant: every entry of the result equals the entry that [`compute()`] gives. Each stage keeps
//! an entry of the baseline only if nothing the entry depends on differs between the two snapshots;
//! a stage whose input changed as a whole is computed from scratch. All stages are
//! computed from scratch if nodes appeared or disappeared, or if options or LIDs changed.

use super::compute::{
    self, Assigned, PlanError, PlanInput, PlanParts, Planned, StageResults, compute,
};
use super::lids::{self, Memory};
use super::multicast::{self, GroupMembers, MulticastTables};
use super::partitions::removed_pkeys::RemovedPkeys;
use super::partitions::{self, Partition, PartitionTables};
use super::qos::setup::QosSetup;
use super::qos::{self, QosSources, QosTables};
use super::routing::{PreviousFabric, Routing, RoutingError, vport_lids};
use super::{LidTable, Plan, links};
use crate::config::options::Options;
use crate::fabric::difference::Difference;
use crate::fabric::{Fabric, PortId};
use crate::ids::PortNum;
use crate::notes::Note;
use crate::plan::port_targets::PortTargets;
use crate::wire::attr::tables::PkeyBlock;
use crate::wire::attr::tables::PkeyTable;
use rayon::prelude::*;
use std::sync::Arc;

/// A plan and its input, from which later plans are derived.
#[derive(Clone, Debug)]
pub struct PlanBaseline {
    /// The snapshot that was planned.
    pub fabric: Arc<Fabric>,
    pub plan: Arc<Plan>,
    options: Arc<Options>,
    partitions: Arc<Vec<Partition>>,
    observed_pkeys: Arc<Vec<PkeyTable>>,
    /// The memory before the plan and after it.
    memory: [Memory; 2],
    stage_results: StageResults,
    end_ports: Vec<PortId>,
    /// End ports for which the plan sets ClientReregister.
    reregistering: Vec<PortId>,
}

/// The input of a plan, as far as a [`PlanBaseline`] keeps it.
#[derive(Clone, Debug)]
pub struct BaselineInputs {
    /// The snapshot that was planned.
    pub fabric: Arc<Fabric>,
    pub options: Arc<Options>,
    pub partitions: Arc<Vec<Partition>>,
    /// The P_Key table blocks read from the devices, by port slot.
    pub observed_pkeys: Arc<Vec<PkeyTable>>,
    /// The memory before the plan.
    pub memory: Memory,
}

impl PlanBaseline {
    /// Creates a baseline from a plan, its input and the `state` that [`Planned::split`] returned
    /// with it.
    pub fn new(inputs: BaselineInputs, state: BaselineState, plan: Arc<Plan>) -> Self {
        let BaselineInputs { fabric, options, partitions, observed_pkeys, memory } = inputs;
        let end_ports: Vec<PortId> = fabric.end_ports().collect();
        let reregistering = end_ports
            .iter()
            .filter(|port| {
                let target = plan.ports.of(**port);
                target.is_some_and(|info| info.client_reregister())
            })
            .copied()
            .collect();
        Self {
            fabric,
            plan,
            options,
            partitions,
            observed_pkeys,
            memory: [memory, state.memory],
            stage_results: state.stage_results,
            end_ports,
            reregistering,
        }
    }
}

impl PlanBaseline {
    /// The result of LID assignment, if it started from the same memory.
    fn remembered(&self, memory: &Memory) -> Option<(Memory, Vec<Note>)> {
        let [before, after] = &self.memory;
        (memory == before).then(|| (after.clone(), self.stage_results.lids.clone()))
    }

    /// True if a baseline of `plan` and `inputs` would equal this one, so that it can be kept.
    pub fn still_holds(&self, inputs: &BaselineInputs, plan: &Plan) -> bool {
        let own = &*self.plan;
        let lfts = own.routing.lfts.iter().zip(&plan.routing.lfts);
        *self.options == *inputs.options
            && self.partitions == inputs.partitions
            && self.memory[0] == inputs.memory
            && Difference::between(&self.fabric, &inputs.fabric).is_some_and(|d| d.is_empty())
            && same_pkeys(&self.observed_pkeys, &inputs.observed_pkeys)
            && own.routing.lfts.len() == plan.routing.lfts.len()
            && lfts.into_iter().all(|(one, two)| Arc::ptr_eq(one, two))
            && own.ports == plan.ports
            && own.qos == plan.qos
            && own.multicast == plan.multicast
    }
}

/// The part of [`Planned`] other than the plan, kept while the plan is verified.
#[derive(Clone, Debug)]
pub struct BaselineState {
    /// Memory for the next plan.
    pub memory: Memory,
    stage_results: StageResults,
}

impl Planned {
    /// Separates the plan, which goes to verification, from the state of its baseline.
    pub fn split(self) -> (Plan, BaselineState) {
        (self.plan, BaselineState { memory: self.memory, stage_results: self.stage_results })
    }
}

/// Plans a fabric incrementally, with the plan of `baseline` as the previous one. Also returns the
/// difference between the two snapshots; `None` if they cannot be compared.
///
/// # Errors
/// See [`compute()`].
pub fn update(
    input: &PlanInput<'_>,
    baseline: &PlanBaseline,
) -> (Result<Planned, Box<PlanError>>, Option<Difference>) {
    let input = &PlanInput { previous: Some(&baseline.plan), ..*input };
    let (difference, remembered) = rayon::join(
        || Difference::between(&baseline.fabric, input.fabric),
        || baseline.remembered(input.memory),
    );
    let alike = difference
        .as_ref()
        .filter(|difference| difference.nodes.is_empty() && *input.options == *baseline.options);
    let update = alike.map(|difference| Update { input, baseline, difference });
    let assigned = update.as_ref().and_then(|update| update.lids(remembered));
    let planned = match update.zip(assigned) {
        Some((update, assigned)) => update.run(assigned),
        None => compute(input),
    };
    (planned, difference)
}

struct Update<'a> {
    input: &'a PlanInput<'a>,
    baseline: &'a PlanBaseline,
    difference: &'a Difference,
}

impl Update<'_> {
    /// The result of LID assignment; `None` if any LID of a physical port differs from the baseline's,
    /// or that of a vport on a fabric that must be routed again.
    fn lids(&self, remembered: Option<(Memory, Vec<Note>)>) -> Option<Assigned> {
        let input = self.input;
        let baseline = self.baseline;
        if remembered.is_some()
            && !self.difference.ports.iter().any(|a| is_end_port(input.fabric, a))
        {
            let lids = baseline.plan.lids.clone();
            return remembered.map(|(memory, notes)| Assigned { lids, memory, notes });
        }
        let (table, memory, notes) = lids::assign(input.fabric, input.options, input.memory);
        let before = &baseline.plan.lids;
        let lids = if table == **before {
            before.clone()
        } else if table.has_same_physical(before) && self.changes_only_vports() {
            Arc::new(table)
        } else {
            return None;
        };
        Some(Assigned { lids, memory, notes })
    }

    /// True if the snapshots differ in vports only, so that an engine would give the same routes.
    fn changes_only_vports(&self) -> bool {
        let old = &self.baseline.fabric;
        let new = self.input.fabric;
        self.difference.ports.iter().all(|&id| {
            let before = old.port(id);
            let after = new.port(id);
            before.peer == after.peer && before.guid == after.guid && before.info() == after.info()
        })
    }

    /// The routes to all LIDs: those of an engine, or those of the baseline if only LIDs of vports
    /// changed.
    fn route(&self, lids: &Arc<LidTable>) -> Result<Arc<Routing>, Vec<RoutingError>> {
        let before = &*self.baseline.plan;
        if !Arc::ptr_eq(lids, &before.lids) {
            let kept = before.routing.clone();
            return Ok(vport_lids::with_vports(kept, lids, Some(&before.lids)));
        }
        let previous_fabric =
            PreviousFabric { fabric: &self.baseline.fabric, difference: self.difference };
        compute::route(self.input, lids, Some(before), Some(previous_fabric))
    }

    fn run(&self, assigned: Assigned) -> Result<Planned, Box<PlanError>> {
        let Assigned { lids, mut memory, notes: lid_notes } = assigned;
        let input = self.input;
        let before = &*self.baseline.plan;
        let (routing, (partitions, removed_pkeys, partition_notes)) =
            rayon::join(|| self.route(&lids), || self.partitions());
        let routing = match routing {
            Ok(routing) => routing,
            Err(routing_errors) => {
                return Err(Box::new(PlanError { notes: lid_notes, routing_errors, lids, memory }));
            }
        };
        memory.removed_pkeys = removed_pkeys;
        let setup = self.setup(&partitions);
        let same_setup = setup == before.qos.setup;
        let sources = compute::qos_sources(input.options, setup);
        let changed = routing.policy.changes_since(&*before.routing.policy);
        let (ports, qos) = match changed.filter(|_| same_setup) {
            Some(changed) => {
                let ports = self.links(&lids, &routing, sources.as_ref(), &partitions);
                let qos = match &sources {
                    Some(sources) => self.qos(sources, &routing, &ports, changed),
                    None => QosTables::default(),
                };
                (ports, qos)
            }
            None => {
                let sources = sources.as_ref();
                let ports = compute::with_links(
                    input,
                    &lids,
                    &routing,
                    sources,
                    &partitions,
                    links::targets,
                );
                let qos = match sources {
                    Some(sources) => qos::tables(input.fabric, sources, &*routing.policy, &ports),
                    None => QosTables::default(),
                };
                (ports, qos)
            }
        };
        let (multicast, groups) = self.multicast(&lids, &routing);
        let stage_results = StageResults { lids: lid_notes, partitions: partition_notes, groups };

        let parts = PlanParts { lids, routing, ports, qos, partitions, multicast };
        let plan = compute::finish(input, parts, &stage_results);
        Ok(Planned { plan, memory, stage_results })
    }

    fn partitions(&self) -> (PartitionTables, RemovedPkeys, Vec<Note>) {
        let input = self.input;
        let baseline = self.baseline;
        let [gone_before, gone_after] =
            baseline.memory.each_ref().map(|memory| &memory.removed_pkeys);
        let gone = &input.memory.removed_pkeys;
        let before = &baseline.plan.partitions;
        let same = *input.partitions == **baseline.partitions
            && same_pkeys(input.observed_pkeys, &baseline.observed_pkeys)
            && gone == gone_before;
        let old = &*baseline.fabric;
        let new = input.fabric;
        let updated = if same {
            partitions::update_switch_links(old, new, self.difference, before)
        } else {
            None
        };
        match updated {
            Some(tables) => (tables, gone_after.clone(), baseline.stage_results.partitions.clone()),
            None => {
                let observed = input.observed_pkeys;
                partitions::tables(new, input.partitions, observed, gone, input.options)
            }
        }
    }

    /// The `qos-setup` scopes. Those of the baseline are kept if their port groups cannot have
    /// changed.
    fn setup(&self, partitions: &PartitionTables) -> Option<Arc<QosSetup>> {
        let input = self.input;
        let baseline = self.baseline;
        let policy = input.setup_policy()?;
        let old = &*baseline.fabric;
        let new = input.fabric;
        let kept = baseline.plan.qos.setup.as_ref().filter(|setup| {
            setup.policy() == policy
                && *input.partitions == **baseline.partitions
                && baseline.plan.partitions.keys == partitions.keys
                && self.difference.ports.iter().all(|a| has_same_guid(old, new, a))
        });
        Some(kept.cloned().unwrap_or_else(|| {
            Arc::new(QosSetup::new(policy, new, &partitions.keys, input.partitions))
        }))
    }

    /// The multicast tables, and the groups that were planned. The tables of the baseline are kept
    /// if groups, links to end ports and the engine's trees are the same.
    fn multicast(
        &self,
        lids: &LidTable,
        routing: &Routing,
    ) -> (Arc<MulticastTables>, Arc<Vec<GroupMembers>>) {
        let input = self.input;
        let baseline = self.baseline;
        let same_groups = **baseline.stage_results.groups == *input.registrations.groups;
        let groups = if same_groups {
            baseline.stage_results.groups.clone()
        } else {
            Arc::new(input.registrations.groups.to_vec())
        };
        let before = &baseline.plan.routing.policy;
        let has_same_trees =
            || self.changes_only_links() && routing.policy.same_multicast_trees_as(&**before);
        if same_groups && (groups.is_empty() || has_same_trees()) {
            return (baseline.plan.multicast.clone(), groups);
        }
        let tables =
            multicast::plan(input.fabric, lids, routing, input.registrations.groups, input.options);
        (Arc::new(tables), groups)
    }

    /// True if the snapshots differ only in external switch ports that do not lead to an end port.
    fn changes_only_links(&self) -> bool {
        let old = &*self.baseline.fabric;
        let new = self.input.fabric;
        self.difference.ports.iter().all(|&id| {
            [old, new].into_iter().all(|fabric| partitions::concerns_switches(fabric, id))
        })
    }

    /// Updates the PortInfo targets. LIDs and path SLs must equal those of the baseline.
    fn links(
        &self,
        lids: &LidTable,
        routing: &Routing,
        sources: Option<&QosSources>,
        partitions: &PartitionTables,
    ) -> PortTargets {
        let input = self.input;
        let baseline = self.baseline;
        let old_bits = &baseline.plan.partitions.enforcement;
        let enforced =
            old_bits.differences(&partitions.enforcement).map(|index| PortId(index as u32));
        let asked = baseline.end_ports.iter().copied().filter(|&port| (input.reregister)(port));
        let others = enforced.chain(asked).chain(baseline.reregistering.iter().copied());
        let mut targets = baseline.plan.ports.clone();
        let old_peers =
            self.difference.ports.iter().filter_map(|&id| baseline.fabric.port(id).peer);
        compute::with_links(input, lids, routing, sources, partitions, |links| {
            links::update(&mut targets, links, self.difference, others.chain(old_peers));
        });
        targets
    }

    fn qos(
        &self,
        sources: &QosSources,
        routing: &Routing,
        targets: &PortTargets,
        mut changed: Vec<PortId>,
    ) -> QosTables {
        let mut tables = self.baseline.plan.qos.clone();
        changed.extend(&self.difference.ports);
        let retargeted = self.baseline.plan.ports.differences(targets);
        changed.extend(retargeted);
        qos::update(&mut tables, self.input.fabric, sources, &*routing.policy, targets, &changed);
        tables
    }
}

fn has_same_guid(old: &Fabric, new: &Fabric, &id: &PortId) -> bool {
    old.port(id).guid == new.port(id).guid
}

fn is_end_port(fabric: &Fabric, &id: &PortId) -> bool {
    let port = fabric.port(id);
    fabric.node(port.node).is_switch() == (port.num == PortNum::ZERO)
}

fn same_pkeys(one: &[PkeyTable], two: &[PkeyTable]) -> bool {
    let is_same_slice = one.as_ptr() == two.as_ptr();
    one.len() == two.len() && (is_same_slice || have_equal_blocks(one, two))
}

fn have_equal_blocks(one: &[Arc<[PkeyBlock]>], two: &[Arc<[PkeyBlock]>]) -> bool {
    one.par_chunks(4096).zip(two.par_chunks(4096)).all(|(one, two)| one == two)
}
