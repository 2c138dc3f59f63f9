//! The check of plans that differ from a verified one only in the trees of multicast groups.
//!
//! Whether a tree has a loop, and which members it connects, depends on the tree and the cables.
//! Its dependencies are a function of the tree, the SLs of its groups and the SL to VL mappings. So
//! only the changed trees are traced. Their dependencies are added to those of the [`Proof`] and of
//! all trees traced since; none is ever removed. A union that is acyclic stays so for each of its
//! parts, and packets of old and new trees may be in flight at the same time. Most trees of an
//! engine use the same channels and add no dependency.
//!
//! As in all of [`super`], the answer is "passed" or inconclusive. An inconclusive plan goes
//! through the full check, which ignores trees that no longer exist.

use super::acyclicity::stays_acyclic;
use super::baseline::VerifiedBaseline;
use super::changes::changed_switches;
use super::multicast::trace_groups;
use crate::fabric::difference::Difference;
use crate::fabric::{Fabric, SwitchId};
use crate::ids::Mlid;
use crate::notes::Note;
use crate::plan::Plan;
use crate::plan::multicast::MulticastTables;
use crate::plan::routing::Routing;
use crate::verify::limits;
use crate::verify::proof::Proof;
use crate::verify::triples::{TripleSls, add_all};
use crate::verify::verdict::{Checks, Extent, Summary, Verified};
use std::collections::BTreeSet;
use std::collections::HashMap;
use std::sync::Arc;

/// Verifier for a sequence of plans with the same unicast routes.
#[derive(Debug)]
pub struct MulticastVerifier {
    baseline: Arc<VerifiedBaseline>,
    /// The last plan that passed.
    plan: Arc<Plan>,
    /// Triples of the trees that were traced since the proof.
    added: TripleSls,
    /// Their dependencies that the proof lacks.
    dependencies: Vec<(u32, u32)>,
    /// Messages about the groups of `plan`.
    notes: Vec<(Mlid, Note)>,
}

impl MulticastVerifier {
    /// A verifier for plans with the routes of `plan`, for a fabric with these cables; `None` if
    /// the baseline has no proof or other routes.
    pub fn new(baseline: Arc<VerifiedBaseline>, fabric: &Fabric, plan: &Plan) -> Option<Self> {
        let proof = baseline.proof()?;
        let is_same = is_same_fabric(&proof.fabric, fabric) && has_same_routes(&proof.plan, plan);
        let plan = proof.plan.clone();
        let notes = proof.group_notes.clone();
        let added = TripleSls::new();
        let dependencies = Vec::new();
        is_same.then_some(Self { baseline, plan, added, dependencies, notes })
    }

    /// Checks the changed multicast trees of a plan that has the cables and routes of the last one;
    /// `None` if the result is inconclusive.
    pub fn check(
        &mut self,
        fabric: &Fabric,
        plan: &Arc<Plan>,
        checks: &Checks,
    ) -> Option<Verified> {
        let baseline = self.baseline.clone();
        let proof = baseline.proof()?;
        let is_same = *checks == proof.checks
            && is_same_fabric(&proof.fabric, fabric)
            && has_same_routes(&self.plan, plan);
        if !is_same {
            return None;
        }
        let changed = Changed::between(&self.plan.multicast, &plan.multicast)?;
        let switches = changed.switches.iter().copied();
        if limits::check_groups(fabric, plan, switches).total > 0 {
            return None;
        }
        let mlids = &changed.mlids;
        let network = &proof.network;
        let traced = trace_groups(fabric, plan, mlids, network, |channel, input, next, sls| {
            let unknown = proof.unknown_sls(channel, input, next, sls);
            unknown != 0 && unknown & !added_count(&self.added, channel, input, next) != 0
        });
        let (triples, found) = traced?;
        self.add_triples(proof, &triples)?;
        self.notes.retain(|(mlid, _)| !mlids.contains(mlid));
        self.notes.extend(found);
        self.notes.sort_by_key(|&(mlid, _)| mlid);
        self.plan = plan.clone();
        Some(Verified { plan: plan.clone(), summary: self.summary(proof, fabric, plan) })
    }

