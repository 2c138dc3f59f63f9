//! Options that depend on each other, and the effect of a reload. Both apply after the file and the
//! command line have been read, at start and on SIGHUP.

use super::permissions::SaTrust;
use super::value::PartEnforce;
use super::{Key, Options, Reload, Support, TABLE};
use crate::notes::Note;

/// Greatest age of an SA request in milliseconds at which it is answered. Linux retransmits a join
/// every 300 ms and gives up after 3 s, and its reply may have to wait for the multicast tree.
pub const MAX_REQUEST_AGE_MS: u32 = 2000;

/// Log flag of entry to and exit from functions of OpenSM.
const LOG_FUNCTIONS: u8 = 0x10;

/// All log flags, as `-V` sets them.
const LOG_ALL: u8 = 0xFF;

/// Value of `max_wire_smps` that means no limit.
const UNLIMITED: u32 = 0x7fff_ffff;

impl Options {
    /// The list of routing engines as it is configured; empty if none is.
    pub fn engines(&self) -> &str {
        self.routing_engine.as_deref().unwrap_or("")
    }

    /// True if `sa_key` differs from its default, which OpenSM and its tools publish.
    pub fn has_secret_sa_key(&self) -> bool {
        self.sa_key.is_set() && self.sa_key != Self::default().sa_key
    }

    /// Makes options that depend on each other consistent, as OpenSM does. Returns a warning for
    /// each change that the operator would not expect. A second call changes nothing.
    pub fn reconcile(&mut self) -> Vec<Note> {
        let mut notes = Vec::new();
        if self.max_wire_smps == 0 {
            self.max_wire_smps = UNLIMITED;
        }
        if self.no_partition_enforcement {
            self.part_enforce = PartEnforce::Off;
        }
        let long_timeout = self.long_transaction_timeout;
        if long_timeout < self.transaction_timeout {
            self.long_transaction_timeout = self.transaction_timeout;
            if long_timeout != Self::default().long_transaction_timeout {
                notes.push(Note::warning(format!(
                    "long_transaction_timeout: {long_timeout} is below transaction_timeout; {} is used",
                    self.transaction_timeout
                )));
            }
        }
        let fifo_timeout = self.max_msg_fifo_timeout;
        if fifo_timeout > MAX_REQUEST_AGE_MS && fifo_timeout != Self::default().max_msg_fifo_timeout
        {
            notes.push(Note::warning(format!(
                "max_msg_fifo_timeout {fifo_timeout} acts as {MAX_REQUEST_AGE_MS}: clients have sent \
                 their requests again by then, and are answered earlier if the old ones are dropped"
            )));
        }
        if self.log_flags & LOG_FUNCTIONS != 0 && self.log_flags != LOG_ALL {
            notes.push(Note::warning(format!(
                "log_flags {:#04x}: 0x10 logs nothing, as it is for the functions of OpenSM",
                self.log_flags
            )));
        }
        if self.m_key_protection_level > 0 && self.m_key_lease_period > 0 {
            self.reconcile_lease(&mut notes);
        }
        if self.congestion_control && self.selects_no_congestion_settings() {
            notes.push(Note::warning(
                "congestion_control TRUE changes nothing on the devices: \
                 cc_sw_cong_setting_control_map and cc_ca_cong_setting_control_map are 0, and \
                 cc_cct is empty",
            ));
        }
        if self.sa_trust == SaTrust::Strict && !self.has_secret_sa_key() {
            notes.push(Note::warning(
                "nobody may act for other ports with sa_trust strict while sa_key has its published \
                 default: set sa_key to a secret value for trusted clients",
            ));
        }
        notes
    }

    fn selects_no_congestion_settings(&self) -> bool {
        let maps = [
            self.cc_sw_cong_setting_control_map,
            self.cc_ca_cong_setting_control_map.into(),
            self.cc_ca_cong_setting_port_control.into(),
        ];
        maps == [0; 3] && self.cc_cct.0.is_empty()
    }

    /// Makes the sweep interval shorter than the lease of M_Keys, because sweeps renew the leases.
    fn reconcile_lease(&mut self, notes: &mut Vec<Note>) {
        if self.sweep_interval == 0 {
            self.sweep_interval = u32::from(self.m_key_lease_period).saturating_sub(1).max(1);
            notes.push(Note::warning(format!(
                "sweep_interval 0 would let the leases of M_Keys expire; {} seconds is used",
                self.sweep_interval
            )));
        }
        if self.sweep_interval >= u32::from(self.m_key_lease_period) {
            let wanted = self.sweep_interval.saturating_add(1);
            self.m_key_lease_period = u16::try_from(wanted).unwrap_or(u16::MAX);
            notes.push(Note::warning(format!(
                "m_key_lease_period must be longer than sweep_interval {}; {} seconds is used",
                self.sweep_interval, self.m_key_lease_period
            )));
        }
    }

