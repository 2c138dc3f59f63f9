//! The fabric reduced to what forwarding needs: switches, and the channels between them.
//!
//! A channel is one direction of a cable between two switches. Channels keep their numbers while
//! cables are lost and repaired ([`SwitchNetwork::without`], [`SwitchNetwork::with_repaired`]) and
//! switches disappear and return ([`SwitchRenumbering`]), so that everything indexed by channel stays
//! valid.

mod renumbering;

pub(super) use renumbering::{CableChanges, SwitchRenumbering};

use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::{Guid, PortNum};

/// The value for "none" in dense tables of switches, channels and port slots.
pub(super) const NONE: u32 = u32::MAX;

/// The far end of an output port of a switch.
#[derive(Clone, Copy)]
pub(super) struct NextHop {
    /// The switch at the other end; [`NONE`] if that is no switch.
    pub switch: u32,
    /// The channel from this port; [`NONE`] if the other end is no switch.
    pub channel: u32,
    /// Index of the channel among those out of its switch, from 0.
    pub out_index: u16,
    /// Index of the opposite channel among those out of the switch at the other end.
    pub in_index: u16,
    /// Number of channels out of the switch at the other end.
    pub width: u16,
    /// Offset of the channel's triples, `width` of them for each input.
    pub triples: usize,
}

impl NextHop {
    pub(super) const UNCONNECTED: Self =
        Self { switch: NONE, channel: NONE, out_index: 0, in_index: 0, width: 0, triples: 0 };

    #[inline]
    pub(super) fn channel_sets(&self) -> ChannelSets {
        ChannelSets { first: self.triples, width: self.width }
    }
}

/// Where the sets of a channel's triples are.
#[derive(Clone, Copy)]
pub(super) struct ChannelSets {
    /// Index of the first one.
    pub first: usize,
    /// Number of sets for each input: one for each next channel.
    pub width: u16,
}

impl ChannelSets {
    /// Index of the set of a triple with this input and the next channel with index `next`.
    #[inline]
    pub(super) fn index(self, input: u16, next: u16) -> usize {
        self.first + usize::from(input) * usize::from(self.width) + usize::from(next)
    }
}

/// A channel: one direction of a cable between two switches, named by the port that sends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Channel {
    /// The port that sends.
    pub port: PortId,
    /// The switch that sends.
    pub from: SwitchId,
    /// The switch that receives.
    pub to: SwitchId,
    /// Index among the channels out of the sending switch.
    pub out_index: u16,
    /// Index of the opposite channel among those out of the receiving switch.
    pub in_index: u16,
}

/// The data of a channel that is read when a path is followed.
#[derive(Clone, Copy)]
pub(super) struct PackedChannel {
    /// The switch that receives.
    pub to: u32,
    /// [`NextHop::triples`].
    pub triples: u32,
    /// Index among the channels out of the sending switch.
    pub out_index: u16,
    /// Index of the opposite channel among those out of the receiving switch.
    pub in_index: u16,
    /// [`NextHop::width`].
    pub width: u16,
}

/// The channels of a [`SwitchNetwork`] in a compact form, which fits into the CPU caches.
pub(super) struct PackedNetwork {
    /// Slot of port 0 and number of ports of each switch.
    first: Vec<(u32, u8)>,
    by_slot: Vec<u32>,
    by_channel: Vec<PackedChannel>,
}

impl PackedNetwork {
    /// The channel from port `num` of a switch; [`NONE`] if it leads to no switch.
    #[inline]
    pub(super) fn channel(&self, switch: u32, num: u8) -> u32 {
        let (first, ports) = self.first[switch as usize];
        if num <= ports { self.by_slot[(first + u32::from(num)) as usize] } else { NONE }
    }

    #[inline]
    pub(super) fn of(&self, channel: u32) -> PackedChannel {
        self.by_channel[channel as usize]
    }
}

/// The switches and channels of a fabric.
#[derive(Clone)]
pub(super) struct SwitchNetwork {
    /// Far end of each port slot.
    hops: Vec<NextHop>,
    /// All channels, those out of one switch together and in the order of its ports.
    pub channels: Vec<Channel>,
    /// First output channel and number of output channels of each switch.
    ranges: Vec<(u32, u16)>,
    /// Slot of port 0 and number of ports of each switch.
    slots: Vec<(u32, u8)>,
    /// Number of triples of all channels.
    triples: usize,
    /// Removed switches, which have the highest switch numbers and port slots behind those of the
    /// fabric.
    removed: Vec<Guid>,
}

impl SwitchNetwork {
    pub(super) fn new(fabric: &Fabric) -> Self {
        let mut network = Self {
            hops: vec![NextHop::UNCONNECTED; fabric.ports().len()],
            channels: Vec::new(),
            ranges: Vec::with_capacity(fabric.switches().len()),
            slots: Vec::with_capacity(fabric.switches().len()),
            triples: 0,
            removed: Vec::new(),
        };
        for from in fabric.switch_ids() {
            let node = fabric.switch(from);
            network.slots.push((node.first_port.0, node.num_ports()));
            network.ranges.push((network.channels.len() as u32, 0));
            for num in 1..=node.num_ports() {
                let port = PortId(node.first_port.0 + u32::from(num));
                if let Some(to) =
                    fabric.port(port).peer.and_then(|peer| fabric.node_of(peer).switch)
                {
                    network.add_channel(from, to, port);
                }
            }
        }
        network.join_ends(fabric);
        network
    }

