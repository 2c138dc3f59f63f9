//! Resolution of names to nodes and port slots.

use super::ConsoleError;
use super::command::TargetName;
use crate::ids::PortNum;
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
    let found = devices.find_node(name.text.trim());
    found.map_err(|error| ConsoleError::new(name.column, error.to_string()))
}

/// Resolves the name of a node, or a position with * in place of coordinates, such as 1,*,*.
pub(super) fn nodes(devices: &Devices, name: &TargetName) -> Result<Vec<u32>, ConsoleError> {
    if !name.text.contains('*') {
        return node(devices, name).map(|node| vec![node]);
    }
    let wanted: Vec<&str> = name.text.split(',').map(str::trim).collect();
    let all = devices.nodes.iter().zip(0u32..);
    let named = all.filter(|(node, _)| matches(&wanted, &node.description.to_string()));
    let nodes: Vec<u32> = named.map(|(_, index)| index).collect();
    if nodes.is_empty() {
        return Err(ConsoleError::new(name.column, format!("no switch is at {}", name.text)));
    }
    Ok(nodes)
}

fn matches(wanted: &[&str], description: &str) -> bool {
    let place = description.strip_prefix("sw ").map(|at| at.split(',').collect::<Vec<_>>());
    place.is_some_and(|place| {
        place.len() == wanted.len()
            && wanted.iter().zip(&place).all(|(want, is)| *want == "*" || want == is)
    })
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
