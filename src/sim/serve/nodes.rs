//! The folders that show programs the `/sys` and `/dev` of their node.

use super::place::Place;
use super::sysfs::{self, Content};
use crate::ids::PortNum;
use crate::sim::SimFabric;
use nix::errno::Errno;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Folders of nodes, made when somebody attaches there.
pub(super) struct Nodes {
    fabric: SimFabric,
    root: PathBuf,
    known: BTreeMap<Place, BTreeMap<String, File>>,
}

struct File {
    content: Content,
    /// What is in the file.
    written: String,
}

/// A device of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DeviceKind {
    Umad,
    Issm,
}

impl Nodes {
    /// Makes folders in `root`.
    pub(super) fn new(fabric: SimFabric, root: PathBuf) -> Self {
        Self { fabric, root, known: BTreeMap::new() }
    }

    /// The folder of a place.
    pub(super) fn folder(&mut self, place: Place) -> io::Result<PathBuf> {
        let name = match place.port {
            Some(port) => format!("{:016x}-{port}", place.node.0),
            None => format!("{:016x}", place.node.0),
        };
        let folder = self.root.join(name);
        if self.known.contains_key(&place) {
            return Ok(folder);
        }
        let mut files = BTreeMap::new();
        for (path, content) in sysfs::files(&self.fabric.shared, place) {
            let written = sysfs::render(&self.fabric.shared, place, content);
            let file = folder.join(&path);
            fs::create_dir_all(file.parent().unwrap_or(&folder))?;
            write(&folder, &file, &written)?;
            files.insert(path, File { content, written });
        }
        self.known.insert(place, files);
        Ok(folder)
    }

    /// Brings the file at `path`, or all files of the folder there, up to date. What is not there
    /// needs nothing.
    pub(super) fn refresh(&mut self, place: Place, path: &str) -> io::Result<()> {
        let folder = self.folder(place)?;
        let path = plain(path);
        let Some(files) = self.known.get_mut(&place) else { return Ok(()) };
        let within = format!("{path}/");
        let meant = files.range_mut(path.clone()..).take_while(|(name, _)| name.starts_with(&path));
        for (name, file) in meant {
            let is_entry = name.strip_prefix(&within).is_some_and(|rest| !rest.contains('/'));
            if *name != path && !is_entry {
                continue;
            }
            let now = sysfs::render(&self.fabric.shared, place, file.content);
            if now != file.written {
                write(&folder, &folder.join(name), &now)?;
                file.written = now;
            }
        }
        Ok(())
    }

    /// The device at `path`, and its port.
    pub(super) fn device(&self, place: Place, path: &str) -> Result<(DeviceKind, PortNum), Errno> {
        let path = plain(path);
        let name = path.strip_prefix("dev/infiniband/").ok_or(Errno::ENOENT)?;
        let kind = |word, kind| name.strip_prefix(word).map(|number| (kind, number));
        let (kind, number) = kind("umad", DeviceKind::Umad)
            .or_else(|| kind("issm", DeviceKind::Issm))
            .ok_or(Errno::ENOENT)?;
        let known = self.known.get(&place).is_some_and(|files| files.contains_key(&path));
        let index = number.parse::<usize>().ok().filter(|_| known).ok_or(Errno::ENOENT)?;
        let ports = sysfs::ports(&self.fabric.shared, place);
        ports.get(index).map(|&port| (kind, port)).ok_or(Errno::ENOENT)
    }
}

/// The path without empty parts.
fn plain(path: &str) -> String {
    path.split('/').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

/// Puts a new file in the place of an old one, so that whoever reads the old one reads on.
fn write(folder: &Path, file: &Path, text: &str) -> io::Result<()> {
    let new = folder.join(".new");
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

    fn fabric() -> (SimFabric, Place, Guid) {
        let topology = Shape::torus([2, 2, 1]).build().expect("a small fabric");
        let fabric = SimFabric::new(&topology, Hardware::default(), 1);
        let host = topology.nodes.iter().find(|node| node.description.starts_with("h1-1"));
        let host = host.expect("a host");
        (fabric, Place { node: host.guid, port: None }, host.port_guid(PortNum(1)))
    }

    #[test]
    fn the_daemon_finds_the_port_in_it() {
        let (fabric, place, guid) = fabric();
        let root = tempfile::tempdir().expect("a folder");
        let mut nodes = Nodes::new(fabric.clone(), root.path().to_owned());
        let folder = nodes.folder(place).expect("a folder");
        let ports = Sysfs::at(folder.join("sys/class")).ports().expect("ports");
        let port = ports.first_usable().expect("a link");
        assert_eq!((port.guid, port.port, port.umad), (guid, PortNum(1), Some(0)));
        assert_eq!((port.lid, port.state), (Lid(0), LinkState::Init));
        let read = |path: &str| fs::read_to_string(folder.join(path)).expect(path);
        assert_eq!(read("sys/class/infiniband/sim0/ports/1/rate"), "40 Gb/sec (4X QDR)\n");
        assert_eq!(read("sys/class/infiniband/sim0/ports/1/phys_state"), "5: LinkUp\n");
        assert_eq!(read("sys/class/infiniband/sim0/ports/1/pkeys/0"), "0xffff\n");
        assert_eq!(read("sys/class/infiniband/sim0/node_type"), "1: CA\n");
    }

    #[test]
    fn files_follow_the_fabric_when_they_are_asked_for() {
        let (fabric, place, _) = fabric();
        let root = tempfile::tempdir().expect("a folder");
        let mut nodes = Nodes::new(fabric.clone(), root.path().to_owned());
        let folder = nodes.folder(place).expect("a folder");
        let state = "sys/class/infiniband/sim0/ports/1/state";
        let read = || fs::read_to_string(folder.join(state)).expect("a file");
        assert_eq!(read(), "2: INIT\n");
        assert!(fabric.unlink(place.node, PortNum(1)));
        nodes.refresh(place, "/sys/class//infiniband/sim0/ports/1/lid").expect("done");
        assert_eq!(read(), "2: INIT\n");
        nodes.refresh(place, "/sys/class/infiniband/sim0/ports/1/").expect("done");
        assert_eq!(read(), "1: DOWN\n");
        assert!(fabric.relink(place.node, PortNum(1)));
        nodes.refresh(place, state).expect("done");
        assert_eq!(read(), "2: INIT\n");
    }

    #[test]
    fn devices_have_ports() {
        let (fabric, place, _) = fabric();
        let root = tempfile::tempdir().expect("a folder");
        let mut nodes = Nodes::new(fabric, root.path().to_owned());
        nodes.folder(place).expect("a folder");
        let device = |path| nodes.device(place, path);
        assert_eq!(device("/dev/infiniband/umad0"), Ok((DeviceKind::Umad, PortNum(1))));
        assert_eq!(device("/dev/infiniband//issm0"), Ok((DeviceKind::Issm, PortNum(1))));
        for path in ["dev/infiniband/umad1", "dev/infiniband/uverbs0", "dev/infiniband/umad00", ""]
        {
            assert_eq!(device(path), Err(Errno::ENOENT), "{path}");
        }
    }
}
