//! Faults on the links that a packet crosses, and the counters that the packet increments.

use super::counters::{PacketFault, PerfCounters};
use super::faults::Faults;
use super::forwarding::LinkObserver;
use super::transit_faults::{Crossing, MadKind};
use crate::wire::mad::MAD_SIZE;

/// Data of a packet with a MAD as PortXmitData counts it, in words of 4 octets: LRH, BTH, DETH,
/// the MAD and the invariant CRC (IBA vol. 1, 16.1.3.5).
const MAD_PACKET_WORDS: u64 = (8 + 12 + 8 + MAD_SIZE as u64 + 4) / 4;

/// Applies link faults to one packet and counts it.
pub(super) struct FaultInjector<'a> {
    faults: &'a mut Faults,
    counters: &'a mut PerfCounters,
    /// The packet travels on VL 15.
    is_smp: bool,
    kind: MadKind,
    /// The packet is dropped on the first link.
    is_lost: bool,
    /// Delay and duplication on the links that the packet has crossed.
    pub(super) crossing: Crossing,
}

impl<'a> FaultInjector<'a> {
    pub(super) fn new(
        faults: &'a mut Faults,
        counters: &'a mut PerfCounters,
        is_smp: bool,
        kind: MadKind,
        is_lost: bool,
    ) -> Self {
        Self { faults, counters, is_smp, kind, is_lost, crossing: Crossing::default() }
    }

    /// False if the packet is lost on the link from `exit` to `entry`.
    fn survives(&mut self, exit: u32, entry: u32) -> bool {
        let Faults { links, random, .. } = &mut *self.faults;
        links.cross(exit, self.kind, random, &mut self.crossing)
            && self.faults.survives_entry(entry)
    }
}

impl LinkObserver for FaultInjector<'_> {
    #[inline]
    fn cross(&mut self, exit: u32, entry: u32) -> bool {
        self.counters.count_sent(exit, MAD_PACKET_WORDS);
        if self.is_lost {
            let fault = if self.is_smp { PacketFault::Vl15Dropped } else { PacketFault::Corrupted };
            self.counters.count_fault(entry, fault);
            return false;
        }
        if !self.survives(exit, entry) {
            self.counters.count_fault(entry, PacketFault::Corrupted);
            return false;
        }
        self.counters.count_received(entry, MAD_PACKET_WORDS);
        true
    }

    fn no_route(&mut self, entry: u32) {
        self.counters.count_fault(entry, PacketFault::NoRoute);
    }

    fn routing_loop(&mut self, entry: u32) {
        self.counters.count_fault(entry, PacketFault::RoutingLoop);
    }

    fn link_inactive(&mut self, exit: u32) {
        self.counters.count_fault(exit, PacketFault::LinkInactive);
    }
}