    /// Adds triples; `None` if the dependencies of all of them together have a cycle.
    fn add_triples(&mut self, proof: &Proof, triples: &TripleSls) -> Option<()> {
        if triples.is_empty() {
            return Some(());
        }
        let mut dependencies = proof.new_dependencies(triples)?;
        dependencies.extend(&self.dependencies);
        dependencies.sort_unstable();
        dependencies.dedup();
        let grows = dependencies.len() > self.dependencies.len();
        if grows && !stays_acyclic(&proof.dependencies, &dependencies, |_| false) {
            return None;
        }
        self.dependencies = dependencies;
        add_all(&mut self.added, triples);
        Some(())
    }

    fn summary(&self, proof: &Proof, fabric: &Fabric, plan: &Plan) -> Summary {
        let mut summary = Summary {
            extent: Extent::Incremental,
            dependencies: proof.summary.dependencies + self.dependencies.len(),
            notes: self.notes.iter().map(|(_, note)| note.clone()).collect(),
            ..proof.summary.clone()
        };
        summary.add_route_notes(fabric, plan);
        summary
    }
}

fn added_count(added: &HashMap<(u32, u16, u16), u16>, channel: u32, input: u16, next: u16) -> u16 {
    added.get(&(channel, input, next)).copied().unwrap_or(0)
}

fn is_same_fabric(old: &Fabric, new: &Fabric) -> bool {
    std::ptr::eq(old, new) || Difference::between(old, new).is_some_and(|found| found.is_empty())
}

/// True if two plans have the same LIDs, routes and SL to VL mappings.
fn has_same_routes(one: &Plan, two: &Plan) -> bool {
    let same_lids = Arc::ptr_eq(&one.lids, &two.lids) || one.lids == two.lids;
    same_lids
        && (Arc::ptr_eq(&one.routing, &two.routing) || is_same_routing(&one.routing, &two.routing))
        && one.ports.len() == two.ports.len()
        && one.qos.sl_to_vl == two.qos.sl_to_vl
}

fn is_same_routing(old: &Routing, new: &Routing) -> bool {
    let policy = &new.policy;
    policy.changes_since(&*old.policy).is_some_and(|changes| changes.is_empty())
        && old.policy.guarantees_no_credit_loops() == policy.guarantees_no_credit_loops()
        && old.lfts.len() == new.lfts.len()
        && changed_switches(&old.lfts, &new.lfts).is_empty()
}

/// The differences between the multicast trees of two plans.
struct Changed {
    mlids: BTreeSet<Mlid>,
    /// Switches with different entries.
    switches: Vec<SwitchId>,
}

impl Changed {
    /// `None` if the tables are not of the same number of switches.
    fn between(old: &MulticastTables, new: &MulticastTables) -> Option<Self> {
        let mut mlids = BTreeSet::new();
        let mut switches = Vec::new();
        let rows = old.by_switch.iter().zip(&new.by_switch).zip(0..);
        for ((old, new), switch) in rows.filter(|((old, new), _)| old != new) {
            switches.push(SwitchId(switch));
            differing(old, new, &mut mlids);
        }
        differing(&old.sls, &new.sls, &mut mlids);
        for (one, two) in [(old, new), (new, old)] {
            let gone =
                one.senders.iter().filter(|sender| two.senders.binary_search(sender).is_err());
            mlids.extend(gone.map(|sender| sender.0));
        }
        (old.by_switch.len() == new.by_switch.len()).then_some(Self { mlids, switches })
    }
}

/// Adds the MLIDs whose entries in two tables, each ascending by MLID, differ or exist in one only.
fn differing<T: PartialEq>(old: &[(Mlid, T)], new: &[(Mlid, T)], mlids: &mut BTreeSet<Mlid>) {
    let mut old = old.iter().peekable();
    let mut new = new.iter().peekable();
    loop {
        let (mlid, is_same) = match (old.peek(), new.peek()) {
            (None, None) => return,
            (Some(one), None) => (one.0, false),
            (None, Some(two)) => (two.0, false),
            (Some(one), Some(two)) => (one.0.min(two.0), one == two),
        };
        if !is_same {
            mlids.insert(mlid);
        }
        old.next_if(|entry| entry.0 == mlid);
        new.next_if(|entry| entry.0 == mlid);
    }
}
