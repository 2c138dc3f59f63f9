//! Notes of planning and verification in replies.

use crate::notes::{Note, Severity};
use serde::Serialize;

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Message"))]
pub(super) struct MessageView {
    /// `info`, `warning` or `error`.
    severity: &'static str,
    /// OpenSM's number of the error, if it has one.
    code: Option<&'static str>,
    text: String,
}

impl From<&Note> for MessageView {
    fn from(note: &Note) -> Self {
        let severity = match note.severity {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        Self { severity, code: note.code, text: note.text.clone() }
    }
}
