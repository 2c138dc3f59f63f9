//! Directories that programs see as `/sys` and `/dev` of their node.

use super::attach_point::AttachPoint;
use super::sysfs::{self, Content};
use crate::ids::PortNum;
use crate::sim::SimFabric;
use nix::errno::Errno;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Directories of nodes, created when a program attaches.
pub(super) struct NodeDirectories {
    fabric: SimFabric,
    root: PathBuf,
    created: BTreeMap<AttachPoint, BTreeMap<String, File>>,
}

struct File {
    content: Content,
    /// Current text of the file.
    written: String,
}

/// A device of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DeviceKind {
    Umad,
    Issm,
}

impl NodeDirectories {
    /// Directories will be created in `root`.
    pub(super) fn new(fabric: SimFabric, root: PathBuf) -> Self {
        Self { fabric, root, created: BTreeMap::new() }
    }

    /// Path of the directory for `at`, which is created if necessary.
    pub(super) fn directory(&mut self, at: AttachPoint) -> io::Result<PathBuf> {
        let name = match (at.port, at.vport) {
            (Some(port), Some(vport)) => format!("{:016x}-{port}-{vport}", at.node.0),
            (Some(port), None) => format!("{:016x}-{port}", at.node.0),
            (None, _) => format!("{:016x}", at.node.0),
        };
        let directory = self.root.join(name);
        if self.created.contains_key(&at) {
            return Ok(directory);
        }
        let mut files = BTreeMap::new();
        for (path, content) in sysfs::files(&self.fabric.shared, at) {
            let written = sysfs::render(&self.fabric.shared, at, content);
            let file = directory.join(&path);
            fs::create_dir_all(file.parent().unwrap_or(&directory))?;
            write(&directory, &file, &written)?;
            files.insert(path, File { content, written });
        }
        self.created.insert(at, files);
        Ok(directory)
    }

    /// Updates the file at `path`, or all files of the directory at `path`, if it exists.
    pub(super) fn refresh(&mut self, at: AttachPoint, path: &str) -> io::Result<()> {
        let directory = self.directory(at)?;
        let path = normalized(path);
        let Some(files) = self.created.get_mut(&at) else { return Ok(()) };
        let within = format!("{path}/");
        let selected =
            files.range_mut(path.clone()..).take_while(|(name, _)| name.starts_with(&path));
        for (name, file) in selected {
            let is_entry = name.strip_prefix(&within).is_some_and(|rest| !rest.contains('/'));
            if *name != path && !is_entry {
                continue;
            }
            let now = sysfs::render(&self.fabric.shared, at, file.content);
            if now != file.written {
                write(&directory, &directory.join(name), &now)?;
                file.written = now;
            }
        }
        Ok(())
    }

    /// Type and port of the device at `path`.
    pub(super) fn device(
        &self,
        at: AttachPoint,
        path: &str,
    ) -> Result<(DeviceKind, PortNum), Errno> {
        let path = normalized(path);
        let name = path.strip_prefix("dev/infiniband/").ok_or(Errno::ENOENT)?;
        let umad = name.strip_prefix("umad").map(|number| (DeviceKind::Umad, number));
        let issm = name.strip_prefix("issm").map(|number| (DeviceKind::Issm, number));
        let (kind, number) = umad.or(issm).ok_or(Errno::ENOENT)?;
        let exists = self.created.get(&at).is_some_and(|files| files.contains_key(&path));
        let index = number.parse::<usize>().ok().filter(|_| exists).ok_or(Errno::ENOENT)?;
        let ports = sysfs::ports(&self.fabric.shared, at);
        ports.get(index).map(|&port| (kind, port)).ok_or(Errno::ENOENT)
    }
}

