//! The virtual lanes of DFSSSP, which keep routes free of credit loops.
//!
//! All routes begin on VL 0. As long as the dependencies between the channels of a VL have a cycle,
//! all routes over the dependency of the cycle with the fewest routes move to the next VL. VLs that
//! remain are given to those with the most routes, which are split among them.
//!
//! The routes of all hosts at a switch to a LID are the same, and so are their VLs: they are one
//! *bundle* here.
//!
//! Hosts that do not map SLs to VLs, and switches as sources, are on VL 0 in OpenSM even if that
//! closes a cycle of dependencies. Here their routes are added last, each to the first VL in which
//! it closes none. If there is none, those of hosts get another VL. Those of switches, which carry
//! few management packets, cost the hosts nothing: they get a VL that no host uses, or on which only
//! a share of a split VL is, and stay on VL 0 if they close a cycle there, too. If the routes of hosts
//! to switches need more VLs than there are, they are added last as well.

mod cycles;
mod dependencies;
mod others;
mod paths;

use super::order::SsspDestination;
use crate::fabric::{Fabric, PortId};
use crate::ids::{Lid, Sl};
use crate::plan::routing::Lft;
use crate::plan::routing::weighted_paths::network::Network;
use crate::plan::routing::weighted_paths::search::NONE;
use crate::wire::attr::{CapMask, NodeKind};
use cycles::LaneCycleSearch;
use dependencies::Dependencies;
use paths::PathsTo;
use std::ops::Range;
use std::sync::Arc;

/// The routes need more VLs than there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TooFewLanes;

/// The VLs that there are, and their use.
#[derive(Clone, Copy)]
pub(super) struct VlSupply {
    pub vls: u8,
    /// True if no path of a switch may close a cycle, whatever that costs (`refuse_faulty_routes`).
    pub is_strict: bool,
}

/// The SLs of paths.
pub(super) struct PathLanes {
    /// By port: its row as a source, or [`NONE`]. Hosts that map SLs share the row of their switch;
    /// the switch and other ports there have another one.
    rows: Vec<u32>,
    /// By LID: its index among the destinations, or [`NONE`].
    columns: Vec<u32>,
    /// By port: base LID, 0 if it has none.
    base_lids: Vec<Lid>,
    /// Number of destinations.
    width: usize,
    /// By row, then by destination: the lowest of the SLs.
    bases: Vec<u8>,
    /// By the lowest SL: the number of SLs among which paths are split, at least 1.
    splits: [u8; 16],
    /// By lane: its lowest SL.
    firsts: Vec<u8>,
    /// The number of paths on each VL before they are split.
    paths: Vec<u64>,
    /// True if a VL has paths of switches only, which leaves fewer for hosts than in OpenSM.
    takes_vl_from_hosts: bool,
}

impl PathLanes {
    /// Finds the VLs of all paths.
    ///
    /// # Errors
    /// Returns [`TooFewLanes`] if the routes of hosts need more VLs than there are.
    pub(super) fn assign(
        fabric: &Fabric,
        network: &Network,
        destinations: &[SsspDestination],
        lfts: &[Arc<Lft>],
        supply: VlSupply,
    ) -> Result<Self, TooFewLanes> {
        let mut bundles = Bundles::new(fabric, network, destinations, lfts);
        let lanes = bundles.lanes(fabric, destinations, supply);
        if lanes.is_ok() || supply.is_strict {
            return lanes;
        }
        bundles.targets.iter_mut().for_each(|target| target.is_counted &= !target.is_switch);
        bundles.lanes(fabric, destinations, supply)
    }

