//! Scenarios in text files, for the unit tests of pure modules: blocks of input, each with a line `----` and
//! the output that must follow.

use std::path::{Path, PathBuf};

/// Plays each file of `folder`, a path below the root of the repository, and compares the result with its
/// text. UPDATE_GOLDEN=1 rewrites the files.
///
/// # Panics
/// A result differs, or there is no file.
pub fn check(folder: &str, played: impl Fn(&str) -> String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = std::fs::read_dir(&folder).expect("the folder of scenarios");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} has no scenario", folder.display());
    for path in files {
        let recorded = std::fs::read_to_string(&path).expect("a scenario");
        let played = played(&recorded);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, played).expect("a writable file");
        } else {
            assert_eq!(played, recorded, "{}: UPDATE_GOLDEN=1 rewrites it", path.display());
        }
    }
}
