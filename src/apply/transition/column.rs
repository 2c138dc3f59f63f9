//! One LID: the switches that send it elsewhere than before, and which of them must wait.
//!
//! Let every changed switch v send a LID to w (the next changed switch on the new way). In any
//! mixture of old and new entries
//!
//! * a loop passes v only if w can come back to v by old or new entries. There, v waits for w: a
//!   loop would have to consist of new entries alone, which make none;
//! * a packet is lost behind v only if some way from w leads into a hole (an old entry without a
//!   link, an empty table) that the new entries close. There, v waits for w if packets come by
//!   which would arrive otherwise;
//! * where new entries open a hole (the LID is given up), it is opened after all have turned away
//!   who are to turn away.
//!
//! Everything else is free to change at any time.

use super::blocks::Turn;
use super::is_active;
use super::rings::rings;
use crate::apply::delta::Delta;
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::{Lid, PortNum};
use std::ops::Range;

/// Stands for "none" in dense tables.
const NONE: u32 = u32::MAX;

/// The fabric around the changed switches.
pub(super) struct Ground<'a> {
    fabric: &'a Fabric,
    delta: Delta<'a>,
    /// By switch: its turn.
    turn_of: Vec<u32>,
    /// By turn: its node in the present column.
    node_of: Vec<u32>,
}

/// Where a way along unchanged switches ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// At a node of the column.
    Node(u32),
    /// At the port that owns the LID.
    Owner,
    /// In a hole.
    Nowhere,
}

#[derive(Clone, Debug)]
pub(super) struct Way {
    pub end: End,
    /// The ports that send on links of it which are not ACTIVE: a range of [`Column::dark`].
    dark: Range<usize>,
}

impl Way {
    fn is_dark(&self) -> bool {
        !self.dark.is_empty()
    }
}

impl<'a> Ground<'a> {
    pub(super) fn new(delta: &Delta<'a>, turns: &[Turn<'a>]) -> Self {
        let mut turn_of = vec![NONE; delta.fabric.switches().len()];
        for (turn, index) in turns.iter().zip(0..) {
            turn_of[turn.switch.index()] = index;
        }
        let node_of = vec![NONE; turns.len()];
        Self { fabric: delta.fabric, delta: *delta, turn_of, node_of }
    }

    /// The node that a switch is in the present column.
    fn node_at(&self, switch: SwitchId) -> Option<u32> {
        let turn = self.turn_of[switch.index()];
        let node = if turn == NONE { NONE } else { self.node_of[turn as usize] };
        (node != NONE).then_some(node)
    }

    /// Leaves `switch` through port `num` and goes on to the next node. Adds links that are not
    /// ACTIVE to `dark`.
    fn follow(
        &self,
        mut switch: SwitchId,
        mut num: u8,
        (lid, owner): (Lid, Option<PortId>),
        dark: &mut Vec<PortId>,
    ) -> End {
        let reached = |port| if Some(port) == owner { End::Owner } else { End::Nowhere };
        for _ in self.fabric.switches() {
            let Some(slot) = self.fabric.switch_port(switch, PortNum(num)) else { break };
            if num == 0 {
                return reached(slot);
            }
            let Some(peer) = self.fabric.port(slot).peer else { break };
            if !is_active(self.fabric, slot, peer) {
                dark.push(slot);
            }
            let Some(next) = self.fabric.node_of(peer).switch else { return reached(peer) };
            if let Some(node) = self.node_at(next) {
                return End::Node(node);
            }
            let Some(out) = self.delta.plan.routing.lft(next).out(lid) else { break };
            (switch, num) = (next, out);
        }
        End::Nowhere
    }
}

/// The switches that change one LID, and the ways between them.
pub(super) struct Column {
    /// Turns.
    pub nodes: Vec<u32>,
    /// By node: its old ways, as a range of `ways`. There are several where it is not known
    /// which one is in force.
    old: Vec<Range<usize>>,
    ways: Vec<Way>,
    dark: Vec<PortId>,
    /// By node: its new way.
    pub new: Vec<Way>,
    /// By node: packets that are here may arrive at present.
    pub had: Vec<bool>,
    /// By node: packets that are here will arrive.
    will_have: Vec<bool>,
    /// By node: the new way all along crosses a link that is not ACTIVE.
    pub waits_for_link: Vec<bool>,
    /// By node: it may drop packets at present.
    is_hole: Vec<bool>,
}