    /// Gives the VLs that are left to those with the most paths, and renumbers all.
    fn split(&mut self, vls: u8) {
        let mut splits = vec![1_u8; self.paths.len()];
        for _ in self.paths.len()..usize::from(vls) {
            let mut fullest = (0, 0.0);
            for (lane, (&paths, &split)) in self.paths.iter().zip(&splits).enumerate() {
                let mean = paths as f64 / f64::from(split);
                if mean > fullest.1 {
                    fullest = (lane, mean);
                }
            }
            splits[fullest.0] += 1;
        }
        let firsts: Vec<u8> = splits
            .iter()
            .scan(0, |next, &split| {
                *next += split;
                Some(*next - split)
            })
            .collect();
        for (lane, (&first, &split)) in firsts.iter().zip(&splits).enumerate() {
            // OpenSM does not split a VL that keeps its number, except VL 0.
            let is_split = lane == 0 || usize::from(first) != lane;
            self.splits[usize::from(first)] = if is_split { split } else { 1 };
        }
        self.bases.iter_mut().for_each(|base| *base = firsts[usize::from(*base)]);
        self.firsts = firsts;
    }

    /// The number of paths on each VL before they are split.
    pub(super) fn paths(&self) -> &[u64] {
        &self.paths
    }

    /// True if a VL has paths of switches only, which leaves fewer for hosts than in OpenSM.
    pub(super) fn takes_vl_from_hosts(&self) -> bool {
        self.takes_vl_from_hosts
    }

    fn column(&self, lid: Lid) -> Option<usize> {
        let column = *self.columns.get(lid.index())?;
        (column != NONE).then_some(column as usize)
    }

    fn row(&self, port: PortId) -> Option<u32> {
        self.rows.get(port.index()).copied().filter(|&row| row != NONE)
    }

    /// The lowest of the equivalent SLs of a path.
    pub(super) fn base(&self, source: PortId, lid: Lid) -> Option<Sl> {
        let column = self.column(lid)?;
        let row = self.row(source)? as usize;
        Some(Sl(self.bases[row * self.width + column]))
    }

    /// The SL of a path: paths of a VL that is split use its SLs in turn.
    pub(super) fn sl(&self, source: PortId, lid: Lid, hint: Sl) -> Sl {
        let Some((base, row)) = self.base(source, lid).zip(self.row(source)) else { return hint };
        self.share(base, row, lid)
    }

    /// The SL of a path among those that are equivalent to the lowest one.
    fn share(&self, base: Sl, row: u32, lid: Lid) -> Sl {
        let split = u32::from(self.splits[usize::from(base.0)]);
        Sl(base.0 + ((row + u32::from(lid.0)) % split) as u8)
    }

    /// The class of a port as a source.
    pub(super) fn source_group(&self, port: PortId) -> u32 {
        self.row(port).unwrap_or(NONE)
    }

    pub(super) fn base_lid(&self, port: PortId) -> Lid {
        self.base_lids.get(port.index()).copied().unwrap_or(Lid(0))
    }
}

/// The routes from all hosts of each switch to each LID.
struct Bundles<'a> {
    network: &'a Network,
    /// The forwarding tables, by number of the switch.
    lfts: Vec<&'a Lft>,
    /// The switch of each row and the number of LIDs there: first the switches with hosts that map
    /// SLs, in the order of their first hosts, then all switches for their other ports.
    sources: Vec<(u32, u32)>,
    /// The number of rows of hosts.
    host_rows: u32,
    /// By switch number: its row of hosts, or [`NONE`].
    rows: Vec<u32>,
    /// All LIDs in routing order, and their switches.
    columns: Vec<(Lid, u32)>,
    /// By switch number: true if a host there does not map SLs.
    has_other_hosts: Vec<bool>,
    targets: Vec<LaneTarget>,
    /// Base LIDs by switch number.
    switch_lids: Vec<Lid>,
    /// The number of paths between all ports that map SLs.
    paths: u64,
}

/// A port as a destination.
struct LaneTarget {
    /// The columns of its LIDs, in routing order.
    columns: Range<u32>,
    /// True if it maps SLs, so that paths to it are divided among the VLs.
    is_counted: bool,
    is_switch: bool,
}

/// True if a port maps SLs to VLs.
fn maps_sls(fabric: &Fabric, port: PortId) -> bool {
    fabric.port(port).info().is_some_and(|info| info.has(CapMask::SL_MAPPING))
}

