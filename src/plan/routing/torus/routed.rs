//! The routed torus: path SLs, SL to VL mappings, VL arbitration and multicast trees.

use super::cabling::Cabling;
use super::grid::Grid;
use super::lattice::{Coordinates, Direction, Position};
use super::multicast::MasterTree;
use super::path_sl::{DatelineBits, QOS_BIT, SOURCE_OUTSIDE, path_sl, source_key};
use super::repair::{DetourStats, RepairedRoutes, UnroutedPair};
use super::sl2vl::{PortClass, VlCounts, VlHistogram, classify, classify_switch, mapping};
use super::snapshot::{PreviousTorus, TorusSnapshot};
use super::unicast::{LftInputs, PreviousLfts};
use super::{DUMP_FILE, NAME, multicast_sl_problem, repair, report, ring_directions, vlarb};
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::{Guid, Lid, Mlid, Sl};
use crate::paged_vec::PagedVec;
use crate::plan::LidTable;
use crate::plan::routing::{
    DEFAULT_UNROUTED_REMEDY, Dump, MulticastTree, PathSources, PreviousFabric, Routing,
    RoutingPolicy,
};
use crate::wire::attr::tables::{SlToVl, VlArbBlock};
use std::sync::Arc;

/// Number of data VLs between switches without which turns around a missing switch can close a credit
/// loop.
const VLS_FOR_MISSING_SWITCHES: u8 = 4;

/// The attachment of an end port: the position of its switch, and the port number of that switch.
type Attachment = (Position, u8);

/// The results of a routing pass of which a [`Torus`] consists.
pub(super) struct TorusParts {
    pub cabling: Cabling,
    pub vl_histogram: VlHistogram,
    pub vls: VlCounts,
    pub grid: Grid,
    pub snapshot: TorusSnapshot,
    pub tree: MasterTree,
    pub lft_inputs: LftInputs,
    /// `None` where torus-2QoS itself routes.
    pub repaired: Option<RepairedRoutes>,
}

/// A routed torus. Port and switch ids are those of the routed fabric.
#[derive(Clone)]
pub struct Torus {
    parts: Arc<TorusParts>,
    /// By port slot.
    classes: PagedVec<PortClass>,
    /// By position.
    coordinates: Arc<Vec<Coordinates>>,
    /// By port slot; `None` for ports that are not end ports of the torus.
    attachments: Arc<Vec<Option<Attachment>>>,
    /// Port GUIDs by port slot, for messages.
    guids: Arc<Vec<Guid>>,
}

/// How a damaged torus is routed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TorusRepair {
    /// The missing parts and what they do to the routes, in words.
    pub summary: String,
    /// Ordered pairs of switches without a route.
    pub unrouted: usize,
    pub stats: DetourStats,
}

impl Torus {
    pub(super) fn new(fabric: &Fabric, parts: TorusParts) -> Self {
        let grid = &parts.grid;
        let mut attachments = vec![None; fabric.ports().len()];
        for (at, _) in grid.placed() {
            for local in grid.local.of(at) {
                attachments[local.end.index()] = Some((at, local.port));
            }
        }
        let classes = classify(fabric, grid).into();
        let guids = fabric.ports().iter().map(|port| port.guid).collect();
        let coordinates = grid.lattice.positions().map(|at| grid.lattice.coordinates(at));
        Self {
            classes,
            coordinates: Arc::new(coordinates.collect()),
            attachments: Arc::new(attachments),
            guids: Arc::new(guids),
            parts: Arc::new(parts),
        }
    }

    /// The torus of `fabric`, which differs by `since` from the fabric of `self` and has the same
    /// switches at the same positions with the same end ports; cables differ at the positions
    /// `changed` only.
    pub(super) fn updated(
        &self,
        since: &PreviousFabric<'_>,
        fabric: &Fabric,
        parts: TorusParts,
        changed: &[Position],
    ) -> Self {
        let mut torus = Self { parts: Arc::new(parts), ..self.clone() };
        let grid = &torus.parts.grid;
        for &at in changed {
            let Some(switch) = grid.switch(at) else { continue };
            let node = fabric.switch(switch);
            let first = node.first_port.index();
            let mut slots = vec![PortClass::Local; usize::from(node.num_ports()) + 1];
            classify_switch(grid, at, &mut slots);
            for (slot, class) in (first..).zip(slots) {
                torus.classes.replace(slot, class);
            }
        }
        for &id in &since.difference.ports {
            let guid = fabric.port(id).guid;
            if torus.guids[id.index()] != guid {
                Arc::make_mut(&mut torus.guids)[id.index()] = guid;
            }
        }
        torus
    }