/// The path without empty components.
fn normalized(path: &str) -> String {
    path.split('/').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

/// Replaces a file atomically; readers of the old file are not disturbed.
fn write(directory: &Path, file: &Path, text: &str) -> io::Result<()> {
    let new = directory.join(".new");
    fs::write(&new, text)?;
    fs::set_permissions(&new, fs::Permissions::from_mode(0o444))?;
    fs::rename(&new, file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::synthetic::Hardware;
    use crate::ids::{Guid, Lid};
    use crate::sim::generate::Shape;
    use crate::transport::sysfs::{LinkState, Sysfs};

    fn fabric() -> (SimFabric, AttachPoint, Guid) {
        let topology = Shape::torus([2, 2, 1]).build().expect("a small fabric");
        let fabric = SimFabric::new(&topology, Hardware::default(), 1);
        let host = topology.nodes.iter().find(|node| node.description.starts_with("h1-1"));
        let host = host.expect("a host");
        (
            fabric,
            AttachPoint { node: host.guid, port: None, vport: None },
            host.port_guid(PortNum(1)),
        )
    }

    #[test]
    fn sysfs_has_the_port() {
        let (fabric, at, guid) = fabric();
        let root = tempfile::tempdir().expect("a directory");
        let mut nodes = NodeDirectories::new(fabric.clone(), root.path().to_owned());
        let directory = nodes.directory(at).expect("a directory");
        let ports = Sysfs::at(directory.join("sys/class")).ports().expect("ports");
        let port = ports.first_usable().expect("a link");
        assert_eq!((port.guid, port.port, port.umad), (guid, PortNum(1), Some(0)));
        assert_eq!((port.lid, port.state), (Lid(0), LinkState::Init));
        assert_eq!(
            read(&directory, "sys/class/infiniband/sim0/ports/1/rate"),
            "40 Gb/sec (4X QDR)\n"
        );
        assert_eq!(read(&directory, "sys/class/infiniband/sim0/ports/1/phys_state"), "5: LinkUp\n");
        assert_eq!(read(&directory, "sys/class/infiniband/sim0/ports/1/pkeys/0"), "0xffff\n");
        assert_eq!(read(&directory, "sys/class/infiniband/sim0/node_type"), "1: CA\n");
    }

    fn read(directory: &Path, path: &str) -> String {
        fs::read_to_string(directory.join(path)).expect(path)
    }

    #[test]
    fn refreshing_updates_files() {
        let (fabric, at, _) = fabric();
        let root = tempfile::tempdir().expect("a directory");
        let mut nodes = NodeDirectories::new(fabric.clone(), root.path().to_owned());
        let directory = nodes.directory(at).expect("a directory");
        let state = "sys/class/infiniband/sim0/ports/1/state";
        let read = || fs::read_to_string(directory.join(state)).expect("a file");
        assert_eq!(read(), "2: INIT\n");
        assert!(fabric.unlink(at.node, PortNum(1)));
        nodes.refresh(at, "/sys/class//infiniband/sim0/ports/1/lid").expect("done");
        assert_eq!(read(), "2: INIT\n");
        nodes.refresh(at, "/sys/class/infiniband/sim0/ports/1/").expect("done");
        assert_eq!(read(), "1: DOWN\n");
        assert!(fabric.relink(at.node, PortNum(1)));
        nodes.refresh(at, state).expect("done");
        assert_eq!(read(), "2: INIT\n");
    }

    #[test]
    fn devices_by_path() {
        let (fabric, at, _) = fabric();
        let root = tempfile::tempdir().expect("a directory");
        let mut nodes = NodeDirectories::new(fabric, root.path().to_owned());
        nodes.directory(at).expect("a directory");
        assert_eq!(nodes.device(at, "/dev/infiniband/umad0"), Ok((DeviceKind::Umad, PortNum(1))));
        assert_eq!(nodes.device(at, "/dev/infiniband//issm0"), Ok((DeviceKind::Issm, PortNum(1))));
        for path in ["dev/infiniband/umad1", "dev/infiniband/uverbs0", "dev/infiniband/umad00", ""]
        {
            assert_eq!(nodes.device(at, path), Err(Errno::ENOENT), "{path}");
        }
    }
}
