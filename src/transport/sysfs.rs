//! The local ports, from `/sys/class/infiniband`, and their umad devices, from
//! `/sys/class/infiniband_mad`.
//!
//! Files are read through libc's `open` and `read`, which nix calls, because preloaded simulators
//! such as ibsim's do not replace the `open64` of `std::fs`. Simulators may keep their copy of
//! sysfs relative to the working directory, which must not change before the ports are read.

use crate::ids::{Gid, Guid, Lid, PortNum};
use crate::wire::attr::CapMask;
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use nix::unistd::read;
use std::fmt;
use std::path::{Path, PathBuf};

/// Supported version of the umad interface: `IB_USER_MAD_ABI_VERSION`.
const ABI_VERSION: u32 = 5;
/// Node types in sysfs of InfiniBand nodes: channel adapter, switch, router. Others are iWARP and
/// usNIC.
const INFINIBAND_TYPES: [u32; 3] = [1, 2, 3];

/// Logical state of a port (IBA vol. 1, PortInfo:PortState).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkState {
    Down,
    /// Only SMPs are forwarded.
    Init,
    /// Configured, but not activated.
    Armed,
    Active,
    /// An undefined value.
    Other(u32),
}

impl From<u32> for LinkState {
    fn from(raw: u32) -> Self {
        match raw {
            1 => Self::Down,
            2 => Self::Init,
            3 => Self::Armed,
            4 => Self::Active,
            other => Self::Other(other),
        }
    }
}

impl fmt::Display for LinkState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Down => f.write_str("DOWN"),
            Self::Init => f.write_str("INIT"),
            Self::Armed => f.write_str("ARMED"),
            Self::Active => f.write_str("ACTIVE"),
            Self::Other(raw) => write!(f, "state {raw}"),
        }
    }
}

/// A port of this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocalPort {
    /// Device name of the channel adapter.
    pub device: String,
    pub port: PortNum,
    pub node_guid: Guid,
    /// Port GUID.
    pub guid: Guid,
    /// 0 if not assigned.
    pub lid: Lid,
    /// LID of the master subnet manager; 0 if not assigned.
    pub sm_lid: Lid,
    pub state: LinkState,
    /// Physical state: 5 is LinkUp.
    pub phys_state: u32,
    /// The port shall have no subnet manager (IsSMdisabled).
    pub is_sm_disabled: bool,
    /// Number N of its devices `umadN` and `issmN`; `None` if the module ib_umad has not created
    /// them.
    pub umad: Option<u32>,
}

/// Failure to find a usable local port.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    #[error("no InfiniBand channel adapter found in {}", .0.display())]
    NoAdapter(PathBuf),
    #[error("no local port has GUID {0}")]
    UnknownGuid(Guid),
    #[error("{device}: node type {node_type} is not an InfiniBand node")]
    NotAnAdapter { device: String, node_type: u32 },
    #[error(
        "{device} port {port} shall have no subnet manager (IsSMdisabled), and there is no other \
         InfiniBand port: name it by -g GUID if it shall have one all the same"
    )]
    SmDisabled { device: String, port: PortNum },
    #[error("no channel adapter has an InfiniBand port")]
    NoPort,
    #[error("{device} port {port} has no umad device: load the kernel module ib_umad")]
    NoUmad { device: String, port: PortNum },
    #[error("the kernel has umad ABI version {found}, but version {ABI_VERSION} is required")]
    AbiVersion { found: u32 },
    #[error("{}: {source}", .path.display())]
    Read { path: PathBuf, source: Errno },
    #[error("{}: unexpected content {content:?}", .path.display())]
    Content { path: PathBuf, content: String },
}

/// The local InfiniBand ports.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LocalPorts {
    /// InfiniBand ports, sorted by device name and port number.
    pub ports: Vec<LocalPort>,
    /// Devices of other node types, with the type.
    pub others: Vec<(String, u32)>,
}

impl LocalPorts {
    /// The port with this GUID.
    ///
    /// # Errors
    /// [`PortError::UnknownGuid`].
    pub fn by_guid(&self, guid: Guid) -> Result<&LocalPort, PortError> {
        self.ports.iter().find(|port| port.guid == guid).ok_or(PortError::UnknownGuid(guid))
    }

