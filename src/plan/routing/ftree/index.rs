//! Indices of switches, by which port groups and leaf switches are sorted.
//!
//! The index of a switch is a tuple: its rank, then one number per level of the tree. A search
//! through the tree gives each switch the tuple of the switch that led to it, with the rank changed
//! by one and the number of the level between them replaced by the first free one. It begins at
//! the first leaf switch, or with `quasi_ftree_indexing` at each root.
//!
//! OpenSM's numbers are bytes: on trees with more than 255 switches that differ in one number only,
//! it repeats indices or does not end. Here such trees are indexed like smaller ones.

use super::hosts::Role;
use super::tree::{PortGroup, RankedTree, TreeSwitchGroups};
use crate::fabric::SwitchId;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::fmt;

/// The most ranks of a tree, and numbers in an index.
pub(super) const MAX_RANKS: usize = 8;

/// A number of an index that is not in use; the order of indices depends on its being the largest.
const UNUSED: u16 = u16::MAX;

/// The index of a switch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Index([u16; MAX_RANKS]);

impl Index {
    /// The index of switches that the search does not reach. It sorts last.
    const NONE: Self = Self([UNUSED; MAX_RANKS]);
}

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = self.0.iter().take_while(|&&number| number != UNUSED);
        let text: Vec<_> = used.map(u16::to_string).collect();
        f.write_str(if text.is_empty() { "none" } else { "" })?;
        f.write_str(&text.join("."))
    }
}

/// The indices of all switches.
pub(super) struct Indices {
    by_switch: Vec<Index>,
    taken: FxHashMap<Index, SwitchId>,
    /// By index with one number left out (as `UNUSED`) and its position: the first number to try.
    next: FxHashMap<(Index, usize), u16>,
}

impl Indices {
    fn new(switches: usize) -> Self {
        Self {
            by_switch: vec![Index::NONE; switches],
            taken: FxHashMap::default(),
            next: FxHashMap::default(),
        }
    }

    pub(super) fn of(&self, switch: SwitchId) -> Index {
        self.by_switch[switch.index()]
    }

    fn is_assigned(&self, switch: SwitchId) -> bool {
        self.of(switch) != Index::NONE
    }

    /// Assigns `index` with the first free number at `position`.
    fn assign(&mut self, switch: SwitchId, mut index: Index, position: usize) {
        index.0[position] = UNUSED;
        let next = self.next.entry((index, position)).or_default();
        loop {
            index.0[position] = *next;
            *next += 1;
            if let std::collections::hash_map::Entry::Vacant(entry) = self.taken.entry(index) {
                entry.insert(switch);
                break;
            }
        }
        self.by_switch[switch.index()] = index;
    }

    /// Positions of all switches in the order of their indices; equal only for equal indices.
    pub(super) fn positions(&self) -> Vec<u32> {
        let mut sorted = self.by_switch.clone();
        sorted.sort_unstable();
        sorted.dedup();
        self.by_switch
            .iter()
            .map(|index| sorted.partition_point(|other| other < index) as u32)
            .collect()
    }
}

/// Assigns indices, and sorts the port groups of the switches that the search passes through.
pub(super) fn assign(tree: &mut RankedTree<'_>, from_roots: bool) -> Indices {
    let mut search = IndexSearch {
        tree,
        indices: Indices::new(tree.groups.len()),
        down_sorted: vec![false; tree.groups.len()],
        up_sorted: vec![false; tree.groups.len()],
    };
    let starts: Vec<_> = if from_roots {
        tree.order.iter().copied().filter(|&switch| tree.ranks.of(switch) == 0).collect()
    } else {
        tree.order.iter().copied().find(|&switch| tree.is_leaf(switch)).into_iter().collect()
    };
    let mut subtrees = 0;
    for start in starts {
        if !search.indices.is_assigned(start) {
            search.assign_first(start, subtrees);
            subtrees += 1;
        }
        search.run(start);
    }
    let IndexSearch { indices, down_sorted, mut up_sorted, .. } = search;
    if from_roots {
        for &switch in &tree.order {
            up_sorted[switch.index()] |= tree.is_leaf(switch);
        }
    }
    for (index, TreeSwitchGroups { down, up, .. }) in tree.groups.iter_mut().enumerate() {
        if down_sorted[index] {
            sort_groups(&indices, down);
        }
        if up_sorted[index] {
            sort_groups(&indices, up);
        }
    }
    indices
}

