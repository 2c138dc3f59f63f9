//! Readings of a port's counters.

use crate::wire::perf::{Counter, CounterAttribute, GROUPS, PerfCap, PerfData};

/// Number of error counters, PortXmitWait included.
pub const ERRORS: usize = 13;
/// Number of data counters.
pub const DATA: usize = 8;
/// Index of PortXmitWait among the error counters.
pub const XMIT_WAIT: usize = 12;

/// The names of the error counters in OpenSM's machine readable dump.
pub const ERROR_NAMES: [&str; ERRORS] = [
    "symbol_err_cnt",
    "link_err_recover",
    "link_downed",
    "rcv_err",
    "rcv_rem_phys_err",
    "rcv_switch_relay_err",
    "xmit_discards",
    "xmit_constraint_err",
    "rcv_constraint_err",
    "link_int_err",
    "buf_overrun_err",
    "vl15_dropped",
    "xmit_wait",
];

/// The names of the data counters in OpenSM's dumps.
pub const DATA_NAMES: [&str; DATA] = [
    "xmit_data",
    "rcv_data",
    "xmit_pkts",
    "rcv_pkts",
    "unicast_xmit_pkts",
    "unicast_rcv_pkts",
    "multicast_xmit_pkts",
    "multicast_rcv_pkts",
];

/// Index in [`GROUPS`] of PortCounters and PortCountersExtended.
const PORT_COUNTERS: usize = 0;
const EXTENDED: usize = 1;

/// Index of PortXmitData among the counters of PortCounters; three more data counters follow.
const FIRST_DATA: usize = 12;
/// Number of data counters of PortCounters.
const NARROW_DATA: usize = 4;

/// Counters whose bits of CounterSelect are cleared with PortCounters if the data counters are read
/// by PortCountersExtended: some devices have one set of data counters for both attributes.
pub const SELECT_ERRORS: u32 = 0x0FFF;

/// The error counters: those of PortCounters in its order, then PortXmitWait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ErrorCounters(pub [u64; ERRORS]);

/// The data counters in the order of PortCountersExtended; data in words of 4 octets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DataCounters(pub [u64; DATA]);

/// The capabilities of a performance management agent, from its ClassPortInfo.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PerfCapabilities(pub u16);

impl PerfCapabilities {
    /// PortCountersExtended is supported, perhaps without unicast and multicast packets.
    pub fn has_extended(self) -> bool {
        self.0 & (PerfCap::EXTENDED_WIDTH | PerfCap::EXTENDED_WIDTH_NO_IETF) != 0
    }

    /// PortCountersExtended has unicast and multicast packets.
    pub fn has_ietf(self) -> bool {
        self.0 & PerfCap::EXTENDED_WIDTH != 0
    }

    pub fn has_xmit_wait(self) -> bool {
        self.0 & PerfCap::XMIT_WAIT != 0
    }
}

fn group(index: usize) -> &'static CounterAttribute {
    &GROUPS[index]
}

/// Error counters of PortCounters.
fn error_counter(index: usize) -> &'static Counter {
    let position = if index == XMIT_WAIT { FIRST_DATA + NARROW_DATA } else { index };
    &group(PORT_COUNTERS).counters[position]
}

impl ErrorCounters {
    /// Reads PortCounters. PortXmitWait is 0 unless it is supported.
    pub fn read(data: &PerfData, capabilities: PerfCapabilities) -> Self {
        Self(std::array::from_fn(|index| match index {
            XMIT_WAIT if !capabilities.has_xmit_wait() => 0,
            _ => data.counter(error_counter(index)),
        }))
    }

    /// True if a counter is below its value in `earlier`: someone else cleared it.
    pub fn is_below(&self, earlier: &Self) -> bool {
        self.0.iter().zip(&earlier.0).any(|(now, before)| now < before)
    }

    /// Sum of all errors, PortXmitWait excluded: congestion is no error.
    pub fn sum(&self) -> u64 {
        self.0[..XMIT_WAIT].iter().sum()
    }
}

impl DataCounters {
    /// Reads PortCountersExtended.
    pub fn read_extended(data: &PerfData, capabilities: PerfCapabilities) -> Self {
        let counted = if capabilities.has_ietf() { DATA } else { NARROW_DATA };
        let counters = group(EXTENDED).counters;
        Self(std::array::from_fn(|at| if at < counted { data.counter(&counters[at]) } else { 0 }))
    }

    /// Reads the data counters of PortCounters, which has no unicast and multicast packets.
    pub fn read_narrow(data: &PerfData) -> Self {
        let counters = group(PORT_COUNTERS).counters;
        Self(std::array::from_fn(|at| {
            if at < NARROW_DATA { data.counter(&counters[FIRST_DATA + at]) } else { 0 }
        }))
    }

