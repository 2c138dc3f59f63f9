//! Messages for the operator. The pure stages return them; the daemon logs them, and the offline
//! commands print them.

use std::fmt;
use std::panic::Location;
use std::time::Duration;

/// The version in the log, and with `--version` if the command is `opensm`. It begins with the
/// version of OpenSM whose behaviour this program has, because scripts search for `OpenSM [0-9.]+`.
pub const OPENSM_VERSION: &str =
    concat!("OpenSM 3.3.23 (torus-sm ", env!("CARGO_PKG_VERSION"), ")");

/// A duration for people: `0.35 ms`, `12.3 ms`, `4.56 s`.
pub fn time_text(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    match ms {
        ms if ms < 10.0 => format!("{ms:.2} ms"),
        ms if ms < 1000.0 => format!("{ms:.1} ms"),
        ms => format!("{:.2} s", ms / 1e3),
    }
}

/// Severity of a [`Note`] or of a diagnostic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize)]
pub enum Severity {
    /// Information without need for action.
    Info,
    /// Something deviates from the configuration or is degraded, but the fabric works.
    Warning,
    /// A part of the configuration or of the fabric does not work.
    Error,
}

/// A message for the operator. Equality ignores the source file that created it.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Note {
    pub severity: Severity,
    /// OpenSM's `ERR` number for the same event, such as `4E33`, if there is one.
    pub code: Option<&'static str>,
    /// The message, with coordinates, GUIDs and ports of the objects concerned.
    pub text: String,
    /// Source file that created the note.
    #[serde(skip)]
    file: &'static str,
}

impl PartialEq for Note {
    fn eq(&self, other: &Self) -> bool {
        (self.severity, self.code, &self.text) == (other.severity, other.code, &other.text)
    }
}

impl Eq for Note {}

impl Note {
    /// Creates a note. Its module is that of the caller.
    #[track_caller]
    pub fn new(severity: Severity, code: Option<&'static str>, text: impl Into<String>) -> Self {
        Self { severity, code, text: text.into(), file: Location::caller().file() }
    }

    #[track_caller]
    pub fn info(text: impl Into<String>) -> Self {
        Self::new(Severity::Info, None, text)
    }

    #[track_caller]
    pub fn warning(text: impl Into<String>) -> Self {
        Self::new(Severity::Warning, None, text)
    }

    /// Creates an error with OpenSM's `ERR` number.
    #[track_caller]
    pub fn error(code: &'static str, text: impl Into<String>) -> Self {
        Self::new(Severity::Error, Some(code), text)
    }

    /// Module that created the note, such as `plan::routing::torus::search`, for the log.
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

/// Several messages, one a line.
pub fn in_words(notes: Vec<Note>) -> String {
    notes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// A count with its noun: `1 switch`, `2 switches`.
pub fn counted(count: usize, singular: &str, plural: &str) -> String {
    format!("{count} {}", if count == 1 { singular } else { plural })
}

/// The state of something that can be switched on.
pub fn on_or_off(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits() {
        let shown =
            [350, 1_415, 12_345, 999_000, 4_561_000].map(|us| time_text(Duration::from_micros(us)));
        assert_eq!(shown, ["0.35 ms", "1.42 ms", "12.3 ms", "999.0 ms", "4.56 s"]);
    }

    #[test]
    fn notes_have_a_module_that_equality_ignores() {
        let note = Note::error("4E05", "no torus");
        assert_eq!(note.place(), "notes");
        let elsewhere = Note { file: "src/plan/routing/torus/mod.rs", ..note.clone() };
        assert_eq!(elsewhere.place(), "plan::routing::torus");
        assert_eq!(elsewhere, note);
        assert_ne!(note, Note::new(Severity::Error, None, "no torus"));
        assert_eq!(note.to_string(), "ERR 4E05: no torus");
    }
}
