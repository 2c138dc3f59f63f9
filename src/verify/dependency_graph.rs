//! The channel dependency graph (CDG) over (channel, VL) pairs; [`super::full`] defines it.

mod awaited_vls;
mod ranks;

use self::awaited_vls::AwaitedVls;
pub(super) use self::ranks::{ChainRanks, NO_RANK};
use super::network::{Channel, NONE, SwitchNetwork};
use super::sl_to_vl::SlToVlMaps;
use super::triples::{LOCAL_INPUT, Triples, bits};
use super::verdict::{ChannelRef, Cycle, Fault, FaultList};
use crate::fabric::Fabric;
use crate::ids::{Sl, Vl};
use rayon::prelude::*;
use std::collections::VecDeque;

/// Number of VLs of a channel. VL 15 carries SMPs only; a mapping to it drops packets.
const VLS: usize = 16;
pub(super) const DROP_VL: u8 = 15;

/// The node of a channel and VL.
pub(super) fn node(channel: u32, vl: u8) -> u32 {
    channel * VLS as u32 + u32::from(vl)
}

/// The channel of a node.
pub(super) fn channel_of(node: u32) -> u32 {
    node / VLS as u32
}

/// (channel, VL) pairs and their dependencies. A node is channel * 16 + VL.
#[derive(Clone)]
pub(super) struct DependencyGraph {
    /// By channel: the range of channels that may follow it, and the offset of their VLs in `next`.
    rows: Vec<Row>,
    /// For each following channel the awaited VLs.
    next: AwaitedVls,
    /// Packets that a mapping to VL 15 drops.
    drops: Vec<DroppedPacket>,
}

#[derive(Clone, Copy)]
struct Row {
    first: usize,
    successor: u32,
    width: u32,
    /// VLs of the channel with a dependency.
    used: u16,
}

/// The triples of the static routes of a plan, as a check has found them; there may be more, which no packet
/// takes.
#[derive(Clone, Copy)]
pub(super) struct KnownTriples<'a> {
    /// Switches that were removed have numbers behind those of the fabric.
    pub network: &'a SwitchNetwork,
    pub sl_to_vl: &'a SlToVlMaps,
    pub triples: &'a Triples,
}

/// A dropped packet: output channel, input as in [`Triples`], SL.
type DroppedPacket = (u32, u16, u8);

impl DependencyGraph {
    pub(super) fn new(network: &SwitchNetwork, sl_to_vl: &SlToVlMaps, triples: &Triples) -> Self {
        Self::of_any(network, &[sl_to_vl], triples)
    }

    /// The graph if each switch may have any of several SL to VL mappings.
    pub(super) fn of_any(
        network: &SwitchNetwork,
        sl_to_vl: &[&SlToVlMaps],
        triples: &Triples,
    ) -> Self {
        let parts: Vec<_> = (0..network.channels.len())
            .into_par_iter()
            .with_min_len(64)
            .map(|channel| dependencies(network, sl_to_vl, triples, channel))
            .collect();
        let used = parts.iter().fold(0, |used, (part, _)| used | used_vls(part));
        let pairs = parts.iter().map(|(part, _)| part.len()).sum();
        let mut cdg = Self {
            rows: Vec::with_capacity(parts.len()),
            next: AwaitedVls::new(used, pairs),
            drops: Vec::new(),
        };
        for (channel, (part, drops)) in network.channels.iter().zip(parts) {
            cdg.rows.push(Row {
                first: cdg.next.len(),
                successor: network.out_of(channel.to).start as u32,
                width: part.len() as u32,
                used: used_vls(&part),
            });
            part.iter().for_each(|awaited| cdg.next.push(awaited));
            cdg.drops.extend(drops);
        }
        cdg.drops.sort_unstable();
        cdg.drops.dedup();
        cdg
    }

    pub(super) fn dependencies(&self) -> usize {
        self.next.dependencies()
    }

    /// The faults of packets that a mapping to VL 15 drops.
    pub(super) fn dropped(&self, fabric: &Fabric, network: &SwitchNetwork) -> FaultList {
        let mut faults = FaultList::default();
        for &(channel, input, sl) in &self.drops {
            faults.add(|| {
                let from = network.channels[channel as usize].from;
                let node = fabric.switch(from);
                let input = input.checked_sub(1).map_or(0, |out_index| {
                    let inputs = network.out_of(from);
                    network.out_port(fabric, inputs.start + usize::from(out_index)).0
                });
                Fault::Dropped {
                    switch: format!("switch {} \"{}\"", node.guid(), node.name()),
                    input,
                    output: network.out_port(fabric, channel as usize).0,
                    sl: Sl(sl),
                }
            });
        }
        faults
    }

