//! Attaches broken pairs of switches to the routes of their destination, hop by hop, while the channel
//! dependency graph stays acyclic.

use super::broken::{Detour, INTACT, ReplacedHops, UNROUTED};
use super::graph::{ChannelGraph, DependencyState};
use super::healthy::{HealthyRoutes, PathTraits, VlRule};
use super::links::{Links, NONE};
use super::load::LoadChannel;
use super::nodes::{Dependency, branch, node};
use crate::plan::routing::torus::lattice::{Lattice, Position};
use crate::plan::routing::torus::ring_directions::{NO_DIRECTION, RingDirections};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Maximum number of channels of a path, so that it has no more switches than `verify` allows.
const MAX_HOPS: u16 = 62;
/// The work of taking a candidate from the queue, in lookups of the graph.
const WORK_OF_CANDIDATE: u64 = 6;
/// The axis of an input port to which no cable between switches leads.
const LOCAL: u8 = 0;

/// What the routes of a torus follow from.
pub(super) struct RouteInputs<'a> {
    pub lattice: &'a Lattice,
    pub healthy: &'a HealthyRoutes,
    pub present: &'a Links,
    /// torus-2QoS's directions on the damaged torus.
    pub rule: &'a RingDirections,
    pub vls: VlRule,
}

/// The length of a path, and the dimensions along which packets go as a mask.
struct PathLength {
    hops: u16,
    axes: u8,
}

/// What is known of a path, with regard to a switch.
#[derive(Clone, Copy)]
enum Course {
    Unknown,
    Through,
    Elsewhere,
}

/// Routes the broken pairs of one destination after the other.
pub(super) struct Router<'a> {
    inputs: &'a RouteInputs<'a>,
    /// By position, for the destination that is loaded: the next hop, or [`INTACT`].
    ways: Vec<u8>,
    /// By position, for the destination that is loaded: number of channels of replaced paths.
    hops: Vec<u8>,
    /// By position, for the destination that is loaded: mask of the dimensions of replaced paths.
    axes: Vec<u8>,
    /// By position, while [`Router::behind`] works: what is known of the path.
    course: Vec<Course>,
    /// The positions with an entry in `course`.
    known: Vec<u32>,
    /// Dependencies of the path under way that are not in the graph.
    lacking: Vec<Dependency>,
    stack: Vec<u32>,
    queue: BinaryHeap<Reverse<(u16, u32, u8)>>,
}

impl<'a> Router<'a> {
    pub(super) fn new(inputs: &'a RouteInputs<'a>) -> Self {
        Self {
            inputs,
            ways: vec![INTACT; inputs.lattice.len()],
            hops: vec![0; inputs.lattice.len()],
            axes: vec![0; inputs.lattice.len()],
            course: vec![Course::Unknown; inputs.lattice.len()],
            known: Vec::new(),
            lacking: Vec::new(),
            stack: Vec::new(),
            queue: BinaryHeap::new(),
        }
    }

    /// Attaches broken pairs with a destination by torus-2QoS's own rule, as far as possible.
    pub(super) fn by_rule(
        &mut self,
        graph: &mut ChannelGraph,
        detours: &mut ReplacedHops,
        to: u32,
    ) {
        self.load(detours.of(to));
        graph.work += detours.of(to).len() as u64;
        for index in 0..detours.of(to).len() {
            self.follow_rule(graph, detours.of(to)[index].at, to);
        }
        self.store(detours.of_mut(to));
    }

    /// Attaches broken pairs with a destination by the shortest detours that are possible.
    pub(super) fn by_search(
        &mut self,
        graph: &mut ChannelGraph,
        detours: &mut ReplacedHops,
        to: u32,
    ) {
        if detours.of(to).iter().all(|detour| detour.way != UNROUTED) {
            return;
        }
        self.load(detours.of(to));
        graph.work += detours.of(to).len() as u64;
        self.queue.clear();
        for detour in detours.of(to).iter().filter(|detour| detour.way == UNROUTED) {
            for direction in 0..6u8 {
                let next = self.inputs.present.neighbor(detour.at, direction);
                if next != NONE && self.ways[next as usize] != UNROUTED {
                    self.queue.push(Reverse((self.length(next, to) + 1, detour.at, direction)));
                }
            }
        }
        while let Some(Reverse((length, at, direction))) = self.queue.pop() {
            graph.work += WORK_OF_CANDIDATE;
            let is_open = self.ways[at as usize] == UNROUTED;
            if !is_open || !self.attach(graph, at, to, direction) {
                continue;
            }
            for back in 0..6u8 {
                let from = self.inputs.present.neighbor(at, back);
                if from != NONE && self.ways[from as usize] == UNROUTED {
                    self.queue.push(Reverse((length + 1, from, back ^ 1)));
                }
            }
        }
        self.store(detours.of_mut(to));
    }

