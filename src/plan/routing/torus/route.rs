//! The routing engine: the stages of a routing pass, in sequence.

use super::cabling::Cabling;
use super::discovery::Completion;
use super::grid::Grid;
use super::lattice::Position;
use super::multicast::MasterTree;
use super::part_names::PartNames;
use super::placement::DiscoveredTorus;
use super::radices::WrongRadices;
use super::repair::RepairedRoutes;
use super::repaired_tables::{PreviousTables, repaired_tables};
use super::routed::{Torus, TorusParts};
use super::sl2vl::{VlCounts, VlHistogram};
use super::snapshot::TorusSnapshot;
use super::unicast::LftInputs;
use super::{
    DUMP_FILE, NAME, checks, cut_off, discovery, repair, repairs, report, rings, seeds, unicast,
    vlarb,
};
use crate::config::torus::TorusConfig;
use crate::fabric::Fabric;
use crate::notes::Note;
use crate::plan::routing::{
    Dump, Engine, Lft, PreviousFabric, Routing, RoutingError, RoutingInput,
};
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
    let fabric = input.fabric;
    if let Some(note) = checks::without_qos(input.options) {
        return Err(note.into());
    }
    let config = input.torus_config.as_ref().map_err(Clone::clone)?;
    notes.extend(config.notes.iter().cloned());
    let pass = RoutingPass::new(input, config);
    notes.push(report::found(&pass.cabling, pass.vls));
    let discovered = pass.discover(notes)?;
    let grid = &discovered.torus.grid;
    let changed = pass.changed(grid);
    let changed = changed.as_deref();
    let names = PartNames::new(fabric, grid, pass.previous.map(Torus::previous));
    // The snapshot serves reports only, and is taken while the routes are computed.
    let (taken, routed) =
        rayon::join(|| pass.snapshot(grid, changed), || pass.by_rule(grid, &names, changed));
    let leftover = &discovered.torus.leftover;
    let radices = WrongRadices::find(fabric, grid, &pass.cabling, leftover);
    let faults = match routed {
        Ok(routes) => {
            notes.extend(taken.changes);
            notes.extend(pass.about_parts(&discovered.torus));
            notes.extend(radices.fault().map(report::warning));
            return Ok(pass.finish(discovered.torus.grid, taken.snapshot, routes));
        }
        Err(faults) => faults,
    };
    let refusal = match pass.by_repair(&discovered, &radices, &faults, notes) {
        Ok(RepairedTorus { grid, snapshot, routes }) => {
            return Ok(pass.finish(grid, snapshot, routes));
        }
        Err(refusal) => refusal,
    };
    notes.extend(taken.changes);
    notes.extend(report::unused(fabric, grid, &pass.cabling));
    notes.extend(cut_off::warnings(fabric, grid, &pass.cabling));
    notes.extend(report::missing(fabric, grid));
    let mut errors: Vec<Note> =
        discovered.torus.port_group_note(fabric, true).into_iter().collect();
    errors.extend(radices.fault().map(report::error));
    errors.extend(faults);
    errors.extend(refusal);
    Err(TorusError::unroutable(fabric, grid, &names, &radices, errors))
}

/// A torus as it was discovered from a seed.
struct SeededTorus {
    torus: DiscoveredTorus,
    /// Index of the seed in the configuration.
    seed: usize,
}

/// A routing pass: its input, and what is known from the previous one.
struct RoutingPass<'a> {
    input: &'a RoutingInput<'a>,
    config: &'a TorusConfig,
    /// The torus of the previous pass.
    previous: Option<&'a Torus>,
    /// Present only if the fabric has the nodes and LIDs of the previous pass.
    since: Option<(&'a Torus, PreviousFabric<'a>)>,
    cabling: Cabling,
    vl_histogram: VlHistogram,
    vls: VlCounts,
    port_order: Vec<u8>,
}

/// The snapshot of a torus, and its differences from the previous one.
struct TakenSnapshot {
    snapshot: TorusSnapshot,
    changes: Vec<Note>,
}

/// A torus with routes around its faults.
struct RepairedTorus {
    /// With the switches that only its completion placed.
    grid: Grid,
    snapshot: TorusSnapshot,
    routes: GridRoutes,
}

/// The routes of a torus.
struct GridRoutes {
    lfts: Vec<Arc<Lft>>,
    lft_inputs: LftInputs,
    tree: MasterTree,
    repaired: Option<RepairedRoutes>,
}

