//! Output port selection at one switch.
//!
//! The switch counts the paths on each of its ports. A destination gets the port on a shortest path
//! with the fewest paths; among equals, the first in search order. With LMC > 0, further LIDs of an
//! end port prefer a port to a system, then to a node, that carries no other LID of that end port.

use super::hops::{HopMatrix, NO_PATH, SwitchGraph};
use super::order::Destination;
use super::random::Random;
use super::search::SearchOrders;
use crate::fabric::{Fabric, NodeId, SwitchId};
use crate::ids::{Guid, Lid};
use crate::plan::routing::Lft;
use std::collections::HashSet;

/// The input common to all switches.
pub(super) struct RoutingContext<'a> {
    pub fabric: &'a Fabric,
    pub graph: &'a SwitchGraph,
    pub hops: &'a HopMatrix,
    pub destinations: &'a [Destination],
    /// The highest assigned LID.
    pub max_lid: Lid,
    /// The largest number of LIDs of any end port.
    pub lids_per_port: u16,
    pub search: &'a SearchOrders,
    /// Ports whose paths are not counted.
    pub ignored: &'a HashSet<(SwitchId, u8)>,
    /// True if paths to switches are counted as well.
    pub count_switches: bool,
    pub port_shifting: bool,
}

/// A port that leads to another switch.
struct OutputPort {
    port: u8,
    /// Position in the search order.
    position: u16,
    node: NodeId,
    system: Guid,
    /// True if paths through this port are counted.
    counted: bool,
}

/// A neighbour node that carries LIDs of a destination.
struct UsedNeighbour {
    node: NodeId,
    system: Guid,
    /// Number of LIDs.
    lids: u32,
}

/// Routes one switch.
pub(super) struct SwitchRouter<'a> {
    context: &'a RoutingContext<'a>,
    switch: SwitchId,
    /// The ports to other switches, in search order.
    outputs: Vec<OutputPort>,
    /// Counted paths, by output.
    paths: Vec<u32>,
    /// The outputs on shortest paths as bit sets of `words` words, by destination switch.
    shortest: Vec<u64>,
    words: usize,
    /// The neighbours used by destination; empty with LMC 0.
    used: Vec<Vec<UsedNeighbour>>,
    /// The outputs on shortest paths for the LID at hand (reused buffer).
    candidates: Vec<u8>,
}

impl<'a> SwitchRouter<'a> {
    pub(super) fn new(context: &'a RoutingContext<'a>, switch: SwitchId) -> Self {
        let outputs = outputs(context, switch);
        let words = outputs.len().div_ceil(64);
        let mut router = Self {
            context,
            switch,
            paths: vec![0; outputs.len()],
            shortest: vec![0; words * context.graph.len()],
            words,
            outputs,
            used: Vec::new(),
            candidates: Vec::new(),
        };
        if context.lids_per_port > 1 {
            router.used.resize_with(context.destinations.len(), Vec::new);
        }
        router.find_shortest();
        router
    }

    /// Fills `shortest`: an output is on a shortest path if its weight plus the distance from its
    /// neighbour equals the distance from this switch.
    fn find_shortest(&mut self) {
        let own = self.context.hops.row(self.switch);
        for link in self.context.graph.links(self.switch) {
            let Some(output) = self.outputs.iter().position(|output| output.port == link.port)
            else {
                continue;
            };
            let (word, bit) = (output / 64, output % 64);
            let sets = self.shortest.chunks_exact_mut(self.words);
            let behind = self.context.hops.row(link.to);
            for ((set, &far), &near) in sets.zip(behind).zip(own) {
                let fits = near != NO_PATH && far.checked_add(link.weight) == Some(near);
                set[word] |= u64::from(fits) << bit;
            }
        }
    }

    /// Routes all destinations. Entries of `kept` stay if they are still on shortest paths. With
    /// `random`, ports of destinations that allow it are chosen at random.
    pub(super) fn route(mut self, kept: Option<&Lft>, mut random: Option<&mut Random>) -> Lft {
        let mut lft = Lft::empty(self.context.max_lid);
        for offset in 0..self.context.lids_per_port {
            for (index, destination) in self.context.destinations.iter().enumerate() {
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
                if let Some(output) = self.choose(index, kept, draw) {
                    lft.0[lid.index()] = self.outputs[usize::from(output)].port;
                    self.count(index, output);
                }
            }
        }
        lft
    }

