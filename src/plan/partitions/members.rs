//! The P_Keys of each end port and vport, from the members of the partitions.
//!
//! `ALL` selects vports as well, `ALL_CAS` does not, and `ALL_VCAS` selects nothing else. A physical
//! port holds the keys of its vports besides its own.

use super::{Membership, Partition, PortSelector};
use crate::config::options::Options;
use crate::fabric::virtual_ports::EndPort;
use crate::fabric::{Fabric, PortId};
use crate::ids::{Guid, Pkey};
use crate::wire::attr::NodeKind;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// The keys that a port must hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WantedKeys {
    /// The keys, in the order in which they are placed.
    pub keys: Vec<Pkey>,
    /// The position in the configuration of the last assignment of index 0, and the assigned key.
    /// The key is `None` if a later entry for the port in the same partition revoked the
    /// assignment; as in OpenSM, an earlier assignment does not apply again then.
    pub index0: Option<(u32, Option<Pkey>)>,
}

/// The keys of all ports and vports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Memberships {
    by_port: Vec<WantedKeys>,
    /// The keys that only vports need at their physical port.
    added: BTreeMap<PortId, WantedKeys>,
    /// The keys of vports that are not the physical port itself, ascending.
    by_vport: Vec<(EndPort, WantedKeys)>,
}

/// A port or vport while partitions are distributed: port slots, then vports.
type MemberSlot = usize;

/// A port's membership of the partition at hand.
#[derive(Clone, Copy, Default)]
struct PortMembership {
    limited: bool,
    full: bool,
    /// The position of the last assignment of index 0 to the key, and whether it still applies.
    index0: Option<(u32, bool)>,
}

impl Memberships {
    /// Distributes the keys of `partitions` in OpenSM's order (ascending by byte-swapped key, as on
    /// little-endian machines), so that the keys of an unconfigured port get the same indexes as
    /// from OpenSM. In a partition, the limited key comes before the full one.
    pub fn of(fabric: &Fabric, partitions: &[Partition], options: &Options) -> Self {
        let vports: Vec<(EndPort, Guid)> = vports(fabric);
        let end_ports = EndPorts::new(fabric, &vports);
        let slots = fabric.ports().len();
        let mut by_port = vec![WantedKeys::default(); slots + vports.len()];
        let mut order: Vec<_> = partitions.iter().collect();
        order.sort_by_key(|partition| partition.pkey.base_opensm_order());
        let mut memberships = vec![PortMembership::default(); by_port.len()];
        let mut touched: Vec<MemberSlot> = Vec::new();
        for partition in order {
            for member in &partition.members {
                let both = member.membership == Membership::Both && options.allow_both_pkeys;
                let limited = both || member.membership == Membership::Limited;
                let full = both || !limited;
                for &port in end_ports.of(member.ports).iter() {
                    let membership = &mut memberships[port];
                    if !membership.limited && !membership.full {
                        touched.push(port);
                    }
                    let before = membership.index0.map(|(order, _)| (order, false));
                    let index0 = member.index0.map(|order| (order, true)).or(before);
                    *membership = PortMembership { limited, full, index0 };
                }
            }
            for port in touched.drain(..) {
                let membership = std::mem::take(&mut memberships[port]);
                by_port[port].add(partition.pkey, membership);
            }
        }
        let keys = by_port.split_off(slots);
        let by_vport: Vec<(EndPort, WantedKeys)> =
            vports.into_iter().map(|(end, _)| end).zip(keys).collect();
        let mut added: BTreeMap<PortId, WantedKeys> = BTreeMap::new();
        for (end, keys) in &by_vport {
            let own = &by_port[end.physical.index()];
            let all = added.entry(end.physical).or_insert_with(|| own.clone());
            all.unite(keys, options.allow_both_pkeys);
        }
        Self { by_port, added, by_vport }
    }

    /// The keys of a port, those of its vports included.
    pub fn of_port(&self, port: PortId) -> &WantedKeys {
        self.added.get(&port).unwrap_or_else(|| self.own(port))
    }

    /// The keys of a port itself.
    pub fn own(&self, port: PortId) -> &WantedKeys {
        &self.by_port[port.index()]
    }

