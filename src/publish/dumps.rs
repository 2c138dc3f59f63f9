//! The dump files, in OpenSM's formats, so that `ibdmchk`, `ibdiagnet` and people's scripts go on
//! reading them. The writers are pure; [`write_routing`] and [`write_subnet`] put their texts into
//! files.
//!
//! They tell what is planned and, after the programming, is. Nodes come in the order of OpenSM's
//! maps: of their GUIDs read backwards, byte by byte. Where OpenSM writes "HOPS UNKNOWN" for
//! routing engines that keep no hop counts, the counts here are those of the planned paths.

use crate::fabric::{Fabric, Node, NodeId, Port, PortId, SwitchId};
use crate::ids::{Guid, Lid, PortNum, Sl};
use crate::plan::Plan;
use crate::wire::attr::tables::SlToVl;
use crate::wire::attr::{CapMask, LinkWidth, NodeKind, PortInfo, PortState};
use std::collections::VecDeque;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A dump file could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write dump file {path}: {source}", path = path.display())]
pub struct DumpError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

/// What writes a dump file. Large fabrics have dumps of gigabytes, so they are never in memory as
/// a whole.
pub type Dump = fn(&mut dyn fmt::Write, &Fabric, &Plan);

/// Names and writers of the files that tell about routes. OpenSM's are there as they are called
/// there; `opensm.psl` is in the format of `ibdiagnet.psl`.
pub const ROUTING: [(&str, Dump); 5] = [
    ("opensm-lfts.dump", lfts),
    ("opensm.fdbs", fdbs),
    ("opensm.mcfdbs", mcfdbs),
    (SL2VL, sl2vl),
    (PSL, path_sls),
];
const SL2VL: &str = "opensm-sl2vl.dump";
const PSL: &str = "opensm.psl";

/// The longest `opensm.psl` that is written: of 1024 hosts with a LID each, some 25 megabytes. It
/// grows with the square of the hosts.
pub const MAX_PATH_SLS: usize = 1 << 20;

/// A dump as text.
pub fn text(dump: Dump, fabric: &Fabric, plan: &Plan) -> String {
    let mut out = String::new();
    dump(&mut out, fabric, plan);
    out
}

/// Writes the dumps of routes to `dir`; without SL to VL tables in the plan none of them, and
/// path SLs up to [`MAX_PATH_SLS`] only. Each file is replaced as a whole: readers see the old or
/// the new one.
///
/// # Errors
/// The first file that could not be written; the others are written nevertheless.
pub fn write_routing(dir: &Path, fabric: &Fabric, plan: &Plan) -> Result<(), DumpError> {
    let mut result = Ok(());
    for (name, dump) in ROUTING {
        let is_wanted = match name {
            SL2VL => !plan.qos.sl_to_vl.is_empty(),
            PSL => path_sl_count(fabric, plan) <= MAX_PATH_SLS,
            _ => true,
        };
        if is_wanted {
            result = result.and(write(&dir.join(name), fabric, plan, dump));
        }
    }
    result
}

/// Writes the dump file of the topology, `opensm-subnet.lst`, to `dir`.
///
/// # Errors
/// Whatever the file system says, with the path.
pub fn write_subnet(dir: &Path, fabric: &Fabric, plan: &Plan) -> Result<(), DumpError> {
    write(&dir.join("opensm-subnet.lst"), fabric, plan, subnet)
}

fn write(path: &Path, fabric: &Fabric, plan: &Plan, dump: Dump) -> Result<(), DumpError> {
    replace_by(path, false, PUBLIC, |file| {
        let mut sink = Sink { file, result: Ok(()) };
        dump(&mut sink, fabric, plan);
        sink.result
    })
}

/// A file as the writers see it. The first failure is kept, and nothing is written after it.
struct Sink<'a> {
    file: &'a mut dyn io::Write,
    result: io::Result<()>,
}

impl fmt::Write for Sink<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.result.is_ok() {
            self.result = self.file.write_all(text.as_bytes());
        }
        if self.result.is_ok() { Ok(()) } else { Err(fmt::Error) }
    }
}

/// Replaces a file by way of a temporary one beside it; with `sync` it is on the disk afterwards.
///
/// # Errors
/// Whatever the file system says, with the path.
pub fn replace(path: &Path, text: &str, sync: bool) -> Result<(), DumpError> {
    replace_by(path, sync, PUBLIC, |file| file.write_all(text.as_bytes()))
}

