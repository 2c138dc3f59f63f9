//! What the operator is to hear: findings of the stages, told in the log and in reports by
//! whoever called the stage.

use std::fmt;

/// How loudly a [`Note`] is to be told.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize)]
pub enum Severity {
    /// For the record.
    Info,
    /// Something is not as the operator wants it, but the fabric works.
    Warning,
    /// Something does not work.
    Error,
}

/// Something the operator is to hear about a plan.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Note {
    /// How loudly.
    pub severity: Severity,
    /// OpenSM's `ERR` number (such as `4E33`), where it has one for the same finding.
    pub code: Option<&'static str>,
    /// The message, with coordinates, GUIDs and ports.
    pub text: String,
}

impl Note {
    /// An informational note.
    pub fn info(text: impl Into<String>) -> Self {
        Self { severity: Severity::Info, code: None, text: text.into() }
    }

    /// A warning.
    pub fn warning(text: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, code: None, text: text.into() }
    }

    /// An error, with OpenSM's number for it.
    pub fn error(code: &'static str, text: impl Into<String>) -> Self {
        Self { severity: Severity::Error, code: Some(code), text: text.into() }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Some(code) => write!(f, "ERR {code}: {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}
