//! The records that consist of a LID and one block or attribute of a device: links, SwitchInfo,
//! forwarding tables, SL to VL, VL arbitration, P_Keys, GUIDs.

use super::components;
use crate::ids::{Lid, PortNum};
use crate::wire::attr::SwitchInfo;
use crate::wire::attr::tables::{GuidBlock, MftBlock, PkeyBlock, SlToVl, VlArbBlock};
use crate::wire::bits::record;

record! {
    /// LinkRecord, IBA vol. 1, 15.2.5.13: a link, seen from one of its ends.
    pub struct LinkRecord[8] {
        /// LID of this end's port or switch.
        from_lid, set_from_lid: Lid = 0, 16;
        /// Port at this end.
        from_port, set_from_port: PortNum = 16, 8;
        /// Port at the other end.
        to_port, set_to_port: PortNum = 24, 8;
        /// LID of the other end's port or switch.
        to_lid, set_to_lid: Lid = 32, 16;
    }
}

components!(LinkRecord, reserved [] {
    FROM_LID = 0: 0, 16;
    FROM_PORT = 1: 16, 8;
    TO_PORT = 2: 24, 8;
    TO_LID = 3: 32, 16;
});

record! {
    /// SwitchInfoRecord, IBA vol. 1, 15.2.5.5.
    pub struct SwitchInfoRecord[24] {
        lid, set_lid: Lid = 0, 16;
    }
}

components!(SwitchInfoRecord, reserved [1] { LID = 0: 0, 16; });

impl SwitchInfoRecord {
    pub fn switch_info(&self) -> SwitchInfo {
        SwitchInfo::read(&self.0[4..])
    }

    pub fn set_switch_info(&mut self, info: &SwitchInfo) {
        info.write(&mut self.0[4..]);
    }
}

record! {
    /// LinearForwardingTableRecord, IBA vol. 1, 15.2.5.6.
    pub struct LinearFtRecord[72] {
        lid, set_lid: Lid = 0, 16;
        /// Number of the block of 64 entries.
        block, set_block: u16 = 16, 16;
    }
}

components!(LinearFtRecord, reserved [] {
    LID = 0: 0, 16;
    BLOCK = 1: 16, 16;
});

record! {
    /// MulticastForwardingTableRecord, IBA vol. 1, 15.2.5.8.
    pub struct MulticastFtRecord[72] {
        lid, set_lid: Lid = 0, 16;
        /// Position: selects 16 ports.
        position, set_position: u8 = 16, 4;
        /// Number of the block of 32 entries.
        block, set_block: u16 = 23, 9;
    }
}

components!(MulticastFtRecord, reserved [2, 4] {
    LID = 0: 0, 16;
    POSITION = 1: 16, 4;
    BLOCK = 3: 23, 9;
});

impl MulticastFtRecord {
    pub fn set_masks(&mut self, masks: &MftBlock) {
        self.0[8..].copy_from_slice(&masks.to_wire());
    }
}

record! {
    /// SLtoVLMappingTableRecord, IBA vol. 1, 15.2.5.4.
    pub struct SlToVlRecord[16] {
        /// LID of the port or switch.
        lid, set_lid: Lid = 0, 16;
        /// Input port of a switch.
        in_port, set_in_port: PortNum = 16, 8;
        /// Output port of a switch.
        out_port, set_out_port: PortNum = 24, 8;
    }
}

components!(SlToVlRecord, reserved [3] {
    LID = 0: 0, 16;
    IN_PORT = 1: 16, 8;
    OUT_PORT = 2: 24, 8;
});

impl SlToVlRecord {
    pub fn set_mapping(&mut self, mapping: &SlToVl) {
        self.0[8..].copy_from_slice(&mapping.0);
    }
}

