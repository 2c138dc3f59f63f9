//! Reads what the devices hold when this SM becomes master: tables that another SM has written, or
//! an earlier run of this one.

use super::audit::Audit;
use super::log_once::log_inherited;
use super::state::DeviceState;
use crate::apply::Acknowledged;
use crate::apply::inherited::{Confirmation, adopt, confirm};
use crate::notes::{counted, time_text};
use crate::observe::Observation;
use crate::transport::client::SmpClient;
use crate::verify::Verified;
use std::sync::Arc;
use tokio::time::Instant;
use tracing::{debug, info, warn};

impl DeviceState {
    /// Uses what this SM has read of the devices as standby.
    pub(super) fn use_warm_tables(&mut self, acknowledged: Acknowledged, blocks: usize) {
        self.acknowledged = acknowledged;
        self.warm_blocks = Some(blocks);
    }

    /// Before a plan is applied: learns what the devices hold, if that is not known.
    pub(super) async fn inherit(
        &mut self,
        client: &SmpClient,
        observation: &Observation,
        verified: &Verified,
    ) {
        let start = Instant::now();
        let plan = verified.plan();
        if self.acknowledged.is_local_port_moved(&observation.fabric) {
            info!("the cable of the local port was moved: all tables are read again");
            self.forget_tables();
        }
        self.find_moved_cables(observation);
        if let Some(blocks) = self.warm_blocks.take() {
            let acknowledged = &mut self.acknowledged;
            let keys = &self.m_keys;
            let found = confirm(client, observation, plan, acknowledged, blocks, keys).await;
            self.needs_audit |= matches!(found, Confirmation::Sample { .. });
            log_confirmation(&found, observation, start);
        }
        let acknowledged = &mut self.acknowledged;
        let report = adopt(client, observation, plan, acknowledged, &self.m_keys).await;
        log_inherited(report, start.elapsed());
    }

    /// An audit that runs is repeated, since its plan is replaced; a moved cable needs one.
    fn find_moved_cables(&mut self, observation: &Observation) {
        self.needs_audit |= self.audit.take().is_some();
        let Some((last, _)) = self.acknowledged.last() else { return };
        if !Arc::ptr_eq(last, &observation.fabric)
            && self.moved_cables.compare(last, &observation.fabric)
        {
            info!("a cable between switches was moved: all tables are compared with the plan");
            self.needs_audit = true;
        }
    }

    /// After a plan was applied: starts to compare all tables, if some were trusted.
    pub(super) fn start_audit(&mut self, client: &SmpClient, observation: &Observation) {
        if std::mem::replace(&mut self.needs_audit, false) {
            let acknowledged = self.acknowledged.clone();
            let keys = &self.m_keys;
            let audit = Audit::start(client, observation, acknowledged, keys);
            self.audit = Some(audit);
        }
    }

    /// Waits until the fabric must be configured again because of what was read from the devices after
    /// the last plan was applied. Cancel safe.
    pub(super) async fn tables_read(&mut self) {
        let Self { audit, acknowledged, mapping_reader, .. } = self;
        tokio::select! {
            () = audited(audit, acknowledged) => {}
            () = mapping_reader.changed() => {}
        }
    }
}

/// Waits until the audit has found a table that is not as expected; for ever without an audit. Cancel
/// safe.
async fn audited(audit: &mut Option<Audit>, acknowledged: &mut Acknowledged) {
    loop {
        let Some(running) = audit.as_mut() else {
            return std::future::pending().await;
        };
        let result = running.result().await;
        *audit = None;
        match result {
            Ok((None, blocks)) => {
                info!(
                    "compared {} with the plan: all are as planned",
                    counted(blocks, "table block", "table blocks")
                );
            }
            Ok((Some(set), _)) => {
                warn!(
                    "a table is not as this SM left or read it ({set} is needed): all tables are read \
                     again"
                );
                acknowledged.forget_all();
                return;
            }
            Err(problem) => debug!("the audit of the tables ended: {problem}"),
        }
    }
}

fn log_confirmation(found: &Confirmation, observation: &Observation, start: Instant) {
    let duration = time_text(start.elapsed());
    match found {
        Confirmation::Exact { blocks } => info!(
            "{} are as this SM read them as standby, compared in {duration}",
            counted(*blocks, "table block", "table blocks")
        ),
        Confirmation::Sample { blocks } => info!(
            "a sample of {} is as this SM read them as standby, compared in {duration}; the others \
             are compared once the subnet is up",
            counted(*blocks, "table block", "table blocks")
        ),
        Confirmation::Refuted(set) => info!(
            "a table changed after this SM read it as standby ({} is needed): all tables are read \
             again",
            set.describe(&observation.fabric)
        ),
    }
}
