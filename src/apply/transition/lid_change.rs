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

use super::graph::Graph;
use super::link_table::{LinkPeer, LinkTable};
use super::strong_components::StrongComponents;
use super::switch_update::SwitchUpdate;
use crate::apply::delta::Delta;
use crate::fabric::{PortId, SwitchId};
use crate::ids::{Lid, PortNum};
use std::ops::Range;

/// Follows paths over unchanged switches.
pub(super) struct PathFollower<'a> {
    links: &'a LinkTable<'a>,
    delta: Delta<'a>,
    /// By switch: the number of the last LID change in which it was a node or a path led over it,
    /// and where paths of this LID end that lead to it. The paths of the nodes meet soon.
    known: Vec<(u32, TransitionEnd)>,
    /// The number of the current LID change, from 1 on.
    lid_change: u32,
    /// The switches of the present path behind the last link that is not ACTIVE.
    followed: Vec<SwitchId>,
}

/// The end of a path over unchanged switches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TransitionEnd {
    /// A node of the LID change.
    Node(u32),
    /// The port that owns the LID.
    Owner,
    /// A switch that drops the packet, or a port that does not own the LID.
    Hole,
}

#[derive(Clone, Debug)]
pub(super) struct Path {
    pub end: TransitionEnd,
    /// The output ports on the path whose links are not ACTIVE: a range of [`LidChange::inactive`].
    inactive: Range<usize>,
}

impl Path {
    fn is_inactive(&self) -> bool {
        !self.inactive.is_empty()
    }
}

impl<'a> PathFollower<'a> {
    pub(super) fn new(delta: &Delta<'a>, links: &'a LinkTable<'a>) -> Self {
        Self {
            links,
            delta: *delta,
            known: vec![(0, TransitionEnd::Hole); delta.fabric.switches().len()],
            lid_change: 0,
            followed: Vec::new(),
        }
    }

    /// Begins the change of a LID at these switches, which are its nodes.
    fn begin(&mut self, switches: impl Iterator<Item = SwitchId>) {
        self.lid_change += 1;
        for (switch, node) in switches.zip(0..) {
            self.known[switch.index()] = (self.lid_change, TransitionEnd::Node(node));
        }
    }

    /// Follows the planned routes from port `num` of `switch` to the next node or end. Adds ports
    /// whose links are not ACTIVE to `inactive`.
    fn follow(
        &mut self,
        switch: SwitchId,
        num: u8,
        to: LidOwner,
        inactive: &mut Vec<PortId>,
    ) -> TransitionEnd {
        self.followed.clear();
        let end = self.find_end(switch, num, to, inactive);
        for switch in &self.followed {
            self.known[switch.index()] = (self.lid_change, end);
        }
        end
    }

    fn find_end(
        &mut self,
        mut switch: SwitchId,
        mut num: u8,
        to: LidOwner,
        inactive: &mut Vec<PortId>,
    ) -> TransitionEnd {
        let fabric = self.links.fabric();
        for _ in fabric.switches() {
            if num == 0 {
                return to.reached_at(fabric.switch_port(switch, PortNum::ZERO));
            }
            let Some((peer, is_active)) = self.links.peer(switch, PortNum(num)) else { break };
            if !is_active {
                inactive.extend(fabric.switch_port(switch, PortNum(num)));
                // A path that meets this one before the link must find the link again.
                self.followed.clear();
            }
            let next = match peer {
                LinkPeer::Switch(next) => next,
                LinkPeer::End(port) => return to.reached_at(Some(port)),
            };
            let (lid_change, end) = self.known[next.index()];
            if lid_change == self.lid_change {
                return end;
            }
            self.followed.push(next);
            let Some(out) = self.delta.plan.routing.lft(next).out(to.lid) else { break };
            (switch, num) = (next, out);
        }
        TransitionEnd::Hole
    }
}

/// A LID, and the port that has it.
#[derive(Clone, Copy)]
struct LidOwner {
    lid: Lid,
    owner: Option<PortId>,
}

impl LidOwner {
    /// The end of a path to a port that is no switch on the way.
    fn reached_at(self, port: Option<PortId>) -> TransitionEnd {
        if port.is_some() && port == self.owner {
            TransitionEnd::Owner
        } else {
            TransitionEnd::Hole
        }
    }
}

/// The nodes (switches that change a LID) and the paths between them. One after the other, the
/// changes of many LIDs are described by the same value, whose buffers are used again.
#[derive(Default)]
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
    /// The pairs of nodes (waiting, awaited).
    pub dependencies: Vec<(u32, u32)>,
    buffers: Buffers,
}

/// Buffers of the search for dependencies.
#[derive(Default)]
struct Buffers {
    /// From each node to those at the end of its old and new paths, and in the opposite direction.
    next: Graph,
    before: Graph,
    components: StrongComponents,
    leads_to_hole: Vec<bool>,
    in_use: Vec<bool>,
}

