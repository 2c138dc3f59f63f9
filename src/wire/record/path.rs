//! PathRecord: IBA vol. 1, 15.2.5.16.

use super::components;
use crate::ids::{Gid, Lid, Pkey, Sl};
use crate::wire::bits::{Field, record};

record! {
    /// PathRecord, IBA vol. 1, 15.2.5.16.
    pub struct PathRecord[64] {
        /// ServiceID of the service that is to use the path.
        service_id, set_service_id: u64 = 0, 64;
        /// LID of the destination.
        dlid, set_dlid: Lid = 320, 16;
        /// LID of the source.
        slid, set_slid: Lid = 336, 16;
        raw_traffic, set_raw_traffic: bool = 352, 1;
        flow_label, set_flow_label: u32 = 356, 20;
        hop_limit, set_hop_limit: u8 = 376, 8;
        traffic_class, set_traffic_class: u8 = 384, 8;
        /// The reverse path has the same parameters, with LIDs exchanged.
        reversible, set_reversible: bool = 392, 1;
        /// In queries: maximum number of paths per pair of ports.
        numb_path, set_numb_path: u8 = 393, 7;
        pkey, set_pkey: Pkey = 400, 16;
        qos_class, set_qos_class: u16 = 416, 12;
        sl, set_sl: Sl = 428, 4;
        /// Comparison with [`Self::mtu`].
        mtu_selector, set_mtu_selector: Selector = 432, 2;
        /// MTU code: 1 = 256 … 5 = 4096 bytes.
        mtu, set_mtu: u8 = 434, 6;
        /// Comparison with [`Self::rate`].
        rate_selector, set_rate_selector: Selector = 440, 2;
        rate, set_rate: u8 = 442, 6;
        /// Comparison with [`Self::packet_life`].
        packet_life_selector, set_packet_life_selector: Selector = 448, 2;
        /// Packet lifetime: 4.096 us * 2^value.
        packet_life, set_packet_life: u8 = 450, 6;
        /// Rank among the paths of an answer, 0 the best.
        preference, set_preference: u8 = 456, 8;
    }
}

components!(PathRecord, reserved [7] {
    SERVICE_ID_MSB = 0: 0, 8;
    SERVICE_ID_LSB = 1: 8, 56;
    DGID = 2: 64, 128;
    SGID = 3: 192, 128;
    DLID = 4: 320, 16;
    SLID = 5: 336, 16;
    RAW_TRAFFIC = 6: 352, 1;
    FLOW_LABEL = 8: 356, 20;
    HOP_LIMIT = 9: 376, 8;
    TRAFFIC_CLASS = 10: 384, 8;
    REVERSIBLE = 11: 392, 1;
    NUMB_PATH = 12: 393, 7;
    PKEY = 13: 400, 16;
    QOS_CLASS = 14: 416, 12;
    SL = 15: 428, 4;
    MTU_SELECTOR = 16: 432, 2;
    MTU = 17: 434, 6;
    RATE_SELECTOR = 18: 440, 2;
    RATE = 19: 442, 6;
    PACKET_LIFE_SELECTOR = 20: 448, 2;
    PACKET_LIFE = 21: 450, 6;
    PREFERENCE = 22: 456, 8;
});

impl PathRecord {
    pub fn dgid(&self) -> Gid {
        Gid(std::array::from_fn(|i| self.0[8 + i]))
    }

    pub fn set_dgid(&mut self, gid: Gid) {
        self.0[8..24].copy_from_slice(&gid.0);
    }

    pub fn sgid(&self) -> Gid {
        Gid(std::array::from_fn(|i| self.0[24 + i]))
    }

    pub fn set_sgid(&mut self, gid: Gid) {
        self.0[24..40].copy_from_slice(&gid.0);
    }
}

/// Comparison with a value of a query (IBA vol. 1, 15.2.5.16).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Selector {
    /// Greater than the value.
    GreaterThan,
    /// Less than the value.
    LessThan,
    /// Exactly the value.
    Exactly,
    /// The largest MTU or rate, or the smallest packet lifetime; the value is ignored.
    Best,
}

impl Field for Selector {
    fn from_bits(bits: u64) -> Self {
        match bits & 3 {
            0 => Self::GreaterThan,
            1 => Self::LessThan,
            2 => Self::Exactly,
            _ => Self::Best,
        }
    }

    fn to_bits(self) -> u64 {
        match self {
            Self::GreaterThan => 0,
            Self::LessThan => 1,
            Self::Exactly => 2,
            Self::Best => 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Guid;

    #[test]
    fn layout() {
        let mut path = PathRecord::default();
        path.set_dgid(Gid::new(0xfe80_0000_0000_0000, Guid(2)));
        path.set_sgid(Gid::new(0xfe80_0000_0000_0000, Guid(1)));
        path.set_dlid(Lid(0x0102));
        path.set_slid(Lid(0x0304));
        path.set_flow_label(0xABCDE);
        path.set_hop_limit(0xFF);
        path.set_traffic_class(7);
        path.set_reversible(true);
        path.set_numb_path(3);
        path.set_pkey(Pkey(0xFFFF));
        path.set_qos_class(0x123);
        path.set_sl(Sl(4));
        path.set_mtu_selector(Selector::Exactly);
        path.set_mtu(4);
        path.set_rate_selector(Selector::LessThan);
        path.set_rate(7);
        path.set_packet_life(18);
        path.set_preference(2);
        assert_eq!(&path.0[8..10], &[0xFE, 0x80]);
        assert_eq!((path.0[23], path.0[39]), (2, 1));
        assert_eq!(&path.0[40..48], &[1, 2, 3, 4, 0x0A, 0xBC, 0xDE, 0xFF]);
        assert_eq!(&path.0[48..58], &[7, 0x83, 0xFF, 0xFF, 0x12, 0x34, 0x84, 0x47, 18, 2]);
    }
}
