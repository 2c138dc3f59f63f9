//! Traces the changed entries for one destination LID after another: whether packets arrive, and
//! which triples are new.
//!
//! A packet that meets no changed entry takes its old route. Any other packet takes its old route
//! to the first changed switch and the new entries from there, so only the latter are traced. The
//! SLs of packets from other switches are taken from the triples of the old plan, along the channel
//! on which they arrive and along the complete old route behind it. This may over-approximate them,
//! which is safe. Neighbours whose new entry no longer leads to the switch are skipped.
//!
//! A switch that loses its entry drops the packets of its own end ports only, which is no fault, if no
//! other switch sends packets for the LID to it. A switch that had none gets its first packets with
//! the new entry.

use super::changed_routes::ChangedRoutes;
use super::memoised_routes::{EntryRead, MemoisedRoutes};
use super::merge_point::{MergePoint, MergePointFinder};
use crate::fabric::SwitchId;
use crate::ids::Lid;
use crate::verify::MAX_PATH_SWITCHES;
use crate::verify::endpoints::{DestinationTree, Endpoint};
use crate::verify::network::{NONE, SwitchNetwork};
use crate::verify::triples::{LOCAL_INPUT, Triple, TripleSls};
use crate::wire::attr::tables::LFT_NO_PATH;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::sync::MutexGuard;
use std::sync::{Mutex, PoisonError};

/// Minimum number of LIDs that are worth a task of their own.
const MIN_LIDS_PER_CHUNK: usize = 64;
/// Tasks for each thread, so that threads which finish early take over from others.
const CHUNKS_PER_THREAD: usize = 8;

/// The result of tracing all changed routes.
pub(super) struct TracedRoutes {
    /// Triples that the proof lacks.
    pub triples: TripleSls,
    /// Upper bound of the switches on a changed path.
    pub longest: u32,
}

/// Traces the changed routes of all LIDs in parallel; `None` if one of them is faulty or
/// inconclusive.
pub(super) fn trace_routes(routes: &ChangedRoutes<'_>) -> Option<TracedRoutes> {
    let lids = routes.lids();
    let chunks = CHUNKS_PER_THREAD * rayon::current_num_threads();
    let size = lids.len().div_ceil(chunks).max(MIN_LIDS_PER_CHUNK);
    // Scratch space that no task uses at the moment: about as many as threads in the end.
    let pool = Mutex::new(Vec::new());
    lids.par_chunks(size).try_for_each(|chunk| {
        let reused = free_scratch(&pool).pop();
        let mut scratch = reused.unwrap_or_else(|| Scratch::new(routes));
        let mut tracer = RouteTracer { routes, scratch: &mut scratch };
        chunk.iter().try_for_each(|&lid| tracer.trace(Lid(lid)))?;
        free_scratch(&pool).push(scratch);
        Some(())
    })?;
    let mut all = TracedRoutes { triples: TripleSls::new(), longest: 0 };
    for part in pool.into_inner().unwrap_or_else(PoisonError::into_inner) {
        all.longest = all.longest.max(part.longest);
        for (triple, sls) in part.added.into_values() {
            *all.triples.entry(triple).or_default() |= sls;
        }
    }
    Some(all)
}

fn free_scratch(pool: &Mutex<Vec<Scratch>>) -> MutexGuard<'_, Vec<Scratch>> {
    pool.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Buffers that are reused for one destination after another. A number beside a stamp is valid only
/// for the destination with that stamp.
struct Scratch {
    /// Number of the current destination.
    stamp: u32,
    /// By switch: stamp, output channel, and number of switches up to the end of the traced route.
    new_hops: Vec<(u32, u32, u32)>,
    /// By switch: stamp of a destination with a changed entry, and SLs that arrive from other
    /// changed switches.
    carried: Vec<(u32, u16)>,
    finder: MergePointFinder,
    memoised: MemoisedRoutes,
    /// Changed switches with the number of switches up to the end.
    order: Vec<(u32, u32)>,
    /// By switch: stamp, and the SLs whose route from the switch on was already followed.
    covered: Vec<(u32, u16)>,
    /// Switches and the channels out of them.
    path: Vec<(u32, u32)>,
    /// Channels into a switch with the SLs of the packets on them.
    inflows: Vec<(u32, u16)>,
    /// New triples by index, with the new SLs.
    added: FxHashMap<usize, (Triple, u16)>,
    /// Upper bound of the switches on a changed path.
    longest: u32,
}

