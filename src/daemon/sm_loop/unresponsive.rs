//! Reports devices that do not answer although nothing shows that they are gone, and raises an alarm
//! when they are many; see [`crate::daemon::sm_loop::unresponsive_devices`].

use crate::config::options::Options;
use crate::daemon::sm_loop::manager::Manager;
use crate::daemon::sm_loop::unresponsive_devices::{UnresponsiveDevices, name};
use crate::fabric::Fabric;
use crate::notes::counted;
use crate::observe::Observation;
use crate::observe::light::Findings;
use crate::observe::unresponsive::KnownDevices;
use crate::wire::attr::SmState;
use tokio::time::Instant;
use tracing::{error, info, warn};

/// Number of unresponsive devices that never raise an alarm, so that a small fabric has none for a
/// dead host.
const MAX_WITHOUT_ALARM: usize = 2;
/// Number of devices that a change is logged for one by one.
const MAX_LOGGED: usize = 10;

impl Manager {
    /// The devices that the next heavy sweep may keep from the last snapshot. Only a master has one that it can
    /// trust: another master may have changed the subnet meanwhile.
    pub(super) fn known_devices(&self) -> Option<KnownDevices> {
        let last = self.observation.as_ref().filter(|_| self.state() == SmState::Master)?;
        let given_up = self.unresponsive.given_up(&self.options, Instant::now());
        Some(KnownDevices { fabric: last.fabric.clone(), pkeys: last.pkeys.clone(), given_up })
    }

    /// Reports devices that have become unresponsive, and those that are no longer.
    pub(super) fn note_unresponsive(&mut self, observation: &Observation) {
        let fabric = &observation.fabric;
        let given_up = self.unresponsive.given_up(&self.options, Instant::now());
        let changes = self.unresponsive.update(fabric, Instant::now());
        for &guid in changes.fallen_silent.iter().take(MAX_LOGGED) {
            let name = &self.unresponsive.silences[&guid].name;
            warn!(
                "{name} does not answer, and no neighbour reports its link down: its LIDs and routes \
                 stay as they are, it is asked again, and it counts as gone {}",
                limit(&self.options)
            );
        }
        log_others(changes.fallen_silent.len(), "fell silent as well");
        for &guid in &changes.fallen_silent {
            self.monitor.unresponsive(fabric, guid);
        }
        for &(guid, duration) in changes.returned.iter().take(MAX_LOGGED) {
            let name = name(fabric, guid);
            info!("{name} answers again, after {} s", duration.as_secs());
        }
        log_others(changes.returned.len(), "answer again as well");
        for &(guid, duration) in &changes.returned {
            self.monitor.responsive(fabric, guid, duration);
        }
        let is_over = !given_up.is_empty();
        for name in changes.gone.iter().take(MAX_LOGGED) {
            let reason = if is_over {
                "has not answered for too long, or its links are down"
            } else {
                "does not answer, and its links are down or its neighbours are gone"
            };
            warn!("{name} {reason}: it counts as gone");
        }
        log_others(changes.gone.len(), "count as gone as well");
        self.watch_for_mass_silence(fabric);
        self.monitor.set_unresponsive(self.unresponsive.status());
    }

    /// Forgets all unresponsive devices when this SM is not master any more.
    pub(super) fn forget_unresponsive(&mut self) {
        self.unresponsive = UnresponsiveDevices::default();
        self.monitor.set_unresponsive(self.unresponsive.status());
    }

    /// Raises and ends the alarm for many unresponsive devices.
    fn watch_for_mass_silence(&mut self, fabric: &Fabric) {
        let (silent, all) = (self.unresponsive.silences.len(), fabric.nodes().len());
        let threshold = usize::from(self.options.unresponsive_alarm);
        let is_alarm = silent > MAX_WITHOUT_ALARM && silent * 100 > threshold * all;
        let was_alarm = std::mem::replace(&mut self.unresponsive.is_alarm, is_alarm);
        if is_alarm && !was_alarm {
            error!(
                "{silent} of {} do not answer, and nothing shows that they are gone: SMPs are lost, or \
                 their management agents hang. The tables in force stay, and no device counts as gone \
                 for its silence while more than {threshold} % are silent (unresponsive_alarm); check \
                 the links and switches next to this SM",
                counted(all, "device", "devices")
            );
        } else if was_alarm && !is_alarm {
            info!("most devices answer again: {silent} of {all} do not");
        }
        if is_alarm != was_alarm {
            self.monitor.mass_silence(is_alarm, silent, all);
        }
    }

    /// After a light sweep: delays the next queries to devices that do not answer, and requests a
    /// heavy sweep for those that count as gone from now on.
    pub(super) fn unresponsive_asked(&mut self, findings: &Findings) -> bool {
        let now = Instant::now();
        for &guid in &findings.unresponsive {
            self.unresponsive.asked(guid, now);
        }
        !self.unresponsive.given_up(&self.options, now).is_empty()
    }
}

fn limit(options: &Options) -> String {
    match options.unresponsive_timeout {
        0 => "only when its links are down".to_owned(),
        seconds => format!("when its links are down, or after {seconds} s (unresponsive_timeout)"),
    }
}

/// Logs the number of devices beyond those that were logged one by one.
fn log_others(count: usize, event: &str) {
    if count > MAX_LOGGED {
        warn!("{} {event}", counted(count - MAX_LOGGED, "more device", "more devices"));
    }
}
