//! The torus that a fabric is, without being told: from cables to a torus-2QoS.conf.
//!
//! # The idea
//!
//! A torus or mesh is the Cartesian product of rings and lines, and such a product can be taken
//! apart again: the opposite edges of a face are parallel, so edges fall into classes, one for
//! each pair of neighbouring layers; classes that meet in faces belong to different dimensions,
//! classes that only follow each other to the same one; and shrinking each layer to a
//! point leaves the ring or line of that dimension. A healthy fabric is taken apart exactly. In a
//! damaged one each step goes by what most cables say, and what contradicts that is left for
//! the report.
//!
//! | step | room |
//! |---|---|
//! | the switches as a simple graph | [`graph`] |
//! | faces, classes of parallel edges | [`edge_classes`] |
//! | classes → dimensions | [`factors`] |
//! | the layers of a dimension, in order | [`layers`] |
//! | rings of four, names of axes, other readings | [`candidates`] |
//! | the same, grown from single corners, for damaged fabrics | [`region_growing`] |
//! | the same, by trying all grids, for those damaged where they are thin | [`exhaustive`] |
//! | coordinates, holes | [`embedding`] |
//! | seeds, by trying them with the engine's own discovery | [`seeds`] |
//! | what is missing or stray | [`findings`] |
//!
//! # What cannot be known
//!
//! Which dimension is x, which end of it is 0 and where the datelines lie is free; all seeds of
//! a result agree on it. A ring of four is the product of two pairs: a 4x2 torus and a 2x2x2
//! mesh are the same graph, and so are differently paired rings of a 4x4 torus. See
//! [`candidates`] for what is preferred then.

mod candidates;
mod edge_classes;
mod embedding;
mod exhaustive;
mod factors;
mod findings;
mod graph;
mod layers;
mod region_growing;
mod seeds;

pub use findings::{MissingCables, StrayCable};

use crate::config::torus::{TorusConfig, TorusSize};
use crate::fabric::{Fabric, SwitchId};
use crate::ids::Guid;
use crate::plan::routing::torus::{Cabling, Coordinates};
use edge_classes::EdgeClasses;
use embedding::Embedding;
use graph::Graph;
use seeds::{SeedFinder, SeededTorus};

/// Neighbours of a switch of a torus, at most.
const MAX_NEIGHBORS: usize = 6;
/// Common neighbours of two switches of a torus, at most.
const MAX_COMMON_NEIGHBORS: usize = 2;

/// A torus that was read from a fabric.
#[derive(Clone, Debug)]
pub struct DerivedTorus {
    /// The configuration for it.
    pub config: TorusConfig,
    /// Coordinates of each switch in it, by [`SwitchId`]; `None` for those that are not part of
    /// it.
    pub coordinates: Vec<Option<Coordinates>>,
    /// Coordinates without a switch, x running fastest.
    pub missing_switches: Vec<Coordinates>,
    /// Neighbours with fewer cables than others along the same dimension.
    pub missing_cables: Vec<MissingCables>,
    /// Cables that do not join neighbours.
    pub stray_cables: Vec<StrayCable>,
    /// Shapes of other readings that leave as few faults unexplained. The shape itself is among
    /// them if the cables make it in more than one way.
    pub alternatives: Vec<TorusSize>,
    /// Cables between neighbours, and all between different switches.
    pub cables: (usize, usize),
}

