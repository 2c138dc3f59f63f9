//! The verdict on a repair: which pairs of switches may stay without a route.

use super::healthy::VlRule;
use super::result::{PositionPair, RepairRefusal, RepairedRoutes};
use super::{repair, report};
use crate::fabric::Fabric;
use crate::notes::{Note, counted};
use crate::plan::routing::torus::grid::Grid;
use crate::plan::routing::torus::lattice::Position;
use crate::plan::routing::torus::sl2vl::VlCounts;

/// Maximum share of the pairs of switches that may stay without a route: one in 1,000, rounded up.
const PAIRS_PER_UNROUTED: usize = 1_000;
/// Data VLs with which turns back to an earlier dimension have a VL of their own.
const VLS_FOR_TURNS: u8 = 4;

/// The routes of a damaged torus. `previous` are those of an earlier pass, which save work.
///
/// # Errors
/// Returns the reason why the torus cannot be routed, or why too many pairs of switches, or those of the
/// subnet manager's switch, would stay without a route.
pub(in crate::plan::routing::torus) fn routes(
    fabric: &Fabric,
    grid: &Grid,
    vls: VlCounts,
    previous: Option<&RepairedRoutes>,
) -> Result<RepairedRoutes, Note> {
    let own = own_position(fabric, grid)
        .ok_or_else(|| refusal("the switch of the subnet manager has no position in the torus"))?;
    let vl_rule = VlRule { has_turn_vls: vls.switch_links >= VLS_FOR_TURNS };
    let mut routes = repair(grid, vl_rule, previous).map_err(|reason| refusal(&text(&reason)))?;
    let unrouted = &routes.unrouted;
    if let Some(pair) = unrouted.iter().find(|pair| is_own(pair, own)) {
        return Err(refusal(&format!(
            "the subnet manager would have no route {}",
            report::pair(fabric, grid, *pair)
        )));
    }
    if unrouted.len() > routes.stats.pairs.div_ceil(PAIRS_PER_UNROUTED) {
        return Err(refusal(&format!(
            "{} of {} would stay without a route, more than one in {PAIRS_PER_UNROUTED}; the first {}",
            unrouted.len(),
            counted(routes.stats.pairs, "pair of switches", "pairs of switches"),
            report::pair(fabric, grid, unrouted[0])
        )));
    }
    routes.listed = report::unrouted_pairs(fabric, grid, &routes);
    Ok(routes)
}

fn is_own(pair: &PositionPair, own: Position) -> bool {
    pair.from == own || pair.to == own
}

fn refusal(reason: &str) -> Note {
    Note::warning(format!("torus_repair cannot route around the damage: {reason}"))
}

fn text(reason: &RepairRefusal) -> String {
    match reason {
        RepairRefusal::MostSwitchesMissing { missing, of } => {
            format!("{missing} of {of} switches of the torus are missing")
        }
        RepairRefusal::TooManyPairs { limit } => {
            format!("the paths of more than {limit} pairs of switches are broken")
        }
        RepairRefusal::CyclicBase => "the undamaged routes have a credit loop".to_owned(),
        RepairRefusal::NoTree => "no multicast tree is free of credit loops".to_owned(),
    }
}

/// The position of the switch to which the subnet manager is attached.
fn own_position(fabric: &Fabric, grid: &Grid) -> Option<Position> {
    let local = fabric.local();
    let own = fabric.node_of(local).switch;
    let switch = own.or_else(|| fabric.node_of(fabric.port(local).peer?).switch)?;
    grid.position_of(switch)
}
