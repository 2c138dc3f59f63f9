//! A file that is read again when its size or time of modification changes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The contents of a file in a form of their own.
pub struct WatchedFile<T> {
    path: PathBuf,
    version: Option<(u64, SystemTime)>,
    contents: T,
}

impl<T> WatchedFile<T> {
    /// Reads the file by `parse`, which gets its bytes or why it cannot be read.
    pub fn read(path: &Path, parse: fn(&Path, Result<Vec<u8>, String>) -> T) -> Self {
        let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
        Self { path: path.to_owned(), version: version(path), contents: parse(path, bytes) }
    }

    /// True if it is this file, and unchanged.
    pub fn is_current(&self, path: &Path) -> bool {
        self.path == path && self.version == version(path)
    }

    pub fn contents(&self) -> &T {
        &self.contents
    }
}

fn version(path: &Path) -> Option<(u64, SystemTime)> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.len(), metadata.modified().ok()?))
}
