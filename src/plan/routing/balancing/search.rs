//! `port_search_ordering_file`: the order in which the ports of a switch are tried.

use crate::config::guid_lists::SearchOrder;
use crate::fabric::{Fabric, SwitchId};
use crate::ids::PortNum;
use crate::notes::Note;
use std::collections::HashMap;

/// The positions of ports in the search orders of their switches.
#[derive(Default)]
pub(super) struct SearchOrders {
    /// Positions by port number, for the switches listed in the file.
    positions: HashMap<SwitchId, Vec<u16>>,
}

impl SearchOrders {
    /// Resolves the orders for the switches of `fabric`. An order that names a nonexistent port is
    /// ignored and noted.
    pub(super) fn new(fabric: &Fabric, orders: &[SearchOrder]) -> (Self, Vec<Note>) {
        let mut result = Self::default();
        let mut notes = Vec::new();
        for order in orders {
            let node = fabric.node_by_guid(order.switch);
            let Some(node) = node.map(|node| fabric.node(node)) else { continue };
            let Some(switch) = node.switch else { continue };
            match order.ports.iter().find(|port| port.0 == 0 || port.0 > node.num_ports()) {
                Some(port) => notes.push(Note::warning(format!(
                    "port_search_ordering_file: switch {} has no port {port}; its line is ignored",
                    order.switch
                ))),
                None => {
                    result.positions.insert(switch, positions(&order.ports, node.num_ports()));
                }
            }
        }
        (result, notes)
    }

    /// The position of a port, from 1; its port number if the file does not list the switch.
    pub(super) fn position(&self, switch: SwitchId, port: u8) -> u16 {
        let positions = self.positions.get(&switch);
        let position = positions.and_then(|positions| positions.get(usize::from(port)));
        position.copied().unwrap_or(port.into())
    }
}

/// Positions by port number: the `listed` ports first, then the others in ascending order.
fn positions(listed: &[PortNum], num_ports: u8) -> Vec<u16> {
    let others = (1..=num_ports).map(PortNum).filter(|port| !listed.contains(port));
    let mut positions = vec![0; usize::from(num_ports) + 1];
    for (position, port) in (1..).zip(listed.iter().copied().chain(others)) {
        positions[port.index()] = position;
    }
    positions
}
