//! The balanced routes to one destination after the other.
//!
//! # The walk
//!
//! From the switch of the destination the walk *ascends*: at each switch it takes the up group with
//! the fewest routes so far, on which packets come down from the peer to the destination. At each
//! switch of the ascent it *descends* through all down groups, on which packets come up. From the
//! other up groups it ascends and descends in the same way to switches that have no route yet, or a
//! longer one. Groups between switches of the same rank come last in both directions.
//!
//! A descent counts a route on its cable only if there is a host below. Because these counts decide
//! about later destinations, destinations are walked strictly in order; the tables are filled in
//! parallel to the walk ([`super::fill`]).
//!
//! # Order
//!
//! Groups are sorted by the number of their routes, then by the index of the peer. They are sorted
//! in place, and a descent sorts only if a descent from the same switch counted a route since: the
//! order that is left over is visible in the results, and is OpenSM's.

use super::state::{CableLoad, Count, GroupLoad, NO_SWITCH, NONE, ROUTE, SwitchLoad, sort};
use super::tree::{PortGroup, RankedTree};
use crate::fabric::SwitchId;

/// The most ascents against the direction of the tree (`max_reverse_hops`) in one routing, which
/// take some seconds.
const MAX_REVERSE_STEPS: u32 = 20_000_000;

/// A destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct WalkDestination {
    pub switch: SwitchId,
    /// The output port at that switch; `None` for a missing compute node, whose routes are counted
    /// to keep the balance of complete trees but are not used.
    pub port: Option<u8>,
    /// True if the first choice at each switch is counted as a route down.
    pub counts: bool,
    /// The most hops against the direction of the tree.
    pub reverse_hops: u16,
}

/// The routes of all switches to a destination, by switch.
#[derive(Clone, Default)]
pub(super) struct WalkColumn {
    /// Output ports; [`NONE`] without a route.
    pub outputs: Vec<u8>,
    /// Hops to the destination; [`NONE`] if the walk did not reach the switch.
    pub hops: Vec<u8>,
}

/// A route that a walk to a switch set, even if a shorter one replaced it later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FoundRoute {
    pub from: u16,
    /// The next switch.
    pub through: u16,
    pub hops: u8,
}

/// The state of all walks.
pub(super) struct FtreeWalk {
    switches: Vec<SwitchLoad>,
    groups: Vec<GroupLoad>,
    cables: Vec<CableLoad>,
    column: WalkColumn,
    /// The routes of the last walk, if it was to a switch.
    found: Vec<FoundRoute>,
    /// The destination is a switch.
    is_to_switch: bool,
    /// The destination is a missing compute node.
    is_missing: bool,
    reverse_steps: u32,
}

impl FtreeWalk {
    /// Starts with no routes. `positions` are those of the indices of switches.
    pub(super) fn new(tree: &RankedTree<'_>, positions: &[u32]) -> Self {
        let mut walk = Self {
            switches: Vec::with_capacity(tree.groups.len()),
            groups: Vec::new(),
            cables: Vec::new(),
            column: WalkColumn::default(),
            found: Vec::new(),
            is_to_switch: false,
            is_missing: false,
            reverse_steps: 0,
        };
        for switch in tree.fabric.switch_ids() {
            let groups = tree.groups(switch);
            let down = walk.add(&groups.down, positions);
            let siblings = walk.add(&groups.siblings, positions);
            let up = walk.add(&groups.up, positions);
            walk.switches.push(SwitchLoad {
                down,
                siblings,
                up,
                is_root: tree.ranks.of(switch) == 0,
                is_leaf: tree.is_leaf(switch),
                is_changed: false,
                adapters: tree.adapters(switch).len() as u16,
                before_adapters: groups.down.len() as u16,
                turn: 0,
            });
        }
        walk
    }

    fn add(&mut self, groups: &[PortGroup], positions: &[u32]) -> (u32, u32) {
        let first = self.groups.len() as u32;
        for group in groups {
            self.groups.push(GroupLoad {
                load: u64::from(positions[group.peer.index()]),
                first_cable: self.cables.len() as u32,
                peer: group.peer.0 as u16,
                cables: group.cables.len() as u8,
                peer_port: group.cables[0].peer_port,
            });
            if group.cables.len() > 1 {
                self.cables.extend(group.cables.iter().map(|cable| CableLoad {
                    peer_port: cable.peer_port,
                    routes_up: 0,
                    routes_down: 0,
                }));
            }
        }
        (first, self.groups.len() as u32)
    }

    /// Finds the routes of all switches to a destination, and counts them.
    pub(super) fn route(&mut self, to: WalkDestination) -> &WalkColumn {
        self.found.clear();
        self.is_to_switch = to.port == Some(0);
        let WalkColumn { outputs, hops } = &mut self.column;
        for numbers in [&mut *outputs, &mut *hops] {
            numbers.clear();
            numbers.resize(self.switches.len(), NONE);
        }
        let switch = to.switch.index();
        self.is_missing = to.port.is_none();
        // A host is one hop from its switch.
        let distance = u8::from(to.port != Some(0));
        outputs[switch] = to.port.unwrap_or(NONE);
        hops[switch] = distance;
        self.ascend(AscentStep {
            switch,
            previous: NO_SWITCH,
            counts: to.counts,
            reverse_hops: to.reverse_hops,
            hops: distance,
        });
        &self.column
    }

