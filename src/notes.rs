//! What the operator is to hear: findings of the stages, told in the log and in reports by
//! whoever called the stage.

use std::fmt;
use std::panic::Location;

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

/// Something the operator is to hear about a plan. Notes that say the same are equal, wherever
/// they come from.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Note {
    /// How loudly.
    pub severity: Severity,
    /// OpenSM's `ERR` number (such as `4E33`), where it has one for the same finding.
    pub code: Option<&'static str>,
    /// The message, with coordinates, GUIDs and ports.
    pub text: String,
    /// The source file that found it.
    #[serde(skip)]
    file: &'static str,
}

impl PartialEq for Note {
    fn eq(&self, other: &Self) -> bool {
        let words = |note: &Self| (note.severity, note.code);
        words(self) == words(other) && self.text == other.text
    }
}

impl Eq for Note {}

impl Note {
    /// A note of any kind. Its place is the module that calls this.
    #[track_caller]
    pub fn new(severity: Severity, code: Option<&'static str>, text: impl Into<String>) -> Self {
        Self { severity, code, text: text.into(), file: Location::caller().file() }
    }

    /// An informational note.
    #[track_caller]
    pub fn info(text: impl Into<String>) -> Self {
        Self::new(Severity::Info, None, text)
    }

    /// A warning.
    #[track_caller]
    pub fn warning(text: impl Into<String>) -> Self {
        Self::new(Severity::Warning, None, text)
    }

    /// An error, with OpenSM's number for it.
    #[track_caller]
    pub fn error(code: &'static str, text: impl Into<String>) -> Self {
        Self::new(Severity::Error, Some(code), text)
    }

    /// The module that found it, such as `plan::routing::torus::search`, for the log.
    pub fn place(&self) -> String {
        let path = self.file.rsplit_once("src/").map_or(self.file, |(_, path)| path);
        let path = path.strip_suffix(".rs").unwrap_or(path);
        path.strip_suffix("/mod").unwrap_or(path).replace('/', "::")
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

/// A count with its noun: `1 switch`, `2 switches`.
pub fn counted(count: usize, singular: &str, plural: &str) -> String {
    format!("{count} {}", if count == 1 { singular } else { plural })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_know_their_module_and_are_equal_by_their_words() {
        let note = Note::error("4E05", "no torus");
        assert_eq!(note.place(), "notes");
        let elsewhere = Note { file: "src/plan/routing/torus/mod.rs", ..note.clone() };
        assert_eq!(elsewhere.place(), "plan::routing::torus");
        assert_eq!(elsewhere, note);
        assert_ne!(note, Note::new(Severity::Error, None, "no torus"));
        assert_eq!(note.to_string(), "ERR 4E05: no torus");
    }
}
