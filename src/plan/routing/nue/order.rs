//! An order of all channels in which each edge in use leads forward, so that most edges are known
//! to close no cycle without a search.
//!
//! An edge against the order is admitted by moving the channels before its start, or those after
//! its end, as far as they lie between both (D. J. Pearce and P. H. J. Kelly, "A Dynamic Topological
//! Sort Algorithm for Directed Acyclic Graphs", 2006). Both are searched in turns until one search
//! ends, because one of them is often a hundred times shorter. Its channels move past the other end
//! of the edge, between two neighbours in a list, so places have gaps. Edges that go out of use
//! leave the order valid.

use super::channels::Channels;
use std::collections::VecDeque;

/// The usual distance of the places of neighbours in a new order. A gap is halved 32 times before
/// all channels get new places.
const SPACING: i64 = 1 << 32;

/// The order of the channels.
#[derive(Clone)]
pub(super) struct ChannelOrder {
    /// By channel: a number that is greater than those of all channels before it.
    places: Vec<i64>,
    /// The distance of the places of neighbours in a new order.
    spacing: i64,
    /// By channel: its neighbours in the order. The last entries belong to the end of the order,
    /// which follows the last channel and precedes the first one.
    next: Vec<u32>,
    previous: Vec<u32>,
    /// By channel: the number of the last search that met it.
    met: Vec<u32>,
    searches: u32,
    /// The channels that the two searches of an admission met.
    after: Vec<u32>,
    before: Vec<u32>,
}

/// The edge would close a cycle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ClosesCycle;

/// Which of both searches of an admission ended first, with all its channels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Complete {
    /// The channels after the end of the edge.
    After,
    /// The channels before its start.
    Before,
}

impl ChannelOrder {
    /// An order for the edges that are in use; `None` if these have a cycle.
    pub(super) fn new(graph: &Channels<'_>, is_used: impl Fn(u32) -> bool) -> Option<Self> {
        Self::with_spacing(graph, is_used, SPACING)
    }

    /// An order like that of [`ChannelOrder::new`] with another distance of new places, at least 1.
    pub(super) fn with_spacing(
        graph: &Channels<'_>,
        is_used: impl Fn(u32) -> bool,
        spacing: i64,
    ) -> Option<Self> {
        let sorted = sorted(graph, is_used)?;
        let end = graph.len() as u32;
        let mut order = Self {
            places: vec![0; graph.len()],
            spacing,
            next: vec![end; graph.len() + 1],
            previous: vec![end; graph.len() + 1],
            met: vec![0; graph.len()],
            searches: 0,
            after: Vec::new(),
            before: Vec::new(),
        };
        order.link(end, &sorted);
        order.number();
        Some(order)
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
        if self.places[from as usize] < self.places[to as usize] {
            return Ok(());
        }
        if from == to {
            return Err(ClosesCycle);
        }
        let end = self.end();
        if !graph.edges(to).any(&is_used) {
            self.unlink(to);
            self.insert(self.previous[end as usize], &[to]);
        } else if !graph.edges_to(from).iter().any(|&(edge, _)| is_used(edge)) {
            self.unlink(from);
            self.insert(end, &[from]);
        } else {
            let complete = self.search(graph, from, to, is_used)?;
            self.move_met(complete, from, to);
        }
        Ok(())
    }

    /// Collects the channels between both ends of an edge to which edges in use lead from its end,
    /// or those from which they lead to its start: whichever search ends first.
    fn search(
        &mut self,
        graph: &Channels<'_>,
        from: u32,
        to: u32,
        is_used: impl Fn(u32) -> bool,
    ) -> Result<Complete, ClosesCycle> {
        let Self { places, met, after, before, .. } = self;
        let first = places[to as usize];
        let last = places[from as usize];
        self.searches += 2;
        let of_after = self.searches - 1;
        let of_before = self.searches;
        (met[to as usize], met[from as usize]) = (of_after, of_before);
        after.clear();
        before.clear();
        after.push(to);
        before.push(from);
        // A channel that both searches meet is on a cycle.
        let mut step = 0;
        loop {
            let Some(&channel) = after.get(step) else { return Ok(Complete::After) };
            for edge in graph.edges(channel) {
                // Most edges are not in use while many are admitted.
                if is_used(edge) && places[graph.end(edge) as usize] <= last {
                    visit(met, graph.end(edge), after, of_after, of_before)?;
                }
            }
            let Some(&channel) = before.get(step) else { return Ok(Complete::Before) };
            for &(edge, start) in graph.edges_to(channel) {
                if places[start as usize] >= first && is_used(edge) {
                    visit(met, start, before, of_before, of_after)?;
                }
            }
            step += 1;
        }
    }

