//! Which end ports hold which keys.

use super::{Membership, Partition, Who};
use crate::config::options::Options;
use crate::fabric::{Fabric, PortId};
use crate::ids::{Guid, Pkey};
use crate::wire::attr::NodeKind;
use std::collections::HashMap;

/// What a port is to hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    /// Its keys, in the order in which they are placed.
    pub keys: Vec<Pkey>,
    /// How late in the configuration a key for index 0 is named, and the key. `None` in the place
    /// of the key: it was taken back, as in OpenSM, by a later entry for the port in that
    /// partition that does not want it there; a key named earlier does not come back thereby.
    pub index0: Option<(u32, Option<Pkey>)>,
}

/// What all ports are to hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Memberships {
    by_port: Vec<Wanted>,
}

/// A port's part in the partition at hand.
#[derive(Clone, Copy, Default)]
struct Part {
    limited: bool,
    full: bool,
    /// When the key was named for index 0, and whether it is still to stand there.
    index0: Option<(u32, bool)>,
}

impl Memberships {
    /// Distributes the keys of `partitions`. OpenSM's order of partitions on the usual machines
    /// is kept, so that on a fresh fabric the keys of a port come to stand where OpenSM puts
    /// them: ascending by the key with its two bytes exchanged. In a partition the limited key
    /// comes before the full one.
    pub fn of(fabric: &Fabric, partitions: &[Partition], options: &Options) -> Self {
        let choices = Choices::new(fabric);
        let mut by_port = vec![Wanted::default(); fabric.ports().len()];
        let mut order: Vec<_> = partitions.iter().collect();
        order.sort_by_key(|partition| partition.pkey.base().swap_bytes());
        let mut parts = vec![Part::default(); fabric.ports().len()];
        let mut touched: Vec<PortId> = Vec::new();
        for partition in order {
            for member in &partition.members {
                let both = member.membership == Membership::Both && options.allow_both_pkeys;
                let limited = both || member.membership == Membership::Limited;
                let full = both || !limited;
                for &port in choices.of(member.who).iter() {
                    let part = &mut parts[port.index()];
                    if !part.limited && !part.full {
                        touched.push(port);
                    }
                    let before = part.index0.map(|(order, _)| (order, false));
                    let index0 = member.index0.map(|order| (order, true)).or(before);
                    *part = Part { limited, full, index0 };
                }
            }
            for port in touched.drain(..) {
                let part = std::mem::take(&mut parts[port.index()]);
                by_port[port.index()].add(partition.pkey, part);
            }
        }
        Self { by_port }
    }

    /// What a port is to hold.
    pub fn of_port(&self, port: PortId) -> &Wanted {
        &self.by_port[port.index()]
    }
}

impl Wanted {
    fn add(&mut self, partition: Pkey, part: Part) {
        let (limited, full) = (Pkey(partition.base()), Pkey(partition.base() | 0x8000));
        self.keys.extend(part.limited.then_some(limited));
        self.keys.extend(part.full.then_some(full));
        let key = if part.full { full } else { limited };
        let said = part.index0.map(|(order, holds)| (order, holds.then_some(key)));
        self.index0 = self.index0.max(said);
    }
}

/// The end ports of a fabric by what they are called.
struct Choices {
    all: Vec<PortId>,
    adapters: Vec<PortId>,
    switches: Vec<PortId>,
    routers: Vec<PortId>,
    own: [PortId; 1],
    by_guid: HashMap<Guid, [PortId; 1]>,
}

impl Choices {
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

    fn of(&self, who: Who) -> &[PortId] {
        match who {
            Who::All => &self.all,
            Who::ChannelAdapters => &self.adapters,
            Who::Switches => &self.switches,
            Who::Routers => &self.routers,
            Who::Virtual => &[],
            Who::Own => &self.own,
            Who::Port(guid) => self.by_guid.get(&guid).map_or(&[], |port| port),
        }
    }
}
