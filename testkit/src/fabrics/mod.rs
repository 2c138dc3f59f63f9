//! Random fabrics of the usual topologies, damaged and uneven. A seed gives the same fabric on
//! every machine.

mod attached;
mod draft;
mod families;

pub use attached::{AGGREGATION_NODE, attach, attach_aggregation_nodes};

use crate::torus::random::Random;
use draft::Draft;
use std::fmt;
use torus_sm::fabric::topology::Topology;

/// A kind of topology.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// Leaves and spines, some links parallel, some missing.
    FatTree2,
    /// Pods of leaves and aggregation switches below core switches.
    FatTree3,
    /// 2D and 3D grids without wrap-around links.
    Mesh,
    /// 2D and 3D grids with wrap-around links in some dimensions.
    Torus,
    Hypercube,
    /// A random tree with random further links.
    Irregular,
    /// Fully connected groups with few links between them.
    Dragonfly,
    /// Grids of 1 to 5 dimensions and up to 100 switches, with wrap-around links in some
    /// dimensions.
    Lattice,
}

impl Family {
    /// The families without [`Self::Lattice`], whose shapes matter to few engines.
    pub const ALL: [Self; 7] = [
        Self::FatTree2,
        Self::FatTree3,
        Self::Mesh,
        Self::Torus,
        Self::Hypercube,
        Self::Irregular,
        Self::Dragonfly,
    ];
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// A fabric and the index of the host at which the SM runs.
#[derive(Clone, Debug)]
pub struct RandomFabric {
    pub topology: Topology,
    pub local: usize,
}

/// The fabric of a family, drawn from `random`. It has at least two hosts with a link.
pub fn random(family: Family, random: &mut Random) -> RandomFabric {
    let mut draft: Draft = families::draft(family, random);
    draft.damage(random);
    draft.build(random)
}
