//! The short pass where nothing changed but the members of multicast groups.
//!
//! Routes, partitions and the QoS policy stay as they are: only trees of groups that changed are
//! planned, verified and written. Whatever is not as it should be (no plan in force, another
//! picture of the fabric, a plan that does not pass) is for a whole pass, which tells it as well.

use super::{Pass, Passes};
use crate::apply::{ApplyReport, apply_groups};
use crate::config::options::Options;
use crate::daemon::files::LOG_ROUTING;
use crate::daemon::planning::Order;
use crate::daemon::priority::spawn_behind;
use crate::daemon::sa_desk::Errand;
use crate::daemon::scribe::Job;
use crate::daemon::surroundings::Surroundings;
use crate::fabric::Fabric;
use crate::ids::Mlid;
use crate::observe::Observation;
use crate::plan::Plan;
use crate::plan::multicast::{GroupMembers, Regrouping};
use crate::plan::regroup::regroup;
use crate::verify::regroup::GroupProof;
use crate::verify::{Checks, Extent, Verified, verify_shared};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::{debug, info};

/// When groups have not changed for so long, the foundation of the next plan is laid anew.
const REST: Duration = Duration::from_secs(1);

/// What short passes go by.
pub(super) struct Standing {
    /// The generation of the registry that is planned.
    generation: u64,
    /// The picture that the plan in force is for.
    fabric: Arc<Fabric>,
    /// What that plan was made from, but for the groups.
    order: Order,
    /// The groups in it.
    groups: BTreeMap<Mlid, Vec<GroupMembers>>,
    proof: Option<GroupProof>,
    /// The foundation has other groups: when it is to be laid anew.
    renewal: Option<Instant>,
}

impl Standing {
    /// After a whole pass.
    pub(super) fn new(generation: u64, observation: &Observation, order: &Order) -> Self {
        let mut groups: BTreeMap<Mlid, Vec<GroupMembers>> = BTreeMap::new();
        for group in &*order.groups {
            groups.entry(group.mlid).or_default().push(group.clone());
        }
        let (fabric, order) = (observation.fabric.clone(), order.clone());
        Self { generation, fabric, order, groups, proof: None, renewal: None }
    }

    fn take_over(&mut self, change: Regrouping) {
        for mlid in &change.mlids {
            self.groups.remove(mlid);
        }
        for group in change.groups {
            self.groups.entry(group.mlid).or_default().push(group);
        }
    }
}

/// What is done beside the loop.
struct Work {
    fabric: Arc<Fabric>,
    options: Arc<Options>,
    before: Arc<Plan>,
    change: Regrouping,
    proof: Option<GroupProof>,
}

/// What came of it; no plan if it is faulty.
struct Done {
    verified: Option<Verified>,
    change: Regrouping,
    proof: Option<GroupProof>,
}

impl Work {
    fn run(self) -> Done {
        let Self { fabric, options, before, change, mut proof } = self;
        let plan = Arc::new(regroup(&fabric, &options, &before, &change));
        let checks = Checks::new(options.qos);
        let known = proof.as_mut().and_then(|proof| proof.check(&fabric, &plan, &checks));
        let verified = known.or_else(|| verify_shared(&fabric, &plan, &checks).ok());
        Done { verified, change, proof }
    }
}

