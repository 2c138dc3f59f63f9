//! Nodes and ports that programs attach to.

use crate::fabric::node_name::NodeNameError;
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
    /// The vport of `port` whose virtual function programs run on; `None` for the physical port.
    pub vport: Option<u16>,
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
    #[error("port {port} of \"{node}\" has no vport {index}")]
    NoVport {
        /// Description of the node.
        node: String,
        port: u8,
        index: u16,
    },
}

impl SimFabric {
    /// Resolves `NODE`, `NODE/PORT` or `NODE/PORT/VPORT`, with a node by any of its names
    /// ([`crate::fabric::node_name`]) and a vport by its index.
    ///
    /// # Errors
    /// No node, several nodes, no such end port, or no such vport.
    pub fn attach_point(&self, text: &str) -> Result<AttachPoint, AttachError> {
        let of_port = self.port_to_attach(text);
        let vport = text.rsplit_once('/').map(|(name, index)| (name, index.parse::<u16>()));
        let (Err(_), Some((name, Ok(index)))) = (&of_port, vport) else { return of_port };
        let Ok(AttachPoint { node, port: Some(port), .. }) = self.port_to_attach(name) else {
            return of_port;
        };
        if self.virtual_port(node, port, index).is_none() {
            let net = self.shared.lock();
            let number = net.devices.by_guid.get(&node);
            let described = number.map(|&node| net.devices.node(node).description.to_string());
            let node = described.unwrap_or_default();
            return Err(AttachError::NoVport { node, port: port.0, index });
        }
        Ok(AttachPoint { node, port: Some(port), vport: Some(index) })
    }

    fn port_to_attach(&self, text: &str) -> Result<AttachPoint, AttachError> {
        let net = self.shared.lock();
        let devices = &net.devices;
        let whole = devices.find_node(text);
        let (node, port) = match text.rsplit_once('/').map(|(name, port)| (name, port.parse())) {
            Some((name, Ok(port))) if whole.is_err() => (devices.find_node(name)?, Some(port)),
            _ => (whole?, None),
        };
        if let Some(port) = port {
            let slot = devices.slot(node, PortNum(port));
            let is_switch = devices.is_switch(node);
            let is_end =
                slot.is_some_and(|slot| devices.is_end_port(slot) && (port == 0) == is_switch);
            if !is_end {
                return Err(AttachError::NoPort { node: described(devices, node), port });
            }
        }
        let found = devices.by_guid.iter().find(|&(_, &index)| index == node);
        let guid = found.map(|(&guid, _)| guid);
        let guid = guid.ok_or_else(|| NodeNameError::NoDescription(text.to_owned()))?;
        Ok(AttachPoint { node: guid, port: port.map(PortNum), vport: None })
    }
}

fn described(devices: &Devices, node: u32) -> String {
    devices.node(node).description.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::synthetic::Hardware;
    use crate::sim::VportSpec;
    use crate::sim::generate::Shape;

    #[test]
    fn nodes_are_found_by_guid_and_description() {
        let topology = Shape::torus([3, 2, 1]).build().expect("a small fabric");
        let fabric = SimFabric::new(&topology, Hardware::default(), 1);
        let host = topology.nodes.iter().find(|node| node.description.starts_with("h1-0-0"));
        let host = host.expect("a host");
        let port_guid = host.port_guid(PortNum(1));
        let hexadecimal = format!("{}", host.guid);
        for (text, wanted) in [
            (host.description.as_str(), here(&host.guid, None)),
            ("h1-0-0", here(&host.guid, None)),
            ("h1-0-0/1", here(&host.guid, Some(PortNum(1)))),
            (hexadecimal.as_str(), here(&host.guid, None)),
            (&format!("{port_guid}/1"), here(&host.guid, Some(PortNum(1)))),
            (&format!("H-{}", hexadecimal.trim_start_matches("0x")), here(&host.guid, None)),
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
        let spec = VportSpec {
            guid: Guid(0x99),
            vnode: Guid(0x9A),
            description: "vf".into(),
            lid_required: false,
            lid_by_vport_index: 0,
            is_up: true,
        };
        assert!(fabric.set_virtual_ports(host.guid, PortNum(1), vec![spec.clone(), spec]));
        let vport = fabric.attach_point("h1-0-0/1/1").expect("a vport");
        assert_eq!((vport.port, vport.vport), (Some(PortNum(1)), Some(1)));
        let missing = fabric.attach_point("h1-0-0/1/2").expect_err("two vports").to_string();
        assert!(missing.ends_with("has no vport 2"), "{missing}");
        let by_position = fabric.attach_point("0,0,0/0").expect("the same switch by its position");
        assert_eq!(by_position, switch);
        let ambiguous = fabric.attach_point("sw").expect_err("several switches").to_string();
        assert_eq!(ambiguous, "\"sw\" matches 6 nodes, such as \"sw 0,0,0\" and \"sw 0,1,0\"");
    }

    fn here(guid: &Guid, port: Option<PortNum>) -> Result<AttachPoint, AttachError> {
        Ok(AttachPoint { node: *guid, port, vport: None })
    }

    fn unknown(name: &str) -> Result<AttachPoint, AttachError> {
        Err(AttachError::Name(NodeNameError::NoDescription(name.to_owned())))
    }
}
