//! torus-2QoS: routes 2D and 3D tori and meshes without credit loops, with two QoS levels,
//! and keeps on doing so when a switch or, on each ring, a cable fails.
//!
//! # A pass
//!
//! | step | room |
//! |---|---|
//! | is the configuration right, and right for this fabric? | [`checks`] |
//! | what cables and end ports are there? | [`wiring`] |
//! | where is each switch? | [`placement`], with [`search`] and the rules of [`cube`] |
//! | the result: who is where, which cables join neighbours | [`grid`], on a [`lattice`] |
//! | what differs from last time, what is missing | [`changes`], [`report`] |
//! | may this torus be routed? | [`rings`] |
//! | if not: what is it called, what is to be repaired first | [`gaps`], [`repairs`], [`sketch`] |
//! | forwarding tables | [`unicast`], with the ways along rings of [`compass`] and [`patches`] |
//! | spanning tree, trees of groups | [`multicast`] |
//! | what was placed, for reports | [`chart`] |
//! | a trial placement from a seed, for `torus-config` | [`trial`] |
//! | SLs, VLs, arbitration | [`path_sl`], [`sl2vl`], [`vlarb`] |
//!
//! The result is a function of fabric, LIDs and files alone; the torus of the last success only
//! helps to tell what changed, and lends the forwarding tables that are the same again. Everything
//! but forwarding tables is answered by [`Torus`], the engine's
//! [`RoutingPolicy`](super::RoutingPolicy).
//!
//! # A pass after a small change
//!
//! If the fabric has the nodes and LIDs of the last success, and it is known at which ports it
//! differs ([`super::PreviousFabric`]), the wiring, the numbers of VLs, the census, the classes of ports, the
//! ways along rings and the forwarding tables are taken over and changed where cables changed; only
//! rings through such places are looked at for faults. Switches are placed from scratch in every
//! pass: two of three cables are the one by which some switch is found, the others decide which
//! candidate is the first, so that hardly a cable leaves the order of placement alone for certain.
//! What was placed is then compared with what there was, position by position.
//!
//! # Where this differs from OpenSM
//!
//! Forwarding tables, SLs, SL to VL tables and multicast trees are the same for every fabric
//! that both route. A torus of 1 x 1 x 1, seeds whose y and z links have different origins, and
//! `port_order` values above 254 are refused here.

mod changes;
mod chart;
mod checks;
mod compass;
mod cube;
mod gaps;
mod grid;
mod lattice;
mod multicast;
mod patches;
mod path_sl;
mod placement;
mod repairs;
mod report;
mod rings;
mod search;
mod sketch;
mod sl2vl;
mod trial;
mod unicast;
mod view;
mod vlarb;
mod wiring;

pub use chart::{Chart, Ring};
pub(crate) use lattice::Lattice;
pub use lattice::{AXIS_NAMES, Coordinates, Direction, Position};
pub use sl2vl::{PortClass, VlCounts};
pub(crate) use trial::SeedTrial;
pub use view::Torus;
pub(crate) use wiring::Wiring;

use super::{Dump, Engine, Routing, RoutingError, RoutingInput};
use crate::config::torus::TorusConfig;
use crate::fabric::Fabric;
use crate::notes::Note;
use changes::Census;
use gaps::Names;
use grid::Grid;
use multicast::MasterTree;
use placement::{Placement, Unplaceable, origin};
use sl2vl::VlCensus;
use std::sync::Arc;
use view::Parts;

/// The engine's name in lists of engines.
pub const NAME: &str = "torus-2QoS";
/// The dump file that tells where each switch was placed.
pub const DUMP_FILE: &str = "opensm-torus.dump";

/// The engine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Torus2Qos;

impl Engine for Torus2Qos {
    fn name(&self) -> &'static str {
        NAME
    }

    fn route(&self, input: &RoutingInput<'_>) -> Result<Routing, RoutingError> {
        let mut notes = Vec::new();
        match pass(input, &mut notes) {
            Ok(mut routing) => {
                notes.append(&mut routing.notes);
                Ok(Routing { notes, ..routing })
            }
            Err(mut denial) => {
                notes.append(&mut denial.notes);
                Err(RoutingError { engine: NAME, notes, dump: denial.dump })
            }
        }
    }
}

/// Why a pass ended without routes.
struct Denial {
    notes: Vec<Note>,
    dump: Option<Dump>,
}

impl From<Vec<Note>> for Denial {
    fn from(notes: Vec<Note>) -> Self {
        Self { notes, dump: None }
    }
}

impl Denial {
    /// A torus was built, but cannot be routed: says what is to be done about it, and keeps what
    /// was built for the dump file.
    fn of_built(fabric: &Fabric, grid: &Grid, names: &Names<'_>, mut errors: Vec<Note>) -> Self {
        errors.extend(repairs::advice(grid, names));
        let dump = Dump { file: DUMP_FILE, text: report::dump(fabric, grid) };
        Self { notes: errors, dump: Some(dump) }
    }
}

