//! The state of a daemon in one line, with the severities of monitoring plug-ins.

use crate::notes::counted;

/// The severity of a state, as monitoring plug-ins name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HealthVerdict {
    Ok,
    Warning,
    Critical,
    Unknown,
}

impl HealthVerdict {
    /// The first word of the line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Warning => "WARNING",
            Self::Critical => "CRITICAL",
            Self::Unknown => "UNKNOWN",
        }
    }
}

/// The parts of a daemon's state that decide.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StateSummary<'a> {
    /// State of the SM, such as `MASTER`; empty if it is not known.
    pub sm_state: &'a str,
    /// A subnet is configured.
    pub is_up: bool,
    /// Open incidents by severity.
    pub critical: usize,
    pub warning: usize,
    /// Headline of the incident to repair first; empty without one.
    pub first: &'a str,
}

impl StateSummary<'_> {
    /// The severity, and the line that says why, without the severity's name.
    pub fn verdict(&self) -> (HealthVerdict, String) {
        let count = self.critical + self.warning;
        if self.sm_state == "MASTER" && !self.is_up {
            let problem = match self.first {
                "" => String::new(),
                first => format!("; {first}"),
            };
            return (HealthVerdict::Critical, format!("MASTER, no subnet configured{problem}"));
        }
        if count > 0 {
            let verdict =
                if self.critical > 0 { HealthVerdict::Critical } else { HealthVerdict::Warning };
            let count = counted(count, "incident", "incidents");
            return (verdict, format!("{count}, first: {}", self.first));
        }
        match self.sm_state {
            "MASTER" => (HealthVerdict::Ok, "MASTER, subnet up, no incident".to_owned()),
            "STANDBY" => (HealthVerdict::Ok, "STANDBY, the master watches the fabric".to_owned()),
            "" => (HealthVerdict::Unknown, "the daemon does not tell its state".to_owned()),
            other => (HealthVerdict::Warning, format!("this SM is {other}")),
        }
    }
}
