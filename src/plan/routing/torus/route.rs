//! The routing engine: the stages of a routing pass, in sequence.

use super::cabling::Cabling;
use super::grid::Grid;
use super::multicast::MasterTree;
use super::part_names::PartNames;
use super::placement::Discovered;
use super::radices::WrongRadices;
use super::routed::{Torus, TorusParts};
use super::sl2vl::VlHistogram;
use super::snapshot::TorusSnapshot;
use super::{
    DUMP_FILE, NAME, checks, cut_off, discovery, repairs, report, rings, seeds, unicast, vlarb,
};
use crate::fabric::Fabric;
use crate::notes::Note;
use crate::plan::routing::{Dump, Engine, Routing, RoutingError, RoutingInput};
use std::sync::Arc;

/// The torus-2QoS engine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Torus2Qos;

impl Engine for Torus2Qos {
    fn name(&self) -> &'static str {
        NAME
    }

    fn route(&self, input: &RoutingInput<'_>) -> Result<Routing, RoutingError> {
        let mut notes = Vec::new();
        match route(input, &mut notes) {
            Ok(mut routing) => {
                notes.append(&mut routing.notes);
                Ok(Routing { notes, ..routing })
            }
            Err(mut error) => {
                notes.append(&mut error.notes);
                Err(RoutingError { engine: NAME, notes, dump: error.dump })
            }
        }
    }
}

/// The reasons why a pass ended without routes.
struct TorusError {
    notes: Vec<Note>,
    dump: Option<Dump>,
}

impl From<Vec<Note>> for TorusError {
    fn from(notes: Vec<Note>) -> Self {
        Self { notes, dump: None }
    }
}

impl From<Note> for TorusError {
    fn from(note: Note) -> Self {
        vec![note].into()
    }
}

impl TorusError {
    /// The error for a torus that was discovered but cannot be routed: `errors`, suggested repairs,
    /// and the coordinates for the dump file.
    fn unroutable(
        fabric: &Fabric,
        grid: &Grid,
        names: &PartNames<'_>,
        radices: &WrongRadices,
        mut errors: Vec<Note>,
    ) -> Self {
        errors.push(repairs::summary(grid, names));
        // Parts that are missing because of wrong radices need no repair.
        if radices.fault().is_none() {
            errors.extend(radices.doubt().map(report::warning));
            errors.push(repairs::advice(grid, names));
        }
        let dump = Dump { file: DUMP_FILE.into(), text: report::dump(fabric, grid) };
        Self { notes: errors, dump: Some(dump) }
    }
}

/// Routes a fabric. Messages are added to `notes` as the stages pass; errors are returned.
fn route(input: &RoutingInput<'_>, notes: &mut Vec<Note>) -> Result<Routing, TorusError> {
    let (fabric, options) = (input.fabric, input.options);
    if let Some(note) = checks::without_qos(options) {
        return Err(note.into());
    }
    let config = input.torus_config.as_ref().map_err(Clone::clone)?;
    notes.extend(config.notes.iter().cloned());
    let previous = input.previous.and_then(Torus::of);

    // Present only if the fabric has the nodes and LIDs of the previous pass.
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
    let lattice = checks::lattice(config)?;
    notes.extend(checks::vls(vls)?);
    checks::port_order(fabric, &port_order)?;
    let seed = checks::usable_seed(fabric, &lattice, &config.seeds)?;
    if let Some(text) = config.seeds.get(seed).and_then(|s| seeds::contradiction(&lattice, s, seed))
    {
        return Err(Note::error("4E1C", text).into());
    }
    notes.extend(seeds::warnings(&lattice, &config.seeds, seed));
    notes.push(report::looking_for(&lattice));
    notes.extend(report::single_dimension(&lattice));

    let Discovered { grid, leftover, exceeded } =
        discovery::discover(fabric, config, &lattice, &cabling, seed, notes)?;
    notes.push(report::built(&grid));
    notes.extend(seeds::coordinate_warnings(fabric, &grid, &config.seeds, seed));
    notes.extend(report::leftovers(fabric, &grid, &cabling, &leftover));
    // Positions with other cables, if nodes and LIDs are those of the previous pass.
    let changed = since.and_then(|(torus, _)| grid.differences(torus.grid()));
    let changed = changed.as_deref();
    let is_in_place =
        |torus: &Torus| grid.switches == torus.grid().switches && grid.local == torus.grid().local;
    let same = since.zip(changed).filter(|((torus, _), _)| is_in_place(torus));
    let previous_lfts =
        previous.zip(input.previous).map(|(torus, routing)| torus.previous_lfts(routing, changed));
    let names = PartNames::new(fabric, &grid, previous.map(Torus::previous));
    // The snapshot serves reports only, and is taken while the routes are computed.
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
            let (lids, previous) = (input.lids, previous_lfts.as_ref());
            let tables = unicast::forwarding_tables(fabric, &grid, lids, &port_order, previous)?;
            Ok((tables, MasterTree::build(fabric, &grid, &names)?))
        },
    );
    notes.extend(changes);
    notes.extend(report::unused(fabric, &grid, &cabling));
    notes.extend(cut_off::warnings(fabric, &grid, &cabling));
    notes.extend(report::missing(fabric, &grid));
    let radices = WrongRadices::find(fabric, &grid, &cabling, &leftover);
    let port_groups =
        |is_unroutable| exceeded.as_ref().map(|found| found.note(fabric, &grid, is_unroutable));
    let ((lfts, lft_inputs), tree) = routed.map_err(|faults| {
        let mut errors: Vec<Note> = port_groups(true).into_iter().collect();
        errors.extend(radices.fault().map(report::error));
        errors.extend(faults);
        TorusError::unroutable(fabric, &grid, &names, &radices, errors)
    })?;
    notes.extend(port_groups(false));
    notes.extend(radices.fault().map(report::warning));
    let parts = TorusParts { cabling, vl_histogram, vls, grid, snapshot, tree, lft_inputs };
    let torus = match same {
        Some(((torus, since), changed)) => torus.updated(&since, fabric, parts, changed),
        None => Torus::new(fabric, parts),
    };
    Ok(Routing {
        engine: NAME,
        lfts,
        policy: Arc::new(torus),
        notes: vlarb::option_notes(options),
        routing_errors: Vec::new(),
    })
}
