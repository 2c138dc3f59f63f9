//! Paths from all switches to a LID that close no cycle of dependencies: Dijkstra's algorithm on
//! the complete channel dependency graph.
//!
//! If switches remain without a path, another path to one of their neighbours may lead on to them
//! ([`Search::backtrack`]), from which the search goes on. If there is none, the escape paths are
//! taken for the whole LID.

use super::channels::Channels;
use super::colors::{BLOCKED, Colors, ESCAPE, UNUSED};
use crate::plan::routing::weighted_paths::heap::Heap;
use crate::plan::routing::weighted_paths::search::NONE;

/// The distance of a switch without a path.
const UNKNOWN: u64 = u64::MAX;

/// The paths to a LID, and the buffers of a search.
pub(super) struct Search<'a> {
    graph: &'a Channels<'a>,
    heap: Heap,
    /// By switch.
    distances: Vec<u64>,
    /// By switch: the link that leads to it from the next switch towards the destination.
    pub used: Vec<u32>,
    /// By switch: the hops to the destination, as far as the search counts them.
    pub hops: Vec<u8>,
    /// Other links that may lead to a switch.
    alternatives: Alternatives,
    /// Unused edges of the channel whose edges are followed, with the links to which they lead.
    unused: Vec<(u32, u32)>,
    /// By switch: the number of backtracking steps before it was found.
    found_after: Vec<u32>,
    /// By channel.
    channel_distances: Vec<u64>,
    /// True to keep the dependencies in use when a path is shortened; OpenSM forgets them.
    pub keep_dependencies: bool,
    /// The root of the present search.
    root: u32,
    /// The number of backtracking steps in the present search.
    steps: u32,
    /// The number of switches with a path.
    found: usize,
}

/// The state that a search changes.
pub(super) struct Layer<'a> {
    pub colors: &'a mut Colors,
    /// The color of the search.
    pub color: u32,
    /// Lengths of links.
    pub lengths: &'a [u64],
    /// The spanning tree of the escape paths.
    pub escape: &'a [u32],
    /// By edge: true if a path depends on it.
    pub dependencies: &'a mut [bool],
}

/// Links that lead to switches beside those of the paths, in the order in which they were found.
#[derive(Default)]
struct Alternatives {
    /// Alternatives found before the first backtracking step; most searches need no such step.
    found: Vec<u32>,
    /// By switch, without repetitions; empty until the first backtracking step.
    by_switch: Vec<Vec<u32>>,
}

impl Alternatives {
    fn clear(&mut self) {
        self.found.clear();
        self.by_switch.clear();
    }

    fn add(&mut self, graph: &Channels<'_>, link: u32) {
        if self.by_switch.is_empty() {
            return self.found.push(link);
        }
        let known = &mut self.by_switch[graph.link_end(link) as usize];
        if !known.contains(&link) {
            known.push(link);
        }
    }

    /// Sorts the links by switch, for the first backtracking step.
    fn sort(&mut self, graph: &Channels<'_>) {
        if self.by_switch.is_empty() {
            self.by_switch.resize(graph.network.len(), Vec::new());
            let found = std::mem::take(&mut self.found);
            found.iter().for_each(|&link| self.add(graph, link));
        }
    }

    /// The links to a switch, after [`Self::sort`].
    fn of(&self, switch: u32) -> &[u32] {
        &self.by_switch[switch as usize]
    }
}

impl<'a> Search<'a> {
    pub(super) fn new(graph: &'a Channels<'a>) -> Self {
        let switches = graph.network.len();
        Self {
            graph,
            heap: Heap::default(),
            distances: vec![UNKNOWN; switches],
            used: vec![NONE; switches],
            hops: vec![0; switches],
            alternatives: Alternatives::default(),
            unused: Vec::new(),
            found_after: vec![u32::MAX; switches],
            channel_distances: vec![0; graph.len()],
            keep_dependencies: false,
            root: 0,
            steps: 0,
            found: 0,
        }
    }

    /// Finds paths to a switch, or to one of its hosts. Returns whether it had to take the escape
    /// paths.
    pub(super) fn run(&mut self, layer: &mut Layer<'_>, root: u32, is_host: bool) -> bool {
        self.begin(root, is_host);
        let source = self.graph.source(root);
        layer.colors.begin(source, layer.color);
        self.channel_distances[source as usize] = 0;
        let mut next = Some(source);
        let mut is_blocked = false;
        while let Some(channel) = next {
            self.follow(layer, channel);
            next = self.heap.extract().map(|(_, channel)| channel);
            if next.is_none() && self.found != self.graph.network.len() {
                next = self.backtrack(layer);
                self.steps += u32::from(next.is_some());
                is_blocked = next.is_none();
                self.found += usize::from(next.is_some());
            }
        }
        if is_blocked {
            self.used.copy_from_slice(layer.escape);
            turn_tree(self.graph, &mut self.used, root);
        }
        self.keep_used(layer);
        is_blocked
    }