impl Column {
    pub(super) fn new(
        ground: &mut Ground<'_>,
        turns: &[Turn<'_>],
        nodes: Vec<u32>,
        lid: Lid,
    ) -> Self {
        for (&turn, node) in nodes.iter().zip(0..) {
            ground.node_of[turn as usize] = node;
        }
        let count = nodes.len();
        let mut column = Self {
            old: Vec::with_capacity(count),
            ways: Vec::with_capacity(count),
            dark: Vec::new(),
            new: Vec::with_capacity(count),
            had: vec![false; count],
            will_have: vec![false; count],
            waits_for_link: vec![false; count],
            is_hole: vec![false; count],
            nodes,
        };
        let owner = ground.delta.plan.lids.port(lid);
        for index in 0..count {
            let turn = &turns[column.nodes[index] as usize];
            column.add(ground, turn, lid, owner);
        }
        for &turn in &column.nodes {
            ground.node_of[turn as usize] = NONE;
        }
        column.judge(turns);
        column
    }

    fn add(&mut self, ground: &Ground<'_>, turn: &Turn<'_>, lid: Lid, owner: Option<PortId>) {
        let first = self.ways.len();
        let ports = ground.fabric.switch(turn.switch).num_ports();
        let mut follow = |num| {
            let dark = self.dark.len();
            let end = ground.follow(turn.switch, num, (lid, owner), &mut self.dark);
            Way { end, dark: dark..self.dark.len() }
        };
        if turn.is_unsure() {
            let ways = (0..=ports).map(&mut follow).filter(|way| way.end != End::Nowhere);
            self.ways.extend(ways);
        } else {
            self.ways.extend(turn.old(lid).map(&mut follow));
        }
        let nowhere = Way { end: End::Nowhere, dark: 0..0 };
        self.new.push(turn.new_port(lid).map_or(nowhere, follow));
        self.old.push(first..self.ways.len());
    }

    /// Finds out where packets arrive, now and in the end.
    fn judge(&mut self, turns: &[Turn<'_>]) {
        for node in 0..self.nodes.len() {
            let is_unsure = turns[self.nodes[node] as usize].is_unsure();
            let old = &self.ways[self.old[node].clone()];
            let works = |way: &Way| way.end != End::Nowhere && !way.is_dark();
            self.is_hole[node] = is_unsure || !old.iter().any(works);
        }
        let leads_on = |way: &Way| if way.is_dark() { End::Nowhere } else { way.end };
        self.had = self.arriving(|node| self.ways[self.old[node].clone()].iter().map(leads_on));
        self.will_have = self.arriving(|node| std::iter::once(self.new[node].end));
        let dark = |node: usize| {
            let way = &self.new[node];
            let end = if way.is_dark() { End::Owner } else { way.end };
            std::iter::once(end).filter(|_| way.is_dark() || way.end != End::Owner)
        };
        self.waits_for_link = self.arriving(dark);
    }

    /// The nodes from which one of these ways, and on from node to node, leads to an
    /// [`End::Owner`].
    fn arriving<W: Iterator<Item = End>>(&self, ways: impl Fn(usize) -> W) -> Vec<bool> {
        let count = self.nodes.len();
        let (mut arrives, mut from) = (vec![false; count], vec![Vec::new(); count]);
        let mut found = Vec::new();
        for (node, arrives) in arrives.iter_mut().enumerate() {
            for end in ways(node) {
                match end {
                    End::Owner if !*arrives => {
                        *arrives = true;
                        found.push(node as u32);
                    }
                    End::Node(next) => from[next as usize].push(node as u32),
                    _ => {}
                }
            }
        }
        while let Some(node) = found.pop() {
            for &before in &from[node as usize] {
                if !std::mem::replace(&mut arrives[before as usize], true) {
                    found.push(before);
                }
            }
        }
        arrives
    }

    /// The nodes that old and new ways of a node lead to.
    fn next(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        let index = node as usize;
        let ways = self.ways[self.old[index].clone()].iter().chain(&self.new[index..=index]);
        ways.filter_map(|way| match way.end {
            End::Node(next) => Some(next),
            _ => None,
        })
    }

    /// The links of a node's new way that are not ACTIVE.
    pub(super) fn dark_links(&self, mut node: usize) -> Vec<PortId> {
        let mut links = Vec::new();
        for _ in &self.nodes {
            let way = &self.new[node];
            links.extend_from_slice(&self.dark[way.dark.clone()]);
            let End::Node(next) = way.end else { break };
            node = next as usize;
        }
        links
    }

    /// Who waits for whom.
    pub(super) fn waits(&self) -> Vec<(u32, u32)> {
        if self.nodes.len() < 2 {
            return Vec::new();
        }
        let count = self.nodes.len() as u32;
        let ring = rings(count, |node| self.next(node));
        let leads_to_hole = self.reached_backwards(&self.is_hole);
        let in_use = self.reached(&self.had);
        let mut waits = Vec::new();
        for node in 0..count {
            let index = node as usize;
            if let End::Node(on) = self.new[index].end {
                let may_loop = ring[index] == ring[on as usize];
                let may_lose = leads_to_hole[on as usize] && in_use[index] && self.will_have[index];
                if on != node && (may_loop || may_lose) {
                    waits.push((node, on));
                }
            }
            for way in &self.ways[self.old[index].clone()] {
                if let End::Node(next) = way.end
                    && next != node
                    && in_use[index]
                    && !self.will_have[next as usize]
                    && self.new[index].end != way.end
                {
                    waits.push((next, node));
                }
            }
        }
        waits
    }

    /// `start`, and all that is reached from there.
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

    /// `end`, and all from where it is reached.
    fn reached_backwards(&self, end: &[bool]) -> Vec<bool> {
        let mut before = vec![Vec::new(); end.len()];
        for node in 0..end.len() as u32 {
            self.next(node).for_each(|next| before[next as usize].push(node));
        }
        let mut reached = end.to_vec();
        let mut found = indexes(end);
        while let Some(node) = found.pop() {
            for &from in &before[node as usize] {
                if !std::mem::replace(&mut reached[from as usize], true) {
                    found.push(from);
                }
            }
        }
        reached
    }
}

fn indexes(set: &[bool]) -> Vec<u32> {
    set.iter().zip(0..).filter_map(|(&is_in, index)| is_in.then_some(index)).collect()
}
