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
        Self { pid, command: command(pid).unwrap_or_else(|| "unknown".to_owned()) }
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
    let mut users: Vec<DeviceUser> = numbers_in("/proc")
        .filter(|&pid| pid != std::process::id() && has_open(pid, Path::new(path)))
        .map(DeviceUser::new)
        .collect();
    users.sort_by_key(|user| user.pid);
    users
}

/// The numbers of the processes (`/proc`) or threads (`/proc/PID/task`) that a folder lists.
pub(super) fn numbers_in(folder: &str) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn has_open(pid: u32, path: &Path) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    descriptors.into_iter().any(|entry| fs::read_link(entry.path()).is_ok_and(|to| to == path))
}

/// The command name of a process or thread; `None` if it has ended or has none.
pub(super) fn command(number: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{number}/comm")).ok()?;
    let name = name.trim_end();
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_descriptors_are_found_but_not_listed() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        assert!(has_open(std::process::id(), file.path()));
        assert_eq!(users_of(&file.path().display().to_string()), []);
        assert_ne!(command(std::process::id()), None);
    }
}
