//! One packet's way through the fabric: what it moves in the counters, and what the faults do to
//! it.

use super::fault::Faults;
use super::forward::Road;
use super::meters::{Meters, Mishap};
use crate::wire::mad::MAD_SIZE;

/// Words of a packet with a MAD, as PortXmitData counts them: LRH, BTH and DETH before it, the
/// invariant CRC behind it, 4 octets each (IBA vol. 1, 16.1.3.5).
const MAD_WORDS: u64 = (8 + 12 + 8 + MAD_SIZE as u64 + 4) / 4;
/// A packet under way.
pub(super) struct Journey<'a> {
    faults: &'a mut Faults,
    meters: &'a mut Meters,
    /// It travels on VL 15.
    is_smp: bool,
    /// It is lost on the first link it comes to.
    is_doomed: bool,
}

impl<'a> Journey<'a> {
    /// The way of a MAD.
    pub(super) fn new(
        faults: &'a mut Faults,
        meters: &'a mut Meters,
        is_smp: bool,
        is_doomed: bool,
    ) -> Self {
        Self { faults, meters, is_smp, is_doomed }
    }
}

impl Road for Journey<'_> {
    #[inline]
    fn crosses(&mut self, exit: u32, entry: u32) -> bool {
        self.meters.sent(exit, MAD_WORDS);
        if self.is_doomed {
            let how = if self.is_smp { Mishap::Vl15Dropped } else { Mishap::Damaged };
            self.meters.note(entry, how);
            return false;
        }
        if !self.faults.crosses(exit) || !self.faults.enters(entry) {
            self.meters.note(entry, Mishap::Damaged);
            return false;
        }
        self.meters.received(entry, MAD_WORDS);
        true
    }

    fn has_no_way(&mut self, entry: u32) {
        self.meters.note(entry, Mishap::NoWay);
    }

    fn loops(&mut self, entry: u32) {
        self.meters.note(entry, Mishap::Loop);
    }

    fn is_closed(&mut self, exit: u32) {
        self.meters.note(exit, Mishap::Closed);
    }
}
