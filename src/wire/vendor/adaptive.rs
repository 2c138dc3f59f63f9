//! Adaptive routing of switches: ARInfo, ARGroupTable, ARLinearForwardingTable (revised) and
//! ARGroupTableCopy.

use super::facts::{AR_GROUP_COPY_ENTRIES, AR_GROUPS_IN_BLOCK, AR_LIDS_IN_BLOCK};
use crate::ids::Lid;
use crate::wire::bits::record;
use crate::wire::smp::DATA_SIZE;

/// LIDs in a block of the ARLinearForwardingTable.
pub const AR_LFT_BLOCK: usize = AR_LIDS_IN_BLOCK.value;
/// Groups in a block of the ARGroupTable, each without sub-groups.
pub const AR_GROUP_BLOCK: usize = AR_GROUPS_IN_BLOCK.value;
const GROUP_BYTES: usize = DATA_SIZE / AR_GROUP_BLOCK;
const ENTRY_BYTES: usize = DATA_SIZE / AR_LFT_BLOCK;
const COPY_BYTES: usize = DATA_SIZE / AR_GROUP_COPY_ENTRIES.value;

record! {
    /// ARInfo: what a switch supports, and what is switched on.
    pub struct ArInfo[64] {
        by_sl_supported, set_by_sl_supported: bool = 4, 1;
        /// Only SLs of the mask are routed adaptively.
        by_sl, set_by_sl: bool = 3, 1;
        by_transport_supported, set_by_transport_supported: bool = 2, 1;
        group_copy_supported, set_group_copy_supported: u8 = 16, 4;
        /// Sub-groups of each group; how one is written is not known.
        sub_groups, set_sub_groups: u8 = 20, 4;
        /// The forwarding table of adaptive routing is in force.
        adaptive_routing, set_adaptive_routing: bool = 31, 1;
        fast_recovery_supported, set_fast_recovery_supported: bool = 28, 1;
        /// The switch replaces ports that are down.
        fast_recovery, set_fast_recovery: bool = 27, 1;
        /// Notifications to neighbours.
        notifications, set_notifications: bool = 26, 1;
        /// The highest group in use.
        group_top, set_group_top: u16 = 40, 12;
        /// Number of groups.
        group_cap, set_group_cap: u16 = 52, 12;
        /// SLs that are routed adaptively, SL n in bit n.
        sl_mask, set_sl_mask: u16 = 64, 16;
        /// Transports that are not routed adaptively: 1 UD, 2 RC, 4 UC, 8 DC.
        excluded_transports, set_excluded_transports: u8 = 120, 8;
        /// Microseconds for which a bounded flow keeps its port.
        ageing_time, set_ageing_time: u32 = 128, 32;
    }
}

/// The ports of a group, port p in bit p % 64 of word p / 64.
pub type GroupPorts = [u64; 4];

/// A block of the ARGroupTable. The attribute modifier is its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArGroupBlock(pub [u8; DATA_SIZE]);

impl ArGroupBlock {
    /// The block of these groups.
    pub fn of(groups: [GroupPorts; AR_GROUP_BLOCK]) -> Self {
        let mut block = Self([0; DATA_SIZE]);
        for (bytes, ports) in block.0.chunks_exact_mut(GROUP_BYTES).zip(groups) {
            for (bytes, word) in bytes.rchunks_exact_mut(8).zip(ports) {
                bytes.copy_from_slice(&word.to_be_bytes());
            }
        }
        block
    }

    pub fn groups(&self) -> [GroupPorts; AR_GROUP_BLOCK] {
        let mut groups = [[0; 4]; AR_GROUP_BLOCK];
        for (bytes, ports) in self.0.chunks_exact(GROUP_BYTES).zip(&mut groups) {
            for (bytes, word) in bytes.rchunks_exact(8).zip(ports) {
                *word = bytes.iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
            }
        }
        groups
    }
}

/// How a switch uses the group of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArState {
    /// A flow keeps its port for the ageing time.
    Bounded,
    /// Each packet takes any port.
    Free,
    /// The static port alone.
    Static,
    /// Ports by hashes of the headers.
    Hashed,
}

impl ArState {
    fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Bounded,
            1 => Self::Free,
            2 => Self::Static,
            _ => Self::Hashed,
        }
    }
}

/// An entry of the ARLinearForwardingTable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArEntry {
    pub state: ArState,
    /// The static port.
    pub port: u8,
    pub group: u16,
}

/// A block of the ARLinearForwardingTable. The attribute modifier is its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArLftBlock(pub [u8; DATA_SIZE]);

impl ArLftBlock {
    /// The block of these entries, in table 0.
    pub fn of(entries: [ArEntry; AR_LFT_BLOCK]) -> Self {
        let mut block = Self([0; DATA_SIZE]);
        for (bytes, entry) in block.0.chunks_exact_mut(ENTRY_BYTES).zip(entries) {
            let [high, low] = entry.group.to_be_bytes();
            bytes.copy_from_slice(&[(entry.state as u8) << 6, entry.port, high, low]);
        }
        block
    }

