//! Fabric files: the text that `ibnetdiscover` prints and `ibsim` reads, to and from
//! [`Topology`].
//!
//! A file is a sequence of records. Lines like `switchguid=0x200000(200000)` apply to the next
//! node. A header `Switch 36 "S-…" # "description" base port 0 lid 4 lmc 0` opens the record of a
//! node, lines `[1](port guid) "H-…"[1](port guid) # comment` are its cables, and an empty line
//! ends it. Each cable is in the records of both its ends, which must agree.
//!
//! Of ibsim's extensions, free node names and `module` prefixes are supported; defaults for width
//! and speed are parsed and ignored; `include`, `do` and aliases are errors, because ignoring them
//! would give a different fabric from ibsim's. Node GUIDs come from the line before the record,
//! else from a name of the form `S-0123456789abcdef`, else from ibsim's counters, so that a node
//! has the same GUID in both programs.
//!
//! Width and speed at the end of a cable's comment, such as `4xEDR`, and `enhanced port 0` in that of
//! a switch, are kept; an unknown rate becomes 4xQDR. Messages of the tools, which `2>&1` puts
//! into the file, are skipped.
//!
//! The submodule `scan` parses a line, `other_formats` recognises files that hold no cables in this
//! form, `write` writes files.

mod other_formats;
mod scan;
mod write;

pub use write::write;

use super::link_rate::LinkRate;
use super::topology::{DeviceModel, Topology, TopologyNode};
use crate::ids::{Guid, PortNum};
use crate::wire::attr::NodeKind;
use scan::Scan;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};

/// Maximum number of ports of a node; 255 is no port number (IBA vol. 1, 14.2.5.3).
const MAX_PORTS: u8 = 254;

/// An error in a fabric file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct NetError {
    pub file: PathBuf,
    /// Counted from 1.
    pub line: u32,
    /// In bytes, counted from 1.
    pub column: u32,
    pub message: String,
}

impl fmt::Display for NetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file.display(), self.line, self.column, self.message)
    }
}

/// A [`NetError`] without the name of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
struct LineError {
    line: u32,
    column: u32,
    message: String,
}

/// Why a file that is no text holds no fabric, if it is known: it is the cache of ibnetdiscover.
pub fn why_no_text(bytes: &[u8]) -> Option<String> {
    let is_cache = other_formats::is_cache(bytes);
    is_cache.then(|| other_formats::error(other_formats::CACHE, 1).message)
}

/// Parses the fabric file `text`; errors name it `file`.
///
/// # Errors
/// [`NetError`] at the first line that is malformed, repeats a node, or has a cable whose ends do
/// not agree.
///
/// ```
/// let text = "Switch 2 \"a\"\n[1] \"b\"[1]\n\nHca 1 \"b\"\n[1] \"a\"[1]\n";
/// let topology = torus_sm::fabric::ibnet::parse("example.net".as_ref(), text).unwrap();
/// assert_eq!((topology.nodes.len(), topology.cables.len()), (2, 1));
/// ```
pub fn parse(file: &Path, text: &str) -> Result<Topology, NetError> {
    let mut reader = NetReader::default();
    let parsed = text
        .lines()
        .zip(1..)
        .try_for_each(|(line, number)| {
            let outcome = reader.line(line, number);
            outcome.map_err(|error| match other_formats::name(line) {
                Some(format) => other_formats::error(format, number),
                None => error,
            })
        })
        .and_then(|()| reader.finish());
    parsed.map_err(|LineError { line, column, message }| NetError {
        file: file.to_owned(),
        line,
        column,
        message,
    })
}

/// One end of a cable, from the record of its node.
struct CableLine {
    node: usize,
    port: PortNum,
    peer: String,
    peer_port: PortNum,
    /// Width and speed; `None` if the line has none that is known.
    rate: Option<LinkRate>,
    line: u32,
    column: u32,
}

/// ibsim's GUID counters: the GUID of the next node for which the file has none.
struct Counters {
    switch: u64,
    adapter: u64,
    router: u64,
}

