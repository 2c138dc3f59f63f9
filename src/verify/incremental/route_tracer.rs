//! One column of the forwarding tables that changed since the last proof: what is reached, and
//! which triples are new.
//!
//! A packet that meets no changed entry goes as before. Any other goes as before up to the first
//! changed switch, and on from there by the new entries: so it is enough to follow those. Which
//! SLs come along is taken from the triples of the old plan, from the channel they come by along the
//! whole way that they took before. That may be more than there is, which is safe; and a switch
//! upstream that does not send the LID here (any more) counts for nothing.

use super::changed_routes::ChangedRoutes;
use super::memoised_routes::{EntryRead, MemoisedRoutes};
use super::merge_point::{MergePoint, MergePointFinder};
use crate::ids::Lid;
use crate::verify::MAX_HOPS;
use crate::verify::endpoints::{Destination, DestinationTree};
use crate::verify::network::NONE;
use crate::verify::triples::{LOCAL_INPUT, Triple, TripleSls};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
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

/// Traces the changed routes of all LIDs in parallel; `None` if one of them is faulty or inconclusive.
pub(super) fn trace_routes(routes: &ChangedRoutes<'_>) -> Option<TracedRoutes> {
    let lids = routes.lids();
    let chunks = CHUNKS_PER_THREAD * rayon::current_num_threads();
    let size = lids.len().div_ceil(chunks).max(MIN_LIDS_PER_CHUNK);
    // Scratch space that no task uses at the moment: about as many as threads in the end.
    let pool = Mutex::new(Vec::new());
    let free = || pool.lock().unwrap_or_else(PoisonError::into_inner);
    let trace_chunk = |chunk: &[u16]| {
        let reused = free().pop();
        let mut scratch = reused.unwrap_or_else(|| Scratch::new(routes));
        let mut tracer = RouteTracer { routes, scratch: &mut scratch };
        chunk.iter().try_for_each(|&lid| tracer.trace(Lid(lid)))?;
        free().push(scratch);
        Some(())
    };
    lids.par_chunks(size).try_for_each(trace_chunk)?;
    let mut all = TracedRoutes { triples: TripleSls::new(), longest: 0 };
    for part in pool.into_inner().unwrap_or_else(PoisonError::into_inner) {
        all.longest = all.longest.max(part.longest);
        for (triple, sls) in part.added.into_values() {
            *all.triples.entry(triple).or_default() |= sls;
        }
    }
    Some(all)
}

/// Room for one column after another.
struct Scratch {
    /// Number of the column.
    stamp: u32,
    /// By switch: the column of which the rest is, its channel, and switches from here to the end
    /// of what is followed.
    ways: Vec<(u32, u32, u32)>,
    /// By switch: the column in which it is a changed one, and the SLs that come from others.
    carried: Vec<(u32, u16)>,
    finder: MergePointFinder,
    memoised: MemoisedRoutes,
    /// Changed switches of the column, with the switches from there to the end.
    order: Vec<(u32, u32)>,
    /// By switch: the column, and the SLs that were followed from it on.
    covered: Vec<(u32, u16)>,
    /// Switches and the channels out of them.
    path: Vec<(u32, u32)>,
    /// Channels into a switch with the SLs that come through them.
    inflows: Vec<(u32, u16)>,
    /// By number of a triple: the triple, and the SLs that are new.
    added: FxHashMap<usize, (Triple, u16)>,
    /// No path is longer, in switches passed.
    longest: u32,
}

