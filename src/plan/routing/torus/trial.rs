//! Trial placements for `torus-sm torus-config`: runs the engine's own discovery from a seed.

use super::gaps::Names;
use super::grid::Grid;
use super::lattice::{Lattice, Position};
use super::placement::Placement;
use super::rings;
use super::wiring::Wiring;
use crate::config::torus::Seed;
use crate::fabric::{Fabric, SwitchId};

/// The torus that the engine places from one seed.
pub(crate) struct SeedTrial {
    grid: Grid,
}

impl SeedTrial {
    /// Places a torus from `seed`; `None` if the engine would refuse the seed or the cabling.
    /// `portgroup_max_ports` limits the size of each port group, as in torus-2QoS.conf.
    pub(crate) fn place(
        fabric: &Fabric,
        wiring: &Wiring,
        lattice: &Lattice,
        seed: &Seed,
        portgroup_max_ports: u32,
    ) -> Option<Self> {
        let mut placement = Placement::new(lattice, wiring, portgroup_max_ports);
        placement.plant(fabric, seed).ok()?;
        placement.sweep();
        let (grid, _) = placement.finish(fabric).ok()?;
        Some(Self { grid })
    }

    /// Placed switches with their positions, in ascending order of position.
    pub(crate) fn switches(&self) -> impl Iterator<Item = (Position, SwitchId)> + '_ {
        self.grid.placed()
    }

    /// Number of cables between placed neighbours.
    pub(crate) fn cable_count(&self) -> usize {
        self.grid.cable_count()
    }

    /// True if no ring and no set of missing switches keeps the engine from routing the torus.
    pub(crate) fn is_routable(&self, fabric: &Fabric) -> bool {
        rings::faults(&self.grid, &Names::new(fabric, &self.grid, None), None).is_empty()
    }
}
