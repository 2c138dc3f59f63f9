//! PartNames what is missing so that a person finds it: places, switches and the ports at which
//! cables were, or by the rest of the torus should be.

use super::grid::Grid;
use super::lattice::{Direction, Position};
use super::snapshot::PreviousTorus;
use crate::fabric::{Fabric, SwitchId};
use crate::ids::PortNum;
use crate::wire::attr::PhysState;
use std::sync::OnceLock;

/// Free ports of a switch that are listed where nothing better is known.
const LISTED_PORTS: usize = 8;

/// Knows how missing parts are called.
pub(super) struct PartNames<'a> {
    fabric: &'a Fabric,
    grid: &'a Grid,
    /// The torus of the last success.
    last: Option<PreviousTorus<'a>>,
    /// The same, if all that is placed has the same place as then.
    previous: OnceLock<Option<PreviousTorus<'a>>>,
    /// By direction and port number: how many switches have a cable of the torus there.
    usual: OnceLock<[Vec<u32>; 6]>,
}

impl<'a> PartNames<'a> {
    /// PartNames for the torus `grid`; `previous` is that of the last success.
    pub(super) fn new(
        fabric: &'a Fabric,
        grid: &'a Grid,
        previous: Option<PreviousTorus<'a>>,
    ) -> Self {
        Self { fabric, grid, last: previous, previous: OnceLock::new(), usual: OnceLock::new() }
    }

    /// The fabric in which things are named.
    pub(super) fn fabric(&self) -> &'a Fabric {
        self.fabric
    }

    /// The torus of the last success, if all that is placed has the same place as then.
    pub(super) fn previous(&self) -> Option<PreviousTorus<'a>> {
        let guid = |id| self.fabric.switch(id).guid();
        let is_as_before = |previous: &PreviousTorus<'_>| {
            let mut placed = self.grid.placed();
            previous.grid.lattice == self.grid.lattice
                && placed.all(|(at, id)| previous.snapshot.guid(at) == Some(guid(id)))
        };
        *self.previous.get_or_init(|| self.last.filter(is_as_before))
    }

    fn usual(&self, direction: Direction) -> &[u32] {
        let count = || {
            let mut usual: [Vec<u32>; 6] = std::array::from_fn(|_| vec![0; 256]);
            for (at, _) in self.grid.placed() {
                for direction in Direction::ALL {
                    for &port in self.grid.port_group(at, direction) {
                        usual[direction.index()][usize::from(port)] += 1;
                    }
                }
            }
            usual
        };
        &self.usual.get_or_init(count)[direction.index()]
    }

    /// The switch at a position, or the one that was there, with coordinates.
    pub(super) fn switch(&self, at: Position) -> String {
        if self.grid.is_present(at) {
            return format!("switch {}", self.grid.describe(self.fabric, at));
        }
        let coordinates = self.grid.lattice.coordinates(at);
        if let Some(guid) = self.previous().and_then(|previous| previous.snapshot.guid(at)) {
            return match self.fabric.node_by_guid(guid) {
                Some(node) => {
                    let description = self.fabric.node(node).description;
                    format!(
                        "switch {coordinates} (GUID {guid} \"{description}\", in the fabric but not \
                         to be placed)"
                    )
                }
                None => format!("switch {coordinates} (missing, was GUID {guid})"),
            };
        }
        let neighbour = Direction::ALL.into_iter().find_map(|direction| {
            let next = self.grid.lattice.step(at, direction);
            let leads_there = !self.grid.lattice.is_edge(at, direction);
            (leads_there && self.grid.is_present(next)).then_some((next, direction))
        });
        match neighbour {
            Some((next, direction)) => {
                let next = self.grid.describe(self.fabric, next);
                format!("switch {coordinates} (missing, {} from {next})", direction.opposite())
            }
            None => format!("switch {coordinates} (missing)"),
        }
    }

    /// The cable from a switch to the next one in a direction, with both ports.
    pub(super) fn cable(&self, at: Position, direction: Direction) -> String {
        let next = self.grid.lattice.step(at, direction);
        format!(
            "the cable between {} {} and {} {}",
            self.switch(at),
            self.ports(at, direction),
            self.switch(next),
            self.ports(next, direction.opposite())
        )
    }

    /// Where on a switch the cables of a direction were or should be.
    fn ports(&self, at: Position, direction: Direction) -> String {
        let known =
            self.previous().map_or(&[][..], |previous| previous.grid.port_group(at, direction));
        let Some(switch) = self.grid.switch(at) else {
            return format!("({})", list(known.iter().map(|&port| format!("port {port}"))));
        };
        if !known.is_empty() {
            return format!("({})", list(known.iter().map(|&port| self.port(switch, port))));
        }
        let free = self.free_ports(switch);
        let usual = self.usual(direction);
        let most = free.iter().map(|&port| usual[usize::from(port)]).max().unwrap_or(0);
        // More than half of the switches are cabled this way.
        if most as usize * 2 > self.grid.order.len() {
            let mut likely = free.iter().filter(|&&port| usual[usize::from(port)] == most);
            let port = likely.next().map(|&port| self.port(switch, port)).unwrap_or_default();
            return format!("({port}, by the other switches)");
        }
        match free.len() {
            0 => "(no port is free: is a cable in the wrong place?)".into(),
            1..=LISTED_PORTS => {
                let names = free.iter().map(|&port| self.port(switch, port));
                format!("(free: {})", list(names))
            }
            many => format!("({many} ports are free)"),
        }
    }

    fn free_ports(&self, switch: SwitchId) -> Vec<u8> {
        let is_free = |&num: &u8| {
            let port = self.fabric.switch_port(switch, PortNum(num));
            port.is_some_and(|port| self.fabric.port(port).peer.is_none())
        };
        (1..=self.fabric.switch(switch).num_ports()).filter(is_free).collect()
    }

    /// `port 3`, with its physical state if that tells why there is no link.
    fn port(&self, switch: SwitchId, num: u8) -> String {
        let port = self.fabric.switch_port(switch, PortNum(num));
        let info = port.and_then(|port| self.fabric.port(port).info);
        match info.map(|info| info.phys_state()) {
            Some(PhysState::Disabled) => format!("port {num}, which is DISABLED"),
            _ => format!("port {num}"),
        }
    }
}

fn list(names: impl Iterator<Item = String>) -> String {
    names.collect::<Vec<_>>().join(", ")
}