/// The same for a file that holds keys: nobody but its owner may read it.
///
/// # Errors
/// As [`replace`].
pub fn replace_private(path: &Path, text: &str, sync: bool) -> Result<(), DumpError> {
    replace_by(path, sync, PRIVATE, |file| file.write_all(text.as_bytes()))
}

/// Permissions of dump files, less the process's umask.
const PUBLIC: u32 = 0o666;
/// Permissions of files with keys.
const PRIVATE: u32 = 0o600;

fn replace_by(
    path: &Path,
    sync: bool,
    mode: u32,
    fill: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> Result<(), DumpError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = create(&temporary, sync, mode, fill).and_then(|()| fs::rename(&temporary, path));
    written.map_err(|source| {
        // What is left of a failed attempt is of no use; that it stays is no further error.
        let _ = fs::remove_file(&temporary);
        DumpError { path: path.to_owned(), source }
    })
}

fn create(
    path: &Path,
    sync: bool,
    mode: u32,
    fill: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> io::Result<()> {
    let file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(path)?;
    let mut file = io::BufWriter::with_capacity(1 << 16, file);
    fill(&mut file)?;
    let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    if sync { file.sync_all() } else { Ok(()) }
}

/// Appends formatted text. A `String` takes it always, and a [`Sink`] remembers its failure.
macro_rules! put {
    ($out:expr, $($part:tt)*) => {{
        let _ = write!($out, $($part)*);
    }};
}

/// The place of a GUID in OpenSM's maps.
fn rank(guid: Guid) -> u64 {
    guid.0.swap_bytes()
}

fn switches(fabric: &Fabric) -> Vec<SwitchId> {
    let mut switches: Vec<SwitchId> = fabric.switch_ids().collect();
    switches.sort_by_key(|&id| rank(fabric.switch(id).guid()));
    switches
}

/// `opensm-subnet.lst`: one line per cabled port, both ends.
pub fn subnet(out: &mut dyn fmt::Write, fabric: &Fabric, plan: &Plan) {
    let mut nodes: Vec<NodeId> = fabric.node_ids().collect();
    nodes.sort_by_key(|&id| rank(fabric.node(id).guid()));
    let ports = nodes.into_iter().flat_map(|node| {
        let node = fabric.node(node);
        (0..=u32::from(node.num_ports())).map(|num| PortId(node.first_port.0 + num))
    });
    for id in ports {
        let port = fabric.port(id);
        let Some(peer) = port.peer else { continue };
        subnet_end(out, fabric, plan, id, 6);
        subnet_end(out, fabric, plan, peer, 8);
        let info = port.info.unwrap_or(PortInfo::read(&[]));
        put!(out, "PHY={} LOG={} SPD={}\n", width(&info), state(port.state()), speed(&info));
    }
}

/// One end of a line. The vendor is padded to another width at the far end.
fn subnet_end(
    out: &mut dyn fmt::Write,
    fabric: &Fabric,
    plan: &Plan,
    id: PortId,
    vendor_width: usize,
) {
    let (port, node) = (fabric.port(id), fabric.node_of(id));
    let kind = match node.kind() {
        NodeKind::Ca => "CA",
        NodeKind::Switch => "SW",
        NodeKind::Router => "Rt",
        NodeKind::Unknown(_) => "**",
    };
    let lid = plan.lids.base_of_owner(fabric, id).unwrap_or_default();
    let sm_lid = plan.lids.base_of_owner(fabric, fabric.local());
    let sm = if sm_lid == Some(lid) { "-SM" } else { "" };
    let info = &node.info;
    put!(
        out,
        "{{ {kind}{sm} Ports:{:02X} SystemGUID:{:016x} NodeGUID:{:016x} PortGUID:{:016x} \
         VenID:{:0vendor_width$X} DevID:{:04X} Rev:{:08X} {{{}}} LID:{:04X} PN:{:02X} }} ",
        info.num_ports(),
        info.system_guid().0,
        info.node_guid().0,
        port.guid.0,
        info.vendor_id(),
        info.device_id(),
        info.revision(),
        node.description,
        lid.0,
        port.num.0,
    );
}

fn width(info: &PortInfo) -> &'static str {
    match info.link_width_active() {
        LinkWidth::X1 => "1x",
        LinkWidth::X2 => "2x",
        LinkWidth::X4 => "4x",
        LinkWidth::X8 => "8x",
        LinkWidth::X12 => "12x",
        _ => "??",
    }
}

fn speed(info: &PortInfo) -> &'static str {
    let extended =
        if info.has(CapMask::EXTENDED_SPEEDS) { info.link_speed_ext_active() } else { 0 };
    match (extended, info.link_speed_active()) {
        (1, _) => "14",
        (2, _) => "25",
        (4, _) => "50",
        (0, 1) => "2.5",
        (0, 2) => "5",
        (0, 4) => "10",
        _ => "??",
    }
}

