//! A first order of the channels of a layer, in which few of the wanted dependencies lead backward,
//! and none if they have no cycle (P. Eades, X. Lin, W. F. Smyth, "A Fast and Effective Heuristic
//! for the Feedback Arc Set Problem", 1993).
//!
//! Channels without successors take the last free place, those without predecessors the first one.
//! If there are neither, the channel takes the first free place that has the most successors more
//! than predecessors.

use super::network::LayerNetwork;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The place of each channel, by channel. `uses` tells the wanted dependencies, by number.
pub(super) fn places(network: &LayerNetwork<'_>, uses: &[u32]) -> Vec<u32> {
    let mut own = Ordering::new(network, uses);
    own.place_ends();
    if own.first < own.end {
        own.queue_all();
        while let Some((balance, Reverse(channel))) = own.queue.pop() {
            if own.is_free(channel) && own.balance(channel) == balance {
                own.place_first(channel);
                own.place_ends();
            }
        }
    }
    own.places
}

/// The place of a channel that has none yet.
const FREE: u32 = u32::MAX;

struct Ordering<'a> {
    network: &'a LayerNetwork<'a>,
    uses: &'a [u32],
    /// By channel.
    places: Vec<u32>,
    /// The free places.
    first: u32,
    end: u32,
    /// By channel: the numbers of its successors and predecessors without a place.
    successors: Vec<u32>,
    predecessors: Vec<u32>,
    /// Channels without successors or without predecessors.
    last: Vec<u32>,
    foremost: Vec<u32>,
    /// Channels by the balance of their successors and predecessors, some with an old one.
    queue: BinaryHeap<(i64, Reverse<u32>)>,
    is_queued: bool,
}

impl<'a> Ordering<'a> {
    fn new(network: &'a LayerNetwork<'a>, uses: &'a [u32]) -> Self {
        let count = network.neighbours.channels();
        let mut own = Self {
            network,
            uses,
            places: vec![FREE; count],
            first: 0,
            end: count as u32,
            successors: vec![0; count],
            predecessors: vec![0; count],
            last: Vec::new(),
            foremost: Vec::new(),
            queue: BinaryHeap::new(),
            is_queued: false,
        };
        for channel in 0..count as u32 {
            for next in network.successors(uses, channel) {
                own.successors[channel as usize] += 1;
                own.predecessors[next as usize] += 1;
            }
        }
        (own.last, own.foremost) =
            (without(&own.successors, count), without(&own.predecessors, count));
        own
    }

    fn is_free(&self, channel: u32) -> bool {
        self.places[channel as usize] == FREE
    }

    fn balance(&self, channel: u32) -> i64 {
        let channel = channel as usize;
        i64::from(self.successors[channel]) - i64::from(self.predecessors[channel])
    }

    fn queue_all(&mut self) {
        let free = (0..self.places.len() as u32).filter(|&channel| self.is_free(channel));
        self.queue = free.map(|channel| (self.balance(channel), Reverse(channel))).collect();
        self.is_queued = true;
    }

    /// Places channels without successors or predecessors until all have both.
    fn place_ends(&mut self) {
        loop {
            if let Some(channel) = self.last.pop() {
                if self.is_free(channel) {
                    self.end -= 1;
                    self.place(channel, self.end);
                }
            } else if let Some(channel) = self.foremost.pop() {
                if self.is_free(channel) {
                    self.place_first(channel);
                }
            } else {
                return;
            }
        }
    }

    fn place_first(&mut self, channel: u32) {
        self.place(channel, self.first);
        self.first += 1;
    }

    fn place(&mut self, channel: u32, place: u32) {
        self.places[channel as usize] = place;
        let network = self.network;
        let uses = self.uses;
        for next in network.successors(uses, channel) {
            self.predecessors[next as usize] -= 1;
            if self.predecessors[next as usize] == 0 {
                self.foremost.push(next);
            }
            self.requeue(next);
        }
        for before in network.predecessors(uses, channel) {
            self.successors[before as usize] -= 1;
            if self.successors[before as usize] == 0 {
                self.last.push(before);
            }
            self.requeue(before);
        }
    }

    fn requeue(&mut self, channel: u32) {
        if self.is_queued && self.is_free(channel) {
            self.queue.push((self.balance(channel), Reverse(channel)));
        }
    }
}

fn without(numbers: &[u32], count: usize) -> Vec<u32> {
    (0..count as u32).filter(|&channel| numbers[channel as usize] == 0).collect()
}
