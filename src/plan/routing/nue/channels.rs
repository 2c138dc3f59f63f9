//! The complete channel dependency graph: every way in which one channel can follow another.
//!
//! A *channel* is a link in the direction of the search, which is away from the destination;
//! packets travel against it. Each switch has a *source channel* besides, at which searches begin.
//! The channels of a switch follow each other, the source channel first and its links by port. The
//! edges of a channel lead to the links of the switch at its end in their order, so that the number
//! of an edge can be computed. That to the way back has a number, too, but no path may use it.

use crate::plan::routing::weighted_paths::network::{Network, ReachedSwitches};
use crate::plan::routing::weighted_paths::search::NONE;
use std::cmp::Ordering;
use std::ops::Range;

/// The channels of a network and the edges between them.
pub(super) struct Channels<'a> {
    pub network: &'a Network,
    /// By link: the link of the other direction, or [`NONE`].
    reverse: Vec<u32>,
    /// By channel: its link, or [`NONE`] for a source channel.
    links: Vec<u32>,
    /// By channel: the number of its first edge; the last entry is the number of edges.
    first_edge: Vec<u32>,
    /// By link: the number of the first edge of its channel.
    behind_link: Vec<u32>,
    /// By edge: the channel to which it leads.
    to: Vec<u32>,
    /// By channel: the place of the first edge to it in `edges_to`; the last entry is the number
    /// of edges.
    first_to: Vec<u32>,
    /// The edges with the channels from which they lead, by the channel to which they lead.
    edges_to: Vec<(u32, u32)>,
    /// By channel: a number that is smaller than those of most channels that may follow it on
    /// paths between hosts. Empty if it is not known.
    ranks: Vec<u32>,
}

impl<'a> Channels<'a> {
    pub(super) fn new(network: &'a Network) -> Self {
        let links = network.links().iter();
        let reverse = links.map(|link| network.link_at(link.to, link.to_port).unwrap_or(NONE));
        let mut own = Self {
            network,
            reverse: reverse.collect(),
            links: Vec::new(),
            first_edge: vec![0],
            behind_link: Vec::new(),
            to: Vec::new(),
            first_to: Vec::new(),
            edges_to: Vec::new(),
            ranks: Vec::new(),
        };
        for switch in 0..network.len() as u32 {
            own.links.push(NONE);
            own.add_edges(switch);
            for link in network.range(switch) {
                own.links.push(link as u32);
                own.add_edges(network.links()[link].to);
            }
        }
        own.behind_link = (0..network.links().len() as u32)
            .map(|link| own.first_edge[own.of_link(link) as usize])
            .collect();
        own.index_edges_to();
        own
    }

    /// Adds the edges from a channel to all links of the switch at its end.
    fn add_edges(&mut self, end: u32) {
        let links = self.network.range(end).map(|link| self.of_link(link as u32));
        self.to.extend(links.collect::<Vec<_>>());
        self.first_edge.push(self.to.len() as u32);
    }

    fn index_edges_to(&mut self) {
        let edges: Vec<(u32, u32)> = (0..self.len() as u32)
            .flat_map(|from| self.edges(from).map(move |edge| (edge, from)))
            .filter(|&(edge, from)| !self.is_way_back(from, edge))
            .collect();
        let mut first = vec![0; self.len() + 1];
        edges.iter().for_each(|&(edge, _)| first[self.end(edge) as usize + 1] += 1);
        for channel in 0..self.len() {
            first[channel + 1] += first[channel];
        }
        let mut next = first.clone();
        self.edges_to = vec![(0, 0); edges.len()];
        for edge in edges {
            let place = &mut next[self.end(edge.0) as usize];
            self.edges_to[*place as usize] = edge;
            *place += 1;
        }
        self.first_to = first;
    }

    /// True if an edge from a channel leads back to where the channel begins.
    fn is_way_back(&self, from: u32, edge: u32) -> bool {
        let link = self.link(from);
        link != NONE && self.reverse(link) == Some(self.link(self.end(edge)))
    }

    /// The edges that no path may use.
    pub(super) fn ways_back(&self) -> impl Iterator<Item = u32> {
        (0..self.network.links().len() as u32).filter_map(|link| {
            Some(self.edge_behind(self.link_end(link), link, self.reverse(link)?))
        })
    }

