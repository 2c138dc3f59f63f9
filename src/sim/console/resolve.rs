//! Resolution of names to nodes and port slots.

use super::ConsoleError;
use super::command::TargetName;
use crate::ids::{Guid, PortNum};
use crate::sim::devices::Devices;

/// The object that a name refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Target {
    /// Index of a node.
    Node(u32),
    /// Slot of a port.
    Port(u32),
}

impl Target {
    /// Slots of the port, or of all ports of the node except port 0.
    pub(super) fn slots(self, devices: &Devices) -> Vec<u32> {
        match self {
            Self::Port(slot) => vec![slot],
            Self::Node(node) => ports_of(devices, node).collect(),
        }
    }
}

/// Slots of all ports of a node except port 0.
pub(super) fn ports_of(devices: &Devices, node: u32) -> impl Iterator<Item = u32> + use<> {
    let node = devices.node(node);
    let first = node.first;
    (1..=u32::from(node.info.num_ports())).map(move |num| first + num)
}

/// Resolves the name of a node; a port number in it is ignored.
pub(super) fn node(devices: &Devices, name: &TargetName) -> Result<u32, ConsoleError> {
    let error = |text: String| ConsoleError::new(name.column, text);
    let text = name.text.trim();
    let described = |wanted: &dyn Fn(&str) -> bool| {
        let all = devices.nodes.iter().zip(0u32..);
        let named = all.filter(|(node, _)| wanted(&node.description.to_string()));
        named.map(|(_, index)| index).collect::<Vec<_>>()
    };
    if let [only] = described(&|description| description == text)[..] {
        return Ok(only);
    }
    if let Some(guid) = guid(text) {
        return by_guid(devices, guid).ok_or_else(|| error(format!("no node has the GUID {guid}")));
    }
    if let Some(at) = position(text) {
        let found = described(&|description| description == format!("sw {at}"));
        return match found[..] {
            [only] => Ok(only),
            _ => Err(error(format!("there is no switch at {at}"))),
        };
    }
    match described(&|description| !text.is_empty() && description.starts_with(text))[..] {
        [only] => Ok(only),
        [] => Err(error(format!("no node has the description \"{text}\""))),
        ref many => Err(error(format!("\"{text}\" matches {} nodes", many.len()))),
    }
}

/// Resolves the name of a node, or a position with * in place of coordinates, such as 1,*,*.
pub(super) fn nodes(devices: &Devices, name: &TargetName) -> Result<Vec<u32>, ConsoleError> {
    if !name.text.contains('*') {
        return node(devices, name).map(|node| vec![node]);
    }
    let wanted: Vec<&str> = name.text.split(',').map(str::trim).collect();
    let matches = |description: &str| {
        let place = description.strip_prefix("sw ").map(|at| at.split(',').collect::<Vec<_>>());
        place.is_some_and(|place| {
            let fits = |(want, is): (&&str, &&str)| *want == "*" || want == is;
            place.len() == wanted.len() && wanted.iter().zip(&place).all(fits)
        })
    };
    let all = devices.nodes.iter().zip(0u32..);
    let named = all.filter(|(node, _)| matches(&node.description.to_string()));
    let nodes: Vec<u32> = named.map(|(_, index)| index).collect();
    if nodes.is_empty() {
        return Err(ConsoleError::new(name.column, format!("no switch is at {}", name.text)));
    }
    Ok(nodes)
}

/// Resolves the name of a node or, with a port number, of a port.
pub(super) fn target(devices: &Devices, name: &TargetName) -> Result<Target, ConsoleError> {
    let index = node(devices, name)?;
    let Some(num) = name.port else { return Ok(Target::Node(index)) };
    let slot = devices.slot(index, PortNum(num)).filter(|_| num > 0 || devices.is_switch(index));
    slot.map(Target::Port).ok_or_else(|| {
        let ports = devices.node(index).info.num_ports();
        let plural = if ports == 1 { "" } else { "s" };
        let text = format!("\"{}\" has {ports} port{plural}", devices.node(index).description);
        ConsoleError::new(name.column, text)
    })
}

/// Resolves the name of a port; the number may be omitted if the node has one port.
pub(super) fn port(devices: &Devices, name: &TargetName) -> Result<u32, ConsoleError> {
    match target(devices, name)? {
        Target::Port(slot) => Ok(slot),
        Target::Node(node) if devices.node(node).info.num_ports() == 1 => {
            Ok(devices.node(node).first + 1)
        }
        Target::Node(_) => {
            Err(ConsoleError::new(name.column, "a port number is required, as in NODE[3]"))
        }
    }
}

/// Resolves the name of a port other than port 0.
pub(super) fn cable_port(devices: &Devices, name: &TargetName) -> Result<u32, ConsoleError> {
    let slot = port(devices, name)?;
    if devices.port(slot).num == PortNum::ZERO {
        return Err(ConsoleError::new(name.column, "port 0 of a switch has no cable"));
    }
    Ok(slot)
}

/// Parses `0x…`, or the notation of fabric files: `S-…`, `H-…`, `R-…`, `SW-…`, `CA-…`, `RT-…`.
fn guid(text: &str) -> Option<Guid> {
    let digits = ["0x", "0X", "S-", "H-", "R-", "SW-", "CA-", "RT-"]
        .iter()
        .find_map(|prefix| text.strip_prefix(prefix))?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then(|| u64::from_str_radix(digits, 16).ok())?.map(Guid)
}

/// The node with this node GUID or port GUID.
fn by_guid(devices: &Devices, guid: Guid) -> Option<u32> {
    let of_port = || devices.ports.iter().find(|port| port.guid == guid && port.num.0 > 0);
    devices.by_guid.get(&guid).copied().or_else(|| of_port().map(|port| port.node))
}

/// Normalises a position: `1,0` to `1,0,0`.
fn position(text: &str) -> Option<String> {
    let mut place = [0u16; 3];
    let parts: Vec<&str> = text.split(',').collect();
    if !(2..=3).contains(&parts.len()) {
        return None;
    }
    for (part, at) in parts.iter().zip(&mut place) {
        *at = part.trim().parse().ok()?;
    }
    let [x, y, z] = place;
    Some(format!("{x},{y},{z}"))
}