/// One pass. What the operator hears on the way is added to `notes`; errors are returned.
fn pass(input: &RoutingInput<'_>, notes: &mut Vec<Note>) -> Result<Routing, Denial> {
    let (fabric, options) = (input.fabric, input.options);
    if !options.qos {
        let text = "torus-2QoS needs QoS: start with -Q or set `qos TRUE`";
        return Err(vec![Note::error("4E44", text)].into());
    }
    let config = input.torus_config.as_ref().map_err(Clone::clone)?;
    notes.extend(config.notes.iter().cloned());
    let previous = input.previous.and_then(Torus::of);

    // What is known of the same nodes, and how their cables differ.
    let since = previous.zip(input.previous_fabric);
    let (wiring, vl_census) = match since {
        Some((torus, since)) => {
            let before = torus.parts();
            let wiring = before.wiring.after(fabric, since.difference);
            (wiring, before.vl_census.after(&since, fabric))
        }
        None => rayon::join(|| Wiring::new(fabric), || VlCensus::new(fabric)),
    };
    let vls = vl_census.counts(options.max_op_vls);
    notes.push(report::found(&wiring, vls));
    let port_order = config.full_port_order();
    let lattice = checks::lattice(config).map_err(one)?;
    notes.extend(checks::vls(vls).map_err(one)?);
    checks::port_order(fabric, &port_order).map_err(one)?;
    let seed = checks::usable_seed(fabric, &lattice, &config.seeds).map_err(one)?;
    notes.push(report::looking_for(&lattice));

    let (grid, leftover) = place(input, config, &lattice, &wiring, seed, notes)?;
    notes.push(report::built(&grid));
    notes.extend(report::leftovers(fabric, &grid, &wiring, &leftover));
    // Positions with other cables, where all else is as it was.
    let changed = since.and_then(|(torus, _)| grid.differences(torus.grid()));
    let changed = changed.as_deref();
    let is_in_place =
        |torus: &Torus| grid.switches == torus.grid().switches && grid.local == torus.grid().local;
    let same = since.zip(changed).filter(|((torus, _), _)| is_in_place(torus));
    let known = previous.zip(input.previous).map(|(torus, routing)| torus.known(routing, changed));
    let names = Names::new(fabric, &grid, previous);
    // The census is only for reports: it need not hold up the routes.
    let ((census, changes), routed) = rayon::join(
        || match (same, previous) {
            (Some(((torus, since), _)), _) => {
                let before = torus.census();
                let (census, touched) = before.after(fabric, &grid, since.difference);
                let changes = census.changes_at(touched, before, config.max_changes);
                (census, changes)
            }
            (None, previous) => {
                let census = Census::new(fabric, &grid);
                let since =
                    |torus: &Torus| census.changes_since(torus.census(), config.max_changes);
                let changes = previous.map(since).unwrap_or_default();
                (census, changes)
            }
        },
        || {
            let faults = rings::faults(&grid, &names, changed);
            if !faults.is_empty() {
                return Err(faults);
            }
            let (lids, known) = (input.lids, known.as_ref());
            let tables = unicast::forwarding_tables(fabric, &grid, lids, &port_order, known)?;
            Ok((tables, MasterTree::build(fabric, &grid, &names)?))
        },
    );
    notes.extend(changes);
    notes.extend(report::unused(fabric, &grid, &wiring));
    notes.extend(report::missing(fabric, &grid));
    let ((lfts, recipe), tree) =
        routed.map_err(|errors| Denial::of_built(fabric, &grid, &names, errors))?;
    let parts = Parts { wiring, vl_census, vls, grid, census, tree, recipe };
    let torus = match same {
        Some(((torus, since), changed)) => torus.after(&since, fabric, parts, changed),
        None => Torus::new(fabric, parts),
    };
    Ok(Routing {
        engine: NAME,
        lfts,
        policy: Arc::new(torus),
        notes: vlarb::option_warnings(options),
        routing_errors: Vec::new(),
    })
}

fn one(note: Note) -> Vec<Note> {
    vec![note]
}

/// Places the torus from the seed with this index; also returns the cables left over.
fn place(
    input: &RoutingInput<'_>,
    config: &TorusConfig,
    lattice: &Lattice,
    wiring: &Wiring,
    index: usize,
    notes: &mut Vec<Note>,
) -> Result<(Grid, Vec<usize>), Vec<Note>> {
    let fabric = input.fabric;
    let seed = config.seeds.get(index).copied().unwrap_or_default();
    let mut placement = Placement::new(lattice, wiring, config.portgroup_max_ports);
    placement.plant(fabric, &seed).map_err(unplaceable)?;
    let guid = seed.links.iter().flatten().next().map(|link| link.origin).unwrap_or_default();
    let kind = if index == 0 { "default".to_owned() } else { format!("backup #{index}") };
    let at = lattice.coordinates(origin(lattice, &seed));
    notes.push(Note::info(format!(
        "using torus seed configured as {kind} (switch {at} GUID {guid})"
    )));
    placement.sweep();
    notes.extend(placement.overflow_notes(fabric));
    placement.finish(fabric).map_err(unplaceable)
}

fn unplaceable(fault: Unplaceable) -> Vec<Note> {
    match fault {
        Unplaceable::SeedSwitchMissing(guid) => {
            let text = format!("the torus seed names {guid}, which is no switch of the fabric");
            vec![Note::error("4E06", text)]
        }
        Unplaceable::Contradiction(notes) => notes,
    }
}
