//! The short pass where nothing changed but the members of multicast groups.
//!
//! Routes, partitions and the QoS policy stay as they are: only trees of groups that changed are
//! planned, verified and written. Whatever is not as it should be (no plan in force, another
//! picture of the fabric, a plan that does not pass) is for a whole pass, which tells it as well.

use super::{ReconfigureOutcome, Reconfigurer};
use crate::apply::{ApplyReport, apply_groups};
use crate::config::options::Options;
use crate::daemon::messages::SaCommand;
use crate::daemon::process::priority::spawn_low_priority;
use crate::daemon::sm_loop::context::ManagerContext;
use crate::daemon::sm_loop::file_writer::WriteJob;
use crate::daemon::sm_loop::files::LOG_ROUTING;
use crate::daemon::sm_loop::planning::PlanRequest;
use crate::fabric::Fabric;
use crate::ids::Mlid;
use crate::observe::Observation;
use crate::plan::Plan;
use crate::plan::multicast::{GroupMembers, MulticastDelta};
use crate::plan::multicast_update::update_multicast;
use crate::verify::multicast_delta::MulticastVerifier;
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
pub(super) struct MulticastUpdateState {
    /// The generation of the registry that is planned.
    generation: u64,
    /// The picture that the plan in force is for.
    fabric: Arc<Fabric>,
    /// What that plan was made from, but for the groups.
    order: PlanRequest,
    /// The groups in it.
    groups: BTreeMap<Mlid, Vec<GroupMembers>>,
    proof: Option<MulticastVerifier>,
    /// The foundation has other groups: when it is to be laid anew.
    renewal: Option<Instant>,
}

impl MulticastUpdateState {
    /// After a whole pass.
    pub(super) fn new(generation: u64, observation: &Observation, order: &PlanRequest) -> Self {
        let mut groups: BTreeMap<Mlid, Vec<GroupMembers>> = BTreeMap::new();
        for group in &*order.groups {
            groups.entry(group.mlid).or_default().push(group.clone());
        }
        let (fabric, order) = (observation.fabric.clone(), order.clone());
        Self { generation, fabric, order, groups, proof: None, renewal: None }
    }

    fn take_over(&mut self, change: MulticastDelta) {
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
    change: MulticastDelta,
    proof: Option<MulticastVerifier>,
}

/// What came of it; no plan if it is faulty.
struct Done {
    verified: Option<Verified>,
    change: MulticastDelta,
    proof: Option<MulticastVerifier>,
}

impl Work {
    fn run(self) -> Done {
        let Self { fabric, options, before, change, mut proof } = self;
        let plan = Arc::new(update_multicast(&fabric, &options, &before, &change));
        let checks = Checks::new(options.qos);
        let known = proof.as_mut().and_then(|proof| proof.check(&fabric, &plan, &checks));
        let verified = known.or_else(|| verify_shared(&fabric, &plan, &checks).ok());
        Done { verified, change, proof }
    }
}

impl Reconfigurer {
    /// Plans the groups that changed and brings the fabric there. `None` if that takes a whole
    /// pass.
    pub async fn regroup(
        &mut self,
        context: &ManagerContext,
        options: &Arc<Options>,
        observation: &mut Observation,
    ) -> Option<ReconfigureOutcome> {
        let start = Instant::now();
        let before = self.last_plan.clone()?;
        self.find_proof(observation, &before).await;
        let multicast = self.multicast.as_mut()?;
        let subnet = context.subnet.borrow().clone()?;
        if !Arc::ptr_eq(&multicast.fabric, &observation.fabric) {
            return None;
        }
        let asked = ask_regrouping(context, observation, multicast.generation).await;
        let (generation, change) = asked?;
        let proof = multicast.proof.take();
        let (fabric, options) = (observation.fabric.clone(), options.clone());
        let work = Work { fabric, options: options.clone(), before, change, proof };
        let done = spawn_low_priority(|| work.run()).await.ok()?;
        let (verified, mlids) = (done.verified?, done.change.mlids.len());
        multicast.proof = done.proof;
        multicast.take_over(done.change);
        multicast.generation = generation;
        self.tell_regrouped(&verified);
        let planned = start.elapsed();
        let report = self.apply_groups(context, &options, observation, &verified).await;
        tell_applied(mlids, &report, planned, start.elapsed());
        let multicast = self.multicast.as_mut()?;
        multicast.fabric = observation.fabric.clone();
        multicast.renewal = Some(Instant::now() + REST);
        let (policy, failed) = (subnet.qos_policy.clone(), self.acknowledged.pending());
        let subnet = self.publish(context, &options, observation, &verified, (policy, failed));
        if options.log_flags & LOG_ROUTING != 0 {
            let (memory, subnet) = (self.memory.clone(), Some(subnet));
            self.file_writer.write(WriteJob { memory, options, subnet, refused: None });
        }
        // Without a desk there is nobody who waits for it.
        let _ = context.sa_server.send(SaCommand::GroupsProgrammed).await;
        self.is_unsettled |= report.transition.is_some_and(|order| order.withheld > 0);
        let failed = report.failed.len();
        let incomplete =
            || ReconfigureOutcome::Incomplete(format!("{failed} Sets were not acknowledged"));
        Some(if failed == 0 { ReconfigureOutcome::Up } else { incomplete() })
    }

