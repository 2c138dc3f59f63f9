//! A standby SM follows the fabric: it sweeps, plans what it would configure as master, and reads
//! the tables that the devices hold, with few MADs in flight and at a low rate. It writes nothing.
//! When it becomes master, it knows which tables differ from its plan.

use super::registry_queries;
use crate::apply::Acknowledged;
use crate::apply::inherited::{self, AdoptReport};
use crate::cli::configuration;
use crate::config::config_files::ConfigFiles;
use crate::config::options::Options;
use crate::config::qos_policy::QosPolicy;
use crate::daemon::messages::SaCommand;
use crate::daemon::process::priority::spawn_low_priority;
use crate::daemon::sm_loop::planning::{PlanRequest, SharedRegistrations};
use crate::fabric::difference::Difference;
use crate::notes::{counted, time_text};
use crate::observe::m_keys::MKeys;
use crate::observe::{Observation, SweepSettings, heavy};
use crate::plan::Plan;
use crate::plan::lids::Memory;
use crate::plan::partitions::Partition;
use crate::transport::client::SmpClient;
use crate::verify::baseline::VerifiedBaseline;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tracing::{debug, info};

/// Requests in flight of an SM that follows the fabric.
const WINDOW: usize = 2;

/// Delay after entering STANDBY, in which the election settles.
const START_DELAY: Duration = Duration::from_secs(2);

/// Pause between two passes over the fabric, at least.
const MIN_PAUSE: Duration = Duration::from_secs(10);

/// The knowledge of a standby SM about the fabric.
pub(super) struct WarmState {
    /// The tables that the devices hold.
    pub(super) acknowledged: Acknowledged,
    /// Number of table blocks that were read.
    pub(super) blocks: usize,
    /// The plan of this SM for the fabric, with its proof.
    pub(super) baseline: Option<Arc<VerifiedBaseline>>,
}

/// The state after the last complete pass, once there was one.
type Found = Arc<Mutex<Option<WarmState>>>;

/// The task that follows the fabric; it ends when this is dropped.
#[derive(Default)]
pub(super) struct WarmStandby(Option<(Found, JoinHandle<()>)>);

impl WarmStandby {
    pub(super) fn is_running(&self) -> bool {
        self.0.is_some()
    }

    /// Starts to follow the fabric. Must be called in a runtime.
    pub(super) fn start(&mut self, follower: Follower) {
        self.stop();
        let found = Found::default();
        self.0 = Some((found.clone(), tokio::spawn(follower.run(found))));
    }

    /// Stops, and returns the state after the last complete pass.
    pub(super) fn stop(&mut self) -> Option<WarmState> {
        let (found, task) = self.0.take()?;
        task.abort();
        found.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for WarmStandby {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Follows the fabric, with the configuration as of its start.
pub(super) struct Follower {
    /// A client of limited rate.
    pub(super) client: SmpClient,
    pub(super) sa_server: mpsc::Sender<SaCommand>,
    pub(super) files: Arc<ConfigFiles>,
    pub(super) options: Arc<Options>,
    pub(super) partitions: Arc<Vec<Partition>>,
    pub(super) qos_policy: Option<Arc<QosPolicy>>,
    pub(super) memory: Memory,
    pub(super) m_keys: MKeys,
    pub(super) sweeps: SweepSettings,
}

/// The observation of a pass, and the plan for it.
struct PlannedPass {
    observation: Observation,
    plan: Arc<Plan>,
    baseline: Option<Arc<VerifiedBaseline>>,
}

impl Follower {
    /// A client for a follower with these options; `None` if a standby does not follow the fabric.
    pub(super) fn client(client: &SmpClient, options: &Options) -> Option<SmpClient> {
        let rate = options.standby_query_rate;
        (rate > 0).then(|| client.paced(WINDOW, rate))
    }

    async fn run(self, found: Found) {
        let pause = Duration::from_secs(self.options.sweep_interval.into()).max(MIN_PAUSE);
        let mut planned = None;
        let mut logged = None;
        sleep(START_DELAY).await;
        loop {
            if let Some(state) = self.pass(&mut planned, &mut logged).await {
                *found.lock().unwrap_or_else(PoisonError::into_inner) = Some(state);
            }
            sleep(pause).await;
        }
    }

    /// Reads the fabric once. Plans again if it differs from `planned`, the last one.
    async fn pass(
        &self,
        planned: &mut Option<PlannedPass>,
        logged: &mut Option<AdoptReport>,
    ) -> Option<WarmState> {
        let start = Instant::now();
        let keys = &self.m_keys;
        let observation = match heavy::sweep(&self.client, keys, &self.sweeps).await {
            Ok(observation) => observation,
            Err(problem) => {
                debug!("standby: the fabric cannot be followed: {problem}");
                return None;
            }
        };
        if !planned.as_ref().is_some_and(|last| is_same(&last.observation, &observation)) {
            *planned = self.plan(observation).await;
        }
        let PlannedPass { observation, plan, baseline } = planned.as_ref()?;
        let mut acknowledged = Acknowledged::default();
        let survey =
            inherited::survey(&self.client, observation, plan, &mut acknowledged, keys).await;
        let report = survey?;
        debug!("standby: read the fabric in {}", time_text(start.elapsed()));
        if logged.replace(report) != Some(report) {
            log_survey(&report);
        }
        Some(WarmState { acknowledged, blocks: report.blocks, baseline: baseline.clone() })
    }

    /// Plans what this SM would configure as master. `None` without a valid plan.
    async fn plan(&self, observation: Observation) -> Option<PlannedPass> {
        let (_, groups) = registry_queries::groups(&self.sa_server, &observation).await;
        let aliases = registry_queries::aliases(&self.sa_server, &observation).await;
        let request = PlanRequest {
            fabric: observation.fabric.clone(),
            pkeys: observation.pkeys.clone(),
            options: self.options.clone(),
            torus_config: self.files.torus_config.clone(),
            chain: Arc::new(configuration::chain(&self.options, self.files.routing.clone()).ok()?),
            partitions: self.partitions.clone(),
            qos_policy: self.qos_policy.clone(),
            registrations: SharedRegistrations {
                groups: Arc::new(groups),
                aliases: Arc::new(aliases),
            },
            memory: self.memory.clone(),
            reregister: HashSet::new(),
            held_mappings: Arc::default(),
        };
        let planned = spawn_low_priority(move || {
            let planned = request.plan(None, None).ok()?;
            let verified = planned.verdict.ok()?;
            let pending = planned.pending_baseline;
            let baseline = pending.map(|pending| Arc::new(request.complete_baseline(pending)));
            Some((verified.plan().clone(), baseline))
        });
        let planned = planned.await.ok().flatten();
        if planned.is_none() {
            debug!("standby: this SM has no valid plan for the fabric");
        }
        planned.map(|(plan, baseline)| PlannedPass { observation, plan, baseline })
    }
}

fn log_survey(report: &AdoptReport) {
    match report.differing {
        0 => info!("standby: the devices hold the tables that this SM would write as master"),
        differing => info!(
            "standby: of {}, {} not as this SM would write them as master",
            counted(report.blocks, "table block", "table blocks"),
            counted(differing, "is", "are")
        ),
    }
}

/// True if plans for both are the same.
fn is_same(last: &Observation, now: &Observation) -> bool {
    let difference = Difference::between(&last.fabric, &now.fabric);
    difference.is_some_and(|difference| difference.is_empty()) && last.pkeys == now.pkeys
}
