//! Repeats the stages observe, plan and verify on the devices and inputs of a recording.

use crate::cli::configuration;
use crate::config::files::{self, ConfigTexts};
use crate::config::guid2lid;
use crate::config::options::Options;
use crate::config::qos_policy::QosPolicy;
use crate::config::torus::TorusConfig;
use crate::fabric::{Fabric, PortId};
use crate::ids::{Guid, Mlid, Pkey, PortNum, Sl};
use crate::notes::{Note, Severity, in_words};
use crate::observe::m_keys::MKeys;
use crate::observe::{Observation, SweepError, SweepSettings, heavy};
use crate::plan::Plan;
use crate::plan::aliases::AliasBlock;
use crate::plan::compute::{PlanInput, Registrations};
use crate::plan::lids::Memory;
use crate::plan::multicast::GroupMembers;
use crate::plan::partitions::removed_pkeys::RemovedPkeys;
use crate::plan::partitions::{self, Partition};
use crate::plan::routing::chain::Chain;
use crate::record::Recording;
use crate::record::devices::RecordedDevices;
use crate::record::digest::{DeviceDigest, digests};
use crate::record::entry::RecordEntry;
use crate::record::json::{ConfigurationJson, GroupJson, PlanJson, PortJson, TorusConfigJson};
use crate::record::replay_port::ReplayPort;
use crate::transport::client::SmpClient;
use crate::transport::demux::MadDemux;
use crate::transport::transactions::SmpLimits;
use crate::verify::Checks;
use crate::verify::baseline::plan_and_verify;
use crate::wire::attr::tables::GuidBlock;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// Requests in flight. The replayed port answers at once.
const WINDOW: usize = 256;

/// A recording that is repeated plan by plan.
pub struct Rerun<'a> {
    recording: &'a Recording,
    devices: RecordedDevices,
    /// Number of the next entry that the devices lack.
    next: u64,
    /// The last plan that passed verification.
    previous: Option<Arc<Plan>>,
    /// That plan is the one of the daemon.
    is_same: bool,
    /// Index of the configuration of the last plan.
    configuration: usize,
}

/// The result of repeating a plan.
pub struct Repeated {
    /// The devices that the repeated sweep found, or why it failed.
    pub found: Result<Vec<(Guid, DeviceDigest, String)>, SweepError>,
    /// The name of the routing engine, or why there is no plan.
    pub plan: Result<&'static str, String>,
    /// Number of answers through cables that the recording does not contain.
    pub unplaced: usize,
    /// The plan may depend on one before it, which the recording lacks.
    pub lacks_previous: bool,
    /// The plan depends on vports, which recordings lack.
    pub lacks_vports: bool,
    /// The plan that passed verification, if there is one.
    pub routed: Option<Routed>,
}

/// A plan with the snapshot that it is for.
pub struct Routed {
    pub fabric: Arc<Fabric>,
    pub plan: Arc<Plan>,
}

/// The recorded configuration, parsed.
struct RecordedConfiguration {
    options: Options,
    chain: Chain,
    partitions: Vec<Partition>,
    qos_policy: Option<Arc<QosPolicy>>,
    sweeps: SweepSettings,
}

/// Starts the runtime on which a rerun sweeps.
///
/// # Errors
/// Threads cannot be started.
pub(super) fn start_runtime() -> Result<Runtime, String> {
    let runtime = Builder::new_current_thread().enable_time().build();
    runtime.map_err(|error| format!("cannot start the runtime: {error}"))
}

impl<'a> Rerun<'a> {
    pub fn new(recording: &'a Recording) -> Self {
        let snapshot = recording.header.devices.as_ref();
        let next = snapshot.map_or(0, |snapshot| snapshot.position).max(recording.first);
        let devices = RecordedDevices::new(snapshot);
        Self { recording, devices, next, previous: None, is_same: false, configuration: 0 }
    }

    /// The devices at the present time.
    pub fn devices(&self) -> &RecordedDevices {
        &self.devices
    }

