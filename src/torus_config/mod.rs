//! Derives a torus-2QoS.conf from the cables of a fabric, for `torus-sm torus-config`.
//!
//! # Method
//!
//! A torus or mesh is the Cartesian product of cycles and paths, and can be factorised into them.
//! Opposite edges of a face are parallel, which divides the edges into classes, one for each pair
//! of neighbouring layers. Classes that meet in faces belong to different dimensions; classes that
//! only follow each other belong to the same one. Contracting each layer to a vertex leaves the
//! ring or line of the dimension. A fabric without faults is factorised exactly. In a damaged one
//! each step follows the majority of the cables, and the rest is reported.
//!
//! | step | module |
//! |---|---|
//! | the switches as a simple graph | [`graph`] |
//! | faces, classes of parallel edges | [`edge_classes`] |
//! | factors: classes of the same dimension | [`factors`] |
//! | the layers of a factor, in order | [`layers`] |
//! | embeddings in a lattice from the factors; choice of the best | [`candidates`] |
//! | embeddings grown from single corners, for damaged fabrics | [`region_growing`] |
//! | embeddings from an exhaustive search, for small damaged fabrics | [`exhaustive`] |
//! | positions of all switches | [`embedding`] |
//! | seeds, tried with the discovery of the routing engine | [`seeds`] |
//! | missing and surplus parts | [`findings`] |
//!
//! # Ambiguity
//!
//! Cables do not determine which dimension is x, which of its ends is 0, or where the datelines
//! are; all seeds of a result agree on one choice. A ring of four is the product of two edges: a
//! 4x2 torus and a 2x2x2 mesh are the same graph, and a 4x4 torus can be paired into rings in
//! several ways. [`candidates`] states the preferences.

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
use graph::SimpleGraph;
use seeds::{SeedFinder, SeededEmbedding};

/// Maximum number of neighbours of a switch in a torus.
const MAX_NEIGHBORS: usize = 6;
/// Maximum number of common neighbours of two switches in a torus.
const MAX_COMMON_NEIGHBORS: usize = 2;

/// A torus derived from a fabric.
#[derive(Clone, Debug)]
pub struct DerivedTorus {
    /// The configuration of the torus.
    pub config: TorusConfig,
    /// Coordinates by [`SwitchId`]; `None` for switches outside the torus.
    pub coordinates: Vec<Option<Coordinates>>,
    /// Coordinates without a switch, x running fastest.
    pub missing_switches: Vec<Coordinates>,
    /// Neighbours with fewer cables than most along the same dimension.
    pub missing_cables: Vec<MissingCables>,
    /// Cables that do not join neighbours.
    pub stray_cables: Vec<StrayCable>,
    /// Shapes of other embeddings with as few faults. The shape of the torus itself is among them
    /// if the cables allow several assignments to it.
    pub alternatives: Vec<TorusSize>,
    /// Number of cables between neighbours, and between different switches in all.
    pub cables: (usize, usize),
}

/// The reason why no torus was derived.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DeriveError {
    #[error("there are no switches in the fabric")]
    NoSwitches,
    /// No two switches are cabled to each other. The field is the number of switches.
    #[error("no cable joins two different switches (switches in the fabric: {0})")]
    NoCables(usize),
    /// A switch has too many neighbours.
    #[error(
        "switch {guid} is cabled to {neighbors} other switches, and a switch of a torus to at \
         most 6; is it a fat tree?"
    )]
    TooManyNeighbors {
        guid: Guid,
        /// Number of switches cabled to it.
        neighbors: usize,
    },
    /// Two switches have too many common neighbours.
    #[error(
        "switches {a} and {b} have {common} neighbours in common, and no two switches of a torus \
         more than 2; is it a fat tree?"
    )]
    TooMuchInCommon { a: Guid, b: Guid, common: usize },
    /// The graph has no 4-loops.
    #[error(
        "its {switches} switches form neither a ring nor a line, and there are no loops of four \
         switches, which the faces of a torus are; is it a tree?"
    )]
    NoFaces { switches: usize },
    /// The graph has more than three dimensions.
    #[error("its cables run along {0} dimensions, and a torus has at most 3")]
    TooManyDimensions(usize),
    /// The best embedding leaves too many faults.
    #[error(
        "the closest torus is {} with {placed} of {switches} switches and {explained} of {cables} \
         cables between switches, which is too few", shape(.size)
    )]
    Implausible {
        /// Shape of the embedding.
        size: TorusSize,
        /// Number of switches in the embedding.
        placed: usize,
        /// Number of switches in the fabric.
        switches: usize,
        /// Number of cables between neighbours.
        explained: usize,
        /// Number of cables in the fabric.
        cables: usize,
    },
    /// No switch has all neighbours that a seed needs.
    #[error(
        "it looks like {}, but no switch has all neighbours that a seed must name", shape(.0)
    )]
    NoSeed(TorusSize),
}

