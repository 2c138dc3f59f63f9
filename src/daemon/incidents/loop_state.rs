//! Facts from the status of the SM loop: other managers, own resources, cables that go down or report errors,
//! and the last reconfiguration.

use super::source::{FactSource, FactView};
use crate::fabric::quarantined::QuarantineCause;
use crate::fabric::{End, Fabric};
use crate::incidents::fact::{
    Cable, CableDefect, CableEnd, Facts, FaultyCable, ForeignManager, OwnFault, Reroute,
};
use crate::manage::loop_status::{LoopStatus, ReconfigureResult};
use crate::observe::link_health::DOWN_WINDOW;
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Links that went down so often within a minute flap: those of switches, and those of hosts, which go
/// down two or three times while they boot.
const MIN_FLAPS: [usize; 2] = [3, 5];

/// Time after the loss of a cable for which the incident about it stays open when the cable is back: that
/// in which losses are counted.
const RETURN_TIME: Duration = DOWN_WINDOW;

#[derive(Default)]
pub struct StatusSource {
    /// The time of the last reconfiguration that was reported.
    last_reroute: Option<DateTime<Utc>>,
    /// How often links went down, and when that was seen first.
    downs: BTreeMap<[End; 2], (usize, Instant)>,
}

impl FactSource for StatusSource {
    fn add_facts(&mut self, view: &FactView<'_>, facts: &mut Facts) {
        let status = view.status;
        facts.managers.extend(managers(status));
        facts.own.extend(own(status));
        let Some(watched) = view.watched else { return };
        facts.losses.is_mass_silence = status.anomalies.unresponsive.is_alarm;
        facts.cables.faulty.extend(flapping(status, watched.fabric));
        facts.losses.returned_cables = self.returned(status, watched.fabric, view.instant);
        facts.cables.faulty.extend(error_traps(status, watched.fabric));
        facts.losses.reroute = self.reroute(status);
    }
}

impl StatusSource {
    /// The cables that went down within [`RETURN_TIME`] and are up again.
    fn returned(&mut self, status: &LoopStatus, fabric: &Fabric, now: Instant) -> Vec<Cable> {
        let before = std::mem::take(&mut self.downs);
        let mut returned = Vec::new();
        for link in status.anomalies.link_downs.iter() {
            let known = before.get(&link.ends).filter(|(downs, _)| *downs == link.downs);
            let (downs, since) = known.copied().unwrap_or((link.downs, now));
            self.downs.insert(link.ends, (downs, since));
            let is_recent = now.duration_since(since) < RETURN_TIME;
            if is_recent && !link.is_quarantined && is_linked(fabric, link.ends) {
                returned.push(named(fabric, link.ends));
            }
        }
        returned
    }

    /// The last reconfiguration that wrote routes, unless it was reported before.
    fn reroute(&mut self, status: &LoopStatus) -> Option<Reroute> {
        let record = status.history.reconfigurations.iter().rev().find(|record| {
            record.result == ReconfigureResult::Up && record.figures.lft_blocks > 0
        })?;
        if self.last_reroute.replace(record.ended) == Some(record.ended) {
            return None;
        }
        let time = record.trap_to_tables.unwrap_or(record.figures.total);
        let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Some(Reroute { milliseconds, sets: record.figures.sets as u64 })
    }
}

/// True if these two ports have a link with each other.
fn is_linked(fabric: &Fabric, ends: [End; 2]) -> bool {
    let [one, other] = ends.map(|(guid, port)| fabric.port_of(fabric.node_by_guid(guid)?, port));
    one.is_some_and(|one| other.is_some() && fabric.port(one).peer == other)
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
    let fewest = MIN_FLAPS.into_iter().min().unwrap_or(0);
    let often = status
        .anomalies
        .link_downs
        .iter()
        .filter(|link| link.is_quarantined || link.downs >= fewest);
    let links = often.map(|link| {
        let cable = named(fabric, link.ends);
        let limit = MIN_FLAPS[usize::from(!cable.joins_switches())];
        let is_flapping = link.is_quarantined || link.downs >= limit;
        let downs = link.downs.max(limit) as u32;
        let fault = CableDefect::Flapping { downs, is_quarantined: link.is_quarantined };
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
    reported
        .map(|(ends, guid, num)| {
            let text =
                format!("{guid}[{num}] reports errors of the link by traps; it is quarantined");
            FaultyCable { cable: named(fabric, ends), fault: CableDefect::Erroring { text } }
        })
        .collect()
}

fn managers(status: &LoopStatus) -> Vec<ForeignManager> {
    let foreign = status.managers.foreign_master.iter().map(|master| ForeignManager {
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
            error.lines().next().unwrap_or("")
        ),
        repair: "correct the file, then reload the configuration".to_owned(),
    });
    let files = status.handles.file_problems.get().map(|problem| OwnFault {
        resource: "files",
        text: format!("files cannot be written: {problem}"),
        repair: "free space, or correct the permissions of the folder".to_owned(),
    });
    config.into_iter().chain(files).collect()
}