    pub(super) fn present(&self) -> &'a Links {
        self.inputs.present
    }

    /// The attached neighbour in a direction, if a cable leads there. The destination must be loaded.
    pub(super) fn neighbor(&self, at: u32, way: u8) -> Option<u32> {
        let next = self.inputs.present.neighbor(at, way);
        (next != NONE && self.ways[next as usize] != UNROUTED).then_some(next)
    }

    /// The channels of the path of an attached switch. The destination must be loaded.
    pub(super) fn channels(&self, from: u32, to: u32) -> Vec<LoadChannel> {
        let mut channels = Vec::with_capacity(self.length(from, to).into());
        let mut at = from;
        while at != to {
            let way = self.way(at, to);
            channels.push(LoadChannel { at, way });
            at = self.inputs.present.neighbor(at, way);
        }
        channels
    }

    /// The next hop of a switch, if it has a route. The destination must be loaded.
    pub(super) fn next(&self, at: u32, to: u32) -> Option<u8> {
        let way = self.way(at, to);
        (way != UNROUTED).then_some(way)
    }

    /// The broken switches whose paths lead through `at`, and itself if it is broken, the closest first. The
    /// destination must be loaded.
    pub(super) fn behind(&mut self, group: &[Detour], at: u32, to: u32) -> Vec<Detour> {
        let mut behind = Vec::new();
        for detour in group {
            if self.ways[detour.at as usize] != UNROUTED && self.leads_through(detour.at, at, to) {
                let index = detour.at as usize;
                let way = self.ways[index];
                let hops = self.hops[index];
                let axes = self.axes[index];
                behind.push(Detour { at: detour.at, way, hops, axes });
            }
        }
        for at in self.known.drain(..) {
            self.course[at as usize] = Course::Unknown;
        }
        behind.sort_unstable_by_key(|detour| (detour.hops, detour.at));
        behind
    }

    /// True if the path of an attached switch leads through `at`. What is found on the way is remembered in
    /// `course`.
    fn leads_through(&mut self, from: u32, at: u32, to: u32) -> bool {
        self.stack.clear();
        let mut here = from;
        let leads_through = loop {
            let way = self.ways[here as usize];
            match self.course[here as usize] {
                _ if here == at => break true,
                _ if way == INTACT => break self.inputs.healthy.passes(here, at, to),
                Course::Through => break true,
                Course::Elsewhere => break false,
                Course::Unknown => {}
            }
            self.stack.push(here);
            here = self.inputs.present.neighbor(here, way);
        };
        let course = if leads_through { Course::Through } else { Course::Elsewhere };
        for &here in &self.stack {
            self.course[here as usize] = course;
        }
        self.known.append(&mut self.stack);
        leads_through
    }

    /// Lets the first of the switches `behind` send packets in another direction, and the others after it as
    /// before; false, without a change, if that closes a cycle. The destination must be loaded.
    pub(super) fn divert(
        &mut self,
        graph: &mut ChannelGraph,
        behind: &[Detour],
        to: u32,
        way: u8,
    ) -> bool {
        for moved in behind {
            self.ways[moved.at as usize] = UNROUTED;
        }
        let first = behind.iter().take(1).map(|moved| (moved.at, way));
        let others = behind.iter().skip(1).map(|moved| (moved.at, moved.way));
        for (at, way) in first.chain(others) {
            if !self.attach(graph, at, to, way) {
                // Dependencies that are not needed any more do no harm.
                self.load(behind);
                return false;
            }
        }
        true
    }

    /// Makes the next hops of a destination known to the following calls, until they are stored.
    pub(super) fn load(&mut self, detours: &[Detour]) {
        for &Detour { at, way, hops, axes } in detours {
            self.ways[at as usize] = way;
            self.hops[at as usize] = hops;
            self.axes[at as usize] = axes;
        }
    }

    /// Stores the next hops of the destination that is loaded.
    pub(super) fn store(&mut self, detours: &mut [Detour]) {
        for detour in detours {
            detour.way = std::mem::replace(&mut self.ways[detour.at as usize], INTACT);
            detour.hops = self.hops[detour.at as usize];
            detour.axes = self.axes[detour.at as usize];
        }
    }

    /// Number of channels of the path from an attached switch.
    fn length(&self, from: u32, to: u32) -> u16 {
        match self.ways[from as usize] {
            INTACT => self.inputs.healthy.hops(from, to),
            _ => u16::from(self.hops[from as usize]),
        }
    }

    /// torus-2QoS's next hop on the damaged torus, if a cable leads there.
    fn rule(&self, at: u32, to: u32) -> Option<(u8, u32)> {
        let RouteInputs { lattice, rule, present, .. } = self.inputs;
        let way = rule.first_hop(lattice, Position(at), Position(to));
        let next = (way != NO_DIRECTION).then(|| present.neighbor(at, way));
        next.filter(|&next| next != NONE).map(|next| (way, next))
    }

    /// Attaches a switch, and before it those on its way by torus-2QoS's rule.
    fn follow_rule(&mut self, graph: &mut ChannelGraph, from: u32, to: u32) {
        self.stack.clear();
        let mut here = from;
        while self.ways[here as usize] == UNROUTED {
            let is_loop = self.stack.len() >= usize::from(MAX_HOPS);
            let Some((_, next)) = self.rule(here, to).filter(|_| !is_loop) else { return };
            self.stack.push(here);
            here = next;
            graph.work += 1;
        }
        while let Some(here) = self.stack.pop() {
            let Some((way, _)) = self.rule(here, to) else { return };
            if !self.attach(graph, here, to, way) {
                return;
            }
        }
    }

    /// The next hop of a switch.
    #[inline]
    fn way(&self, at: u32, to: u32) -> u8 {
        match self.ways[at as usize] {
            INTACT => self.inputs.healthy.next(at, to),
            way => way,
        }
    }

    /// The path of an attached switch.
    #[inline]
    fn path(&self, from: u32, to: u32) -> PathTraits {
        let healthy = self.inputs.healthy.path(from, to);
        match self.ways[from as usize] {
            INTACT => healthy,
            next => PathTraits {
                next,
                axes: self.axes[from as usize],
                hops: self.hops[from as usize].into(),
                ..healthy
            },
        }
    }

    /// Lets a switch send packets for a destination in a direction, in which the neighbour has a route;
    /// false if that closes a cycle.
    fn attach(&mut self, graph: &mut ChannelGraph, from: u32, to: u32, way: u8) -> bool {
        let Some(PathLength { hops, axes }) = self.follow(graph, from, to, way) else {
            return false;
        };
        if !graph.add_all(&self.lacking) {
            return false;
        }
        self.ways[from as usize] = way;
        self.hops[from as usize] = hops as u8;
        self.axes[from as usize] = axes;
        true
    }

    /// Follows the path that a switch gets with a first hop, and collects the dependencies that the graph
    /// lacks; `None` if it is too long or one of them is blocked.
    ///
    /// The dependencies of packets from the switches on the way are in the graph. Where the new packets
    /// have the same VLs as those from the second channel on, the walk ends.
    fn follow(
        &mut self,
        graph: &mut ChannelGraph,
        from: u32,
        to: u32,
        way: u8,
    ) -> Option<PathLength> {
        let RouteInputs { healthy, present, vls, .. } = *self.inputs;
        let sl = healthy.sl(from, to);
        let mut last = node(from, way, vls.vl(sl, LOCAL, way));
        let mut axis = way / 2;
        let mut at = present.neighbor(from, way);
        let mut reach = PathLength { hops: 1, axes: 1 << axis };
        // True if the packets of the switch before `at` have the same VLs behind `at`.
        let mut is_known = false;
        self.lacking.clear();
        while at != to {
            let path = self.path(at, to);
            if reach.hops + path.hops > MAX_HOPS {
                return None;
            }
            let vl = vls.vl(sl, axis, path.next);
            let dependency = Dependency { node: last, branch: branch(path.next, vl) };
            match graph.state(dependency) {
                DependencyState::Present => {}
                DependencyState::Absent => self.lacking.push(dependency),
                DependencyState::Blocked => return None,
            }
            let was_known = is_known;
            is_known |= (sl ^ path.sl) & path.axes == 0;
            if was_known || is_known && vl == vls.vl(path.sl, LOCAL, path.next) {
                reach.axes |= path.axes;
                reach.hops += path.hops;
                return Some(reach);
            }
            last = node(at, path.next, vl);
            axis = path.next / 2;
            reach.axes |= 1 << axis;
            reach.hops += 1;
            at = present.neighbor(at, path.next);
        }
        Some(reach)
    }
}
