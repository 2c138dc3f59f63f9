//! Log lines about vports, and their records of the activity report.

use super::discover::DiscoveredVports;
use crate::config::options::ActivitySubjects;
use crate::daemon::activity::ActivityReport;
use crate::fabric::Fabric;
use crate::ids::Guid;
use crate::manage::activity::SubnetActivity;
use crate::notes::counted;
use crate::vendor::virtual_ports::{
    DiscoveryScope, ManagedPort, ManagedPorts, ManagedVport, VirtualFailure,
};
use crate::wire::attr::PortState;
use crate::wire::vendor::facts::VIRTUALIZATION_INFO;
use std::collections::BTreeMap;
use tracing::{error, info, warn};

/// Ports and vports that a log line names; the others are counted.
const MAX_NAMED: usize = 16;

/// Numbers of a round of discoveries.
#[derive(Default)]
pub(super) struct DiscoveryCounts {
    ports: usize,
    vports: usize,
    claiming: usize,
}

impl DiscoveryCounts {
    pub(super) fn add(&mut self, scope: DiscoveryScope, found: &DiscoveredVports) {
        self.ports += usize::from(scope == DiscoveryScope::Full);
        self.vports += if scope == DiscoveryScope::Full { found.vports.len() } else { 0 };
        self.claiming += usize::from(found.claims_too_many);
    }
}

/// Records a discovery.
pub(super) fn discovered(
    report: &ActivityReport,
    guid: Guid,
    before: &ManagedPort,
    now: &ManagedPort,
) {
    if !report.wants(ActivitySubjects::VIRTUALIZATION) {
        return;
    }
    let is_new = before.vports.is_empty() && !now.vports.is_empty();
    if is_new || before.top_index != now.top_index {
        let top_index = now.top_index;
        report.send(SubnetActivity::PortVirtualizationDiscovered { port_guid: guid, top_index });
    }
    for (index, managed) in &now.vports {
        if vport_state(before, index) != managed.info.state() {
            report.send(state_change(guid, managed, managed.info.state()));
        }
    }
    for (index, managed) in &before.vports {
        if !now.vports.contains_key(index) {
            report.send(state_change(guid, managed, PortState::Down));
        }
    }
}

fn vport_state(port: &ManagedPort, index: &u16) -> PortState {
    port.vports.get(index).map_or(PortState::Down, |managed| managed.info.state())
}

/// Records vports that became ACTIVE.
pub(super) fn activated(report: &ActivityReport, guid: Guid, port: &ManagedPort, indexes: &[u16]) {
    if report.wants(ActivitySubjects::VIRTUALIZATION) {
        let vports = indexes.iter().filter_map(|index| port.vports.get(index));
        vports.for_each(|managed| report.send(state_change(guid, managed, PortState::Active)));
    }
}

fn state_change(port_guid: Guid, managed: &ManagedVport, state: PortState) -> SubnetActivity {
    SubnetActivity::VportStateChanged {
        port_guid,
        vport_guid: managed.vport.guid,
        index: managed.vport.index,
        vnode_guid: managed.vport.vnode.guid,
        state,
    }
}

pub(super) fn log_activation(activated: usize) {
    if activated > 0 {
        let vports = counted(activated, "vport", "vports");
        info!("virtualization: {vports} became ACTIVE");
    }
}

/// Facts about vports that are in the log already.
#[derive(Default)]
pub(super) struct VportLog {
    failures: BTreeMap<(Guid, Option<u16>), VirtualFailure>,
    /// It has told that the numbers of these attributes are not confirmed.
    has_warned: bool,
}

impl VportLog {
    /// Failures are logged again if they are still there.
    pub(super) fn forget_failures(&mut self) {
        self.failures.clear();
    }

    pub(super) fn discovery(&mut self, counts: &DiscoveryCounts) {
        if counts.ports > 0 {
            info!(
                "virtualization: {} discovered on {}",
                counted(counts.vports, "vport", "vports"),
                counted(counts.ports, "port", "ports")
            );
        }
        if counts.claiming > 0 {
            warn!(
                "virtualization: {} more vports than they support: those above are ignored",
                counted(counts.claiming, "port claims", "ports claim")
            );
        }
        if counts.vports > 0 && !self.has_warned {
            self.has_warned = true;
            info!(
                "virtualization is experimental: the numbers of its attributes are {}, and not \
                 confirmed on hardware; virt_enabled 0 sends none",
                VIRTUALIZATION_INFO.certainty
            );
        }
    }

    /// Logs failures that are new.
    pub(super) fn failures(&mut self, fabric: &Fabric, ports: &ManagedPorts) {
        let mut failures: BTreeMap<(Guid, Option<u16>), VirtualFailure> = BTreeMap::new();
        for (&guid, port) in &ports.0 {
            failures.extend(port.failure.map(|failure| ((guid, None), failure)));
            let vports = port.vports.iter();
            let failed = vports.filter_map(|(&index, vport)| Some((index, vport.failure?)));
            failures.extend(failed.map(|(index, failure)| ((guid, Some(index)), failure)));
        }
        let mut new: BTreeMap<VirtualFailure, Vec<(Guid, Option<u16>)>> = BTreeMap::new();
        for (&place, &failure) in &failures {
            if self.failures.get(&place) != Some(&failure) {
                new.entry(failure).or_default().push(place);
            }
        }
        self.failures = failures;
        for (failure, places) in new {
            let mut names: Vec<String> =
                places.iter().take(MAX_NAMED).map(|place| name(fabric, place)).collect();
            if let Some(others) = places.len().checked_sub(MAX_NAMED).filter(|&others| others > 0) {
                names.push(format!("{others} more"));
            }
            let remedy = if failure.is_transient() {
                "it is tried again with the next sweep"
            } else if failure == VirtualFailure::NoLidLeft {
                "it stays in INIT until one is free"
            } else {
                "it is tried again every 5 minutes, after a reload, and when it reports a change"
            };
            error!("virtualization: {failure}: {}; {remedy}", names.join(", "));
        }
    }
}

fn name(fabric: &Fabric, &(guid, index): &(Guid, Option<u16>)) -> String {
    let port = fabric.port_by_guid(guid);
    let port = port.map_or_else(|| guid.to_string(), |port| fabric.describe(port));
    match index {
        Some(index) => format!("vport {index} of {port}"),
        None => port,
    }
}