    /// The default port, as OpenSM chooses it: the first that is not DOWN, else the first. Ports that
    /// shall have no subnet manager are skipped.
    ///
    /// # Errors
    /// [`PortError::NotAnAdapter`] if no device is an InfiniBand node; [`PortError::SmDisabled`];
    /// [`PortError::NoPort`].
    pub fn first_usable(&self) -> Result<&LocalPort, PortError> {
        let mut usable = self.ports.iter().filter(|port| !port.is_sm_disabled);
        let found = usable
            .clone()
            .find(|port| !matches!(port.state, LinkState::Down | LinkState::Other(0)))
            .or_else(|| usable.next());
        found.ok_or_else(|| match (self.ports.first(), self.others.first()) {
            (Some(LocalPort { device, port, .. }), _) => {
                PortError::SmDisabled { device: device.clone(), port: *port }
            }
            (None, Some((device, node_type))) => {
                PortError::NotAnAdapter { device: device.clone(), node_type: *node_type }
            }
            (None, None) => PortError::NoPort,
        })
    }
}

/// The class directories of sysfs.
#[derive(Clone, Debug)]
pub struct Sysfs {
    class: PathBuf,
}

impl Default for Sysfs {
    fn default() -> Self {
        Self::at("/sys/class")
    }
}

impl Sysfs {
    /// Uses the class directories below `class`, in place of `/sys/class`.
    pub fn at(class: impl Into<PathBuf>) -> Self {
        Self { class: class.into() }
    }

    /// All local ports.
    ///
    /// # Errors
    /// [`PortError::NoAdapter`] without any device; [`PortError::AbiVersion`]; read errors.
    pub fn ports(&self) -> Result<LocalPorts, PortError> {
        let adapters = self.class.join("infiniband");
        let mut names = match list(&adapters) {
            Ok(names) if !names.is_empty() => names,
            _ => return Err(PortError::NoAdapter(adapters)),
        };
        names.sort();
        let umads = self.umad_devices()?;
        let mut found = LocalPorts::default();
        for name in names {
            let device = adapters.join(&name);
            let node_type = leading_number(&device.join("node_type"))?;
            if !INFINIBAND_TYPES.contains(&node_type) {
                found.others.push((name, node_type));
                continue;
            }
            found.ports.extend(ports_of(&device, &name, &umads)?);
        }
        Ok(found)
    }

    /// The umad devices: device name of the adapter, port, number.
    fn umad_devices(&self) -> Result<Vec<(String, PortNum, u32)>, PortError> {
        let devices = self.class.join("infiniband_mad");
        let mut umads = Vec::new();
        for name in list(&devices).unwrap_or_default() {
            let Some(number) = name.strip_prefix("umad").and_then(|n| n.parse().ok()) else {
                continue;
            };
            let device = devices.join(&name);
            let port = number_in(&device.join("port"))?;
            umads.push((text(&device.join("ibdev"))?, PortNum(port), number));
        }
        let version = devices.join("abi_version");
        if !umads.is_empty() {
            match number_in(&version)? {
                ABI_VERSION => {}
                found => return Err(PortError::AbiVersion { found }),
            }
        }
        Ok(umads)
    }
}

/// The InfiniBand ports of the adapter `name`, whose directory is `device`.
fn ports_of(
    device: &Path,
    name: &str,
    umads: &[(String, PortNum, u32)],
) -> Result<Vec<LocalPort>, PortError> {
    let node_guid = guid(&device.join("node_guid"))?;
    let folder = device.join("ports");
    let numbers = list(&folder).map_err(|source| PortError::Read { path: folder.clone(), source });
    let mut numbers: Vec<u8> = numbers?.iter().filter_map(|number| number.parse().ok()).collect();
    numbers.sort_unstable();
    let mut ports = Vec::new();
    for number in numbers {
        let path = folder.join(number.to_string());
        // RoCE ports are listed as well. Old kernels and simulators lack the file link_layer.
        if text(&path.join("link_layer")).is_ok_and(|layer| layer != "InfiniBand") {
            continue;
        }
        let port = PortNum(number);
        let umad = umads.iter().find(|(adapter, at, _)| adapter == name && *at == port);
        ports.push(LocalPort {
            device: name.to_owned(),
            port,
            node_guid,
            guid: gid(&path.join("gids/0"))?.guid(),
            lid: Lid(number_in(&path.join("lid"))?),
            sm_lid: Lid(number_in(&path.join("sm_lid"))?),
            state: leading_number(&path.join("state"))?.into(),
            phys_state: leading_number(&path.join("phys_state"))?,
            is_sm_disabled: is_sm_disabled(&path),
            umad: umad.map(|&(_, _, number)| number),
        });
    }
    Ok(ports)
}