impl Scratch {
    fn new(routes: &ChangedRoutes<'_>) -> Self {
        let network = &routes.proof.network;
        Self {
            stamp: 0,
            new_hops: vec![(0, NONE, 0); network.switches()],
            carried: vec![(0, 0); network.switches()],
            finder: MergePointFinder::new(network.switches()),
            memoised: MemoisedRoutes::default(),
            order: Vec::new(),
            covered: vec![(0, 0); network.switches()],
            path: Vec::new(),
            inflows: Vec::new(),
            added: FxHashMap::default(),
            longest: 0,
        }
    }
}

/// Number of switches that are traced from the merge point on, including it: a triple there can
/// have its input, channel and next channel at three switches in a row.
const SWITCHES_FROM_MERGE_POINT: u32 = 3;

/// New routes that were traced up to the merge point.
struct Shortcut {
    merge_point: MergePoint,
    /// Hops to the merge point on the longest old route from a changed switch.
    farthest: u32,
}

impl Shortcut {
    /// Upper bound of the switches by which a new route through a changed switch exceeds the
    /// longest old one, with `left` switches to the end of the trace and `before` hops to the merge
    /// point on the old route.
    fn excess(&self, left: u32, before: u32) -> i32 {
        left as i32 - (SWITCHES_FROM_MERGE_POINT + before) as i32
    }
}

struct RouteTracer<'a> {
    routes: &'a ChangedRoutes<'a>,
    scratch: &'a mut Scratch,
}

impl<'a> RouteTracer<'a> {
    /// Traces the changed entries of a LID; `None` on a fault or an inconclusive result.
    fn trace(&mut self, lid: Lid) -> Option<()> {
        let routes = self.routes;
        let proof = self.routes.proof;
        let to = proof.routes.destinations[lid.index()]?;
        let tree = proof.routes.trees[lid.index()]?;
        if routes.follows_leader(tree) {
            return Some(());
        }
        if let Some(excess) = self.scratch.memoised.lookup(routes, &to) {
            return self.record_length(u32::from(tree.longest).saturating_add_signed(excess));
        }
        let changed = routes.of(lid);
        let shortcut = self.shorten(&to, changed);
        if shortcut.is_none() {
            self.begin(changed);
            self.scratch.new_hops[to.switch as usize] = (self.scratch.stamp, NONE, 1);
            for &(_, switch) in changed {
                if is_routed(routes, switch, lid) {
                    self.mark_route(switch, lid, &to)?
                } else {
                    self.lacks_arrivals(switch, lid, &to).then_some(())?
                }
            }
        }
        let Scratch { new_hops, order, .. } = &mut *self.scratch;
        order.clear();
        let routed = changed.iter().filter(|&&(_, switch)| is_routed(routes, switch, lid));
        order.extend(routed.map(|&(_, switch)| (new_hops[switch as usize].2, switch)));
        // The farthest switches first: a nearer one adds their packets to its own.
        order.sort_unstable_by_key(|&far| Reverse(far));
        let mut has_inflows = false;
        for index in 0..self.scratch.order.len() {
            let (_, switch) = self.scratch.order[index];
            has_inflows |= self.trace_from(switch, &tree, &to, shortcut.as_ref())?;
        }
        if let Some(shortcut) = shortcut.filter(|_| !has_inflows) {
            let farthest = self.scratch.order.first()?.0;
            let excess = shortcut.excess(farthest, shortcut.farthest);
            let reads = self.reads(lid, &shortcut.merge_point);
            let at = shortcut.merge_point.at;
            self.scratch.memoised.insert(routes, &to, at, reads, excess);
        }
        Some(())
    }

