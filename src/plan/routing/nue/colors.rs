//! The state of channels and edges, as colors of acyclic subgraphs.
//!
//! Channels and edges in use have the color of their subgraph, so that an edge between subgraphs of
//! different colors closes no cycle and needs no search. Each search for paths to a LID has a new
//! color, which takes over the colors that it meets. What a search colors is *wet* until it is
//! known whether the paths use it.

use super::channels::Channels;

/// The edge would close a cycle.
pub(super) const BLOCKED: u32 = 0;

/// No path uses the channel or edge.
pub(super) const UNUSED: u32 = 1;

/// Reserved for escape paths.
pub(super) const ESCAPE: u32 = 2;

/// The colors of all channels and edges.
#[derive(Clone)]
pub(super) struct Colors {
    channels: Vec<u32>,
    is_wet_channel: Vec<bool>,
    edges: Vec<u32>,
    is_wet_edge: Vec<bool>,
    /// By color: the color that took it over, or itself. Like OpenSM, only one step is followed.
    taken_by: Vec<u32>,
    /// By channel: the number of the last search for cycles that met it.
    met: Vec<u32>,
    searches: u32,
}

impl Colors {
    /// Nothing is in use yet.
    pub(super) fn new(graph: &Channels<'_>) -> Self {
        Self {
            channels: vec![UNUSED; graph.len()],
            is_wet_channel: vec![false; graph.len()],
            edges: vec![UNUSED; graph.edge_count()],
            is_wet_edge: vec![false; graph.edge_count()],
            taken_by: vec![BLOCKED, UNUSED, ESCAPE],
            met: vec![0; graph.len()],
            searches: 0,
        }
    }

    /// A color that was not used before.
    pub(super) fn new_color(&mut self) -> u32 {
        let color = self.taken_by.len() as u32;
        self.taken_by.push(color);
        color
    }

    pub(super) fn channel(&self, channel: u32) -> u32 {
        self.taken_by[self.channels[channel as usize] as usize]
    }

    pub(super) fn edge(&self, edge: u32) -> u32 {
        self.taken_by[self.edges[edge as usize] as usize]
    }

    pub(super) fn is_wet(&self, edge: u32) -> bool {
        self.is_wet_edge[edge as usize]
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
            self.taken_by[self.channels[source as usize] as usize] = color;
        } else {
            self.channels[source as usize] = color;
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
        if self.edge(edge) > UNUSED {
            return true;
        }
        let to = graph.end(edge);
        let color_of_end = self.channel(to);
        if color_of_end == color {
            if self.leads(graph, to, from) {
                self.edges[edge as usize] = BLOCKED;
                return false;
            }
        } else if color_of_end == UNUSED {
            self.channels[to as usize] = self.channels[from as usize];
            self.is_wet_channel[to as usize] = true;
        } else {
            self.taken_by[self.channels[to as usize] as usize] = self.channels[from as usize];
        }
        self.edges[edge as usize] = self.channels[from as usize];
        self.is_wet_edge[edge as usize] = true;
        true
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
                if self.edge(edge) > UNUSED {
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
        let Some(edge) = edge.map(|edge| edge as usize) else { return };
        if std::mem::take(&mut self.is_wet_edge[edge]) {
            self.edges[edge] = UNUSED;
        }
    }

    /// Keeps a channel in use, and the edge that leads to it.
    pub(super) fn dry(&mut self, channel: u32, edge: Option<u32>) {
        self.is_wet_channel[channel as usize] = false;
        if let Some(edge) = edge {
            self.is_wet_edge[edge as usize] = false;
        }
    }

    /// Takes back whatever is wet, and lets all colors be those that took them over.
    pub(super) fn settle(&mut self) {
        let Self { channels, is_wet_channel, edges, is_wet_edge, taken_by, .. } = self;
        let all = channels.iter_mut().zip(is_wet_channel).chain(edges.iter_mut().zip(is_wet_edge));
        for (color, is_wet) in all {
            *color = if std::mem::take(is_wet) { UNUSED } else { taken_by[*color as usize] };
        }
    }
}
