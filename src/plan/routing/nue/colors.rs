//! The state of channels and edges, as colors of acyclic subgraphs.
//!
//! Channels and edges in use have the color of their subgraph, so that an edge between subgraphs of
//! different colors closes no cycle and needs no search. Each search for paths to a LID has a new
//! color, which takes over the colors that it meets. What a search colors is *wet* until it is
//! known whether the paths use it.
//!
//! Channels and edges that once had the same color always have the same one: they form a *class*.
//! A new class begins only with a source channel that is not in use, so there are few, and a search
//! is settled by the classes and by what is wet.

use super::channels::Channels;
use super::order::ChannelOrder;
use crate::plan::routing::weighted_paths::search::NONE;

/// The edge would close a cycle, or leads back.
pub(super) const BLOCKED: u32 = 0;

/// No path uses the channel or edge.
pub(super) const UNUSED: u32 = 1;

/// Reserved for escape paths.
pub(super) const ESCAPE: u32 = 2;

/// Marks wet edges, which are all in use.
const WET: u32 = 1 << 31;

/// The colors of all channels and edges. The classes 0 to 2 begin with the constants above.
#[derive(Clone)]
pub(super) struct Colors {
    /// By channel: its class.
    channels: Vec<u32>,
    is_wet_channel: Vec<bool>,
    /// By edge: its class, with [`WET`] if it is wet.
    edges: Vec<u32>,
    /// Channels and edges that the present search made wet; some may be dry again, or be here
    /// twice.
    wet_channels: Vec<u32>,
    wet_edges: Vec<u32>,
    /// By class: its color.
    colors: Vec<u32>,
    /// By class: the color that took its color over.
    current: Vec<u32>,
    /// By color: the color that took it over, or itself. Like OpenSM, only one step is followed.
    taken_by: Vec<u32>,
    /// `None` if edges in use have a cycle, as OpenSM's colors permit after they were taken over
    /// in several steps, or before the first order is made.
    order: Option<ChannelOrder>,
    /// By channel: the number of the last search for cycles that met it.
    met: Vec<u32>,
    searches: u32,
}

impl Colors {
    /// Nothing is in use yet.
    pub(super) fn new(graph: &Channels<'_>) -> Self {
        let constants = vec![BLOCKED, UNUSED, ESCAPE];
        let mut edges = vec![UNUSED; graph.edge_count()];
        graph.ways_back().for_each(|edge| edges[edge as usize] = BLOCKED);
        Self {
            channels: vec![UNUSED; graph.len()],
            is_wet_channel: vec![false; graph.len()],
            edges,
            wet_channels: Vec::new(),
            wet_edges: Vec::new(),
            colors: constants.clone(),
            current: constants.clone(),
            taken_by: constants,
            order: None,
            met: vec![0; graph.len()],
            searches: 0,
        }
    }

    /// The edges for which `used` is true are reserved like escape paths.
    pub(super) fn reserved(graph: &Channels<'_>, used: &[bool]) -> Self {
        let mut own = Self::new(graph);
        for channel in 0..graph.len() as u32 {
            for edge in graph.edges(channel).filter(|&edge| used[edge as usize]) {
                own.reserve(channel);
                own.reserve(graph.end(edge));
                own.reserve_edge(Some(edge));
            }
        }
        own
    }

    /// Blocks all edges that are not in use, except those of source channels, which are on no cycle.
    pub(super) fn block_unused(&mut self, graph: &Channels<'_>) {
        for channel in (0..graph.len() as u32).filter(|&channel| graph.link(channel) != NONE) {
            for edge in graph.edges(channel) {
                let class = &mut self.edges[edge as usize];
                if *class == UNUSED {
                    *class = BLOCKED;
                }
            }
        }
    }

    /// True if the channels are in an order in which all edges in use lead forward, so that these
    /// have no cycle.
    pub(super) fn has_order(&self) -> bool {
        self.order.is_some()
    }

    /// Orders the channels by the edges in use, after escape paths are reserved.
    pub(super) fn order_channels(&mut self, graph: &Channels<'_>) {
        self.order = ChannelOrder::new(graph, |edge| self.is_used(edge));
    }

    /// A color that was not used before.
    pub(super) fn new_color(&mut self) -> u32 {
        let color = self.taken_by.len() as u32;
        self.taken_by.push(color);
        color
    }

    pub(super) fn channel(&self, channel: u32) -> u32 {
        self.current[self.channels[channel as usize] as usize]
    }

    /// The color of an edge.
    #[cfg(test)]
    pub(super) fn edge(&self, edge: u32) -> u32 {
        self.current[(self.edges[edge as usize] & !WET) as usize]
    }

    /// True if a path uses an edge, or if it is reserved for escape paths. All classes but the
    /// first two have colors of edges in use.
    pub(super) fn is_used(&self, edge: u32) -> bool {
        self.edges[edge as usize] > UNUSED
    }

    pub(super) fn is_unused(&self, edge: u32) -> bool {
        self.edges[edge as usize] == UNUSED
    }

    /// For each edge from this one on, whether it is not blocked.
    pub(super) fn may_be_used(&self, first: u32) -> impl Iterator<Item = bool> {
        self.edges[first as usize..].iter().map(|&class| class != BLOCKED)
    }

