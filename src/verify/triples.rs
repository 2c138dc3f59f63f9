//! Triples (input, channel, next channel) and the SLs of the packets that take them: the decisions
//! of two consecutive switches.

use super::network::{Channel, ChannelSets, SwitchNetwork};
use std::array;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

/// The input of a triple for packets from the end ports at a switch, all of them together.
pub(super) const LOCAL_INPUT: u16 = 0;

/// Sets of a page. A proof differs from the one before it in few pages, which are 2 KiB each.
const PAGE_LEN: usize = 1024;

type Page = [AtomicU16; PAGE_LEN];

/// The SLs of packets by triple, one bit for each SL. The input is [`LOCAL_INPUT`] or the index of
/// an input channel plus one.
///
/// [`CollectedTriples`] are those that threads still add to.
pub(super) struct Triples {
    /// By channel ([`ChannelSets`] of its hop in the [`SwitchNetwork`]).
    pages: Vec<Arc<Page>>,
}

/// Triples that many threads add to at the same time. Sets only grow, so that the result does not depend on
/// the order. No others share their pages.
pub(super) struct CollectedTriples(Triples);

impl CollectedTriples {
    pub(super) fn new(network: &SwitchNetwork) -> Self {
        let pages = network.triples().div_ceil(PAGE_LEN);
        Self(Triples { pages: (0..pages).map(|_| Arc::new(empty_page())).collect() })
    }

    /// Adds SLs to the triple of `input`, a channel, and the next channel with index `next`.
    #[inline]
    pub(super) fn add(&self, channel: ChannelSets, input: u16, next: u16, mask: u16) {
        let index = channel.index(input, next);
        let set = &self.0.pages[index / PAGE_LEN][index % PAGE_LEN];
        if mask & !set.load(Ordering::Relaxed) != 0 {
            set.fetch_or(mask, Ordering::Relaxed);
        }
    }

    pub(super) fn finish(self) -> Triples {
        self.0
    }
}

impl Deref for CollectedTriples {
    type Target = Triples;

    fn deref(&self) -> &Triples {
        &self.0
    }
}

impl Triples {
    /// A copy to add to.
    pub(super) fn collected(&self) -> CollectedTriples {
        let pages = self.pages.iter().map(|page| Arc::new(copy_of(page)));
        CollectedTriples(Self { pages: pages.collect() })
    }

    /// The same sets, with pages that both share until one of them changes. Triples behind an [`Arc`] are
    /// only read.
    pub(super) fn shared(self: &Arc<Self>) -> Self {
        Self { pages: self.pages.clone() }
    }

    /// Adds SLs to the triple of `input`, a channel, and the next channel with index `next`. Changes no sets
    /// that share the page.
    pub(super) fn add(&mut self, channel: ChannelSets, input: u16, next: u16, mask: u16) {
        let index = channel.index(input, next);
        self.set(index, self.at(index) | mask);
    }

    /// Removes the SLs of all triples that contain a channel. Changes no sets that share a page.
    pub(super) fn remove_channel(&mut self, network: &SwitchNetwork, channel: u32) {
        let Channel { from, to, out_index, in_index, .. } = network.channels[channel as usize];
        let own = network.hop_of(channel).channel_sets();
        for next in 0..network.degree(to) as u16 {
            (0..=network.degree(from) as u16).for_each(|input| self.set(own.index(input, next), 0));
        }
        for after in network.out_of(to) {
            let width = network.degree(network.channels[after].to) as u16;
            let sets = network.hop_of(after as u32).channel_sets();
            (0..width).for_each(|next| self.set(sets.index(in_index + 1, next), 0));
        }
        for before in network.into(from) {
            let inputs = 0..=network.degree(network.channels[before as usize].from) as u16;
            let sets = network.hop_of(before).channel_sets();
            inputs.for_each(|input| self.set(sets.index(input, out_index), 0));
        }
    }

    /// Replaces the SLs of the triple with this index. A page that others share is copied if it changes.
    fn set(&mut self, index: usize, sls: u16) {
        if self.at(index) == sls {
            return;
        }
        let page = &mut self.pages[index / PAGE_LEN];
        if Arc::get_mut(page).is_none() {
            *page = Arc::new(copy_of(page));
        }
        page[index % PAGE_LEN].store(sls, Ordering::Relaxed);
    }

    /// The SLs of a triple; arguments as for [`Self::add`].
    #[inline]
    pub(super) fn get(&self, channel: ChannelSets, input: u16, next: u16) -> u16 {
        self.at(channel.index(input, next))
    }

    /// The SLs of the triple with this index.
    #[inline]
    pub(super) fn at(&self, index: usize) -> u16 {
        self.pages[index / PAGE_LEN][index % PAGE_LEN].load(Ordering::Relaxed)
    }

    /// The SLs by pair of consecutive channels, from all inputs.
    pub(super) fn pair_sls(&self, network: &SwitchNetwork) -> ChannelPairSls {
        let mut pair_sls = ChannelPairSls { first: Vec::new(), sls: Vec::new() };
        for channel in 0..network.channels.len() {
            let first = pair_sls.sls.len();
            pair_sls.first.push(first as u32);
            pair_sls.sls.resize(first + network.degree(network.channels[channel].to), 0);
            for (_, next, sls) in self.of(network, channel) {
                pair_sls.sls[first + usize::from(next)] |= sls;
            }
        }
        pair_sls
    }

    /// All triples with a channel in the middle: (input, index of the next channel, SLs).
    pub(super) fn of(
        &self,
        network: &SwitchNetwork,
        channel: usize,
    ) -> impl Iterator<Item = (u16, u16, u16)> + '_ {
        let hop = network.hop_of(channel as u32);
        let first = hop.triples;
        let width = u32::from(hop.width);
        let inputs = network.degree(network.channels[channel].from) + 1;
        let sets = first..first + inputs * usize::from(hop.width);
        let filled = sets.map(|index| self.at(index)).zip(0u32..);
        filled
            .filter(|&(sls, _)| sls != 0)
            .map(move |(sls, index)| ((index / width) as u16, (index % width) as u16, sls))
    }
}

fn empty_page() -> Page {
    array::from_fn(|_| AtomicU16::default())
}

fn copy_of(page: &Page) -> Page {
    array::from_fn(|index| AtomicU16::new(page[index].load(Ordering::Relaxed)))
}

/// The SLs of packets by pair of consecutive channels.
pub(super) struct ChannelPairSls {
    /// Offset of each channel in `sls`.
    first: Vec<u32>,
    /// For each channel the SLs by index of the next channel.
    sls: Vec<u16>,
}

impl ChannelPairSls {
    /// The SLs from a channel to the next one with index `next`.
    #[inline]
    pub(super) fn get(&self, channel: u32, next: u16) -> u16 {
        self.sls[self.first[channel as usize] as usize + usize::from(next)]
    }
}

/// A triple: channel, input as in [`Triples`], and index of the next channel.
pub(super) type Triple = (u32, u16, u16);

/// A sparse alternative to [`Triples`].
pub(super) type TripleSls = HashMap<Triple, u16>;

/// Adds the SLs of `more` to those of `all`.
pub(super) fn add_all(all: &mut TripleSls, more: &TripleSls) {
    for (&triple, &sls) in more {
        *all.entry(triple).or_default() |= sls;
    }
}

/// The numbers of the bits that are set, ascending.
pub(super) fn bits(mut set: u16) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let bit = (set != 0).then(|| set.trailing_zeros() as u8)?;
        set &= set - 1;
        Some(bit)
    })
}