record! {
    /// VLArbitrationTableRecord, IBA vol. 1, 15.2.5.9.
    pub struct VlArbitrationRecord[72] {
        /// LID of the port or switch.
        lid, set_lid: Lid = 0, 16;
        /// Output port of a switch.
        out_port, set_out_port: PortNum = 16, 8;
        /// Number of the block, 1..=4.
        block, set_block: u8 = 24, 8;
    }
}

components!(VlArbitrationRecord, reserved [3] {
    LID = 0: 0, 16;
    OUT_PORT = 1: 16, 8;
    BLOCK = 2: 24, 8;
});

impl VlArbitrationRecord {
    pub fn set_entries(&mut self, entries: &VlArbBlock) {
        self.0[8..].copy_from_slice(&entries.0);
    }
}

record! {
    /// P_KeyTableRecord, IBA vol. 1, 15.2.5.11.
    pub struct PkeyTableRecord[72] {
        /// LID of the port or switch.
        lid, set_lid: Lid = 0, 16;
        /// Number of the block of 32 keys.
        block, set_block: u16 = 16, 16;
        /// Port of a switch.
        port, set_port: PortNum = 32, 8;
    }
}

components!(PkeyTableRecord, reserved [3] {
    LID = 0: 0, 16;
    BLOCK = 1: 16, 16;
    PORT = 2: 32, 8;
});

impl PkeyTableRecord {
    pub fn set_keys(&mut self, keys: &PkeyBlock) {
        self.0[8..].copy_from_slice(&keys.to_wire());
    }
}

record! {
    /// GUIDInfoRecord, IBA vol. 1, 15.2.5.18.
    pub struct GuidInfoRecord[72] {
        lid, set_lid: Lid = 0, 16;
        /// Number of the block of 8 GUIDs.
        block, set_block: u8 = 16, 8;
    }
}

components!(GuidInfoRecord, reserved [2, 3] {
    LID = 0: 0, 16;
    BLOCK = 1: 16, 8;
    GID0 = 4: 64, 64;
    GID1 = 5: 128, 64;
    GID2 = 6: 192, 64;
    GID3 = 7: 256, 64;
    GID4 = 8: 320, 64;
    GID5 = 9: 384, 64;
    GID6 = 10: 448, 64;
    GID7 = 11: 512, 64;
});

impl GuidInfoRecord {
    pub fn guids(&self) -> GuidBlock {
        GuidBlock::read(&std::array::from_fn(|index| self.0[8 + index]))
    }

    pub fn set_guids(&mut self, guids: &GuidBlock) {
        self.0[8..].copy_from_slice(&guids.to_wire());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Pkey;

    #[test]
    fn headers_of_the_blocks() {
        let mut link = LinkRecord::default();
        link.set_from_lid(Lid(0x0102));
        link.set_from_port(PortNum(3));
        link.set_to_port(PortNum(4));
        link.set_to_lid(Lid(0x0506));
        assert_eq!(link.0, [1, 2, 3, 4, 5, 6, 0, 0]);

        let mut mft = MulticastFtRecord::default();
        mft.set_position(2);
        mft.set_block(0x101);
        assert_eq!(&mft.0[2..4], &[0x21, 0x01]);

        let mut keys = PkeyTableRecord::default();
        keys.set_port(PortNum(5));
        keys.set_keys(&PkeyBlock([Pkey(0x7FFF); 32]));
        assert_eq!(&keys.0[4..10], &[5, 0, 0, 0, 0x7F, 0xFF]);

        let mut lft = LinearFtRecord::default();
        lft.set_block(0x0203);
        assert_eq!(&lft.0[..4], &[0, 0, 2, 3]);
    }

    #[test]
    fn switch_info_sits_behind_the_lid() {
        let mut info = SwitchInfo::default();
        info.set_linear_fdb_cap(0xBFFF);
        let mut record = SwitchInfoRecord::default();
        record.set_switch_info(&info);
        assert_eq!(&record.0[4..6], &[0xBF, 0xFF]);
        assert_eq!(record.switch_info(), info);
    }
}