    /// The fabric as a sweep finds it at the present time, with the settings of the last plan.
    ///
    /// # Errors
    /// The recorded configuration is invalid, or the sweep fails.
    pub async fn fabric(&self) -> Result<Arc<Fabric>, String> {
        let configuration = self.recording.header.configurations.get(self.configuration);
        let sweeps = match configuration {
            Some(configuration) => RecordedConfiguration::parse(configuration)?.sweeps,
            None => SweepSettings::new(&Options::default(), Arc::default()),
        };
        let observation = self.sweep(&sweeps).await;
        observation.map(|observation| observation.fabric).map_err(|problem| problem.to_string())
    }

    /// Repeats a plan. Plans must be repeated in their order.
    ///
    /// # Errors
    /// The recorded configuration is invalid.
    pub async fn plan(&mut self, plan: &PlanJson) -> Result<Repeated, String> {
        self.advance(plan.position);
        self.configuration = plan.configuration;
        let configuration = self.recording.header.configurations.get(plan.configuration);
        let configuration = configuration.ok_or("the plan has no configuration")?;
        let configuration = RecordedConfiguration::parse(configuration)?;
        let unplaced = self.devices.unplaced();
        let observation = match self.sweep(&configuration.sweeps).await {
            Ok(observation) => observation,
            Err(problem) => {
                let plan = Err("there are no devices to plan for".to_owned());
                return Ok(Repeated {
                    found: Err(problem),
                    plan,
                    unplaced,
                    lacks_previous: false,
                    lacks_vports: false,
                    routed: None,
                });
            }
        };
        if !plan.has_previous {
            self.previous = None;
        }
        let lacks_previous = plan.has_previous && !self.is_same;
        let fabric = &observation.fabric;
        let lacks_vports = configuration.options.virt_enabled == 2 && fabric.awaits_vports();
        let previous = self.previous.as_deref();
        let result = repeat(&observation, plan, previous, &configuration);
        let digests = digests(fabric, result.as_deref().ok());
        let plan = result.as_ref().map(|plan| plan.routing.engine).map_err(Clone::clone);
        let routed = result
            .as_ref()
            .ok()
            .map(|plan| Routed { fabric: observation.fabric.clone(), plan: plan.clone() });
        self.previous = result.ok().or(self.previous.take());
        let named = digests.into_iter().zip(fabric.nodes());
        let found = named.map(|((guid, digest), node)| (guid, digest, node.name().to_string()));
        let found = Ok(found.collect());
        Ok(Repeated { found, plan, unplaced, lacks_previous, lacks_vports, routed })
    }

    /// Tells whether the last plan is the one of the daemon, so that the next one can start from
    /// it.
    pub fn compared(&mut self, is_same: bool) {
        self.is_same = is_same;
    }

    /// Brings the devices to the time before an entry.
    pub fn advance(&mut self, position: u64) {
        let Recording { first, entries, .. } = self.recording;
        let from = index_of(first, entries, self.next);
        let to = index_of(first, entries, position);
        if from < to {
            entries[from..to].iter().for_each(|entry| self.devices.apply(entry));
            self.next = position;
        }
    }

    /// Sweeps the devices.
    async fn sweep(&self, settings: &SweepSettings) -> Result<Observation, SweepError> {
        let (demux, _unsolicited) = MadDemux::new(1);
        let port = ReplayPort::open(Arc::new(self.devices.clone()), demux.clone());
        let timeout = Duration::from_secs(1);
        let limits = SmpLimits { window: WINDOW, timeout, retries: 0, ..SmpLimits::default() };
        let client = SmpClient::new(Arc::new(port), &demux, limits);
        heavy::sweep(&client, &MKeys::default(), settings).await
    }
}

fn index_of(first: &u64, entries: &[RecordEntry], number: u64) -> usize {
    usize::try_from(number.saturating_sub(*first))
        .map_or(entries.len(), |index| index.min(entries.len()))
}

