//! Nodes and ports that programs attach to.

use crate::fabric::node_name::NodeNameError;
use crate::ids::{Guid, PortNum};
use crate::sim::SimFabric;

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
    #[error(transparent)]
    Name(#[from] NodeNameError),
    /// The port is not an end port of the node.
    #[error("\"{node}\" has no end port {port}")]
    NoPort {
        /// Description of the node.
        node: String,
        port: u8,
    },
}

impl SimFabric {
    /// Resolves `NODE` or `NODE/PORT`, with a node by any of its names ([`crate::fabric::node_name`]).
    ///
    /// # Errors
    /// No node, several nodes, or no such end port.
    pub fn attach_point(&self, text: &str) -> Result<AttachPoint, AttachError> {
        let net = self.shared.lock();
        let devices = &net.devices;
        let whole = devices.find_node(text);
        let (node, port) = match text.rsplit_once('/').map(|(name, port)| (name, port.parse())) {
            Some((name, Ok(port))) if whole.is_err() => (devices.find_node(name)?, Some(port)),
            _ => (whole?, None),
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
        let guid = guid.ok_or_else(|| NodeNameError::NoDescription(text.to_owned()))?;
        Ok(AttachPoint { node: guid, port: port.map(PortNum) })
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
        let unknown =
            |name: &str| Err(AttachError::Name(NodeNameError::NoDescription(name.to_owned())));
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
            ("h9", unknown("h9")),
            ("", unknown("")),
            ("0x77", Err(AttachError::Name(NodeNameError::NoGuid(Guid(0x77))))),
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
        let by_position = fabric.attach_point("0,0,0/0").expect("the same switch by its position");
        assert_eq!(by_position, switch);
        let ambiguous = fabric.attach_point("sw").expect_err("several switches").to_string();
        assert_eq!(ambiguous, "\"sw\" matches 6 nodes, such as \"sw 0,0,0\" and \"sw 0,1,0\"");
    }
}