    /// The torus of a routing; `None` if another engine computed it.
    pub fn of(routing: &Routing) -> Option<&Self> {
        if routing.engine != NAME {
            return None;
        }
        routing.policy.as_any().downcast_ref()
    }

    pub fn radices(&self) -> [u32; 3] {
        self.parts.grid.lattice.radices()
    }

    /// True for torus dimensions, false for mesh dimensions; `axis` is 0 to 2.
    pub fn is_looped(&self, axis: usize) -> bool {
        self.parts.grid.lattice.is_looped(axis)
    }

    /// Coordinates of a switch; `None` if it is not part of the torus.
    pub fn coordinates(&self, switch: SwitchId) -> Option<Coordinates> {
        let at = self.parts.grid.position_of(switch)?;
        Some(self.parts.grid.lattice.coordinates(at))
    }

    /// The switch at `coordinates`; `None` if it is missing or they lie outside the torus.
    pub fn switch_at(&self, coordinates: Coordinates) -> Option<SwitchId> {
        if (0..3).any(|axis| is_outside(&coordinates.0, &self.parts, axis)) {
            return None;
        }
        self.parts.grid.switch(self.parts.grid.lattice.position(coordinates.0.map(i64::from)))
    }

    /// Switches with their coordinates, x running fastest.
    pub fn switches(&self) -> impl Iterator<Item = (Coordinates, SwitchId)> + '_ {
        self.parts
            .grid
            .placed()
            .map(|(at, switch)| (self.parts.grid.lattice.coordinates(at), switch))
    }

    /// Coordinates without a switch, x running fastest.
    pub fn missing(&self) -> impl Iterator<Item = Coordinates> + '_ {
        self.parts.grid.missing().map(|at| self.parts.grid.lattice.coordinates(at))
    }

    /// The routes around damage that torus-2QoS refuses, in numbers; `None` where torus-2QoS itself
    /// routes.
    pub fn repair(&self) -> Option<TorusRepair> {
        let repaired = self.parts.repaired.as_ref()?;
        Some(TorusRepair {
            summary: repair::overview(&self.parts.grid, repaired),
            unrouted: repaired.unrouted.len(),
            stats: repaired.stats,
        })
    }

    /// The first pairs of switches without a route, each with the repair that restores it.
    pub fn unrouted_pairs(&self) -> &[UnroutedPair] {
        self.parts.repaired.as_ref().map_or(&[], |repaired| &repaired.listed)
    }

    /// Coordinates of the root of the multicast spanning tree.
    pub fn root(&self) -> Coordinates {
        self.parts.grid.lattice.coordinates(self.parts.tree.root)
    }

    /// Coordinates in the order of placement.
    pub fn placement_order(&self) -> impl Iterator<Item = Coordinates> + '_ {
        self.parts.grid.order.iter().map(|&at| self.parts.grid.lattice.coordinates(at))
    }

    /// Ports of a switch whose cables lead one step in a direction; empty for switches outside the
    /// torus.
    pub fn cables(&self, switch: SwitchId, direction: Direction) -> &[u8] {
        match self.parts.grid.position_of(switch) {
            Some(at) => self.parts.grid.port_group(at, direction),
            None => &[],
        }
    }

    /// The direction of the next hop from one switch to another; `None` if they are the same or one
    /// is outside the torus.
    pub fn next_hop(&self, from: SwitchId, to: SwitchId) -> Option<Direction> {
        let grid = &self.parts.grid;
        let at = grid.position_of(from)?;
        let to = grid.position_of(to)?;
        match &self.parts.repaired {
            Some(repaired) => repaired.next_hop(at, to),
            None => ring_directions::next_hop(grid, at, to),
        }
    }

    /// True if packets from one switch to another are led around damage, other than in the undamaged torus.
    pub fn is_detour(&self, from: SwitchId, to: SwitchId) -> bool {
        match (&self.parts.repaired, at(&self.parts, from), at(&self.parts, to)) {
            (Some(repaired), Some(from), Some(to)) => repaired.is_detour(from, to),
            _ => false,
        }
    }

    /// Numbers of data VLs for which the SL to VL mappings are computed.
    pub fn vls(&self) -> VlCounts {
        self.parts.vls
    }

    pub fn class(&self, port: PortId) -> PortClass {
        self.classes.get(port.index()).copied().unwrap_or(PortClass::Outside)
    }

    /// Contents of `opensm-torus.dump`. `fabric` must be the routed fabric.
    pub fn dump(&self, fabric: &Fabric) -> String {
        report::dump(fabric, &self.parts.grid)
    }

    pub(super) fn previous(&self) -> PreviousTorus<'_> {
        PreviousTorus { grid: self.grid(), snapshot: self.snapshot() }
    }

    pub(super) fn snapshot(&self) -> &TorusSnapshot {
        &self.parts.snapshot
    }

    pub(super) fn grid(&self) -> &Grid {
        &self.parts.grid
    }

    /// The forwarding tables of `routing`, which must be the routing of this torus.
    pub(super) fn previous_lfts<'a>(
        &'a self,
        routing: &'a Routing,
        changed: Option<&'a [Position]>,
    ) -> PreviousLfts<'a> {
        let TorusParts { grid, lft_inputs, .. } = &*self.parts;
        PreviousLfts { lfts: &routing.lfts, grid, inputs: lft_inputs, changed }
    }

    pub(super) fn parts(&self) -> &TorusParts {
        &self.parts
    }

    /// The routes around damage that torus-2QoS refuses; `None` where torus-2QoS itself routes.
    pub(super) fn repaired(&self) -> Option<&RepairedRoutes> {
        self.parts.repaired.as_ref()
    }

    fn attachment(&self, port: PortId) -> Option<Attachment> {
        self.attachments.get(port.index()).copied().flatten()
    }
}

