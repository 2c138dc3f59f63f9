//! `torus-sm status --check`: one line, and the exit codes of monitoring plug-ins.

use super::http::HttpClient;
use super::instance;
use super::values::{list, text};
use crate::cli::manage::SelectArgs;
use crate::cli::output::print;
use crate::cli::{CommandFailure, ExitCode};
use crate::manage::verdict::{HealthVerdict, StateSummary};
use serde_json::Value;

// The numbers of monitoring plug-ins are those of other codes of this program.
const WARNING: ExitCode = ExitCode::Fatal;
const CRITICAL: ExitCode = ExitCode::Usage;
const UNKNOWN: ExitCode = ExitCode::NoPort;

/// Prints the state of the daemon in one line.
///
/// # Errors
/// The line cannot be printed.
pub(super) async fn check(select: &SelectArgs) -> Result<ExitCode, CommandFailure> {
    let status = match instance::find(select) {
        Ok(selected) => HttpClient::new(selected).get_json("/v1/status").await,
        Err(failure) => Err(failure),
    };
    let (code, line) = match status {
        Ok(status) => judged(&status),
        Err(failure) => (UNKNOWN, format!("UNKNOWN: {}", failure.text.replace('\n', " "))),
    };
    print(&format!("{line}\n"))?;
    Ok(code)
}

fn judged(status: &Value) -> (ExitCode, String) {
    let incidents = &status["incidents"];
    let summary = StateSummary {
        sm_state: text(&status["sm"]["state"]),
        is_up: status["routing"]["generation"].is_u64(),
        critical: count(incidents, "critical"),
        warning: count(incidents, "warning"),
        first: list(&incidents["first"]).first().map_or("", |first| text(&first["headline"])),
    };
    let (verdict, line) = summary.verdict();
    let code = match verdict {
        HealthVerdict::Ok => ExitCode::Ok,
        HealthVerdict::Warning => WARNING,
        HealthVerdict::Critical => CRITICAL,
        HealthVerdict::Unknown => UNKNOWN,
    };
    (code, format!("{}: {line}", verdict.name()))
}

fn count(incidents: &Value, severity: &str) -> usize {
    incidents[severity].as_u64().unwrap_or(0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn status(state: &str, generation: Option<u64>, critical: u64, warning: u64) -> Value {
        let first = match critical + warning {
            0 => json!([]),
            _ => json!([{ "headline": "the switch \"S\" is lost" }]),
        };
        json!({
            "sm": { "state": state },
            "routing": { "generation": generation },
            "incidents": { "critical": critical, "warning": warning, "first": first },
        })
    }

    #[test]
    fn the_codes_are_those_of_monitoring_plug_ins() {
        assert_eq!(code(&status("MASTER", Some(3), 0, 0)), 0);
        assert_eq!(code(&status("STANDBY", None, 0, 0)), 0);
        assert_eq!(code(&status("MASTER", Some(3), 0, 1)), 1);
        assert_eq!(code(&status("NOT-ACTIVE", None, 0, 0)), 1);
        assert_eq!(code(&status("MASTER", Some(3), 1, 4)), 2);
        assert_eq!(code(&status("MASTER", None, 0, 0)), 2);
        assert_eq!(code(&Value::Null), 3);
        let line = judged(&status("MASTER", Some(3), 1, 4)).1;
        assert_eq!(line, "CRITICAL: 5 incidents, first: the switch \"S\" is lost");
    }

    fn code(status: &Value) -> u8 {
        judged(status).0 as u8
    }
}