    /// True if no switch sends packets for a LID to this one, which has no entry for it any more.
    fn lacks_arrivals(&self, switch: u32, lid: Lid, to: &Endpoint) -> bool {
        let routes = self.routes;
        let network: &SwitchNetwork = &routes.proof.network;
        switch != to.switch
            && network.into(SwitchId(switch)).all(|input| {
                let from = network.channels[input as usize].from.0;
                routes.channel(from, routes.new_entry(from, lid)) != input
            })
    }

    /// Records a path length in switches; `None` if it exceeds the maximum.
    fn record_length(&mut self, length: u32) -> Option<()> {
        self.scratch.longest = self.scratch.longest.max(length);
        (length <= MAX_PATH_SWITCHES).then_some(())
    }

    /// The entries for a LID that tracing read: those of the changed switches, of the switches on
    /// the routes to the merge point, and of neighbours from which packets may arrive.
    fn reads(&self, lid: Lid, merge_point: &MergePoint) -> Vec<EntryRead> {
        let routes = self.routes;
        let proof = self.routes.proof;
        let mut switches: Vec<u32> = routes.of(lid).iter().map(|&(_, switch)| switch).collect();
        let changed = switches.len();
        let mut add = |switch: u32| {
            if switch != merge_point.at && !switches.contains(&switch) {
                switches.push(switch);
            }
        };
        let mut exit = merge_point.exit;
        while exit != merge_point.at {
            add(exit);
            exit = proof.packed.of(routes.channel(exit, routes.old_entry(exit, lid))).to;
        }
        routes.removed.iter().for_each(|&switch| add(switch));
        for &(_, switch) in &self.scratch.order[..changed] {
            let mut here = switch;
            while here != merge_point.at {
                add(here);
                here = proof.packed.of(self.scratch.new_hops[here as usize].1).to;
            }
            let before = routes.channel(switch, routes.old_entry(switch, lid));
            for out in proof.network.out_of(SwitchId(switch)) {
                let input = proof.network.reverse(out as u32);
                if proof.sls_between(input, before) != 0 {
                    add(proof.network.channels[input as usize].from.0);
                }
            }
        }
        switches
            .iter()
            .map(|&switch| (switch, routes.old_entry(switch, lid), routes.new_entry(switch, lid)))
            .collect()
    }

    /// Starts a new destination and marks its changed switches.
    fn begin(&mut self, changed: &[(u16, u32)]) {
        let Scratch { stamp, carried, .. } = &mut *self.scratch;
        *stamp += 1;
        changed.iter().for_each(|&(_, switch)| carried[switch as usize] = (*stamp, 0));
    }

    /// Traces the new entries up to the merge point; `None` if there is none.
    fn shorten(&mut self, to: &Endpoint, changed: &[(u16, u32)]) -> Option<Shortcut> {
        self.begin(changed);
        let routes = self.routes;
        let Scratch { stamp, new_hops, carried, finder, .. } = &mut *self.scratch;
        // Old routes lead through removed switches, new ones never do.
        routes.removed.iter().for_each(|&switch| carried[switch as usize] = (*stamp, 0));
        let merge_point =
            finder.find(routes, *stamp, to, |switch| carried[switch as usize].0 == *stamp)?;
        new_hops[merge_point.at as usize] = (*stamp, NONE, SWITCHES_FROM_MERGE_POINT);
        changed.iter().try_for_each(|&(_, switch)| self.mark_route(switch, to.lid, to))?;
        // Two more channels complete the new triples. They are marked only now, because the new
        // routes must not join the old one behind the merge point.
        let Scratch { stamp, new_hops, .. } = &mut *self.scratch;
        let mut here = merge_point.at;
        for left in (1..=SWITCHES_FROM_MERGE_POINT).rev() {
            let is_last = left == 1 || here == to.switch;
            let port = routes.old_entry(here, to.lid);
            let channel = if is_last { NONE } else { routes.channel(here, port) };
            new_hops[here as usize] = (*stamp, channel, left);
            if channel == NONE {
                break;
            }
            here = routes.proof.packed.of(channel).to;
        }
        let finder = &self.scratch.finder;
        let farthest = changed.iter().map(|&(_, switch)| finder.steps(switch)).max()?;
        Some(Shortcut { merge_point, farthest: farthest + merge_point.steps })
    }