    pub fn entries(&self) -> [ArEntry; AR_LFT_BLOCK] {
        std::array::from_fn(|at: usize| {
            let bytes = &self.0[at * ENTRY_BYTES..][..ENTRY_BYTES];
            let state = ArState::from_bits(bytes[0] >> 6);
            ArEntry { state, port: bytes[1], group: u16::from_be_bytes([bytes[2], bytes[3]]) }
        })
    }

    /// The block with the entry of a LID.
    pub fn block(lid: Lid) -> u32 {
        (lid.index() / AR_LFT_BLOCK) as u32
    }
}

/// ARGroupTableCopy: the groups that become equal to the one that the attribute modifier names. Each
/// entry here is a single group, since it is not known which end of a range comes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArGroupCopy(pub [u8; DATA_SIZE]);

impl ArGroupCopy {
    /// Copies to these groups; unused entries repeat the last one. `None` without any.
    pub fn to(groups: &[u16]) -> Option<Self> {
        let last = *groups.last()?;
        let mut copy = Self([0; DATA_SIZE]);
        let all = groups.iter().copied().chain(std::iter::repeat(last));
        for (bytes, group) in copy.0.chunks_exact_mut(COPY_BYTES).zip(all) {
            let [high, low] = group.to_be_bytes();
            bytes.copy_from_slice(&[high, low, high, low]);
        }
        Some(copy)
    }

    /// The first and the last group of each entry.
    pub fn ranges(&self) -> impl Iterator<Item = [u16; 2]> + '_ {
        self.0.chunks_exact(COPY_BYTES).map(|bytes| {
            let ends = [[bytes[0], bytes[1]], [bytes[2], bytes[3]]].map(u16::from_be_bytes);
            [ends[0].min(ends[1]), ends[0].max(ends[1])]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bytes as the fields are documented: bit 0 is the lowest of a byte.
    #[test]
    fn fields_are_where_the_layout_says() {
        let mut info = ArInfo::default();
        info.set_by_sl_supported(true);
        info.set_by_sl(true);
        info.set_by_transport_supported(true);
        info.set_group_copy_supported(1);
        info.set_adaptive_routing(true);
        info.set_fast_recovery_supported(true);
        info.set_fast_recovery(true);
        info.set_notifications(true);
        info.set_group_top(0xABC);
        info.set_group_cap(0xDEF);
        info.set_sl_mask(0x1234);
        info.set_excluded_transports(5);
        info.set_ageing_time(30);
        let mut expected = [0; 20];
        expected[..4].copy_from_slice(&[0x38, 0, 0x10, 0x39]);
        expected[4..10].copy_from_slice(&[0, 0xAB, 0xCD, 0xEF, 0x12, 0x34]);
        expected[15] = 5;
        expected[19] = 30;
        assert_eq!(info.0[..20], expected);
    }

    #[test]
    fn a_port_is_a_bit_of_a_mask_with_the_highest_ports_first() {
        let mut first = [0; 4];
        first[0] = 1 << 1 | 1 << 63;
        let block = ArGroupBlock::of([first, [0, 0, 0, 1 << 63]]);
        assert_eq!((block.0[31], block.0[24], block.0[32]), (2, 0x80, 0x80));
        assert_eq!(block.0.iter().filter(|&&byte| byte != 0).count(), 3);
    }

    #[test]
    fn an_entry_has_state_port_and_group() {
        let entry = ArEntry { state: ArState::Free, port: 7, group: 0x123 };
        let block = ArLftBlock::of([entry; AR_LFT_BLOCK]);
        assert_eq!(block.0[60..], [0x40, 7, 1, 0x23]);
        assert_eq!([15, 16].map(|lid| ArLftBlock::block(Lid(lid))), [0, 1]);
    }

    #[test]
    fn copies_name_single_groups() {
        let copy = ArGroupCopy::to(&[3, 0x456]).expect("groups");
        assert_eq!(copy.0[..8], [0, 3, 0, 3, 4, 0x56, 4, 0x56]);
        assert_eq!(copy.ranges().nth(15), Some([0x456, 0x456]));
        assert_eq!(ArGroupCopy::to(&[]), None);
    }

    proptest! {
        #[test]
        fn blocks_survive_the_wire(
            groups in prop::array::uniform2(any::<GroupPorts>()),
            entries in prop::array::uniform16((0u8..4, any::<u8>(), any::<u16>())),
        ) {
            prop_assert_eq!(ArGroupBlock::of(groups).groups(), groups);
            let entries = entries.map(|(state, port, group)| {
                ArEntry { state: ArState::from_bits(state), port, group }
            });
            prop_assert_eq!(ArLftBlock::of(entries).entries(), entries);
        }
    }
}
