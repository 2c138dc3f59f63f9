//! Finds other processes that use an InfiniBand port, to name them in error messages.

use crate::transport::sysfs::LocalPort;
use std::fs;
use std::path::{Path, PathBuf};

/// A process that has a device of the port open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortUser {
    pub pid: u32,
    /// The name in /proc/PID/comm.
    pub name: String,
}

/// Another subnet manager on the port: a process with its `issmN` device open, which signals IsSM
/// while open, else one with its `umadN` device open. `None` without such a process, or if this
/// process may not read /proc/PID/fd of it.
pub fn subnet_manager(port: &LocalPort) -> Option<PortUser> {
    let number = port.umad?;
    let device = |name: &str| PathBuf::from(format!("/dev/infiniband/{name}{number}"));
    user_of(&device("issm")).or_else(|| user_of(&device("umad")))
}

/// Another process that has `file` open.
fn user_of(file: &Path) -> Option<PortUser> {
    let entries = fs::read_dir("/proc").ok()?;
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut others = pids.filter(|&pid: &u32| pid != std::process::id());
    let pid = others.find(|&pid| has_open(pid, file))?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    Some(PortUser { pid, name: name.trim_end().to_owned() })
}

fn has_open(pid: u32, file: &Path) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    descriptors.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|to| to == file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_with_the_file_open_is_found() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(user_of(file.path()), None, "this process does not count");
        let open = fs::File::open(file.path()).unwrap();
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::from(open)).spawn().unwrap();
        let user = user_of(file.path());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(user.map(|user| user.pid), Some(child.id()));
    }
}