    /// Follows the new entries from a changed switch to a switch that is marked already.
    fn mark_route(&mut self, from: u32, lid: Lid, to: &Endpoint) -> Option<()> {
        if from == to.switch {
            return None;
        }
        let routes = self.routes;
        let Scratch { stamp, new_hops, path, .. } = &mut *self.scratch;
        path.clear();
        let mut here = from;
        while new_hops[here as usize].0 != *stamp {
            let port = routes.new_entry(here, lid);
            let channel = routes.channel(here, port);
            if channel == NONE
                || routes.dead.contains(&channel)
                || path.len() as u32 > MAX_PATH_SWITCHES
            {
                return None;
            }
            path.push((here, channel));
            here = routes.proof.packed.of(channel).to;
        }
        let mut left = new_hops[here as usize].2;
        for &(from, channel) in path.iter().rev() {
            left += 1;
            new_hops[from as usize] = (*stamp, channel, left);
        }
        Some(())
    }

    /// Adds the new triples of packets that meet their first changed entry at `switch`. Returns
    /// true if some of them arrive from other switches.
    fn trace_from(
        &mut self,
        switch: u32,
        tree: &DestinationTree,
        to: &Endpoint,
        shortcut: Option<&Shortcut>,
    ) -> Option<bool> {
        let routes = self.routes;
        let proof = self.routes.proof;
        let steps = &proof.packed;
        let (_, out, left) = self.scratch.new_hops[switch as usize];
        let before = routes.channel(switch, routes.old_entry(switch, to.lid));
        let policy = &*routes.plan.routing.policy;
        let own = proof.routes.sources[switch as usize].sls(policy, to, proof.checks.hints());
        self.inflows(switch, to.lid, before);
        let has_inflows = !self.scratch.inflows.is_empty();
        let passed = if has_inflows { self.narrow(switch, before, to)? } else { 0 };
        let length = match shortcut {
            Some(shortcut) => {
                let own = self.scratch.finder.steps(switch) + shortcut.merge_point.steps;
                let before = if has_inflows { own } else { shortcut.farthest };
                u32::from(tree.longest).saturating_add_signed(shortcut.excess(left, before))
            }
            None if has_inflows => u32::from(tree.longest).saturating_sub(passed) + left,
            None => left,
        };
        self.record_length(length)?;

        let next = self.scratch.new_hops[steps.of(out).to as usize].1;
        if own != 0 && next != NONE {
            self.add(out, LOCAL_INPUT, next, own);
        }
        let mut flow = own | self.scratch.carried[switch as usize].1;
        for index in 0..self.scratch.inflows.len() {
            let (input, sls) = self.scratch.inflows[index];
            flow |= sls;
            self.redirect(input, before, out, sls);
            if next != NONE {
                self.add(out, steps.of(input).in_index + 1, next, sls);
            }
        }
        self.follow(out, flow);
        Some(has_inflows)
    }

    /// Finds the channels on which packets to the LID arrive at a switch that sent them to
    /// `before`, from switches whose entries did not change.
    fn inflows(&mut self, switch: u32, lid: Lid, before: u32) {
        let routes = self.routes;
        let proof = self.routes.proof;
        let network = &proof.network;
        let inflows = &mut self.scratch.inflows;
        inflows.clear();
        if before == NONE {
            return;
        }
        for out in network.out_of(SwitchId(switch)) {
            let input = network.reverse(out as u32);
            let sls = proof.sls_between(input, before);
            if sls == 0 {
                continue;
            }
            let from = network.channels[input as usize].from.0;
            let port = routes.new_entry(from, lid);
            let is_same = routes.old_entry(from, lid) == port;
            if is_same && routes.channel(from, port) == input {
                inflows.push((input, sls));
            }
        }
    }