    /// True if an edge would close a cycle.
    pub(super) fn is_blocked(&self, edge: u32) -> bool {
        self.edges[edge as usize] == BLOCKED
    }

    pub(super) fn is_wet(&self, edge: u32) -> bool {
        self.edges[edge as usize] & WET != 0
    }

    /// False if a path of an earlier search uses an edge in use.
    pub(super) fn may_be_new(&self, edge: u32) -> bool {
        self.is_wet(edge) || self.edges[edge as usize] == ESCAPE
    }

    /// Reserves a channel for escape paths.
    pub(super) fn reserve(&mut self, channel: u32) {
        self.channels[channel as usize] = ESCAPE;
    }

    /// Reserves an edge for escape paths.
    pub(super) fn reserve_edge(&mut self, edge: Option<u32>) {
        if let Some(edge) = edge {
            self.edges[edge as usize] = ESCAPE;
        }
    }

    /// Gives the subgraph of a source channel the color of a search that begins there.
    pub(super) fn begin(&mut self, source: u32, color: u32) {
        if self.channel(source) > UNUSED {
            self.take_over(self.channels[source as usize], color);
        } else {
            self.channels[source as usize] = self.colors.len() as u32;
            self.colors.push(color);
            self.current.push(self.taken_by[color as usize]);
        }
    }

    /// Lets a color take over that of a class.
    fn take_over(&mut self, class: u32, color: u32) {
        let taken = self.colors[class as usize];
        if std::mem::replace(&mut self.taken_by[taken as usize], color) == color {
            return;
        }
        for (current, &own) in self.current.iter_mut().zip(&self.colors) {
            if own == taken {
                *current = color;
            }
        }
    }

    /// Takes an edge into use if that closes no cycle, and else blocks it. Returns whether it is in
    /// use.
    pub(super) fn use_edge(
        &mut self,
        graph: &Channels<'_>,
        from: u32,
        edge: u32,
        color: u32,
    ) -> bool {
        if self.is_used(edge) {
            return true;
        }
        let to = graph.end(edge);
        let color_of_end = self.channel(to);
        let closes_cycle = self.closes_cycle(graph, from, to, color_of_end == color);
        let class = self.channels[from as usize];
        if color_of_end == color {
            if closes_cycle {
                self.edges[edge as usize] = BLOCKED;
                return false;
            }
        } else if color_of_end == UNUSED {
            self.channels[to as usize] = class;
            if !std::mem::replace(&mut self.is_wet_channel[to as usize], true) {
                self.wet_channels.push(to);
            }
        } else {
            self.take_over(self.channels[to as usize], self.colors[class as usize]);
        }
        self.edges[edge as usize] = class | WET;
        self.wet_edges.push(edge);
        true
    }

    /// True if edges in use lead from the end of an edge back to its start. `must_know` is false if
    /// the edge is used in either case; then the order alone is kept.
    fn closes_cycle(&mut self, graph: &Channels<'_>, from: u32, to: u32, must_know: bool) -> bool {
        let Self { order, edges, .. } = self;
        match order {
            None => must_know && self.leads(graph, to, from),
            Some(order) => {
                let closes_cycle =
                    order.admit(graph, from, to, |edge| edges[edge as usize] > UNUSED).is_err();
                if closes_cycle && !must_know {
                    self.order = None;
                }
                closes_cycle
            }
        }
    }

    /// True if edges in use lead from one channel to another.
    fn leads(&mut self, graph: &Channels<'_>, from: u32, to: u32) -> bool {
        self.searches += 1;
        let mut waiting = vec![from];
        while let Some(channel) = waiting.pop() {
            if std::mem::replace(&mut self.met[channel as usize], self.searches) == self.searches {
                continue;
            }
            for edge in graph.edges(channel) {
                let end = graph.end(edge);
                if self.is_used(edge) {
                    if end == to {
                        return true;
                    }
                    waiting.push(end);
                }
            }
        }
        false
    }

    /// Takes back an edge of the present search.
    pub(super) fn reset(&mut self, edge: Option<u32>) {
        if let Some(edge) = edge.filter(|&edge| self.is_wet(edge)) {
            self.edges[edge as usize] = UNUSED;
        }
    }

    /// Keeps a channel in use, and the edge that leads to it.
    pub(super) fn dry(&mut self, channel: u32, edge: Option<u32>) {
        self.is_wet_channel[channel as usize] = false;
        if let Some(edge) = edge {
            self.edges[edge as usize] &= !WET;
        }
    }

    /// Takes back whatever is wet, and lets all colors be those that took them over.
    pub(super) fn settle(&mut self) {
        for channel in self.wet_channels.drain(..) {
            if std::mem::take(&mut self.is_wet_channel[channel as usize]) {
                self.channels[channel as usize] = UNUSED;
            }
        }
        for edge in self.wet_edges.drain(..) {
            let class = &mut self.edges[edge as usize];
            if *class & WET != 0 {
                *class = UNUSED;
            }
        }
        for (color, current) in self.colors.iter_mut().zip(&mut self.current) {
            *color = *current;
            *current = self.taken_by[*color as usize];
        }
    }
}