    /// Ranks the channels as in a tree with the switches that have hosts at its bottom: those that
    /// lead up, from the lowest ones, then those on a level, then those that lead down.
    pub(super) fn rank_above(&mut self, switches: impl Iterator<Item = u32>) {
        let network = self.network;
        let mut found = ReachedSwitches::default();
        network.hops_from(switches, &mut found);
        let ReachedSwitches { order, hops: levels } = found;
        let highest = order.last().map_or(0, |&farthest| levels[farthest as usize]);
        self.ranks = self
            .links
            .iter()
            .map(|&link| {
                let Some(link) = network.links().get(link as usize) else { return 0 };
                let [from, to] = [link.from, link.to].map(|end| levels[end as usize].min(highest));
                match from.cmp(&to) {
                    Ordering::Less => from,
                    Ordering::Equal => highest,
                    Ordering::Greater => 2 * highest + 1 - from,
                }
            })
            .collect();
    }

    /// The rank of a channel.
    pub(super) fn rank(&self, channel: u32) -> usize {
        self.ranks.get(channel as usize).map_or(0, |&rank| rank as usize)
    }

    /// Number of channels.
    pub(super) fn len(&self) -> usize {
        self.links.len()
    }

    /// Number of edges.
    pub(super) fn edge_count(&self) -> usize {
        self.to.len()
    }

    /// The channel of a link.
    pub(super) fn of_link(&self, link: u32) -> u32 {
        link + self.network.starts()[link as usize] + 1
    }

    /// The source channel of a switch.
    pub(super) fn source(&self, switch: u32) -> u32 {
        self.network.range(switch).start as u32 + switch
    }

    /// The channel of a link to a switch, or its source channel if that is [`NONE`].
    pub(super) fn channel_to(&self, switch: u32, link: u32) -> u32 {
        if link == NONE { self.source(switch) } else { self.of_link(link) }
    }

    /// The link of a channel; [`NONE`] for a source channel.
    pub(super) fn link(&self, channel: u32) -> u32 {
        self.links[channel as usize]
    }

    /// The switch to which a link leads.
    pub(super) fn link_end(&self, link: u32) -> u32 {
        self.network.ends()[link as usize]
    }

    /// The edge to the first link of `switch` from the channel of `link`, which leads there, or from
    /// its source channel if that is [`NONE`]. Those to its other links follow.
    #[inline]
    pub(super) fn first_behind(&self, switch: u32, link: u32) -> u32 {
        let first = self.behind_link.get(link as usize).copied();
        first.unwrap_or_else(|| self.first_edge[self.source(switch) as usize])
    }

    /// The edge to the link `next` of `switch` from the channel of `link`, as in
    /// [`Self::first_behind`].
    #[inline]
    pub(super) fn edge_behind(&self, switch: u32, link: u32, next: u32) -> u32 {
        self.first_behind(switch, link) + (next - self.network.range(switch).start as u32)
    }

    /// The link of the other direction of a cable.
    pub(super) fn reverse(&self, link: u32) -> Option<u32> {
        Some(self.reverse[link as usize]).filter(|&reverse| reverse != NONE)
    }

    /// The edges of a channel.
    pub(super) fn edges(&self, channel: u32) -> Range<u32> {
        self.first_edge[channel as usize]..self.first_edge[channel as usize + 1]
    }

    /// The edges that lead to a channel, but those to ways back, with the channels from which they
    /// lead.
    pub(super) fn edges_to(&self, channel: u32) -> &[(u32, u32)] {
        let places = self.first_to[channel as usize]..self.first_to[channel as usize + 1];
        &self.edges_to[places.start as usize..places.end as usize]
    }

    /// The channel to which an edge leads.
    pub(super) fn end(&self, edge: u32) -> u32 {
        self.to[edge as usize]
    }

    /// The edge from one channel to another, unless that is its way back.
    pub(super) fn edge(&self, from: u32, to: u32) -> Option<u32> {
        let edges = self.edges(from);
        let first = *self.to.get(edges.start as usize)?;
        let edge = edges.start.checked_add(to.wrapping_sub(first))?;
        (edges.contains(&edge) && self.end(edge) == to && !self.is_way_back(from, edge))
            .then_some(edge)
    }
}
