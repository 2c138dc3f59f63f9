//! The blocks in which tables travel: LFT, MFT, P_Key, SL to VL, VL arbitration, GUIDs.

use crate::ids::{Guid, Pkey, Sl, Vl};
use std::fmt;
use std::sync::Arc;

/// LIDs in a block of a linear forwarding table (IBA vol. 1, 14.2.5.10).
pub const LFT_BLOCK: usize = 64;
/// MLIDs in a block of a multicast forwarding table (IBA vol. 1, 14.2.5.12).
pub const MFT_BLOCK: usize = 32;
/// Ports in one position of a multicast forwarding table.
pub const MFT_POSITION_PORTS: usize = 16;
/// P_Keys in a block of a P_Key table (IBA vol. 1, 14.2.5.7).
pub const PKEY_BLOCK: usize = 32;
/// Entries of a VL arbitration block (IBA vol. 1, 14.2.5.9).
pub const VLARB_BLOCK: usize = 32;
/// GUIDs in a block of the GUID table (IBA vol. 1, 14.2.5.5).
pub const GUID_BLOCK: usize = 8;
/// Forwarding table entry of dropped packets.
pub const LFT_NO_PATH: u8 = 0xFF;

/// SL to VL mapping of one pair of input and output port: 16 nibbles, SL 0 first
/// (IBA vol. 1, 14.2.5.8). Attribute modifier: input port << 8 | output port.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SlToVl(pub [u8; 8]);

impl SlToVl {
    /// The mapping `vls[sl]`.
    pub fn new(vls: [u8; 16]) -> Self {
        let mut raw = [0; 8];
        for (byte, pair) in raw.iter_mut().zip(vls.chunks_exact(2)) {
            *byte = pair[0] << 4 | pair[1] & 0xF;
        }
        Self(raw)
    }

    /// The VL for `sl` (its low four bits).
    pub fn vl(&self, sl: Sl) -> Vl {
        let byte = self.0[usize::from(sl.0 & 0xF) / 2];
        Vl(if sl.0 & 1 == 0 { byte >> 4 } else { byte & 0xF })
    }

    /// The VLs for SL 0..=15.
    pub fn vls(&self) -> [u8; 16] {
        std::array::from_fn(|sl| self.vl(Sl(sl as u8)).0)
    }

    /// Every VL reduced to the bits of `mask`.
    pub fn masked(self, mask: u8) -> Self {
        let pair = mask << 4 | mask & 0xF;
        Self(self.0.map(|byte| byte & pair))
    }
}

impl fmt::Debug for SlToVl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// One block of VL arbitration: 32 pairs of VL and weight (IBA vol. 1, 14.2.5.9). Attribute
/// modifier: block << 16 | output port, with blocks 1, 2 low and 3, 4 high priority.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct VlArbBlock(pub [u8; 64]);

impl Default for VlArbBlock {
    fn default() -> Self {
        Self([0; 64])
    }
}

impl VlArbBlock {
    /// The block that holds `entries` (VL, weight) and then 0:0; surplus entries are dropped.
    pub fn new(entries: impl IntoIterator<Item = (u8, u8)>) -> Self {
        let mut raw = [0; 64];
        for (slot, (vl, weight)) in raw.chunks_exact_mut(2).zip(entries) {
            slot[0] = vl & 0xF;
            slot[1] = weight;
        }
        Self(raw)
    }

    /// The 32 pairs of VL and weight.
    pub fn entries(&self) -> impl Iterator<Item = (u8, u8)> + '_ {
        self.0.chunks_exact(2).map(|pair| (pair[0] & 0xF, pair[1]))
    }
}

impl fmt::Debug for VlArbBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.entries()).finish()
    }
}

/// One block of a P_Key table: 32 keys, 0 where empty. Attribute modifier: on switch external
/// ports port << 16 | block, else block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct PkeyBlock(pub [Pkey; PKEY_BLOCK]);

/// The blocks of a P_Key table, from block 0. Most tables of a fabric are equal, and share memory.
pub type PkeyTable = Arc<[PkeyBlock]>;

impl PkeyBlock {
    /// Reads the block from the data of an SMP.
    pub fn read(data: &[u8; 64]) -> Self {
        Self(std::array::from_fn(|i| Pkey(u16::from_be_bytes([data[2 * i], data[2 * i + 1]]))))
    }

    /// The block as data of an SMP.
    pub fn to_wire(&self) -> [u8; 64] {
        let mut data = [0; 64];
        for (slot, key) in data.chunks_exact_mut(2).zip(self.0) {
            slot.copy_from_slice(&key.0.to_be_bytes());
        }
        data
    }
}

/// One block of a multicast forwarding table: the port mask (16 ports of one position) of 32
/// MLIDs. Attribute modifier: position << 28 | block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct MftBlock(pub [u16; MFT_BLOCK]);

impl MftBlock {
    /// Reads the block from the data of an SMP.
    pub fn read(data: &[u8; 64]) -> Self {
        Self(std::array::from_fn(|i| u16::from_be_bytes([data[2 * i], data[2 * i + 1]])))
    }

    /// The block as data of an SMP.
    pub fn to_wire(&self) -> [u8; 64] {
        let mut data = [0; 64];
        for (slot, mask) in data.chunks_exact_mut(2).zip(self.0) {
            slot.copy_from_slice(&mask.to_be_bytes());
        }
        data
    }
}

/// One block of GUIDInfo: eight GUIDs, 0 where empty.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct GuidBlock(pub [Guid; GUID_BLOCK]);

impl GuidBlock {
    /// Reads the block from the data of an SMP.
    pub fn read(data: &[u8; 64]) -> Self {
        Self(std::array::from_fn(|i| {
            Guid(u64::from_be_bytes(data[8 * i..8 * i + 8].try_into().expect("8 bytes")))
        }))
    }

    /// The block as data of an SMP.
    pub fn to_wire(&self) -> [u8; 64] {
        let mut data = [0; 64];
        for (slot, guid) in data.chunks_exact_mut(8).zip(self.0) {
            slot.copy_from_slice(&guid.0.to_be_bytes());
        }
        data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sl_to_vl_nibbles_start_with_sl_0() {
        let map = SlToVl::new([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
        assert_eq!(map.0, [0x01, 0x23, 0x45, 0x67, 0x89, 0xAB, 0xCD, 0xEF]);
        assert_eq!(map.vl(Sl(9)), Vl(9));
        assert_eq!(map.masked(7).vls()[9], 1);
    }

    #[test]
    fn blocks_come_back() {
        let data: [u8; 64] = std::array::from_fn(|i| i as u8 * 3);
        assert_eq!(PkeyBlock::read(&data).to_wire(), data);
        assert_eq!(MftBlock::read(&data).to_wire(), data);
        assert_eq!(GuidBlock::read(&data).to_wire(), data);
    }
}
