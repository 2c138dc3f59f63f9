//! Names → nodes and port slots.

use super::ConsoleError;
use super::verb::Name;
use crate::ids::{Guid, PortNum};
use crate::sim::device::Devices;

/// What a name stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Target {
    /// A node as a whole, by its index.
    Node(u32),
    /// A port, by its slot.
    Port(u32),
}

impl Target {
    /// The ports with cables that are meant.
    pub(super) fn slots(self, devices: &Devices) -> Vec<u32> {
        match self {
            Self::Port(slot) => vec![slot],
            Self::Node(node) => ports_of(devices, node).collect(),
        }
    }
}

/// The ports of a node that can have cables.
pub(super) fn ports_of(devices: &Devices, node: u32) -> impl Iterator<Item = u32> + use<> {
    let node = devices.node(node);
    let first = node.first;
    (1..=u32::from(node.info.num_ports())).map(move |num| first + num)
}

/// The node that is meant, whatever port is named with it.
pub(super) fn node(devices: &Devices, name: &Name) -> Result<u32, ConsoleError> {
    let wrong = |text: String| ConsoleError::new(name.column, text);
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
        return by_guid(devices, guid).ok_or_else(|| wrong(format!("no node has the GUID {guid}")));
    }
    if let Some(at) = position(text) {
        let found = described(&|description| description == format!("sw {at}"));
        return match found[..] {
            [only] => Ok(only),
            _ => Err(wrong(format!("there is no switch at {at}"))),
        };
    }
    match described(&|description| !text.is_empty() && description.starts_with(text))[..] {
        [only] => Ok(only),
        [] => Err(wrong(format!("no node is called \"{text}\""))),
        ref many => Err(wrong(format!("\"{text}\" may be any of {} nodes", many.len()))),
    }
}

/// A node, or a port of it if one is named.
pub(super) fn target(devices: &Devices, name: &Name) -> Result<Target, ConsoleError> {
    let index = node(devices, name)?;
    let Some(num) = name.port else { return Ok(Target::Node(index)) };
    let slot = devices.slot(index, PortNum(num)).filter(|_| num > 0 || devices.is_switch(index));
    slot.map(Target::Port).ok_or_else(|| {
        let ports = devices.node(index).info.num_ports();
        let text = format!("\"{}\" has {ports} ports", devices.node(index).description);
        ConsoleError::new(name.column, text)
    })
}

/// A port; that of a node with only one needs no number.
pub(super) fn port(devices: &Devices, name: &Name) -> Result<u32, ConsoleError> {
    match target(devices, name)? {
        Target::Port(slot) => Ok(slot),
        Target::Node(node) if devices.node(node).info.num_ports() == 1 => {
            Ok(devices.node(node).first + 1)
        }
        Target::Node(_) => {
            Err(ConsoleError::new(name.column, "which port? Add its number, as in NODE[3]"))
        }
    }
}

/// A port that a cable can be at.
pub(super) fn cable_port(devices: &Devices, name: &Name) -> Result<u32, ConsoleError> {
    let slot = port(devices, name)?;
    if devices.port(slot).num == PortNum::ZERO {
        return Err(ConsoleError::new(name.column, "port 0 of a switch has no cable"));
    }
    Ok(slot)
}

/// `0x…`, or as fabric files have it: `S-…`, `H-…`, `R-…`, `SW-…`, `CA-…`.
fn guid(text: &str) -> Option<Guid> {
    let digits = ["0x", "0X", "S-", "H-", "R-", "SW-", "CA-", "RT-"]
        .iter()
        .find_map(|prefix| text.strip_prefix(prefix))?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then(|| u64::from_str_radix(digits, 16).ok())?.map(Guid)
}

/// The node with this GUID, or with a port that has it.
fn by_guid(devices: &Devices, guid: Guid) -> Option<u32> {
    let of_port = || devices.ports.iter().find(|port| port.guid == guid && port.num.0 > 0);
    devices.by_guid.get(&guid).copied().or_else(|| of_port().map(|port| port.node))
}

/// `1,0,2` or `1,0`, which is `1,0,0`.
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
