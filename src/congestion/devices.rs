//! The settings that devices are known to hold, and the next request to each device.

use super::settings::{CongestionSettings, Setting, SettingId};
use super::status::DeviceCounts;
use crate::ids::Guid;
use crate::wire::attr::NodeKind;
use crate::wire::congestion;
use crate::wire::mad::{Mad, Method, Status};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Delay before a device that failed is tried again. It doubles with each failure in a row.
const MIN_RETRY_DELAY: Duration = Duration::from_secs(30);
/// Upper limit of the delay before the next try.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(3600);

/// Why a device is not configured.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FailureReason {
    /// The device does not know the class, the method or the attribute.
    Unsupported,
    Unanswered,
    /// The device answered with this status.
    Refused(u16),
    /// The device acknowledged a Set, but holds other values.
    Altered,
}

impl FailureReason {
    /// The reason of an answer with an error status.
    fn of_status(status: u16) -> Self {
        // As in OpenSM: unsupported version, method, or both bits, which also BAD_FIELD has. An
        // invalid field is a fault of the configuration, and told apart.
        match status & 0x1C {
            Status::BAD_VERSION | Status::BAD_METHOD | Status::BAD_METHOD_ATTR => Self::Unsupported,
            _ => Self::Refused(status),
        }
    }
}

/// A failure in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct DeviceFailure {
    reason: FailureReason,
    /// Failures in a row.
    count: u32,
    retry_at: Instant,
}

impl DeviceFailure {
    /// The next failure, after `last`.
    fn after(last: Option<Self>, reason: FailureReason, now: Instant) -> Self {
        let count = last.map_or(0, |last| last.count).saturating_add(1);
        let delay = MIN_RETRY_DELAY * 2u32.saturating_pow(count - 1).min(1 << 16);
        Self { reason, count, retry_at: now + delay.min(MAX_RETRY_DELAY) }
    }
}

/// A device: an end port of a switch or channel adapter.
#[derive(Clone, PartialEq, Eq, Debug)]
struct CongestionDevice {
    kind: NodeKind,
    /// Generation of the subnet from which on the device is known.
    since: u64,
    /// The attributes that are known: the setting that the device acknowledged or showed, or
    /// `None` if it showed other values than those wanted.
    held: Vec<(SettingId, Option<Setting>)>,
    failure: Option<DeviceFailure>,
}

impl CongestionDevice {
    fn new(kind: NodeKind, since: u64) -> Self {
        Self { kind, since, held: Vec::new(), failure: None }
    }

    fn known(&self, id: SettingId) -> Option<&Option<Setting>> {
        self.held.iter().find(|(known, _)| *known == id).map(|(_, setting)| setting)
    }

    fn learn(&mut self, id: SettingId, setting: Option<Setting>) {
        self.forget(id);
        self.held.push((id, setting));
    }

    fn forget(&mut self, id: SettingId) {
        self.held.retain(|(known, _)| *known != id);
    }

    /// The first setting that the device is not known to hold, and how to get on: a setting that
    /// is unknown is read first.
    fn next(&self, wanted: &[Setting]) -> Option<(Method, Setting)> {
        let setting =
            *wanted.iter().find(|setting| self.known(setting.id()) != Some(&Some(**setting)))?;
        let method = if self.known(setting.id()).is_some() { Method::SET } else { Method::GET };
        Some((method, setting))
    }
}

/// A device of the published subnet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SeenDevice {
    pub port_guid: Guid,
    pub kind: NodeKind,
    /// Generation of the last subnet in which the device had lost its settings; 0 if none.
    pub restarted: u64,
}

/// The state of a device after an answer, or after a request without one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceProgress {
    /// Another request to the device is due.
    More,
    /// The device holds its settings. True if it failed before.
    Done(bool),
    /// True unless the device failed for the same reason before.
    Failed(FailureReason, bool),
}

/// All devices.
#[derive(Debug, Default)]
pub struct CongestionDevices {
    settings: Option<CongestionSettings>,
    by_port: BTreeMap<Guid, CongestionDevice>,
}

impl CongestionDevices {
    /// Forgets everything, because this SM is not master or configures no congestion control: other
    /// programs may change the settings.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Takes over the settings and the devices of a published subnet. Devices that are gone are
    /// forgotten, those that have restarted are unknown. After a change of the settings, failed
    /// devices are tried again at once.
    pub fn observe(
        &mut self,
        settings: CongestionSettings,
        generation: u64,
        seen: impl Iterator<Item = SeenDevice>,
    ) {
        let has_changed = self.settings.as_ref() != Some(&settings);
        let mut before = std::mem::take(&mut self.by_port);
        for SeenDevice { port_guid, kind, restarted } in seen {
            let known = before.remove(&port_guid);
            let known = known.filter(|device| device.since >= restarted && device.kind == kind);
            let mut device = known.unwrap_or_else(|| CongestionDevice::new(kind, generation));
            if has_changed {
                device.failure = None;
            }
            self.by_port.insert(port_guid, device);
        }
        self.settings = Some(settings);
    }