fn at(parts: &TorusParts, switch: SwitchId) -> Option<Position> {
    parts.grid.position_of(switch)
}

fn is_outside(coordinates_0: &[u32; 3], parts: &TorusParts, axis: usize) -> bool {
    coordinates_0[axis] >= parts.grid.lattice.radix(axis)
}

impl RoutingPolicy for Torus {
    /// Bit 3; the other bits follow from the path.
    fn qos_level(&self, sl: Sl) -> Sl {
        Sl(sl.0 & QOS_BIT)
    }

    fn path_sl(&self, source: PortId, destination: PortId, hint: Sl) -> Sl {
        match (self.attachment(source), self.attachment(destination)) {
            (Some((from, _)), Some((to, _))) => {
                let [from, to] = [from, to].map(|at| self.coordinates[at.index()]);
                path_sl(&self.parts.grid.lattice, from, to, hint)
            }
            _ => Sl(0),
        }
    }

    /// The coordinates of the port's switch.
    fn source_key(&self, source: PortId) -> u64 {
        self.attachment(source)
            .map_or(SOURCE_OUTSIDE, |(at, _)| source_key(self.coordinates[at.index()]))
    }

    fn path_sls_to_lid(
        &self,
        sources: &PathSources,
        destination: PortId,
        _lid: Lid,
        hint: Sl,
        sls: &mut [Sl],
    ) {
        let Some((to, _)) = self.attachment(destination) else {
            sls.fill(Sl(0));
            return;
        };
        let lattice = &self.parts.grid.lattice;
        let bits = DatelineBits::new(lattice, self.coordinates[to.index()], hint);
        for (sl, &key) in sls.iter_mut().zip(sources.keys()) {
            *sl = if key == SOURCE_OUTSIDE { Sl(0) } else { bits.path_sl(key) };
        }
    }

    fn sl_to_vl(&self, input: PortId, output: PortId) -> Option<SlToVl> {
        Some(mapping(self.parts.vls, self.class(input), self.class(output)))
    }

    fn decides_sl_to_vl(&self) -> bool {
        true
    }