    /// True if a counter is below its value in `earlier`: someone else cleared it.
    pub fn is_below(&self, earlier: &Self) -> bool {
        self.0.iter().zip(&earlier.0).any(|(now, before)| now < before)
    }
}

/// True if a counter has reached three quarters of its maximum, or 10 for counters of 4 bits.
fn is_near_limit(counter: &Counter, value: u64) -> bool {
    let limit = counter.limit();
    value >= if counter.width == 4 { 10 } else { limit - limit / 4 }
}

/// True if counters of PortCounters must be cleared before they stop. The data counters matter only
/// if they are not read by PortCountersExtended.
pub fn must_clear(data: &PerfData, capabilities: PerfCapabilities) -> bool {
    let counters = group(PORT_COUNTERS).counters.iter().enumerate();
    counters.into_iter().any(|(at, counter)| {
        let is_used = match at {
            _ if at < FIRST_DATA => true,
            _ if at < FIRST_DATA + NARROW_DATA => !capabilities.has_extended(),
            _ => capabilities.has_xmit_wait(),
        };
        is_used && is_near_limit(counter, data.counter(counter))
    })
}

/// True if counters of PortCountersExtended must be cleared before they stop.
pub fn must_clear_extended(data: &PerfData, capabilities: PerfCapabilities) -> bool {
    let counted = if capabilities.has_ietf() { DATA } else { NARROW_DATA };
    let counters = &group(EXTENDED).counters[..counted];
    counters.iter().any(|counter| is_near_limit(counter, data.counter(counter)))
}

/// The counters to clear with PortCounters: bits of CounterSelect, and from bit 16 on of
/// CounterSelect2.
pub fn clear_selection(capabilities: PerfCapabilities) -> u32 {
    let narrow = if capabilities.has_extended() { SELECT_ERRORS } else { 0xFFFF };
    narrow | u32::from(capabilities.has_xmit_wait()) << 16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, value: u64) -> PerfData {
        let counter = GROUPS[0].counters.iter().find(|counter| counter.name == name);
        let mut data = PerfData::default();
        data.set_counter(counter.expect("a counter"), value);
        data
    }

    const ALL: PerfCapabilities = PerfCapabilities(PerfCap::EXTENDED_WIDTH | PerfCap::XMIT_WAIT);

    #[test]
    fn readings_have_the_order_of_the_dump() {
        let mut data = PerfData::default();
        for (counter, value) in GROUPS[0].counters.iter().zip(1..) {
            data.set_counter(counter, value);
        }
        let errors = ErrorCounters::read(&data, ALL).0;
        assert_eq!(errors[..12], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        assert_eq!(errors[XMIT_WAIT], 17);
        assert_eq!(ErrorCounters::read(&data, PerfCapabilities(0)).0[XMIT_WAIT], 0);
        assert_eq!(DataCounters::read_narrow(&data).0, [13, 14, 15, 16, 0, 0, 0, 0]);
        for (counter, value) in GROUPS[1].counters.iter().zip(1 << 40..) {
            data.set_counter(counter, value);
        }
        let wide = DataCounters::read_extended(&data, ALL).0;
        assert_eq!((wide[0], wide[7]), (1 << 40, (1 << 40) + 7));
        let without = PerfCapabilities(PerfCap::EXTENDED_WIDTH_NO_IETF);
        assert_eq!(DataCounters::read_extended(&data, without).0[4..], [0; 4]);
    }

    #[test]
    fn counters_are_cleared_at_opensms_limits() {
        for (name, limit) in [
            ("SymbolErrorCounter", 49_152),
            ("LinkDownedCounter", 192),
            ("LocalLinkIntegrityErrors", 10),
            ("ExcessiveBufferOverrunErrors", 10),
            ("PortXmitWait", 0xC000_0000),
        ] {
            assert!(must_clear(&named(name, limit), ALL), "{name}");
            assert!(!must_clear(&named(name, limit - 1), ALL), "{name}");
        }
        let full = named("PortXmitData", u64::from(u32::MAX));
        assert!(!must_clear(&full, ALL), "the extended counter is read");
        assert!(must_clear(&full, PerfCapabilities(0)));
        let waits = named("PortXmitWait", u64::from(u32::MAX));
        assert!(!must_clear(&waits, PerfCapabilities(0)), "the field is reserved there");
        assert_eq!(clear_selection(ALL), 0x1_0FFF);
        assert_eq!(clear_selection(PerfCapabilities(0)), 0xFFFF);
    }
}
