//! An order of all channels in which each edge in use leads forward, so that most edges are known
//! to close no cycle without a search.
//!
//! An edge against the order is admitted by moving the channels between its ends (D. J. Pearce and
//! P. H. J. Kelly, "A Dynamic Topological Sort Algorithm for Directed Acyclic Graphs", 2006). Edges
//! that go out of use leave the order valid.

use super::channels::Channels;

/// The order of the channels.
#[derive(Clone)]
pub(super) struct ChannelOrder {
    /// By channel.
    places: Vec<u32>,
    /// By channel: the number of the last search that met it.
    met: Vec<u32>,
    searches: u32,
    /// The channels that the two searches of an admission met, with their places.
    after: Vec<Placed>,
    before: Vec<Placed>,
    /// The places that they share, in ascending order.
    free: Vec<u32>,
}

/// A channel with its place in front, so that channels sort by place.
type Placed = (u32, u32);

/// The edge would close a cycle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ClosesCycle;

impl ChannelOrder {
    /// An order for the edges that are in use; `None` if these have a cycle.
    pub(super) fn new(graph: &Channels<'_>, is_used: impl Fn(u32) -> bool) -> Option<Self> {
        let mut waiting_for = vec![0_u32; graph.len()];
        for edge in (0..graph.edge_count() as u32).filter(|&edge| is_used(edge)) {
            waiting_for[graph.end(edge) as usize] += 1;
        }
        let is_free = |&channel: &u32| waiting_for[channel as usize] == 0;
        let mut order: Vec<u32> = (0..graph.len() as u32).filter(is_free).collect();
        let mut next = 0;
        while let Some(&channel) = order.get(next) {
            next += 1;
            for edge in graph.edges(channel).filter(|&edge| is_used(edge)) {
                let end = graph.end(edge);
                waiting_for[end as usize] -= 1;
                if waiting_for[end as usize] == 0 {
                    order.push(end);
                }
            }
        }
        if order.len() < graph.len() {
            return None;
        }
        let mut places = vec![0; graph.len()];
        for (place, &channel) in (0..).zip(&order) {
            places[channel as usize] = place;
        }
        let met = vec![0; graph.len()];
        let (after, before, free) = (Vec::new(), Vec::new(), Vec::new());
        Some(Self { places, met, searches: 0, after, before, free })
    }

    /// Changes the order so that an edge may be used that leads from one channel to another.
    ///
    /// # Errors
    /// Returns [`ClosesCycle`], and leaves the order as it is, if edges in use lead back.
    pub(super) fn admit(
        &mut self,
        graph: &Channels<'_>,
        from: u32,
        to: u32,
        is_used: impl Fn(u32) -> bool,
    ) -> Result<(), ClosesCycle> {
        let (first, last) = (self.places[to as usize], self.places[from as usize]);
        if last < first {
            return Ok(());
        }
        self.search_after(graph, to, from, &is_used)?;
        self.search_before(graph, from, first, &is_used);
        self.move_met();
        Ok(())
    }

    /// Collects the channels to which edges in use lead, up to the place of `end`.
    fn search_after(
        &mut self,
        graph: &Channels<'_>,
        start: u32,
        end: u32,
        is_used: impl Fn(u32) -> bool,
    ) -> Result<(), ClosesCycle> {
        if start == end {
            return Err(ClosesCycle);
        }
        let last = self.places[end as usize];
        self.searches += 1;
        self.met[start as usize] = self.searches;
        self.after.clear();
        self.after.push((self.places[start as usize], start));
        let mut next = 0;
        while let Some(&(_, channel)) = self.after.get(next) {
            next += 1;
            for edge in graph.edges(channel) {
                let to = graph.end(edge);
                let place = self.places[to as usize];
                if place > last || !is_used(edge) {
                    continue;
                }
                if to == end {
                    return Err(ClosesCycle);
                }
                if std::mem::replace(&mut self.met[to as usize], self.searches) != self.searches {
                    self.after.push((place, to));
                }
            }
        }
        Ok(())
    }

    /// Collects the channels from which edges in use lead to `end`, down to the place `first`.
    fn search_before(
        &mut self,
        graph: &Channels<'_>,
        end: u32,
        first: u32,
        is_used: impl Fn(u32) -> bool,
    ) {
        self.searches += 1;
        self.met[end as usize] = self.searches;
        self.before.clear();
        self.before.push((self.places[end as usize], end));
        let mut next = 0;
        while let Some(&(_, channel)) = self.before.get(next) {
            next += 1;
            for &(edge, from) in graph.edges_to(channel) {
                let place = self.places[from as usize];
                if place >= first
                    && is_used(edge)
                    && std::mem::replace(&mut self.met[from as usize], self.searches)
                        != self.searches
                {
                    self.before.push((place, from));
                }
            }
        }
    }

    /// Puts the channels before the edge before those after it, at the places that they all have.
    fn move_met(&mut self) {
        let Self { places, after, before, free, .. } = self;
        before.sort_unstable();
        after.sort_unstable();
        free.clear();
        merge_places(before, after, free);
        for (&(_, channel), &place) in before.iter().chain(after.iter()).zip(free.iter()) {
            places[channel as usize] = place;
        }
    }
}

/// Appends the places of two sorted lists in ascending order.
fn merge_places(mut one: &[Placed], mut other: &[Placed], places: &mut Vec<u32>) {
    while let ([first, ones @ ..], [second, others @ ..]) = (one, other) {
        if first < second {
            places.push(first.0);
            one = ones;
        } else {
            places.push(second.0);
            other = others;
        }
    }
    places.extend(one.iter().chain(other).map(|&(place, _)| place));
}