impl Scratch {
    fn new(routes: &ChangedRoutes<'_>) -> Self {
        let network = &routes.proof.network;
        Self {
            stamp: 0,
            ways: vec![(0, NONE, 0); network.switches()],
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

/// Switches of which the ways are followed from where old and new ones meet.
const REST: u32 = 3;

/// The new ways of a column were followed to where they meet the old ones.
struct Shortcut {
    merge_point: MergePoint,
    /// PackedNetwork there on the longest old way from a changed switch.
    farthest: u32,
}

impl Shortcut {
    /// By how many switches new ways by way of a changed switch may be longer than the longest old
    /// way; the end of what is followed is `left` switches away, and the merge_point was `before` steps.
    fn excess(&self, left: u32, before: u32) -> i32 {
        left as i32 - (REST + before) as i32
    }
}

/// The work on one column after another.
struct RouteTracer<'a> {
    routes: &'a ChangedRoutes<'a>,
    scratch: &'a mut Scratch,
}

impl<'a> RouteTracer<'a> {
    /// Follows the changed entries of a LID; `None` if not all is well, or nobody can tell.
    fn trace(&mut self, lid: Lid) -> Option<()> {
        let (routes, proof) = (self.routes, self.routes.proof);
        let to = proof.destinations[lid.index()]?;
        let tree = proof.trees[lid.index()]?;
        if routes.follows_leader(tree) {
            return Some(());
        }
        if let Some(excess) = self.scratch.memoised.lookup(routes, &to) {
            return self.admit(u32::from(tree.longest).saturating_add_signed(excess));
        }
        let changed = routes.of(lid);
        let shortcut = self.shorten(&to, changed);
        if shortcut.is_none() {
            self.begin(changed);
            self.scratch.ways[to.switch as usize] = (self.scratch.stamp, NONE, 1);
            changed.iter().try_for_each(|&(_, switch)| self.chase(switch, lid, &to))?;
        }
        let Scratch { ways, order, .. } = &mut *self.scratch;
        order.clear();
        order.extend(changed.iter().map(|&(_, switch)| (ways[switch as usize].2, switch)));
        // The farthest first: what they carry along to another one goes on from there with its own.
        order.sort_unstable_by_key(|&far| Reverse(far));
        let mut has_inflows = false;
        for index in 0..changed.len() {
            let (_, switch) = self.scratch.order[index];
            has_inflows |= self.leave(switch, &tree, &to, shortcut.as_ref())?;
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

    /// Admits a path with so many switches, unless it is too long.
    fn admit(&mut self, length: u32) -> Option<()> {
        self.scratch.longest = self.scratch.longest.max(length);
        (length <= MAX_HOPS).then_some(())
    }

    /// The entries for a LID that were looked at in the changed switches, on the ways to the merge_point
    /// and where packets may come in from, which need not be unchanged ones.
    fn reads(&self, lid: Lid, merge_point: &MergePoint) -> Vec<EntryRead> {
        let (routes, proof) = (self.routes, self.routes.proof);
        let lid = lid.index();
        let mut switches: Vec<u32> =
            routes.of(Lid(lid as u16)).iter().map(|&(_, switch)| switch).collect();
        let changed = switches.len();
        let mut add = |switch: u32| {
            if switch != merge_point.at && !switches.contains(&switch) {
                switches.push(switch);
            }
        };
        let mut exit = merge_point.exit;
        while exit != merge_point.at {
            add(exit);
            exit = proof.packed.of(routes.channel(exit, routes.old[exit as usize][lid])).to;
        }
        routes.removed.iter().for_each(|&switch| add(switch));
        for &(_, switch) in &self.scratch.order[..changed] {
            let mut here = switch;
            while here != merge_point.at {
                add(here);
                here = proof.packed.of(self.scratch.ways[here as usize].1).to;
            }
            let before = routes.channel(switch, routes.old[switch as usize][lid]);
            for out in proof.network.out_of(crate::fabric::SwitchId(switch)) {
                let input = proof.network.reverse(out as u32);
                if proof.sls_between(input, before) != 0 {
                    add(proof.network.channels[input as usize].from.0);
                }
            }
        }
        let read = |&switch: &u32| {
            let at = switch as usize;
            (switch, routes.old[at][lid], routes.new[at][lid])
        };
        switches.iter().map(read).collect()
    }

    /// Begins with a column.
    fn begin(&mut self, changed: &[(u16, u32)]) {
        let Scratch { stamp, carried, .. } = &mut *self.scratch;
        *stamp += 1;
        changed.iter().for_each(|&(_, switch)| carried[switch as usize] = (*stamp, 0));
    }

    /// Follows the new entries to where they meet the old ways; `None` if they do not.
    fn shorten(&mut self, to: &Destination, changed: &[(u16, u32)]) -> Option<Shortcut> {
        self.begin(changed);
        let routes = self.routes;
        let Scratch { stamp, ways, carried, finder, .. } = &mut *self.scratch;
        // The old ways go on through switches that are gone; no new one comes there.
        routes.removed.iter().for_each(|&switch| carried[switch as usize] = (*stamp, 0));
        let is_changed = |switch: u32| carried[switch as usize].0 == *stamp;
        let merge_point = finder.find(routes, *stamp, to, is_changed)?;
        ways[merge_point.at as usize] = (*stamp, NONE, REST);
        changed.iter().try_for_each(|&(_, switch)| self.chase(switch, to.lid, to))?;
        // With two channels more there are all triples that are new. They are marked now, for
        // the new ways must not join behind the merge_point.
        let Scratch { stamp, ways, .. } = &mut *self.scratch;
        let mut here = merge_point.at;
        for left in (1..=REST).rev() {
            let is_last = left == 1 || here == to.switch;
            let port = routes.old[here as usize][to.lid.index()];
            let channel = if is_last { NONE } else { routes.channel(here, port) };
            ways[here as usize] = (*stamp, channel, left);
            if channel == NONE {
                break;
            }
            here = routes.proof.packed.of(channel).to;
        }
        let finder = &self.scratch.finder;
        let farthest = changed.iter().map(|&(_, switch)| finder.steps(switch)).max()?;
        Some(Shortcut { merge_point, farthest: farthest + merge_point.steps })
    }

    /// Follows the new entries from a changed switch to the LID's own.
    fn chase(&mut self, from: u32, lid: Lid, to: &Destination) -> Option<()> {
        if from == to.switch {
            return None;
        }
        let routes = self.routes;
        let Scratch { stamp, ways, path, .. } = &mut *self.scratch;
        path.clear();
        let mut here = from;
        while ways[here as usize].0 != *stamp {
            let port = routes.new[here as usize][lid.index()];
            let channel = routes.channel(here, port);
            if channel == NONE || routes.dead.contains(&channel) || path.len() as u32 > MAX_HOPS {
                return None;
            }
            path.push((here, channel));
            here = routes.proof.packed.of(channel).to;
        }
        let mut left = ways[here as usize].2;
        for &(from, channel) in path.iter().rev() {
            left += 1;
            ways[from as usize] = (*stamp, channel, left);
        }
        Some(())
    }

    /// Notes what is new about the packets that meet their first changed entry at `switch`. True if
    /// some come in from other switches.
    fn leave(
        &mut self,
        switch: u32,
        tree: &DestinationTree,
        to: &Destination,
        shortcut: Option<&Shortcut>,
    ) -> Option<bool> {
        let (routes, proof) = (self.routes, self.routes.proof);
        let steps = &proof.packed;
        let (_, out, left) = self.scratch.ways[switch as usize];
        let before = routes.channel(switch, routes.old[switch as usize][to.lid.index()]);
        let policy = &*routes.plan.routing.policy;
        let own = proof.sources[switch as usize].sls(policy, to.port, proof.checks.hints());
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
        self.admit(length)?;

        let next = self.scratch.ways[steps.of(out).to as usize].1;
        if own != 0 && next != NONE {
            self.note(out, LOCAL_INPUT, next, own);
        }
        let mut flow = own | self.scratch.carried[switch as usize].1;
        for index in 0..self.scratch.inflows.len() {
            let (input, sls) = self.scratch.inflows[index];
            flow |= sls;
            self.turn(input, before, out, sls);
            if next != NONE {
                self.note(out, steps.of(input).in_index + 1, next, sls);
            }
        }
        self.follow(out, flow);
        Some(has_inflows)
    }

    /// Finds the channels by which the LID comes to a switch that sent it through `before`, from
    /// switches whose own entries are the same as before.
    fn inflows(&mut self, switch: u32, lid: Lid, before: u32) {
        let (routes, proof) = (self.routes, self.routes.proof);
        let network = &proof.network;
        let inflows = &mut self.scratch.inflows;
        inflows.clear();
        if before == NONE {
            return;
        }
        for out in network.out_of(crate::fabric::SwitchId(switch)) {
            let input = network.reverse(out as u32);
            let sls = proof.sls_between(input, before);
            if sls == 0 {
                continue;
            }
            let from = network.channels[input as usize].from.0;
            let port = routes.new[from as usize][lid.index()];
            let is_same = routes.old[from as usize][lid.index()] == port;
            if is_same && routes.channel(from, port) == input {
                inflows.push((input, sls));
            }
        }
    }

    /// Takes from the inflows the SLs that no triple of the old way to the LID has: they came
    /// along for other LIDs. Returns the switches passed on the old way.
    fn narrow(&mut self, switch: u32, before: u32, to: &Destination) -> Option<u32> {
        let (routes, proof) = (self.routes, self.routes.proof);
        let mut way = [NONE; MAX_HOPS as usize];
        let (mut here, mut passed) = (switch, 1);
        while here != to.switch {
            let channel = routes.channel(here, routes.old[here as usize][to.lid.index()]);
            let step = way.get_mut(passed as usize - 1).filter(|_| channel != NONE)?;
            *step = channel;
            here = proof.packed.of(channel).to;
            passed += 1;
        }
        let way = &way[..passed as usize - 1];
        let later = way.windows(3).map(|w| proof.sls_along(w[0], w[1], w[2]));
        let later = later.fold(u16::MAX, |all, sls| all & sls);
        for (input, sls) in &mut self.scratch.inflows {
            let next = way.get(1).map_or(u16::MAX, |&next| proof.sls_along(*input, before, next));
            *sls &= later & next;
        }
        self.scratch.inflows.retain(|&(_, sls)| sls != 0);
        Some(passed)
    }

    /// Packets that went from `input` to `before` with these SLs go to `out` now.
    fn turn(&mut self, input: u32, before: u32, out: u32, wanted: u16) {
        let (triples, network) = (&self.routes.proof.triples, &self.routes.proof.network);
        let hop = network.hop_of(input);
        let out_index = network.channels[before as usize].out_index;
        let inputs = network.degree(network.channels[input as usize].from) as u16;
        for source in LOCAL_INPUT..=inputs {
            let sls = triples.get((hop.triples, hop.width), source, out_index) & wanted;
            if sls != 0 {
                self.note(input, source, out, sls);
            }
        }
    }

    /// Notes the triples of what came through a channel, up to the next changed switch, which takes
    /// it along, or to the end.
    fn follow(&mut self, mut channel: u32, flow: u16) {
        let steps = &self.routes.proof.packed;
        let stamp = self.scratch.stamp;
        loop {
            let came = steps.of(channel);
            let out = self.scratch.ways[came.to as usize].1;
            if out == NONE {
                return;
            }
            let next = self.scratch.ways[steps.of(out).to as usize].1;
            if next == NONE {
                return;
            }
            self.note(out, came.in_index + 1, next, flow);
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
    fn note(&mut self, channel: u32, input: u16, next: u32, sls: u16) {
        let proof = self.routes.proof;
        let index = proof.triple_index(channel, input, next);
        if sls & !proof.triples.at(index) == 0 {
            return;
        }
        let triple = (channel, input, proof.packed.of(next).out_index);
        self.scratch.added.entry(index).or_insert((triple, 0)).1 |= sls;
    }
}
