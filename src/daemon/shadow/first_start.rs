//! The first sweep of a daemon that starts with a configuration, up to the answers to its Sets, on a port
//! of which no Set leaves (see [`rehearsal`](crate::transport::rehearsal)).
//!
//! The stages are those of the SM loop: sweep, plan, verification, comparison of the tables that the
//! devices hold, and programming in its usual order.

use crate::apply::inherited;
use crate::apply::{Acknowledged, ApplyControl, ApplyReport, ApplySettings, PassDevices, apply};
use crate::cli::configuration;
use crate::config::config_files::ConfigFiles;
use crate::config::options::Options;
use crate::contained;
use crate::daemon::parts;
use crate::daemon::sm_loop::files::StateFiles;
use crate::daemon::sm_loop::partitions::PartitionState;
use crate::daemon::sm_loop::planning::{PlanRequest, SharedRegistrations};
use crate::daemon::sm_loop::stages::reconfigure::decision::decide;
use crate::daemon::sm_loop::stages::reconfigure::reregister::clients_to_reregister;
use crate::observe::m_keys::MKeys;
use crate::observe::{Observation, SweepError, SweepSettings, heavy};
use crate::plan::Plan;
use crate::plan::lids::Memory;
use crate::plan::multicast::GroupMembers;
use crate::publish::rejected::PlanRejected;
use crate::sa::registry::{Registry, last_mlid};
use crate::transport::client::SmpClient;
use crate::transport::rehearsal::{Rehearsal, RehearsedSet};
use crate::verify::Verified;
use rustc_hash::FxHashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The input of a first sweep: configuration and stored files.
pub struct FirstStart {
    pub(super) options: Arc<Options>,
    files: Arc<ConfigFiles>,
    partitions: PartitionState,
    registry: Registry,
    memory: Memory,
    m_keys: MKeys,
    sweeps: SweepSettings,
}

/// A plan for an observed fabric, or the reasons why there is none.
pub(super) struct FirstPlan {
    pub(super) outcome: Result<Verified, PlanRejected>,
    pub(super) request: PlanRequest,
    pub(super) planning: Duration,
}

/// The Sets of a first sweep, in the order of their answers.
pub(super) struct FirstSets {
    pub(super) sets: Vec<RehearsedSet>,
    /// With the Sets that devices would not answer.
    pub(super) report: ApplyReport,
}

impl FirstStart {
    /// Reads the files of earlier runs, as a daemon does when it starts.
    pub fn new(options: Options, files: Arc<ConfigFiles>, state: &StateFiles) -> Self {
        let mut options = options;
        let (registry, is_complete) = parts::registry(&options, &files.partitions, false);
        options.no_clients_rereg &= is_complete;
        let names = files.node_names.iter().cloned().collect();
        Self {
            partitions: PartitionState::new(files.partitions.clone()),
            registry,
            memory: state.read_memory(&options),
            m_keys: state.read_m_keys(&options),
            sweeps: SweepSettings::new(&options, Arc::new(names)),
            options: Arc::new(options),
            files,
        }
    }

    /// Sweeps the fabric.
    ///
    /// # Errors
    /// The local port fails.
    pub(super) async fn sweep(&mut self, client: &SmpClient) -> Result<Observation, SweepError> {
        let observation = heavy::sweep(client, &self.m_keys, &self.sweeps).await?;
        self.m_keys.learn(&observation.fabric);
        self.m_keys.learn_cables(&observation.fabric);
        Ok(observation)
    }

    /// Plans the observed fabric with the routes of no earlier plan. `groups`: multicast groups beside
    /// those of the stored files.
    ///
    /// # Errors
    /// An unknown engine name.
    pub(super) fn plan(
        &mut self,
        observation: &Observation,
        groups: Vec<GroupMembers>,
    ) -> Result<FirstPlan, String> {
        let request = self.request(observation, groups)?;
        Ok(self.planned(request, None))
    }

    /// Plans the observed fabric as a daemon does whose devices hold the plan `previous`.
    ///
    /// # Errors
    /// An unknown engine name.
    pub(super) fn plan_after(
        &mut self,
        observation: &Observation,
        previous: Option<&Plan>,
    ) -> Result<FirstPlan, String> {
        let request = self.request(observation, Vec::new())?;
        Ok(self.planned(request, previous))
    }

    fn request(
        &mut self,
        observation: &Observation,
        groups: Vec<GroupMembers>,
    ) -> Result<PlanRequest, String> {
        let fabric = &observation.fabric;
        let last = last_mlid(fabric);
        if let Some(specs) = self.partitions.resolve(&self.options, last) {
            self.registry.set_permanent(&specs, last);
        }
        let mut members = self.registry.groups(fabric);
        members.retain(|group| groups.iter().all(|other| other.mlid != group.mlid));
        members.extend(groups);
        members.sort_by_key(|group| group.mlid);
        let chain = configuration::chain(&self.options, self.files.routing.clone())?;
        Ok(PlanRequest {
            fabric: fabric.clone(),
            pkeys: observation.pkeys.clone(),
            options: self.options.clone(),
            torus_config: self.files.torus_config.clone(),
            chain: Arc::new(chain),
            partitions: self.partitions.current(),
            qos_policy: self.files.qos_policy.clone().filter(|_| self.options.qos),
            registrations: SharedRegistrations {
                groups: Arc::new(members),
                aliases: Arc::new(self.registry.alias_blocks(fabric)),
            },
            memory: self.memory.clone(),
            reregister: clients_to_reregister(fabric, &self.options, &FxHashSet::default()),
            held_mappings: Arc::default(),
        })
    }

    fn planned(&mut self, request: PlanRequest, previous: Option<&Plan>) -> FirstPlan {
        let start = Instant::now();
        let planned = contained::run(|| decide(request.plan(previous, None)));
        let planning = start.elapsed();
        let outcome = match planned {
            Ok(((outcome, memory), _)) => {
                self.memory = memory;
                outcome
            }
            Err(panic) => Err(PlanRejected::of(format!("planning failed: {panic}"))),
        };
        FirstPlan { outcome, request, planning }
    }

    /// Reads the tables that the devices hold, and programs them in the rehearsal of `client`.
    pub(super) async fn program(
        &self,
        client: &SmpClient,
        rehearsal: &Rehearsal,
        observation: &Observation,
        verified: &Verified,
    ) -> FirstSets {
        let mut observation = observation.clone();
        let mut acknowledged = Acknowledged::default();
        let keys = &self.m_keys;
        inherited::adopt(client, &observation, verified.plan(), &mut acknowledged, keys).await;
        let devices = PassDevices {
            client,
            observation: &mut observation,
            acknowledged: &mut acknowledged,
            keys,
        };
        // Mappings of many ports at once cannot be read from all devices that can be set so.
        let settings =
            ApplySettings { optimized_sl_to_vl: false, ..ApplySettings::from(&*self.options) };
        let report = apply(devices, verified, settings, ApplyControl::to_the_end(), &[]).await;
        FirstSets { sets: rehearsal.take(), report }
    }
}
