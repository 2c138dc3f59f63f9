//! Reads what the devices hold when this SM becomes master: tables that another SM has written, or
//! an earlier run of this one.

use super::Reconfigurer;
use super::audit::Audit;
use super::log_once::log_inherited;
use super::state::DeviceState;
use super::warm_standby::Follower;
use crate::apply::Acknowledged;
use crate::apply::inherited::{Confirmation, adopt, confirm};
use crate::config::options::Options;
use crate::daemon::sm_loop::context::ManagerContext;
use crate::ids::Mlid;
use crate::notes::{counted, time_text};
use crate::observe::Observation;
use crate::verify::Verified;
use std::sync::Arc;
use tokio::time::Instant;
use tracing::{debug, info, warn};

impl Reconfigurer {
    /// As STANDBY, follows the fabric read-only (`standby_query_rate`).
    pub async fn keep_warm(&mut self, context: &ManagerContext, options: &Arc<Options>) {
        if self.warm_standby.is_running() {
            return;
        }
        let Some(client) = Follower::client(&context.client, options) else { return };
        self.update_sa_server(context, options, Mlid::LAST).await;
        let stored = match options.honor_guid2lid_file {
            true => context.files.read_memory(options).guid2lid,
            false => Arc::default(),
        };
        let sweeps = self.sweep_settings(options);
        self.warm_standby.start(Follower {
            client,
            sa_server: context.sa_server.clone(),
            files: self.config.files.clone(),
            options: options.clone(),
            partitions: self.config.partitions.current(),
            qos_policy: self.config.qos_policy.current(options),
            memory: self.plan.memory.clone().after_standby(options, stored),
            m_keys: self.devices.m_keys.clone(),
            sweeps,
        });
    }

    /// Stops following the fabric.
    pub fn stop_following(&mut self) {
        self.warm_standby.stop();
    }

    /// Uses what this SM has learned of the fabric as standby.
    pub(super) fn use_warm_tables(&mut self) {
        if let Some(state) = self.warm_standby.stop() {
            self.devices.acknowledged = state.acknowledged;
            self.devices.warm_blocks = Some(state.blocks);
            if let Some(baseline) = state.baseline {
                self.plan.baselines.provide(baseline);
            }
        }
    }

    /// Before a plan is applied: learns what the devices hold, if that is not known.
    pub(super) async fn inherit(
        &mut self,
        context: &ManagerContext,
        observation: &Observation,
        verified: &Verified,
    ) {
        let (client, plan, start) = (&context.client, verified.plan(), Instant::now());
        if self.devices.acknowledged.is_local_port_moved(&observation.fabric) {
            info!("the cable of the local port was moved: all tables are read again");
            self.devices.forget_tables();
        }
        self.find_moved_cables(observation);
        let acknowledged = &mut self.devices.acknowledged;
        if let Some(blocks) = self.devices.warm_blocks.take() {
            let keys = &self.devices.m_keys;
            let found = confirm(client, observation, plan, acknowledged, blocks, keys).await;
            self.devices.needs_audit |= matches!(found, Confirmation::Sample { .. });
            log_confirmation(&found, observation, start);
        }
        let acknowledged = &mut self.devices.acknowledged;
        let report = adopt(client, observation, plan, acknowledged, &self.devices.m_keys).await;
        log_inherited(report, start.elapsed());
    }

    /// An audit that runs is repeated, since its plan is replaced; a moved cable needs one.
    fn find_moved_cables(&mut self, observation: &Observation) {
        let devices = &mut self.devices;
        devices.needs_audit |= devices.audit.take().is_some();
        let Some((last, _)) = devices.acknowledged.last() else { return };
        if !Arc::ptr_eq(last, &observation.fabric)
            && devices.moved_cables.compare(last, &observation.fabric)
        {
            info!("a cable between switches was moved: all tables are compared with the plan");
            devices.needs_audit = true;
        }
    }

    /// Records that cables were moved: Sets may have reached other devices than those meant, also if
    /// the next snapshot shows the cables where they were. All tables are compared.
    pub fn cables_moved(&mut self) {
        self.devices.needs_audit = true;
    }

    /// After a plan was applied: starts to compare all tables, if some were trusted.
    pub(super) fn start_audit(&mut self, context: &ManagerContext, observation: &Observation) {
        if std::mem::take(&mut self.devices.needs_audit) {
            let acknowledged = self.devices.acknowledged.clone();
            let keys = &self.devices.m_keys;
            let audit = Audit::start(&context.client, observation, acknowledged, keys);
            self.devices.audit = Some(audit);
        }
    }

    /// Waits until the fabric must be configured again because of what was read from the devices after
    /// the last plan was applied. Cancel safe.
    pub async fn device_tables_read(&mut self) {
        let DeviceState { audit, acknowledged, mapping_reader, .. } = &mut self.devices;
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
