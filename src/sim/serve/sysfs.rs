//! Contents of sysfs for a node: the files that libibumad reads, in the formats of the Linux kernel
//! (Documentation/ABI/stable/sysfs-class-infiniband).

use super::attach_point::AttachPoint;
use crate::ids::PortNum;
use crate::sim::devices::Devices;
use crate::sim::sim_fabric::Shared;
use crate::sim::vports::PARTITION_CAP;
use crate::wire::attr::tables::{GUID_BLOCK, PKEY_BLOCK};
use crate::wire::attr::{CapMask, LinkWidth, NodeKind, PhysState, PortInfo, PortState};
use crate::wire::bits::Field as _;

/// Name of the adapter that a program sees.
pub(super) const ADAPTER: &str = "sim0";
/// `IB_USER_MAD_ABI_VERSION`.
const ABI_VERSION: u32 = 5;

/// Content of a file of sysfs, or placeholder of a device file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Content {
    Fixed(&'static str),
    AbiVersion,
    NodeType,
    NodeGuid,
    SystemGuid,
    NodeDescription,
    Port(PortNum, PortFile),
    /// Adapter of a umad or issm device.
    AdapterOfDevice,
    PortOfDevice(PortNum),
    /// Placeholder of a device file, which is never read.
    Device,
}

/// A file in the directory of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PortFile {
    Lid,
    Lmc,
    SmLid,
    SmSl,
    State,
    PhysState,
    Rate,
    CapMask,
    LinkLayer,
    Pkey(u16),
    Gid(u16),
}

/// Ports that programs attached to `at` see.
pub(super) fn ports(shared: &Shared, at: AttachPoint) -> Vec<PortNum> {
    let net = shared.lock();
    let Some(&node) = net.devices.by_guid.get(&at.node) else { return Vec::new() };
    let last = net.devices.node(node).info.num_ports();
    let all = if net.devices.is_switch(node) { 0..=0 } else { 1..=last };
    all.map(PortNum).filter(|port| at.port.is_none_or(|only| only == *port)).collect()
}

/// All files for `at`, with their paths in its directory.
pub(super) fn files(shared: &Shared, at: AttachPoint) -> Vec<(String, Content)> {
    let class = "sys/class/infiniband";
    let adapter = format!("{class}/{ADAPTER}");
    let mut files = vec![
        (format!("{class}_mad/abi_version"), Content::AbiVersion),
        (format!("{adapter}/node_type"), Content::NodeType),
        (format!("{adapter}/node_guid"), Content::NodeGuid),
        (format!("{adapter}/sys_image_guid"), Content::SystemGuid),
        (format!("{adapter}/node_desc"), Content::NodeDescription),
        (format!("{adapter}/hca_type"), Content::Fixed("torus-sm simulator")),
        (format!("{adapter}/fw_ver"), Content::Fixed(env!("CARGO_PKG_VERSION"))),
        (format!("{adapter}/hw_rev"), Content::Fixed("0")),
        (format!("{adapter}/board_id"), Content::Fixed("SIM0000000001")),
    ];
    for (port, number) in ports(shared, at).into_iter().zip(0..) {
        let directory = format!("{adapter}/ports/{port}");
        files.extend(
            port_files(shared, at, port)
                .into_iter()
                .map(|(name, file)| (format!("{directory}/{name}"), Content::Port(port, file))),
        );
        for device in ["umad", "issm"] {
            let directory = format!("{class}_mad/{device}{number}");
            files.push((format!("{directory}/ibdev"), Content::AdapterOfDevice));
            files.push((format!("{directory}/port"), Content::PortOfDevice(port)));
            files.push((format!("dev/infiniband/{device}{number}"), Content::Device));
        }
    }
    files
}