/// Why a fabric is no torus.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DeriveError {
    /// There are none.
    #[error("there are no switches in the fabric")]
    NoSwitches,
    /// No two switches are cabled to each other.
    #[error("no two of its {0} switch(es) are cabled to each other")]
    NoCables(usize),
    /// A switch with too many neighbours.
    #[error(
        "switch {guid} is cabled to {neighbors} other switches, and a switch of a torus to at \
         most 6; is it a fat tree?"
    )]
    TooManyNeighbors {
        /// The switch.
        guid: Guid,
        /// Number of switches it is cabled to.
        neighbors: usize,
    },
    /// Two switches with too much in common.
    #[error(
        "switches {a} and {b} have {common} neighbours in common, and no two switches of a torus \
         more than 2; is it a fat tree?"
    )]
    TooMuchInCommon {
        /// One switch.
        a: Guid,
        /// The other.
        b: Guid,
        /// Number of common neighbours.
        common: usize,
    },
    /// A tree, or something else without 4-loops.
    #[error(
        "its {switches} switches are neither a ring nor a line, and there are no loops of four \
         switches, of which the faces of a torus consist; is it a tree?"
    )]
    NoFaces {
        /// Number of switches.
        switches: usize,
    },
    /// More than three dimensions.
    #[error("its cables run along {0} dimensions, and a torus has at most 3")]
    TooManyDimensions(usize),
    /// The best reading is too bad.
    #[error(
        "the most plausible reading is {} with {placed} of {switches} switches and {explained} of \
         {cables} cables between switches, which is too little to go by", shape(.size)
    )]
    Implausible {
        /// The shape.
        size: TorusSize,
        /// Switches that fit in.
        placed: usize,
        /// All switches.
        switches: usize,
        /// Cables that fit in.
        explained: usize,
        /// All cables.
        cables: usize,
    },
    /// There is no place to begin.
    #[error(
        "it looks like {}, but no switch in it has all the neighbours that a seed must name", shape(.0)
    )]
    NoSeed(TorusSize),
}

/// A size as the configuration has it, such as `6x5m`; unused dimensions are left out.
pub fn shape(size: &TorusSize) -> String {
    let axes = size.radix.iter().zip(size.looped).filter(|(radix, _)| **radix > 1);
    let names: Vec<String> = axes
        .map(|(&radix, looped)| format!("{radix}{}", if looped || radix == 2 { "" } else { "m" }))
        .collect();
    names.join("x")
}

/// Reads a fabric as a torus. Hosts count only for `portgroup_max_ports`.
///
/// # Errors
/// Why it is none.
pub fn derive(fabric: &Fabric) -> Result<DerivedTorus, DeriveError> {
    let switches = fabric.switches().len();
    if switches == 0 {
        return Err(DeriveError::NoSwitches);
    }
    let cabling = Cabling::new(fabric);
    let graph = Graph::new(&cabling);
    if graph.edges.is_empty() {
        return Err(DeriveError::NoCables(switches));
    }
    let embeddings = read(fabric, &graph, &cabling)?;
    let best = embeddings.first().ok_or(DeriveError::NoFaces { switches })?;
    if 4 * best.faults(&graph) > graph.edges.len()
        && let Some(why) = why_not(fabric, &graph)
    {
        return Err(why);
    }
    plausible(&graph, best, switches)?;
    let SeededTorus { embedding, seeds, portgroup_max_ports, reading, .. } =
        find_seeds(fabric, &cabling, &graph, &embeddings)
            .ok_or_else(|| DeriveError::NoSeed(best.size()))?;
    let alternatives = alternatives(&embeddings, reading);
    let coordinates =
        embedding.positions.iter().map(|at| at.map(|at| embedding.lattice.coordinates(at)));
    let strays = findings::strays(&cabling, &embedding, fabric);
    let all = cabling.cables.iter().filter(|cable| findings::is_between_switches(fabric, cable));
    let all = all.count();
    Ok(DerivedTorus {
        coordinates: coordinates.collect(),
        missing_switches: embedding.missing().map(|at| embedding.lattice.coordinates(at)).collect(),
        missing_cables: findings::missing_cables(&graph, &embedding),
        cables: (all - strays.len(), all),
        stray_cables: strays,
        alternatives,
        config: TorusConfig {
            size: Some(embedding.size()),
            seeds,
            portgroup_max_ports,
            ..TorusConfig::default()
        },
    })
}

impl DerivedTorus {
    /// Switches that are not part of the torus.
    pub fn outside(&self) -> impl Iterator<Item = SwitchId> + '_ {
        let all = (0..).zip(&self.coordinates);
        all.filter(|(_, at)| at.is_none()).map(|(switch, _)| SwitchId(switch))
    }

    /// True if another reading is as plausible.
    pub fn is_ambiguous(&self) -> bool {
        !self.alternatives.is_empty()
    }

    /// Number of switches that are part of the torus.
    pub fn placed(&self) -> usize {
        self.coordinates.iter().flatten().count()
    }
}

