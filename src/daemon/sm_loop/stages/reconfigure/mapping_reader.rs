//! SL to VL mappings that switches hold while QoS is off: read once the subnet is up, if the routing
//! engine keeps paths apart by SLs. The next plan is verified with them.

use crate::apply::held_mappings::read_mappings;
use crate::ids::Guid;
use crate::notes::counted;
use crate::observe::Observation;
use crate::observe::m_keys::MKeys;
use crate::transport::client::SmpClient;
use crate::verify::Verified;
use crate::verify::held_mappings::{self, HeldMappings};
use std::sync::Arc;
use tokio::task::JoinHandle;
use tracing::{debug, info};

/// Requests in flight.
const WINDOW: usize = 4;

/// Requests per second.
const RATE: u32 = 20_000;

/// The mappings that are known, and the task that reads others. The task ends when this is dropped.
#[derive(Default)]
pub(super) struct MappingReader {
    pub(super) held: Arc<HeldMappings>,
    task: Option<JoinHandle<HeldMappings>>,
}

impl Drop for MappingReader {
    fn drop(&mut self) {
        self.stop();
    }
}

impl MappingReader {
    fn stop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }

    /// Waits until mappings are read that were not known, with which the plan in force must be verified
    /// again; for ever if there are none to read. Cancel safe.
    pub(super) async fn changed(&mut self) {
        loop {
            let Some(task) = self.task.as_mut() else { return std::future::pending().await };
            let result = task.await;
            self.task = None;
            let mut held = HeldMappings::clone(&self.held);
            match result {
                Ok(read) => held.update(read),
                Err(problem) => debug!("reading SL to VL mappings ended: {problem}"),
            }
            if *self.held == held {
                continue;
            }
            info!(
                "read {} of the switches, which are not written while qos is FALSE: the routes are \
                 verified with them",
                counted(held.known(), "SL to VL mapping", "SL to VL mappings")
            );
            self.held = Arc::new(held);
            return;
        }
    }

    /// After a plan was applied: reads the mappings on which it relies and that are not known.
    /// `unknown` are nodes that may have been restarted.
    pub(super) fn start(
        &mut self,
        client: &SmpClient,
        keys: &MKeys,
        observation: &Observation,
        verified: &Verified,
        unknown: &[Guid],
    ) {
        self.stop();
        let plan = verified.plan();
        if !held_mappings::are_needed(plan) {
            // Mappings that a later plan writes would replace them.
            self.held = Arc::default();
            return;
        }
        if !unknown.is_empty() {
            Arc::make_mut(&mut self.held).forget(unknown);
        }
        let missing = self.held.missing(&observation.fabric);
        if missing.is_empty() {
            return;
        }
        let client = client.paced(WINDOW, RATE);
        let keys = keys.clone();
        let observation = observation.clone();
        let plan = plan.clone();
        self.task = Some(tokio::spawn(async move {
            read_mappings(&client, &observation, &plan, &keys, missing).await
        }));
    }
}
