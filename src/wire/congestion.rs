//! Congestion control, IBA vol. 1, annex A10: the MADs of class 0x21 and their attributes.

use super::bits::record;
use super::mad::{Class, Header, Mad, Method};
use crate::ids::{CcKey, Sl};
use std::ops::Range;

/// The class version of congestion control.
pub const CLASS_VERSION: u8 = 2;
/// Bytes of the CC_Key in a MAD.
pub const CC_KEY: Range<usize> = Header::SIZE..Header::SIZE + 8;
/// Offset of the attribute in a MAD in bytes, after CC_Key and 32 bytes of log data.
pub const DATA_OFFSET: usize = CC_KEY.end + 32;
/// Length of the attribute's data in bytes.
pub const DATA_SIZE: usize = 192;
/// SLs with an entry in CACongestionSetting.
pub const CA_ENTRIES: usize = 16;
/// Entries in a block of the congestion control table.
pub const CCT_BLOCK: usize = 64;
/// Ports in a block of SwitchPortCongestionSetting.
pub const PORT_BLOCK: usize = 32;

/// Attribute identifiers of congestion control (A10.4.3).
pub struct CongestionAttr;

impl CongestionAttr {
    pub const CONGESTION_INFO: u16 = 0x0011;
    pub const CONGESTION_KEY_INFO: u16 = 0x0012;
    pub const CONGESTION_LOG: u16 = 0x0013;
    pub const SWITCH_CONGESTION_SETTING: u16 = 0x0014;
    pub const SWITCH_PORT_CONGESTION_SETTING: u16 = 0x0015;
    pub const CA_CONGESTION_SETTING: u16 = 0x0016;
    pub const CONGESTION_CONTROL_TABLE: u16 = 0x0017;

    /// The attribute's name in the specification, for messages.
    pub fn name(id: u16) -> &'static str {
        match id {
            Self::CONGESTION_INFO => "CongestionInfo",
            Self::CONGESTION_KEY_INFO => "CongestionKeyInfo",
            Self::CONGESTION_LOG => "CongestionLog",
            Self::SWITCH_CONGESTION_SETTING => "SwitchCongestionSetting",
            Self::SWITCH_PORT_CONGESTION_SETTING => "SwitchPortCongestionSetting",
            Self::CA_CONGESTION_SETTING => "CACongestionSetting",
            Self::CONGESTION_CONTROL_TABLE => "CongestionControlTable",
            other => super::attr::AttrId::name(other),
        }
    }
}

record! {
    /// CongestionInfo (A10.4.3.3).
    pub struct CongestionInfo[4] {
        /// Capabilities, see [`CongestionInfo::CREDIT_STARVATION`].
        capabilities, set_capabilities: u16 = 0, 16;
        /// Number of blocks of 64 entries in the congestion control table.
        control_table_cap, set_control_table_cap: u8 = 16, 8;
    }
}

impl CongestionInfo {
    /// The switch supports credit starvation.
    pub const CREDIT_STARVATION: u16 = 1;
}

record! {
    /// CongestionKeyInfo (A10.4.3.4).
    pub struct CongestionKeyInfo[16] {
        cc_key, set_cc_key: CcKey = 0, 64;
        /// The CC_Key is shown to those only who send it.
        protect, set_protect: bool = 64, 1;
        /// Seconds after a violation at which protection ends; 0: never.
        lease_period, set_lease_period: u16 = 80, 16;
        /// Number of MADs with a wrong key.
        violations, set_violations: u16 = 96, 16;
    }
}

record! {
    /// SwitchCongestionSetting (A10.4.3.6).
    pub struct SwitchCongestionSetting[76] {
        /// The valid components, see [`SwitchControl`].
        control_map, set_control_map: u32 = 0, 32;
        /// 0: no marking, 1: late, 15: early.
        threshold, set_threshold: u8 = 544, 4;
        /// Smallest packet that is marked, in credits.
        packet_size, set_packet_size: u8 = 552, 8;
        /// Threshold of credit starvation: 0: none, 1: late, 15: early.
        cs_threshold, set_cs_threshold: u8 = 560, 4;
        /// Delay of credit returns, see [`CctEntry`].
        cs_return_delay, set_cs_return_delay: CctEntry = 576, 16;
        /// Mean number of packets between two marked ones.
        marking_rate, set_marking_rate: u16 = 592, 16;
    }
}