impl<'a> Bundles<'a> {
    fn new(
        fabric: &Fabric,
        network: &'a Network,
        destinations: &[SsspDestination],
        lfts: &'a [Arc<Lft>],
    ) -> Self {
        let lfts = network.switches.iter().map(|switch| &*lfts[switch.index()]).collect();
        let rows = vec![NONE; network.len()];
        let mut own = Self {
            network,
            lfts,
            sources: Vec::new(),
            host_rows: 0,
            rows,
            columns: Vec::new(),
            has_other_hosts: vec![false; network.len()],
            targets: Vec::new(),
            switch_lids: vec![Lid::default(); network.len()],
            paths: 0,
        };
        let mut all = 0;
        let mut within = 0;
        for to in destinations {
            let is_counted = to.kind != NodeKind::Router && maps_sls(fabric, to.port);
            let first = own.columns.len() as u32;
            own.columns.extend(to.lids().map(|lid| (lid, to.switch)));
            let columns = first..own.columns.len() as u32;
            let is_switch = to.kind == NodeKind::Switch;
            own.targets.push(LaneTarget { columns, is_counted, is_switch });
            if is_counted {
                all += u64::from(to.lids);
                within += u64::from(to.lids).pow(2);
            }
            match to.kind {
                NodeKind::Switch => own.switch_lids[to.switch as usize] = to.base,
                _ if is_counted => own.count_source(to),
                _ => own.has_other_hosts[to.switch as usize] = true,
            }
        }
        own.host_rows = own.sources.len() as u32;
        own.sources.extend((0..network.len() as u32).map(|switch| (switch, 0)));
        own.paths = all * all - within;
        own
    }

    fn count_source(&mut self, host: &SsspDestination) {
        let row = &mut self.rows[host.switch as usize];
        if *row == NONE {
            *row = self.sources.len() as u32;
            self.sources.push((host.switch, 0));
        }
        self.sources[*row as usize].1 += u32::from(host.lids);
    }

    /// The VLs of all paths.
    fn lanes(
        &self,
        fabric: &Fabric,
        destinations: &[SsspDestination],
        supply: VlSupply,
    ) -> Result<PathLanes, TooFewLanes> {
        let mut lanes = self.empty_lanes(fabric, destinations);
        let mut dependencies = self.break_cycles(&mut lanes, supply.vls)?;
        self.add_other_hosts(&mut lanes, &mut dependencies, supply.vls)?;
        let unfit = self.add_switches(&mut lanes, &mut dependencies, supply)?;
        lanes.split(supply.vls);
        self.use_shares(&mut lanes, unfit, supply.vls);
        Ok(lanes)
    }

    /// All paths on VL 0.
    fn empty_lanes(&self, fabric: &Fabric, destinations: &[SsspDestination]) -> PathLanes {
        let ports = fabric.ports().len();
        let mut lanes = PathLanes {
            rows: vec![NONE; ports],
            columns: Vec::new(),
            base_lids: vec![Lid::default(); ports],
            width: self.columns.len(),
            bases: vec![0; self.columns.len() * self.sources.len()],
            splits: [1; 16],
            firsts: Vec::new(),
            paths: vec![self.paths],
            takes_vl_from_hosts: false,
        };
        for to in destinations {
            lanes.base_lids[to.port.index()] = to.base;
            let is_host = to.kind == NodeKind::Ca && maps_sls(fabric, to.port);
            let row =
                if is_host { self.rows[to.switch as usize] } else { self.host_rows + to.switch };
            lanes.rows[to.port.index()] = row;
        }
        let highest = self.columns.iter().map(|(lid, _)| lid.index()).max();
        lanes.columns.resize(highest.map_or(0, |lid| lid + 1), NONE);
        for (column, (lid, _)) in (0..).zip(&self.columns) {
            lanes.columns[lid.index()] = column;
        }
        lanes
    }