impl RecordedConfiguration {
    fn parse(json: &ConfigurationJson) -> Result<Self, String> {
        let mut options = Options::default();
        let found = options.read(&json.options, Path::new("recorded opensm.conf"));
        let error = found.iter().find(|found| found.severity == Severity::Error);
        if let Some(error) = error {
            return Err(error.to_string());
        }
        let texts = ConfigTexts(json.files.clone());
        let (routing_files, _) = files::routing_files_from(&texts, &options);
        let chain = configuration::chain(&options, routing_files)?;
        let (config, _) = files::partitions_from(&texts, &options)?;
        let (partitions, _) = partitions::partitions(&config, &options, &[]);
        let qos_policy = if options.qos {
            files::qos_policy_from(&texts, &options).map_err(in_words)?.0.map(Arc::new)
        } else {
            None
        };
        // As in the daemon, an invalid map has no names.
        let names = files::node_names_from(&texts, &options).unwrap_or_default().0;
        let sweeps = SweepSettings::new(&options, Arc::new(names.into_iter().collect()));
        Ok(Self { options, chain, partitions, qos_policy, sweeps })
    }
}

/// Plans and verifies. The error is the reason why there is no plan.
fn repeat(
    observation: &Observation,
    plan: &PlanJson,
    previous: Option<&Plan>,
    configuration: &RecordedConfiguration,
) -> Result<Arc<Plan>, String> {
    let RecordedConfiguration { options, chain, partitions, qos_policy, .. } = configuration;
    let fabric = &*observation.fabric;
    let reregister: HashSet<PortId> =
        plan.reregister.iter().filter_map(|port| port_id(fabric, port)).collect();
    let input = PlanInput {
        fabric,
        options,
        memory: &memory(plan),
        torus_config: &torus_config(plan),
        partitions,
        observed_pkeys: &observation.pkeys,
        registrations: Registrations {
            groups: &groups(fabric, &plan.groups),
            aliases: &aliases(fabric, plan),
        },
        previous,
        reregister: &|port| reregister.contains(&port),
        chain,
        qos_policy: qos_policy.as_ref(),
    };
    match plan_and_verify(&input, None, &Checks::of(options)) {
        Ok(verdict) => match verdict.verdict {
            Ok(verified) => Ok(verified.plan().clone()),
            Err(failure) => Err(failure.to_string()),
        },
        Err(failure) => {
            let notes = failure.routing_errors.iter().flat_map(|error| &error.notes);
            let notes: Vec<String> = notes.map(ToString::to_string).collect();
            Err(notes.join("; "))
        }
    }
}

fn port_id(fabric: &Fabric, &(guid, num): &PortJson) -> Option<PortId> {
    fabric.port_of(fabric.node_by_guid(guid.0)?, PortNum(num))
}

fn memory(plan: &PlanJson) -> Memory {
    let (guid2lid, _) = guid2lid::parse(Path::new("recorded guid2lid"), &plan.guid2lid, 0);
    let removed = plan.removed_pkeys.iter().map(|(guid, keys)| {
        (guid.0, keys.iter().map(|&(key, index)| (Pkey(key), index)).collect())
    });
    Memory {
        guid2lid: Arc::new(guid2lid),
        lids_assigned: plan.lids_assigned,
        removed_pkeys: RemovedPkeys::new(removed),
    }
}

fn torus_config(plan: &PlanJson) -> Result<TorusConfig, Vec<Note>> {
    match &plan.torus_config {
        TorusConfigJson::Text(text) => TorusConfig::parse(Path::new("torus-2QoS.conf"), text),
        TorusConfigJson::Errors(errors) => {
            Err(errors.iter().map(|text| Note::new(Severity::Error, None, text.clone())).collect())
        }
    }
}

fn groups(fabric: &Fabric, groups: &[GroupJson]) -> Vec<GroupMembers> {
    groups
        .iter()
        .map(|group| GroupMembers {
            mlid: Mlid(group.mlid),
            sl: Sl(group.sl),
            members: ports(fabric, &group.members),
            senders: ports(fabric, &group.senders),
        })
        .collect()
}

fn ports(fabric: &Fabric, ports: &[PortJson]) -> Vec<PortId> {
    ports.iter().filter_map(|port| port_id(fabric, port)).collect::<Vec<_>>()
}

fn aliases(fabric: &Fabric, plan: &PlanJson) -> Vec<AliasBlock> {
    plan.aliases
        .iter()
        .filter_map(|alias| {
            let guids = GuidBlock(alias.guids.map(|guid| guid.0));
            let port = port_id(fabric, &alias.port)?;
            Some(AliasBlock { port, vport: None, block: alias.block, guids })
        })
        .collect()
}