    /// Moves the channels after the end of an edge behind its start, or those before its start
    /// before its end.
    fn move_met(&mut self, complete: Complete, from: u32, to: u32) {
        let mut channels = std::mem::take(match complete {
            Complete::After => &mut self.after,
            Complete::Before => &mut self.before,
        });
        channels.sort_unstable_by_key(|&channel| self.places[channel as usize]);
        channels.iter().for_each(|&channel| self.unlink(channel));
        match complete {
            Complete::After => self.insert(from, &channels),
            Complete::Before => self.insert(self.previous[to as usize], &channels),
        }
        match complete {
            Complete::After => self.after = channels,
            Complete::Before => self.before = channels,
        }
    }

    /// The end of the list.
    fn end(&self) -> u32 {
        self.places.len() as u32
    }

    fn unlink(&mut self, channel: u32) {
        let previous = self.previous[channel as usize];
        let next = self.next[channel as usize];
        self.next[previous as usize] = next;
        self.previous[next as usize] = previous;
    }

    /// Links channels behind another, or behind the end of the list, which is before the first.
    fn link(&mut self, mut previous: u32, channels: &[u32]) {
        let next = self.next[previous as usize];
        for &channel in channels {
            self.next[previous as usize] = channel;
            self.previous[channel as usize] = previous;
            previous = channel;
        }
        self.next[previous as usize] = next;
        self.previous[next as usize] = previous;
    }

    /// Puts channels that are not in the list behind another one, and gives them places.
    fn insert(&mut self, previous: u32, channels: &[u32]) {
        let next = self.next[previous as usize];
        self.link(previous, channels);
        let count = channels.len() as i64 + 1;
        match self.gap(previous, next, count).filter(|(first, last)| last - first >= count) {
            Some((first, last)) => {
                let distance = (last - first) / count;
                for (number, &channel) in (1..).zip(channels) {
                    self.places[channel as usize] = first + number * distance;
                }
            }
            None => self.number(),
        }
    }

    /// The places of two neighbours, between which there are `count` distances.
    fn gap(&self, previous: u32, next: u32, count: i64) -> Option<(i64, i64)> {
        let width = self.spacing.checked_mul(count)?;
        match (self.places.get(previous as usize), self.places.get(next as usize)) {
            (Some(&first), Some(&last)) => Some((first, last)),
            (Some(&first), None) => Some((first, first.checked_add(width)?)),
            (None, Some(&last)) => Some((last.checked_sub(width)?, last)),
            (None, None) => Some((0, width)),
        }
    }

    /// Gives all channels new places with equal gaps.
    fn number(&mut self) {
        let mut place = 0;
        let mut channel = self.next[self.places.len()];
        while let Some(own) = self.places.get_mut(channel as usize) {
            *own = place;
            place += self.spacing;
            channel = self.next[channel as usize];
        }
    }
}

/// Adds a channel to those that a search met, unless it did before.
fn visit(
    met: &mut [u32],
    channel: u32,
    found: &mut Vec<u32>,
    search: u32,
    other_search: u32,
) -> Result<(), ClosesCycle> {
    let last = std::mem::replace(&mut met[channel as usize], search);
    if last == other_search {
        return Err(ClosesCycle);
    }
    if last != search {
        found.push(channel);
    }
    Ok(())
}

/// The channels in an order for the edges in use, by rank as far as these permit; `None` if they
/// have a cycle.
fn sorted(graph: &Channels<'_>, is_used: impl Fn(u32) -> bool) -> Option<Vec<u32>> {
    let mut waiting_for = vec![0_u32; graph.len()];
    for edge in (0..graph.edge_count() as u32).filter(|&edge| is_used(edge)) {
        waiting_for[graph.end(edge) as usize] += 1;
    }
    // By rank: channels that wait for no other one.
    let mut free: Vec<VecDeque<u32>> = Vec::new();
    (0..graph.len() as u32)
        .filter(|&channel| waiting_for[channel as usize] == 0)
        .for_each(|channel| release(graph, &mut free, channel));
    let mut order = Vec::with_capacity(graph.len());
    while let Some(channel) = free.iter_mut().find_map(VecDeque::pop_front) {
        order.push(channel);
        for edge in graph.edges(channel).filter(|&edge| is_used(edge)) {
            let end = graph.end(edge);
            waiting_for[end as usize] -= 1;
            if waiting_for[end as usize] == 0 {
                release(graph, &mut free, end);
            }
        }
    }
    (order.len() == graph.len()).then_some(order)
}

fn release(graph: &Channels<'_>, free: &mut Vec<VecDeque<u32>>, channel: u32) {
    let rank = graph.rank(channel);
    free.resize_with(free.len().max(rank + 1), VecDeque::new);
    free[rank].push_back(channel);
}

/// True if the dependencies in use have a cycle.
pub(super) fn has_cycle(graph: &Channels<'_>, is_used: impl Fn(u32) -> bool) -> bool {
    sorted(graph, is_used).is_none()
}