    fn add_channel(&mut self, from: SwitchId, to: SwitchId, port: PortId) {
        let channel = self.channels.len() as u32;
        let out_index = self.ranges[from.index()].1;
        self.ranges[from.index()].1 += 1;
        self.hops[port.index()] =
            NextHop { switch: to.0, channel, out_index, ..NextHop::UNCONNECTED };
        self.channels.push(Channel { port, from, to, out_index, in_index: 0 });
    }

    fn join_ends(&mut self, fabric: &Fabric) {
        for index in 0..self.channels.len() {
            let channel = self.channels[index];
            let Some(peer) = fabric.port(channel.port).peer else { continue };
            let width = self.degree(channel.to);
            let in_index = self.hops[peer.index()].out_index;
            self.channels[index].in_index = in_index;
            let hop = &mut self.hops[channel.port.index()];
            (hop.in_index, hop.width, hop.triples) = (in_index, width as u16, self.triples);
            // Inputs: the end ports of the switch, and each of its channels.
            self.triples += (self.degree(channel.from) + 1) * width;
        }
    }

    /// Number of triples of all channels.
    pub(super) fn triples(&self) -> usize {
        self.triples
    }

    /// The hop along a channel.
    pub(super) fn hop_of(&self, channel: u32) -> &NextHop {
        &self.hops[self.channels[channel as usize].port.index()]
    }

    /// Number of switches including the removed ones.
    pub(super) fn switches(&self) -> usize {
        self.slots.len()
    }

    /// Number of channels out of a switch (and into it: cables have two directions).
    pub(super) fn degree(&self, switch: SwitchId) -> usize {
        self.ranges[switch.index()].1.into()
    }

    /// The channels out of a switch, by index.
    pub(super) fn out_of(&self, switch: SwitchId) -> std::ops::Range<usize> {
        let (first, count) = self.ranges[switch.index()];
        first as usize..first as usize + usize::from(count)
    }

    /// The opposite channel of the same cable.
    pub(super) fn reverse(&self, channel: u32) -> u32 {
        let Channel { to, in_index, .. } = self.channels[channel as usize];
        self.ranges[to.index()].0 + u32::from(in_index)
    }

    pub(super) fn packed(&self) -> PackedNetwork {
        PackedNetwork {
            first: self.slots.clone(),
            by_slot: self.hops.iter().map(|hop| hop.channel).collect(),
            by_channel: self
                .channels
                .iter()
                .map(|channel| {
                    let hop = self.hop(channel.port.0);
                    PackedChannel {
                        to: channel.to.0,
                        triples: hop.triples as u32,
                        out_index: channel.out_index,
                        in_index: channel.in_index,
                        width: hop.width,
                    }
                })
                .collect(),
        }
    }

    /// The network without the cables of these ports. All channels keep their numbers and triples,
    /// but no port leads to those of the lost cables.
    pub(super) fn without(&self, ports: &[PortId]) -> Self {
        let mut network = self.clone();
        for port in ports {
            let hop = &mut network.hops[port.index()];
            debug_assert_ne!(hop.channel, NONE, "the cable was there");
            (hop.switch, hop.channel) = (NONE, NONE);
        }
        network
    }

    /// The network with the cables of these channels, to which no port led, connected again.
    pub(super) fn with_repaired(&self, channels: &[u32]) -> Self {
        let mut network = self.clone();
        for &channel in channels {
            let Channel { port, to, .. } = self.channels[channel as usize];
            let hop = &mut network.hops[port.index()];
            debug_assert_eq!(hop.channel, NONE, "the cable was lost");
            (hop.switch, hop.channel) = (to.0, channel);
        }
        network
    }

    /// The channel of a lost cable between two ports.
    pub(super) fn cut_channel(&self, from: SwitchId, port: PortId, peer: PortId) -> Option<u32> {
        let channel = self.out_of(from).find(|&at| self.channels[at].port == port)? as u32;
        let is_that = self.channels[self.reverse(channel) as usize].port == peer;
        (self.is_cut(channel) && is_that).then_some(channel)
    }

    /// True for the channels of lost cables.
    pub(super) fn is_cut(&self, channel: u32) -> bool {
        self.hop_of(channel).channel == NONE
    }

    /// The channels into a switch.
    pub(super) fn into(&self, switch: SwitchId) -> impl Iterator<Item = u32> + '_ {
        self.out_of(switch).map(|channel| self.reverse(channel as u32))
    }

    /// The far end of a port slot.
    #[inline]
    pub(super) fn hop(&self, slot: u32) -> &NextHop {
        &self.hops[slot as usize]
    }

    /// The channel of port `num` of a switch; [`NONE`] if it leads to no switch.
    #[inline]
    pub(super) fn channel_of_port(&self, switch: u32, num: u8) -> u32 {
        let slot = self.slot(switch, num);
        if slot == NONE { NONE } else { self.hop(slot).channel }
    }

    /// Slot of port `num` of a switch; [`NONE`] if it has no such port.
    #[inline]
    pub(super) fn slot(&self, switch: u32, num: u8) -> u32 {
        let (first, ports) = self.slots[switch as usize];
        if num <= ports { first + u32::from(num) } else { NONE }
    }

    /// Number of the port that sends on a channel.
    pub(super) fn out_port(&self, fabric: &Fabric, channel: usize) -> PortNum {
        fabric.port(self.channels[channel].port).num
    }
}
