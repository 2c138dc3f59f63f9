//! The configuration files as they were read, for the management interface.

use crate::config::config_files::FileVersion;
use crate::manage::loop_status::{ConfigFile, ConfigStatus};
use chrono::{DateTime, Utc};

/// The status of a configuration that takes effect with these files.
pub fn in_force(files: &[FileVersion]) -> ConfigStatus {
    let files = files.iter().map(|version| ConfigFile {
        option: version.option,
        path: version.path.clone(),
        modified: version.modified.map(DateTime::<Utc>::from),
        sha256: version.sha256.clone(),
        is_rejected: false,
    });
    ConfigStatus { files: files.collect(), read: Utc::now(), error: None, start_error: None }
}

/// The status of the configuration that the daemon starts with. `errors`: what is wrong in its files.
pub fn at_start(files: &[FileVersion], errors: &[String]) -> ConfigStatus {
    let start_error = (!errors.is_empty()).then(|| errors.join("\n"));
    ConfigStatus { start_error, ..in_force(files) }
}

/// The status after later versions of the files were rejected because of `error`.
pub fn rejected(status: &ConfigStatus, later: &[FileVersion], error: String) -> ConfigStatus {
    let mut status = ConfigStatus { error: Some(error), ..status.clone() };
    for file in &mut status.files {
        let version = later.iter().find(|version| version.path == file.path);
        file.is_rejected = version.is_some_and(|version| version.sha256 != file.sha256);
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn rejected_files_keep_their_versions_and_are_marked() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("opensm.conf");
        let other = dir.path().join("other");
        std::fs::write(&path, "abc").expect("a file");
        let status = in_force(&[read(&path), read(&other)]);
        assert!(status.files[0].modified.is_some());
        std::fs::write(&path, "abcd").expect("a file");
        let later = rejected(&status, &[read(&path), read(&other)], "wrong".to_owned());
        assert_eq!(later.files[0].sha256, status.files[0].sha256);
        assert_eq!(later.error.as_deref(), Some("wrong"));
        let is_rejected: Vec<bool> = later.files.iter().map(|file| file.is_rejected).collect();
        assert_eq!(is_rejected, [true, false]);
    }

    fn read(path: &Path) -> FileVersion {
        FileVersion::read("config", path)
    }
}