fn port_files(shared: &Shared, at: AttachPoint, port: PortNum) -> Vec<(String, PortFile)> {
    let mut files: Vec<(String, PortFile)> = [
        ("lid", PortFile::Lid),
        ("lid_mask_count", PortFile::Lmc),
        ("sm_lid", PortFile::SmLid),
        ("sm_sl", PortFile::SmSl),
        ("state", PortFile::State),
        ("phys_state", PortFile::PhysState),
        ("rate", PortFile::Rate),
        ("cap_mask", PortFile::CapMask),
        ("link_layer", PortFile::LinkLayer),
    ]
    .map(|(name, file)| (name.to_owned(), file))
    .to_vec();
    let net = shared.lock();
    let Some(slot) = net.devices.find(at.node, port) else { return files };
    let vport = at.vport.and_then(|index| net.devices.vport(slot, index).ok());
    let (pkeys, gids) = match vport {
        Some(_) => (PARTITION_CAP.into(), 1),
        None => (net.devices.pkey_cap(slot), u16::from(net.devices.port(slot).info.guid_cap())),
    };
    let pkeys = u16::try_from(pkeys).unwrap_or(u16::MAX);
    files.extend((0..pkeys).map(|index| (format!("pkeys/{index}"), PortFile::Pkey(index))));
    files.extend((0..gids).map(|index| (format!("gids/{index}"), PortFile::Gid(index))));
    files
}

/// Current text of a file, with a newline at its end.
pub(super) fn render(shared: &Shared, at: AttachPoint, content: Content) -> String {
    let mut net = shared.lock();
    let devices = &mut net.devices;
    let Some(&node) = devices.by_guid.get(&at.node) else { return String::new() };
    let info = devices.node(node).info;
    let spec = at.vport.zip(at.port).and_then(|(index, port)| {
        let slot = devices.slot(node, port)?;
        Some(devices.vport(slot, index).ok()?.spec.clone())
    });
    let text = match content {
        Content::Fixed(text) => text.to_owned(),
        Content::AbiVersion => ABI_VERSION.to_string(),
        Content::NodeType => match info.kind() {
            NodeKind::Ca => "1: CA".to_owned(),
            NodeKind::Switch => "2: switch".to_owned(),
            NodeKind::Router => "3: router".to_owned(),
            NodeKind::Unknown(code) => format!("{code}: <unknown>"),
        },
        Content::NodeGuid => {
            let guid = spec.map_or(info.node_guid(), |spec| spec.vnode);
            colon_separated(&guid.0.to_be_bytes())
        }
        Content::SystemGuid => colon_separated(&info.system_guid().0.to_be_bytes()),
        Content::NodeDescription => spec.map_or_else(
            || devices.node(node).description.to_string(),
            |spec| spec.description.to_string(),
        ),
        Content::AdapterOfDevice => ADAPTER.to_owned(),
        Content::PortOfDevice(port) => port.to_string(),
        Content::Device => return String::new(),
        Content::Port(port, file) => match devices.slot(node, port) {
            Some(slot) => {
                let of_vport = at.vport.and_then(|index| render_vport(devices, slot, index, file));
                of_vport.unwrap_or_else(|| render_port(devices, slot, file))
            }
            None => String::new(),
        },
    };
    text + "\n"
}

/// A file of the port of a virtual function; `None` if it is that of the physical port.
fn render_vport(devices: &Devices, slot: u32, index: u16, file: PortFile) -> Option<String> {
    let vport = devices.vport(slot, index).ok()?;
    let lid = vport.own_lid();
    match file {
        PortFile::Lid if lid.is_unicast() => Some(format!("{:#x}", lid.0)),
        PortFile::Lmc if lid.is_unicast() => Some("0".to_owned()),
        PortFile::State => Some(state(devices.vport_state(slot, index))),
        PortFile::Pkey(at) => {
            let pkey = vport.pkeys.get(usize::from(at)).copied().unwrap_or_default();
            Some(format!("{:#06x}", pkey.0))
        }
        PortFile::Gid(_) => {
            let prefix = devices.port(slot).info.gid_prefix();
            let mut gid = [0; 16];
            gid[..8].copy_from_slice(&prefix.to_be_bytes());
            gid[8..].copy_from_slice(&vport.spec.guid.0.to_be_bytes());
            Some(colon_separated(&gid))
        }
        _ => None,
    }
}

