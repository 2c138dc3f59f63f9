//! Performance management, IBA vol. 1, 16.1: the MADs of class 0x04 and their counters.
//!
//! The attributes that hold counters are described by tables ([`CounterAttribute`], [`Counter`]): agents,
//! consoles and tests walk them instead of naming every field.

use super::bits::{get, put};
use super::mad::{Class, Header, Mad, Method};
use crate::ids::PortNum;

/// Offset of the attribute in a MAD in bytes, after the header and 40 reserved bytes.
pub const DATA_OFFSET: usize = Header::SIZE + 40;
/// Length of the attribute's data.
pub const DATA_SIZE: usize = 192;

/// The class version of performance management.
pub const CLASS_VERSION: u8 = 1;

/// Attribute identifiers of performance management (IBA vol. 1, table 243).
pub struct PerfAttr;

impl PerfAttr {
    pub const PORT_SAMPLES_CONTROL: u16 = 0x0010;
    pub const PORT_SAMPLES_RESULT: u16 = 0x0011;
    pub const PORT_COUNTERS: u16 = 0x0012;
    pub const PORT_RCV_ERROR_DETAILS: u16 = 0x0015;
    pub const PORT_XMIT_DISCARD_DETAILS: u16 = 0x0016;
    pub const PORT_COUNTERS_EXTENDED: u16 = 0x001D;
}

/// Bits of ClassPortInfo's capability mask (IBA vol. 1, 16.1.2).
pub struct PerfCap;

impl PerfCap {
    /// PortSelect 0xFF stands for all ports.
    pub const ALL_PORT_SELECT: u16 = 1 << 8;
    /// PortCountersExtended with all its counters.
    pub const EXTENDED_WIDTH: u16 = 1 << 9;
    /// PortCountersExtended without unicast and multicast packets.
    pub const EXTENDED_WIDTH_NO_IETF: u16 = 1 << 10;
    /// PortCounters has PortXmitWait.
    pub const XMIT_WAIT: u16 = 1 << 12;
}

/// The port number that stands for all ports of a switch.
pub const ALL_PORTS: PortNum = PortNum(0xFF);

/// A counter: a field of an attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counter {
    pub name: &'static str,
    /// Offset in the attribute in bits.
    pub offset: usize,
    /// Width in bits: 4, 8, 16, 32 or 64.
    pub width: usize,
    /// The bit that selects it: 0 to 15 of CounterSelect, from 16 on those of CounterSelect2.
    pub select: u32,
}

impl Counter {
    /// The maximum value, at which the counter stops.
    pub fn limit(&self) -> u64 {
        u64::MAX >> (64 - self.width)
    }
}

/// An attribute that holds counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CounterAttribute {
    pub attr_id: u16,
    pub name: &'static str,
    /// Offset and width of CounterSelect2 in bits.
    select2: Option<(usize, usize)>,
    /// The counters, in the order of their fields.
    pub counters: &'static [Counter],
}

const fn counter(name: &'static str, offset: usize, width: usize, select: u32) -> Counter {
    Counter { name, offset, width, select }
}