fn state(state: PortState) -> &'static str {
    match state {
        PortState::Active => "ACT",
        PortState::Armed => "ARM",
        PortState::Init => "INI",
        _ => "DWN",
    }
}

/// `opensm-lfts.dump`: the forwarding tables with what stands behind each LID.
pub fn lfts(out: &mut dyn fmt::Write, fabric: &Fabric, plan: &Plan) {
    let max = plan.lids.max();
    for switch in switches(fabric) {
        let node = fabric.switch(switch);
        let lid = plan.lids.base(node.first_port).unwrap_or_default();
        put!(
            out,
            "Unicast lids [0-{max}] of switch Lid {lid} guid {} ('{}'):\n",
            node.guid(),
            node.description
        );
        for lid in (0..=max.0).map(Lid) {
            let Some(port) = exit(plan, node, switch, lid) else { continue };
            put!(out, "0x{:04x} {port:03} # ", lid.0);
            match plan.lids.port(lid) {
                Some(to) => {
                    let owner = fabric.node_of(to);
                    let guid = fabric.port(to).guid;
                    put!(out, "{} portguid {guid}: '{}'\n", owner.kind(), owner.description);
                }
                None => put!(out, "unknown node and type\n"),
            }
        }
        put!(out, "{max} lids dumped\n");
    }
}

/// The port by which a switch sends a LID, if it has that port.
fn exit(plan: &Plan, node: &Node, switch: SwitchId, lid: Lid) -> Option<u8> {
    let table = plan.routing.lfts.get(switch.index())?;
    table.out(lid).filter(|&port| port <= node.num_ports())
}

/// `opensm.fdbs`: the forwarding tables with hop counts, as `ibdmchk` reads them.
pub fn fdbs(out: &mut dyn fmt::Write, fabric: &Fabric, plan: &Plan) {
    let least = Distances::new(fabric);
    let planned = planned_hops(fabric, plan);
    let max = plan.lids.max();
    for switch in switches(fabric) {
        let node = fabric.switch(switch);
        put!(out, "dump_ucast_routes: Switch {}\nLID    : Port : Hops : Optimal\n", node.guid());
        let row = least.row(switch);
        for lid in (1..=max.0).map(Lid) {
            put!(out, "0x{:04X} : ", lid.0);
            let to = plan.lids.port(lid);
            let (Some(port), Some(to)) = (exit(plan, node, switch, lid), to) else {
                put!(out, "UNREACHABLE\n");
                continue;
            };
            let beyond = u8::from(!fabric.node_of(to).is_switch());
            let best = fabric.switch_behind(to).map_or(u8::MAX, |at| row[at.index()]);
            match planned(switch, lid) {
                Some(hops) if hops == best => {
                    put!(out, "{port:03}  : {:02}   : yes\n", hops + beyond)
                }
                Some(hops) => put!(
                    out,
                    "{port:03}  : {:02}   : No {} hop path possible via port {port}!\n",
                    hops + beyond,
                    best + beyond
                ),
                None => put!(out, "{port:03}  : HOPS UNKNOWN\n"),
            }
        }
    }
}

/// Channels between switches, for shortest distances.
struct Distances {
    neighbours: Vec<Vec<u32>>,
}

impl Distances {
    fn new(fabric: &Fabric) -> Self {
        let neighbours = fabric.switches().iter().map(|&node| {
            let peers = fabric.ports_of(node).iter().filter_map(|port| port.peer);
            let switches = peers.filter_map(|peer| fabric.node_of(peer).switch);
            switches.map(|switch| switch.0).collect()
        });
        Self { neighbours: neighbours.collect() }
    }

    /// Cables from `from` to every switch; 255 where there is no way.
    fn row(&self, from: SwitchId) -> Vec<u8> {
        let mut row = vec![u8::MAX; self.neighbours.len()];
        row[from.index()] = 0;
        let mut queue = VecDeque::from([from.0]);
        while let Some(at) = queue.pop_front() {
            let next = row[at as usize].saturating_add(1);
            for &to in &self.neighbours[at as usize] {
                if row[to as usize] == u8::MAX && next < u8::MAX {
                    row[to as usize] = next;
                    queue.push_back(to);
                }
            }
        }
        row
    }
}