    /// The channels from a switch to the switch of a LID.
    fn path(&self, bundle: u32, path: &mut Vec<u32>) {
        let (row, column) = self.place(bundle);
        let (lid, end) = self.columns[column];
        let mut at = self.sources[row].0;
        path.clear();
        while at != end && path.len() <= self.network.len() {
            let link = self.next_link(at, lid);
            let Some(next) = self.network.links().get(link as usize) else { return };
            path.push(link);
            at = next.to;
        }
    }

    /// The link by which a switch forwards to a LID of another one, or [`NONE`].
    fn next_link(&self, switch: u32, lid: Lid) -> u32 {
        let port = self.lfts[switch as usize].out(lid);
        port.and_then(|port| self.network.link_at(switch, port)).unwrap_or(NONE)
    }

    /// The paths from all switches to the LID of a column.
    fn paths_to(&self, column: u32) -> PathsTo<'_> {
        let (lid, end) = self.columns[column as usize];
        let switches = 0..self.network.len() as u32;
        let next = switches.map(|at| if at == end { NONE } else { self.next_link(at, lid) });
        PathsTo { network: self.network, next: next.collect() }
    }

    fn place(&self, bundle: u32) -> (usize, usize) {
        (bundle as usize / self.columns.len(), bundle as usize % self.columns.len())
    }

    /// The number of paths in a bundle.
    fn size(&self, bundle: u32) -> u32 {
        self.sources[self.place(bundle).0].1
    }

    /// The dependencies of all paths.
    fn dependencies(&self, ranks: &Arc<[u64]>) -> Dependencies {
        let mut all = Dependencies::new(Arc::clone(ranks));
        let width = self.columns.len() as u32;
        for target in self.targets.iter().filter(|target| target.is_counted) {
            let mut paths: Vec<_> = target
                .columns
                .clone()
                .map(|column| (column, self.paths_to(column), vec![NONE; self.network.len()]))
                .collect();
            for row in 0..self.host_rows {
                let (switch, size) = self.sources[row as usize];
                for (column, paths, places) in &mut paths {
                    all.add_from(paths, switch, places, row * width + *column, size);
                }
            }
        }
        all
    }

    /// Moves paths until no VL has a cycle, and returns the dependencies of each VL in use.
    fn break_cycles(
        &self,
        lanes: &mut PathLanes,
        vls: u8,
    ) -> Result<Vec<Dependencies>, TooFewLanes> {
        let ranks = self.ranks();
        let mut done = Vec::new();
        let mut path = Vec::new();
        let mut current = self.dependencies(&ranks);
        for lane in 0..vls {
            let is_last = lane + 1 == vls;
            let mut next = Dependencies::new(Arc::clone(&ranks));
            let mut search = LaneCycleSearch::new(&mut current);
            let mut start = search.first();
            while let Some(cycle) = start.and_then(|start| search.find(start)) {
                if is_last {
                    return Err(TooFewLanes);
                }
                lanes.paths.resize(usize::from(lane) + 2, 0);
                for bundle in search.break_cycle(cycle) {
                    let base = &mut lanes.bases[bundle as usize];
                    if *base != lane {
                        // An earlier cycle has moved it.
                        continue;
                    }
                    *base = lane + 1;
                    let size = self.size(bundle);
                    self.path(bundle, &mut path);
                    search.remove(&path, size);
                    next.add(&path, bundle, size);
                    lanes.paths[usize::from(lane)] -= u64::from(size);
                    lanes.paths[usize::from(lane) + 1] += u64::from(size);
                }
                start = Some(cycle);
            }
            done.push(current);
            if lanes.paths.len() == done.len() {
                break;
            }
            current = next;
        }
        Ok(done)
    }

    /// By link: the key by which OpenSM orders channels, which is the LID of its switch and the
    /// port.
    fn ranks(&self) -> Arc<[u64]> {
        let links = self.network.links().iter();
        links
            .map(|link| {
                u64::from(self.switch_lids[link.from as usize].0) << 8 | u64::from(link.port)
            })
            .collect()
    }
}
