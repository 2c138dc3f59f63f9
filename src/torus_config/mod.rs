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
//! | faces, classes of parallel edges | [`squares`] |
//! | classes → dimensions | [`factors`] |
//! | the layers of a dimension, in order | [`layers`] |
//! | rings of four, names of axes, other readings | [`readings`] |
//! | the same, grown from single corners, for damaged fabrics | [`growth`] |
//! | the same, by trying all grids, for those damaged where they are thin | [`fits`] |
//! | coordinates, holes | [`map`] |
//! | seeds, by trying them with the engine's own discovery | [`seeds`] |
//! | what is missing or stray | [`findings`] |
//!
//! # What cannot be known
//!
//! Which dimension is x, which end of it is 0 and where the datelines lie is free; all seeds of
//! a result agree on it. A ring of four is the product of two pairs: a 4x2 torus and a 2x2x2
//! mesh are the same graph, and so are differently paired rings of a 4x4 torus. See
//! [`readings`] for what is preferred then.

mod factors;
mod findings;
mod fits;
mod graph;
mod growth;
mod layers;
mod map;
mod readings;
mod seeds;
mod squares;

pub use findings::{Gap, Stray};

use crate::config::torus::{TorusConfig, TorusSize};
use crate::fabric::{Fabric, SwitchId};
use crate::ids::Guid;
use crate::plan::routing::torus::{Coordinates, Wiring};
use graph::Graph;
use map::Map;
use seeds::{Ground, Planted};
use squares::Classes;

/// Neighbours of a switch of a torus, at most.
const MOST_NEIGHBORS: usize = 6;
/// Common neighbours of two switches of a torus, at most.
const MOST_COMMON: usize = 2;

/// A torus that was read from a fabric.
#[derive(Clone, Debug)]
pub struct Derived {
    /// The configuration for it.
    pub config: TorusConfig,
    /// Coordinates of each switch in it, by [`SwitchId`]; `None` for those that are not part of
    /// it.
    pub coordinates: Vec<Option<Coordinates>>,
    /// Coordinates without a switch, x running fastest.
    pub missing: Vec<Coordinates>,
    /// Neighbours with fewer cables than others along the same dimension.
    pub gaps: Vec<Gap>,
    /// Cables that do not join neighbours.
    pub strays: Vec<Stray>,
    /// Shapes of other readings that leave as few faults unexplained. The shape itself is among
    /// them if the cables make it in more than one way.
    pub alternatives: Vec<TorusSize>,
    /// Cables between neighbours, and all between different switches.
    pub cables: (usize, usize),
}

/// Why a fabric is no torus.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoTorus {
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
pub fn derive(fabric: &Fabric) -> Result<Derived, NoTorus> {
    let switches = fabric.switches().len();
    if switches == 0 {
        return Err(NoTorus::NoSwitches);
    }
    let wiring = Wiring::new(fabric);
    let graph = Graph::new(&wiring);
    if graph.edges.is_empty() {
        return Err(NoTorus::NoCables(switches));
    }
    let maps = read(fabric, &graph, &wiring)?;
    let best = maps.first().ok_or(NoTorus::NoFaces { switches })?;
    if 4 * best.faults(&graph) > graph.edges.len()
        && let Some(why) = why_not(fabric, &graph)
    {
        return Err(why);
    }
    plausible(&graph, best, switches)?;
    let Planted { map, seeds, portgroup_max_ports, reading, .. } =
        plant(fabric, &wiring, &graph, &maps).ok_or_else(|| NoTorus::NoSeed(best.size()))?;
    let alternatives = alternatives(&maps, reading);
    let coordinates = map.positions.iter().map(|at| at.map(|at| map.lattice.coordinates(at)));
    let strays = findings::strays(&wiring, &map, fabric);
    let all = wiring.cables.iter().filter(|cable| findings::is_between_switches(fabric, cable));
    let all = all.count();
    Ok(Derived {
        coordinates: coordinates.collect(),
        missing: map.missing().map(|at| map.lattice.coordinates(at)).collect(),
        gaps: findings::gaps(&graph, &map),
        cables: (all - strays.len(), all),
        strays,
        alternatives,
        config: TorusConfig {
            size: Some(map.size()),
            seeds,
            portgroup_max_ports,
            ..TorusConfig::default()
        },
    })
}