    /// The SLs of these packets, one bit for each.
    pub(super) fn dropped_sls(&self) -> u16 {
        self.drops.iter().fold(0, |bits, &(_, _, sl)| bits | 1 << sl)
    }

    /// Adds a dependency; the channel of `to` must be able to follow that of `from`.
    pub(super) fn add(&mut self, from: u32, to: u32) {
        let channel = from as usize / VLS;
        let vl = from as usize % VLS;
        let next = to / VLS as u32;
        let row = &mut self.rows[channel];
        row.used |= 1 << vl;
        self.next.add(row.first + (next - row.successor) as usize, vl, to % VLS as u32);
    }

    /// Removes all dependencies of a channel and on it.
    pub(super) fn remove_channel(&mut self, network: &SwitchNetwork, channel: u32) {
        let Channel { from, out_index, .. } = network.channels[channel as usize];
        let Row { first, width, .. } = self.rows[channel as usize];
        self.next.clear(first..first + width as usize);
        self.rows[channel as usize].used = 0;
        for before in network.into(from) {
            let row = &mut self.rows[before as usize];
            let pair = row.first + usize::from(out_index);
            self.next.clear(pair..pair + 1);
            row.used = self.next.used(row.first..row.first + row.width as usize);
        }
    }

    /// True if a channel and VL depend on a VL of the following channel with index `next`.
    pub(super) fn has_dependency(&self, channel: u32, vl: u8, next: u16, next_vl: u8) -> bool {
        let row = self.rows[channel as usize];
        self.next.of(row.first + usize::from(next), usize::from(vl)) >> next_vl & 1 == 1
    }

    /// Number of (channel, VL) pairs.
    pub(super) fn len(&self) -> usize {
        self.rows.len() * VLS
    }

    pub(super) fn successors(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        let channel = node as usize / VLS;
        let vl = node as usize % VLS;
        let row = self.rows[channel];
        let pairs = row.first..row.first + row.width as usize;
        pairs.zip(row.successor..).flat_map(move |(pair, next)| {
            bits(self.next.of(pair, vl)).map(move |vl| next * VLS as u32 + u32::from(vl))
        })
    }

