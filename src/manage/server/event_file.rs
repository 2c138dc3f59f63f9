//! The file of events, one line of JSON each (`management_event_log`).

use crate::manage::event_log::LoggedEvent;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tracing::error;

/// An open file. Lines are appended, so that the file may be truncated while the daemon runs.
pub(super) struct EventFile {
    path: PathBuf,
    /// `None` once a line could not be written: that is reported once.
    file: Mutex<Option<File>>,
}

impl EventFile {
    /// Opens a file, which is created if it does not exist.
    ///
    /// # Errors
    /// That of open(2).
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        Ok(Self { path: path.to_owned(), file: Mutex::new(Some(file)) })
    }

    /// Appends an event in a single write.
    pub(super) fn write(&self, event: &LoggedEvent) {
        let mut open = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = open.as_mut() else { return };
        if let Err(problem) = file.write_all(format!("{}\n", event.json).as_bytes()) {
            error!("{}: {problem}: no further events are written", self.path.display());
            *open = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_appended() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("events.json");
        for json in ["{\"number\":1}", "{\"number\":2}"] {
            EventFile::open(&path).expect("a file").write(&event(json));
        }
        let text = std::fs::read_to_string(&path).expect("a file");
        assert_eq!(text, "{\"number\":1}\n{\"number\":2}\n");
        assert!(EventFile::open(folder.path()).is_err());
    }

    fn event(json: &str) -> LoggedEvent {
        LoggedEvent { number: 1, name: "exiting", json: json.into() }
    }
}
