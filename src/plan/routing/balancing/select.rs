//! Output port selection at one switch.
//!
//! The switch counts the paths on each of its ports. A destination gets the port on a shortest path
//! with the fewest paths; among equals, the first in search order. With LMC > 0, further LIDs of an
//! end port prefer a port to a system, then to a node, that carries no other LID of that end port.

use super::hops::BestLinks;
use super::order::Destination;
use super::port_set::SmallSet;
use super::random::Random;
use super::search::SearchOrders;
use crate::fabric::{Fabric, NodeId, SwitchId};
use crate::ids::{Guid, Lid};
use crate::plan::routing::Lft;
use crate::plan::routing::switch_graph::SwitchGraph;
use std::collections::HashSet;

/// The input common to all switches.
pub(super) struct RoutingContext<'a> {
    pub fabric: &'a Fabric,
    pub graph: &'a SwitchGraph,
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
    /// True if only ports to the neighbour of the first suitable port are used.
    pub dimension_order: bool,
}

/// A port that leads to another switch.
struct OutputPort {
    port: u8,
    /// Position in the search order.
    position: u16,
    node: NodeId,
    /// Port of the neighbour with `dimension_order`, else 0.
    remote_port: u8,
    system: Guid,
    /// True if paths through this port are counted.
    counted: bool,
}

/// A neighbour node that carries LIDs of a destination.
struct UsedNeighbour {
    node: NodeId,
    /// Port of the neighbour with `dimension_order`, else 0.
    port: u8,
    system: Guid,
    /// Number of LIDs.
    lids: u32,
}

impl OutputPort {
    fn end(&self) -> (NodeId, u8) {
        (self.node, self.remote_port)
    }
}

impl UsedNeighbour {
    fn end(&self) -> (NodeId, u8) {
        (self.node, self.port)
    }
}

/// The result for one switch.
#[derive(Default)]
pub(super) struct RoutedSwitch {
    /// Its forwarding table.
    pub entries: Vec<u8>,
    /// The first host and the first switch without an entry, as indexes of `destinations`.
    pub missing: [Option<usize>; 2],
}

/// Records that a destination has no entry.
fn miss(missing: &mut [Option<usize>; 2], index: usize, destination: &Destination) {
    missing[usize::from(destination.is_switch())].get_or_insert(index);
}

/// Routes one switch.
pub(super) struct SwitchRouter<'a, S> {
    context: &'a RoutingContext<'a>,
    switch: SwitchId,
    /// The ports to other switches, in search order.
    outputs: Vec<OutputPort>,
    /// Counted paths, by output.
    paths: Vec<u32>,
    /// The outputs with the least hops, by destination switch.
    best: Vec<S>,
    /// The neighbours used by destination; empty with LMC 0.
    used: Vec<Vec<UsedNeighbour>>,
    /// The outputs with the least hops for the LID at hand (reused buffer).
    candidates: Vec<u8>,
}

impl<'a, S: SmallSet> SwitchRouter<'a, S> {
    pub(super) fn new(
        context: &'a RoutingContext<'a>,
        hops: &dyn BestLinks<S>,
        switch: SwitchId,
    ) -> Self {
        let (outputs, order) = outputs(context, switch);
        let mut best = vec![S::default(); context.graph.len()];
        hops.fill(switch, &mut best);
        if let Some(order) = order {
            for set in &mut best {
                let mut sorted = S::default();
                set.iter().for_each(|link| sorted.insert_if(order[usize::from(link)], true));
                *set = sorted;
            }
        }
        let mut router = Self {
            context,
            switch,
            paths: vec![0; outputs.len()],
            best,
            outputs,
            used: Vec::new(),
            candidates: Vec::new(),
        };
        if context.lids_per_port > 1 {
            router.used.resize_with(context.destinations.len(), Vec::new);
        }
        router
    }

    /// Routes all destinations. Entries of `kept` stay if they still have the least hops. With
    /// `random`, ports of destinations that allow it are chosen at random.
    pub(super) fn route(self, kept: Option<&Lft>, random: Option<&mut Random>) -> RoutedSwitch {
        let context = self.context;
        let is_simple = context.lids_per_port == 1 && random.is_none() && !context.port_shifting;
        if is_simple && !context.dimension_order {
            self.route_by_paths_only(kept)
        } else {
            self.route_by_all_rules(kept, random)
        }
    }

