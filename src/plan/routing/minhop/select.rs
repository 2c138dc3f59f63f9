//! One switch: which of the ports on shortest paths a LID gets.
//!
//! Every switch decides for itself: it counts the paths it has put on each of its ports and
//! gives the next destination the port with the fewest, the first in search order among equals.
//! With several LIDs to a port (LMC > 0) a further LID prefers a port towards a system, then
//! towards a node, that no other LID of the same port goes through.

use super::hops::{HopMatrix, NO_PATH, SwitchGraph};
use super::order::Destination;
use super::random::Random;
use super::search::SearchOrders;
use crate::fabric::{Fabric, NodeId, SwitchId};
use crate::ids::{Guid, Lid};
use crate::plan::routing::Lft;
use std::collections::HashSet;

/// What all switches are routed with.
pub(super) struct Pass<'a> {
    pub fabric: &'a Fabric,
    pub graph: &'a SwitchGraph,
    pub hops: &'a HopMatrix,
    pub destinations: &'a [Destination],
    /// The highest LID in use.
    pub max_lid: Lid,
    /// LIDs of the end port that has the most.
    pub lids_per_port: u16,
    pub search: &'a SearchOrders,
    /// Ports that are not counted.
    pub ignored: &'a HashSet<(SwitchId, u8)>,
    /// Count paths to switches, too.
    pub count_switches: bool,
    pub port_shifting: bool,
}

/// A port towards another switch.
struct Exit {
    port: u8,
    /// Its place in the search order.
    place: u16,
    node: NodeId,
    system: Guid,
    /// Paths through it are counted.
    counted: bool,
}

/// A node through which LIDs of a destination already go.
struct Used {
    node: NodeId,
    system: Guid,
    /// Number of LIDs.
    lids: u32,
}

/// A switch while it is being routed.
pub(super) struct SwitchRouter<'a> {
    pass: &'a Pass<'a>,
    switch: SwitchId,
    /// In search order.
    exits: Vec<Exit>,
    /// By exit: paths put on it.
    paths: Vec<u32>,
    /// By destination switch, `words` each: the set of exits on shortest paths.
    shortest: Vec<u64>,
    words: usize,
    /// By destination, if LIDs of a port are to be kept apart: what they go through.
    used: Vec<Vec<Used>>,
    /// The exits a LID may take; scratch.
    candidates: Vec<u8>,
}

impl<'a> SwitchRouter<'a> {
    /// Prepares a switch.
    pub(super) fn new(pass: &'a Pass<'a>, switch: SwitchId) -> Self {
        let exits = exits(pass, switch);
        let words = exits.len().div_ceil(64);
        let mut router = Self {
            pass,
            switch,
            paths: vec![0; exits.len()],
            shortest: vec![0; words * pass.graph.len()],
            words,
            exits,
            used: Vec::new(),
            candidates: Vec::new(),
        };
        if pass.lids_per_port > 1 {
            router.used.resize_with(pass.destinations.len(), Vec::new);
        }
        router.find_shortest();
        router
    }

    /// An exit is on a shortest path if the distance behind it and its weight make up the
    /// distance from here.
    fn find_shortest(&mut self) {
        let own = self.pass.hops.row(self.switch);
        for link in self.pass.graph.links(self.switch) {
            let Some(exit) = self.exits.iter().position(|exit| exit.port == link.port) else {
                continue;
            };
            let (word, bit) = (exit / 64, exit % 64);
            let sets = self.shortest.chunks_exact_mut(self.words);
            let behind = self.pass.hops.row(link.to);
            for ((set, &far), &near) in sets.zip(behind).zip(own) {
                let fits = near != NO_PATH && far.checked_add(link.weight) == Some(near);
                set[word] |= u64::from(fits) << bit;
            }
        }
    }

    /// Routes all destinations. `kept` is a table whose entries stay where they are still on
    /// shortest paths; ports are drawn from `random` where the destination allows it.
    pub(super) fn route(mut self, kept: Option<&Lft>, mut random: Option<&mut Random>) -> Lft {
        let mut lft = Lft::empty(self.pass.max_lid);
        for offset in 0..self.pass.lids_per_port {
            for (index, destination) in self.pass.destinations.iter().enumerate() {
                if offset >= destination.lids {
                    continue;
                }
                let lid = Lid(destination.base.0 + offset);
                if destination.switch == self.switch {
                    lft.0[lid.index()] = destination.port;
                    continue;
                }
                let start = match offset {
                    0 => 1,
                    _ => usize::from(lft.0[lid.index() - 1]) + 1,
                };
                self.collect_candidates(destination.switch, start);
                let draw =
                    if offset == 0 && destination.scatter { random.as_deref_mut() } else { None };
                let kept = kept.and_then(|lft| lft.out(lid));
                if let Some(exit) = self.choose(index, kept, draw) {
                    lft.0[lid.index()] = self.exits[usize::from(exit)].port;
                    self.count(index, exit);
                }
            }
        }
        lft
    }