    /// The routes that the last walk set, in order, if it was to a switch.
    pub(super) fn found(&self) -> &[FoundRoute] {
        &self.found
    }

    /// False if the walks were cut short because `max_reverse_hops` leads to too many steps.
    pub(super) fn is_complete(&self) -> bool {
        self.reverse_steps < MAX_REVERSE_STEPS
    }

    /// Routes packets of the switches below, and of siblings. Returns true if there is a host
    /// below.
    fn descend(&mut self, switch: usize, previous: u16, hops: u8) -> bool {
        let here = self.switches[switch];
        if here.is_bottom() && here.adapters == 0 {
            return false;
        }
        if here.is_changed {
            self.sort_down(switch);
        }
        let siblings = here.siblings();
        sort(&mut self.groups[siblings.clone()], |group| group.load);
        let mut leads_to_host = here.adapters > 0;
        let siblings = if self.is_missing { 0..0 } else { siblings };
        for index in here.down().chain(siblings) {
            let GroupLoad { peer, .. } = self.groups[index];
            if peer != previous {
                leads_to_host |= self.descend_through(switch, index, hops);
            }
        }
        if leads_to_host {
            self.advance_turn(switch);
        }
        leads_to_host
    }

    /// Routes packets of the peer of a group through it if that is shorter than their present
    /// route.
    fn descend_through(&mut self, switch: usize, index: usize, hops: u8) -> bool {
        let group = self.groups[index];
        let peer = usize::from(group.peer);
        let next = hops.saturating_add(1);
        if next >= self.column.hops[peer] {
            return false;
        }
        let cable = self.least_loaded(&group, Count::Up);
        self.set(switch, &group, cable, next);
        let there = &self.switches[peer];
        let leads_to_host = if there.is_bottom() && there.siblings.0 == there.siblings.1 {
            there.adapters > 0
        } else {
            self.descend(peer, NO_SWITCH, next)
        };
        if leads_to_host {
            self.count(switch, index, group.peer);
            self.count_cable(cable, Count::Up);
            self.switches[switch].is_changed = true;
        }
        leads_to_host
    }

    /// Routes packets of the switches below and above. Returns true if there is a host below.
    fn ascend(&mut self, step: AscentStep) -> bool {
        let AscentStep { switch, previous, counts, reverse_hops, hops } = step;
        let mut leads_to_host = self.descend(switch, previous, hops);
        let here = self.switches[switch];
        if here.is_root {
            return self.turn_back_at_root(step) || leads_to_host;
        }
        let up = here.up();
        sort(&mut self.groups[up.clone()], |group| group.load);
        let Some(&first) = self.groups[up.clone()].first() else { return leads_to_host };
        if counts {
            let cable = self.least_loaded(&first, Count::Down);
            self.count(switch, up.start, first.peer);
            self.count_cable(cable, Count::Down);
            self.route_down(switch, &first, cable, hops);
            leads_to_host |= self.ascend(step.to(first.peer, counts, reverse_hops));
        }
        for index in up.skip(usize::from(counts)) {
            leads_to_host |= self.ascend_aside(index, step).unwrap_or(false);
        }
        let siblings = here.siblings();
        sort(&mut self.groups[siblings.clone()], |group| group.load as u32);
        for index in siblings {
            let group = self.groups[index];
            let cable = self.least_loaded(&group, Count::Down);
            if self.ascend_aside(index, step) == Some(true) {
                leads_to_host = true;
                // As in OpenSM, the route counts on the first up group, and on the sibling's cable.
                self.count(switch, here.up.0 as usize, first.peer);
                self.count_cable(cable, Count::Down);
            }
        }
        if reverse_hops > 0 && !here.is_leaf {
            for place in 0..here.down_count() {
                if let Some(peer) = self.down_at(switch, place) {
                    leads_to_host |= self.ascend_reversed(step.to(peer, true, reverse_hops - 1));
                }
            }
        }
        leads_to_host
    }

    /// Ascends through a group other than the first, if that is shorter than the present route of
    /// the peer; `None` if it is not.
    fn ascend_aside(&mut self, index: usize, step: AscentStep) -> Option<bool> {
        let group = self.groups[index];
        let cable = self.least_loaded(&group, Count::Down);
        let is_shorter = self.route_down(step.switch, &group, cable, step.hops);
        is_shorter.then(|| self.ascend(step.to(group.peer, false, step.reverse_hops)))
    }

    /// Routes packets of the peer of a group down through it if that is shorter than their present
    /// route.
    fn route_down(
        &mut self,
        switch: usize,
        group: &GroupLoad,
        cable: Option<u32>,
        hops: u8,
    ) -> bool {
        let peer = usize::from(group.peer);
        let next = hops.saturating_add(1);
        let is_shorter =
            next < self.column.hops[peer] || self.column.outputs[peer] == NONE && next < NONE;
        if is_shorter {
            self.set(switch, group, cable, next);
        }
        is_shorter
    }

