//! Plans for a fabric in which channel adapters or routers came or went, or were exchanged.
//!
//! Then the numbers of nodes and ports are others. But switches and channels are counted without
//! regard to them, and so are triples and dependencies: of a [`Proof`] only the list of LIDs, the ports that
//! send and the port slots of the channels are made anew. LIDs that are where they were have the
//! trees that they had, but for changed entries; those that came are followed from every switch, as
//! in a check of the whole. A port that is gone leaves nothing to be looked at.

use super::columns::changed_switches;
use super::ends::{self, Destination};
use super::proof::{Arrivals, News, Places, Proof};
use super::triples::Triples;
use super::unicast::{self, TreeOf};
use super::{Checks, Summary, limits};
use crate::fabric::Fabric;
use crate::plan::Plan;
use std::sync::Arc;

impl Proof {
    /// What the checks find in a plan for a fabric with the same switches and cables between them, and
    /// the proof by the numbers of that fabric; `None` if only a check of the whole plan can tell.
    pub(super) fn covers_other_hosts(
        &self,
        fabric: &Fabric,
        plan: &Plan,
        checks: &Checks,
    ) -> Option<(Self, Summary, News)> {
        let (old, policy) = (&*self.plan.routing.policy, &*plan.routing.policy);
        let same = *checks == self.checks
            && policy.promises_no_credit_loops() == old.promises_no_credit_loops()
            && policy.has_path_sls_of(old)
            && self.plan.multicast.by_switch.len() == plan.multicast.by_switch.len();
        let switches = changed_switches(&self.plan, plan).filter(|_| same)?;
        let places = Places { switches, ..Places::default() };
        let (proof, arrivals) = self.renumbered(fabric, plan)?;
        let holds = proof.tables_hold(fabric, plan, &places)
            && proof.has_lanes_of(fabric, plan)
            && limits::check(fabric, plan).total == 0;
        let proof = if holds { proof } else { return None };
        let (summary, news) = proof.follow(fabric, plan, places, arrivals)?;
        Some((proof, summary, news))
    }

    fn has_lanes_of(&self, fabric: &Fabric, plan: &Plan) -> bool {
        let wiring = &*self.wiring;
        let is_cut = |channel| wiring.is_cut(channel);
        let is_same = |switch| self.lanes.are_those_of(fabric, plan, wiring, switch, is_cut);
        fabric.switch_ids().all(is_same)
    }

    /// The proof by the numbers of another fabric, for the LIDs that are where they were; and the
    /// others.
    fn renumbered(&self, fabric: &Fabric, plan: &Plan) -> Option<(Self, Arrivals)> {
        let policy = &*plan.routing.policy;
        let wiring = self.wiring.renumbered(&self.fabric, fabric)?;
        let sources = ends::sources(fabric, plan, policy);
        if !sources.iter().zip(&*self.sources).all(|(now, before)| now.are_like(before)) {
            return None;
        }
        let count = self.destinations.len().max(plan.lids.max().index() + 1);
        let (mut known, mut trees) = (vec![None; count], vec![None; count]);
        let (mut arrived, mut left_out) = (Vec::new(), Vec::new());
        for to in ends::destinations(fabric, plan, policy) {
            let lid = to.lid.index();
            let before = self.destinations.get(lid).copied().flatten();
            if !before.is_some_and(|before: Destination| before.is_where(&to)) {
                arrived.push(to);
                continue;
            }
            known[lid] = Some(to);
            trees[lid] = self.trees[lid];
            if trees[lid].is_none() {
                left_out.push(to.port);
            }
        }
        lead_yourselves(&mut trees);
        let triples = Triples::new(&wiring);
        let pass = (fabric, plan, &self.checks);
        let found = unicast::check_some(pass, &sources, &arrived, &wiring, &triples);
        if found.faults.total > 0 {
            return None;
        }
        left_out.extend(found.left_out);
        left_out.sort_unstable();
        left_out.dedup();
        let summary = Summary {
            lids: trees.iter().flatten().count() + found.reached,
            left_out,
            longest_path: self.summary.longest_path.max(found.longest),
            ..self.summary.clone()
        };
        let proof = Self {
            steps: Arc::new(wiring.steps()),
            wiring: Arc::new(wiring),
            sources: Arc::new(sources),
            destinations: Arc::new(known),
            trees: Arc::new(trees),
            summary,
            ..self.clone()
        };
        let triples = proof.unknown(&triples);
        Some((proof, Arrivals { destinations: arrived, trees: found.trees, triples }))
    }

    /// The triples that are not known.
    fn unknown(&self, found: &Triples) -> super::triples::Added {
        let wiring = &*self.wiring;
        let channels = (0..wiring.channels.len()).flat_map(|channel| {
            let hop = wiring.hop_of(channel as u32);
            let triples = found.of(wiring, channel);
            triples.filter_map(move |(input, next, sls)| {
                let new = sls & !self.triples.get((hop.triples, hop.width), input, next);
                (new != 0).then_some(((channel as u32, input, next), new))
            })
        });
        channels.collect()
    }
}

/// Trees whose leader is gone lead themselves.
fn lead_yourselves(trees: &mut [Option<TreeOf>]) {
    let is_there: Vec<bool> = trees.iter().map(Option::is_some).collect();
    for tree in trees.iter_mut().flatten().filter(|tree| !is_there[tree.leader.index()]) {
        tree.leader = tree.lid;
    }
}
