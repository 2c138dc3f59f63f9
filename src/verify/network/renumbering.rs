//! The numbers of switches and ports in another snapshot of the fabric.
//!
//! Channels, and everything indexed by them, keep their numbers. A switch that disappeared is
//! retained as a
//! *removed switch*: it is numbered after the switches of the snapshot, and its port slots follow
//! those of the snapshot. Old routes through it can still be followed, and its channels are taken
//! up again when it returns.

use super::{NONE, NextHop, SwitchNetwork};
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::Guid;

/// The numbers of the switches of a [`SwitchNetwork`] in another snapshot.
pub(in crate::verify) struct SwitchRenumbering {
    /// The old number of each switch by its new one; removed switches come last.
    pub before: Vec<u32>,
    /// New numbers of the switches that disappeared, ascending.
    pub newly_removed: Vec<u32>,
    /// New numbers of the switches that returned, ascending.
    pub returned: Vec<u32>,
    removed: Vec<Guid>,
}

impl SwitchRenumbering {
    /// The renumbering of the network of snapshot `old` for snapshot `new`; `None` if a switch is
    /// unknown or has a different number of ports.
    pub(crate) fn between(network: &SwitchNetwork, old: &Fabric, new: &Fabric) -> Option<Self> {
        let count = network.switches();
        let real = old.switches().len();
        let mut found = Self {
            before: Vec::with_capacity(count),
            newly_removed: Vec::new(),
            returned: Vec::new(),
            removed: Vec::new(),
        };
        let mut is_there = vec![false; count];
        for switch in new.switch_ids() {
            let node = new.switch(switch);
            let was = new_number(old, &network.removed, node.guid(), real)?;
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
            found.removed.push(was.checked_sub(real).map_or_else(
                || old.switch(SwitchId(was as u32)).guid(),
                |removed| network.removed[removed],
            ));
            found.before.push(was as u32);
        }
        Some(found)
    }

    /// True if all switches keep their numbers.
    pub(crate) fn is_same(&self) -> bool {
        self.before.iter().zip(0..).all(|(&was, is)| was == is)
    }

    /// The new number of each switch by its old one.
    pub(crate) fn after(&self) -> Vec<u32> {
        let mut after = vec![NONE; self.before.len()];
        (0..).zip(&self.before).for_each(|(is, &was)| after[was as usize] = is);
        after
    }
}

fn new_number(old: &Fabric, network_removed: &[Guid], guid: Guid, real: usize) -> Option<usize> {
    let known = old.node_by_guid(guid).and_then(|node| old.node(node).switch);
    known.map(SwitchId::index).or_else(|| Some(real + removed_before(network_removed, guid)?))
}

fn removed_before(network_removed: &[Guid], guid: Guid) -> Option<usize> {
    network_removed.iter().position(|&removed| removed == guid)
}

/// Changed cables between switches.
#[derive(Default)]
pub(in crate::verify) struct CableChanges {
    /// Ports that lost their cable.
    pub ports: Vec<PortId>,
    /// Channels of the lost cables.
    pub channels: Vec<u32>,
    /// Channels of cables that were lost before and are connected again.
    pub repaired: Vec<u32>,
}

impl SwitchNetwork {
    /// The network by the numbers of another snapshot, and the cables that changed. Lost cables
    /// still have their hops. `None` if there are other changes.
    pub(crate) fn renumbered(
        &self,
        renumbering: &SwitchRenumbering,
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

    /// The network of another snapshot, which retains missing switches and cables; `None` if the
    /// snapshot has unknown ones.
    pub(crate) fn for_snapshot(&self, old: &Fabric, new: &Fabric) -> Option<Self> {
        let renumbering = SwitchRenumbering::between(self, old, new)?;
        let (network, CableChanges { ports, repaired, .. }) = self.renumbered(&renumbering, new)?;
        Some(network.with_repaired(&repaired).without(&ports))
    }

    fn by_numbers(&self, renumbering: &SwitchRenumbering, new: &Fabric) -> Self {
        let after = renumbering.after();
        let count = self.switches();
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

    /// Finds the changed cables of a switch; `None` if a cable is unknown or leads to another port.
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
