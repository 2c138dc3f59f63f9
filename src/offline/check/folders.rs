//! Folders that the daemon writes to.

use crate::config::options::Options;
use crate::notes::{Note, Severity};
use nix::unistd::{AccessFlags, access};
use std::path::{Path, PathBuf};

/// Errors about the log file, the folder of dumps and the folder of caches that the user of this
/// command cannot write. Missing folders of caches are created by the daemon.
pub(super) fn findings(options: &Options) -> Vec<Note> {
    let mut notes = Vec::new();
    if !matches!(options.log_file.as_str(), "stdout" | "stderr" | "-") {
        let file = Path::new(&options.log_file);
        let target = if file.exists() { Some(file) } else { file.parent() };
        notes.extend(target.and_then(|target| problem("log_file", target)));
    }
    notes.extend(problem("dump_files_dir", Path::new(&options.dump_files_dir)));
    let cache = std::env::var_os("OSM_CACHE_DIR").map(PathBuf::from);
    let cache = cache.unwrap_or("/var/cache/opensm".into());
    let existing = cache.ancestors().find(|folder| folder.exists());
    notes.extend(existing.and_then(|folder| problem("OSM_CACHE_DIR", folder)));
    notes
}

/// An error if `path`, an existing file or folder, cannot be written.
fn problem(subject: &str, path: &Path) -> Option<Note> {
    // The folder of a relative path is the working directory.
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let error = access(path, AccessFlags::W_OK).err()?;
    let text = format!("{subject}: {} cannot be written: {}", path.display(), error.desc());
    Some(Note::new(Severity::Error, None, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_folders_are_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).display().to_string();
        let options = Options {
            log_file: path("none/opensm.log"),
            dump_files_dir: path("none"),
            ..Options::default()
        };
        let texts: Vec<String> = findings(&options).into_iter().map(|note| note.text).collect();
        assert_eq!((of(&texts, "log_file: "), of(&texts, "dump_files_dir: ")), (1, 1), "{texts:?}");
        let options = Options { log_file: path("opensm.log"), dump_files_dir: path(""), ..options };
        let texts: Vec<String> = findings(&options).into_iter().map(|note| note.text).collect();
        assert!(texts.iter().all(|text| text.starts_with("OSM_CACHE_DIR")), "{texts:?}");
    }

    fn of(texts: &[String], key: &str) -> usize {
        texts.iter().filter(|text| text.starts_with(key)).count()
    }
}
