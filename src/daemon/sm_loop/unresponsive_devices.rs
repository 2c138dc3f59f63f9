//! The devices that do not answer although nothing shows that they are gone, see
//! [`crate::observe::unresponsive`]: since when, when they are asked again, and when they count as
//! gone.
//!
//! A hung management agent does not keep a switch from forwarding packets, so that the routes in
//! force are the best guess; but its tables cannot be changed. So a device counts as gone after
//! `unresponsive_timeout`, unless `unresponsive_alarm` is exceeded: when many devices fall silent at
//! once, SMPs are lost near this SM, and nothing is known about the devices.

use crate::config::options::Options;
use crate::fabric::Fabric;
use crate::ids::Guid;
use crate::manage::loop_status::{UnresponsiveDevice, UnresponsiveStatus};
use crate::observe::backoff::Backoff;
use chrono::{DateTime, Utc};
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;
use tokio::time::Instant;

/// Light sweeps in a row that ask a device before delays begin.
const TOLERATED_SILENCES: u32 = 1;
/// Delay before an unresponsive device is asked again; it doubles each time.
const ASK_DELAY: Duration = Duration::from_secs(10);
/// Longest delay before an unresponsive device is asked again.
const MAX_ASK_DELAY: Duration = Duration::from_secs(60);

/// Since when a device is unresponsive.
#[derive(Clone, Debug)]
pub(super) struct Silence {
    since: Instant,
    /// `since` as the operator reads it.
    time: DateTime<Utc>,
    /// Kind, GUID and description.
    pub(super) name: String,
}

pub(super) struct UnresponsiveDevices {
    pub(super) silences: BTreeMap<Guid, Silence>,
    asks: Backoff<Guid>,
    /// They are more than `unresponsive_alarm` allows.
    pub(super) is_alarm: bool,
}

impl Default for UnresponsiveDevices {
    fn default() -> Self {
        let asks = Backoff::new(TOLERATED_SILENCES, ASK_DELAY, MAX_ASK_DELAY);
        Self { silences: BTreeMap::new(), asks, is_alarm: false }
    }
}

/// Devices that fell silent, answer again or left with a snapshot.
#[derive(Default)]
pub(super) struct ResponseChanges {
    pub(super) fallen_silent: Vec<Guid>,
    /// Devices that answer again, with the duration of their silence.
    pub(super) returned: Vec<(Guid, Duration)>,
    /// Names of devices that have left the snapshot.
    pub(super) gone: Vec<String>,
}

impl UnresponsiveDevices {
    /// Compares a new snapshot with what is known.
    pub(super) fn update(&mut self, fabric: &Fabric, now: Instant) -> ResponseChanges {
        let mut changes = ResponseChanges::default();
        let mut before = std::mem::take(&mut self.silences);
        for id in fabric.unresponsive() {
            let guid = fabric.node(id).guid();
            let silence = before.remove(&guid).unwrap_or_else(|| {
                changes.fallen_silent.push(guid);
                Silence { since: now, time: Utc::now(), name: name(fabric, guid) }
            });
            self.silences.insert(guid, silence);
        }
        for (guid, silence) in before {
            match fabric.node_by_guid(guid) {
                Some(_) => changes.returned.push((guid, now - silence.since)),
                None => changes.gone.push(silence.name),
            }
        }
        self.asks.retain(|guid| self.silences.contains_key(guid));
        changes
    }

    /// Records that a device was asked again and does not answer.
    pub(super) fn asked(&mut self, guid: Guid, now: Instant) {
        self.asks.failed(guid, now);
    }

    /// Devices that are not asked yet again.
    pub(super) fn waiting(&self, now: Instant) -> HashSet<Guid> {
        let waiting = self.silences.keys().filter(|guid| self.asks.is_delayed(guid, now));
        waiting.copied().collect()
    }

    /// Devices that have been silent for too long.
    pub(super) fn given_up(&self, options: &Options, now: Instant) -> HashSet<Guid> {
        let limit = Duration::from_secs(options.unresponsive_timeout.into());
        if limit.is_zero() || self.is_alarm {
            return HashSet::new();
        }
        let silences = self.silences.iter().filter(|(_, silence)| now - silence.since >= limit);
        silences.map(|(&guid, _)| guid).collect()
    }

    pub(super) fn status(&self) -> UnresponsiveStatus {
        let devices = self.silences.iter().map(|(&guid, silence)| UnresponsiveDevice {
            guid,
            name: silence.name.clone(),
            since: silence.time,
        });
        UnresponsiveStatus { devices: devices.collect(), is_alarm: self.is_alarm }
    }
}

/// Kind, GUID and description of a node.
pub(super) fn name(fabric: &Fabric, guid: Guid) -> String {
    let node = fabric.node_by_guid(guid).map(|id| fabric.node(id));
    node.map_or_else(
        || guid.to_string(),
        |node| format!("{} {guid} \"{}\"", node.kind(), node.name()),
    )
}
