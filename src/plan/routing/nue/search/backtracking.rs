//! The search after its first pass, where blocked edges left switches without a path: another path
//! to one of their neighbours may lead on to them.

use super::{NueLayer, NueSearch, UNKNOWN};
use crate::plan::routing::nue::channels::Channels;
use crate::plan::routing::nue::colors::Colors;
use crate::plan::routing::weighted_paths::search::NONE;

/// Links that lead to switches beside those of the paths, in the order in which they were found.
#[derive(Default)]
pub(super) struct Alternatives {
    /// By switch, without repetitions.
    by_switch: Vec<Vec<u32>>,
    /// By switch: whether those that the first pass met are among them. They are looked for when
    /// they are needed, at few switches.
    has_first: Vec<bool>,
    /// By switch: the place among those that the first pass followed, or [`NONE`].
    followed_at: Vec<u32>,
    /// By switch: the link of its path after the first pass.
    used: Vec<u32>,
    /// By switch: its distance after the first pass.
    distances: Vec<u64>,
}

impl Alternatives {
    /// Forgets those of the last search, and takes over the result of the first pass of this one.
    fn begin(&mut self, followed: &[u32], used: &[u32], distances: &[u64]) {
        let switches = used.len();
        self.by_switch.resize(switches, Vec::new());
        self.by_switch.iter_mut().for_each(Vec::clear);
        self.has_first.clear();
        self.has_first.resize(switches, false);
        self.followed_at.clear();
        self.followed_at.resize(switches, NONE);
        for (place, &switch) in (0..).zip(followed) {
            self.followed_at[switch as usize] = place;
        }
        self.used.clear();
        self.used.extend_from_slice(used);
        self.distances.clear();
        self.distances.extend_from_slice(distances);
    }

    fn add(&mut self, graph: &Channels<'_>, link: u32) {
        let known = &mut self.by_switch[graph.link_end(link) as usize];
        if !known.contains(&link) {
            known.push(link);
        }
    }
}

