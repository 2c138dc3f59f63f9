//! Trial discovery from a seed, for `torus-sm torus-config`.

use super::cabling::Cabling;
use super::grid::Grid;
use super::lattice::{Lattice, Position};
use super::part_names::PartNames;
use super::placement::Placement;
use super::rings;
use crate::config::torus::Seed;
use crate::fabric::{Fabric, SwitchId};

/// The torus discovered from one seed.
pub(crate) struct SeedTrial {
    grid: Grid,
}

impl SeedTrial {
    /// Runs the discovery from `seed`; `None` if it fails. `portgroup_max_ports` limits the size of
    /// each port group, as in torus-2QoS.conf.
    pub(crate) fn place(
        fabric: &Fabric,
        cabling: &Cabling,
        lattice: &Lattice,
        seed: &Seed,
        portgroup_max_ports: u32,
    ) -> Option<Self> {
        let mut placement = Placement::new(lattice, cabling, portgroup_max_ports);
        placement.place_seed(fabric, seed).ok()?;
        placement.discover();
        Some(Self { grid: placement.finish(fabric).ok()?.grid })
    }

    /// Placed switches by ascending position.
    pub(crate) fn switches(&self) -> impl Iterator<Item = (Position, SwitchId)> + '_ {
        self.grid.placed()
    }

    /// Number of cables between neighbours.
    pub(crate) fn cable_count(&self) -> usize {
        self.grid.cable_count()
    }

    /// True if rings and missing switches allow routing.
    pub(crate) fn is_routable(&self, fabric: &Fabric) -> bool {
        rings::faults(&self.grid, &PartNames::new(fabric, &self.grid, None), None).is_empty()
    }
}