fn sort_groups(indices: &Indices, groups: &mut [PortGroup]) {
    groups.sort_by_key(|group| indices.of(group.peer));
}

/// The search from one or several start switches.
struct IndexSearch<'a, 'b> {
    tree: &'a RankedTree<'b>,
    indices: Indices,
    /// Switches whose down and up groups the search has passed through.
    down_sorted: Vec<bool>,
    up_sorted: Vec<bool>,
}

impl IndexSearch<'_, '_> {
    /// Assigns the index of a start switch: its rank and zeros, or for a root the number of the
    /// search behind the first free number.
    fn assign_first(&mut self, switch: SwitchId, subtree: u16) {
        let rank = self.tree.ranks.of(switch);
        let levels = self.tree.leaf_rank as usize;
        let mut index = Index::NONE;
        index.0[0] = rank as u16;
        index.0[1..=levels].fill(0);
        if rank == 0 && levels > 1 {
            index.0[levels] = subtree;
        }
        self.indices.assign(switch, index, 1);
    }

    /// Assigns indices to all switches that `start` leads to.
    fn run(&mut self, start: SwitchId) {
        let tree = self.tree;
        let from_root = tree.ranks.of(start) == 0;
        let mut queue = VecDeque::from([start]);
        while let Some(switch) = queue.pop_front() {
            let rank = tree.ranks.of(switch);
            let TreeSwitchGroups { down, up, .. } = tree.groups(switch);
            if rank < tree.leaf_rank {
                self.visit(switch, down, &mut queue);
                self.down_sorted[switch.index()] = true;
            }
            if rank != 0 && !(from_root && tree.is_leaf(switch)) {
                self.visit(switch, up, &mut queue);
                self.up_sorted[switch.index()] = true;
            }
        }
    }

    /// Assigns indices to the peers of `groups`, and appends the new ones to the queue.
    fn visit(&mut self, from: SwitchId, groups: &[PortGroup], queue: &mut VecDeque<SwitchId>) {
        let Index(numbers) = self.indices.of(from);
        let from_rank = numbers[0];
        for group in groups {
            if self.indices.is_assigned(group.peer) {
                continue;
            }
            let rank = self.tree.ranks.of(group.peer) as u16;
            let mut index = Index(numbers);
            index.0[0] = rank;
            // The number of the level between the two switches.
            let position = usize::from(rank.max(from_rank));
            self.indices.assign(group.peer, index, position);
            queue.push_back(group.peer);
        }
    }
}

/// The leaf switches in the order of their indices, from the first to the last with compute nodes.
/// Switches of the same rank without compute nodes are among them.
pub(super) fn leaf_switches(tree: &RankedTree<'_>, indices: &Indices) -> Vec<SwitchId> {
    let mut leaves: Vec<_> = tree
        .order
        .iter()
        .copied()
        .filter(|&switch| tree.ranks.of(switch) == tree.leaf_rank)
        .collect();
    leaves.sort_by_key(|&switch| indices.of(switch));
    let has_compute: Vec<_> = leaves.iter().map(|&leaf| tree.is_leaf(leaf)).collect();
    let first = has_compute.iter().position(|&is_leaf| is_leaf).unwrap_or(0);
    let last = has_compute.iter().rposition(|&is_leaf| is_leaf).map_or(0, |last| last + 1);
    leaves.truncate(last);
    leaves.split_off(first.min(last))
}

/// The largest number of compute nodes at one switch.
pub(super) fn max_compute_nodes(tree: &RankedTree<'_>) -> usize {
    let mut counts = vec![0; tree.groups.len()];
    for host in tree.hosts.iter().filter(|host| host.role == Role::Compute) {
        counts[host.switch.index()] += 1;
    }
    counts.into_iter().max().unwrap_or(0)
}