    /// [`Self::route`] without the options that need more than the number of paths per port.
    fn route_by_paths_only(mut self, kept: Option<&Lft>) -> RoutedSwitch {
        let mut routed = RoutedSwitch {
            entries: Lft::unused_entries(self.context.max_lid),
            ..RoutedSwitch::default()
        };
        for (index, destination) in self.context.destinations.iter().enumerate() {
            let entry = &mut routed.entries[destination.base.index()];
            if destination.switch == self.switch {
                *entry = destination.port;
                continue;
            }
            let set = self.best[destination.switch.index()];
            let kept = kept.and_then(|lft| self.number_of(lft.out(destination.base)?));
            let paths = &self.paths;
            let Some(output) = kept
                .filter(|&output| set.contains(output))
                .or_else(|| set.iter().min_by_key(|&output| paths[usize::from(output)]))
            else {
                miss(&mut routed.missing, index, destination);
                continue;
            };
            let port = &self.outputs[usize::from(output)];
            *entry = port.port;
            let is_counted =
                port.counted && (!destination.is_switch() || self.context.count_switches);
            self.paths[usize::from(output)] += u32::from(is_counted);
        }
        routed
    }

    /// The number of the output with this port.
    fn number_of(&self, port: u8) -> Option<u8> {
        let number = self.outputs.iter().position(|output| output.port == port);
        number.map(|number| number as u8)
    }

    fn route_by_all_rules(
        mut self,
        kept: Option<&Lft>,
        mut random: Option<&mut Random>,
    ) -> RoutedSwitch {
        let mut entries = Lft::unused_entries(self.context.max_lid);
        let mut missing = [None; 2];
        for offset in 0..self.context.lids_per_port {
            for (index, destination) in self.context.destinations.iter().enumerate() {
                if offset >= destination.lids {
                    continue;
                }
                let lid = Lid(destination.base.0 + offset);
                if destination.switch == self.switch {
                    entries[lid.index()] = destination.port;
                    continue;
                }
                let start = match offset {
                    0 => 1,
                    _ if self.context.dimension_order => 1,
                    _ => usize::from(entries[lid.index() - 1]) + 1,
                };
                self.collect_candidates(destination.switch, start);
                let draw =
                    if offset == 0 && destination.scatter { random.as_deref_mut() } else { None };
                let kept = kept.and_then(|lft| lft.out(lid));
                match self.choose(index, kept, draw) {
                    Some(output) => {
                        entries[lid.index()] = self.outputs[usize::from(output)].port;
                        self.count(index, output);
                    }
                    None => miss(&mut missing, index, destination),
                }
            }
        }
        RoutedSwitch { entries, missing }
    }

    /// Collects the outputs with the least hops to `target`, in search order beginning at position
    /// `start` and wrapping around.
    fn collect_candidates(&mut self, target: SwitchId, start: usize) {
        self.candidates.clear();
        self.candidates.extend(self.best[target.index()].iter());
        if start > 1 {
            let positions = usize::from(self.context.fabric.switch(self.switch).num_ports()) + 1;
            let start = (start % positions) as u16;
            let turn = self
                .candidates
                .iter()
                .take_while(|output| is_before(&self.outputs, output, start))
                .count();
            self.candidates.rotate_left(turn);
        }
    }

    /// Keeps the candidates that lead to the neighbour of the first one.
    fn keep_first_neighbour(&mut self) {
        if let Some(first) =
            self.candidates.first().map(|&output: &u8| self.outputs[usize::from(output)].node)
        {
            self.candidates.retain(|output| self.outputs[usize::from(*output)].node == first);
        }
    }

