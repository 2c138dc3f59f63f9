//! The dump files, in OpenSM's formats, so that `ibdmchk`, `ibdiagnet` and people's scripts go on
//! reading them. The writers are pure; [`write_all`] puts their texts into files.
//!
//! They tell what is planned and, after the programming, is. Nodes come in the order of their
//! GUIDs. Where OpenSM writes "HOPS UNKNOWN" for routing engines that keep no hop counts, the
//! counts here are those of the planned paths.

use crate::fabric::{Fabric, Node, NodeId, Port, PortId, SwitchId};
use crate::ids::{Lid, PortNum, Sl};
use crate::plan::Plan;
use crate::wire::attr::tables::SlToVl;
use crate::wire::attr::{CapMask, LinkWidth, NodeKind, PortInfo, PortState};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
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

/// Writes all dump files to `dir`, and `extra` ones (name, text) such as an engine's own. Each
/// file is replaced as a whole: readers see the old or the new one.
///
/// # Errors
/// The first file that could not be written; the others are written nevertheless.
pub fn write_all(
    dir: &Path,
    fabric: &Fabric,
    plan: &Plan,
    extra: &[(&str, String)],
) -> Result<(), DumpError> {
    let texts = [
        ("opensm-subnet.lst", subnet(fabric, plan)),
        ("opensm-lfts.dump", lfts(fabric, plan)),
        ("opensm.fdbs", fdbs(fabric, plan)),
        ("opensm.mcfdbs", mcfdbs(fabric, plan)),
        ("opensm-sl2vl.dump", sl2vl(fabric, plan)),
    ];
    let extra = extra.iter().map(|(name, text)| (*name, text.as_str()));
    let all = texts.iter().map(|(name, text)| (*name, text.as_str())).chain(extra);
    let mut result = Ok(());
    for (name, text) in all {
        let written = replace(&dir.join(name), text, false);
        result = result.and(written);
    }
    result
}

/// Replaces a file by way of a temporary one beside it; with `sync` it is on the disk afterwards.
///
/// # Errors
/// Whatever the file system says, with the path.
pub fn replace(path: &Path, text: &str, sync: bool) -> Result<(), DumpError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = write(&temporary, text, sync).and_then(|()| fs::rename(&temporary, path));
    written.map_err(|source| {
        // What is left of a failed attempt is of no use; that it stays is no further error.
        let _ = fs::remove_file(&temporary);
        DumpError { path: path.to_owned(), source }
    })
}

fn write(path: &Path, text: &str, sync: bool) -> io::Result<()> {
    let mut file = fs::File::create(path)?;
    file.write_all(text.as_bytes())?;
    if sync { file.sync_all() } else { Ok(()) }
}

/// Appends formatted text; writing to a `String` cannot fail.
macro_rules! put {
    ($out:expr, $($part:tt)*) => {{
        let _ = write!($out, $($part)*);
    }};
}

/// `opensm-subnet.lst`: one line per cabled port, both ends.
pub fn subnet(fabric: &Fabric, plan: &Plan) -> String {
    let mut out = String::new();
    for (id, port) in fabric.port_ids().zip(fabric.ports()) {
        let Some(peer) = port.peer else { continue };
        subnet_end(&mut out, fabric, plan, id, 6);
        subnet_end(&mut out, fabric, plan, peer, 8);
        let info = port.info.unwrap_or(PortInfo::read(&[]));
        put!(out, "PHY={} LOG={} SPD={}\n", width(&info), state(port.state()), speed(&info));
    }
    out
}

/// One end of a line. The vendor is padded to another width at the far end.
fn subnet_end(out: &mut String, fabric: &Fabric, plan: &Plan, id: PortId, vendor_width: usize) {
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
pub fn lfts(fabric: &Fabric, plan: &Plan) -> String {
    let mut out = String::new();
    let max = plan.lids.max();
    for switch in fabric.switch_ids() {
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
                None => out.push_str("unknown node and type\n"),
            }
        }
        put!(out, "{max} lids dumped\n");
    }
    out
}

