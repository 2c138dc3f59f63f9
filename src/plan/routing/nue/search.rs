//! Paths from all switches to a LID that close no cycle of dependencies: Dijkstra's algorithm on
//! the complete channel dependency graph.
//!
//! The first pass, which is all that most searches need, follows each switch once, as the
//! algorithm does on a plain graph, and looks at an edge only where it shortens a path. If switches
//! remain without a path, [`backtracking`] goes on; if that finds none either, the escape paths are
//! taken for the whole LID.

mod backtracking;

use super::channels::Channels;
use super::colors::Colors;
use crate::plan::routing::weighted_paths::early_end::EarlyEnd;
use crate::plan::routing::weighted_paths::heap::Heap;
use crate::plan::routing::weighted_paths::search::NONE;
use backtracking::Alternatives;

/// The distance of a switch without a path.
const UNKNOWN: u64 = u64::MAX;

/// The paths to a LID, and the buffers of a search.
pub(super) struct NueSearch<'a> {
    graph: &'a Channels<'a>,
    /// The switches whose channel is to be followed.
    heap: Heap,
    /// By switch.
    distances: Vec<u64>,
    /// By switch: the link that leads to it from the next switch towards the destination.
    pub used: Vec<u32>,
    /// By switch: the hops to the destination, as far as they are counted.
    hops: Vec<u8>,
    /// True if the hops are those of the present search.
    has_hops: bool,
    /// Unused edges of the channel that is followed, which lead to links that may shorten a path.
    unused: Vec<(u32, u32)>,
    destination: NueDestination,
    /// The number of switches with a path.
    found: usize,
    first_pass: FirstPass,
    pub backtracking: Backtracking,
}

/// The destination of a search.
#[derive(Default)]
struct NueDestination {
    root: u32,
    /// True if it is a host of `root`.
    is_host: bool,
}

/// The state of the first pass of a search.
struct FirstPass {
    /// By switch: the edge that leads to the channel of the link to it.
    used_edges: Vec<u32>,
    /// The switches whose channel it followed, in their order.
    followed: Vec<u32>,
    /// The links that shortened a path, until others shortened it more.
    replaced: Vec<u32>,
    /// Links of the switch that is followed which may shorten a path. There is room for one more than
    /// a switch has.
    shorter: Vec<u32>,
    early_end: EarlyEnd,
}

/// The state of the backtracking steps of a search.
#[derive(Default)]
pub(super) struct Backtracking {
    /// Other links that may lead to a switch.
    alternatives: Alternatives,
    /// Links that are sorted before they become alternatives, with the place and the distance of
    /// the channel from which they were met.
    met: Vec<(u32, u32, u64)>,
    /// By switch: the number of steps before it was found.
    found_after: Vec<u32>,
    /// By channel.
    channel_distances: Vec<u64>,
    /// The number of steps in the present search.
    steps: u32,
    /// True to keep the dependencies in use when a path is shortened; OpenSM forgets them.
    pub keep_dependencies: bool,
    /// True once dependencies in use were forgotten.
    pub has_forgotten: bool,
}

/// The state that a search changes.
pub(super) struct NueLayer<'a> {
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

impl<'a> NueSearch<'a> {
    /// A search over links of at least the length `shortest_link`.
    pub(super) fn new(graph: &'a Channels<'a>, shortest_link: u64) -> Self {
        let switches = graph.network.len();
        let links = (0..switches as u32).map(|switch| graph.network.range(switch).len());
        let max_links = links.max().unwrap_or(0);
        Self {
            graph,
            heap: Heap::default(),
            distances: vec![UNKNOWN; switches],
            used: vec![NONE; switches],
            hops: vec![0; switches],
            has_hops: true,
            unused: Vec::new(),
            destination: NueDestination::default(),
            found: 0,
            first_pass: FirstPass {
                used_edges: vec![NONE; switches],
                followed: Vec::new(),
                replaced: Vec::new(),
                shorter: vec![NONE; max_links + 1],
                early_end: EarlyEnd::new(shortest_link),
            },
            backtracking: Backtracking {
                found_after: vec![0; switches],
                channel_distances: vec![0; graph.len()],
                ..Backtracking::default()
            },
        }
    }

