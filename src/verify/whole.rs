//! The check of a plan as a whole, and the proof that remains of it.

use super::channels::Graph;
use super::ends::Sources;
use super::lanes::Lanes;
use super::triples::Triples;
use super::unicast::TreeOf;
use super::wiring::Wiring;
use super::{Checks, Fault, Faults, Proof, Summary, Verified, VerifyFailure};
use super::{ends, limits, multicast, unicast};
use crate::fabric::Fabric;
use crate::ids::Mlid;
use crate::notes::Note;
use crate::plan::Plan;
use crate::plan::routing::Lft;
use std::sync::Arc;

/// What a check has gathered.
pub(super) struct Evidence {
    wiring: Wiring,
    lanes: Lanes,
    triples: Triples,
    graph: Graph,
    trees: Vec<TreeOf>,
    group_notes: Vec<(Mlid, Note)>,
}

pub(super) fn examine(
    fabric: &Fabric,
    plan: &Plan,
    checks: &Checks,
    wiring: Wiring,
) -> Result<(Summary, Evidence), VerifyFailure> {
    let lanes = Lanes::new(fabric, plan, &wiring);
    let triples = Triples::new(&wiring);
    let mut failure = VerifyFailure { faults: Vec::new(), total: 0 };
    let mut summary = Summary::default();

    let found = unicast::check(fabric, plan, checks, &wiring, &triples);
    summary.lids = found.reached;
    summary.longest_path = found.longest;
    summary.left_out = found.left_out;
    failure.take(found.faults);
    let groups =
        multicast::check(fabric, plan, |mlid| plan.multicast.sls_of(mlid), &wiring, &triples);
    failure.take(groups.faults);
    summary.notes.extend(groups.notes.iter().map(|(_, note)| note.clone()));
    failure.take(limits::check(fabric, plan));

    let graph = Graph::new(&wiring, &lanes, &triples);
    let dropped = graph.dropped(fabric, &wiring);
    if plan.routing.policy.decides_sl_to_vl() {
        failure.take(dropped);
    } else {
        summary.notes.extend(by_configuration(&dropped, graph.dropped_sls()));
    }
    summary.dependencies = graph.dependencies();
    if let Some(cycle) = graph.cycle(fabric, &wiring) {
        if !plan.routing.policy.guarantees_no_credit_loops() {
            let engine = plan.routing.engine;
            summary.notes.push(Note::warning(format!(
                "routing engine {engine} leaves a credit loop, the fabric may deadlock: {cycle}"
            )));
        } else if is_by_groups(fabric, plan, checks, &wiring, &lanes) {
            summary.notes.push(Note::warning(format!(
                "multicast groups close a credit loop with these routes, the fabric may \
                 deadlock: {cycle}"
            )));
        } else {
            failure.faults.push(Fault::CreditLoop(cycle.clone()));
            failure.total += 1;
        }
        summary.cycle = Some(cycle);
    }
    if failure.total > 0 {
        return Err(failure);
    }
    summary.tell(fabric);
    let (trees, group_notes) = (found.trees, groups.notes);
    Ok((summary, Evidence { wiring, lanes, triples, graph, trees, group_notes }))
}

impl Evidence {
    pub(super) fn into_proof(
        self,
        fabric: &Arc<Fabric>,
        verified: &Verified,
        checks: &Checks,
    ) -> Option<Proof> {
        let Self { wiring, lanes, triples, graph, trees: found, group_notes } = self;
        let (plan, policy) = (verified.plan(), &*verified.plan.routing.policy);
        // What is lost is told of the whole alone.
        let heights = graph.heights().filter(|_| graph.dropped_sls() == 0)?;
        let count = plan.lids.max().index() + 1;
        let (mut destinations, mut trees) = (vec![None; count], vec![None; count]);
        for to in ends::destinations(fabric, plan, policy) {
            destinations[to.lid.index()] = Some(to);
        }
        for tree in found {
            trees[tree.lid.index()] = Some(tree);
        }
        // Switches that are lost send nothing.
        let mut sources = ends::sources(fabric, plan, policy);
        sources.resize(wiring.switches(), Sources::default());
        let mut tables = plan.routing.lfts.clone();
        tables.resize(wiring.switches(), Arc::new(Lft::empty(plan.lids.max())));
        Some(Proof {
            onward: Arc::new(triples.onward(&wiring)),
            steps: Arc::new(wiring.steps()),
            fabric: fabric.clone(),
            tables: Arc::new(tables),
            groups: plan.multicast.clone(),
            plan: plan.clone(),
            checks: checks.clone(),
            wiring: Arc::new(wiring),
            lanes: Arc::new(lanes),
            triples: Arc::new(triples),
            graph: Arc::new(graph),
            heights: Arc::new(heights),
            sources: Arc::new(sources),
            destinations: Arc::new(destinations),
            trees: Arc::new(trees),
            group_notes,
            summary: verified.summary.clone(),
            healthy: None,
        })
    }
}

/// What is told of packets that are dropped as the administrator's SL to VL mappings say: VL 15 for an
/// SL that nobody is to use is how it is taken away, but SL 0 is everybody's.
fn by_configuration(dropped: &Faults, sls: u16) -> Option<Note> {
    let first = dropped.described.first()?;
    let more = match dropped.total {
        1 => String::new(),
        total => format!(", and there are {} more such places", total - 1),
    };
    let text = format!("as configured, {first}{more}");
    Some(if sls & 1 == 1 { Note::warning(text) } else { Note::info(text) })
}

/// True if the credit loop of a plan is gone without its multicast groups. Any client may create a
/// group, with an SL for which no tree is made, and must not bring down the routes of everybody
/// with it; and the trees of torus-2QoS around a missing switch are those of OpenSM, free of
/// credit loops or not.
fn is_by_groups(
    fabric: &Fabric,
    plan: &Plan,
    checks: &Checks,
    wiring: &Wiring,
    lanes: &Lanes,
) -> bool {
    if plan.multicast.by_switch.iter().all(Vec::is_empty) {
        return false;
    }
    let triples = Triples::new(wiring);
    unicast::check(fabric, plan, checks, wiring, &triples);
    Graph::new(wiring, lanes, &triples).cycle(fabric, wiring).is_none()
}
