//! torus-2QoS: routes 2D and 3D tori and meshes without credit loops, with two QoS levels,
//! and keeps on doing so when a switch or, on each ring, a cable fails.
//!
//! # A pass
//!
//! | step | room |
//! |---|---|
//! | is the configuration right, and right for this fabric? | [`checks`] |
//! | what cables and end ports are there? | [`cabling`] |
//! | where is each switch? | [`placement`], with [`search`] and the rules of [`cube`] |
//! | the result: who is where, which cables join neighbours | [`grid`], on a [`lattice`] |
//! | what differs from last time, what is missing | [`snapshot`], [`report`] |
//! | may this torus be routed? | [`rings`] |
//! | if not: what is it called, what is to be repaired first | [`part_names`], [`repairs`], [`failure_model`] |
//! | forwarding tables | [`unicast`], with the ways along rings of [`ring_directions`] and [`destination_changes`] |
//! | spanning tree, trees of groups | [`multicast`] |
//! | what was placed, for reports | [`layout`] |
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
//! differs ([`super::PreviousFabric`]), the cabling, the numbers of VLs, the snapshot, the classes of ports, the
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

mod cabling;
mod checks;
mod cube;
mod destination_changes;
mod failure_model;
mod grid;
mod lattice;
mod layout;
mod multicast;
mod part_names;
mod path_sl;
mod placement;
mod repairs;
mod report;
mod ring_directions;
mod rings;
mod routed;
mod search;
mod sl2vl;
mod snapshot;
mod trial;
mod unicast;
mod vlarb;

pub(crate) use cabling::Cabling;
pub(crate) use lattice::Lattice;
pub use lattice::{AXIS_NAMES, Coordinates, Direction, Position};
pub use layout::{Ring, TorusLayout};
pub use routed::Torus;
pub use sl2vl::{PortClass, VlCounts};
pub(crate) use trial::SeedTrial;

use super::{Dump, Engine, Routing, RoutingError, RoutingInput};
use crate::config::torus::TorusConfig;
use crate::fabric::Fabric;
use crate::notes::Note;
use grid::Grid;
use multicast::MasterTree;
use part_names::PartNames;
use placement::{Placement, PlacementError, origin};
use routed::TorusParts;
use sl2vl::VlHistogram;
use snapshot::TorusSnapshot;
use std::sync::Arc;

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
struct TorusError {
    notes: Vec<Note>,
    dump: Option<Dump>,
}

impl From<Vec<Note>> for TorusError {
    fn from(notes: Vec<Note>) -> Self {
        Self { notes, dump: None }
    }
}

impl TorusError {
    /// A torus was built, but cannot be routed: says what is to be done about it, and keeps what
    /// was built for the dump file.
    fn of_built(
        fabric: &Fabric,
        grid: &Grid,
        names: &PartNames<'_>,
        mut errors: Vec<Note>,
    ) -> Self {
        errors.extend(repairs::advice(grid, names));
        let dump = Dump { file: DUMP_FILE, text: report::dump(fabric, grid) };
        Self { notes: errors, dump: Some(dump) }
    }
}

/// One pass. What the operator hears on the way is added to `notes`; errors are returned.
fn pass(input: &RoutingInput<'_>, notes: &mut Vec<Note>) -> Result<Routing, TorusError> {
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
    let (cabling, vl_histogram) = match since {
        Some((torus, since)) => {
            let before = torus.parts();
            let cabling = before.cabling.updated(fabric, since.difference);
            (cabling, before.vl_histogram.updated(&since, fabric))
        }
        None => rayon::join(|| Cabling::new(fabric), || VlHistogram::new(fabric)),
    };
    let vls = vl_histogram.counts(options.max_op_vls);
    notes.push(report::found(&cabling, vls));
    let port_order = config.full_port_order();
    let lattice = checks::lattice(config).map_err(one)?;
    notes.extend(checks::vls(vls).map_err(one)?);
    checks::port_order(fabric, &port_order).map_err(one)?;
    let seed = checks::usable_seed(fabric, &lattice, &config.seeds).map_err(one)?;
    notes.push(report::looking_for(&lattice));

    let (grid, leftover) = place(input, config, &lattice, &cabling, seed, notes)?;
    notes.push(report::built(&grid));
    notes.extend(report::leftovers(fabric, &grid, &cabling, &leftover));
    // Positions with other cables, where all else is as it was.
    let changed = since.and_then(|(torus, _)| grid.differences(torus.grid()));
    let changed = changed.as_deref();
    let is_in_place =
        |torus: &Torus| grid.switches == torus.grid().switches && grid.local == torus.grid().local;
    let same = since.zip(changed).filter(|((torus, _), _)| is_in_place(torus));
    let known =
        previous.zip(input.previous).map(|(torus, routing)| torus.previous_lfts(routing, changed));
    let names = PartNames::new(fabric, &grid, previous.map(Torus::previous));
    // The snapshot is only for reports: it need not hold up the routes.
    let ((snapshot, changes), routed) = rayon::join(
        || match (same, previous) {
            (Some(((torus, since), _)), _) => {
                let before = torus.snapshot();
                let (snapshot, touched) = before.updated(fabric, &grid, since.difference);
                let changes = snapshot.changes_at(touched, before, config.max_changes);
                (snapshot, changes)
            }
            (None, previous) => {
                let snapshot = TorusSnapshot::new(fabric, &grid);
                let since =
                    |torus: &Torus| snapshot.changes_since(torus.snapshot(), config.max_changes);
                let changes = previous.map(since).unwrap_or_default();
                (snapshot, changes)
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
    notes.extend(report::unused(fabric, &grid, &cabling));
    notes.extend(report::missing(fabric, &grid));
    let ((lfts, lft_inputs), tree) =
        routed.map_err(|errors| TorusError::of_built(fabric, &grid, &names, errors))?;
    let parts = TorusParts { cabling, vl_histogram, vls, grid, snapshot, tree, lft_inputs };
    let torus = match same {
        Some(((torus, since), changed)) => torus.updated(&since, fabric, parts, changed),
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
    cabling: &Cabling,
    index: usize,
    notes: &mut Vec<Note>,
) -> Result<(Grid, Vec<usize>), Vec<Note>> {
    let fabric = input.fabric;
    let seed = config.seeds.get(index).copied().unwrap_or_default();
    let mut placement = Placement::new(lattice, cabling, config.portgroup_max_ports);
    placement.place_seed(fabric, &seed).map_err(unplaceable)?;
    let guid = seed.links.iter().flatten().next().map(|link| link.origin).unwrap_or_default();
    let kind = if index == 0 { "default".to_owned() } else { format!("backup #{index}") };
    let at = lattice.coordinates(origin(lattice, &seed));
    notes.push(Note::info(format!(
        "using torus seed configured as {kind} (switch {at} GUID {guid})"
    )));
    placement.discover();
    notes.extend(placement.overflow_notes(fabric));
    placement.finish(fabric).map_err(unplaceable)
}

fn unplaceable(fault: PlacementError) -> Vec<Note> {
    match fault {
        PlacementError::SeedSwitchMissing(guid) => {
            let text = format!("the torus seed names {guid}, which is no switch of the fabric");
            vec![Note::error("4E06", text)]
        }
        PlacementError::Contradiction(notes) => notes,
    }
}
