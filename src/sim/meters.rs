//! The counters of the ports (IBA vol. 1, 16.1.3.5): what went through, and what went wrong.
//!
//! What every packet moves lies in a dense array; all else is kept only for ports where it
//! happened. A counter is named by its place in [`GROUPS`] and stays at its limit.

use crate::wire::perf::{Counter, GROUPS, Group};
use std::collections::HashMap;

/// Data and packets of a port since it was made, data in words of 4 octets.
#[derive(Clone, Copy, Default)]
struct Traffic {
    xmit_data: u64,
    rcv_data: u64,
    xmit_pkts: u64,
    rcv_pkts: u64,
}

impl Traffic {
    /// The part of the traffic that a counter shows; 0 for those of errors.
    fn shown_by(&self, counter: &Counter) -> u64 {
        match counter.name {
            "PortXmitData" => self.xmit_data,
            "PortRcvData" => self.rcv_data,
            "PortXmitPkts" | "PortUnicastXmitPkts" => self.xmit_pkts,
            "PortRcvPkts" | "PortUnicastRcvPkts" => self.rcv_pkts,
            _ => 0,
        }
    }
}

/// A counter's value when it was last written or added to, and the traffic then.
#[derive(Clone, Copy, Default)]
struct Entry {
    value: u64,
    since: u64,
}

/// By group and counter.
type Ledger = HashMap<(u16, &'static str), Entry>;

/// What befell a packet at a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mishap {
    /// It came in with bits turned over.
    Damaged,
    /// It came in on VL 15 and there was no room for it.
    Vl15Dropped,
    /// It came in and the switch knows no way for its LID.
    NoWay,
    /// It came in and goes round in circles.
    Loop,
    /// It was to go out and the link is down or not active.
    Closed,
    /// The link went down.
    LinkDowned,
}

impl Mishap {
    /// The counters that it moves.
    fn counters(self) -> &'static [(usize, &'static str)] {
        match self {
            Self::Damaged => {
                &[(0, "SymbolErrorCounter"), (0, "PortRcvErrors"), (2, "PortLocalPhysicalErrors")]
            }
            Self::Vl15Dropped => &[(0, "VL15Dropped")],
            Self::NoWay => &[(0, "PortRcvSwitchRelayErrors"), (2, "PortDLIDMappingErrors")],
            Self::Loop => &[(0, "PortRcvSwitchRelayErrors"), (2, "PortLoopingErrors")],
            Self::Closed => &[(0, "PortXmitDiscards"), (3, "PortInactiveDiscards")],
            Self::LinkDowned => &[(0, "LinkDownedCounter")],
        }
    }
}

/// The counters of all ports, by slot.
pub(super) struct Meters {
    traffic: Vec<Traffic>,
    ledgers: HashMap<u32, Ledger>,
}

impl Meters {
    pub(super) fn new(slots: usize) -> Self {
        Self { traffic: vec![Traffic::default(); slots], ledgers: HashMap::new() }
    }

    /// A packet with `words` of data left through the port.
    #[inline]
    pub(super) fn sent(&mut self, slot: u32, words: u64) {
        if let Some(traffic) = self.traffic.get_mut(slot as usize) {
            traffic.xmit_pkts += 1;
            traffic.xmit_data += words;
        }
    }

    /// A packet with `words` of data came in through the port.
    #[inline]
    pub(super) fn received(&mut self, slot: u32, words: u64) {
        if let Some(traffic) = self.traffic.get_mut(slot as usize) {
            traffic.rcv_pkts += 1;
            traffic.rcv_data += words;
        }
    }

    /// Something went wrong at the port.
    pub(super) fn note(&mut self, slot: u32, mishap: Mishap) {
        for &(group, name) in mishap.counters() {
            let group = &GROUPS[group];
            if let Some(counter) = group.counters.iter().find(|counter| counter.name == name) {
                self.add(slot, group, counter, 1);
            }
        }
    }

