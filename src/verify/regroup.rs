//! Plans that differ from one that passed in the trees of multicast groups alone.
//!
//! Whether a tree loops, and which members it reaches, depends on that tree and on the cables. What
//! it adds to the dependencies depends on the tree, the SLs of its groups and the SL to VL
//! mappings. So only changed trees are followed. Their dependencies are added to those of the
//! [`Proof`] and of all trees that were followed since, which are never taken away: what has no
//! cycle together has none alone, and packets of old and new trees may be under way at the same
//! time. Most trees of an engine run where others do, and bring no dependency that is new.
//!
//! As with the proof, only yes is ever said here. Else the plan is checked as a whole, in which
//! trees that are gone count for nothing.

use super::columns::changed_switches;
use super::foundation::Foundation;
use super::triples::Added;
use super::{Checks, Extent, Proof, Summary, Verified, levels, limits, multicast};
use crate::fabric::difference::Difference;
use crate::fabric::{Fabric, SwitchId};
use crate::ids::Mlid;
use crate::notes::Note;
use crate::plan::Plan;
use crate::plan::multicast::MulticastTables;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What is known of a plan whose groups change: its proof, and what came since.
#[derive(Debug)]
pub struct GroupProof {
    foundation: Arc<Foundation>,
    /// The plan that passed last.
    plan: Arc<Plan>,
    /// The triples of trees that were followed since the proof.
    added: Added,
    /// Their dependencies that the proof does not have.
    dependencies: Vec<(u32, u32)>,
    /// What is to be told of the groups of `plan`.
    notes: Vec<(Mlid, Note)>,
}

impl GroupProof {
    /// What a foundation tells of plans like `plan`, for a fabric with these cables; `None` if it has
    /// no proof, or one of other routes.
    pub fn new(foundation: Arc<Foundation>, fabric: &Fabric, plan: &Plan) -> Option<Self> {
        let proof = foundation.proof()?;
        let is_same = is_same_fabric(&proof.fabric, fabric) && has_same_routes(&proof.plan, plan);
        let (plan, notes) = (proof.plan.clone(), proof.group_notes.clone());
        let (added, dependencies) = (Added::new(), Vec::new());
        is_same.then_some(Self { foundation, plan, added, dependencies, notes })
    }

    /// Checks a plan for a fabric with the same cables, which has the routes of the one before, in
    /// the trees that changed; `None` if only a check of the whole plan can tell whether it passes.
    pub fn check(
        &mut self,
        fabric: &Fabric,
        plan: &Arc<Plan>,
        checks: &Checks,
    ) -> Option<Verified> {
        let foundation = self.foundation.clone();
        let proof = foundation.proof()?;
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
        let is_news = |channel, input, next, sls: u16| {
            let hop = proof.wiring.hop_of(channel);
            let unknown = sls & !proof.triples.get((hop.triples, hop.width), input, next);
            let since = || self.added.get(&(channel, input, next)).copied().unwrap_or(0);
            unknown != 0 && unknown & !since() != 0
        };
        let (mlids, wiring) = (&changed.mlids, &proof.wiring);
        let (news, found) = multicast::news_of(fabric, plan, mlids, wiring, is_news)?;
        self.admit(proof, news)?;
        self.notes.retain(|(mlid, _)| !mlids.contains(mlid));
        self.notes.extend(found);
        self.notes.sort_by_key(|&(mlid, _)| mlid);
        self.plan = plan.clone();
        Some(Verified { plan: plan.clone(), summary: self.summary(proof, fabric) })
    }

    /// Adds triples, if all dependencies together have no cycle with them.
    fn admit(&mut self, proof: &Proof, news: Added) -> Option<()> {
        if news.is_empty() {
            return Some(());
        }
        let mut dependencies = proof.dependencies(&news)?;
        dependencies.extend(&self.dependencies);
        dependencies.sort_unstable();
        dependencies.dedup();
        let grows = dependencies.len() > self.dependencies.len();
        let is_dead = |_| false;
        if grows && !levels::stays_acyclic(&proof.graph, &proof.heights, is_dead, &dependencies) {
            return None;
        }
        self.dependencies = dependencies;
        for (triple, sls) in news {
            *self.added.entry(triple).or_default() |= sls;
        }
        Some(())
    }

    fn summary(&self, proof: &Proof, fabric: &Fabric) -> Summary {
        let mut summary = Summary {
            extent: Extent::Changes,
            dependencies: proof.summary.dependencies + self.dependencies.len(),
            notes: self.notes.iter().map(|(_, note)| note.clone()).collect(),
            ..proof.summary.clone()
        };
        summary.tell(fabric);
        summary
    }
}

fn is_same_fabric(old: &Fabric, new: &Fabric) -> bool {
    std::ptr::eq(old, new) || Difference::between(old, new).is_some_and(|found| found.is_empty())
}

/// True if two plans have the same LIDs, routes and SL to VL mappings.
fn has_same_routes(one: &Plan, two: &Plan) -> bool {
    let same_lids = Arc::ptr_eq(&one.lids, &two.lids) || one.lids == two.lids;
    let (old, new) = (&one.routing.policy, &two.routing.policy);
    let same_routing = || {
        let same_sls = new.changes_since(&**old).is_some_and(|changes| changes.is_empty());
        same_sls
            && old.guarantees_no_credit_loops() == new.guarantees_no_credit_loops()
            && one.routing.lfts.len() == two.routing.lfts.len()
            && changed_switches(&one.routing.lfts, &two.routing.lfts).is_empty()
    };
    same_lids
        && (Arc::ptr_eq(&one.routing, &two.routing) || same_routing())
        && one.ports.len() == two.ports.len()
        && one.qos.sl_to_vl == two.qos.sl_to_vl
}

/// Where the trees of two plans differ.
struct Changed {
    mlids: BTreeSet<Mlid>,
    /// Switches with other entries.
    switches: Vec<SwitchId>,
}

impl Changed {
    /// `None` if they are not for the same switches.
    fn between(old: &MulticastTables, new: &MulticastTables) -> Option<Self> {
        let (mut mlids, mut switches) = (BTreeSet::new(), Vec::new());
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

/// The MLIDs of which only one of two tables, ascending by MLID, has an entry, or another one.
fn differing<T: PartialEq>(old: &[(Mlid, T)], new: &[(Mlid, T)], mlids: &mut BTreeSet<Mlid>) {
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
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