    fn vl_arbitration_warning(&self, port: PortId, weights: &[u32; 16]) -> Option<&'static str> {
        vlarb::table_warning(self.class(port), weights)
    }

    fn vl_arbitration(&self, port: PortId, configured: VlArbBlock) -> VlArbBlock {
        match self.class(port) {
            PortClass::Host => vlarb::for_host_port(configured),
            _ => configured,
        }
    }

    /// The position of the port's switch. Ports outside the torus form one group, which gets SL 0.
    fn sl_group(&self, port: PortId) -> u32 {
        self.attachment(port).map_or(u32::MAX, |(at, _)| at.index() as u32)
    }

    fn changes_since(&self, before: &dyn RoutingPolicy) -> Option<Vec<PortId>> {
        let before: &Self = before.as_any().downcast_ref()?;
        let same_sls = self.parts.grid.lattice == before.parts.grid.lattice
            && (Arc::ptr_eq(&self.attachments, &before.attachments)
                || self.attachments == before.attachments)
            && self.parts.vls == before.parts.vls;
        same_sls.then(|| {
            let changed = self.classes.differences(&before.classes);
            changed.map(|index| PortId(index as u32)).collect()
        })
    }

    fn same_path_sls_as(&self, before: &dyn RoutingPolicy) -> bool {
        let before = before.as_any().downcast_ref::<Self>();
        before.is_some_and(|before| self.parts.grid.lattice == before.parts.grid.lattice)
    }

    fn same_multicast_trees_as(&self, before: &dyn RoutingPolicy) -> bool {
        let Some(before) = before.as_any().downcast_ref::<Self>() else { return false };
        let new = &*self.parts;
        let old = &*before.parts;
        Arc::ptr_eq(&self.attachments, &before.attachments)
            && Arc::ptr_eq(&self.guids, &before.guids)
            && new.grid.differences(&old.grid).is_some_and(|changed| {
                new.grid.switches == old.grid.switches
                    && new.tree.equals(&new.grid, &old.tree, &old.grid, &changed)
            })
    }

    fn guarantees_no_credit_loops(&self) -> bool {
        true
    }

    fn unrouted_switches(&self) -> Option<&[[SwitchId; 2]]> {
        self.parts.repaired.as_ref().map(|repaired| &repaired.unrouted_switches[..])
    }

    fn unrouted_remedy(&self) -> &'static str {
        match self.parts.repaired {
            Some(_) => "repair the switches and cables that the warnings about these pairs name",
            None => DEFAULT_UNROUTED_REMEDY,
        }
    }

    fn guarantees_multicast(&self) -> bool {
        self.parts.repaired.is_some()
    }

    fn multicast_sl_problem(&self, sl: Sl) -> Option<&'static str> {
        multicast_sl_problem(sl)
    }

    /// With fewer than 4 data VLs, turns back to an earlier dimension share the VLs of other turns.
    fn credit_loop_cause(&self) -> Option<String> {
        if self.parts.repaired.is_some() {
            return None;
        }
        let TorusParts { grid, vls, vl_histogram, .. } = &*self.parts;
        let missing: Vec<Position> = grid.missing().collect();
        let &first = missing.first().filter(|_| vls.switch_links < VLS_FOR_MISSING_SWITCHES)?;
        let around = match missing.len() {
            1 => format!("missing switch {}", grid.lattice.coordinates(first)),
            count => {
                format!(
                    "{count} missing switches, the first at {}",
                    grid.lattice.coordinates(first)
                )
            }
        };
        let capable = vl_histogram.counts(0).switch_links >= VLS_FOR_MISSING_SWITCHES;
        let remedy = if capable {
            "raise max_op_vls to 3 (4 data VLs) or more, or bring the switch back"
        } else {
            "bring the switch back; ports with 4 data VLs on all switches would prevent this"
        };
        Some(format!(
            "torus-2QoS needs {VLS_FOR_MISSING_SWITCHES} data VLs between switches to route around \
             the {around}, and there are only {}: {remedy}",
            vls.switch_links
        ))
    }

    fn multicast_tree(&self, mlid: Mlid, members: &[PortId]) -> Option<MulticastTree> {
        Some(self.parts.tree.group(
            &self.parts.grid,
            mlid,
            members,
            |port| self.attachment(port),
            |port| self.guids.get(port.index()).copied().unwrap_or(Guid(0)),
        ))
    }

    fn dumps(&self, fabric: &Fabric, _lids: &LidTable) -> Vec<Dump> {
        vec![Dump { file: DUMP_FILE.into(), text: self.dump(fabric) }]
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
