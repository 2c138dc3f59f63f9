//! Nodes and ports that programs attach to.

use crate::ids::{Guid, PortNum};
use crate::sim::SimFabric;
use crate::sim::devices::Devices;

/// A node, or one port of a node, that programs attach to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct AttachPoint {
    /// Node GUID in the topology that the fabric was created from.
    pub node: Guid,
    /// The only port that programs see; `None` for all ports.
    pub port: Option<PortNum>,
}

/// A name that cannot be resolved.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AttachError {
    #[error("no node is named \"{0}\"")]
    Unknown(String),
    #[error("\"{name}\" is ambiguous: \"{first}\" or \"{second}\"")]
    Ambiguous { name: String, first: String, second: String },
    /// The port is not an end port of the node.
    #[error("\"{node}\" has no end port {port}")]
    NoPort {
        /// Description of the node.
        node: String,
        port: u8,
    },
}

impl SimFabric {
    /// Resolves `NODE` or `NODE/PORT`. A node is named by its node GUID or a port GUID (`0x…`, or
    /// `H-…` and `S-…` as in fabric files), by its description, or by a unique beginning of it.
    ///
    /// # Errors
    /// No node, several nodes, or no such end port.
    pub fn attach_point(&self, text: &str) -> Result<AttachPoint, AttachError> {
        let net = self.shared.lock();
        let devices = &net.devices;
        let (name, port) = match text.rsplit_once('/').map(|(name, port)| (name, port.parse())) {
            Some((name, Ok(port))) if find_exact(devices, text).is_none() => (name, Some(port)),
            _ => (text, None),
        };
        let node = match find_exact(devices, name) {
            Some(node) => node,
            None => find_by_prefix(devices, name)?,
        };
        let described = || devices.node(node).description.to_string();
        if let Some(port) = port {
            let slot = devices.slot(node, PortNum(port));
            let is_switch = devices.is_switch(node);
            let is_end =
                slot.is_some_and(|slot| devices.is_end_port(slot) && (port == 0) == is_switch);
            if !is_end {
                return Err(AttachError::NoPort { node: described(), port });
            }
        }
        let found = devices.by_guid.iter().find(|&(_, &index)| index == node);
        let guid = found.map(|(&guid, _)| guid);
        let guid = guid.ok_or_else(|| AttachError::Unknown(text.to_owned()))?;
        Ok(AttachPoint { node: guid, port: port.map(PortNum) })
    }
}

fn find_exact(devices: &Devices, name: &str) -> Option<u32> {
    if let Some(guid) = guid(name) {
        let of_port = || devices.ports.iter().find(|port| port.guid == guid).map(|port| port.node);
        return devices.by_guid.get(&guid).copied().or_else(of_port);
    }
    let matches = |index: &usize| devices.nodes[*index].description.bytes() == name.as_bytes();
    let found = (0..devices.nodes.len()).find(matches);
    found.and_then(|index| u32::try_from(index).ok())
}

fn guid(name: &str) -> Option<Guid> {
    let rest = ["0x", "0X", "H-", "S-", "R-"].iter().find_map(|head| name.strip_prefix(head))?;
    let digits = rest.strip_prefix("0x").unwrap_or(rest);
    u64::from_str_radix(digits, 16).ok().map(Guid)
}

fn find_by_prefix(devices: &Devices, name: &str) -> Result<u32, AttachError> {
    let nodes = devices.nodes.iter().zip(0..);
    let mut matching =
        nodes.filter(|(node, _)| node.description.bytes().starts_with(name.as_bytes()));
    let first = matching.next().filter(|_| !name.is_empty());
    let Some((first, index)) = first else { return Err(AttachError::Unknown(name.to_owned())) };
    match matching.next() {
        None => Ok(index),
        Some((second, _)) => Err(AttachError::Ambiguous {
            name: name.to_owned(),
            first: first.description.to_string(),
            second: second.description.to_string(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::synthetic::Hardware;
    use crate::sim::generate::Shape;

    #[test]
    fn nodes_are_found_by_guid_and_description() {
        let topology = Shape::torus([3, 2, 1]).build().expect("a small fabric");
        let fabric = SimFabric::new(&topology, Hardware::default(), 1);
        let host = topology.nodes.iter().find(|node| node.description.starts_with("h1-0-0"));
        let host = host.expect("a host");
        let here = |port| Ok(AttachPoint { node: host.guid, port });
        let port_guid = host.port_guid(PortNum(1));
        let hexadecimal = format!("{}", host.guid);
        for (text, wanted) in [
            (host.description.as_str(), here(None)),
            ("h1-0-0", here(None)),
            ("h1-0-0/1", here(Some(PortNum(1)))),
            (hexadecimal.as_str(), here(None)),
            (&format!("{port_guid}/1"), here(Some(PortNum(1)))),
            (&format!("H-{}", hexadecimal.trim_start_matches("0x")), here(None)),
            ("h9", Err(AttachError::Unknown("h9".into()))),
            ("", Err(AttachError::Unknown(String::new()))),
            ("0x77", Err(AttachError::Unknown("0x77".into()))),
        ] {
            assert_eq!(fabric.attach_point(text), wanted, "{text}");
        }
        let switch = fabric.attach_point("sw 0,0,0/0").expect("port 0 of a switch");
        assert_eq!(switch.port, Some(PortNum::ZERO));
        assert!(matches!(
            fabric.attach_point("sw 0,0,0/1"),
            Err(AttachError::NoPort { port: 1, .. })
        ));
        assert!(matches!(
            fabric.attach_point("h1-0-0/2"),
            Err(AttachError::NoPort { port: 2, .. })
        ));
        assert!(matches!(fabric.attach_point("sw"), Err(AttachError::Ambiguous { .. })));
    }
}
