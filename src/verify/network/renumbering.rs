//! Switches and channels by the numbers of another picture.
//!
//! Channels, and all that is counted by them, keep their numbers. A switch that is lost is kept as a removed:
//! numbered behind the switches of the picture, with port slots behind those of the picture. So what it
//! forwarded can still be followed, and when it is back its channels are taken up again.

use super::{NONE, NextHop, SwitchNetwork};
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::Guid;

/// How the switches of a [`SwitchNetwork`] are numbered in another picture.
pub(in crate::verify) struct Renumbering {
    /// By number there, removed last: the number before.
    pub before: Vec<u32>,
    /// Numbers there of those that became removed, ascending.
    pub newly_removed: Vec<u32>,
    /// Numbers there of those that were removed, ascending.
    pub returned: Vec<u32>,
    removed: Vec<Guid>,
}

impl Renumbering {
    /// The renumbering of a network of picture `old` in the picture `new`; `None` if there is a switch that
    /// nobody knows, or that has another number of ports.
    pub(crate) fn between(network: &SwitchNetwork, old: &Fabric, new: &Fabric) -> Option<Self> {
        let (count, real) = (network.switches(), old.switches().len());
        let number = |guid: Guid| {
            let known = old.node_by_guid(guid).and_then(|node| old.node(node).switch);
            let removed = || network.removed.iter().position(|&removed| removed == guid);
            known.map(SwitchId::index).or_else(|| Some(real + removed()?))
        };
        let mut found = Self {
            before: Vec::with_capacity(count),
            newly_removed: Vec::new(),
            returned: Vec::new(),
            removed: Vec::new(),
        };
        let mut is_there = vec![false; count];
        for switch in new.switch_ids() {
            let node = new.switch(switch);
            let was = number(node.guid())?;
            if network.slots[was].1 != node.num_ports() {
                return None;
            }
            if was >= real {
                found.returned.push(switch.0);
            }
            is_there[was] = true;
            found.before.push(was as u32);
        }
        for was in (0..count).filter(|&was| !is_there[was]) {
            if was < real {
                found.newly_removed.push(found.before.len() as u32);
            }
            let guid = || old.switch(SwitchId(was as u32)).guid();
            found
                .removed
                .push(was.checked_sub(real).map_or_else(guid, |removed| network.removed[removed]));
            found.before.push(was as u32);
        }
        Some(found)
    }

    /// True if all switches have the numbers that they had.
    pub(crate) fn is_same(&self) -> bool {
        self.before.iter().zip(0..).all(|(&was, is)| was == is)
    }

    /// By number before: the number now.
    pub(crate) fn after(&self) -> Vec<u32> {
        let mut after = vec![NONE; self.before.len()];
        (0..).zip(&self.before).for_each(|(is, &was)| after[was as usize] = is);
        after
    }
}

/// CableChanges that changed.
#[derive(Default)]
pub(in crate::verify) struct CableChanges {
    /// Ports that lost their cable.
    pub ports: Vec<PortId>,
    /// The channels that are gone with the cables.
    pub channels: Vec<u32>,
    /// The channels of cables that were lost before, and are there again.
    pub repaired: Vec<u32>,
}

impl SwitchNetwork {
    /// The same by the numbers of another picture, and the cables that changed there, of which those
    /// that are lost have their hops still; `None` if there are other changes.
    pub(crate) fn renumbered(
        &self,
        renumbering: &Renumbering,
        new: &Fabric,
    ) -> Option<(Self, CableChanges)> {
        let network = self.by_numbers(renumbering, new);
        let mut cables = CableChanges::default();
        for switch in new.switch_ids() {
            network.compare(new, switch, &mut cables)?;
        }
        for &removed in &renumbering.newly_removed {
            for channel in network.out_of(SwitchId(removed)).map(|channel| channel as u32) {
                if !network.is_cut(channel) {
                    cables.add_lost(network.channels[channel as usize].port, channel);
                }
            }
        }
        Some((network, cables))
    }

    /// The network of another picture, in which what is lost is kept in mind; `None` if there are switches
    /// or cables that nobody knows.
    pub(crate) fn for_snapshot(&self, old: &Fabric, new: &Fabric) -> Option<Self> {
        let renumbering = Renumbering::between(self, old, new)?;
        let (network, CableChanges { ports, repaired, .. }) = self.renumbered(&renumbering, new)?;
        Some(network.with_repaired(&repaired).without(&ports))
    }

    fn by_numbers(&self, renumbering: &Renumbering, new: &Fabric) -> Self {
        let (after, count) = (renumbering.after(), self.switches());
        let mut network = Self {
            hops: vec![NextHop::UNCONNECTED; new.ports().len()],
            channels: self.channels.clone(),
            ranges: Vec::with_capacity(count),
            slots: Vec::with_capacity(count),
            triples: self.triples,
            removed: renumbering.removed.clone(),
        };
        for (number, &was) in (0..).zip(&renumbering.before) {
            let (slot, ports) = self.slots[was as usize];
            let own = &self.hops[slot as usize..=slot as usize + usize::from(ports)];
            let there = new.switches().get(number as usize).map(|&node| new.node(node).first_port);
            let first = there.map_or(network.hops.len(), PortId::index);
            match there {
                Some(_) => network.hops[first..first + own.len()].copy_from_slice(own),
                None => network.hops.extend_from_slice(own),
            }
            network.slots.push((first as u32, ports));
            network.ranges.push(self.ranges[was as usize]);
            for channel in &mut network.channels[self.out_of(SwitchId(was))] {
                channel.port = PortId(channel.port.0 - slot + first as u32);
                channel.from = SwitchId(number);
                channel.to = SwitchId(after[channel.to.index()]);
            }
        }
        for hop in network.hops.iter_mut().filter(|hop| hop.switch != NONE) {
            hop.switch = after[hop.switch as usize];
        }
        network
    }

    /// Finds the cables of a switch that changed; `None` if there are some that lead elsewhere, or that
    /// nobody knows.
    fn compare(&self, new: &Fabric, switch: SwitchId, cables: &mut CableChanges) -> Option<()> {
        let node = new.switch(switch);
        for num in 1..=u32::from(node.num_ports()) {
            let port = PortId(node.first_port.0 + num);
            let peer = new.port(port).peer.filter(|&peer| new.node_of(peer).is_switch());
            match (self.hops[port.index()].channel, peer) {
                (NONE, None) => {}
                (NONE, Some(peer)) => cables.repaired.push(self.cut_channel(switch, port, peer)?),
                (channel, None) => cables.add_lost(port, channel),
                (channel, Some(peer)) => {
                    let back = self.channels[self.reverse(channel) as usize];
                    if back.port != peer {
                        return None;
                    }
                }
            }
        }
        Some(())
    }
}

impl CableChanges {
    fn add_lost(&mut self, port: PortId, channel: u32) {
        self.ports.push(port);
        self.channels.push(channel);
    }
}