impl<'a> RoutingPass<'a> {
    fn new(input: &'a RoutingInput<'a>, config: &'a TorusConfig) -> Self {
        let fabric = input.fabric;
        let previous = input.previous.and_then(Torus::of);
        let since = previous.zip(input.previous_fabric);
        let (cabling, vl_histogram) = match since {
            Some((torus, since)) => {
                let before = torus.parts();
                let cabling = before.cabling.updated(fabric, since.difference);
                (cabling, before.vl_histogram.updated(&since, fabric))
            }
            None => rayon::join(|| Cabling::new(fabric), || VlHistogram::new(fabric)),
        };
        let vls = vl_histogram.counts(input.options.max_op_vls);
        let port_order = config.full_port_order();
        Self { input, config, previous, since, cabling, vl_histogram, vls, port_order }
    }

    /// Finds the torus of the configuration in the fabric, from the first seed that can be used.
    fn discover(&self, notes: &mut Vec<Note>) -> Result<SeededTorus, TorusError> {
        let Self { config, cabling, .. } = self;
        let fabric = self.input.fabric;
        let lattice = checks::lattice(config)?;
        notes.extend(checks::vls(self.vls)?);
        checks::port_order(fabric, &self.port_order)?;
        let used = match checks::usable_seed(fabric, &lattice, &config.seeds) {
            Ok(seed) => seed,
            Err(note) => {
                let live = checks::live_seed(fabric, &lattice, &config.seeds);
                let may_be_short = self.input.options.torus_repair;
                let seed = live.filter(|_| may_be_short).ok_or_else(|| note.clone())?;
                notes.push(checks::shortened_seed(&note, &seed));
                seed
            }
        };
        let seed = used.index;
        if let Some(text) = seeds::contradiction(&lattice, &used.seed, seed) {
            return Err(Note::error("4E1C", text).into());
        }
        notes.extend(seeds::warnings(&lattice, &config.seeds, seed));
        notes.push(report::looking_for(&lattice));
        notes.extend(report::single_dimension(&lattice));
        let torus = discovery::discover(fabric, config, &lattice, cabling, &used, notes)?;
        notes.push(report::built(&torus.grid));
        notes.extend(seeds::coordinate_warnings(fabric, &torus.grid, &config.seeds, seed));
        notes.extend(report::leftovers(fabric, &torus.grid, cabling, &torus.leftover));
        Ok(SeededTorus { torus, seed })
    }

    /// Routes around the faults for which the rule has no routes.
    ///
    /// # Errors
    /// The reason why there are none, unless repair is disabled or cannot help.
    fn by_repair(
        &self,
        discovered: &SeededTorus,
        radices: &WrongRadices,
        faults: &[Note],
        notes: &mut Vec<Note>,
    ) -> Result<RepairedTorus, Option<Note>> {
        if !self.input.options.torus_repair {
            return Err(None);
        }
        let fabric = self.input.fabric;
        let SeededTorus { torus: discovered, seed } = discovered;
        let Completion { torus, ambiguous, fits_lattice } =
            discovery::complete(fabric, self.config, discovered, &self.cabling, *seed);
        // Parts that seem to be missing because of wrong radices cannot be routed around.
        if radices.fault().is_some() && !fits_lattice {
            return Err(None);
        }
        let whole = torus.as_ref().unwrap_or(discovered);
        let before = self.previous.and_then(Torus::repaired);
        let repaired = repair::routes(fabric, &whole.grid, self.vls, before)?;
        notes.extend(repair::because(faults));
        notes.extend(repair::placed_by_completion(fabric, &discovered.grid, &whole.grid));
        notes.extend(ambiguous);
        let changed = self.changed(&whole.grid);
        let taken = self.snapshot(&whole.grid, changed.as_deref());
        notes.extend(taken.changes);
        notes.extend(self.about_parts(whole));
        notes.extend(radices.doubt().map(report::warning));
        notes.extend(repair::summary(&whole.grid, &repaired));
        let routes = self.repaired(&whole.grid, repaired);
        Ok(RepairedTorus { grid: whole.grid.clone(), snapshot: taken.snapshot, routes })
    }

    /// Positions with other cables, if nodes and LIDs are those of the previous pass.
    fn changed(&self, grid: &Grid) -> Option<Vec<Position>> {
        self.since.and_then(|(torus, _)| grid.differences(torus.grid()))
    }