    fn begin(&mut self, root: u32, is_host: bool) {
        self.heap.clear(self.graph.len());
        self.distances.fill(UNKNOWN);
        self.used.fill(NONE);
        self.hops.fill(0);
        self.alternatives.clear();
        self.found_after.fill(u32::MAX);
        (self.root, self.steps, self.found) = (root, 0, 1);
        self.distances[root as usize] = 0;
        self.hops[root as usize] = u8::from(is_host);
    }

    /// Follows the edges of a channel: first those in use, then others.
    ///
    /// An unused edge that offers no shorter path changes nothing, then or later in this function,
    /// because distances only become smaller here.
    fn follow(&mut self, layer: &mut Layer<'_>, channel: u32) {
        let graph = self.graph;
        let end = self.end(channel);
        let back = match graph.link(channel) {
            NONE => NONE,
            link => graph.reverse(link).unwrap_or(NONE),
        };
        let links = graph.network.range(end).map(|link| link as u32);
        let mut unused = std::mem::take(&mut self.unused);
        for (edge, link) in graph.edges(channel).zip(links.filter(|&link| link != back)) {
            match layer.colors.edge(edge) {
                BLOCKED => {}
                UNUSED => {
                    let distance =
                        self.channel_distances[channel as usize] + layer.lengths[link as usize];
                    if distance < self.distances[graph.link_end(link) as usize] {
                        unused.push((edge, link));
                    }
                }
                _ => self.relax(layer, channel, edge, link),
            }
        }
        for (edge, link) in unused.drain(..) {
            if layer.colors.edge(edge) == UNUSED {
                self.relax(layer, channel, edge, link);
            }
        }
        self.unused = unused;
    }

    /// The switch at the end of a channel.
    fn end(&self, channel: u32) -> u32 {
        match self.graph.link(channel) {
            NONE => self.root,
            link => self.graph.link_end(link),
        }
    }

    /// The channel that leads to a switch; the source channel for the root.
    fn used_channel(&self, switch: u32) -> Option<u32> {
        match self.used[switch as usize] {
            NONE if switch == self.root => Some(self.graph.source(switch)),
            NONE => None,
            link => Some(self.graph.of_link(link)),
        }
    }

    /// The switch from which a channel leads.
    fn start(&self, channel: u32) -> u32 {
        match self.graph.link(channel) {
            NONE => self.root,
            link => self.graph.network.links()[link as usize].from,
        }
    }

    /// Takes the link to which an edge leads if that shortens the path to the switch at its end.
    fn relax(&mut self, layer: &mut Layer<'_>, channel: u32, edge: u32, link: u32) {
        let next = self.graph.end(edge);
        let to = self.graph.link_end(link);
        let distance = self.channel_distances[channel as usize] + layer.lengths[link as usize];
        if distance >= self.distances[to as usize] {
            let is_known = self.steps > 0 && self.used[to as usize] != NONE;
            if layer.colors.edge(edge) > UNUSED && !is_known {
                self.channel_distances[next as usize] = distance;
                self.alternatives.add(self.graph, link);
            }
            return;
        }
        if !layer.colors.use_edge(self.graph, channel, edge, layer.color) {
            return;
        }
        let was_found = self.used[to as usize] != NONE;
        if self.steps > 0 && was_found && self.found_after[to as usize] != self.steps {
            if !self.take_shortcut(layer, to, next) {
                return;
            }
        } else {
            if was_found {
                self.drop_path(layer, to);
            } else {
                self.found += 1;
                self.found_after[to as usize] = self.steps;
            }
            self.channel_distances[next as usize] = distance;
            self.heap.insert(next, distance);
        }
        self.distances[to as usize] = distance;
        self.used[to as usize] = link;
        self.hops[to as usize] = self.hops[self.end(channel) as usize].wrapping_add(1);
    }

    /// Forgets the path to a switch, for which a shorter one was found.
    fn drop_path(&mut self, layer: &mut Layer<'_>, switch: u32) {
        let Some(old) = self.used_channel(switch) else { return };
        self.heap.remove(old);
        let before = self.start(old);
        if self.used[before as usize] != NONE {
            let edge = self.used_channel(before).and_then(|before| self.graph.edge(before, old));
            layer.colors.reset(edge);
        }
    }

    /// The channels that follow on the paths over a switch, once for each link to their switch.
    fn channels_behind(&self, switch: u32) -> Vec<u32> {
        let network = self.graph.network;
        let ends = network.range(switch).map(|link| self.used[network.links()[link].to as usize]);
        ends.filter(|&used| used != NONE && network.links()[used as usize].from == switch)
            .map(|used| self.graph.of_link(used))
            .collect()
    }

    /// Tries to lead the paths over a switch through another channel, which is nearer.
    fn take_shortcut(&mut self, layer: &mut Layer<'_>, switch: u32, channel: u32) -> bool {
        let graph = self.graph;
        let Some(old) = self.used_channel(switch) else { return false };
        let before = self.used_channel(self.start(old));
        let behind = self.channels_behind(switch).into_iter();
        let edges: Vec<u32> = behind.filter_map(|end| graph.edge(channel, end)).collect();
        let was_wet: Vec<bool> = edges.iter().map(|&edge| layer.colors.is_wet(edge)).collect();
        let blocked = edges.iter().position(|&edge| {
            layer.colors.edge(edge) == BLOCKED
                || !layer.colors.use_edge(graph, channel, edge, layer.color)
        });
        let Some(blocked) = blocked else {
            layer.colors.reset(before.and_then(|before| graph.edge(before, old)));
            if !self.keep_dependencies {
                edges.iter().for_each(|&edge| layer.colors.reset(Some(edge)));
            }
            return true;
        };
        for (&edge, _) in edges[..blocked].iter().zip(&was_wet).filter(|(_, was_wet)| !**was_wet) {
            if layer.colors.edge(edge) != BLOCKED {
                layer.colors.reset(Some(edge));
            }
        }
        false
    }