/// Bits of [`SwitchCongestionSetting::control_map`].
pub struct SwitchControl;

impl SwitchControl {
    pub const VICTIM_MASK: u32 = 1 << 0;
    pub const CREDIT_MASK: u32 = 1 << 1;
    /// Threshold and packet size.
    pub const THRESHOLD: u32 = 1 << 2;
    /// Threshold and return delay of credit starvation.
    pub const CREDIT_STARVATION: u32 = 1 << 3;
    pub const MARKING_RATE: u32 = 1 << 4;
    /// All bits that are defined.
    pub const ALL: u32 = 0x1F;
}

/// Bytes of the masks in [`SwitchCongestionSetting`].
const VICTIM_MASK: Range<usize> = 4..36;
const CREDIT_MASK: Range<usize> = 36..68;

/// A bit for each port of a switch: bit n, counted from the last one, is port n.
pub type PortBits = [u8; 32];

impl SwitchCongestionSetting {
    /// The ports that mark packets although they are victims of congestion.
    pub fn victim_mask(&self) -> PortBits {
        self.0[VICTIM_MASK].try_into().expect("32 bytes")
    }

    pub fn set_victim_mask(&mut self, mask: &PortBits) {
        self.0[VICTIM_MASK].copy_from_slice(mask);
    }

    /// The ports with credit starvation.
    pub fn credit_mask(&self) -> PortBits {
        self.0[CREDIT_MASK].try_into().expect("32 bytes")
    }

    pub fn set_credit_mask(&mut self, mask: &PortBits) {
        self.0[CREDIT_MASK].copy_from_slice(mask);
    }

    /// Takes over the components of `other` that its control map selects, as a switch does on a
    /// Set, and the control map.
    pub fn update(&mut self, other: &Self) {
        let selected = other.control_map();
        if is_selected(SwitchControl::VICTIM_MASK, selected) {
            self.set_victim_mask(&other.victim_mask());
        }
        if is_selected(SwitchControl::CREDIT_MASK, selected) {
            self.set_credit_mask(&other.credit_mask());
        }
        if is_selected(SwitchControl::THRESHOLD, selected) {
            self.set_threshold(other.threshold());
            self.set_packet_size(other.packet_size());
        }
        if is_selected(SwitchControl::CREDIT_STARVATION, selected) {
            self.set_cs_threshold(other.cs_threshold());
            self.set_cs_return_delay(other.cs_return_delay());
        }
        if is_selected(SwitchControl::MARKING_RATE, selected) {
            self.set_marking_rate(other.marking_rate());
        }
        self.set_control_map(selected);
    }
}

fn is_selected(bit: u32, selected: u32) -> bool {
    selected & bit != 0
}

record! {
    /// A block of SwitchPortCongestionSetting (A10.4.3.7): 4 bytes for each of 32 ports, which the
    /// simulator keeps and nothing interprets. Attribute modifier: the block.
    pub struct SwitchPortCongestionSetting[128] {}
}

record! {
    /// A CACongestionEntry (A10.4.3.8.4): the reaction of a channel adapter on one SL.
    pub struct CaCongestionEntry[8] {
        /// Time after which the CCTI decreases by one, in 1.024 us.
        ccti_timer, set_ccti_timer: u16 = 0, 16;
        /// Increase of the CCTI on a BECN.
        ccti_increase, set_ccti_increase: u8 = 16, 8;
        /// CCTI at which an event is logged.
        trigger_threshold, set_trigger_threshold: u8 = 24, 8;
        /// Lowest CCTI.
        ccti_min, set_ccti_min: u8 = 32, 8;
    }
}

record! {
    /// CACongestionSetting (A10.4.3.8), with an entry for each SL.
    pub struct CaCongestionSetting[132] {
        /// Bit 0: congestion control for each SL of the port, else for each queue pair.
        port_control, set_port_control: u16 = 0, 16;
        /// The SLs whose entries are valid: bit n is SL n.
        control_map, set_control_map: u16 = 16, 16;
    }
}

