//! Finds the processes that have a device open, for error messages.

use std::fmt;
use std::fs;
use std::path::Path;

/// A process that has a device open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceUser {
    pub pid: u32,
    /// Command name, as in `/proc/PID/comm`.
    pub command: String,
}

impl DeviceUser {
    /// The process with this number.
    pub(super) fn new(pid: u32) -> Self {
        Self { pid, command: command(pid) }
    }
}

impl fmt::Display for DeviceUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.command, self.pid)
    }
}

/// The other processes that have `path` open, by pid. Processes of other users are missing unless
/// this process may read their `/proc/PID/fd`, see proc_pid_fd(5).
pub(super) fn users_of(path: &str) -> Vec<DeviceUser> {
    let mut users: Vec<DeviceUser> = processes()
        .filter(|&pid| pid != std::process::id() && has_open(pid, Path::new(path)))
        .map(DeviceUser::new)
        .collect();
    users.sort_by_key(|user| user.pid);
    users
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn has_open(pid: u32, path: &Path) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    descriptors.into_iter().any(|entry| fs::read_link(entry.path()).is_ok_and(|to| to == path))
}

fn command(pid: u32) -> String {
    match fs::read_to_string(format!("/proc/{pid}/comm")) {
        Ok(name) if !name.trim_end().is_empty() => name.trim_end().to_owned(),
        _ => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_descriptors_are_found_but_not_listed() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        assert!(has_open(std::process::id(), file.path()));
        assert_eq!(users_of(&file.path().display().to_string()), []);
        assert!(!command(std::process::id()).is_empty());
    }
}
