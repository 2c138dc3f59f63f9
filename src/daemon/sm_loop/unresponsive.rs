//! Reports devices that do not answer although nothing shows that they are gone, and raises an alarm
//! when they are many; see [`crate::daemon::sm_loop::unresponsive_devices`].

use crate::config::options::Options;
use crate::daemon::sm_loop::monitor::Monitor;
use crate::daemon::sm_loop::unresponsive_devices::{UnresponsiveDevices, name};
use crate::fabric::Fabric;
use crate::notes::counted;
use crate::observe::Observation;
use crate::observe::light::LightFindings;
use crate::observe::unresponsive::KnownDevices;
use tokio::time::Instant;
use tracing::{debug, error, info, warn};

/// Number of unresponsive devices that never raise an alarm, so that a small fabric has none for a
/// dead host.
const MAX_WITHOUT_ALARM: usize = 2;
/// Number of devices that a change is logged for one by one.
const MAX_LOGGED: usize = 10;

impl UnresponsiveDevices {
    /// The devices that the next heavy sweep of a master may keep from its last snapshot. Others have
    /// none that they can trust: another master may have changed the subnet meanwhile.
    pub(super) fn known_devices(&self, options: &Options, last: &Observation) -> KnownDevices {
        KnownDevices {
            fabric: last.fabric.clone(),
            pkeys: last.pkeys.clone(),
            given_up: self.given_up(options, Instant::now()),
        }
    }

    /// Reports devices that have become unresponsive, and those that are no longer. The log has an
    /// incident for each cause at the default level.
    pub(super) fn observe(
        &mut self,
        options: &Options,
        monitor: &mut Monitor,
        observation: &Observation,
    ) {
        let fabric = &observation.fabric;
        let is_over = !self.given_up(options, Instant::now()).is_empty();
        let changes = self.update(fabric, Instant::now());
        for &guid in changes.fallen_silent.iter().take(MAX_LOGGED) {
            let name = &self.silences[&guid].name;
            debug!(
                "{name} does not answer, and no neighbour reports its link down: its LIDs and routes \
                 stay as they are, it is asked again, and it counts as gone {}",
                limit(options)
            );
        }
        for &guid in &changes.fallen_silent {
            monitor.unresponsive(fabric, guid);
        }
        for &(guid, duration) in changes.returned.iter().take(MAX_LOGGED) {
            debug!("{} answers again, after {} s", name(fabric, guid), duration.as_secs());
        }
        for &(guid, duration) in &changes.returned {
            monitor.responsive(fabric, guid, duration);
        }
        for name in changes.gone.iter().take(MAX_LOGGED) {
            let reason = if is_over {
                "has not answered for too long, or its links are down"
            } else {
                "does not answer, and its links are down or its neighbours are gone"
            };
            warn!("{name} {reason}: it counts as gone");
        }
        log_others(changes.gone.len(), "count as gone as well");
        self.watch_for_mass_silence(options, monitor, fabric);
        monitor.set_unresponsive(self.status());
    }

    /// Forgets all devices when this SM is not master any more.
    pub(super) fn forget(&mut self, monitor: &mut Monitor) {
        *self = Self::default();
        monitor.set_unresponsive(self.status());
    }

    /// Raises and ends the alarm for many unresponsive devices.
    fn watch_for_mass_silence(
        &mut self,
        options: &Options,
        monitor: &mut Monitor,
        fabric: &Fabric,
    ) {
        let silent = self.silences.len();
        let all = fabric.nodes().len();
        let threshold = usize::from(options.unresponsive_alarm);
        let is_alarm = silent > MAX_WITHOUT_ALARM && silent * 100 > threshold * all;
        let was_alarm = std::mem::replace(&mut self.is_alarm, is_alarm);
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
            monitor.mass_silence(is_alarm, silent, all);
        }
    }

    /// After a light sweep: delays the next queries to devices that do not answer. True if some of
    /// them count as gone from now on, so that a heavy sweep must follow.
    pub(super) fn asked_again(&mut self, options: &Options, findings: &LightFindings) -> bool {
        let now = Instant::now();
        for &guid in &findings.unresponsive {
            self.asked(guid, now);
        }
        !self.given_up(options, now).is_empty()
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
