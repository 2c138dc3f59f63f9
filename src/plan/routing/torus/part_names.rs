//! Names of present and missing parts in messages: coordinates, switches, and the ports at which a
//! missing cable was, or should be according to the rest of the torus.

use super::grid::Grid;
use super::lattice::{Direction, Position};
use super::snapshot::PreviousTorus;
use crate::fabric::{Fabric, SwitchId};
use crate::ids::PortNum;
use crate::wire::attr::PhysState;
use std::sync::OnceLock;

/// Maximum number of free ports listed where the right one is unknown.
const MAX_LISTED_PORTS: usize = 8;

/// Names the parts of a torus.
pub(super) struct PartNames<'a> {
    fabric: &'a Fabric,
    grid: &'a Grid,
    /// The torus of the previous successful pass.
    last: Option<PreviousTorus<'a>>,
    /// The same, if each placed switch has the position it had then. Computed on first use.
    previous: OnceLock<Option<PreviousTorus<'a>>>,
    /// By direction and port number: number of switches with a cable of the torus there.
    usual: OnceLock<[Vec<u32>; 6]>,
}

impl<'a> PartNames<'a> {
    /// Names for `grid`; `previous` is the torus of the previous successful pass.
    pub(super) fn new(
        fabric: &'a Fabric,
        grid: &'a Grid,
        previous: Option<PreviousTorus<'a>>,
    ) -> Self {
        Self { fabric, grid, last: previous, previous: OnceLock::new(), usual: OnceLock::new() }
    }

    pub(super) fn fabric(&self) -> &'a Fabric {
        self.fabric
    }

    /// The torus of the previous successful pass, if each placed switch has the position it had
    /// then.
    pub(super) fn previous(&self) -> Option<PreviousTorus<'a>> {
        *self.previous.get_or_init(|| self.last.filter(|previous| self.is_as_before(previous)))
    }

    fn is_as_before(&self, previous: &PreviousTorus<'_>) -> bool {
        let mut placed = self.grid.placed();
        previous.grid.lattice == self.grid.lattice
            && placed
                .all(|(at, id)| previous.snapshot.guid(at) == Some(self.fabric.switch(id).guid()))
    }

    fn usual(&self, direction: Direction) -> &[u32] {
        &self.usual.get_or_init(|| cable_counts(self.grid))[direction.index()]
    }

    /// The switch at a position, or the one that was there.
    pub(super) fn switch(&self, at: Position) -> String {
        if self.grid.is_present(at) {
            return format!("switch {}", self.grid.describe(self.fabric, at));
        }
        let coordinates = self.grid.lattice.coordinates(at);
        if let Some(guid) = self.previous().and_then(|previous| previous.snapshot.guid(at)) {
            return match self.fabric.node_by_guid(guid) {
                Some(node) => {
                    let description = self.fabric.node(node).name();
                    format!(
                        "switch {coordinates} (GUID {guid} \"{description}\", present but without the \
                         cables that tell its position)"
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

    /// The cables from a switch to its neighbour, with the ports at both ends.
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

    /// The ports of a switch at which the cables of a direction were or should be.
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
        // Most switches use the same port number for this direction.
        if most as usize * 2 > self.grid.order.len() {
            let mut likely = free.iter().filter(|&&port| usual[usize::from(port)] == most);
            let port = likely.next().map_or_else(String::new, |&port| self.port(switch, port));
            return format!("({port}, as on most switches)");
        }
        match free.len() {
            0 => "(no port is free: check for a misplaced cable)".into(),
            1..=MAX_LISTED_PORTS => {
                let names = free.iter().map(|&port| self.port(switch, port));
                format!("(free: {})", list(names))
            }
            many => format!("({many} ports are free)"),
        }
    }

    fn free_ports(&self, switch: SwitchId) -> Vec<u8> {
        (1..=self.fabric.switch(switch).num_ports())
            .filter(|&num| {
                let port = self.fabric.switch_port(switch, PortNum(num));
                port.is_some_and(|port| self.fabric.port(port).peer.is_none())
            })
            .collect()
    }

    /// The port number, with the physical state if it explains the missing link.
    fn port(&self, switch: SwitchId, num: u8) -> String {
        let port = self.fabric.switch_port(switch, PortNum(num));
        let info = port.and_then(|port| self.fabric.port(port).info());
        match info.map(|info| info.phys_state()) {
            Some(PhysState::Disabled) => format!("port {num}, which is disabled"),
            _ => format!("port {num}"),
        }
    }
}

fn cable_counts(grid: &Grid) -> [Vec<u32>; 6] {
    let mut usual: [Vec<u32>; 6] = std::array::from_fn(|_| vec![0; 256]);
    for (at, _) in grid.placed() {
        for direction in Direction::ALL {
            for &port in grid.port_group(at, direction) {
                usual[direction.index()][usize::from(port)] += 1;
            }
        }
    }
    usual
}

fn list(names: impl Iterator<Item = String>) -> String {
    names.collect::<Vec<_>>().join(", ")
}