impl Default for Counters {
    fn default() -> Self {
        Self { switch: 0x20_0000, adapter: 0x10_0000, router: 0x30_0000 }
    }
}

impl Counters {
    fn of(&mut self, kind: NodeKind) -> &mut u64 {
        match kind {
            NodeKind::Switch => &mut self.switch,
            NodeKind::Router => &mut self.router,
            NodeKind::Ca | NodeKind::Unknown(_) => &mut self.adapter,
        }
    }
}

/// Data of the next node from the lines before its header.
#[derive(Default)]
struct NodePreamble {
    /// Kind, node GUID, GUID of the switch's port 0.
    guid: Option<(NodeKind, u64, Option<u64>)>,
    system_guid: Option<u64>,
    model: DeviceModel,
}

/// The parser of a file.
#[derive(Default)]
struct NetReader {
    nodes: Vec<TopologyNode>,
    cables: Vec<CableLine>,
    by_name: HashMap<String, (usize, u32)>,
    by_guid: HashMap<Guid, u32>,
    counters: Counters,
    bases: HashMap<NodeKind, u64>,
    pending: NodePreamble,
    /// Prefix of node names (ibsim's `module`).
    module: String,
    in_record: bool,
}

impl NetReader {
    fn line(&mut self, text: &str, number: u32) -> Result<(), LineError> {
        let mut scan = Scan::new(text, number);
        if text.starts_with('[') {
            return self.cable(&mut scan);
        }
        if other_formats::is_message(text) {
            return Ok(());
        }
        if text.starts_with('#') {
            return Ok(());
        }
        self.in_record = false;
        scan.blanks();
        if scan.at_end() {
            return Ok(());
        }
        let start = scan.column();
        match scan.word() {
            "Switch" => self.header(&mut scan, NodeKind::Switch),
            "Hca" | "Ca" => self.header(&mut scan, NodeKind::Ca),
            "Rt" => self.header(&mut scan, NodeKind::Router),
            "switchguid" | "switchguids" => self.guid_line(&mut scan, NodeKind::Switch),
            "caguid" | "hcaguids" => self.guid_line(&mut scan, NodeKind::Ca),
            "rtguid" => self.guid_line(&mut scan, NodeKind::Router),
            name @ ("sysimgguid" | "vendid" | "devid" | "width" | "speed" | "extspeed"
            | "pdebug") => self.assignment(&mut scan, name),
            "module" => {
                scan.expect('=')?;
                scan.blanks();
                self.module = format!("{}#", scan.quoted()?);
                Ok(())
            }
            // Headings in the output of `ibnetdiscover -g`.
            "Chassis" | "Non" => Ok(()),
            "include" | "do" => Err(scan.fault_at(
                start,
                "ibsim's \"include\" and \"do\" are not supported: give the whole fabric in one file",
            )),
            "" if text.starts_with('@') => {
                Err(scan.fault_at(start, "aliases are not supported: name the node itself"))
            }
            other => Err(scan.fault_at(
                start,
                format!("\"{other}\" does not begin a line of a fabric file (Switch, Ca, Rt, [port], …guid=)"),
            )),
        }
    }

    /// The value of a line `name=number` before the header of a node.
    fn assignment(&mut self, scan: &mut Scan<'_>, name: &str) -> Result<(), LineError> {
        scan.expect('=')?;
        let value = scan.number()?;
        match name {
            "sysimgguid" => self.pending.system_guid = Some(value),
            // VendorID has 24 bits and DeviceID 16.
            "vendid" => self.pending.model.vendor_id = (value & 0xFF_FFFF) as u32,
            "devid" => self.pending.model.device_id = (value & 0xFFFF) as u16,
            // The others describe links, which the lines of their ports do, too.
            _ => {}
        }
        Ok(())
    }