    fn choose(
        &mut self,
        destination: usize,
        kept: Option<u8>,
        draw: Option<&mut Random>,
    ) -> Option<u8> {
        if let Some(&output) = self.candidates.iter().find(|&&a| is_kept(kept, &self.outputs, a)) {
            return Some(output);
        }
        if self.context.dimension_order {
            self.keep_first_neighbour();
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
        let Some(used) = self.used.get(destination) else {
            return least_loaded(&self.paths, &mut self.candidates.iter().copied());
        };
        if self.context.dimension_order {
            return if self.context.port_shifting {
                least_loaded(&self.paths, &mut self.candidates.iter().copied())
            } else {
                self.choose_least_used(used)
            };
        }
        let outputs =
            || self.candidates.iter().map(|&output| (output, &self.outputs[usize::from(output)]));
        least_loaded(
            &self.paths,
            &mut outputs()
                .filter(|(_, output)| is_new_system(used, output))
                .map(|(index, _)| index),
        )
        .or_else(|| {
            least_loaded(
                &self.paths,
                &mut outputs()
                    .filter(|(_, output)| is_new_node(used, output))
                    .map(|(index, _)| index),
            )
        })
        .or_else(|| self.choose_least_used(used))
    }

    /// Chooses at random among the outputs with the fewest paths.
    fn choose_at_random(&mut self, random: &mut Random) -> Option<u8> {
        let paths = &self.paths;
        let fewest = self.candidates.iter().map(|&output| paths[usize::from(output)]).min()?;
        let equal = self.candidates.iter().filter(|&&output| paths[usize::from(output)] == fewest);
        equal.clone().nth(random.draw() as usize % equal.count()).copied()
    }

    /// Chooses the output with the fewest paths if all neighbours are used. Among outputs with
    /// equal counts, a later one is taken if its neighbour carries fewer LIDs than that of any
    /// output taken before it.
    fn choose_least_used(&self, used: &[UsedNeighbour]) -> Option<u8> {
        let mut best = None;
        let mut fewest_paths = u32::MAX;
        let mut fewest_lids = u32::MAX;
        for &output in &self.candidates {
            let paths = self.paths[usize::from(output)];
            let end = self.outputs[usize::from(output)].end();
            let lids = used.iter().find(|used| used.end() == end).map_or(0, |used| used.lids);
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
        let OutputPort { node, remote_port, system, counted, .. } =
            self.outputs[usize::from(output)];
        if !counted || is_switch && !self.context.count_switches {
            return;
        }
        self.paths[usize::from(output)] += 1;
        let Some(used) = self.used.get_mut(destination) else { return };
        match used.iter_mut().find(|used| used.end() == (node, remote_port)) {
            Some(used) => used.lids += 1,
            None => used.push(UsedNeighbour { node, port: remote_port, system, lids: 1 }),
        }
    }
}

fn is_new_node(used: &[UsedNeighbour], output: &OutputPort) -> bool {
    used.iter().all(|used| used.node != output.node)
}

fn is_new_system(used: &[UsedNeighbour], output: &OutputPort) -> bool {
    used.iter().all(|used| used.system != output.system)
}

fn least_loaded(paths: &[u32], outputs: &mut dyn Iterator<Item = u8>) -> Option<u8> {
    outputs.min_by_key(|&output| paths[usize::from(output)])
}

fn is_kept(kept: Option<u8>, outputs: &[OutputPort], output: u8) -> bool {
    Some(outputs[usize::from(output)].port) == kept
}

fn is_before(outputs: &[OutputPort], &output: &u8, start: u16) -> bool {
    outputs[usize::from(output)].position < start
}

/// The ports of a switch that lead to other switches, in search order; and by number of the link
/// their places in this order, unless it is that of the links.
fn outputs(
    context: &RoutingContext<'_>,
    switch: SwitchId,
) -> (Vec<OutputPort>, Option<Vec<usize>>) {
    let links = context.graph.links(switch).iter();
    let mut outputs: Vec<_> = links
        .map(|link| OutputPort {
            port: link.port,
            position: context.search.position(switch, link.port),
            node: context.fabric.switches()[link.to.index()],
            remote_port: if context.dimension_order { link.to_port } else { 0 },
            system: context.fabric.switch(link.to).info.system_guid(),
            counted: !context.ignored.contains(&(switch, link.port)),
        })
        .collect();
    if outputs.is_sorted_by_key(|output| output.position) {
        return (outputs, None);
    }
    outputs.sort_by_key(|output| output.position);
    let mut order = vec![0; outputs.len()];
    for (place, output) in outputs.iter().enumerate() {
        let links = context.graph.links(switch);
        if let Ok(number) = links.binary_search_by_key(&output.port, |link| link.port) {
            order[number] = place;
        }
    }
    (outputs, Some(order))
}
