//! Where programs are attached: names of nodes and ports.

use crate::ids::{Guid, PortNum};
use crate::sim::SimFabric;
use crate::sim::devices::Devices;

/// A node at which programs are attached.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// The node, by its GUID as built.
    pub node: Guid,
    /// The only port to be seen there; all of them if `None`.
    pub port: Option<PortNum>,
}

/// A name that fits no place.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PlaceError {
    /// Nothing has this name.
    #[error("no node is called \"{0}\"")]
    Unknown(String),
    /// Several nodes have it.
    #[error("\"{name}\" may be \"{first}\" or \"{second}\"")]
    Ambiguous {
        /// As given.
        name: String,
        /// One of them.
        first: String,
        /// Another one.
        second: String,
    },
    /// The node has no such port where a program could be.
    #[error("\"{node}\" has no end port {port}")]
    NoPort {
        /// The node's description.
        node: String,
        /// As given.
        port: u8,
    },
}

impl SimFabric {
    /// The place that `text` names: a node, or a node and a port with `/` between. A node is named
    /// by its GUID or that of a port of it (`0x…`, also in the form `H-…` or `S-…` of fabric
    /// files), by its description, or by the beginning of one if no other begins so.
    ///
    /// # Errors
    /// [`PlaceError`].
    pub fn place(&self, text: &str) -> Result<Place, PlaceError> {
        let net = self.shared.lock();
        let devices = &net.devices;
        let (name, port) = match text.rsplit_once('/').map(|(name, port)| (name, port.parse())) {
            Some((name, Ok(port))) if find_exact(devices, text).is_none() => (name, Some(port)),
            _ => (text, None),
        };
        let node = match find_exact(devices, name) {
            Some(node) => node,
            None => find_beginning(devices, name)?,
        };
        let described = || devices.node(node).description.to_string();
        if let Some(port) = port {
            let slot = devices.slot(node, PortNum(port));
            let is_switch = devices.is_switch(node);
            let is_end =
                slot.is_some_and(|slot| devices.is_end_port(slot) && (port == 0) == is_switch);
            if !is_end {
                return Err(PlaceError::NoPort { node: described(), port });
            }
        }
        let found = devices.by_guid.iter().find(|&(_, &index)| index == node);
        let guid = found.map(|(&guid, _)| guid);
        let guid = guid.ok_or_else(|| PlaceError::Unknown(text.to_owned()))?;
        Ok(Place { node: guid, port: port.map(PortNum) })
    }
}

fn find_exact(devices: &Devices, name: &str) -> Option<u32> {
    if let Some(guid) = guid(name) {
        let of_port = || devices.ports.iter().find(|port| port.guid == guid).map(|port| port.node);
        return devices.by_guid.get(&guid).copied().or_else(of_port);
    }
    let is_it = |index: &usize| devices.nodes[*index].description.bytes() == name.as_bytes();
    let found = (0..devices.nodes.len()).find(is_it);
    found.and_then(|index| u32::try_from(index).ok())
}

fn guid(name: &str) -> Option<Guid> {
    let rest = ["0x", "0X", "H-", "S-", "R-"].iter().find_map(|head| name.strip_prefix(head))?;
    let digits = rest.strip_prefix("0x").unwrap_or(rest);
    u64::from_str_radix(digits, 16).ok().map(Guid)
}

fn find_beginning(devices: &Devices, name: &str) -> Result<u32, PlaceError> {
    let nodes = devices.nodes.iter().zip(0..);
    let mut fitting =
        nodes.filter(|(node, _)| node.description.bytes().starts_with(name.as_bytes()));
    let first = fitting.next().filter(|_| !name.is_empty());
    let Some((first, index)) = first else { return Err(PlaceError::Unknown(name.to_owned())) };
    match fitting.next() {
        None => Ok(index),
        Some((second, _)) => Err(PlaceError::Ambiguous {
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
    fn nodes_have_many_names() {
        let topology = Shape::torus([3, 2, 1]).build().expect("a small fabric");
        let fabric = SimFabric::new(&topology, Hardware::default(), 1);
        let host = topology.nodes.iter().find(|node| node.description.starts_with("h1-0-0"));
        let host = host.expect("a host");
        let here = |port| Ok(Place { node: host.guid, port });
        let port_guid = host.port_guid(PortNum(1));
        let hexadecimal = format!("{}", host.guid);
        for (text, wanted) in [
            (host.description.as_str(), here(None)),
            ("h1-0-0", here(None)),
            ("h1-0-0/1", here(Some(PortNum(1)))),
            (hexadecimal.as_str(), here(None)),
            (&format!("{port_guid}/1"), here(Some(PortNum(1)))),
            (&format!("H-{}", hexadecimal.trim_start_matches("0x")), here(None)),
            ("h9", Err(PlaceError::Unknown("h9".into()))),
            ("", Err(PlaceError::Unknown(String::new()))),
            ("0x77", Err(PlaceError::Unknown("0x77".into()))),
        ] {
            assert_eq!(fabric.place(text), wanted, "{text}");
        }
        let switch = fabric.place("sw 0,0,0/0").expect("port 0 of a switch");
        assert_eq!(switch.port, Some(PortNum::ZERO));
        assert!(matches!(fabric.place("sw 0,0,0/1"), Err(PlaceError::NoPort { port: 1, .. })));
        assert!(matches!(fabric.place("h1-0-0/2"), Err(PlaceError::NoPort { port: 2, .. })));
        assert!(matches!(fabric.place("sw"), Err(PlaceError::Ambiguous { .. })));
    }
}
