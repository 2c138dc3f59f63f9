//! A fabric to be generated, of any kind.

use super::family::Family;
use super::wiring::CablesAndHosts;
use super::{Shape, ShapeError};
use crate::fabric::topology::Topology;
use crate::ids::Lid;
use std::fmt;
use std::str::FromStr;

/// A fabric to be generated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FabricShape {
    /// A torus or mesh.
    Grid(Shape),
    /// A fabric of another kind.
    Other {
        family: Family,
        /// Hosts (channel adapters with one port) at each switch; in fat trees at each leaf.
        hosts: u8,
        /// Parallel cables between neighbours.
        parallel: u8,
    },
}

impl FromStr for FabricShape {
    type Err = ShapeError;

    /// Parses the form of [`Shape`] or, with a colon, that of [`Family`]: one host per switch,
    /// single cables.
    fn from_str(text: &str) -> Result<Self, ShapeError> {
        let is_family = text.contains(':') || text.starts_with(|c: char| c.is_ascii_alphabetic());
        if is_family {
            return Ok(Self::Other { family: text.parse()?, hosts: 1, parallel: 1 });
        }
        text.parse().map(Self::Grid)
    }
}

impl fmt::Display for FabricShape {
    /// `6x5x1 torus`, `3x3mx1 mesh`, `fattree:18x9`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grid(shape) => {
                let mut dimensions = shape.radix.iter().zip(shape.looped);
                let has_ring = dimensions.any(|(&radix, looped)| radix > 2 && looped);
                write!(f, "{shape} {}", if has_ring { "torus" } else { "mesh" })
            }
            Self::Other { family, .. } => family.fmt(f),
        }
    }
}

fn within_lids(end_ports: u64) -> Result<(), ShapeError> {
    if end_ports > u64::from(Lid::UNICAST_MAX.0) {
        return Err(ShapeError::Lids(end_ports));
    }
    Ok(())
}

impl FabricShape {
    /// Builds the fabric. The first node is a host, if there are hosts.
    ///
    /// # Errors
    /// A switch would need more ports than a switch can have, or the fabric has more end ports than
    /// there are LIDs.
    pub fn build(&self) -> Result<Topology, ShapeError> {
        let topology = match self {
            Self::Grid(shape) => {
                within_lids(shape.end_ports())?;
                shape.build()?
            }
            &Self::Other { family, hosts, parallel } => {
                family.wiring().build(CablesAndHosts { hosts, parallel })?
            }
        };
        // Each node of a generated fabric has one end port.
        within_lids(topology.nodes.len() as u64)?;
        Ok(topology)
    }

    /// Text of torus-2QoS.conf for a torus or mesh.
    pub fn torus_conf(&self) -> Option<String> {
        match self {
            Self::Grid(shape) => Some(shape.torus_conf()),
            Self::Other { .. } => None,
        }
    }

    /// The routing engine that is used unless another one is requested.
    pub fn default_engine(&self) -> &'static str {
        match self {
            Self::Grid(_) => "torus-2QoS",
            Self::Other { family, .. } => family.default_engine(),
        }
    }
}