    /// Finds paths to a switch, or to one of its hosts. Returns whether it had to take the escape
    /// paths.
    pub(super) fn run(&mut self, layer: &mut NueLayer<'_>, root: u32, is_host: bool) -> bool {
        self.begin(root, is_host);
        layer.colors.begin(self.graph.source(root), layer.color);
        let mut next = Some((0, root));
        while let Some((distance, switch)) = next {
            self.first_pass.followed.push(switch);
            if self.first_pass.early_end.is_reached(distance, &self.distances, self.found) {
                self.first_pass.followed.extend(self.heap.drain().map(|(_, switch)| switch));
                break;
            }
            self.follow(layer, switch, distance);
            next = self.heap.extract();
        }
        if self.found == self.graph.network.len() {
            self.keep_first_paths(layer);
            return false;
        }
        let is_blocked = !self.backtrack_to_all(layer);
        if is_blocked {
            self.used.copy_from_slice(layer.escape);
            turn_tree(self.graph, &mut self.used, root);
        }
        self.keep_paths(layer);
        is_blocked
    }

    /// The switches from the root outwards, each behind the next one on its path; `None` if the
    /// last search needed more than its first pass.
    pub(super) fn outwards(&self) -> Option<impl DoubleEndedIterator<Item = u32>> {
        let is_first = self.first_pass.followed.len() == self.graph.network.len()
            && self.backtracking.steps == 0;
        is_first.then(|| self.followed())
    }

    /// The switches from the root outwards that the first pass followed.
    pub(super) fn followed(&self) -> impl DoubleEndedIterator<Item = u32> {
        self.first_pass.followed.iter().copied()
    }

    /// By switch: the hops to the destination of the last search, as far as it counts them.
    pub(super) fn hops(&mut self) -> &[u8] {
        if !std::mem::replace(&mut self.has_hops, true) {
            self.hops.fill(0);
            self.hops[self.destination.root as usize] = u8::from(self.destination.is_host);
            for &switch in self.first_pass.followed.iter().skip(1) {
                let next = self.graph.network.starts()[self.used[switch as usize] as usize];
                self.hops[switch as usize] = self.hops[next as usize].wrapping_add(1);
            }
        }
        &self.hops
    }

    fn begin(&mut self, root: u32, is_host: bool) {
        self.heap.clear(self.graph.network.len());
        self.distances.fill(UNKNOWN);
        self.used.fill(NONE);
        self.first_pass.followed.clear();
        self.first_pass.replaced.clear();
        self.backtracking.found_after.fill(0);
        self.destination = NueDestination { root, is_host };
        self.has_hops = false;
        self.backtracking.steps = 0;
        self.found = 1;
        self.first_pass.early_end.begin();
        self.distances[root as usize] = 0;
    }

    /// Follows the edges of a switch's channel in the first pass: first those in use, then others.
    ///
    /// An unused edge that offers no shorter path changes nothing, then or later in this function,
    /// because distances only become smaller here. The way back leads to a nearer switch.
    fn follow(&mut self, layer: &mut NueLayer<'_>, switch: u32, distance: u64) {
        let graph = self.graph;
        let used = self.used[switch as usize];
        let first_link = graph.network.range(switch).start as u32;
        let first_edge = graph.first_behind(switch, used);
        let count = self.find_shorter(layer, switch, first_edge, distance);
        for place in 0..count {
            let link = self.first_pass.shorter[place];
            let edge = first_edge + (link - first_link);
            let to = graph.link_end(link);
            let distance = distance + layer.lengths[link as usize];
            if layer.colors.is_unused(edge) {
                self.unused.push((edge, link));
            } else if distance < self.distances[to as usize] {
                self.take(layer, edge, link, to, distance);
            }
        }
        if !self.unused.is_empty() {
            self.follow_unused(layer, graph.channel_to(switch, used), distance);
        }
    }

    /// Follows the unused edges of a channel in the first pass.
    fn follow_unused(&mut self, layer: &mut NueLayer<'_>, channel: u32, distance: u64) {
        let graph = self.graph;
        let mut unused = std::mem::take(&mut self.unused);
        for (edge, link) in unused.drain(..) {
            let to = graph.link_end(link);
            let distance = distance + layer.lengths[link as usize];
            if distance < self.distances[to as usize]
                && layer.colors.is_unused(edge)
                && layer.colors.use_edge(graph, channel, edge, layer.color)
            {
                self.take(layer, edge, link, to, distance);
            }
        }
        self.unused = unused;
    }