impl LidChange {
    /// Describes the change of another LID, at the updates whose indexes are in `nodes`.
    pub(super) fn describe(
        &mut self,
        follower: &mut PathFollower<'_>,
        updates: &[SwitchUpdate<'_>],
        lid: Lid,
    ) {
        follower.begin(self.nodes.iter().map(|&update| updates[update as usize].switch));
        self.old.clear();
        self.paths.clear();
        self.inactive.clear();
        self.new.clear();
        let owner = follower.delta.plan.lids.port(lid);
        for index in 0..self.nodes.len() {
            let update = &updates[self.nodes[index] as usize];
            self.add(follower, update, lid, owner);
        }
        self.classify(updates);
        self.find_dependencies();
    }

    fn add(
        &mut self,
        follower: &mut PathFollower<'_>,
        update: &SwitchUpdate<'_>,
        lid: Lid,
        owner: Option<PortId>,
    ) {
        let first = self.paths.len();
        let ports = follower.links.fabric().switch(update.switch).num_ports();
        let mut follow = |num| {
            let inactive = self.inactive.len();
            let end =
                follower.follow(update.switch, num, LidOwner { lid, owner }, &mut self.inactive);
            Path { end, inactive: inactive..self.inactive.len() }
        };
        if update.is_unsure() {
            let paths = (0..=ports).map(&mut follow).filter(|path| path.end != TransitionEnd::Hole);
            self.paths.extend(paths);
        } else {
            self.paths.extend(update.old(lid).map(&mut follow));
        }
        let nowhere = Path { end: TransitionEnd::Hole, inactive: 0..0 };
        self.new.push(update.new_port(lid).map_or(nowhere, follow));
        self.old.push(first..self.paths.len());
    }

    /// Determines from which nodes packets arrive, now and by the new entries.
    fn classify(&mut self, updates: &[SwitchUpdate<'_>]) {
        let Self { nodes, old, paths, new, buffers, .. } = self;
        self.is_hole.clear();
        self.is_hole.extend(nodes.iter().zip(&*old).map(|(&update, old)| {
            updates[update as usize].is_unsure()
                || !paths[old.clone()]
                    .iter()
                    .any(|path| path.end != TransitionEnd::Hole && !path.is_inactive())
        }));
        let graph = &mut buffers.before;
        arriving(&mut self.arrives_before, graph, nodes.len(), |node| {
            paths[old[node].clone()].iter().map(leads_on)
        });
        arriving(&mut self.arrives_after, graph, nodes.len(), |node| {
            std::iter::once(new[node].end)
        });
        self.waits_for_link.clear();
        if self.inactive.is_empty() {
            self.waits_for_link.resize(nodes.len(), false);
        } else {
            arriving(&mut self.waits_for_link, graph, nodes.len(), |node| {
                let path = &new[node];
                let is_inactive = path.is_inactive();
                let end = if is_inactive { TransitionEnd::Owner } else { path.end };
                std::iter::once(end).filter(move |_| is_inactive || end != TransitionEnd::Owner)
            });
        }
    }

    /// The output ports on the complete new path of a node whose links are not ACTIVE.
    pub(super) fn inactive_links(&self, mut node: usize) -> Vec<PortId> {
        let mut links = Vec::new();
        for _ in &self.nodes {
            let path = &self.new[node];
            links.extend_from_slice(&self.inactive[path.inactive.clone()]);
            let TransitionEnd::Node(next) = path.end else { break };
            node = next as usize;
        }
        links
    }

    fn find_dependencies(&mut self) {
        let count = self.nodes.len();
        self.dependencies.clear();
        if count < 2 {
            return;
        }
        let Self { old, paths, new, buffers, .. } = self;
        let Buffers { next, before, components, leads_to_hole, in_use } = buffers;
        next.begin(count);
        before.begin(count);
        for node in 0..count {
            for path in paths[old[node].clone()].iter().chain(&new[node..=node]) {
                if let TransitionEnd::Node(to) = path.end {
                    next.add(node as u32, to);
                    before.add(to, node as u32);
                }
            }
        }
        let component = components.find(count as u32, next);
        leads_to_hole.clone_from(&self.is_hole);
        before.spread(leads_to_hole);
        in_use.clone_from(&self.arrives_before);
        next.spread(in_use);
        for index in 0..count {
            let node = index as u32;
            if let TransitionEnd::Node(on) = new[index].end {
                let may_loop = component[index] == component[on as usize];
                let may_lose =
                    leads_to_hole[on as usize] && in_use[index] && self.arrives_after[index];
                if on != node && (may_loop || may_lose) {
                    self.dependencies.push((node, on));
                }
            }
            for path in &paths[old[index].clone()] {
                if let TransitionEnd::Node(next) = path.end
                    && next != node
                    && in_use[index]
                    && !self.arrives_after[next as usize]
                    && new[index].end != path.end
                {
                    self.dependencies.push((next, node));
                }
            }
        }
    }
}

fn leads_on(path: &Path) -> TransitionEnd {
    if path.is_inactive() { TransitionEnd::Hole } else { path.end }
}

/// Sets `arrives` to true, by node, if one of these paths, continued from node to node, leads to
/// [`TransitionEnd::Owner`]. The graph is a buffer.
fn arriving<W: Iterator<Item = TransitionEnd>>(
    arrives: &mut Vec<bool>,
    before: &mut Graph,
    count: usize,
    paths: impl Fn(usize) -> W,
) {
    arrives.clear();
    arrives.resize(count, false);
    before.begin(count);
    for (node, arrives) in arrives.iter_mut().enumerate() {
        for end in paths(node) {
            match end {
                TransitionEnd::Owner => *arrives = true,
                TransitionEnd::Node(next) => before.add(next, node as u32),
                TransitionEnd::Hole => {}
            }
        }
    }
    before.spread(arrives);
}