/// True if the capability mask of a port has IsSMdisabled. Some simulators lack the file.
fn is_sm_disabled(port: &Path) -> bool {
    number_in::<u32>(&port.join("cap_mask")).is_ok_and(|mask| mask & CapMask::SM_DISABLED != 0)
}

/// Names of the visible entries of a directory.
fn list(path: &Path) -> Result<Vec<String>, Errno> {
    let mut dir = Dir::open(path, OFlag::O_RDONLY | OFlag::O_DIRECTORY, Mode::empty())?;
    let mut names = Vec::new();
    for entry in dir.iter() {
        if let Ok(name) = entry?.file_name().to_str()
            && !name.starts_with('.')
        {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// The trimmed content of a file. Files of sysfs have at most one page.
fn text(path: &Path) -> Result<String, PortError> {
    let fault = |source| PortError::Read { path: path.to_owned(), source };
    let file = open(path, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty()).map_err(fault)?;
    let mut page = [0; 4096];
    let len = read(&file, &mut page).map_err(fault)?;
    Ok(String::from_utf8_lossy(&page[..len]).trim().to_owned())
}

/// A decimal number, or a hexadecimal one with 0x.
fn number_in<N: TryFrom<u32>>(path: &Path) -> Result<N, PortError> {
    let content = text(path)?;
    let parsed = match content.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => content.parse(),
    };
    let number = parsed.ok().and_then(|number| N::try_from(number).ok());
    number.ok_or_else(|| PortError::Content { path: path.to_owned(), content })
}

/// The number before a colon, as in `4: ACTIVE`.
fn leading_number(path: &Path) -> Result<u32, PortError> {
    let content = text(path)?;
    let number = content.split(':').next().and_then(|number| number.trim().parse().ok());
    number.ok_or_else(|| PortError::Content { path: path.to_owned(), content })
}

/// A GUID: four groups of four hexadecimal digits.
fn guid(path: &Path) -> Result<Guid, PortError> {
    let content = text(path)?;
    let number = groups(&content, 4).map(|number| Guid(number as u64));
    number.ok_or_else(|| PortError::Content { path: path.to_owned(), content })
}

/// A GID: eight groups of four hexadecimal digits.
fn gid(path: &Path) -> Result<Gid, PortError> {
    let content = text(path)?;
    let number =
        groups(&content, 8).map(|number| Gid::new((number >> 64) as u64, Guid(number as u64)));
    number.ok_or_else(|| PortError::Content { path: path.to_owned(), content })
}

/// `count` groups of four hexadecimal digits, separated by colons.
fn groups(content: &str, count: usize) -> Option<u128> {
    let groups: Vec<&str> = content.split(':').collect();
    if groups.len() != count {
        return None;
    }
    groups.iter().try_fold(0, |number, group| {
        Some(number << 16 | u128::from(u16::from_str_radix(group, 16).ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A copy of sysfs with the given ports: device, port, state, physical state.
    fn sysfs(ports: &[(&str, u8, &str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        write(&root, "infiniband_mad/abi_version".into(), "5\n");
        for (at, &(device, port, state, phys)) in ports.iter().enumerate() {
            let folder = format!("infiniband/{device}");
            write(&root, format!("{folder}/node_type"), "1: CA\n");
            write(&root, format!("{folder}/node_guid"), "0002:c903:0000:0010\n");
            let folder = format!("{folder}/ports/{port}");
            let gid = format!("fe80:0000:0000:0000:0002:c903:0000:001{at}\n");
            write(&root, format!("{folder}/gids/0"), &gid);
            write(&root, format!("{folder}/lid"), "0x1f\n");
            write(&root, format!("{folder}/sm_lid"), "0x0\n");
            write(&root, format!("{folder}/state"), state);
            write(&root, format!("{folder}/phys_state"), phys);
            write(&root, format!("infiniband_mad/umad{at}/ibdev"), &format!("{device}\n"));
            write(&root, format!("infiniband_mad/umad{at}/port"), &format!("{port}\n"));
            write(&root, format!("infiniband_mad/issm{at}/ibdev"), &format!("{device}\n"));
        }
        root
    }

    fn write(root: &tempfile::TempDir, path: String, content: &str) {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().expect("inside the root")).expect("a folder");
        std::fs::write(path, content).expect("a file");
    }

    fn chosen(ports: &[(&str, u8, &str, &str)]) -> Result<(String, u8), String> {
        let root = sysfs(ports);
        let found = Sysfs::at(root.path()).ports().map_err(|error| error.to_string())?;
        let port = found.first_usable().map_err(|error| error.to_string())?;
        Ok((port.device.clone(), port.port.0))
    }

    #[test]
    fn ports_are_read_with_their_devices() {
        let root = sysfs(&[
            ("mlx5_1", 1, "2: INIT\n", "5: LinkUp\n"),
            ("mlx5_0", 2, "4: ACTIVE\n", "5: LinkUp\n"),
        ]);
        let found = Sysfs::at(root.path()).ports().expect("two ports");
        let [first, second] = &found.ports[..] else { panic!("two ports: {found:?}") };
        assert_eq!((first.device.as_str(), first.umad), ("mlx5_0", Some(1)));
        assert_eq!((second.device.as_str(), second.umad), ("mlx5_1", Some(0)));
        assert_eq!(first.guid, Guid(0x0002_c903_0000_0011));
        assert_eq!(first.node_guid, Guid(0x0002_c903_0000_0010));
        assert_eq!((first.lid, first.sm_lid), (Lid(0x1F), Lid(0)));
        assert_eq!(found.by_guid(second.guid).expect("it is there").device, "mlx5_1");
        assert!(matches!(found.by_guid(Guid(1)), Err(PortError::UnknownGuid(Guid(1)))));
    }

    #[test]
    fn the_first_port_that_is_not_down_is_chosen() {
        let down = "1: DOWN\n";
        let polling = "2: Polling\n";
        let init = "2: INIT\n";
        let active = "4: ACTIVE\n";
        let up = "5: LinkUp\n";
        let all = [("a", 1, down, polling), ("b", 1, init, up), ("c", 1, active, up)];
        assert_eq!(chosen(&all), Ok(("b".into(), 1)));
        assert_eq!(chosen(&all[..1]), Ok(("a".into(), 1)));
        assert!(chosen(&[]).is_err_and(|error| error.starts_with("no InfiniBand")));
    }

    #[test]
    fn ports_that_shall_have_no_subnet_manager_are_skipped() {
        let active = "4: ACTIVE\n";
        let up = "5: LinkUp\n";
        let root = sysfs(&[("a", 1, active, up), ("b", 1, "1: DOWN\n", "2: Polling\n")]);
        let ports = || Sysfs::at(root.path()).ports().expect("readable");
        let first = || ports().first_usable().map(|port| port.device.clone());
        mask(&root, "a", "0x02510868\n");
        mask(&root, "b", "0x02510868\n");
        assert_eq!(first().expect("a port"), "a");
        mask(&root, "a", "0x02510c68\n");
        assert_eq!(first().expect("another port, though it is down"), "b");
        mask(&root, "b", "0x00000400\n");
        let error = first().expect_err("no port").to_string();
        assert!(error.starts_with("a port 1 shall have no subnet manager"), "{error}");
        let guid = ports().ports[0].guid;
        assert!(ports().by_guid(guid).is_ok(), "an administrator may name it");
    }

    fn mask(root: &tempfile::TempDir, device: &str, text: &str) {
        let path = root.path().join(format!("infiniband/{device}/ports/1/cap_mask"));
        std::fs::write(path, text).expect("a file");
    }

    #[test]
    fn other_devices_and_links_are_ignored() {
        let root = sysfs(&[("nic", 1, "4: ACTIVE\n", "5: LinkUp\n")]);
        let folder = root.path().join("infiniband/nic");
        std::fs::write(folder.join("ports/1/link_layer"), "Ethernet\n").expect("a file");
        assert_eq!(Sysfs::at(root.path()).ports().expect("readable").ports, []);
        std::fs::write(folder.join("node_type"), "4: RNIC\n").expect("a file");
        let found = Sysfs::at(root.path()).ports().expect("readable");
        let error = found.first_usable().expect_err("an RNIC has no InfiniBand port").to_string();
        assert_eq!(error, "nic: node type 4 is not an InfiniBand node");
    }

    #[test]
    fn errors_name_the_file() {
        let root = sysfs(&[("a", 1, "what\n", "5: LinkUp\n")]);
        let error = Sysfs::at(root.path()).ports().expect_err("no state").to_string();
        assert!(error.ends_with("ports/1/state: unexpected content \"what\""), "{error}");
        std::fs::write(root.path().join("infiniband_mad/abi_version"), "6").expect("a file");
        let error = Sysfs::at(root.path()).ports().expect_err("another ABI");
        assert!(matches!(error, PortError::AbiVersion { found: 6 }), "{error}");
    }
}
