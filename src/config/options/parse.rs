//! opensm.conf → [`Options`].
//!
//! A line is a key, blanks, and a value up to the end of the line. `#` starts a comment anywhere, a
//! pair of quotes around the value is removed, and the last line of a key applies.

use super::value::{NULL, unquote};
use super::vl_lists;
use super::{Key, Options, TABLE};
use crate::config::text_file::without_comment;
use crate::config::{Diagnostic, suggest};
use crate::notes::Severity;
use std::path::Path;

impl Options {
    /// Parses a file's text over the defaults. `file` is its path for diagnostics.
    ///
    /// Unknown keys cause warnings. Wrong values cause errors; the option gets the value that OpenSM
    /// uses, or the line is ignored if OpenSM ignores it. The message says which.
    pub fn parse(text: &str, file: &Path) -> (Self, Vec<Diagnostic>) {
        let mut options = Self::default();
        let diagnostics = options.read(text, file);
        (options, diagnostics)
    }

    /// Parses a file's text over these options; see [`Options::parse`].
    pub fn read(&mut self, text: &str, file: &Path) -> Vec<Diagnostic> {
        self.read_lines(text, file, None)
    }

    /// Parses a file's text again: lines with wrong values leave their keys as in `running`, so that
    /// a typing error does not change a running fabric.
    pub fn read_again(&mut self, running: &Self, text: &str, file: &Path) -> Vec<Diagnostic> {
        self.read_lines(text, file, Some(running))
    }

    fn read_lines(&mut self, text: &str, file: &Path, running: Option<&Self>) -> Vec<Diagnostic> {
        let mut diagnostics = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            if let Err(problem) = self.read_line(line, running) {
                diagnostics.push(Diagnostic {
                    file: file.to_owned(),
                    line: number,
                    column: column(line, problem.at),
                    severity: problem.severity,
                    message: problem.message,
                    code: None,
                });
            }
        }
        diagnostics
    }

    fn read_line<'a>(
        &mut self,
        line: &'a str,
        running: Option<&Self>,
    ) -> Result<(), LineProblem<'a>> {
        let code = without_comment(line).trim();
        if code.is_empty() {
            return Ok(());
        }
        let (name, value) = code.split_once(char::is_whitespace).unwrap_or((code, ""));
        // The examples of opensm(8) have an equals sign.
        let assigned = code.split_once('=').map(|(name, value)| (name.trim(), value));
        let assigned = assigned.filter(|_| find(name).is_none() || value.trim().starts_with("= "));
        let assigned = assigned.filter(|(name, _)| find(name).is_some());
        let (name, value) = assigned.unwrap_or((name, value));
        let key = find(name).ok_or_else(|| unknown(name))?;
        let value = value.trim();
        let text = unquote(value);
        if let Err(error) = key.set(self, text) {
            let remedy = self.repair(key, text, running);
            return Err(LineProblem {
                at: if value.is_empty() { name } else { value },
                severity: Severity::Error,
                message: format!("{}: {error}; {remedy}", key.name),
            });
        }
        if assigned.is_some() {
            let severity = Severity::Warning;
            let message = format!("{}: `=` is read as a blank; OpenSM ignores the line", key.name);
            return Err(LineProblem { at: name, severity, message });
        }
        let warning = vl_lists::warning(key.name, text).filter(|_| text != NULL);
        warning.map_or(Ok(()), |warning| {
            let message = format!("{}: {}", key.name, warning.message);
            Err(LineProblem { at: warning.at, severity: Severity::Warning, message })
        })
    }

    /// Replaces an invalid value by that in force or, at the start, as OpenSM does. Returns the
    /// consequence for the message.
    fn repair(&mut self, key: &Key, text: &str, running: Option<&Self>) -> String {
        if let Some(running) = running {
            (key.copy)(running, self);
            return "the value in force stays".to_owned();
        }
        if (key.repair)(self, text) {
            return format!("{} is used, as in OpenSM", (key.lines)(self).join(", "));
        }
        "the line is ignored".to_owned()
    }
}

impl Key {
    /// Sets this key's value.
    ///
    /// # Errors
    /// The value is invalid; the message describes valid values.
    pub fn set(&self, options: &mut Options, value: &str) -> Result<(), String> {
        (self.assign)(options, value)
            .map_err(|error| format!("{error}; expected {}", (self.expects)()))
    }
}

/// A problem in a line; `at` is the part of the line that causes it.
struct LineProblem<'a> {
    at: &'a str,
    severity: Severity,
    message: String,
}