    /// Warnings about options with values other than the default that have no effect.
    pub fn unsupported(&self) -> Vec<Note> {
        let default = Self::default();
        TABLE
            .iter()
            .filter_map(|key| {
                let Support::Ignored(reason) = key.support else { return None };
                let value = if key.is_secret() {
                    String::new()
                } else {
                    format!(" {}", (key.lines)(self).join(", "))
                };
                differs(key, self, &default)
                    .then(|| Note::warning(format!("{}{value} has no effect: {reason}", key.name)))
            })
            .collect()
    }

    /// The options after a reload: reloadable values are those of `read`, the others are unchanged.
    /// Returns a warning for each change that needs a restart.
    pub fn reloaded(&self, read: &Self) -> (Self, Vec<Note>) {
        let mut next = self.clone();
        let mut notes = Vec::new();
        for key in TABLE.iter().filter(|key| differs(key, self, read)) {
            match key.reload {
                Reload::Sighup => (key.copy)(read, &mut next),
                Reload::Restart => notes.push(Note::warning(format!(
                    "{} has changed in the configuration file; the change takes effect at the next start",
                    key.name
                ))),
            }
        }
        (next, notes)
    }

    /// The keys whose values differ in `new`, with the new values, for the log: `lmc 1, qos TRUE`.
    /// Secret keys have no value.
    pub fn changes(&self, new: &Self) -> String {
        let changed = TABLE.iter().filter(|key| differs(key, self, new));
        changed
            .map(|key| {
                if key.is_secret() {
                    key.name.to_owned()
                } else {
                    format!("{} {}", key.name, (key.lines)(new).join(", "))
                }
            })
            .collect::<Vec<_>>()
            .join(", ")
    }
}

fn differs(key: &Key, a: &Options, b: &Options) -> bool {
    (key.lines)(a) != (key.lines)(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::MKey;

    #[test]
    fn the_defaults_are_consistent_and_supported() {
        let mut options = Options::default();
        assert_eq!(options.reconcile(), []);
        assert_eq!(options, Options::default());
        assert_eq!(options.unsupported(), []);
    }

    #[test]
    fn dependent_values_are_made_consistent() {
        let mut options = Options {
            max_wire_smps: 0,
            no_partition_enforcement: true,
            transaction_timeout: 1000,
            m_key_protection_level: 1,
            m_key_lease_period: 5,
            sweep_interval: 70_000,
            ..Options::default()
        };
        assert_eq!(options.reconcile().len(), 1);
        assert_eq!(options.max_wire_smps, UNLIMITED);
        assert_eq!(options.part_enforce, PartEnforce::Off);
        assert_eq!(options.long_transaction_timeout, 1000);
        assert_eq!(options.m_key_lease_period, u16::MAX);
    }

    #[test]
    fn a_short_long_timeout_is_reported_if_it_was_set() {
        let mut options = Options { long_transaction_timeout: 100, ..Options::default() };
        assert_eq!(options.reconcile().len(), 1);
        assert_eq!((options.long_transaction_timeout, options.reconcile().len()), (200, 0));
    }

    #[test]
    fn congestion_control_without_settings_is_reported() {
        let mut options = Options { congestion_control: true, ..Options::default() };
        assert_eq!(options.reconcile().len(), 1);
        options.cc_ca_cong_setting_control_map = 1;
        assert_eq!(options.reconcile(), []);
    }

    #[test]
    fn a_long_age_of_requests_is_limited() {
        for (milliseconds, is_limited) in [(0, false), (2000, false), (2001, true), (10_000, false)]
        {
            let mut options = Options { max_msg_fifo_timeout: milliseconds, ..Options::default() };
            let notes = options.reconcile();
            let texts = notes.iter().map(|note| note.text.starts_with("max_msg_fifo_timeout 2001"));
            assert_eq!(texts.collect::<Vec<_>>(), vec![true; usize::from(is_limited)]);
        }
    }

    #[test]
    fn options_without_effect_are_reported() {
        let options = Options { max_smps_timeout: 7, qos: true, ..Options::default() };
        let notes = options.unsupported();
        assert_eq!(notes.len(), 1);
        assert_eq!(
            notes[0].text,
            "max_smps_timeout 7 has no effect: SMPs are overdue after 40 ms, and after 15 ms if \
             later ones are answered"
        );
    }

    #[test]
    fn a_reload_changes_reloadable_values_only() {
        let running = Options::default();
        let read = Options { sweep_interval: 99, lmc: 3, ..Options::default() };
        let (next, notes) = running.reloaded(&read);
        assert_eq!(next, Options { sweep_interval: 99, ..Options::default() });
        assert_eq!(notes.len(), 1);
        assert!(notes[0].text.starts_with("lmc has changed"));
        let next = Options { m_key: MKey(0x1234), qos: true, ..next };
        assert_eq!(running.changes(&next), "m_key, sweep_interval 99, qos TRUE");
        assert_eq!(next.changes(&next), "");
    }
}
