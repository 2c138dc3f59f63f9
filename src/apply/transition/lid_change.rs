//! The order of the changes of one LID.
//!
//! Input: the switches that change the entry of a LID (the nodes), and for each node its old and
//! new path, followed over unchanged switches to the next node, to the owner of the LID, or to a
//! hole: a switch that drops the packet. Result: the pairs (v, w) such that v must change after w.
//!
//! Invariant: if all pairs are respected, then in every mixture of old and new entries no packet
//! loops, and no packet that arrives by the old routes and by the new routes is lost. Let w be the
//! next node on the new path of v:
//!
//! * A loop through v with its new entry requires that w can reach v by old or new entries, that
//!   is, that v and w are in the same strongly connected component of the graph of all old and new
//!   paths. Then v changes after w. A loop would therefore consist of new entries only, but the new
//!   routes have no loop.
//! * A packet is lost behind v only if some path from w leads to a hole that the new entries close
//!   (an old entry without a link, an empty table). Then v changes after w, provided that packets
//!   reach v and arrive in the end.
//! * A node at which the new entries open a hole (the LID is given up there) changes after all
//!   nodes that lead to it by old entries and turn away from it.
//!
//! All other changes may happen at any time.

use super::link_table::{LinkTable, Peer};
use super::strong_components::strong_components;
use super::switch_update::SwitchUpdate;
use crate::apply::delta::Delta;
use crate::fabric::{PortId, SwitchId};
use crate::ids::{Lid, PortNum};
use std::ops::Range;

/// Marks an absent index in dense tables.
const NONE: u32 = u32::MAX;

/// Follows paths over unchanged switches.
pub(super) struct PathFollower<'a> {
    links: &'a LinkTable<'a>,
    delta: Delta<'a>,
    /// The update of each switch.
    update_of: Vec<u32>,
    /// The node of each update in the current LID change.
    node_of: Vec<u32>,
}

/// The end of a path over unchanged switches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PathEnd {
    /// A node of the LID change.
    Node(u32),
    /// The port that owns the LID.
    Owner,
    /// A switch that drops the packet, or a port that does not own the LID.
    Hole,
}

#[derive(Clone, Debug)]
pub(super) struct Path {
    pub end: PathEnd,
    /// The output ports on the path whose links are not ACTIVE: a range of [`LidChange::inactive`].
    inactive: Range<usize>,
}

impl Path {
    fn is_inactive(&self) -> bool {
        !self.inactive.is_empty()
    }
}