    pub fn settings(&self) -> Option<&CongestionSettings> {
        self.settings.as_ref()
    }

    fn wanted(&self, kind: NodeKind) -> &[Setting] {
        self.settings.as_ref().map_or(&[], |settings| settings.of(kind))
    }

    /// The devices to which requests are due.
    pub fn due(&self, now: Instant) -> Vec<Guid> {
        self.by_port
            .iter()
            .filter(|(_, device)| self.is_due(device, now))
            .map(|(&guid, _)| guid)
            .collect()
    }

    /// The time at which the next failed device is tried again.
    pub fn next_retry(&self) -> Option<Instant> {
        let devices = self.by_port.values();
        let unfinished = devices.filter(|device| device.next(self.wanted(device.kind)).is_some());
        unfinished.filter_map(|device| Some(device.failure?.retry_at)).min()
    }

    /// The next request to a device; `None` if there is none.
    pub fn request(&self, port_guid: Guid) -> Option<Mad> {
        let device = self.by_port.get(&port_guid)?;
        let (method, setting) = device.next(self.wanted(device.kind))?;
        Some(setting.request(method, self.settings.as_ref()?.key))
    }

    /// Handles the answer to the last request to a device, or that there is none. Returns `None` if
    /// no request was due.
    pub fn answered(
        &mut self,
        port_guid: Guid,
        answer: Option<&Mad>,
        now: Instant,
    ) -> Option<DeviceProgress> {
        let device = self.by_port.get(&port_guid)?;
        let (method, setting) = device.next(self.wanted(device.kind))?;
        let device = self.by_port.get_mut(&port_guid)?;
        let failure = match answer {
            None => {
                // A Set may have arrived.
                device.forget(setting.id());
                Some(FailureReason::Unanswered)
            }
            Some(mad) => apply(device, method, &setting, mad),
        };
        if let Some(reason) = failure {
            let is_new = device.failure.is_none_or(|last| last.reason != reason);
            device.failure = Some(DeviceFailure::after(device.failure, reason, now));
            return Some(DeviceProgress::Failed(reason, is_new));
        }
        let device = self.by_port.get(&port_guid)?;
        if device.next(self.wanted(device.kind)).is_some() {
            return Some(DeviceProgress::More);
        }
        let device = self.by_port.get_mut(&port_guid)?;
        Some(DeviceProgress::Done(device.failure.take().is_some()))
    }

    /// A request to a device ended without an answer, because the round did: a Set may have arrived.
    pub fn abandoned(&mut self, port_guid: Guid) {
        let Some((_, setting)) =
            self.by_port.get(&port_guid).and_then(|device| device.next(self.wanted(device.kind)))
        else {
            return;
        };
        if let Some(device) = self.by_port.get_mut(&port_guid) {
            device.forget(setting.id());
        }
    }

    pub fn counts(&self) -> DeviceCounts {
        let mut counts = DeviceCounts::default();
        for device in self.by_port.values() {
            counts.all += 1;
            match device.failure.map(|failure| failure.reason) {
                Some(FailureReason::Unsupported) => counts.unsupported += 1,
                Some(_) => counts.failed += 1,
                None if device.next(self.wanted(device.kind)).is_none() => counts.configured += 1,
                None => {}
            }
        }
        counts
    }

    fn is_due(&self, device: &CongestionDevice, now: Instant) -> bool {
        device.failure.is_none_or(|failure| failure.retry_at <= now)
            && device.next(self.wanted(device.kind)).is_some()
    }
}

/// Takes over what an answer tells about a device. Returns the failure, if it is one.
fn apply(
    device: &mut CongestionDevice,
    method: Method,
    setting: &Setting,
    answer: &Mad,
) -> Option<FailureReason> {
    let id = setting.id();
    let status = answer.header().status();
    if status != Status::OK {
        return Some(FailureReason::of_status(status));
    }
    let data = congestion::data(answer);
    let is_held = match method {
        Method::SET => setting.is_held(data),
        _ => setting.is_shown(data),
    };
    device.learn(id, is_held.then_some(*setting));
    (method == Method::SET && !is_held).then_some(FailureReason::Altered)
}

#[cfg(test)]
mod tests;