    /// Finds a path to a switch without one, by another path to one of its neighbours. Returns the
    /// last channel of the path.
    fn backtrack(&mut self, layer: &mut Layer<'_>) -> Option<u32> {
        self.alternatives.sort(self.graph);
        (0..self.graph.network.len() as u32).find_map(|switch| {
            if self.distances[switch as usize] != UNKNOWN {
                return None;
            }
            let mut candidates = self.candidates(layer, switch);
            candidates.sort_by_key(|&(before, _)| self.channel_distances[before as usize]);
            let mut found = None;
            for (before, last) in candidates {
                if !self.connect(layer, before, last) {
                    continue;
                }
                let link = self.graph.link(last);
                let distance =
                    self.channel_distances[before as usize] + layer.lengths[link as usize];
                self.channel_distances[last as usize] = distance;
                if found.is_some() {
                    self.alternatives.add(self.graph, link);
                    continue;
                }
                self.used[switch as usize] = link;
                self.distances[switch as usize] = distance;
                let neighbour = self.end(before) as usize;
                self.used[neighbour] = self.graph.link(before);
                self.distances[neighbour] = self.channel_distances[before as usize];
                found = Some(last);
            }
            found
        })
    }

    /// Pairs of channels that may lead to a switch: one to a neighbour that does not change what
    /// follows there, and one from it.
    fn candidates(&self, layer: &Layer<'_>, switch: u32) -> Vec<(u32, u32)> {
        let (graph, network) = (self.graph, self.graph.network);
        let mut candidates = Vec::new();
        for link in network.range(switch) {
            let neighbour = network.links()[link].to;
            let Some(last) = graph.reverse(link as u32).map(|back| graph.of_link(back)) else {
                continue;
            };
            if self.distances[neighbour as usize] == UNKNOWN {
                continue;
            }
            let behind = self.channels_behind(neighbour);
            let leads_on = |channel: u32| {
                behind.iter().all(|&next| {
                    let is_way_back = self.start(channel) == self.end(next);
                    let edge = graph.edge(channel, next);
                    !is_way_back && edge.is_some_and(|edge| layer.colors.edge(edge) >= ESCAPE)
                })
            };
            let others = self.alternatives.of(neighbour).iter();
            let others = others.map(|&link| graph.of_link(link)).filter(|&other| leads_on(other));
            candidates.extend(others.map(|other| (other, last)));
        }
        candidates
    }

    /// Takes the edges from the path before a channel to it, and from it to the next one, into use.
    fn connect(&self, layer: &mut Layer<'_>, channel: u32, next: u32) -> bool {
        let graph = self.graph;
        let is_free = |colors: &Colors, edge: u32| colors.edge(edge) != BLOCKED;
        let edge = graph.edge(channel, next).filter(|&edge| is_free(layer.colors, edge));
        let start = self.start(channel);
        let (Some(edge), true) = (edge, start != self.root) else { return false };
        let Some(before) = self.used_channel(start) else { return false };
        // The way back to the switch before.
        if self.start(before) == self.end(channel) {
            return false;
        }
        let first = graph.edge(before, channel).filter(|&edge| is_free(layer.colors, edge));
        let Some(first) = first else { return false };
        let was_wet = layer.colors.is_wet(first);
        if !layer.colors.use_edge(graph, before, first, layer.color) {
            return false;
        }
        let is_used = layer.colors.use_edge(graph, channel, edge, layer.color);
        if !is_used && !was_wet {
            layer.colors.reset(Some(first));
        }
        is_used
    }

    /// Keeps the colors of the paths, and takes back all others of this search.
    fn keep_used(&self, layer: &mut Layer<'_>) {
        for &link in self.used.iter().filter(|&&link| link != NONE) {
            let channel = self.graph.of_link(link);
            let before = self.used_channel(self.start(channel));
            let edge = before.and_then(|before| self.graph.edge(before, channel));
            layer.colors.dry(channel, edge);
            if let Some(edge) = edge {
                layer.dependencies[edge as usize] = true;
            }
        }
        layer.colors.settle();
    }
}

/// Turns the links of a tree between its root and a switch, which becomes the root.
pub(super) fn turn_tree(graph: &Channels<'_>, tree: &mut [u32], root: u32) {
    let mut link = std::mem::replace(&mut tree[root as usize], NONE);
    while link != NONE {
        let parent = graph.network.links()[link as usize].from as usize;
        let back = graph.reverse(link).unwrap_or(NONE);
        link = std::mem::replace(&mut tree[parent], back);
    }
}