    /// Finds the links of a switch that offer a shorter path over edges that are not blocked, of which
    /// `first_edge` is the first, and returns their number.
    fn find_shorter(
        &mut self,
        layer: &NueLayer<'_>,
        switch: u32,
        first_edge: u32,
        distance: u64,
    ) -> usize {
        let Self { graph, distances, first_pass: FirstPass { shorter, .. }, .. } = self;
        let links = graph.network.range(switch);
        let ends = &graph.network.ends()[links.clone()];
        let lengths = &layer.lengths[links.clone()];
        let may_be_used = layer.colors.may_be_used(first_edge);
        let mut count = 0;
        for (((&to, &length), may_be_used), link) in
            ends.iter().zip(lengths).zip(may_be_used).zip(links.start as u32..)
        {
            // It is written before it is known whether it counts, which could not be predicted.
            shorter[count] = link;
            let is_shorter = distance + length < distances[to as usize];
            count += usize::from(is_shorter & may_be_used);
        }
        count
    }

    /// Takes a link to which an edge in use leads, and which shortens the path to the switch at its
    /// end, in the first pass.
    fn take(&mut self, layer: &mut NueLayer<'_>, edge: u32, link: u32, to: u32, distance: u64) {
        let place = to as usize;
        match self.used[place] {
            NONE => self.found += 1,
            old => self.forget(layer, to, old, self.first_pass.used_edges[place]),
        }
        self.heap.insert(to, distance);
        self.distances[place] = distance;
        self.used[place] = link;
        self.first_pass.used_edges[place] = edge;
    }

    /// Forgets a link to a switch for which a shorter path was found, and the edge that leads to it.
    fn forget(&mut self, layer: &mut NueLayer<'_>, switch: u32, link: u32, edge: u32) {
        self.heap.remove(switch);
        self.first_pass.replaced.push(link);
        // Like OpenSM, which keeps the edges of the source channel.
        if self.graph.network.starts()[link as usize] != self.destination.root {
            layer.colors.reset(Some(edge));
        }
    }

    /// The switch at the end of a channel.
    fn end(&self, channel: u32) -> u32 {
        match self.graph.link(channel) {
            NONE => self.destination.root,
            link => self.graph.link_end(link),
        }
    }

    /// The channel that leads to a switch; the source channel for the root.
    fn used_channel(&self, switch: u32) -> Option<u32> {
        let link = self.used[switch as usize];
        (link != NONE || switch == self.destination.root)
            .then(|| self.graph.channel_to(switch, link))
    }

    /// The switch from which a channel leads.
    fn start(&self, channel: u32) -> u32 {
        match self.graph.link(channel) {
            NONE => self.destination.root,
            link => self.graph.network.starts()[link as usize],
        }
    }

    /// Keeps the colors of the paths of the first pass, and takes back all others of this search.
    fn keep_first_paths(&self, layer: &mut NueLayer<'_>) {
        let steps = self.used.iter().zip(&self.first_pass.used_edges);
        for (&link, &edge) in steps.filter(|&(&link, _)| link != NONE) {
            if layer.colors.may_be_new(edge) {
                layer.colors.dry(self.graph.of_link(link), Some(edge));
                layer.dependencies[edge as usize] = true;
            }
        }
        layer.colors.settle();
    }

    /// Keeps the colors of the paths, and takes back all others of this search.
    fn keep_paths(&self, layer: &mut NueLayer<'_>) {
        for &link in self.used.iter().filter(|&&link| link != NONE) {
            let start = self.graph.network.starts()[link as usize];
            let before = self.used[start as usize];
            let leads_on = match before {
                NONE => start == self.destination.root,
                before => self.graph.reverse(before) != Some(link),
            };
            let edge = leads_on.then(|| self.graph.edge_behind(start, before, link));
            layer.colors.dry(self.graph.of_link(link), edge);
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
        let parent = graph.network.starts()[link as usize] as usize;
        let back = graph.reverse(link).unwrap_or(NONE);
        link = std::mem::replace(&mut tree[parent], back);
    }
}