    /// The value of a counter.
    pub(super) fn value(&self, slot: u32, group: &Group, counter: &Counter) -> u64 {
        let ledger = self.ledgers.get(&slot);
        let entry = ledger.and_then(|ledger| ledger.get(&(group.attr_id, counter.name)));
        let Entry { value, since } = entry.copied().unwrap_or_default();
        let moved = self.total(slot, counter).saturating_sub(since);
        value.saturating_add(moved).min(counter.limit())
    }

    /// Sets a counter; values beyond its limit are the limit.
    pub(super) fn set(&mut self, slot: u32, group: &Group, counter: &Counter, value: u64) {
        let entry = Entry { value: value.min(counter.limit()), since: self.total(slot, counter) };
        let ledger = self.ledgers.entry(slot).or_default();
        ledger.insert((group.attr_id, counter.name), entry);
    }

    /// Adds to a counter.
    pub(super) fn add(&mut self, slot: u32, group: &Group, counter: &Counter, more: u64) {
        let value = self.value(slot, group, counter).saturating_add(more);
        self.set(slot, group, counter, value);
    }

    /// Sets the counters of a group that `selection` names to 0.
    pub(super) fn clear(&mut self, slot: u32, group: &Group, selection: u32) {
        for counter in group.counters.iter().filter(|c| selection & 1 << c.select != 0) {
            self.set(slot, group, counter, 0);
        }
    }

    /// Forgets everything of a port: its device starts anew.
    pub(super) fn reset(&mut self, slot: u32) {
        self.ledgers.remove(&slot);
        if let Some(traffic) = self.traffic.get_mut(slot as usize) {
            *traffic = Traffic::default();
        }
    }

    fn total(&self, slot: u32, counter: &Counter) -> u64 {
        self.traffic.get(slot as usize).map_or(0, |traffic| traffic.shown_by(counter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(meters: &Meters, name: &str) -> Vec<u64> {
        let all = GROUPS.iter().flat_map(|g| g.counters.iter().map(move |c| (g, c)));
        all.filter(|(_, c)| c.name == name).map(|(g, c)| meters.value(0, g, c)).collect()
    }

    #[test]
    fn every_mishap_moves_counters_that_exist() {
        use Mishap::*;
        for mishap in [Damaged, Vl15Dropped, NoWay, Loop, Closed, LinkDowned] {
            let mut meters = Meters::new(1);
            meters.note(0, mishap);
            for &(group, name) in mishap.counters() {
                assert!(GROUPS[group].counters.iter().any(|c| c.name == name), "{name}");
                assert_eq!(value(&meters, name), [1], "{mishap:?} {name}");
            }
        }
    }

    #[test]
    fn both_widths_count_the_same_and_are_cleared_apart() {
        let mut meters = Meters::new(1);
        meters.traffic[0].xmit_pkts = u64::from(u32::MAX) - 1;
        meters.sent(0, 72);
        assert_eq!(value(&meters, "PortXmitPkts"), [u64::from(u32::MAX); 2]);
        meters.sent(0, 72);
        assert_eq!(value(&meters, "PortXmitPkts"), [u64::from(u32::MAX), 1 << 32]);
        assert_eq!(value(&meters, "PortXmitData"), [144; 2]);
        meters.clear(0, &GROUPS[0], 1 << 14);
        meters.sent(0, 72);
        assert_eq!(value(&meters, "PortXmitPkts"), [1, (1 << 32) + 1]);
        assert_eq!(value(&meters, "PortXmitData"), [216; 2]);
        meters.reset(0);
        assert_eq!(value(&meters, "PortXmitPkts"), [0; 2]);
    }

    #[test]
    fn counters_stay_at_their_limits() {
        let mut meters = Meters::new(1);
        for group in &GROUPS {
            for counter in group.counters {
                meters.set(0, group, counter, u64::MAX);
                meters.add(0, group, counter, 1);
                meters.received(0, 1);
                meters.sent(0, 1);
                assert_eq!(meters.value(0, group, counter), counter.limit(), "{}", counter.name);
            }
        }
        for _ in 0..20 {
            meters.note(0, Mishap::LinkDowned);
        }
        assert_eq!(value(&meters, "LinkDownedCounter"), [255]);
    }
}