impl NueSearch<'_> {
    /// Finds paths to the switches to which the first pass found none. Returns false if there are
    /// switches without a path.
    pub(super) fn backtrack_to_all(&mut self, layer: &mut NueLayer<'_>) -> bool {
        self.begin_alternatives();
        while self.found < self.graph.network.len() {
            let mut next = self.backtrack(layer);
            if next.is_none() {
                return false;
            }
            self.backtracking.steps += 1;
            self.found += 1;
            while let Some(channel) = next {
                self.follow_again(layer, channel);
                let switch = self.heap.extract().map(|(_, switch)| switch);
                next = switch.and_then(|switch| self.used_channel(switch));
            }
        }
        true
    }

    fn begin_alternatives(&mut self) {
        // Steps go on counting from the hops of the first pass.
        self.hops();
        self.backtracking.alternatives.begin(
            &self.first_pass.followed,
            &self.used,
            &self.distances,
        );
    }

    /// Adds the links to a switch that the first pass met over edges in use and that shortened no
    /// path, if that was not done yet.
    ///
    /// Such edges are still in use, and dry, because only those of links that were taken in this
    /// search may be taken back.
    fn add_first_alternatives(&mut self, layer: &NueLayer<'_>, switch: u32) {
        let graph = self.graph;
        let network = self.graph.network;
        if std::mem::replace(&mut self.backtracking.alternatives.has_first[switch as usize], true) {
            return;
        }
        let mut met = std::mem::take(&mut self.backtracking.met);
        for link in network.range(switch) {
            let Some(link) = graph.reverse(link as u32) else { continue };
            let Alternatives { followed_at, used, distances, .. } = &self.backtracking.alternatives;
            let start = network.starts()[link as usize];
            let place = followed_at[start as usize];
            let was_taken =
                used[switch as usize] == link || self.first_pass.replaced.contains(&link);
            if place == NONE || was_taken {
                continue;
            }
            let edge = graph.edge_behind(start, used[start as usize], link);
            if layer.colors.is_used(edge) && !layer.colors.is_wet(edge) {
                met.push((place, link, distances[start as usize]));
            }
        }
        met.sort_unstable();
        for (_, link, distance) in met.drain(..) {
            let channel = graph.of_link(link);
            self.backtracking.channel_distances[channel as usize] =
                distance + layer.lengths[link as usize];
            self.backtracking.alternatives.by_switch[switch as usize].push(link);
        }
        self.backtracking.met = met;
    }

    /// Adds a link to the alternatives of the switch at its end.
    fn add_alternative(&mut self, layer: &NueLayer<'_>, link: u32) {
        self.add_first_alternatives(layer, self.graph.link_end(link));
        self.backtracking.alternatives.add(self.graph, link);
    }

    /// Follows the edges of a channel after a backtracking step, as [`NueSearch::follow`] does before.
    fn follow_again(&mut self, layer: &mut NueLayer<'_>, channel: u32) {
        let graph = self.graph;
        let distance = self.backtracking.channel_distances[channel as usize];
        let mut unused = std::mem::take(&mut self.unused);
        let end = self.end(channel);
        let edges = graph.first_behind(end, graph.link(channel))..;
        for (edge, link) in edges.zip(graph.network.range(end).map(|link| link as u32)) {
            if layer.colors.is_used(edge) {
                self.relax(layer, channel, edge, link);
            } else if layer.colors.is_unused(edge)
                && is_shorter(graph, &self.distances, layer.lengths, link, distance)
            {
                unused.push((edge, link));
            }
        }
        for (edge, link) in unused.drain(..) {
            if layer.colors.is_unused(edge) {
                self.relax(layer, channel, edge, link);
            }
        }
        self.unused = unused;
    }

    /// Takes the link to which an edge leads if that shortens the path to the switch at its end.
    fn relax(&mut self, layer: &mut NueLayer<'_>, channel: u32, edge: u32, link: u32) {
        let next = self.graph.end(edge);
        let to = self.graph.link_end(link);
        let distance =
            self.backtracking.channel_distances[channel as usize] + layer.lengths[link as usize];
        if distance >= self.distances[to as usize] {
            let is_known = self.used[to as usize] != NONE;
            if layer.colors.is_used(edge) && !is_known {
                self.add_alternative(layer, link);
                self.backtracking.channel_distances[next as usize] = distance;
            }
            return;
        }
        if !layer.colors.use_edge(self.graph, channel, edge, layer.color) {
            return;
        }
        self.add_first_alternatives(layer, to);
        let was_found = self.used[to as usize] != NONE;
        if was_found && self.backtracking.found_after[to as usize] != self.backtracking.steps {
            if !self.take_shortcut(layer, to, next) {
                return;
            }
        } else {
            if was_found {
                self.drop_path(layer, to);
            } else {
                self.found += 1;
                self.backtracking.found_after[to as usize] = self.backtracking.steps;
            }
            self.backtracking.channel_distances[next as usize] = distance;
            self.heap.insert(to, distance);
        }
        self.distances[to as usize] = distance;
        self.used[to as usize] = link;
        self.hops[to as usize] = self.hops[self.end(channel) as usize].wrapping_add(1);
    }

    /// Forgets the path to a switch, for which a shorter one was found.
    fn drop_path(&mut self, layer: &mut NueLayer<'_>, switch: u32) {
        let Some(old) = self.used_channel(switch) else { return };
        self.heap.remove(switch);
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
        ends.filter(|&used| used != NONE && network.starts()[used as usize] == switch)
            .map(|used| self.graph.of_link(used))
            .collect()
    }

    /// Tries to lead the paths over a switch through another channel, which is nearer.
    fn take_shortcut(&mut self, layer: &mut NueLayer<'_>, switch: u32, channel: u32) -> bool {
        let graph = self.graph;
        let Some(old) = self.used_channel(switch) else { return false };
        let before = self.used_channel(self.start(old));
        let behind = self.channels_behind(switch).into_iter();
        let edges: Vec<u32> = behind.filter_map(|end| graph.edge(channel, end)).collect();
        let was_wet: Vec<bool> = edges.iter().map(|&edge| layer.colors.is_wet(edge)).collect();
        let blocked = edges.iter().position(|&edge| {
            layer.colors.is_blocked(edge)
                || !layer.colors.use_edge(graph, channel, edge, layer.color)
        });
        let Some(blocked) = blocked else {
            layer.colors.reset(before.and_then(|before| graph.edge(before, old)));
            if !self.backtracking.keep_dependencies {
                self.backtracking.has_forgotten |=
                    edges.iter().any(|&edge| layer.colors.is_wet(edge));
                edges.iter().for_each(|&edge| layer.colors.reset(Some(edge)));
            }
            return true;
        };
        for (&edge, _) in edges[..blocked].iter().zip(&was_wet).filter(|(_, was_wet)| !**was_wet) {
            if !layer.colors.is_blocked(edge) {
                layer.colors.reset(Some(edge));
            }
        }
        false
    }

    /// Finds a path to a switch without one, by another path to one of its neighbours. Returns the
    /// last channel of the path.
    fn backtrack(&mut self, layer: &mut NueLayer<'_>) -> Option<u32> {
        (0..self.graph.network.len() as u32).find_map(|switch| {
            if self.distances[switch as usize] != UNKNOWN {
                return None;
            }
            let mut candidates = self.candidates(layer, switch);
            candidates
                .sort_by_key(|&(before, _)| self.backtracking.channel_distances[before as usize]);
            let mut found = None;
            for (before, last) in candidates {
                if !self.connect(layer, before, last) {
                    continue;
                }
                let link = self.graph.link(last);
                let distance = self.backtracking.channel_distances[before as usize]
                    + layer.lengths[link as usize];
                self.add_alternative(layer, link);
                self.backtracking.channel_distances[last as usize] = distance;
                if found.is_some() {
                    continue;
                }
                self.used[switch as usize] = link;
                self.distances[switch as usize] = distance;
                let neighbour = self.end(before) as usize;
                self.used[neighbour] = self.graph.link(before);
                self.distances[neighbour] = self.backtracking.channel_distances[before as usize];
                found = Some(last);
            }
            found
        })
    }

    /// Pairs of channels that may lead to a switch: one to a neighbour that does not change what
    /// follows there, and one from it.
    fn candidates(&mut self, layer: &NueLayer<'_>, switch: u32) -> Vec<(u32, u32)> {
        let graph = self.graph;
        let network = self.graph.network;
        let mut candidates = Vec::new();
        for link in network.range(switch) {
            let neighbour = network.links()[link].to;
            let Some(last) = graph.reverse(link as u32).map(|back| graph.of_link(back)) else {
                continue;
            };
            if self.distances[neighbour as usize] == UNKNOWN {
                continue;
            }
            self.add_first_alternatives(layer, neighbour);
            let behind = self.channels_behind(neighbour);
            let others = self.backtracking.alternatives.by_switch[neighbour as usize].iter();
            let others = others
                .map(|&link| graph.of_link(link))
                .filter(|&other| self.leads_on(&behind, graph, layer.colors, other));
            candidates.extend(others.map(|other| (other, last)));
        }
        candidates
    }

    /// Takes the edges from the path before a channel to it, and from it to the next one, into use.
    fn connect(&self, layer: &mut NueLayer<'_>, channel: u32, next: u32) -> bool {
        let graph = self.graph;
        let edge = graph.edge(channel, next).filter(|&edge| is_free(layer.colors, edge));
        let start = self.start(channel);
        let (Some(edge), true) = (edge, start != self.destination.root) else { return false };
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

    fn leads_on(
        &self,
        behind: &[u32],
        graph: &Channels<'_>,
        colors: &Colors,
        channel: u32,
    ) -> bool {
        behind.iter().all(|&next| {
            let is_way_back = self.start(channel) == self.end(next);
            let edge = graph.edge(channel, next);
            !is_way_back && edge.is_some_and(|edge| colors.is_used(edge))
        })
    }
}

fn is_free(colors: &Colors, edge: u32) -> bool {
    !colors.is_blocked(edge)
}

fn is_shorter(
    graph: &Channels<'_>,
    distances: &[u64],
    lengths: &[u64],
    link: u32,
    distance: u64,
) -> bool {
    let known = distances[graph.link_end(link) as usize];
    distance + lengths[link as usize] < known
}
