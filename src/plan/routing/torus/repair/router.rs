//! Attaches broken pairs of switches to the routes of their destination, hop by hop, while the channel
//! dependency graph stays acyclic.

use super::broken::{Detour, Detours, INTACT, UNROUTED};
use super::graph::{Added, ChannelGraph, Dependency, branch, node};
use super::healthy::HealthyRoutes;
use super::links::{Links, NONE};
use crate::plan::routing::torus::lattice::{Lattice, Position};
use crate::plan::routing::torus::ring_directions::{NO_DIRECTION, RingDirections};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Maximum number of channels of a path, so that it has no more switches than `verify` allows.
const MAX_HOPS: u8 = 62;
/// The axis of an input port to which no cable between switches leads.
const LOCAL: u8 = 0;

/// What the routes of a torus follow from.
pub(super) struct RouteInputs<'a> {
    pub lattice: &'a Lattice,
    pub healthy: &'a HealthyRoutes,
    pub present: &'a Links,
    /// torus-2QoS's directions on the damaged torus.
    pub rule: &'a RingDirections,
    /// True if turns back to an earlier dimension have VLs of their own.
    pub has_turn_vls: bool,
}

impl RouteInputs<'_> {
    /// The VL of packets with the dateline bits `sl` that leave in a direction, after they came along
    /// `axis`.
    #[inline]
    pub(super) fn vl(&self, sl: u8, axis: u8, direction: u8) -> u8 {
        let turns_back = self.has_turn_vls && axis > direction / 2;
        sl >> (direction / 2) & 1 | u8::from(turns_back) << 1
    }
}

/// Routes the broken pairs of one destination after the other.
pub(super) struct Router<'a> {
    inputs: &'a RouteInputs<'a>,
    /// By position, for the destination that is loaded: the next hop, or [`INTACT`].
    ways: Vec<u8>,
    /// By position, for the destination that is loaded: number of channels of replaced paths.
    hops: Vec<u8>,
    /// Dependencies added by the attempt under way.
    added: Vec<Dependency>,
    stack: Vec<u32>,
    queue: BinaryHeap<Reverse<(u16, u32, u8)>>,
}

impl<'a> Router<'a> {
    pub(super) fn new(inputs: &'a RouteInputs<'a>) -> Self {
        Self {
            inputs,
            ways: vec![INTACT; inputs.lattice.len()],
            hops: vec![0; inputs.lattice.len()],
            added: Vec::new(),
            stack: Vec::new(),
            queue: BinaryHeap::new(),
        }
    }

    /// Attaches broken pairs with a destination by torus-2QoS's own rule, as far as possible.
    pub(super) fn by_rule(&mut self, graph: &mut ChannelGraph<'_>, detours: &mut Detours, to: u32) {
        self.load(detours.of(to));
        for index in 0..detours.of(to).len() {
            self.follow_rule(graph, detours.of(to)[index].at, to);
        }
        self.store(detours.of_mut(to));
    }

    /// Attaches broken pairs with a destination by the shortest detours that are possible.
    pub(super) fn by_search(
        &mut self,
        graph: &mut ChannelGraph<'_>,
        detours: &mut Detours,
        to: u32,
    ) {
        if detours.of(to).iter().all(|detour| detour.way != UNROUTED) {
            return;
        }
        self.load(detours.of(to));
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

    fn load(&mut self, detours: &[Detour]) {
        for &Detour { at, way, hops } in detours {
            self.ways[at as usize] = way;
            self.hops[at as usize] = hops;
        }
    }

    fn store(&mut self, detours: &mut [Detour]) {
        for detour in detours {
            detour.way = std::mem::replace(&mut self.ways[detour.at as usize], INTACT);
            detour.hops = self.hops[detour.at as usize];
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
    fn follow_rule(&mut self, graph: &mut ChannelGraph<'_>, from: u32, to: u32) {
        self.stack.clear();
        let mut here = from;
        while self.ways[here as usize] == UNROUTED {
            let is_loop = self.stack.len() >= usize::from(MAX_HOPS);
            let Some((_, next)) = self.rule(here, to).filter(|_| !is_loop) else { return };
            self.stack.push(here);
            here = next;
        }
        while let Some(here) = self.stack.pop() {
            let Some((way, _)) = self.rule(here, to) else { return };
            if !self.attach(graph, here, to, way) {
                return;
            }
        }
    }

    /// Lets a switch send packets for a destination in a direction, in which the neighbour has a route;
    /// false if that closes a cycle.
    fn attach(&mut self, graph: &mut ChannelGraph<'_>, from: u32, to: u32, way: u8) -> bool {
        let RouteInputs { healthy, present, .. } = *self.inputs;
        let sl = healthy.sl(from, to);
        let mut at = from;
        let mut direction = way;
        let mut axis = LOCAL;
        let mut last = None;
        self.added.clear();
        for hops in 1..=MAX_HOPS {
            let vl = self.inputs.vl(sl, axis, direction);
            if let Some(node) = last {
                let dependency = Dependency { node, branch: branch(direction, vl) };
                match graph.add(dependency) {
                    Added::Present => {}
                    Added::New => self.added.push(dependency),
                    Added::Cycle => {
                        // Only dependencies that stay prove that this one will never be possible.
                        if self.added.is_empty() {
                            graph.block(dependency);
                        }
                        break;
                    }
                }
            }
            last = Some(node(at, direction, vl));
            axis = direction / 2;
            at = present.neighbor(at, direction);
            if at == to {
                self.ways[from as usize] = way;
                self.hops[from as usize] = hops;
                return true;
            }
            direction = match self.ways[at as usize] {
                INTACT => healthy.next(at, to),
                way => way,
            };
        }
        graph.remove(&self.added);
        false
    }
}