    fn nodes(&self) -> impl Iterator<Item = u32> + '_ {
        self.rows.iter().zip(0u32..).flat_map(|(row, channel)| {
            bits(row.used).map(move |vl| channel * VLS as u32 + u32::from(vl))
        })
    }

    /// A cycle, the shortest through one of its nodes; `None` if the graph is acyclic.
    pub(super) fn cycle(&self, fabric: &Fabric, network: &SwitchNetwork) -> Option<Cycle> {
        let waiting = self.peel_acyclic()?;
        let start = self.node_on_cycle(&waiting)?;
        let nodes = self.shortest_cycle(start);
        Some(Cycle(
            nodes
                .into_iter()
                .map(|node| {
                    let channel = network.channels[node as usize / VLS];
                    let switch = fabric.switch(channel.from);
                    ChannelRef {
                        description: switch.name().to_string(),
                        guid: switch.guid(),
                        port: fabric.port(channel.port).num,
                        vl: Vl((node as usize % VLS) as u8),
                    }
                })
                .collect(),
        ))
    }

    /// Removes nodes without predecessors until there are none. Nodes that remain have a non-zero
    /// count; `None` if none remains.
    fn peel_acyclic(&self) -> Option<Vec<u32>> {
        self.topological_order(|_| {}).err()
    }

    /// Visits all nodes, each before those that it depends on.
    ///
    /// # Errors
    /// The number of unvisited predecessors of each node, if there is no such order.
    fn topological_order(&self, mut visit: impl FnMut(u32)) -> Result<(), Vec<u32>> {
        let mut waiting = vec![0u32; self.len()];
        self.nodes()
            .flat_map(|node| self.successors(node))
            .for_each(|node| waiting[node as usize] += 1);
        let mut left = waiting.iter().filter(|&&count| count > 0).count();
        let mut free: Vec<u32> = self.nodes().filter(|&node| waiting[node as usize] == 0).collect();
        while let Some(node) = free.pop() {
            visit(node);
            for next in self.successors(node) {
                let count = &mut waiting[next as usize];
                *count -= 1;
                if *count == 0 {
                    left -= 1;
                    free.push(next);
                }
            }
        }
        if left > 0 { Err(waiting) } else { Ok(()) }
    }

    /// The topological rank of each node; `None` if there is a cycle.
    pub(super) fn ranks(&self) -> Option<ChainRanks> {
        let mut order = Vec::new();
        self.topological_order(|node| order.push(node)).ok()?;
        let mut ranks = vec![NO_RANK; self.len()];
        for &node in order.iter().rev() {
            ranks[node as usize] =
                self.successors(node).map(|next| ranks[next as usize] + 1).max().unwrap_or(0);
        }
        Some(ChainRanks::new(&ranks))
    }

    /// Searches depth first from the first remaining node until the path returns to one of its
    /// nodes.
    fn node_on_cycle(&self, waiting: &[u32]) -> Option<u32> {
        let mut done = vec![false; waiting.len()];
        let mut on_path = vec![false; waiting.len()];
        for start in (0..waiting.len() as u32).filter(|&node| waiting[node as usize] > 0) {
            let mut path = vec![(start, self.successors(start).collect::<VecDeque<_>>())];
            on_path[start as usize] = true;
            while let Some((node, rest)) = path.last_mut() {
                match rest.pop_front() {
                    Some(next) if on_path[next as usize] => return Some(next),
                    Some(next) if done[next as usize] => {}
                    Some(next) => {
                        on_path[next as usize] = true;
                        path.push((next, self.successors(next).collect()));
                    }
                    None => {
                        done[*node as usize] = true;
                        on_path[*node as usize] = false;
                        path.pop();
                    }
                }
            }
        }
        None
    }

    /// Searches breadth first from `start` back to it.
    fn shortest_cycle(&self, start: u32) -> Vec<u32> {
        let mut from = vec![NONE; self.rows.len() * VLS];
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            for next in self.successors(node) {
                if from[next as usize] != NONE {
                    continue;
                }
                from[next as usize] = node;
                if next == start {
                    return cycle_through(&from, start);
                }
                queue.push_back(next);
            }
        }
        vec![start]
    }
}

/// The cycle through `start`, from the predecessors of its nodes.
fn cycle_through(from: &[u32], start: u32) -> Vec<u32> {
    let mut nodes = vec![start];
    let mut node = from[start as usize];
    while node != start {
        nodes.push(node);
        node = from[node as usize];
    }
    nodes[1..].reverse();
    nodes
}

/// The awaited VLs by following channel and own VL of a channel, and the packets that are dropped.
fn dependencies(
    network: &SwitchNetwork,
    sl_to_vl: &[&SlToVlMaps],
    triples: &Triples,
    index: usize,
) -> (Vec<[u16; VLS]>, Vec<DroppedPacket>) {
    let channel: Channel = network.channels[index];
    let mut next = vec![[0; VLS]; network.degree(channel.to)];
    let mut drops = Vec::new();
    let pairs =
        sl_to_vl.iter().flat_map(|first| sl_to_vl.iter().map(move |second| (first, second)));
    for ((input, follower, sls), (sl_to_vl, others)) in
        triples.of(network, index).flat_map(|triple| pairs.clone().map(move |pair| (triple, pair)))
    {
        let ahead = others.through(network, channel.to, channel.in_index, follower);
        let through = (input != LOCAL_INPUT)
            .then(|| sl_to_vl.through(network, channel.from, input - 1, channel.out_index));
        for sl in bits(sls) {
            let here = match through {
                Some(map) => 1 << map.vl(Sl(sl)).0,
                None => sl_to_vl.local(index)[usize::from(sl)],
            };
            if here >> DROP_VL & 1 == 1 {
                drops.push((index as u32, input, sl));
            }
            let there = ahead.vl(Sl(sl)).0;
            if there == DROP_VL {
                let lost_by = network.out_of(channel.to).start as u32 + u32::from(follower);
                drops.push((lost_by, channel.in_index + 1, sl));
                continue;
            }
            for vl in bits(here & !(1 << DROP_VL)) {
                next[usize::from(follower)][usize::from(vl)] |= 1 << there;
            }
        }
    }
    (next, drops)
}

fn used_vls(part: &[[u16; VLS]]) -> u16 {
    let mut used = 0;
    for row in part {
        for (vl, next) in row.iter().enumerate() {
            used |= u16::from(*next != 0) << vl;
        }
    }
    used
}