    /// Removes from the inflows the SLs that some triple of the old route to the LID lacks: packets
    /// with them go to other LIDs. Returns the number of switches on the old route.
    fn narrow(&mut self, switch: u32, before: u32, to: &Endpoint) -> Option<u32> {
        let routes = self.routes;
        let proof = self.routes.proof;
        let mut old_route = [NONE; MAX_PATH_SWITCHES as usize];
        let mut here = switch;
        let mut passed = 1;
        while here != to.switch {
            let channel = routes.channel(here, routes.old_entry(here, to.lid));
            let step = old_route.get_mut(passed as usize - 1).filter(|_| channel != NONE)?;
            *step = channel;
            here = proof.packed.of(channel).to;
            passed += 1;
        }
        let old_route = &old_route[..passed as usize - 1];
        let later = old_route.windows(3).map(|w| proof.sls_along(w[0], w[1], w[2]));
        let later = later.fold(u16::MAX, |all, sls| all & sls);
        for (input, sls) in &mut self.scratch.inflows {
            let next =
                old_route.get(1).map_or(u16::MAX, |&next| proof.sls_along(*input, before, next));
            *sls &= later & next;
        }
        self.scratch.inflows.retain(|&(_, sls)| sls != 0);
        Some(passed)
    }

    /// Adds the triples of packets with these SLs that continue from `input` to `out` instead of
    /// `before`.
    fn redirect(&mut self, input: u32, before: u32, out: u32, wanted: u16) {
        let triples = &self.routes.proof.dependencies.triples;
        let network = &self.routes.proof.network;
        let hop = network.hop_of(input);
        let out_index = network.channels[before as usize].out_index;
        let inputs = network.degree(network.channels[input as usize].from) as u16;
        for source in LOCAL_INPUT..=inputs {
            let sls = triples.get(hop.channel_sets(), source, out_index) & wanted;
            if sls != 0 {
                self.add(input, source, out, sls);
            }
        }
    }

    /// Adds the triples of packets behind a channel, up to the next changed switch, which adds them
    /// to its own, or to the end.
    fn follow(&mut self, mut channel: u32, flow: u16) {
        let steps = &self.routes.proof.packed;
        let stamp = self.scratch.stamp;
        loop {
            let came = steps.of(channel);
            let out = self.scratch.new_hops[came.to as usize].1;
            if out == NONE {
                return;
            }
            let next = self.scratch.new_hops[steps.of(out).to as usize].1;
            if next == NONE {
                return;
            }
            self.add(out, came.in_index + 1, next, flow);
            let carried = &mut self.scratch.carried[came.to as usize];
            if carried.0 == stamp {
                carried.1 |= flow;
                return;
            }
            let covered = &mut self.scratch.covered[came.to as usize];
            if covered.0 != stamp {
                *covered = (stamp, 0);
            }
            if flow & !covered.1 == 0 {
                return;
            }
            covered.1 |= flow;
            channel = out;
        }
    }

    #[inline]
    fn add(&mut self, channel: u32, input: u16, next: u32, sls: u16) {
        let proof = self.routes.proof;
        let index = proof.triple_index(channel, input, next);
        if sls & !proof.dependencies.triples.at(index) == 0 {
            return;
        }
        let triple = (channel, input, proof.packed.of(next).out_index);
        self.scratch.added.entry(index).or_insert((triple, 0)).1 |= sls;
    }
}

fn is_routed(routes: &ChangedRoutes<'_>, switch: u32, lid: Lid) -> bool {
    routes.new_entry(switch, lid) != LFT_NO_PATH
}