    /// The previous pass, if each switch has its position from then, with the same end ports.
    fn in_place(&self, grid: &Grid) -> Option<(&'a Torus, PreviousFabric<'a>)> {
        self.since.filter(|(torus, _)| {
            let before = torus.grid();
            grid.lattice == before.lattice
                && grid.switches == before.switches
                && grid.local == before.local
        })
    }

    fn snapshot(&self, grid: &Grid, changed: Option<&[Position]>) -> TakenSnapshot {
        let fabric = self.input.fabric;
        let max_changes = self.config.max_changes;
        if let Some((torus, since)) = self.in_place(grid).filter(|_| changed.is_some()) {
            let before = torus.snapshot();
            let (snapshot, touched) = before.updated(fabric, grid, since.difference);
            let changes = snapshot.changes_at(touched, before, max_changes);
            return TakenSnapshot { snapshot, changes };
        }
        let snapshot = TorusSnapshot::new(fabric, grid);
        let changes = match self.previous {
            Some(torus) => snapshot.changes_since(torus.snapshot(), max_changes),
            None => Vec::new(),
        };
        TakenSnapshot { snapshot, changes }
    }

    /// The routes of torus-2QoS itself.
    ///
    /// # Errors
    /// Returns the reasons why it refuses the torus.
    fn by_rule(
        &self,
        grid: &Grid,
        names: &PartNames<'_>,
        changed: Option<&[Position]>,
    ) -> Result<GridRoutes, Vec<Note>> {
        let RoutingInput { fabric, lids, .. } = *self.input;
        // A repaired torus has rings with faults, and tables that do not follow from its rings.
        let before = self.previous.filter(|torus| torus.repaired().is_none());
        let changed = changed.filter(|_| before.is_some());
        let faults = rings::faults(grid, names, changed);
        if !faults.is_empty() {
            return Err(faults);
        }
        let previous = before.zip(self.input.previous);
        let previous = previous.map(|(torus, routing)| torus.previous_lfts(routing, changed));
        let (lfts, lft_inputs) =
            unicast::forwarding_tables(fabric, grid, lids, &self.port_order, previous.as_ref())?;
        let tree = MasterTree::build(fabric, grid, names)?;
        Ok(GridRoutes { lfts, lft_inputs, tree, repaired: None })
    }

    fn repaired(&self, grid: &Grid, repaired: RepairedRoutes) -> GridRoutes {
        let RoutingInput { fabric, lids, .. } = *self.input;
        let previous = self.previous.zip(self.input.previous).map(|(torus, routing)| {
            let lfts = torus.previous_lfts(routing, None);
            PreviousTables { lfts, repaired: torus.repaired() }
        });
        let (lfts, lft_inputs) =
            repaired_tables(grid, lids, &self.port_order, &repaired, previous.as_ref());
        let tree = MasterTree::of_repaired(fabric, grid, &repaired.tree);
        GridRoutes { lfts, lft_inputs, tree, repaired: Some(repaired) }
    }

    /// Messages about unused, cut off and missing parts of a torus that is routed.
    fn about_parts(&self, discovered: &DiscoveredTorus) -> Vec<Note> {
        let fabric = self.input.fabric;
        let grid = &discovered.grid;
        let mut notes = report::unused(fabric, grid, &self.cabling);
        notes.extend(cut_off::warnings(fabric, grid, &self.cabling));
        notes.extend(report::missing(fabric, grid));
        notes.extend(discovered.port_group_note(fabric, false));
        notes
    }

    fn finish(self, grid: Grid, snapshot: TorusSnapshot, routes: GridRoutes) -> Routing {
        let changed = self.changed(&grid);
        let in_place = self.in_place(&grid).zip(changed);
        let Self { input, cabling, vl_histogram, vls, .. } = self;
        let GridRoutes { lfts, lft_inputs, tree, repaired } = routes;
        let parts =
            TorusParts { cabling, vl_histogram, vls, grid, snapshot, tree, lft_inputs, repaired };
        let torus = match in_place {
            Some(((torus, since), changed)) => torus.updated(&since, input.fabric, parts, &changed),
            None => Torus::new(input.fabric, parts),
        };
        Routing {
            engine: NAME,
            lfts,
            policy: Arc::new(torus),
            notes: vlarb::option_notes(input.options),
            routing_errors: Vec::new(),
        }
    }
}