/// The keys that the text of a file sets, each with its line.
pub fn keys_of(text: &str) -> impl Iterator<Item = (u32, &'static Key)> + '_ {
    text.lines().zip(1..).filter_map(|(line, number)| {
        let code = without_comment(line).trim();
        let name = code.split(|c: char| c.is_whitespace() || c == '=').next()?;
        Some((number, find(name)?))
    })
}

/// Finds a key by its name or deprecated spelling.
pub fn find(name: &str) -> Option<&'static Key> {
    TABLE.iter().find(|key| key.name == name || key.alias == Some(name))
}

fn unknown(name: &str) -> LineProblem<'_> {
    let hint = suggest::closest(name, TABLE.iter().map(|key| key.name));
    let hint = hint.map_or_else(String::new, |hint| format!("; did you mean '{hint}'?"));
    LineProblem {
        at: name,
        severity: Severity::Warning,
        message: format!("unknown key '{name}' is ignored{hint}"),
    }
}

/// Column, from 1 and in characters, of `part`, which is a slice of `line`.
fn column(line: &str, part: &str) -> u32 {
    let offset = (part.as_ptr() as usize).saturating_sub(line.as_ptr() as usize);
    let before = line.get(..offset).unwrap_or("").chars().count();
    u32::try_from(before).unwrap_or(u32::MAX).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::options::{Console, InjectionRate, PartEnforce};
    use crate::ids::Guid;
    use proptest::prelude::*;

    fn parse(text: &str) -> (Options, Vec<String>) {
        let (options, diagnostics) = Options::parse(text, Path::new("opensm.conf"));
        (options, diagnostics.iter().map(ToString::to_string).collect())
    }

    fn clean(text: &str) -> Options {
        let (options, diagnostics) = parse(text);
        assert_eq!(diagnostics, [""; 0]);
        options
    }

    #[test]
    fn parses_values_of_every_type() {
        let options = clean(
            "guid 0x0002c90300001234 # the second port\n\
             \tqos\tTRUE\r\n\
             sweep_interval 0x20\n\
             scatter_ports 010\n\
             qos_high_limit -1\n\
             log_file \"/tmp/my log\"\n\
             routing_engine 'torus-2QoS,no_fallback'\n\
             partition_config_file (null)\n\
             part_enforce out\n\
             console loopback\n\
             dimn_ports_file /tmp/dims\n\
             cc_sw_cong_setting_victim_mask 0x1F2\n\
             cc_cct 0:1,1:0x10\n\
             cc_ca_cong_setting_ccti_timer 3 7\n\
             cc_ca_cong_setting_ccti_timer 15 9\n",
        );
        assert_eq!(options.guid, Guid(0x0002_c903_0000_1234));
        assert!(options.qos);
        assert_eq!(options.sweep_interval, 32);
        assert_eq!(options.scatter_ports, 8);
        assert_eq!(options.qos_high_limit, -1);
        assert_eq!(options.log_file, "/tmp/my log");
        assert_eq!(options.routing_engine.as_deref(), Some("torus-2QoS,no_fallback"));
        assert_eq!(options.partition_config_file, None);
        assert_eq!(options.part_enforce, PartEnforce::Out);
        assert_eq!(options.console, Console::Loopback);
        assert_eq!(options.port_search_ordering_file.as_deref(), Some("/tmp/dims"));
        assert_eq!(options.cc_sw_cong_setting_victim_mask.0[30..], [0x01, 0xf2]);
        assert_eq!(options.cc_cct.0[1], InjectionRate { shift: 1, multiplier: 16 });
        assert_eq!(options.cc_ca_cong_setting_ccti_timer.0[3], 7);
        assert_eq!(options.cc_ca_cong_setting_ccti_timer.0[15], 9);
    }

    #[test]
    fn diagnostics_have_position_and_correction() {
        for (text, expected) in [
            (
                "\n  swep_interval 5",
                "opensm.conf:2:3: unknown key 'swep_interval' is ignored; did you mean \
                 'sweep_interval'?",
            ),
            ("xyzzy", "opensm.conf:1:1: unknown key 'xyzzy' is ignored"),
            (
                "lmc 8",
                "opensm.conf:1:5: lmc: 8 is out of range; expected a number from 0 to 7; 0 is used, as in OpenSM",
            ),
            (
                "lmc",
                "opensm.conf:1:1: lmc: '' is not a number; expected a number from 0 to 7; the line is ignored",
            ),
            (
                "qos   maybe",
                "opensm.conf:1:7: qos: 'maybe' is neither TRUE nor FALSE; expected TRUE or \
                 FALSE; FALSE is used, as in OpenSM",
            ),
        ] {
            let (options, diagnostics) = parse(text);
            assert_eq!(diagnostics, [expected]);
            assert_eq!(options, Options::default());
        }
    }

    /// The examples of opensm(8), which OpenSM itself ignores.
    #[test]
    fn a_value_may_follow_an_equals_sign() {
        let text = "qos_sw0_max_vls=2\nqos_ca_sl2vl=0,1,2,3,5,5,5,12,12,0,\n\
                    qos_swe_high_limit=0\nqos = TRUE\nlog_prefix a=b\nlog_file =x\n";
        let (options, diagnostics) = parse(text);
        assert_eq!((options.qos_sw0_max_vls, options.qos_swe_high_limit), (2, 0));
        assert_eq!(options.qos_ca_sl2vl.as_deref(), Some("0,1,2,3,5,5,5,12,12,0,"));
        assert!(options.qos);
        assert_eq!((options.log_prefix.as_deref(), &*options.log_file), (Some("a=b"), "=x"));
        assert_eq!(diagnostics.len(), 4, "{diagnostics:?}");
        assert_eq!(
            diagnostics[0],
            "opensm.conf:1:1: qos_sw0_max_vls: `=` is read as a blank; OpenSM ignores the \
             line"
        );
    }

    #[test]
    fn numbers_out_of_range_are_rejected() {
        for text in [
            "sweep_interval 99999999999999999999999999999999999999999999",
            "sweep_interval -1",
            "m_key 0x10000000000000000",
            "sm_priority 0x",
            "sm_priority 08",
            "sm_priority +-3",
            "sm_priority 3 4",
            "cc_cct 1:1,7",
            "cc_ca_cong_setting_ccti_min 16 1",
            "cc_ca_cong_setting_ccti_min 1",
            "cc_sw_cong_setting_victim_mask 0xfg",
            "log_file",
        ] {
            let (options, diagnostics) = parse(text);
            assert_eq!(diagnostics.len(), 1, "{text}");
            assert_eq!(options, Options::default(), "{text}");
        }
    }

    #[test]
    fn values_out_of_range_are_repaired_as_in_opensm() {
        let base = Options::default;
        for (text, expected) in [
            ("lmc 9", base()),
            ("sm_priority 16", base()),
            ("qos_max_vls 16", base()),
            ("part_enforce Both", base()),
            ("console remote", base()),
            ("force_link_speed 8", base()),
            ("force_link_speed_ext 16", base()),
            ("force_link_width 32", base()),
            ("fdr10 3", base()),
            ("m_key_protection_level 4", Options { m_key_protection_level: 2, ..base() }),
            ("max_op_vls 6", base()),
            ("subnet_timeout 0x32", base()),
            ("subnet_timeout 33", Options { subnet_timeout: 1, ..base() }),
            ("sweep_on_trap maybe", Options { sweep_on_trap: false, ..base() }),
            ("qos yes", base()),
            ("daemon true", base()),
            ("max_rate_enum 25", base()),
            ("sm_priority 256", base()),
        ] {
            assert_eq!(repaired(text), expected, "{text}");
        }
        assert_eq!(clean("log_file (null)").log_file, "stdout");
        assert_eq!(clean("force_link_width 255\nforce_link_speed_ext 30").force_link_speed_ext, 30);
    }

    fn repaired(text: &str) -> Options {
        let (options, diagnostics) = parse(text);
        assert_eq!(diagnostics.len(), 1, "{text}: {diagnostics:?}");
        options
    }

    #[test]
    fn ignored_lines_of_a_reload_leave_the_running_value() {
        let running = Options { max_wire_smps: 64, sm_priority: 7, ..Options::default() };
        let mut options = Options::default();
        let text = "max_wire_smps many\nsm_priority 16\n";
        let found = options.read_again(&running, text, Path::new("opensm.conf"));
        assert_eq!((options.max_wire_smps, options.sm_priority), (64, 7));
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn the_last_line_applies_and_single_quotes_stay() {
        assert_eq!(clean("lmc 1\nlmc 2").lmc, 2);
        assert_eq!(clean("log_prefix \"").log_prefix.as_deref(), Some("\""));
        assert_eq!(clean("log_prefix \"\"").log_prefix, None);
    }

    proptest! {
        #[test]
        fn written_text_is_read_back(text in "[ \"'=a/]{1,6}") {
            let options = Options { log_prefix: Some(text), ..Options::default() };
            let (back, diagnostics) = parse(&options.to_text());
            prop_assert!(diagnostics.is_empty(), "{diagnostics:?}");
            prop_assert_eq!(back.log_prefix, options.log_prefix);
        }

        #[test]
        fn any_text_is_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = parse(&String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn any_value_is_read_without_panic(index in 0..TABLE.len(), value in "\\PC{0,40}") {
            let _ = parse(&format!("{} {value}", TABLE[index].name));
        }
    }
}