/// The port by which a switch sends a LID, if it has that port.
fn exit(plan: &Plan, node: &Node, switch: SwitchId, lid: Lid) -> Option<u8> {
    let table = plan.routing.lfts.get(switch.index())?;
    table.out(lid).filter(|&port| port <= node.num_ports())
}

/// `opensm.fdbs`: the forwarding tables with hop counts, as `ibdmchk` reads them.
pub fn fdbs(fabric: &Fabric, plan: &Plan) -> String {
    let mut out = String::new();
    let least = Distances::new(fabric);
    let planned = planned_hops(fabric, plan);
    let max = plan.lids.max();
    for switch in fabric.switch_ids() {
        let node = fabric.switch(switch);
        put!(out, "dump_ucast_routes: Switch {}\nLID    : Port : Hops : Optimal\n", node.guid());
        let row = least.row(switch);
        for lid in (1..=max.0).map(Lid) {
            put!(out, "0x{:04X} : ", lid.0);
            let to = plan.lids.port(lid);
            let (Some(port), Some(to)) = (exit(plan, node, switch, lid), to) else {
                out.push_str("UNREACHABLE\n");
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
    out
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
pub fn mcfdbs(fabric: &Fabric, plan: &Plan) -> String {
    let mut out = String::new();
    for (switch, table) in fabric.switch_ids().zip(&plan.multicast.by_switch) {
        if table.is_empty() {
            continue;
        }
        put!(out, "\nSwitch {}\nLID    : Out Port(s)\n", fabric.switch(switch).guid());
        for (mlid, mask) in table {
            put!(out, "0x{:04X} :", mlid.0);
            for port in mask.iter() {
                put!(out, " 0x{port:03X} ");
            }
            out.push('\n');
        }
    }
    out
}

/// `opensm-sl2vl.dump`: the SL to VL tables of all end ports and switches; where the plan has
/// none, nothing but the heading.
pub fn sl2vl(fabric: &Fabric, plan: &Plan) -> String {
    const HEAD: &str = "#in out : 0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15";
    const RULE: &str = "#--------------------------------------------------------";
    let mut out = String::new();
    for end in fabric.end_ports() {
        let (port, node) = (fabric.port(end), fabric.node_of(end));
        let lid = plan.lids.base(end).unwrap_or_default();
        put!(out, "{} {}, base LID {lid}, \"{}\"\n", node.kind(), port.guid, node.description);
        put!(out, "{HEAD}\n{RULE}\n");
        for &(input, output, map) in rows(plan, port) {
            if node.is_switch() && is_cabled(fabric, port.node, output) {
                sl2vl_row(&mut out, input, output, map);
            } else if !node.is_switch() && output == port.num.0 {
                // The only mapping of an end port has no port numbers.
                sl2vl_row(&mut out, 0, 0, map);
            }
        }
        put!(out, "{RULE}\n\n");
    }
    out
}

fn rows<'a>(plan: &'a Plan, port: &Port) -> &'a [(u8, u8, SlToVl)] {
    plan.qos.sl_to_vl.get(port.node.index()).map_or(&[], Vec::as_slice)
}

fn is_cabled(fabric: &Fabric, node: NodeId, num: u8) -> bool {
    fabric.port_of(node, PortNum(num)).is_some_and(|port| fabric.port(port).peer.is_some())
}

fn sl2vl_row(out: &mut String, input: u8, output: u8, map: SlToVl) {
    put!(out, "{input:<3} {output:<3} :");
    for vl in map.vls() {
        put!(out, " {vl:<2}");
    }
    out.push('\n');
}

/// The path SLs between all channel adapters as `ibdmchk -c` reads them: lines of source *node*
/// GUID, destination LID, SL. One line per pair: for fabrics of a few hundred hosts.
pub fn path_sls(fabric: &Fabric, plan: &Plan, hint: Sl) -> String {
    let mut out = String::new();
    let is_host = |port: PortId| !fabric.node_of(port).is_switch();
    for source in fabric.end_ports().filter(|&port| is_host(port)) {
        for (lid, to) in plan.lids.iter().filter(|&(_, to)| is_host(to) && to != source) {
            let sl = plan.routing.policy.path_sl(source, to, hint);
            put!(out, "{} {lid} {sl}\n", fabric.node_of(source).guid());
        }
    }
    out
}