/// How many cables between switches a LID passes from a switch on, by the planned tables; `None`
/// if it does not arrive.
fn planned_hops<'a>(
    fabric: &'a Fabric,
    plan: &'a Plan,
) -> impl Fn(SwitchId, Lid) -> Option<u8> + 'a {
    move |from, lid| {
        let to = plan.lids.port(lid)?;
        let end = fabric.switch_behind(to)?;
        let mut at = from;
        for hops in 0..=64 {
            if at == end {
                return Some(hops);
            }
            let port = plan.routing.lfts.get(at.index())?.out(lid)?;
            let peer = fabric.port(fabric.switch_port(at, PortNum(port))?).peer?;
            at = fabric.node_of(peer).switch?;
        }
        None
    }
}

/// `opensm.mcfdbs`: the multicast forwarding tables; empty if there are no groups.
pub fn mcfdbs(out: &mut dyn fmt::Write, fabric: &Fabric, plan: &Plan) {
    for switch in switches(fabric) {
        let table = plan.multicast.by_switch.get(switch.index());
        let Some(table) = table.filter(|table| !table.is_empty()) else { continue };
        put!(out, "\nSwitch {}\nLID    : Out Port(s)\n", fabric.switch(switch).guid());
        for (mlid, mask) in table {
            put!(out, "0x{:04X} :", mlid.0);
            for port in mask.iter() {
                put!(out, " 0x{port:03X} ");
            }
            put!(out, "\n");
        }
    }
}

/// `opensm-sl2vl.dump`: the SL to VL tables of all end ports and switches; where the plan has
/// none, nothing but the heading.
pub fn sl2vl(out: &mut dyn fmt::Write, fabric: &Fabric, plan: &Plan) {
    const HEAD: &str = "#in out : 0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15";
    const RULE: &str = "#--------------------------------------------------------";
    let mut ends: Vec<PortId> = fabric.end_ports().collect();
    ends.sort_by_key(|&end| rank(fabric.port(end).guid));
    for end in ends {
        let (port, node) = (fabric.port(end), fabric.node_of(end));
        let lid = plan.lids.base(end).unwrap_or_default();
        put!(out, "{} {}, base LID {lid}, \"{}\"\n", node.kind(), port.guid, node.description);
        put!(out, "{HEAD}\n{RULE}\n");
        for &(input, output, map) in rows(plan, port) {
            if node.is_switch() && is_cabled(fabric, port.node, output) {
                sl2vl_row(out, input, output, map);
            } else if !node.is_switch() && output == port.num.0 {
                // The only mapping of an end port has no port numbers.
                sl2vl_row(out, 0, 0, map);
            }
        }
        put!(out, "{RULE}\n\n");
    }
}

fn rows<'a>(plan: &'a Plan, port: &Port) -> &'a [(u8, u8, SlToVl)] {
    plan.qos.sl_to_vl.get(port.node.index()).map_or(&[], Vec::as_slice)
}

fn is_cabled(fabric: &Fabric, node: NodeId, num: u8) -> bool {
    fabric.port_of(node, PortNum(num)).is_some_and(|port| fabric.port(port).peer.is_some())
}

fn sl2vl_row(out: &mut dyn fmt::Write, input: u8, output: u8, map: SlToVl) {
    put!(out, "{input:<3} {output:<3} :");
    for vl in map.vls() {
        put!(out, " {vl:<2}");
    }
    put!(out, "\n");
}

/// `opensm.psl`: the path SLs between all channel adapters as `ibdmchk -c` reads them: lines of
/// source *node* GUID, destination LID, SL.
pub fn path_sls(out: &mut dyn fmt::Write, fabric: &Fabric, plan: &Plan) {
    for source in hosts(fabric, plan) {
        let guid = fabric.node_of(source).guid();
        for (lid, to) in plan.lids.iter() {
            if is_host(fabric, to) && to != source {
                put!(out, "{guid} {lid} {}\n", plan.routing.policy.path_sl(source, to, Sl(0)));
            }
        }
    }
}

/// The number of lines of [`path_sls`].
pub fn path_sl_count(fabric: &Fabric, plan: &Plan) -> usize {
    let lids = plan.lids.iter().filter(|&(_, port)| is_host(fabric, port)).count();
    hosts(fabric, plan).map(|source| lids - (1 << plan.lids.lmc(source))).sum()
}

fn is_host(fabric: &Fabric, port: PortId) -> bool {
    fabric.node_of(port).kind() == NodeKind::Ca
}

fn hosts(fabric: &Fabric, plan: &Plan) -> impl Iterator<Item = PortId> {
    let is_source = |&port: &PortId| is_host(fabric, port) && plan.lids.base(port).is_some();
    fabric.end_ports().filter(is_source)
}
