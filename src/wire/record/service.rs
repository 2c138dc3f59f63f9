//! ServiceRecord: IBA vol. 1, 15.2.5.14.

use super::components;
use crate::ids::{Gid, Pkey};
use crate::wire::bits::record;

record! {
    /// ServiceRecord, IBA vol. 1, 15.2.5.14: a service that a port offers.
    pub struct ServiceRecord[176] {
        /// Identifier of the service.
        id, set_id: u64 = 0, 64;
        /// Partition of the service.
        pkey, set_pkey: Pkey = 192, 16;
        /// Remaining lifetime of the record in seconds; [`Self::NO_END`] if unlimited.
        lease, set_lease: u32 = 224, 32;
        /// First half of the service's data of 64 bits.
        data64_0, set_data64_0: u64 = 1280, 64;
        /// Second half of the service's data of 64 bits.
        data64_1, set_data64_1: u64 = 1344, 64;
    }
}

components!(ServiceRecord, reserved [3] {
    ID = 0: 0, 64;
    GID = 1: 64, 128;
    PKEY = 2: 192, 16;
    LEASE = 4: 224, 32;
    KEY = 5: 256, 128;
    NAME = 6: 384, 512;
    DATA8_0 = 7: 896, 8;
    DATA8_1 = 8: 904, 8;
    DATA8_2 = 9: 912, 8;
    DATA8_3 = 10: 920, 8;
    DATA8_4 = 11: 928, 8;
    DATA8_5 = 12: 936, 8;
    DATA8_6 = 13: 944, 8;
    DATA8_7 = 14: 952, 8;
    DATA8_8 = 15: 960, 8;
    DATA8_9 = 16: 968, 8;
    DATA8_10 = 17: 976, 8;
    DATA8_11 = 18: 984, 8;
    DATA8_12 = 19: 992, 8;
    DATA8_13 = 20: 1000, 8;
    DATA8_14 = 21: 1008, 8;
    DATA8_15 = 22: 1016, 8;
    DATA16_0 = 23: 1024, 16;
    DATA16_1 = 24: 1040, 16;
    DATA16_2 = 25: 1056, 16;
    DATA16_3 = 26: 1072, 16;
    DATA16_4 = 27: 1088, 16;
    DATA16_5 = 28: 1104, 16;
    DATA16_6 = 29: 1120, 16;
    DATA16_7 = 30: 1136, 16;
    DATA32_0 = 31: 1152, 32;
    DATA32_1 = 32: 1184, 32;
    DATA32_2 = 33: 1216, 32;
    DATA32_3 = 34: 1248, 32;
    DATA64_0 = 35: 1280, 64;
    DATA64_1 = 36: 1344, 64;
});

/// Byte offsets of the fields that are byte strings.
const GID_AT: usize = 8;
const KEY_AT: usize = 32;
const NAME_AT: usize = 48;
const DATA_AT: usize = 112;

impl ServiceRecord {
    /// ServiceLease of an indefinite registration.
    pub const NO_END: u32 = 0xFFFF_FFFF;
    /// Length of ServiceName in bytes.
    pub const NAME_SIZE: usize = 64;

    /// GID of the port that offers the service.
    pub fn gid(&self) -> Gid {
        Gid(std::array::from_fn(|i| self.0[GID_AT + i]))
    }

    pub fn set_gid(&mut self, gid: Gid) {
        self.0[GID_AT..GID_AT + 16].copy_from_slice(&gid.0);
    }

    /// ServiceKey, which only trusted requesters see.
    pub fn key(&self) -> [u8; 16] {
        std::array::from_fn(|i| self.0[KEY_AT + i])
    }

    pub fn set_key(&mut self, key: [u8; 16]) {
        self.0[KEY_AT..KEY_AT + 16].copy_from_slice(&key);
    }

    /// Name of the service, UTF-8 with zeros at its end.
    pub fn name(&self) -> [u8; Self::NAME_SIZE] {
        std::array::from_fn(|i| self.0[NAME_AT + i])
    }

    pub fn set_name(&mut self, name: [u8; Self::NAME_SIZE]) {
        self.0[NAME_AT..NAME_AT + Self::NAME_SIZE].copy_from_slice(&name);
    }

    /// The service's data: sixteen numbers of 8 bits, eight of 16, four of 32, two of 64.
    pub fn data(&self) -> [u8; 64] {
        std::array::from_fn(|i| self.0[DATA_AT + i])
    }

    pub fn set_data(&mut self, data: [u8; 64]) {
        self.0[DATA_AT..DATA_AT + 64].copy_from_slice(&data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::record::Record;

    #[test]
    fn layout() {
        let mut record = ServiceRecord::default();
        record.set_id(0x0102_0304_0506_0708);
        record.set_gid(Gid([0x11; 16]));
        record.set_pkey(Pkey(0xFFFF));
        record.set_lease(0x0000_0E10);
        record.set_key([0x22; 16]);
        record.set_name([b'n'; 64]);
        record.set_data([0x33; 64]);
        record.set_data64_1(7);
        assert_eq!(&record.0[..8], &[1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!((record.0[8], record.0[23]), (0x11, 0x11));
        assert_eq!(&record.0[24..32], &[0xFF, 0xFF, 0, 0, 0, 0, 0x0E, 0x10]);
        assert_eq!((record.0[32], record.0[47], record.0[48]), (0x22, 0x22, b'n'));
        assert_eq!((record.0[111], record.0[112], record.0[167]), (b'n', 0x33, 0x33));
        assert_eq!(&record.0[168..], &[0, 0, 0, 0, 0, 0, 0, 7]);
        assert_eq!(record.data()[..56], [0x33; 56]);
    }

    #[test]
    fn all_37_bits_are_there() {
        assert_eq!(ServiceRecord::DEFINED, (1 << 37) - 1);
        let first = ServiceRecord::COMPONENTS[0];
        let last = ServiceRecord::COMPONENTS[35];
        assert_eq!((first.bit, first.offset), (0, 0));
        assert_eq!((last.bit, last.offset + last.width), (36, 176 * 8));
    }
}