impl Derived {
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
fn plant(fabric: &Fabric, wiring: &Wiring, graph: &Graph, maps: &[Map]) -> Option<Planted> {
    let mut best: Option<Planted> = None;
    for (reading, map) in maps.iter().enumerate() {
        let portgroup_max_ports = findings::portgroup_max_ports(graph, wiring, map);
        let ground = Ground { fabric, wiring, graph, portgroup_max_ports };
        let Some(planted) = ground.plant(map) else { continue };
        let is_done = planted.found.is_complete(map);
        if best.as_ref().is_none_or(|best| planted.found > best.found) {
            best = Some(Planted { reading, ..planted });
        }
        if is_done {
            break;
        }
    }
    best
}

/// The shapes of readings other than the chosen one, each once.
fn alternatives(maps: &[Map], chosen: usize) -> Vec<TorusSize> {
    let others = maps.iter().enumerate().filter(|&(index, _)| index != chosen);
    let mut shapes: Vec<TorusSize> = others.map(|(_, map)| map.size()).collect();
    let mut seen: Vec<TorusSize> = Vec::new();
    shapes.retain(|size| {
        let is_new = !seen.contains(size);
        seen.push(*size);
        is_new
    });
    shapes
}

/// From cables to maps.
fn read(fabric: &Fabric, graph: &Graph, wiring: &Wiring) -> Result<Vec<Map>, NoTorus> {
    let squares = squares::squares(graph);
    let classes = Classes::new(graph, &squares);
    let (count, factor_of) = factors::factors(graph, &classes);
    let lines = layers::lines(graph, &classes, count, factor_of);
    let dimensions = lines.len();
    let maps = readings::read(graph, wiring, lines);
    if !maps.is_empty() {
        return Ok(maps);
    }
    let switches = fabric.switches().len();
    Err(why_not(fabric, graph).unwrap_or(match count {
        0 => NoTorus::NoFaces { switches },
        _ => NoTorus::TooManyDimensions(dimensions),
    }))
}

/// Signs of a tree: too many neighbours, or too many in common.
fn why_not(fabric: &Fabric, graph: &Graph) -> Option<NoTorus> {
    let guid = |vertex: u32| fabric.switch(SwitchId(vertex)).guid();
    let busiest = (0..graph.len() as u32).max_by_key(|&vertex| graph.degree(vertex))?;
    let neighbors = graph.degree(busiest);
    if neighbors > MOST_NEIGHBORS {
        return Some(NoTorus::TooManyNeighbors { guid: guid(busiest), neighbors });
    }
    let pairs = (0..graph.len() as u32).flat_map(|middle| {
        let around = graph.neighbors(middle).iter().map(|&(vertex, _)| vertex);
        around.clone().flat_map(move |a| around.clone().map(move |b| (a, b)))
    });
    let (common, a, b) = pairs
        .filter(|(a, b)| a < b)
        .map(|(a, b)| (graph.common(a, b), a, b))
        .max_by_key(|&(common, ..)| common)?;
    (common > MOST_COMMON).then(|| NoTorus::TooMuchInCommon { a: guid(a), b: guid(b), common })
}

/// A reading must explain two thirds of what it is about, and be half full.
fn plausible(graph: &Graph, map: &Map, switches: usize) -> Result<(), NoTorus> {
    let (placed, explained) = (map.placed(), map.explained(graph));
    let edges = graph.edges.len();
    let is_plausible =
        3 * placed >= 2 * switches && 3 * explained >= 2 * edges && 2 * placed >= map.lattice.len();
    if is_plausible {
        return Ok(());
    }
    Err(NoTorus::Implausible { size: map.size(), placed, switches, explained, cables: edges })
}