    /// When [`Self::renew`] is due.
    pub fn next_renewal(&self) -> Option<Instant> {
        self.multicast.as_ref().and_then(|multicast| multicast.renewal)
    }

    /// Lays the foundation of the next plan anew, with the groups of today.
    pub fn renew(&mut self, observation: &Observation) {
        let Some((multicast, plan)) = self.multicast.as_mut().zip(self.last_plan.clone()) else {
            return;
        };
        multicast.renewal = None;
        let groups = multicast.groups.values().flatten().cloned().collect();
        let order = PlanRequest { groups: Arc::new(groups), ..multicast.order.clone() };
        // The proof in use is older, and serves until this one is there.
        self.prepare(observation, &plan, order);
    }

    /// Takes the latest foundation; waits for it only if there is no other proof.
    async fn find_proof(&mut self, observation: &Observation, plan: &Plan) {
        let Some(multicast) = self.multicast.as_mut() else { return };
        let laid = self.baselines.laid(multicast.proof.is_none()).await;
        let proof = laid.and_then(|laid| MulticastVerifier::new(laid, &observation.fabric, plan));
        if proof.is_some() {
            multicast.proof = proof;
        }
    }

    fn tell_regrouped(&mut self, verified: &Verified) {
        if verified.summary().extent == Extent::Incremental {
            debug!("verified the trees that changed: no credit loop together with all others");
        }
        let notes = verified.plan().notes.iter().chain(&verified.summary().notes);
        let notes = self.partitions.notes().iter().chain(notes);
        self.tell_notes(&notes.cloned().collect::<Vec<_>>());
    }

    async fn apply_groups(
        &mut self,
        context: &ManagerContext,
        options: &Options,
        observation: &mut Observation,
        verified: &Verified,
    ) -> ApplyReport {
        // What was verified in its changes was so together with all before.
        let is_open = verified.summary().extent != Extent::Incremental;
        if is_open {
            self.transitions.begin(&self.acknowledged);
        }
        let held = &mut self.acknowledged;
        let mut report = apply_groups(&context.client, observation, verified, held, options).await;
        if is_open {
            let checks = Checks::new(options.qos);
            self.transitions.end(&observation.fabric, verified, checks, &mut report);
        }
        report
    }
}

/// Asks the registry what changed about its groups.
async fn ask_regrouping(
    context: &ManagerContext,
    observation: &Observation,
    since: u64,
) -> Option<(u64, MulticastDelta)> {
    let (reply, answer) = oneshot::channel();
    let command = SaCommand::GetGroupChanges { since, fabric: observation.fabric.clone(), reply };
    context.sa_server.send(command).await.ok()?;
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
