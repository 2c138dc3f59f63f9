//! Performance counters of the ports (IBA vol. 1, 16.1.3.5).
//!
//! The traffic counters of all ports are in a dense array. Error counters, and counters that were
//! written, are in a map with entries only for the ports that need them. Counters saturate.

use crate::wire::perf::{Counter, CounterAttribute, GROUPS};
use std::collections::HashMap;

/// Traffic of a port since the fabric was created or the node was rebooted; data in words of 4
/// octets.
#[derive(Clone, Copy, Default)]
struct PortTraffic {
    xmit_data: u64,
    rcv_data: u64,
    xmit_pkts: u64,
    rcv_pkts: u64,
}

impl PortTraffic {
    /// Traffic that `counter` counts; 0 for error counters.
    fn counted_by(&self, counter: &Counter) -> u64 {
        match counter.name {
            "PortXmitData" => self.xmit_data,
            "PortRcvData" => self.rcv_data,
            "PortXmitPkts" | "PortUnicastXmitPkts" => self.xmit_pkts,
            "PortRcvPkts" | "PortUnicastRcvPkts" => self.rcv_pkts,
            _ => 0,
        }
    }
}

/// Value of a counter when it was last written or incremented, and the traffic at that time.
#[derive(Clone, Copy, Default)]
struct CounterEntry {
    value: u64,
    traffic: u64,
}

/// By attribute ID of the group and name of the counter.
type CounterValues = HashMap<(u16, &'static str), CounterEntry>;

/// A fault that a port counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PacketFault {
    /// Bit errors in a received packet.
    Corrupted,
    /// Receive buffer of VL 15 full.
    Vl15Dropped,
    /// No entry in the switch's LFT for the destination LID of a received packet.
    NoRoute,
    /// Received packet is in a routing loop.
    RoutingLoop,
    /// Output port is down or not ACTIVE.
    LinkInactive,
    /// The link of the port went down.
    LinkDowned,
}

impl PacketFault {
    /// Index in [`GROUPS`] and name of the counters to increment.
    fn counters(self) -> &'static [(usize, &'static str)] {
        match self {
            Self::Corrupted => {
                &[(0, "SymbolErrorCounter"), (0, "PortRcvErrors"), (2, "PortLocalPhysicalErrors")]
            }
            Self::Vl15Dropped => &[(0, "VL15Dropped")],
            Self::NoRoute => &[(0, "PortRcvSwitchRelayErrors"), (2, "PortDLIDMappingErrors")],
            Self::RoutingLoop => &[(0, "PortRcvSwitchRelayErrors"), (2, "PortLoopingErrors")],
            Self::LinkInactive => &[(0, "PortXmitDiscards"), (3, "PortInactiveDiscards")],
            Self::LinkDowned => &[(0, "LinkDownedCounter")],
        }
    }
}

/// Counters of all ports, by slot.
pub(super) struct PerfCounters {
    traffic: Vec<PortTraffic>,
    values: HashMap<u32, CounterValues>,
}

impl PerfCounters {
    pub(super) fn new(slots: usize) -> Self {
        Self { traffic: vec![PortTraffic::default(); slots], values: HashMap::new() }
    }

    /// Counts a sent packet of `words` * 4 octets.
    #[inline]
    pub(super) fn count_sent(&mut self, slot: u32, words: u64) {
        if let Some(traffic) = self.traffic.get_mut(slot as usize) {
            traffic.xmit_pkts += 1;
            traffic.xmit_data += words;
        }
    }

    /// Counts a received packet of `words` * 4 octets.
    #[inline]
    pub(super) fn count_received(&mut self, slot: u32, words: u64) {
        if let Some(traffic) = self.traffic.get_mut(slot as usize) {
            traffic.rcv_pkts += 1;
            traffic.rcv_data += words;
        }
    }

    pub(super) fn count_fault(&mut self, slot: u32, fault: PacketFault) {
        for &(group, name) in fault.counters() {
            let group = &GROUPS[group];
            if let Some(counter) = group.counters.iter().find(|counter| counter.name == name) {
                self.add(slot, group, counter, 1);
            }
        }
    }

