//! The shortest paths between switches: for each destination, the next switch of each switch.
//!
//! A breadth-first search from each switch gives a tree. The route from a switch to a destination
//! is the one of the first tree in which the destination is below the switch. Trees are searched in
//! parallel, and so are the routes of different destinations.
//!
//! Switches are numbered in OpenSM's order, by byte-swapped GUID; neighbours of a switch in the
//! order of their first ports. The mesh analysis changes both orders.

use crate::fabric::{Fabric, SwitchId};
use crate::plan::routing::switch_graph::SwitchGraph;
use rayon::prelude::*;
use std::collections::VecDeque;

/// No neighbour.
pub(super) const NONE: u8 = u8::MAX;

/// A neighbour of a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Neighbour {
    /// Number of the switch.
    pub switch: u32,
    /// The first port that leads there.
    pub port: u8,
    /// The place of this switch among the neighbours of the other one.
    pub back: u8,
}

/// The switches with their neighbours.
pub(super) struct Neighbours {
    /// Switches by number.
    pub switches: Vec<SwitchId>,
    /// Numbers by [`SwitchId`].
    pub numbers: Vec<u32>,
    all: Vec<Neighbour>,
    first: Vec<u32>,
}

impl Neighbours {
    pub(super) fn new(fabric: &Fabric, graph: &SwitchGraph) -> Self {
        let mut switches: Vec<_> = fabric.switch_ids().collect();
        switches.sort_by_cached_key(|&switch| fabric.switch(switch).guid().opensm_order());
        let mut numbers = vec![0; switches.len()];
        for (number, switch) in (0..).zip(&switches) {
            numbers[switch.index()] = number;
        }
        let mut own = Self { switches, numbers, all: Vec::new(), first: vec![0] };
        for index in 0..own.switches.len() {
            own.add(graph, own.switches[index]);
        }
        own.find_backs();
        own
    }

    /// The same neighbours in another order: `order` holds the numbers of the switches in the new
    /// order, `places` gives the places of the neighbours of a switch in their new order.
    pub(super) fn reordered(&self, order: &[u32], places: impl Fn(u32) -> Vec<usize>) -> Self {
        let mut new_numbers = vec![0; self.len()];
        for (new, &old) in (0..).zip(order) {
            new_numbers[old as usize] = new;
        }
        let mut new = Self {
            switches: order.iter().map(|&old| self.switches[old as usize]).collect(),
            numbers: self.numbers.iter().map(|&old| new_numbers[old as usize]).collect(),
            all: Vec::with_capacity(self.all.len()),
            first: vec![0],
        };
        for &old in order {
            let neighbours = places(old).into_iter().map(|place| self.of(old)[place]);
            new.all.extend(neighbours.map(|neighbour| Neighbour {
                switch: new_numbers[neighbour.switch as usize],
                ..neighbour
            }));
            new.first.push(new.all.len() as u32);
        }
        new.find_backs();
        new
    }

    fn find_backs(&mut self) {
        for from in 0..self.len() as u32 {
            for place in 0..self.of(from).len() {
                let to = self.of(from)[place].switch;
                let back = self.of(to).iter().position(|other| other.switch == from);
                let index = self.channel(from, place as u8) as usize;
                self.all[index].back = back.map_or(NONE, |back| back as u8);
            }
        }
    }

    fn add(&mut self, graph: &SwitchGraph, switch: SwitchId) {
        let first = self.all.len();
        for link in graph.links(switch) {
            let to = self.numbers[link.to.index()];
            if self.all[first..].iter().all(|other| other.switch != to) {
                self.all.push(Neighbour { switch: to, port: link.port, back: NONE });
            }
        }
        self.first.push(self.all.len() as u32);
    }

    /// Number of switches.
    pub(super) fn len(&self) -> usize {
        self.switches.len()
    }

    /// The neighbours of a switch.
    pub(super) fn of(&self, switch: u32) -> &[Neighbour] {
        &self.all[self.channel(switch, 0) as usize..self.first[switch as usize + 1] as usize]
    }

    /// The number of the channel from a switch to one of its neighbours.
    pub(super) fn channel(&self, switch: u32, neighbour: u8) -> u32 {
        self.first[switch as usize] + u32::from(neighbour)
    }

    /// Number of channels.
    pub(super) fn channels(&self) -> usize {
        self.all.len()
    }

    /// The neighbour at the end of a channel.
    pub(super) fn end(&self, channel: u32) -> Neighbour {
        self.all[channel as usize]
    }
}

/// The next hop of all switches to all switches.
pub(super) struct Paths {
    switches: usize,
    /// By destination, then by switch: the place of the next switch among the neighbours.
    next: Vec<u8>,
}

impl Paths {
    pub(super) fn new(neighbours: &Neighbours) -> Self {
        let switches = neighbours.len();
        // By root, then by switch: the place of the parent among the neighbours of the switch.
        let mut parents = vec![NONE; switches * switches];
        let mut next = parents.clone();
        if switches == 0 {
            return Self { switches, next };
        }
        let trees = parents.par_chunks_exact_mut(switches).zip(0..switches as u32);
        trees.for_each(|(parents, root)| search(neighbours, root, parents));
        let destinations = next.par_chunks_exact_mut(switches).zip(0..switches as u32);
        destinations.for_each(|(next, destination)| {
            for tree in parents.chunks_exact(switches) {
                climb(neighbours, tree, destination, next);
            }
        });
        Self { switches, next }
    }

    /// The next hops of all switches to a destination, by switch.
    pub(super) fn to(&self, destination: u32) -> &[u8] {
        &self.next[destination as usize * self.switches..][..self.switches]
    }
}

/// A breadth-first search, which tries neighbours in order.
fn search(neighbours: &Neighbours, root: u32, parents: &mut [u8]) {
    let mut queue = VecDeque::from([root]);
    while let Some(switch) = queue.pop_front() {
        for neighbour in neighbours.of(switch) {
            let parent = &mut parents[neighbour.switch as usize];
            if *parent == NONE && neighbour.switch != root {
                *parent = neighbour.back;
                queue.push_back(neighbour.switch);
            }
        }
    }
}

/// Sets the next hops of the switches above the destination in a tree that have none yet.
fn climb(neighbours: &Neighbours, parents: &[u8], destination: u32, next: &mut [u8]) {
    let mut below = destination;
    loop {
        let parent = parents[below as usize];
        if parent == NONE {
            return;
        }
        let up = neighbours.of(below)[usize::from(parent)];
        let next = &mut next[up.switch as usize];
        if *next == NONE {
            *next = up.back;
        }
        below = up.switch;
    }
}