/// A shape as written in the configuration, such as `6x5m`, without unused dimensions.
pub fn shape(size: &TorusSize) -> String {
    let axes = size.radix.iter().zip(size.looped).filter(|(radix, _)| **radix > 1);
    let names: Vec<String> = axes
        .map(|(&radix, looped)| format!("{radix}{}", if looped || radix == 2 { "" } else { "m" }))
        .collect();
    names.join("x")
}

/// Derives the torus of a fabric. Hosts matter for `portgroup_max_ports` only.
///
/// # Errors
/// Returns a [`DeriveError`] if the fabric is not a torus.
pub fn derive(fabric: &Fabric) -> Result<DerivedTorus, DeriveError> {
    let switches = fabric.switches().len();
    if switches == 0 {
        return Err(DeriveError::NoSwitches);
    }
    let cabling = Cabling::new(fabric);
    let graph = SimpleGraph::new(&cabling);
    if graph.edges.is_empty() {
        return Err(DeriveError::NoCables(switches));
    }
    let embeddings = find_embeddings(fabric, &graph, &cabling)?;
    let best = embeddings.first().ok_or(DeriveError::NoFaces { switches })?;
    if 4 * best.faults(&graph) > graph.edges.len()
        && let Some(why) = tree_evidence(fabric, &graph)
    {
        return Err(why);
    }
    plausible(&graph, best, switches)?;
    let SeededEmbedding { embedding, seeds, portgroup_max_ports, chosen, .. } =
        choose_seeded(fabric, &cabling, &graph, &embeddings)
            .ok_or_else(|| DeriveError::NoSeed(best.size()))?;
    let alternatives = alternatives(&embeddings, chosen);
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
    /// Switches outside the torus.
    pub fn outside(&self) -> impl Iterator<Item = SwitchId> + '_ {
        let all = (0..).zip(&self.coordinates);
        all.filter(|(_, at)| at.is_none()).map(|(switch, _)| SwitchId(switch))
    }

    /// True if another embedding has as few faults.
    pub fn is_ambiguous(&self) -> bool {
        !self.alternatives.is_empty()
    }

    /// Number of placed switches.
    pub fn placed(&self) -> usize {
        self.coordinates.iter().flatten().count()
    }
}

/// The first embedding that the engine places and routes completely, with its seeds; if there is
/// none, the one with the best trial result.
fn choose_seeded(
    fabric: &Fabric,
    cabling: &Cabling,
    graph: &SimpleGraph,
    embeddings: &[Embedding],
) -> Option<SeededEmbedding> {
    let mut best: Option<SeededEmbedding> = None;
    for (chosen, embedding) in embeddings.iter().enumerate() {
        let portgroup_max_ports = findings::portgroup_max_ports(graph, cabling, embedding);
        let finder = SeedFinder { fabric, cabling, graph, portgroup_max_ports };
        let Some(seeded) = finder.find_seeds(embedding) else { continue };
        let is_done = seeded.found.is_complete(embedding);
        if best.as_ref().is_none_or(|best| seeded.found > best.found) {
            best = Some(SeededEmbedding { chosen, ..seeded });
        }
        if is_done {
            break;
        }
    }
    best
}

/// Distinct shapes of the embeddings other than the chosen one.
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

/// Embeddings with the fewest faults, the preferred one first.
fn find_embeddings(
    fabric: &Fabric,
    graph: &SimpleGraph,
    cabling: &Cabling,
) -> Result<Vec<Embedding>, DeriveError> {
    let squares = edge_classes::squares(graph);
    let classes = EdgeClasses::new(graph, &squares);
    let (count, factor_of) = factors::factors(graph, &classes);
    let lines = layers::factor_layers(graph, &classes, count, factor_of);
    let dimensions = lines.len();
    let embeddings = candidates::candidates(graph, cabling, lines);
    if !embeddings.is_empty() {
        return Ok(embeddings);
    }
    let switches = fabric.switches().len();
    Err(tree_evidence(fabric, graph).unwrap_or(match count {
        0 => DeriveError::NoFaces { switches },
        _ => DeriveError::TooManyDimensions(dimensions),
    }))
}

/// The evidence for a tree: too many neighbours, or too many common neighbours.
fn tree_evidence(fabric: &Fabric, graph: &SimpleGraph) -> Option<DeriveError> {
    let busiest = (0..graph.len() as u32).max_by_key(|&vertex| graph.degree(vertex))?;
    let neighbors = graph.degree(busiest);
    if neighbors > MAX_NEIGHBORS {
        return Some(DeriveError::TooManyNeighbors { guid: guid_of(fabric, busiest), neighbors });
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
        a: guid_of(fabric, a),
        b: guid_of(fabric, b),
        common,
    })
}

fn guid_of(fabric: &Fabric, vertex: u32) -> Guid {
    fabric.switch(SwitchId(vertex)).guid()
}

/// Checks that an embedding explains two thirds of the switches and cables, and that half of its
/// positions are occupied.
fn plausible(
    graph: &SimpleGraph,
    embedding: &Embedding,
    switches: usize,
) -> Result<(), DeriveError> {
    let placed = embedding.placed();
    let explained = embedding.explained(graph);
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