    fn guid_line(&mut self, scan: &mut Scan<'_>, kind: NodeKind) -> Result<(), LineError> {
        scan.blanks();
        let relative = scan.take('+');
        if !relative {
            scan.expect('=')?;
        }
        let start = scan.column();
        let number = scan.number()?;
        let guid = if relative {
            self.bases.get(&kind).copied().unwrap_or(*self.counters.of(kind)).wrapping_add(number)
        } else {
            self.bases.insert(kind, number);
            number
        };
        if guid == 0 {
            return Err(scan.fault_at(start, "a GUID must not be 0"));
        }
        let port_guid = if scan.take('(') {
            let guid = scan.hex()?;
            scan.expect(')')?;
            Some(guid)
        } else {
            None
        };
        self.pending.guid = Some((kind, guid, port_guid));
        Ok(())
    }

    fn header(&mut self, scan: &mut Scan<'_>, kind: NodeKind) -> Result<(), LineError> {
        scan.blanks();
        let start = scan.column();
        let ports = scan.number()?;
        let Some(num_ports) = u8::try_from(ports).ok().filter(|n| (1..=MAX_PORTS).contains(n))
        else {
            return Err(scan.fault_at(start, format!("a node has 1 to {MAX_PORTS} ports")));
        };
        scan.blanks();
        let start = scan.column();
        let name = self.full_name(scan.quoted()?);
        if let Some((_, line)) = self.by_name.get(&name) {
            let message = format!("node \"{name}\" is already in line {line}");
            return Err(scan.fault_at(start, message));
        }
        let (guid, port_guid) = self.guid_for(kind, &name, num_ports);
        if let Some(line) = self.by_guid.insert(guid, scan.line()) {
            let message = format!("node GUID {guid} is already that of the node in line {line}");
            return Err(scan.fault_at(start, message));
        }
        self.by_name.insert(name.clone(), (self.nodes.len(), scan.line()));
        let system_guid = self.pending.system_guid.take().map_or(guid, Guid);
        let model = std::mem::take(&mut self.pending.model);
        let mut node =
            TopologyNode { model, system_guid, ..TopologyNode::new(kind, guid, num_ports) };
        if kind == NodeKind::Switch
            && let Some(port_guid) = port_guid
            && port_guid != guid
        {
            node.port_guids.push((PortNum::ZERO, port_guid));
        }
        node.description = scan.description()?.unwrap_or(name);
        node.model.enhanced_port0 = kind == NodeKind::Switch && scan.has_enhanced_port0();
        if kind == NodeKind::Switch
            && let Some((lid, lmc)) = scan.lid_lmc()?
        {
            node.lids.push((PortNum::ZERO, lid, lmc));
        }
        self.nodes.push(node);
        self.in_record = true;
        Ok(())
    }

    fn full_name(&self, name: &str) -> String {
        if name.contains('#') { name.to_owned() } else { format!("{}{name}", self.module) }
    }

    /// Node GUID, and the GUID of port 0 if a line gives it.
    fn guid_for(&mut self, kind: NodeKind, name: &str, num_ports: u8) -> (Guid, Option<Guid>) {
        let given = self.pending.guid.take().filter(|&(of, ..)| of == kind);
        let port_guid = given.and_then(|(_, _, port)| port.map(Guid));
        let counter = self.counters.of(kind);
        let guid = match (given, guid_in_name(name)) {
            (Some((_, guid, _)), _) | (None, Some(guid)) => guid,
            (None, None) => *counter,
        };
        if given.is_some() || guid == *counter {
            let step = if kind == NodeKind::Switch { 1 } else { u64::from(num_ports) + 1 };
            *counter = guid.wrapping_add(step);
        }
        (Guid(guid), port_guid)
    }