/// The supported attributes with counters (IBA vol. 1, 16.1.3.5, 16.1.4.1, 16.1.4.2, 16.1.4.11).
pub static GROUPS: [CounterAttribute; 4] = [
    CounterAttribute {
        attr_id: PerfAttr::PORT_COUNTERS,
        name: "PortCounters",
        select2: Some((144, 8)),
        counters: &[
            counter("SymbolErrorCounter", 32, 16, 0),
            counter("LinkErrorRecoveryCounter", 48, 8, 1),
            counter("LinkDownedCounter", 56, 8, 2),
            counter("PortRcvErrors", 64, 16, 3),
            counter("PortRcvRemotePhysicalErrors", 80, 16, 4),
            counter("PortRcvSwitchRelayErrors", 96, 16, 5),
            counter("PortXmitDiscards", 112, 16, 6),
            counter("PortXmitConstraintErrors", 128, 8, 7),
            counter("PortRcvConstraintErrors", 136, 8, 8),
            counter("LocalLinkIntegrityErrors", 152, 4, 9),
            counter("ExcessiveBufferOverrunErrors", 156, 4, 10),
            counter("VL15Dropped", 176, 16, 11),
            counter("PortXmitData", 192, 32, 12),
            counter("PortRcvData", 224, 32, 13),
            counter("PortXmitPkts", 256, 32, 14),
            counter("PortRcvPkts", 288, 32, 15),
            counter("PortXmitWait", 320, 32, 16),
        ],
    },
    CounterAttribute {
        attr_id: PerfAttr::PORT_COUNTERS_EXTENDED,
        name: "PortCountersExtended",
        select2: None,
        counters: &[
            counter("PortXmitData", 64, 64, 0),
            counter("PortRcvData", 128, 64, 1),
            counter("PortXmitPkts", 192, 64, 2),
            counter("PortRcvPkts", 256, 64, 3),
            counter("PortUnicastXmitPkts", 320, 64, 4),
            counter("PortUnicastRcvPkts", 384, 64, 5),
            counter("PortMultiCastXmitPkts", 448, 64, 6),
            counter("PortMultiCastRcvPkts", 512, 64, 7),
        ],
    },
    CounterAttribute {
        attr_id: PerfAttr::PORT_RCV_ERROR_DETAILS,
        name: "PortRcvErrorDetails",
        select2: None,
        counters: &[
            counter("PortLocalPhysicalErrors", 32, 16, 0),
            counter("PortMalformedPacketErrors", 48, 16, 1),
            counter("PortBufferOverrunErrors", 64, 16, 2),
            counter("PortDLIDMappingErrors", 80, 16, 3),
            counter("PortVLMappingErrors", 96, 16, 4),
            counter("PortLoopingErrors", 112, 16, 5),
        ],
    },
    CounterAttribute {
        attr_id: PerfAttr::PORT_XMIT_DISCARD_DETAILS,
        name: "PortXmitDiscardDetails",
        select2: None,
        counters: &[
            counter("PortInactiveDiscards", 32, 16, 0),
            counter("PortNeighborMTUDiscards", 48, 16, 1),
            counter("PortSwLifetimeLimitDiscards", 64, 16, 2),
            counter("PortSwHOQLifetimeLimitDiscards", 80, 16, 3),
        ],
    },
];

impl CounterAttribute {
    /// The attribute with this identifier.
    pub fn by_id(attr_id: u16) -> Option<&'static Self> {
        GROUPS.iter().find(|group| group.attr_id == attr_id)
    }

    /// The attribute with this name, regardless of case.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        GROUPS.iter().find(|group| group.name.eq_ignore_ascii_case(name))
    }

    /// The counters that the data selects: bits as in [`Counter::select`].
    pub fn selection(&self, data: &PerfData) -> u32 {
        let select2 = self.select2.map_or(0, |(offset, width)| get(&data.0, offset, width) as u32);
        u32::from(data.counter_select()) | select2 << 16
    }

    pub fn select(&self, data: &mut PerfData, selection: u32) {
        put(&mut data.0, 16, 16, u64::from(selection & 0xFFFF));
        if let Some((offset, width)) = self.select2 {
            put(&mut data.0, offset, width, u64::from(selection >> 16));
        }
    }

    /// Selects all counters.
    pub fn all(&self) -> u32 {
        self.counters.iter().fold(0, |bits, counter| bits | 1 << counter.select)
    }
}

/// The data of an attribute of performance management.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PerfData(pub [u8; DATA_SIZE]);

impl Default for PerfData {
    fn default() -> Self {
        Self([0; DATA_SIZE])
    }
}

impl PerfData {
    /// The data in a MAD.
    pub fn of(mad: &Mad) -> Self {
        let mut data = Self::default();
        data.0.copy_from_slice(&mad.0[DATA_OFFSET..]);
        data
    }

