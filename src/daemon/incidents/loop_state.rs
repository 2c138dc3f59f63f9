//! Facts from the status of the SM loop: other managers, own resources, cables that go down or report errors,
//! and the last reconfiguration.

use super::source::{FactSource, View};
use crate::fabric::quarantined::QuarantineCause;
use crate::fabric::{End, Fabric};
use crate::incidents::fact::{
    Cable, CableEnd, CableFault, Facts, FaultyCable, ForeignManager, OwnFault, Reroute,
};
use crate::manage::loop_status::{LoopStatus, ReconfigureRecord, ReconfigureResult};
use chrono::{DateTime, Utc};

/// Links that went down so often within a minute flap: those of switches, and those of hosts, which go
/// down two or three times while they boot.
const MIN_FLAPS: [usize; 2] = [3, 5];

#[derive(Default)]
pub struct LoopState {
    /// The time of the last reconfiguration that was reported.
    last_reroute: Option<DateTime<Utc>>,
}

impl FactSource for LoopState {
    fn add_facts(&mut self, view: &View<'_>, facts: &mut Facts) {
        let status = view.status;
        facts.managers.extend(managers(status));
        facts.own.extend(own(status));
        let Some(watched) = view.watched else { return };
        facts.is_mass_silence = status.unresponsive.is_alarm;
        facts.faulty_cables.extend(flapping(status, watched.fabric));
        facts.faulty_cables.extend(error_traps(status, watched.fabric));
        facts.reroute = self.reroute(status);
    }
}

impl LoopState {
    /// The last reconfiguration that wrote routes, unless it was reported before.
    fn reroute(&mut self, status: &LoopStatus) -> Option<Reroute> {
        let is_reroute = |record: &&ReconfigureRecord| {
            record.result == ReconfigureResult::Up && record.figures.lft_blocks > 0
        };
        let record = status.reconfigurations.iter().rev().find(is_reroute)?;
        if self.last_reroute.replace(record.ended) == Some(record.ended) {
            return None;
        }
        let time = record.trap_to_tables.unwrap_or(record.figures.total);
        let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Some(Reroute { milliseconds, sets: record.figures.sets as u64 })
    }
}

/// The cable between two ports as it is named in `fabric`, plugged in or not.
fn named(fabric: &Fabric, ends: [End; 2]) -> Cable {
    let [one, other] = ends.map(|(guid, port)| {
        let node = fabric.node_by_guid(guid).map(|id| fabric.node(id));
        CableEnd {
            guid,
            port,
            name: node.map_or_else(|| guid.to_string(), |node| node.name().to_string()),
            is_switch: node.is_some_and(crate::fabric::Node::is_switch),
        }
    });
    Cable::new(one, other)
}

fn flapping(status: &LoopStatus, fabric: &Fabric) -> Vec<FaultyCable> {
    let links = status.link_downs.iter().map(|link| {
        let cable = named(fabric, link.ends);
        let limit = MIN_FLAPS[usize::from(!cable.joins_switches())];
        let is_flapping = link.is_quarantined || link.downs >= limit;
        let downs = link.downs.max(limit) as u32;
        let fault = CableFault::Flapping { downs, is_quarantined: link.is_quarantined };
        is_flapping.then_some(FaultyCable { cable, fault })
    });
    links.flatten().collect()
}

/// Cables whose ports report errors by traps.
fn error_traps(status: &LoopStatus, fabric: &Fabric) -> Vec<FaultyCable> {
    let quarantined = status.subnet.iter().flat_map(|subnet| &subnet.devices.quarantined);
    let reported = quarantined.filter_map(|link| match link.cause {
        QuarantineCause::Errors((guid, num)) => Some((link.ends, guid, num)),
        _ => None,
    });
    let fault = |(ends, guid, num)| {
        let text = format!("{guid}[{num}] reports errors of the link by traps; it is quarantined");
        FaultyCable { cable: named(fabric, ends), fault: CableFault::Erroring { text } }
    };
    reported.map(fault).collect()
}

fn managers(status: &LoopStatus) -> Vec<ForeignManager> {
    let foreign = status.foreign_master.iter().map(|master| ForeignManager {
        guid: master.guid,
        text: format!(
            "the subnet manager on {} is master with another SM_Key, so that this one waits",
            master.node
        ),
    });
    foreign.collect()
}

/// Resources of this program.
fn own(status: &LoopStatus) -> Vec<OwnFault> {
    let rejected =
        status.config.error.as_deref().map(|error| (error, "older values stay in force"));
    let at_start = status.config.start_error.as_deref();
    let at_start = at_start.map(|error| (error, "this program has started without what is wrong"));
    let config = rejected.or(at_start).map(|(error, consequence)| OwnFault {
        resource: "configuration",
        text: format!(
            "the configuration has errors, and {consequence}: {}",
            error.lines().next().unwrap_or_default()
        ),
        repair: "correct the file, then reload the configuration".to_owned(),
    });
    let files = status.file_problems.get().map(|problem| OwnFault {
        resource: "files",
        text: format!("files cannot be written: {problem}"),
        repair: "free space, or correct the permissions of the folder".to_owned(),
    });
    config.into_iter().chain(files).collect()
}