    pub(super) fn value(&self, slot: u32, group: &CounterAttribute, counter: &Counter) -> u64 {
        let values = self.values.get(&slot);
        let entry = values.and_then(|values| values.get(&(group.attr_id, counter.name)));
        let CounterEntry { value, traffic } = entry.copied().unwrap_or_default();
        let since = self.traffic(slot, counter).saturating_sub(traffic);
        value.saturating_add(since).min(counter.limit())
    }

    /// Sets a counter to `value` or to its limit.
    pub(super) fn set(
        &mut self,
        slot: u32,
        group: &CounterAttribute,
        counter: &Counter,
        value: u64,
    ) {
        let entry = CounterEntry {
            value: value.min(counter.limit()),
            traffic: self.traffic(slot, counter),
        };
        let values = self.values.entry(slot).or_default();
        values.insert((group.attr_id, counter.name), entry);
    }

    pub(super) fn add(
        &mut self,
        slot: u32,
        group: &CounterAttribute,
        counter: &Counter,
        increment: u64,
    ) {
        let value = self.value(slot, group, counter).saturating_add(increment);
        self.set(slot, group, counter, value);
    }

    /// Clears the counters of a group whose bits are set in `selection` (CounterSelect).
    pub(super) fn clear(&mut self, slot: u32, group: &CounterAttribute, selection: u32) {
        for counter in group.counters.iter().filter(|c| selection & 1 << c.select != 0) {
            self.set(slot, group, counter, 0);
        }
    }

    /// Clears all counters of a port.
    pub(super) fn reset(&mut self, slot: u32) {
        self.values.remove(&slot);
        if let Some(traffic) = self.traffic.get_mut(slot as usize) {
            *traffic = PortTraffic::default();
        }
    }

    fn traffic(&self, slot: u32, counter: &Counter) -> u64 {
        self.traffic.get(slot as usize).map_or(0, |traffic| traffic.counted_by(counter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(counters: &PerfCounters, name: &str) -> Vec<u64> {
        let all = GROUPS.iter().flat_map(|g| g.counters.iter().map(move |c| (g, c)));
        all.filter(|(_, c)| c.name == name).map(|(g, c)| counters.value(0, g, c)).collect()
    }

    #[test]
    fn every_fault_increments_existing_counters() {
        use PacketFault::*;
        for fault in [Corrupted, Vl15Dropped, NoRoute, RoutingLoop, LinkInactive, LinkDowned] {
            let mut counters = PerfCounters::new(1);
            counters.count_fault(0, fault);
            for &(group, name) in fault.counters() {
                assert!(GROUPS[group].counters.iter().any(|c| c.name == name), "{name}");
                assert_eq!(value(&counters, name), [1], "{fault:?} {name}");
            }
        }
    }

    #[test]
    fn both_widths_count_alike_and_are_cleared_separately() {
        let mut counters = PerfCounters::new(1);
        counters.traffic[0].xmit_pkts = u64::from(u32::MAX) - 1;
        counters.count_sent(0, 72);
        assert_eq!(value(&counters, "PortXmitPkts"), [u64::from(u32::MAX); 2]);
        counters.count_sent(0, 72);
        assert_eq!(value(&counters, "PortXmitPkts"), [u64::from(u32::MAX), 1 << 32]);
        assert_eq!(value(&counters, "PortXmitData"), [144; 2]);
        counters.clear(0, &GROUPS[0], 1 << 14);
        counters.count_sent(0, 72);
        assert_eq!(value(&counters, "PortXmitPkts"), [1, (1 << 32) + 1]);
        assert_eq!(value(&counters, "PortXmitData"), [216; 2]);
        counters.reset(0);
        assert_eq!(value(&counters, "PortXmitPkts"), [0; 2]);
    }

    #[test]
    fn counters_saturate() {
        let mut counters = PerfCounters::new(1);
        for group in &GROUPS {
            for counter in group.counters {
                counters.set(0, group, counter, u64::MAX);
                counters.add(0, group, counter, 1);
                counters.count_received(0, 1);
                counters.count_sent(0, 1);
                assert_eq!(counters.value(0, group, counter), counter.limit(), "{}", counter.name);
            }
        }
        for _ in 0..20 {
            counters.count_fault(0, PacketFault::LinkDowned);
        }
        assert_eq!(value(&counters, "LinkDownedCounter"), [255]);
    }
}
