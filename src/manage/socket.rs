//! Paths of the sockets, and the running instances on this machine.

use crate::ids::Guid;
use crate::local_socket;
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use std::collections::BTreeSet;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Environment variable with the folder of the sockets.
pub const FOLDER_VARIABLE: &str = "TORUS_SM_RUNTIME_DIR";

/// Start and end of the name of a socket; the port GUID stands between them.
const PREFIX: &str = "sm-";
const SUFFIX: &str = ".sock";
/// End of the name of the folder of a simulator.
const SIMULATOR_SUFFIX: &str = "d";

/// The folder of the sockets: `$TORUS_SM_RUNTIME_DIR`, else the runtime folder.
pub fn folder() -> PathBuf {
    let set = std::env::var_os(FOLDER_VARIABLE).filter(|folder| !folder.is_empty());
    set.map_or_else(local_socket::runtime_folder, PathBuf::from)
}

/// The folder of the sockets of daemons on a simulated fabric: `sim.d` beside `sim.sock`.
pub fn simulator_folder(socket: &Path) -> PathBuf {
    socket.with_extension(SIMULATOR_SUFFIX)
}

/// The socket of the daemon on the port with this GUID.
pub fn path(folder: &Path, port: Guid) -> PathBuf {
    folder.join(format!("{PREFIX}{port}{SUFFIX}"))
}

/// Process ID of the daemon that serves the socket of this port; `None` if there is none, or this
/// user may not connect to it.
pub fn owner(folder: &Path, port: Guid) -> Option<u32> {
    let stream = UnixStream::connect(path(folder, port)).ok()?;
    let peer = getsockopt(&stream, PeerCredentials).ok()?;
    u32::try_from(peer.pid()).ok()
}

/// A socket of a daemon, which may no longer be running.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Instance {
    pub path: PathBuf,
    /// GUID of the SM's port.
    pub port: Guid,
}

impl Instance {
    /// The daemon runs on a simulated fabric.
    pub fn is_simulated(&self) -> bool {
        let folder = self.path.parent().and_then(Path::extension);
        folder.is_some_and(|end| end == SIMULATOR_SUFFIX)
    }
}

/// The sockets in `folder` and in the folders of simulators in it. Folders that cannot be read are
/// skipped.
pub fn instances_in(folder: &Path) -> BTreeSet<Instance> {
    let mut found = BTreeSet::new();
    for path in entries(folder) {
        if path.extension().is_some_and(|end| end == SIMULATOR_SUFFIX) {
            found.extend(entries(&path).filter_map(instance));
        } else {
            found.extend(instance(path));
        }
    }
    found
}

/// The sockets in [`folder`] and in the folder of root's daemons.
pub fn instances() -> BTreeSet<Instance> {
    let mut found = instances_in(&folder());
    if std::env::var_os(FOLDER_VARIABLE).is_none() {
        found.extend(instances_in(Path::new(local_socket::SYSTEM_FOLDER)));
    }
    found
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path()))
}

fn instance(path: PathBuf) -> Option<Instance> {
    let name = path.file_name()?.to_str()?;
    let guid = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.strip_prefix("0x")?;
    let port = Guid(u64::from_str_radix(guid, 16).ok()?);
    Some(Instance { path, port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_are_found_in_the_folder_and_in_those_of_simulators() {
        let dir = tempfile::tempdir().expect("a folder");
        let simulator = simulator_folder(&dir.path().join("sim.sock"));
        std::fs::create_dir(&simulator).expect("a folder");
        for file in ["sm-0x0000000000000002.sock", "sm-0x0000000000000002.sock.lock", "sm-x.sock"] {
            std::fs::write(dir.path().join(file), "").expect("a file");
        }
        std::fs::write(path(&simulator, Guid(3)), "").expect("a file");
        let found = instances_in(dir.path());
        let ports: Vec<Guid> = found.iter().map(|instance| instance.port).collect();
        assert_eq!(ports.len(), 2, "{found:?}");
        assert!(found.iter().all(|found| found.is_simulated() == (found.port == Guid(3))));
        assert!(ports.contains(&Guid(2)) && ports.contains(&Guid(3)));
        assert_eq!(instances_in(&dir.path().join("none")), BTreeSet::new());
    }
}