    /// The keys of the vports of a port that are not the port itself, ascending.
    pub fn of_vports(&self, port: PortId) -> &[(EndPort, WantedKeys)] {
        let first = self.by_vport.partition_point(|(end, _)| end.physical < port);
        let of_port = &self.by_vport[first..];
        let count = of_port.partition_point(|(end, _)| end.physical == port);
        &of_port[..count]
    }
}

impl WantedKeys {
    fn add(&mut self, partition: Pkey, membership: PortMembership) {
        let limited = Pkey(partition.base());
        let full = Pkey(partition.base() | 0x8000);
        self.keys.extend(membership.limited.then_some(limited));
        self.keys.extend(membership.full.then_some(full));
        let key = if membership.full { full } else { limited };
        let assigned = membership.index0.map(|(order, holds)| (order, holds.then_some(key)));
        self.index0 = self.index0.max(assigned);
    }

    /// Adds the keys of a vport. Without `both`, a full key replaces the limited one of its
    /// partition.
    pub(super) fn unite(&mut self, other: &Self, both: bool) {
        for &key in &other.keys {
            match self.keys.iter_mut().find(|held| has_same_base(**held, both, key)) {
                Some(held) => *held = Pkey(held.0 | key.0),
                None => self.keys.push(key),
            }
        }
        if let Some((_, Some(first))) = &mut self.index0
            && !both
            && self.keys.contains(&Pkey(first.base() | 0x8000))
        {
            *first = Pkey(first.base() | 0x8000);
        }
    }
}

fn has_same_base(held: Pkey, both: bool, key: Pkey) -> bool {
    if both { held == key } else { held.base() == key.base() }
}

/// The vports that are not the physical port itself, with their GUIDs, ascending.
fn vports(fabric: &Fabric) -> Vec<(EndPort, Guid)> {
    if fabric.virtual_ports().is_empty() {
        return Vec::new();
    }
    let ports = fabric.virtual_ports().ports();
    let ports = ports.filter_map(|(guid, _)| fabric.port_by_guid(guid));
    let vports = ports.flat_map(|port| fabric.vports_of(port));
    let mut vports: Vec<_> = vports.map(|(end, vport)| (end, vport.guid)).collect();
    vports.sort_unstable();
    vports
}

/// The end ports and vports of a fabric, by the member names of partitions.conf.
struct EndPorts {
    all: Vec<MemberSlot>,
    adapters: Vec<MemberSlot>,
    switches: Vec<MemberSlot>,
    routers: Vec<MemberSlot>,
    vports: Vec<MemberSlot>,
    own: [MemberSlot; 1],
    by_guid: FxHashMap<Guid, [MemberSlot; 1]>,
}

impl EndPorts {
    fn new(fabric: &Fabric, vports: &[(EndPort, Guid)]) -> Self {
        let virtual_slots = fabric.ports().len()..fabric.ports().len() + vports.len();
        let virtual_guids =
            virtual_slots.clone().zip(vports).map(|(slot, &(_, guid))| (guid, [slot]));
        let guids = fabric.end_ports().map(|port| (fabric.port(port).guid, [port.index()]));
        let all = fabric.end_ports().map(|port| port.index());
        Self {
            adapters: slots(fabric, NodeKind::Ca),
            switches: slots(fabric, NodeKind::Switch),
            routers: slots(fabric, NodeKind::Router),
            own: [fabric.local().index()],
            by_guid: virtual_guids.chain(guids).collect(),
            all: all.chain(virtual_slots.clone()).collect(),
            vports: virtual_slots.collect(),
        }
    }

    fn of(&self, ports: PortSelector) -> &[MemberSlot] {
        match ports {
            PortSelector::All => &self.all,
            PortSelector::ChannelAdapters => &self.adapters,
            PortSelector::Switches => &self.switches,
            PortSelector::Routers => &self.routers,
            PortSelector::Virtual => &self.vports,
            PortSelector::SmPort => &self.own,
            PortSelector::Port(guid) => self.by_guid.get(&guid).map_or(&[], |port| port),
        }
    }
}

fn slots(fabric: &Fabric, kind: NodeKind) -> Vec<MemberSlot> {
    let ports = fabric.end_ports().filter(|&port| fabric.node_of(port).kind() == kind);
    ports.map(|port| port.index()).collect()
}
