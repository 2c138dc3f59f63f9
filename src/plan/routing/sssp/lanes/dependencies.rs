//! The dependencies between the channels of a VL.

use std::sync::Arc;

/// No channel.
pub(super) const NONE: u32 = u32::MAX;

/// A channel depends on another one.
#[derive(Default)]
pub(super) struct Dependency {
    pub to: u32,
    /// Bundles whose paths had the dependency when they were added.
    pub bundles: Vec<u32>,
    /// The number of their paths.
    pub added: u32,
    /// The number of paths that were removed again.
    pub removed: u32,
    /// True if a cycle was broken here.
    pub is_broken: bool,
}

impl Dependency {
    /// The number of paths that are left.
    pub(super) fn paths(&self) -> u32 {
        self.added.wrapping_sub(self.removed)
    }
}

/// The dependencies of a VL. Channels are links between switches.
pub(super) struct Dependencies {
    /// By channel: its key in the tree.
    ranks: Arc<[u64]>,
    /// By channel: its dependencies on others, in the order in which they were added.
    pub from: Vec<Vec<Dependency>>,
    tree: ChannelTree,
    /// By channel: the number of the last search that met it.
    met: Vec<u32>,
    searches: u32,
}

impl Dependencies {
    pub(super) fn new(ranks: Arc<[u64]>) -> Self {
        let from = ranks.iter().map(|_| Vec::new()).collect();
        let met = vec![0; ranks.len()];
        Self { from, tree: ChannelTree::new(ranks.len()), ranks, met, searches: 0 }
    }

    /// Adds the paths of a bundle.
    pub(super) fn add(&mut self, path: &[u32], bundle: u32, paths: u32) {
        for &channel in path {
            self.tree.insert(channel, &self.ranks);
        }
        for pair in path.windows(2) {
            let known = &mut self.from[pair[0] as usize];
            let place = known.iter().position(|other| other.to == pair[1]);
            let place = place.unwrap_or_else(|| {
                known.push(Dependency { to: pair[1], ..Dependency::default() });
                known.len() - 1
            });
            known[place].bundles.push(bundle);
            known[place].added += paths;
        }
    }

    /// Adds the dependencies of a path to those that have no cycle, unless they close one.
    pub(super) fn try_add(&mut self, path: &[u32]) -> bool {
        let mut added = Vec::new();
        for pair in path.windows(2) {
            let is_known = |other: &Dependency| other.to == pair[1] && !other.is_broken;
            if self.from[pair[0] as usize].iter().any(is_known) {
                continue;
            }
            if self.leads(pair[1], pair[0]) {
                for &channel in added.iter().rev() {
                    self.from[channel as usize].pop();
                }
                return false;
            }
            self.from[pair[0] as usize].push(Dependency { to: pair[1], ..Dependency::default() });
            added.push(pair[0]);
        }
        true
    }

    /// True if a channel depends on another one through any others.
    fn leads(&mut self, from: u32, to: u32) -> bool {
        self.searches += 1;
        let mut waiting = vec![from];
        while let Some(channel) = waiting.pop() {
            if channel == to {
                return true;
            }
            if std::mem::replace(&mut self.met[channel as usize], self.searches) != self.searches {
                let next = self.from[channel as usize].iter().filter(|next| !next.is_broken);
                waiting.extend(next.map(|next| next.to));
            }
        }
        false
    }

    /// The channels in the order in which searches begin at them.
    pub(super) fn order(&self) -> Vec<u32> {
        self.tree.preorder()
    }
}

/// The channels in a binary search tree that is not balanced, because OpenSM searches for cycles in
/// the order of such a tree.
struct ChannelTree {
    root: u32,
    is_in: Vec<bool>,
    children: Vec<[u32; 2]>,
}

impl ChannelTree {
    fn new(channels: usize) -> Self {
        Self { root: NONE, is_in: vec![false; channels], children: vec![[NONE; 2]; channels] }
    }

    fn insert(&mut self, channel: u32, ranks: &[u64]) {
        if std::mem::replace(&mut self.is_in[channel as usize], true) {
            return;
        }
        if self.root == NONE {
            self.root = channel;
            return;
        }
        let mut at = self.root as usize;
        loop {
            let side = usize::from(ranks[channel as usize] > ranks[at]);
            match self.children[at][side] {
                NONE => break self.children[at][side] = channel,
                below => at = below as usize,
            }
        }
    }

    /// The channels, each before those below it, smaller ones first.
    fn preorder(&self) -> Vec<u32> {
        let (mut order, mut waiting) = (Vec::new(), vec![self.root]);
        while let Some(channel) = waiting.pop() {
            if channel != NONE {
                order.push(channel);
                let [smaller, greater] = self.children[channel as usize];
                waiting.extend([greater, smaller]);
            }
        }
        order
    }
}