    /// Writes the data into a MAD.
    pub fn write(&self, mad: &mut Mad) {
        mad.0[DATA_OFFSET..].copy_from_slice(&self.0);
    }

    /// The port number; [`ALL_PORTS`] for all ports.
    pub fn port_select(&self) -> PortNum {
        PortNum(self.0[1])
    }

    pub fn set_port_select(&mut self, port: PortNum) {
        self.0[1] = port.0;
    }

    pub fn counter_select(&self) -> u16 {
        u16::from_be_bytes([self.0[2], self.0[3]])
    }

    pub fn counter(&self, counter: &Counter) -> u64 {
        get(&self.0, counter.offset, counter.width)
    }

    /// Sets a counter, at most to its limit.
    pub fn set_counter(&mut self, counter: &Counter, value: u64) {
        put(&mut self.0, counter.offset, counter.width, value.min(counter.limit()));
    }
}

/// A request of performance management.
pub fn request(method: Method, attr_id: u16, tid: u64, data: &PerfData) -> Mad {
    let mut mad = Mad::default();
    let mut header = Header::default();
    header.set_base_version(1);
    header.set_class(Class::PERF);
    header.set_class_version(CLASS_VERSION);
    header.set_method(method.0);
    header.set_tid(tid);
    header.set_attr_id(attr_id);
    mad.set_header(&header);
    data.write(&mut mad);
    mad
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_side_by_side_and_bits_are_unique() {
        for group in &GROUPS {
            let mut fields: Vec<_> =
                group.counters.iter().map(|c| (c.offset, c.offset + c.width)).collect();
            fields.extend([(8, 16), (16, 32)]);
            fields.extend(group.select2.map(|(offset, width)| (offset, offset + width)));
            fields.sort_unstable();
            assert!(fields.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{}", group.name);
            assert!(fields.iter().all(|&(_, end)| end <= DATA_SIZE * 8), "{}", group.name);
            assert_eq!(group.all().count_ones() as usize, group.counters.len(), "{}", group.name);
        }
    }

    /// Compares field offsets with the table in the specification.
    #[test]
    fn layout_of_port_counters() {
        let group = CounterAttribute::by_name("portcounters").expect("a group");
        let mut data = PerfData::default();
        data.set_port_select(PortNum(7));
        group.select(&mut data, 0x1_8001);
        for (counter, value) in group.counters.iter().zip(1..) {
            data.set_counter(counter, value);
        }
        let words = [
            0x0007_8001_u32,
            0x0001_0203,
            0x0004_0005,
            0x0006_0007,
            0x0809_01AB,
            0x0000_000C,
            13,
            14,
            15,
            16,
            17,
        ];
        for (at, word) in words.iter().enumerate() {
            assert_eq!(data.0[at * 4..at * 4 + 4], word.to_be_bytes(), "word {at}");
        }
        assert_eq!(group.selection(&data), 0x1_8001);
    }

    #[test]
    fn values_stop_at_the_width() {
        for counter in GROUPS.iter().flat_map(|group| group.counters) {
            let mut data = PerfData::default();
            data.set_counter(counter, u64::MAX);
            assert_eq!(data.counter(counter), counter.limit(), "{}", counter.name);
            let ones: u32 = data.0.iter().map(|byte| byte.count_ones()).sum();
            assert_eq!(ones as usize, counter.width, "{}", counter.name);
        }
    }

    #[test]
    fn a_request_has_its_data_at_byte_64() {
        let mut data = PerfData::default();
        data.set_port_select(ALL_PORTS);
        let mad = request(Method::GET, PerfAttr::PORT_COUNTERS, 5, &data);
        assert_eq!(mad.0[..4], [1, 4, 1, 1]);
        assert_eq!((mad.0[17], mad.0[65]), (0x12, 0xFF));
        assert_eq!(PerfData::of(&mad), data);
    }
}