    /// Collects the exits on shortest paths to `target`, in search order from place `start`
    /// on, round the corner.
    fn collect_candidates(&mut self, target: SwitchId, start: usize) {
        self.candidates.clear();
        let set = &self.shortest[target.index() * self.words..][..self.words];
        for (word, &bits) in set.iter().enumerate() {
            let mut bits = bits;
            while bits != 0 {
                self.candidates.push((word * 64) as u8 + bits.trailing_zeros() as u8);
                bits &= bits - 1;
            }
        }
        if start > 1 {
            let places = usize::from(self.pass.fabric.switch(self.switch).num_ports()) + 1;
            let start = (start % places) as u16;
            let before = |&exit: &u8| self.exits[usize::from(exit)].place < start;
            let turn = self.candidates.iter().take_while(|exit| before(exit)).count();
            self.candidates.rotate_left(turn);
        }
    }

    fn choose(
        &mut self,
        destination: usize,
        kept: Option<u8>,
        draw: Option<&mut Random>,
    ) -> Option<u8> {
        let is_kept = |&&exit: &&u8| Some(self.exits[usize::from(exit)].port) == kept;
        if let Some(&exit) = self.candidates.iter().find(is_kept) {
            return Some(exit);
        }
        if let Some(random) = draw {
            return self.choose_at_random(random);
        }
        if self.pass.port_shifting && !self.candidates.is_empty() {
            let paths = self.candidates.iter().map(|&exit| self.paths[usize::from(exit)]);
            let total = paths.fold(0u32, u32::wrapping_add) as usize;
            let candidates = self.candidates.len();
            self.candidates.rotate_left(total / candidates % candidates);
        }
        let least = |exits: &mut dyn Iterator<Item = u8>| {
            exits.min_by_key(|&exit| self.paths[usize::from(exit)])
        };
        let Some(used) = self.used.get(destination) else {
            return least(&mut self.candidates.iter().copied());
        };
        let exits = || self.candidates.iter().map(|&exit| (exit, &self.exits[usize::from(exit)]));
        let is_new_system = |exit: &Exit| used.iter().all(|used| used.system != exit.system);
        let is_new_node = |exit: &Exit| used.iter().all(|used| used.node != exit.node);
        least(&mut exits().filter(|(_, exit)| is_new_system(exit)).map(|(index, _)| index))
            .or_else(|| {
                least(&mut exits().filter(|(_, exit)| is_new_node(exit)).map(|(index, _)| index))
            })
            .or_else(|| self.choose_least_used(used))
    }

    /// One of the exits with the fewest paths.
    fn choose_at_random(&mut self, random: &mut Random) -> Option<u8> {
        let paths = |exit: &u8| self.paths[usize::from(*exit)];
        let fewest = self.candidates.iter().map(paths).min()?;
        let equal = || self.candidates.iter().filter(|exit| paths(exit) == fewest);
        equal().nth(random.draw() as usize % equal().count()).copied()
    }

    /// The exit with the fewest paths where all lead to nodes in use. Among equals one counts
    /// if fewer LIDs go through its node than through that of any exit preferred before it.
    fn choose_least_used(&self, used: &[Used]) -> Option<u8> {
        let mut best = None;
        let (mut fewest_paths, mut fewest_lids) = (u32::MAX, u32::MAX);
        for &exit in &self.candidates {
            let paths = self.paths[usize::from(exit)];
            let node = self.exits[usize::from(exit)].node;
            let lids = used.iter().find(|used| used.node == node).map_or(0, |used| used.lids);
            if paths < fewest_paths || paths == fewest_paths && lids < fewest_lids {
                best = Some(exit);
                fewest_paths = paths;
                fewest_lids = fewest_lids.min(lids);
            }
        }
        best
    }

    fn count(&mut self, destination: usize, exit: u8) {
        let is_switch = self.pass.destinations[destination].is_switch();
        let Exit { node, system, counted, .. } = self.exits[usize::from(exit)];
        if !counted || is_switch && !self.pass.count_switches {
            return;
        }
        self.paths[usize::from(exit)] += 1;
        let Some(used) = self.used.get_mut(destination) else { return };
        match used.iter_mut().find(|used| used.node == node) {
            Some(used) => used.lids += 1,
            None => used.push(Used { node, system, lids: 1 }),
        }
    }
}

/// The ports of a switch towards other switches, in search order.
fn exits(pass: &Pass<'_>, switch: SwitchId) -> Vec<Exit> {
    let links = pass.graph.links(switch).iter();
    let mut exits: Vec<_> = links
        .map(|link| Exit {
            port: link.port,
            place: pass.search.place(switch, link.port),
            node: pass.fabric.switches()[link.to.index()],
            system: pass.fabric.switch(link.to).info.system_guid(),
            counted: !pass.ignored.contains(&(switch, link.port)),
        })
        .collect();
    exits.sort_by_key(|exit| exit.place);
    exits
}