impl CaCongestionSetting {
    /// The entry of an SL, of which the low four bits count.
    pub fn entry(&self, sl: Sl) -> CaCongestionEntry {
        CaCongestionEntry::read(&self.0[Self::entry_offset(sl)..])
    }

    pub fn set_entry(&mut self, sl: Sl, entry: &CaCongestionEntry) {
        entry.write(&mut self.0[Self::entry_offset(sl)..]);
    }

    fn entry_offset(sl: Sl) -> usize {
        4 + usize::from(sl.0 & 0xF) * CaCongestionEntry::SIZE
    }

    /// Takes over the port control and the entries of `other` that its control map selects, as a
    /// channel adapter does on a Set, and the control map.
    pub fn update(&mut self, other: &Self) {
        let selected = other.control_map();
        for sl in (0..CA_ENTRIES as u8).filter(|sl| selected & 1 << sl != 0).map(Sl) {
            self.set_entry(sl, &other.entry(sl));
        }
        self.set_port_control(other.port_control());
        self.set_control_map(selected);
    }
}

/// An entry of the congestion control table: the delay between packets as shift (2 bits) and
/// multiplier (14 bits) (A10.2.2.1.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct CctEntry {
    /// 0 to 3.
    pub shift: u8,
    /// 0 to 16383.
    pub multiplier: u16,
}

impl super::bits::Field for CctEntry {
    fn from_bits(bits: u64) -> Self {
        Self { shift: (bits >> 14 & 3) as u8, multiplier: (bits & 0x3FFF) as u16 }
    }

    fn to_bits(self) -> u64 {
        u64::from(self.shift & 3) << 14 | u64::from(self.multiplier & 0x3FFF)
    }
}

record! {
    /// A block of the CongestionControlTable (A10.4.3.9): 64 entries. Attribute modifier: the block.
    pub struct CongestionControlTable[132] {
        /// Highest valid index of the whole table.
        ccti_limit, set_ccti_limit: u16 = 0, 16;
    }
}

impl CongestionControlTable {
    /// The 64 entries of the block.
    pub fn entries(&self) -> impl Iterator<Item = CctEntry> + '_ {
        let raw = self.0[4..].chunks_exact(2).map(|raw| u64::from(raw[0]) << 8 | u64::from(raw[1]));
        raw.map(super::bits::Field::from_bits)
    }

    /// Replaces the entries: those of `entries`, at most 64, then 0:0.
    pub fn set_entries(&mut self, entries: impl IntoIterator<Item = CctEntry>) {
        let mut entries = entries.into_iter();
        for slot in self.0[4..].chunks_exact_mut(2) {
            let raw = super::bits::Field::to_bits(entries.next().unwrap_or_default()) as u16;
            slot.copy_from_slice(&raw.to_be_bytes());
        }
    }
}

/// The data of an attribute of congestion control.
pub type CongestionData = [u8; DATA_SIZE];

/// The attribute in a MAD.
pub fn data(mad: &Mad) -> &CongestionData {
    mad.0[DATA_OFFSET..].first_chunk().unwrap_or(&[0; DATA_SIZE])
}

/// Replaces the attribute in a MAD; bytes after `data` become 0.
pub fn set_data(mad: &mut Mad, data: &[u8]) {
    let len = data.len().min(DATA_SIZE);
    mad.0[DATA_OFFSET..].fill(0);
    mad.0[DATA_OFFSET..DATA_OFFSET + len].copy_from_slice(&data[..len]);
}

/// The CC_Key of a MAD.
pub fn cc_key(mad: &Mad) -> CcKey {
    CcKey(super::bits::get(&mad.0[CC_KEY], 0, 64))
}

/// A request of congestion control. Its transaction ID is 0.
pub fn request(method: Method, attr_id: u16, attr_mod: u32, key: CcKey, data: &[u8]) -> Mad {
    let mut mad = Mad::default();
    let mut header = Header::default();
    header.set_base_version(1);
    header.set_class(Class::CONGESTION);
    header.set_class_version(CLASS_VERSION);
    header.set_method(method.0);
    header.set_attr_id(attr_id);
    header.set_attr_mod(attr_mod);
    mad.set_header(&header);
    super::bits::put(&mut mad.0[CC_KEY], 0, 64, key.0);
    set_data(&mut mad, data);
    mad
}

#[cfg(test)]
mod tests;
