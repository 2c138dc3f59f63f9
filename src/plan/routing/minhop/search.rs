//! `port_search_ordering_file`: the order in which the ports of a switch are tried.

use crate::config::guid_lists::SearchOrder;
use crate::fabric::{Fabric, SwitchId};
use crate::ids::PortNum;
use crate::notes::Note;
use std::collections::HashMap;

/// The places of ports in the search orders of their switches.
#[derive(Default)]
pub(super) struct SearchOrders {
    /// Of switches that have an order of their own: the place by port.
    places: HashMap<SwitchId, Vec<u16>>,
}

impl SearchOrders {
    /// The orders of the switches of `fabric`. An order with a port that its switch lacks is
    /// left out and noted.
    pub(super) fn new(fabric: &Fabric, orders: &[SearchOrder]) -> (Self, Vec<Note>) {
        let (mut result, mut notes) = (Self::default(), Vec::new());
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
                    result.places.insert(switch, places(&order.ports, node.num_ports()));
                }
            }
        }
        (result, notes)
    }

    /// The place of a port, from 1; its number if the switch has no order of its own.
    pub(super) fn place(&self, switch: SwitchId, port: u8) -> u16 {
        let places = self.places.get(&switch);
        let place = places.and_then(|places| places.get(usize::from(port)));
        place.copied().unwrap_or(port.into())
    }
}

/// By port: its place if `listed` come first and the others follow in ascending order.
fn places(listed: &[PortNum], num_ports: u8) -> Vec<u16> {
    let others = (1..=num_ports).map(PortNum).filter(|port| !listed.contains(port));
    let mut places = vec![0; usize::from(num_ports) + 1];
    for (place, port) in (1..).zip(listed.iter().copied().chain(others)) {
        places[port.index()] = place;
    }
    places
}
