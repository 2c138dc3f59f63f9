//! The P_Keys of each end port, from the members of the partitions.

use super::{Membership, Partition, PortSelector};
use crate::config::options::Options;
use crate::fabric::{Fabric, PortId};
use crate::ids::{Guid, Pkey};
use crate::wire::attr::NodeKind;
use std::collections::HashMap;

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

/// The keys of all ports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Memberships {
    by_port: Vec<WantedKeys>,
}

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
        let end_ports = EndPorts::new(fabric);
        let mut by_port = vec![WantedKeys::default(); fabric.ports().len()];
        let mut order: Vec<_> = partitions.iter().collect();
        order.sort_by_key(|partition| partition.pkey.base_opensm_order());
        let mut memberships = vec![PortMembership::default(); fabric.ports().len()];
        let mut touched: Vec<PortId> = Vec::new();
        for partition in order {
            for member in &partition.members {
                let both = member.membership == Membership::Both && options.allow_both_pkeys;
                let limited = both || member.membership == Membership::Limited;
                let full = both || !limited;
                for &port in end_ports.of(member.ports).iter() {
                    let membership = &mut memberships[port.index()];
                    if !membership.limited && !membership.full {
                        touched.push(port);
                    }
                    let before = membership.index0.map(|(order, _)| (order, false));
                    let index0 = member.index0.map(|order| (order, true)).or(before);
                    *membership = PortMembership { limited, full, index0 };
                }
            }
            for port in touched.drain(..) {
                let membership = std::mem::take(&mut memberships[port.index()]);
                by_port[port.index()].add(partition.pkey, membership);
            }
        }
        Self { by_port }
    }

    /// The keys of a port.
    pub fn of_port(&self, port: PortId) -> &WantedKeys {
        &self.by_port[port.index()]
    }
}

impl WantedKeys {
    fn add(&mut self, partition: Pkey, membership: PortMembership) {
        let (limited, full) = (Pkey(partition.base()), Pkey(partition.base() | 0x8000));
        self.keys.extend(membership.limited.then_some(limited));
        self.keys.extend(membership.full.then_some(full));
        let key = if membership.full { full } else { limited };
        let assigned = membership.index0.map(|(order, holds)| (order, holds.then_some(key)));
        self.index0 = self.index0.max(assigned);
    }
}

/// The end ports of a fabric, by the member names of partitions.conf.
struct EndPorts {
    all: Vec<PortId>,
    adapters: Vec<PortId>,
    switches: Vec<PortId>,
    routers: Vec<PortId>,
    own: [PortId; 1],
    by_guid: HashMap<Guid, [PortId; 1]>,
}

impl EndPorts {
    fn new(fabric: &Fabric) -> Self {
        let all: Vec<PortId> = fabric.end_ports().collect();
        let of = |kind| {
            all.iter().copied().filter(|&port| fabric.node_of(port).kind() == kind).collect()
        };
        Self {
            adapters: of(NodeKind::Ca),
            switches: of(NodeKind::Switch),
            routers: of(NodeKind::Router),
            own: [fabric.local()],
            by_guid: all.iter().map(|&port| (fabric.port(port).guid, [port])).collect(),
            all,
        }
    }

    fn of(&self, ports: PortSelector) -> &[PortId] {
        match ports {
            PortSelector::All => &self.all,
            PortSelector::ChannelAdapters => &self.adapters,
            PortSelector::Switches => &self.switches,
            PortSelector::Routers => &self.routers,
            PortSelector::Virtual => &[],
            PortSelector::SmPort => &self.own,
            PortSelector::Port(guid) => self.by_guid.get(&guid).map_or(&[], |port| port),
        }
    }
}