impl<'a> PathFollower<'a> {
    pub(super) fn new(
        delta: &Delta<'a>,
        links: &'a LinkTable<'a>,
        updates: &[SwitchUpdate<'a>],
    ) -> Self {
        let mut update_of = vec![NONE; delta.fabric.switches().len()];
        for (update, index) in updates.iter().zip(0..) {
            update_of[update.switch.index()] = index;
        }
        let node_of = vec![NONE; updates.len()];
        Self { links, delta: *delta, update_of, node_of }
    }

    /// The node of a switch in the current LID change.
    fn node_at(&self, switch: SwitchId) -> Option<u32> {
        let update = self.update_of[switch.index()];
        let node = if update == NONE { NONE } else { self.node_of[update as usize] };
        (node != NONE).then_some(node)
    }

    /// Follows the planned routes from port `num` of `switch` to the next node or end. Adds ports
    /// whose links are not ACTIVE to `inactive`.
    fn follow(
        &self,
        mut switch: SwitchId,
        mut num: u8,
        (lid, owner): (Lid, Option<PortId>),
        inactive: &mut Vec<PortId>,
    ) -> PathEnd {
        let fabric = self.links.fabric();
        let reached = |port| if Some(port) == owner { PathEnd::Owner } else { PathEnd::Hole };
        for _ in fabric.switches() {
            if num == 0 {
                return fabric.switch_port(switch, PortNum::ZERO).map_or(PathEnd::Hole, reached);
            }
            let Some((peer, is_active)) = self.links.peer(switch, PortNum(num)) else { break };
            if !is_active {
                inactive.extend(fabric.switch_port(switch, PortNum(num)));
            }
            let next = match peer {
                Peer::Switch(next) => next,
                Peer::End(port) => return reached(port),
            };
            if let Some(node) = self.node_at(next) {
                return PathEnd::Node(node);
            }
            let Some(out) = self.delta.plan.routing.lft(next).out(lid) else { break };
            (switch, num) = (next, out);
        }
        PathEnd::Hole
    }
}

/// The nodes (switches that change a LID) and the paths between them.
pub(super) struct LidChange {
    /// The update of each node.
    pub nodes: Vec<u32>,
    /// The old paths of each node, as a range of `paths`. There are several if the present entry is
    /// uncertain.
    old: Vec<Range<usize>>,
    paths: Vec<Path>,
    inactive: Vec<PortId>,
    /// The new path of each node.
    pub new: Vec<Path>,
    /// True, by node, if packets at the node may arrive at present.
    pub arrives_before: Vec<bool>,
    /// True, by node, if packets at the node arrive by the new entries.
    arrives_after: Vec<bool>,
    /// True, by node, if the complete new path contains a link that is not ACTIVE.
    pub waits_for_link: Vec<bool>,
    /// True, by node, if the node may drop packets at present.
    is_hole: Vec<bool>,
}

impl LidChange {
    pub(super) fn new(
        follower: &mut PathFollower<'_>,
        updates: &[SwitchUpdate<'_>],
        nodes: Vec<u32>,
        lid: Lid,
    ) -> Self {
        for (&update, node) in nodes.iter().zip(0..) {
            follower.node_of[update as usize] = node;
        }
        let count = nodes.len();
        let mut lid_change = Self {
            old: Vec::with_capacity(count),
            paths: Vec::with_capacity(count),
            inactive: Vec::new(),
            new: Vec::with_capacity(count),
            arrives_before: vec![false; count],
            arrives_after: vec![false; count],
            waits_for_link: vec![false; count],
            is_hole: vec![false; count],
            nodes,
        };
        let owner = follower.delta.plan.lids.port(lid);
        for index in 0..count {
            let update = &updates[lid_change.nodes[index] as usize];
            lid_change.add(follower, update, lid, owner);
        }
        for &update in &lid_change.nodes {
            follower.node_of[update as usize] = NONE;
        }
        lid_change.classify(updates);
        lid_change
    }

    fn add(
        &mut self,
        follower: &PathFollower<'_>,
        update: &SwitchUpdate<'_>,
        lid: Lid,
        owner: Option<PortId>,
    ) {
        let first = self.paths.len();
        let ports = follower.links.fabric().switch(update.switch).num_ports();
        let mut follow = |num| {
            let inactive = self.inactive.len();
            let end = follower.follow(update.switch, num, (lid, owner), &mut self.inactive);
            Path { end, inactive: inactive..self.inactive.len() }
        };
        if update.is_unsure() {
            let paths = (0..=ports).map(&mut follow).filter(|path| path.end != PathEnd::Hole);
            self.paths.extend(paths);
        } else {
            self.paths.extend(update.old(lid).map(&mut follow));
        }
        let nowhere = Path { end: PathEnd::Hole, inactive: 0..0 };
        self.new.push(update.new_port(lid).map_or(nowhere, follow));
        self.old.push(first..self.paths.len());
    }

    /// Determines from which nodes packets arrive, now and by the new entries.
    fn classify(&mut self, updates: &[SwitchUpdate<'_>]) {
        for node in 0..self.nodes.len() {
            let is_unsure = updates[self.nodes[node] as usize].is_unsure();
            let old = &self.paths[self.old[node].clone()];
            let works = |path: &Path| path.end != PathEnd::Hole && !path.is_inactive();
            self.is_hole[node] = is_unsure || !old.iter().any(works);
        }
        let leads_on = |path: &Path| if path.is_inactive() { PathEnd::Hole } else { path.end };
        self.arrives_before =
            self.arriving(|node| self.paths[self.old[node].clone()].iter().map(leads_on));
        self.arrives_after = self.arriving(|node| std::iter::once(self.new[node].end));
        let inactive = |node: usize| {
            let path = &self.new[node];
            let end = if path.is_inactive() { PathEnd::Owner } else { path.end };
            std::iter::once(end).filter(|_| path.is_inactive() || path.end != PathEnd::Owner)
        };
        self.waits_for_link = self.arriving(inactive);
    }

    /// True, by node, if one of these paths, continued from node to node, leads to
    /// [`PathEnd::Owner`].
    fn arriving<W: Iterator<Item = PathEnd>>(&self, paths: impl Fn(usize) -> W) -> Vec<bool> {
        let count = self.nodes.len();
        let (mut arrives, mut before) = (vec![false; count], Predecessors::new(count));
        for (node, arrives) in arrives.iter_mut().enumerate() {
            for end in paths(node) {
                match end {
                    PathEnd::Owner => *arrives = true,
                    PathEnd::Node(next) => before.add(next, node as u32),
                    PathEnd::Hole => {}
                }
            }
        }
        before.spread(&mut arrives);
        arrives
    }

    /// The nodes at the end of the old and new paths of a node.
    fn next(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        let index = node as usize;
        let paths = self.paths[self.old[index].clone()].iter().chain(&self.new[index..=index]);
        paths.filter_map(|path| match path.end {
            PathEnd::Node(next) => Some(next),
            _ => None,
        })
    }

    /// The output ports on the complete new path of a node whose links are not ACTIVE.
    pub(super) fn inactive_links(&self, mut node: usize) -> Vec<PortId> {
        let mut links = Vec::new();
        for _ in &self.nodes {
            let path = &self.new[node];
            links.extend_from_slice(&self.inactive[path.inactive.clone()]);
            let PathEnd::Node(next) = path.end else { break };
            node = next as usize;
        }
        links
    }

    /// The pairs of nodes (waiting, awaited).
    pub(super) fn dependencies(&self) -> Vec<(u32, u32)> {
        if self.nodes.len() < 2 {
            return Vec::new();
        }
        let count = self.nodes.len() as u32;
        let component = strong_components(count, |node| self.next(node));
        let leads_to_hole = self.reached_backwards(&self.is_hole);
        let in_use = self.reached(&self.arrives_before);
        let mut dependencies = Vec::new();
        for node in 0..count {
            let index = node as usize;
            if let PathEnd::Node(on) = self.new[index].end {
                let may_loop = component[index] == component[on as usize];
                let may_lose =
                    leads_to_hole[on as usize] && in_use[index] && self.arrives_after[index];
                if on != node && (may_loop || may_lose) {
                    dependencies.push((node, on));
                }
            }
            for path in &self.paths[self.old[index].clone()] {
                if let PathEnd::Node(next) = path.end
                    && next != node
                    && in_use[index]
                    && !self.arrives_after[next as usize]
                    && self.new[index].end != path.end
                {
                    dependencies.push((next, node));
                }
            }
        }
        dependencies
    }

    /// The nodes in `start` and all nodes reachable from them.
    fn reached(&self, start: &[bool]) -> Vec<bool> {
        let mut reached = start.to_vec();
        let mut found: Vec<u32> = indexes(start);
        while let Some(node) = found.pop() {
            for next in self.next(node) {
                if !std::mem::replace(&mut reached[next as usize], true) {
                    found.push(next);
                }
            }
        }
        reached
    }

    /// The nodes in `end` and all nodes from which they are reachable.
    fn reached_backwards(&self, end: &[bool]) -> Vec<bool> {
        let mut before = Predecessors::new(end.len());
        for node in 0..end.len() as u32 {
            self.next(node).for_each(|next| before.add(next, node));
        }
        let mut reached = end.to_vec();
        before.spread(&mut reached);
        reached
    }
}

/// The nodes from which each node is reached in one step, in linked lists: there are some thousand
/// such graphs in a transition, with few nodes each.
struct Predecessors {
    /// The first entry of each node, and for each entry the node before and the next entry.
    first: Vec<u32>,
    entries: Vec<(u32, u32)>,
}

impl Predecessors {
    fn new(count: usize) -> Self {
        Self { first: vec![NONE; count], entries: Vec::with_capacity(2 * count) }
    }

    fn add(&mut self, node: u32, before: u32) {
        let first = &mut self.first[node as usize];
        self.entries.push((before, *first));
        *first = self.entries.len() as u32 - 1;
    }

    /// Adds to `set` all nodes from which one of its nodes is reachable.
    fn spread(&self, set: &mut [bool]) {
        let mut found = indexes(set);
        while let Some(node) = found.pop() {
            let mut entry = self.first[node as usize];
            while let Some(&(before, next)) = self.entries.get(entry as usize) {
                if !std::mem::replace(&mut set[before as usize], true) {
                    found.push(before);
                }
                entry = next;
            }
        }
    }
}

fn indexes(set: &[bool]) -> Vec<u32> {
    set.iter().zip(0..).filter_map(|(&is_in, index)| is_in.then_some(index)).collect()
}