    /// Routes packets of the peer of a group to `switch`.
    fn set(&mut self, switch: usize, group: &GroupLoad, cable: Option<u32>, hops: u8) {
        let peer = usize::from(group.peer);
        self.column.outputs[peer] = self.peer_port(group, cable);
        self.column.hops[peer] = hops;
        if self.is_to_switch {
            self.found.push(FoundRoute { from: group.peer, through: switch as u16, hops });
        }
    }

    /// At a root, ascends from the switches below as long as reverse hops are left. The first of
    /// them changes from one destination to the next.
    fn turn_back_at_root(&mut self, step: AscentStep) -> bool {
        let all = self.switches[step.switch].down_count();
        if step.reverse_hops == 0 || all == 0 {
            return false;
        }
        self.advance_turn(step.switch);
        let turn = usize::from(self.switches[step.switch].turn);
        let mut leads_to_host = false;
        for place in (turn..all).chain(0..turn) {
            if let Some(peer) = self.down_at(step.switch, place) {
                let next = step.to(peer, step.counts, step.reverse_hops - 1);
                leads_to_host |= self.ascend_reversed(next);
            }
        }
        leads_to_host
    }

    /// The peer of the down group at this place in OpenSM's order, in which channel adapters follow
    /// the groups without routes; `None` at their places. The order may change with each step.
    fn down_at(&self, switch: usize, place: usize) -> Option<u16> {
        let here = &self.switches[switch];
        let before = usize::from(here.before_adapters);
        let adapters = usize::from(here.adapters);
        let group = match place {
            _ if place < before => place,
            _ if place < before + adapters => return None,
            _ => place - adapters,
        };
        Some(self.groups[here.down.0 as usize + group].peer)
    }

    fn ascend_reversed(&mut self, step: AscentStep) -> bool {
        self.reverse_steps = self.reverse_steps.saturating_add(1);
        self.is_complete() && self.ascend(step)
    }

    fn advance_turn(&mut self, switch: usize) {
        let here = &mut self.switches[switch];
        // Only roots turn back.
        if here.is_root {
            here.turn = ((usize::from(here.turn) + 1) % here.down_count().max(1)) as u16;
        }
    }

    fn sort_down(&mut self, switch: usize) {
        let here = &mut self.switches[switch];
        here.is_changed = false;
        let groups = &mut self.groups[here.down()];
        sort(groups, |group| group.load);
        // Adapters have no routes up, and no index.
        here.before_adapters = groups.partition_point(|group| group.load < ROUTE) as u16;
    }

    /// The cable of a group with the fewest routes; `None` if there is only one.
    fn least_loaded(&self, group: &GroupLoad, count: Count) -> Option<u32> {
        if group.cables == 1 {
            return None;
        }
        let cables = group.first_cable..group.first_cable + u32::from(group.cables);
        cables.min_by_key(|&cable| {
            let cable = &self.cables[cable as usize];
            if count == Count::Up { cable.routes_up } else { cable.routes_down }
        })
    }

    fn peer_port(&self, group: &GroupLoad, cable: Option<u32>) -> u8 {
        cable.map_or(group.peer_port, |cable| self.cables[cable as usize].peer_port)
    }

    /// Counts a route on the group of a switch to `peer`, which is at `index` unless the groups
    /// were sorted since.
    fn count(&mut self, switch: usize, index: usize, peer: u16) {
        if is_wanted(&self.groups[index], peer) {
            self.groups[index].load += ROUTE;
            return;
        }
        let SwitchLoad { down, up, .. } = self.switches[switch];
        let all = &mut self.groups[down.0 as usize..up.1 as usize];
        if let Some(group) = all.iter_mut().find(|group| is_wanted(group, peer)) {
            group.load += ROUTE;
        }
    }

    fn count_cable(&mut self, cable: Option<u32>, count: Count) {
        let Some(cable) = cable else { return };
        let cable = &mut self.cables[cable as usize];
        match count {
            Count::Up => cable.routes_up += 1,
            Count::Down => cable.routes_down += 1,
        }
    }
}

fn is_wanted(group: &GroupLoad, peer: u16) -> bool {
    group.peer == peer
}

/// A step of an ascent.
#[derive(Clone, Copy)]
struct AscentStep {
    switch: usize,
    /// The switch below from which the ascent came.
    previous: u16,
    /// The route through the first up group is counted.
    counts: bool,
    /// Hops against the direction of the tree that are left.
    reverse_hops: u16,
    /// Hops to the destination.
    hops: u8,
}

impl AscentStep {
    fn to(self, peer: u16, counts: bool, reverse_hops: u16) -> Self {
        Self {
            switch: usize::from(peer),
            previous: self.switch as u16,
            counts,
            reverse_hops,
            hops: self.hops.saturating_add(1),
        }
    }
}