impl Passes {
    /// Plans the groups that changed and brings the fabric there. `None` if that takes a whole
    /// pass.
    pub async fn regroup(
        &mut self,
        around: &Surroundings,
        options: &Arc<Options>,
        observation: &mut Observation,
    ) -> Option<Pass> {
        let start = Instant::now();
        let before = self.last_plan.clone()?;
        self.find_proof(observation, &before).await;
        let standing = self.standing.as_mut()?;
        let subnet = around.subnet.borrow().clone()?;
        if !Arc::ptr_eq(&standing.fabric, &observation.fabric) {
            return None;
        }
        let asked = ask_regrouping(around, observation, standing.generation).await;
        let (generation, change) = asked?;
        let proof = standing.proof.take();
        let (fabric, options) = (observation.fabric.clone(), options.clone());
        let work = Work { fabric, options: options.clone(), before, change, proof };
        let done = spawn_behind(|| work.run()).await.ok()?;
        let (verified, mlids) = (done.verified?, done.change.mlids.len());
        standing.proof = done.proof;
        standing.take_over(done.change);
        standing.generation = generation;
        self.tell_regrouped(&verified);
        let planned = start.elapsed();
        let report = self.apply_groups(around, &options, observation, &verified).await;
        tell_applied(mlids, &report, planned, start.elapsed());
        let standing = self.standing.as_mut()?;
        standing.fabric = observation.fabric.clone();
        standing.renewal = Some(Instant::now() + REST);
        let (policy, failed) = (subnet.qos_policy.clone(), self.acknowledged.pending());
        let subnet = self.publish(around, &options, observation, &verified, (policy, failed));
        if options.log_flags & LOG_ROUTING != 0 {
            let (memory, subnet) = (self.memory.clone(), Some(subnet));
            self.scribe.write(Job { memory, options, subnet, refused: None });
        }
        // Without a desk there is nobody who waits for it.
        let _ = around.sa_desk.send(Errand::Planned).await;
        self.is_unsettled |= report.transition.is_some_and(|order| order.stayed_back > 0);
        let failed = report.failed.len();
        let incomplete = || Pass::Incomplete(format!("{failed} Sets were not acknowledged"));
        Some(if failed == 0 { Pass::Up } else { incomplete() })
    }

    /// When [`Self::renew`] is due.
    pub fn next_renewal(&self) -> Option<Instant> {
        self.standing.as_ref().and_then(|standing| standing.renewal)
    }

    /// Lays the foundation of the next plan anew, with the groups of today.
    pub fn renew(&mut self, observation: &Observation) {
        let Some((standing, plan)) = self.standing.as_mut().zip(self.last_plan.clone()) else {
            return;
        };
        standing.renewal = None;
        let groups = standing.groups.values().flatten().cloned().collect();
        let order = Order { groups: Arc::new(groups), ..standing.order.clone() };
        // The proof in use is older, and serves until this one is there.
        self.prepare(observation, &plan, order);
    }

    /// Takes the latest foundation; waits for it only if there is no other proof.
    async fn find_proof(&mut self, observation: &Observation, plan: &Plan) {
        let Some(standing) = self.standing.as_mut() else { return };
        let laid = self.groundwork.laid(standing.proof.is_none()).await;
        let proof = laid.and_then(|laid| GroupProof::new(laid, &observation.fabric, plan));
        if proof.is_some() {
            standing.proof = proof;
        }
    }

    fn tell_regrouped(&mut self, verified: &Verified) {
        if verified.summary().extent == Extent::Changes {
            debug!("verified the trees that changed: no credit loop together with all others");
        }
        let notes = verified.plan().notes.iter().chain(&verified.summary().notes);
        let notes = self.partitions.notes().iter().chain(notes);
        self.tell_notes(&notes.cloned().collect::<Vec<_>>());
    }

    async fn apply_groups(
        &mut self,
        around: &Surroundings,
        options: &Options,
        observation: &mut Observation,
        verified: &Verified,
    ) -> ApplyReport {
        // What was verified in its changes was so together with all before.
        let is_open = verified.summary().extent != Extent::Changes;
        if is_open {
            self.transitions.begin(&self.acknowledged);
        }
        let held = &mut self.acknowledged;
        let mut report = apply_groups(&around.client, observation, verified, held, options).await;
        if is_open {
            let checks = Checks::new(options.qos);
            self.transitions.end(&observation.fabric, verified, checks, &mut report);
        }
        report
    }
}

/// Asks the registry what changed about its groups.
async fn ask_regrouping(
    around: &Surroundings,
    observation: &Observation,
    since: u64,
) -> Option<(u64, Regrouping)> {
    let (reply, answer) = oneshot::channel();
    let errand = Errand::Regrouping { since, fabric: observation.fabric.clone(), reply };
    around.sa_desk.send(errand).await.ok()?;
    answer.await.ok()
}

fn tell_applied(mlids: usize, report: &ApplyReport, planned: Duration, total: Duration) {
    for (item, problem) in report.failed.iter().take(20) {
        tracing::error!("{item:?}: {problem}");
    }
    info!(
        "multicast: {mlids} MLIDs planned in {planned:?}, programmed with {} Sets, all in {total:?}",
        report.sets()
    );
}
