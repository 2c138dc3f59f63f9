//! Link capabilities of a snapshot, computed once for all path queries.
//!
//! The arrays are compact because a path walk on a large fabric misses the cache at every step.
//! Most queries need no walk at all ([`PathIndex::uniform_core`]): on a 16x16x16 torus, a walk
//! takes ten times as long as the rest of the reply.

use super::rates::rate_rank;
use crate::fabric::link_rate::has_extended_speeds;
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::publish::Subnet;
use crate::wire::attr::CapMask;
use crate::wire::attr::tables::SlToVl;

/// MTU and rate that a port or a link is capable of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct MtuRate {
    /// MTU code, 1..=5.
    pub mtu: u8,
    /// Rank of the rate, as [`rate_rank`] returns it.
    pub rate: u8,
}

impl MtuRate {
    /// MTU and rate that both are capable of.
    pub(super) fn min(self, other: Self) -> Self {
        Self { mtu: self.mtu.min(other.mtu), rate: self.rate.min(other.rate) }
    }
}

/// The link at an egress port.
#[derive(Clone, Copy, Debug)]
pub(super) struct EgressLink {
    pub peer: PortId,
    /// The switch of `peer`; `None` if the peer is an end port of another node type.
    pub switch: Option<SwitchId>,
    /// MTU and rate that both ends are capable of.
    pub mtu_rate: MtuRate,
}

/// Link capabilities of one snapshot, for
/// [`Responder::set_path_index`](super::Responder::set_path_index).
#[derive(Debug, Default)]
pub struct PathIndex {
    generation: u64,
    has_vl15_mappings: bool,
    /// Indexed by port.
    mtu_rates: Vec<MtuRate>,
    /// Indexed by egress port.
    links: Vec<Option<EgressLink>>,
    uniform_core: Option<MtuRate>,
}

impl PathIndex {
    /// Computes the index of `subnet`. On a large fabric this takes as long as thousands of
    /// replies.
    pub fn new(subnet: &Subnet) -> Self {
        let fabric = &*subnet.fabric;
        let mtu_rates: Vec<MtuRate> =
            fabric.port_ids().map(|port| port_mtu_rate(fabric, port)).collect();
        let links: Vec<_> =
            fabric.port_ids().map(|port| egress_link(fabric, &mtu_rates, port)).collect();
        let mut tables = subnet.plan.qos.sl_to_vl.iter().flat_map(|rows| rows.iter());
        let has_vl15_mappings = tables.any(|(_, _, map)| sls_to_vl15(map) != 0);
        // Without verified LIDs there is no proof that packets are delivered.
        let is_delivered =
            subnet.summary.lids > 0 && !subnet.summary.has_cut_off_paths && !has_vl15_mappings;
        let uniform_core = is_delivered.then(|| uniform_switch_links(fabric, &links)).flatten();
        let generation = subnet.generation;
        Self { generation, has_vl15_mappings, mtu_rates, links, uniform_core }
    }

    /// Generation of the snapshot; 0 for an empty index.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// True if an SL to VL table maps an SL to VL 15, so that paths must be walked to find the SLs
    /// that are dropped.
    pub(super) fn has_vl15_mappings(&self) -> bool {
        self.has_vl15_mappings
    }

    /// MTU and rate of all inter-switch links, if they are the same for all links and verification
    /// proved that each switch with an entry for a LID delivers: then no path query needs to walk the
    /// tables beyond the first switch.
    pub(super) fn uniform_core(&self) -> Option<MtuRate> {
        self.uniform_core
    }

    /// MTU and rate of a port.
    pub(super) fn mtu_rate(&self, port: PortId) -> MtuRate {
        self.mtu_rates.get(port.index()).copied().unwrap_or_default()
    }

    /// The link at a port; `None` if the port has no peer.
    pub(super) fn link(&self, port: PortId) -> Option<EgressLink> {
        self.links.get(port.index()).copied().flatten()
    }
}

fn egress_link(fabric: &Fabric, mtu_rates: &[MtuRate], port: PortId) -> Option<EgressLink> {
    let peer = fabric.port(port).peer?;
    let mtu_rate = mtu_rates[port.index()].min(mtu_rates[peer.index()]);
    Some(EgressLink { peer, switch: fabric.node_of(peer).switch, mtu_rate })
}

/// MTU and rate of all inter-switch links; `None` if they differ. A fabric without such links is
/// limited by its end ports alone.
fn uniform_switch_links(fabric: &Fabric, links: &[Option<EgressLink>]) -> Option<MtuRate> {
    let ends =
        fabric.ports().iter().zip(links).filter(|(port, _)| fabric.node(port.node).is_switch());
    let links = ends.filter_map(|(_, link)| link.filter(|link| link.switch.is_some()));
    let mut mtu_rates = links.map(|link| link.mtu_rate);
    let first = mtu_rates.next().unwrap_or(MtuRate { mtu: u8::MAX, rate: u8::MAX });
    mtu_rates.all(|mtu_rate| mtu_rate == first).then_some(first)
}

/// The SLs that a table maps to VL 15, which drops data packets (IBA vol. 1, 7.6.6): bit n for SL
/// n.
pub(super) fn sls_to_vl15(map: &SlToVl) -> u16 {
    const VL15: u8 = 15;
    let bytes = map.0.iter().enumerate();
    bytes.fold(0, |mask, (pair, byte)| {
        let even = u16::from(byte >> 4 == VL15) << (2 * pair);
        mask | even | u16::from(byte & 0xF == VL15) << (2 * pair + 1)
    })
}

/// MTU and rate of a port. Switches report support for extended speeds at port 0 only.
fn port_mtu_rate(fabric: &Fabric, port: PortId) -> MtuRate {
    let Some(mut info) = fabric.port(port).info() else { return MtuRate::default() };
    if let Some(has_extended) = has_extended_speeds(fabric, port) {
        let extended = if has_extended { CapMask::EXTENDED_SPEEDS } else { 0 };
        info.set_capability_mask(info.capability_mask() & !CapMask::EXTENDED_SPEEDS | extended);
    }
    MtuRate { mtu: info.mtu_cap(), rate: rate_rank(info.rate_code()).unwrap_or(0) as u8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sls_mapped_to_vl_15_are_reported() {
        let mut vls = [7; 16];
        assert_eq!(sls_to_vl15(&SlToVl::new(vls)), 0);
        (vls[0], vls[5], vls[15]) = (15, 15, 15);
        assert_eq!(sls_to_vl15(&SlToVl::new(vls)), 1 | 1 << 5 | 1 << 15);
    }

    #[test]
    fn the_slower_end_counts() {
        let a = MtuRate { mtu: 5, rate: 2 };
        let b = MtuRate { mtu: 4, rate: 7 };
        assert_eq!(a.min(b), MtuRate { mtu: 4, rate: 2 });
    }
}