    /// Collects the outputs on shortest paths to `target`, in search order beginning at position
    /// `start` and wrapping around.
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
            let positions = usize::from(self.context.fabric.switch(self.switch).num_ports()) + 1;
            let start = (start % positions) as u16;
            let before = |&output: &u8| self.outputs[usize::from(output)].position < start;
            let turn = self.candidates.iter().take_while(|output| before(output)).count();
            self.candidates.rotate_left(turn);
        }
    }

    fn choose(
        &mut self,
        destination: usize,
        kept: Option<u8>,
        draw: Option<&mut Random>,
    ) -> Option<u8> {
        let is_kept = |&&output: &&u8| Some(self.outputs[usize::from(output)].port) == kept;
        if let Some(&output) = self.candidates.iter().find(is_kept) {
            return Some(output);
        }
        if let Some(random) = draw {
            return self.choose_at_random(random);
        }
        if self.context.port_shifting && !self.candidates.is_empty() {
            let paths = self.candidates.iter().map(|&output| self.paths[usize::from(output)]);
            let total = paths.fold(0u32, u32::wrapping_add) as usize;
            let candidates = self.candidates.len();
            self.candidates.rotate_left(total / candidates % candidates);
        }
        let least = |outputs: &mut dyn Iterator<Item = u8>| {
            outputs.min_by_key(|&output| self.paths[usize::from(output)])
        };
        let Some(used) = self.used.get(destination) else {
            return least(&mut self.candidates.iter().copied());
        };
        let outputs =
            || self.candidates.iter().map(|&output| (output, &self.outputs[usize::from(output)]));
        let is_new_system =
            |output: &OutputPort| used.iter().all(|used| used.system != output.system);
        let is_new_node = |output: &OutputPort| used.iter().all(|used| used.node != output.node);
        least(&mut outputs().filter(|(_, output)| is_new_system(output)).map(|(index, _)| index))
            .or_else(|| {
                least(
                    &mut outputs()
                        .filter(|(_, output)| is_new_node(output))
                        .map(|(index, _)| index),
                )
            })
            .or_else(|| self.choose_least_used(used))
    }

    /// Chooses at random among the outputs with the fewest paths.
    fn choose_at_random(&mut self, random: &mut Random) -> Option<u8> {
        let paths = |output: &u8| self.paths[usize::from(*output)];
        let fewest = self.candidates.iter().map(paths).min()?;
        let equal = || self.candidates.iter().filter(|output| paths(output) == fewest);
        equal().nth(random.draw() as usize % equal().count()).copied()
    }

    /// Chooses the output with the fewest paths if all neighbours are used. Among outputs with
    /// equal counts, a later one is taken if its neighbour carries fewer LIDs than that of any
    /// output taken before it.
    fn choose_least_used(&self, used: &[UsedNeighbour]) -> Option<u8> {
        let mut best = None;
        let (mut fewest_paths, mut fewest_lids) = (u32::MAX, u32::MAX);
        for &output in &self.candidates {
            let paths = self.paths[usize::from(output)];
            let node = self.outputs[usize::from(output)].node;
            let lids = used.iter().find(|used| used.node == node).map_or(0, |used| used.lids);
            if paths < fewest_paths || paths == fewest_paths && lids < fewest_lids {
                best = Some(output);
                fewest_paths = paths;
                fewest_lids = fewest_lids.min(lids);
            }
        }
        best
    }

    fn count(&mut self, destination: usize, output: u8) {
        let is_switch = self.context.destinations[destination].is_switch();
        let OutputPort { node, system, counted, .. } = self.outputs[usize::from(output)];
        if !counted || is_switch && !self.context.count_switches {
            return;
        }
        self.paths[usize::from(output)] += 1;
        let Some(used) = self.used.get_mut(destination) else { return };
        match used.iter_mut().find(|used| used.node == node) {
            Some(used) => used.lids += 1,
            None => used.push(UsedNeighbour { node, system, lids: 1 }),
        }
    }
}

/// The ports of a switch that lead to other switches, in search order.
fn outputs(context: &RoutingContext<'_>, switch: SwitchId) -> Vec<OutputPort> {
    let links = context.graph.links(switch).iter();
    let mut outputs: Vec<_> = links
        .map(|link| OutputPort {
            port: link.port,
            position: context.search.position(switch, link.port),
            node: context.fabric.switches()[link.to.index()],
            system: context.fabric.switch(link.to).info.system_guid(),
            counted: !context.ignored.contains(&(switch, link.port)),
        })
        .collect();
    outputs.sort_by_key(|output| output.position);
    outputs
}
