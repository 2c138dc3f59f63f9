//! What is derived from a snapshot, once, so that a path is a walk over small arrays: on a large
//! fabric nothing of it is in a cache, and a step should wait for few lines. Mostly no step is needed
//! at all ([`Facts::between`]): on 16x16x16 a walk takes ten times as long as the rest of an answer.

use super::limits::rate_rank;
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::publish::Subnet;
use crate::wire::attr::CapMask;
use crate::wire::attr::tables::SlToVl;

/// MTU code and rank of the rate of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Speed {
    /// MTU code the port is capable of.
    pub mtu: u8,
    /// Rank of its rate.
    pub rate: u8,
}

impl Speed {
    /// What both are capable of.
    pub(super) fn min(self, other: Self) -> Self {
        Self { mtu: self.mtu.min(other.mtu), rate: self.rate.min(other.rate) }
    }
}

/// What a packet meets that leaves by a port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cable {
    /// The port at the other end.
    pub peer: PortId,
    /// The switch that the other end belongs to, if it is one.
    pub switch: Option<SwitchId>,
    /// What both ends are capable of.
    pub speed: Speed,
}

/// What is derived from a snapshot.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// The generation this belongs to; 0 none.
    pub generation: u64,
    /// Some SL to VL table drops packets.
    pub drops: bool,
    speeds: Vec<Speed>,
    /// By the port that packets leave by.
    cables: Vec<Option<Cable>>,
    between: Option<Speed>,
}

impl Facts {
    /// Derives everything from `subnet`.
    pub(super) fn new(subnet: &Subnet) -> Self {
        let fabric = &*subnet.fabric;
        let speeds: Vec<Speed> = fabric.port_ids().map(|port| speed(fabric, port)).collect();
        let cables: Vec<_> = fabric.port_ids().map(|port| cable(fabric, &speeds, port)).collect();
        let mut tables = subnet.plan.qos.sl_to_vl.iter().flatten();
        let drops = tables.any(|(_, _, map)| dropped_by(map) != 0);
        // A plan with no LIDs to be reached has not been looked at.
        let is_delivered = subnet.summary.lids > 0 && !drops;
        let between = is_delivered.then(|| between_switches(fabric, &cables)).flatten();
        Self { generation: subnet.generation, drops, speeds, cables, between }
    }

    /// What every cable between switches is capable of, if all are capable of the same, and the checks
    /// have found that every packet is delivered: then the tables need not be walked through.
    pub(super) fn between(&self) -> Option<Speed> {
        self.between
    }

    /// MTU and rate of a port.
    pub(super) fn speed(&self, port: PortId) -> Speed {
        self.speeds.get(port.index()).copied().unwrap_or_default()
    }

    /// The cable in a port, if it leads to another.
    pub(super) fn cable(&self, port: PortId) -> Option<Cable> {
        self.cables.get(port.index()).copied().flatten()
    }
}

fn cable(fabric: &Fabric, speeds: &[Speed], port: PortId) -> Option<Cable> {
    let peer = fabric.port(port).peer?;
    let speed = speeds[port.index()].min(speeds[peer.index()]);
    Some(Cable { peer, switch: fabric.node_of(peer).switch, speed })
}

/// What all cables between switches are capable of, if it is the same.
fn between_switches(fabric: &Fabric, cables: &[Option<Cable>]) -> Option<Speed> {
    let ends =
        fabric.ports().iter().zip(cables).filter(|(port, _)| fabric.node(port.node).is_switch());
    let cables = ends.filter_map(|(_, cable)| cable.filter(|cable| cable.switch.is_some()));
    let mut speeds = cables.map(|cable| cable.speed);
    // Without any the ends alone count.
    let first = speeds.next().unwrap_or(Speed { mtu: u8::MAX, rate: u8::MAX });
    speeds.all(|speed| speed == first).then_some(first)
}

/// The SLs that a mapping leads to VL 15, where data packets are dropped (IBA vol. 1, 7.6.6): bit n
/// for SL n.
pub(super) fn dropped_by(map: &SlToVl) -> u16 {
    const DROP: u8 = 15;
    let bytes = map.0.iter().enumerate();
    bytes.fold(0, |mask, (pair, byte)| {
        let even = u16::from(byte >> 4 == DROP) << (2 * pair);
        mask | even | u16::from(byte & 0xF == DROP) << (2 * pair + 1)
    })
}

/// MTU and rate of a port. Of a switch's ports only port 0 tells about extended speeds.
fn speed(fabric: &Fabric, port: PortId) -> Speed {
    let Some(mut info) = fabric.port(port).info else { return Speed::default() };
    let node = fabric.node_of(port);
    if node.is_switch()
        && let Some(port0) = fabric.port(node.first_port).info
    {
        let extended = port0.capability_mask() & CapMask::EXTENDED_SPEEDS;
        info.set_capability_mask(info.capability_mask() & !CapMask::EXTENDED_SPEEDS | extended);
    }
    Speed { mtu: info.mtu_cap(), rate: rate_rank(info.rate_code()).unwrap_or(0) as u8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_to_vl_15_is_dropped() {
        let mut vls = [7; 16];
        assert_eq!(dropped_by(&SlToVl::new(vls)), 0);
        (vls[0], vls[5], vls[15]) = (15, 15, 15);
        assert_eq!(dropped_by(&SlToVl::new(vls)), 1 | 1 << 5 | 1 << 15);
    }

    #[test]
    fn the_slower_end_counts() {
        let (a, b) = (Speed { mtu: 5, rate: 2 }, Speed { mtu: 4, rate: 7 });
        assert_eq!(a.min(b), Speed { mtu: 4, rate: 2 });
    }
}