fn render_port(devices: &mut Devices, slot: u32, file: PortFile) -> String {
    let info = devices.port(slot).info;
    match file {
        PortFile::Lid => format!("{:#x}", info.lid().0),
        PortFile::Lmc => info.lmc().to_string(),
        PortFile::SmLid => format!("{:#x}", info.master_sm_lid().0),
        PortFile::SmSl => info.master_sm_sl().0.to_string(),
        PortFile::State => state(info.port_state()),
        PortFile::PhysState => phys_state(info.phys_state()),
        PortFile::Rate => rate(&info),
        PortFile::CapMask => format!("{:#010x}", info.capability_mask()),
        PortFile::LinkLayer => "InfiniBand".to_owned(),
        PortFile::Pkey(index) => {
            let entry = usize::from(index);
            let port = u32::from(devices.port(slot).num.0);
            let block = devices.pkeys(slot, port << 16 | (entry / PKEY_BLOCK) as u32, None);
            let at = entry % PKEY_BLOCK * 2;
            let pkey = block.map_or(0, |block| u16::from_be_bytes([block[at], block[at + 1]]));
            format!("{pkey:#06x}")
        }
        PortFile::Gid(index) => {
            let entry = usize::from(index);
            let block = devices.guids(slot, (entry / GUID_BLOCK) as u32, None);
            let at = entry % GUID_BLOCK * 8;
            let mut gid = [0; 16];
            gid[..8].copy_from_slice(&info.gid_prefix().to_be_bytes());
            gid[8..].copy_from_slice(&block.map_or([0; 8], |b| std::array::from_fn(|i| b[at + i])));
            colon_separated(&gid)
        }
    }
}

/// Formats bytes as groups of four hexadecimal digits, separated by colons.
fn colon_separated(bytes: &[u8]) -> String {
    let pairs = bytes.chunks_exact(2).map(|pair| format!("{:02x}{:02x}", pair[0], pair[1]));
    pairs.collect::<Vec<_>>().join(":")
}

fn state(state: PortState) -> String {
    let name = match state {
        PortState::NoChange => "NOP",
        PortState::Unknown(_) => "<unknown>",
        _ => return format!("{}: {state}", state.to_bits()),
    };
    format!("{}: {name}", state.to_bits())
}

fn phys_state(state: PhysState) -> String {
    let name = match state {
        PhysState::Sleep => "Sleep",
        PhysState::Polling => "Polling",
        PhysState::Disabled => "Disabled",
        PhysState::Training => "PortConfigurationTraining",
        PhysState::LinkUp => "LinkUp",
        PhysState::Recovery => "LinkErrorRecover",
        PhysState::NoChange | PhysState::Unknown(_) => "<unknown>",
    };
    format!("{}: {name}", state.to_bits())
}

/// Signalling rate of the link, such as `40 Gb/sec (4X QDR)`.
fn rate(info: &PortInfo) -> String {
    let lanes = match info.link_width_active() {
        LinkWidth::X2 => 2,
        LinkWidth::X4 => 4,
        LinkWidth::X8 => 8,
        LinkWidth::X12 => 12,
        _ => 1,
    };
    let extended =
        if info.has(CapMask::EXTENDED_SPEEDS) { info.link_speed_ext_active() } else { 0 };
    // Unit: 0.1 Gb/s per lane.
    let (tenths, name) = match (extended, info.link_speed_active()) {
        (8, _) => (1000, " NDR"),
        (4, _) => (500, " HDR"),
        (2, _) => (250, " EDR"),
        (1, _) => (140, " FDR"),
        (_, 4) => (100, " QDR"),
        (_, 2) => (50, " DDR"),
        _ => (25, ""),
    };
    let all = tenths * lanes;
    let tenth = if all % 10 == 0 { String::new() } else { format!(".{}", all % 10) };
    format!("{}{tenth} Gb/sec ({lanes}X{name})", all / 10)
}