    fn cable(&mut self, scan: &mut Scan<'_>) -> Result<(), LineError> {
        let index = self.nodes.len().wrapping_sub(1);
        let node = match self.nodes.last_mut() {
            Some(node) if self.in_record => node,
            _ => return Err(scan.fault_at(1, "a cable outside the record of a node")),
        };
        let (port, column) = scan.port_number()?;
        scan.external_port();
        if port.0 == 0 || port.0 > node.num_ports {
            let message = format!("port {port}: the node has ports 1 to {}", node.num_ports);
            return Err(scan.fault_at(column, message));
        }
        if scan.take('(') {
            let guid = Guid(scan.hex()?);
            scan.expect(')')?;
            if node.kind != NodeKind::Switch && guid.0 != 0 && node.port_guid(port) != guid {
                node.port_guids.push((port, guid));
            }
        }
        scan.blanks();
        let column = scan.column();
        let peer = scan.quoted()?.to_owned();
        // A cable without a port number leads to port 1, as in ibsim.
        let peer_port = if scan.looking_at('[') { scan.port_number()?.0 } else { PortNum(1) };
        scan.external_port();
        scan.port_tail()?;
        let rate = scan.rate();
        if node.kind != NodeKind::Switch
            && let Some((lid, lmc)) = scan.lid_lmc()?
        {
            node.lids.push((port, lid, lmc));
        }
        let peer = self.full_name(&peer);
        let line = scan.line();
        self.cables.push(CableLine { node: index, port, peer, peer_port, rate, line, column });
        Ok(())
    }

    /// Joins the two ends of each cable.
    fn finish(&mut self) -> Result<Topology, LineError> {
        let mut seen: HashMap<(usize, PortNum), usize> = HashMap::with_capacity(self.cables.len());
        for (index, cable) in self.cables.iter().enumerate() {
            if let Some(first) = seen.insert((cable.node, cable.port), index) {
                let line = self.cables[first].line;
                return Err(
                    cable.fault(format!("port {} is already cabled in line {line}", cable.port))
                );
            }
        }
        let mut cables = Vec::with_capacity(self.cables.len() / 2);
        let mut rates = BTreeMap::new();
        for cable in &self.cables {
            let peer = self.peer_of(cable)?;
            self.check_other_side(cable, peer, seen.get(&peer).map(|&index| &self.cables[index]))?;
            let here = (cable.node, cable.port);
            if here <= peer {
                cables.push([here, peer]);
            }
            if let Some(rate) = cable.rate.filter(|&rate| rate != LinkRate::default()) {
                rates.insert(here, rate);
            }
        }
        let mut topology = Topology { nodes: std::mem::take(&mut self.nodes), cables, rates };
        topology.normalize();
        Ok(topology)
    }

    fn peer_of(&self, cable: &CableLine) -> Result<(usize, PortNum), LineError> {
        let Some(&(peer, _)) = self.by_name.get(&cable.peer) else {
            return Err(cable.fault(format!("no node \"{}\" in this file", cable.peer)));
        };
        let ports = self.nodes[peer].num_ports;
        if cable.peer_port.0 == 0 || cable.peer_port.0 > ports {
            return Err(cable.fault(format!(
                "\"{}\" has ports 1 to {ports}, not {}",
                cable.peer, cable.peer_port
            )));
        }
        Ok((peer, cable.peer_port))
    }

    /// Checks that the record of the peer names this port.
    fn check_other_side(
        &self,
        cable: &CableLine,
        peer: (usize, PortNum),
        other: Option<&CableLine>,
    ) -> Result<(), LineError> {
        let Some(other) = other else {
            return Err(cable.fault(format!(
                "the record of \"{}\" does not mention this cable at its port {}",
                cable.peer, peer.1
            )));
        };
        let back = self.by_name.get(&other.peer).map(|&(node, _)| (node, other.peer_port));
        if back == Some((cable.node, cable.port)) {
            return Ok(());
        }
        Err(cable.fault(format!(
            "line {} says that port {} of \"{}\" is cabled to port {} of \"{}\"",
            other.line, peer.1, cable.peer, other.peer_port, other.peer
        )))
    }
}

impl CableLine {
    fn fault(&self, message: String) -> LineError {
        LineError { line: self.line, column: self.column, message }
    }
}

/// The GUID in a node name such as `S-0002c90300000001`.
fn guid_in_name(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("S-").or(name.strip_prefix("H-")).or(name.strip_prefix("R-"))?;
    if digits.len() != 16 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(digits, 16).ok().filter(|&guid| guid != 0)
}

#[cfg(test)]
mod tests;