/// The reading, with seeds, that the engine routes; where it routes several, the one that comes
/// first, where none, the one of which it places most.
fn find_seeds(
    fabric: &Fabric,
    cabling: &Cabling,
    graph: &Graph,
    embeddings: &[Embedding],
) -> Option<SeededTorus> {
    let mut best: Option<SeededTorus> = None;
    for (reading, embedding) in embeddings.iter().enumerate() {
        let portgroup_max_ports = findings::portgroup_max_ports(graph, cabling, embedding);
        let finder = SeedFinder { fabric, cabling, graph, portgroup_max_ports };
        let Some(seeded) = finder.find_seeds(embedding) else { continue };
        let is_done = seeded.found.is_complete(embedding);
        if best.as_ref().is_none_or(|best| seeded.found > best.found) {
            best = Some(SeededTorus { reading, ..seeded });
        }
        if is_done {
            break;
        }
    }
    best
}

/// The shapes of readings other than the chosen one, each once.
fn alternatives(embeddings: &[Embedding], chosen: usize) -> Vec<TorusSize> {
    let others = embeddings.iter().enumerate().filter(|&(index, _)| index != chosen);
    let mut shapes: Vec<TorusSize> = others.map(|(_, embedding)| embedding.size()).collect();
    let mut seen: Vec<TorusSize> = Vec::new();
    shapes.retain(|size| {
        let is_new = !seen.contains(size);
        seen.push(*size);
        is_new
    });
    shapes
}

/// From cables to embeddings.
fn read(fabric: &Fabric, graph: &Graph, cabling: &Cabling) -> Result<Vec<Embedding>, DeriveError> {
    let squares = edge_classes::squares(graph);
    let classes = EdgeClasses::new(graph, &squares);
    let (count, factor_of) = factors::factors(graph, &classes);
    let lines = layers::factor_layers(graph, &classes, count, factor_of);
    let dimensions = lines.len();
    let embeddings = candidates::read(graph, cabling, lines);
    if !embeddings.is_empty() {
        return Ok(embeddings);
    }
    let switches = fabric.switches().len();
    Err(why_not(fabric, graph).unwrap_or(match count {
        0 => DeriveError::NoFaces { switches },
        _ => DeriveError::TooManyDimensions(dimensions),
    }))
}

/// Signs of a tree: too many neighbours, or too many in common.
fn why_not(fabric: &Fabric, graph: &Graph) -> Option<DeriveError> {
    let guid = |vertex: u32| fabric.switch(SwitchId(vertex)).guid();
    let busiest = (0..graph.len() as u32).max_by_key(|&vertex| graph.degree(vertex))?;
    let neighbors = graph.degree(busiest);
    if neighbors > MAX_NEIGHBORS {
        return Some(DeriveError::TooManyNeighbors { guid: guid(busiest), neighbors });
    }
    let pairs = (0..graph.len() as u32).flat_map(|middle| {
        let around = graph.neighbors(middle).iter().map(|&(vertex, _)| vertex);
        around.clone().flat_map(move |a| around.clone().map(move |b| (a, b)))
    });
    let (common, a, b) = pairs
        .filter(|(a, b)| a < b)
        .map(|(a, b)| (graph.common(a, b), a, b))
        .max_by_key(|&(common, ..)| common)?;
    (common > MAX_COMMON_NEIGHBORS).then(|| DeriveError::TooMuchInCommon {
        a: guid(a),
        b: guid(b),
        common,
    })
}

/// A reading must explain two thirds of what it is about, and be half full.
fn plausible(graph: &Graph, embedding: &Embedding, switches: usize) -> Result<(), DeriveError> {
    let (placed, explained) = (embedding.placed(), embedding.explained(graph));
    let edges = graph.edges.len();
    let is_plausible = 3 * placed >= 2 * switches
        && 3 * explained >= 2 * edges
        && 2 * placed >= embedding.lattice.len();
    if is_plausible {
        return Ok(());
    }
    Err(DeriveError::Implausible {
        size: embedding.size(),
        placed,
        switches,
        explained,
        cables: edges,
    })
}
