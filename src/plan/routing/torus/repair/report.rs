//! Messages about a repaired torus.

use super::result::{HealthyStep, LostPart, PositionPair, RepairedRoutes, UnroutedPair};
use crate::fabric::Fabric;
use crate::notes::{Note, Severity, counted};
use crate::plan::routing::torus::NAME;
use crate::plan::routing::torus::grid::Grid;
use crate::plan::routing::torus::lattice::Direction;

/// Maximum number of pairs without a route that are listed one by one.
const MAX_LISTED_PAIRS: usize = 32;
/// Maximum number of switches listed one by one.
const MAX_LISTED_SWITCHES: usize = 8;

/// The reason why torus-2QoS itself does not route the torus.
pub(in crate::plan::routing::torus) fn because(faults: &[Note]) -> Option<Note> {
    let first = faults.iter().find(|note| note.severity == Severity::Error)?;
    let more = faults.len() - 1;
    let others = match more {
        0 => String::new(),
        _ => format!(" (and {})", counted(more, "more reason", "more reasons")),
    };
    Some(Note::info(format!(
        "without torus_repair, {NAME} would refuse the fabric: {}{others}",
        first.text
    )))
}

/// The switches that are placed only with the completion for damaged tori.
pub(in crate::plan::routing::torus) fn placed_by_completion(
    fabric: &Fabric,
    before: &Grid,
    after: &Grid,
) -> Option<Note> {
    let mut added = after.placed().map(|(at, _)| at).filter(|&at| !before.is_present(at));
    let names: Vec<String> =
        added.by_ref().take(MAX_LISTED_SWITCHES).map(|at| after.describe(fabric, at)).collect();
    let more = match added.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let count = after.order.len().saturating_sub(before.order.len());
    (!names.is_empty()).then(|| {
        Note::info(format!(
            "{} that no complete square of cables places: {}{more}",
            counted(
                count,
                "switch is placed by its cables or another seed",
                "switches are placed by their cables or another seed"
            ),
            names.join(", ")
        ))
    })
}

/// A summary of the detours, followed by the pairs without a route.
pub(in crate::plan::routing::torus) fn summary(grid: &Grid, routes: &RepairedRoutes) -> Vec<Note> {
    let text = format!("{NAME}: {}", overview(grid, routes));
    // torus-2QoS refuses healthy fabrics that it cannot place, such as a single ring.
    let is_damaged =
        missing_parts(grid).is_some() || routes.stats.detours > 0 || !routes.unrouted.is_empty();
    let mut notes = vec![if is_damaged { Note::warning(text) } else { Note::info(text) }];
    notes.extend(routes.listed.iter().map(|pair| Note::warning(pair.text.clone())));
    let more = routes.unrouted.len() - routes.listed.len();
    if more > 0 {
        let more = counted(more, "more pair of switches", "more pairs of switches");
        notes.push(Note::warning(format!("{NAME}: no route between {more}")));
    }
    notes
}

/// What is missing, and what that does to the routes.
pub(in crate::plan::routing::torus) fn overview(grid: &Grid, routes: &RepairedRoutes) -> String {
    let stats = &routes.stats;
    let connected = match routes.unrouted.len() {
        0 => "all connected".to_owned(),
        count => {
            format!("{} no route", counted(count, "pair of switches has", "pairs of switches have"))
        }
    };
    let detours = match stats.detours {
        0 => "no pair of switches needs a detour".to_owned(),
        count => format!(
            "routed around: {count} of {} pairs of switches use detours (mean {:.1} hops instead of {:.1}, longest {})",
            stats.pairs,
            stats.mean_hops(),
            stats.mean_undamaged_hops(),
            stats.longest
        ),
    };
    let missing = missing_parts(grid);
    let missing = missing.as_deref().unwrap_or("no switch or cable is missing");
    format!("{missing}; {detours}; {connected}, SLs unchanged, no credit loops")
}

/// Numbers of missing switches and cables in words; `None` if there are none.
fn missing_parts(grid: &Grid) -> Option<String> {
    let lattice = &grid.lattice;
    let switches = grid.missing().count();
    let mut cables = 0;
    for way in (0..3).filter(|&axis| lattice.is_active(axis)).map(Direction::plus) {
        let lacking = grid.placed().filter(|&(at, _)| {
            !lattice.is_edge(at, way)
                && grid.is_present(lattice.step(at, way))
                && !grid.has_cable(at, way)
        });
        cables += lacking.count();
    }
    let are_cables =
        counted(cables, "cable between neighbours is", "cables between neighbours are");
    match (switches, cables) {
        (0, 0) => None,
        (_, 0) => Some(format!("{} missing", counted(switches, "switch is", "switches are"))),
        (0, _) => Some(format!("{are_cables} missing")),
        _ => {
            let switches = counted(switches, "switch", "switches");
            let cables = counted(cables, "cable between neighbours", "cables between neighbours");
            Some(format!("{switches} and {cables} are missing"))
        }
    }
}

/// The first pairs without a route, with the repair that restores it.
pub(super) fn unrouted_pairs(
    fabric: &Fabric,
    grid: &Grid,
    routes: &RepairedRoutes,
) -> Vec<UnroutedPair> {
    let listed = routes.unrouted.iter().take(MAX_LISTED_PAIRS);
    let pairs = listed.filter_map(|&unrouted| {
        let lost = lost_parts(grid, routes, unrouted);
        let names: Vec<String> = lost.iter().map(ToString::to_string).collect();
        let text = format!(
            "{NAME}: no route {}; repair {} to restore it",
            pair(fabric, grid, unrouted),
            names.join(" and ")
        );
        let PositionPair { from, to } = unrouted;
        Some(UnroutedPair { from: grid.switch(from)?, to: grid.switch(to)?, lost, text })
    });
    pairs.collect()
}

/// The missing parts of the path of a pair in the complete torus.
fn lost_parts(grid: &Grid, routes: &RepairedRoutes, pair: PositionPair) -> Vec<LostPart> {
    let lattice = &grid.lattice;
    let mut parts = Vec::new();
    for HealthyStep { at, way, next } in routes.healthy_steps(grid, pair) {
        let ends = [at, next].map(|at| lattice.coordinates(at));
        if !grid.is_present(next) {
            parts.push(LostPart::Switch(ends[1]));
        } else if grid.is_present(at) && !grid.has_cable(at, way) {
            parts.push(LostPart::Cable(ends));
        }
    }
    parts
}

/// A pair of switches in words.
pub(super) fn pair(fabric: &Fabric, grid: &Grid, pair: PositionPair) -> String {
    let [from, to] = [pair.from, pair.to].map(|at| grid.describe(fabric, at));
    format!("from switch {from} to switch {to}")
}
