//! MultiPathRecord: IBA vol. 1, 15.2.5.23. Only requests have this record; the answer is
//! PathRecords.

use super::{PathRecord, Selector, components};
use crate::ids::{Gid, Pkey, Sl};
use crate::wire::bits::record;

record! {
    /// MultiPathRecord without its GIDs, which follow it: first those of the sources, then those
    /// of the destinations (IBA vol. 1, 15.2.5.23).
    pub struct MultiPathRecord[24] {
        raw_traffic, set_raw_traffic: bool = 0, 1;
        flow_label, set_flow_label: u32 = 4, 20;
        hop_limit, set_hop_limit: u8 = 24, 8;
        traffic_class, set_traffic_class: u8 = 32, 8;
        /// Only reversible paths are wanted.
        reversible, set_reversible: bool = 40, 1;
        /// Maximum number of paths in the response.
        numb_path, set_numb_path: u8 = 41, 7;
        pkey, set_pkey: Pkey = 48, 16;
        qos_class, set_qos_class: u16 = 64, 12;
        sl, set_sl: Sl = 76, 4;
        /// Comparison with [`Self::mtu`].
        mtu_selector, set_mtu_selector: Selector = 80, 2;
        /// MTU code: 1 = 256 … 5 = 4096 bytes.
        mtu, set_mtu: u8 = 82, 6;
        /// Comparison with [`Self::rate`].
        rate_selector, set_rate_selector: Selector = 88, 2;
        rate, set_rate: u8 = 90, 6;
        /// Comparison with [`Self::packet_life`].
        packet_life_selector, set_packet_life_selector: Selector = 96, 2;
        /// Packet lifetime: 4.096 us * 2^value.
        packet_life, set_packet_life: u8 = 98, 6;
        /// High byte of the ServiceID.
        service_id_msb, set_service_id_msb: u8 = 104, 8;
        /// IndependenceSelector: how far the paths are to avoid common points of failure.
        independence, set_independence: u8 = 112, 2;
        /// Number of GIDs of sources.
        sgid_count, set_sgid_count: u8 = 120, 8;
        /// Number of GIDs of destinations.
        dgid_count, set_dgid_count: u8 = 128, 8;
        /// The lower 7 bytes of the ServiceID.
        service_id_lsb, set_service_id_lsb: u64 = 136, 56;
    }
}

components!(MultiPathRecord, reserved [1, 18] {
    RAW_TRAFFIC = 0: 0, 1;
    FLOW_LABEL = 2: 4, 20;
    HOP_LIMIT = 3: 24, 8;
    TRAFFIC_CLASS = 4: 32, 8;
    REVERSIBLE = 5: 40, 1;
    NUMB_PATH = 6: 41, 7;
    PKEY = 7: 48, 16;
    QOS_CLASS = 8: 64, 12;
    SL = 9: 76, 4;
    MTU_SELECTOR = 10: 80, 2;
    MTU = 11: 82, 6;
    RATE_SELECTOR = 12: 88, 2;
    RATE = 13: 90, 6;
    PACKET_LIFE_SELECTOR = 14: 96, 2;
    PACKET_LIFE = 15: 98, 6;
    SERVICE_ID_MSB = 16: 104, 8;
    INDEPENDENCE = 17: 112, 2;
    SGID_COUNT = 19: 120, 8;
    DGID_COUNT = 20: 128, 8;
    SERVICE_ID_LSB = 21: 136, 56;
});

/// Component mask bits of MultiPathRecord, with those of the same component in PathRecord.
const IN_PATH: [(u64, u64); 17] = [
    (MultiPathRecord::RAW_TRAFFIC, PathRecord::RAW_TRAFFIC),
    (MultiPathRecord::FLOW_LABEL, PathRecord::FLOW_LABEL),
    (MultiPathRecord::HOP_LIMIT, PathRecord::HOP_LIMIT),
    (MultiPathRecord::TRAFFIC_CLASS, PathRecord::TRAFFIC_CLASS),
    (MultiPathRecord::REVERSIBLE, PathRecord::REVERSIBLE),
    (MultiPathRecord::NUMB_PATH, PathRecord::NUMB_PATH),
    (MultiPathRecord::PKEY, PathRecord::PKEY),
    (MultiPathRecord::QOS_CLASS, PathRecord::QOS_CLASS),
    (MultiPathRecord::SL, PathRecord::SL),
    (MultiPathRecord::MTU_SELECTOR, PathRecord::MTU_SELECTOR),
    (MultiPathRecord::MTU, PathRecord::MTU),
    (MultiPathRecord::RATE_SELECTOR, PathRecord::RATE_SELECTOR),
    (MultiPathRecord::RATE, PathRecord::RATE),
    (MultiPathRecord::PACKET_LIFE_SELECTOR, PathRecord::PACKET_LIFE_SELECTOR),
    (MultiPathRecord::PACKET_LIFE, PathRecord::PACKET_LIFE),
    (MultiPathRecord::SERVICE_ID_MSB, PathRecord::SERVICE_ID_MSB),
    (MultiPathRecord::SERVICE_ID_LSB, PathRecord::SERVICE_ID_LSB),
];

impl MultiPathRecord {
    /// The source and destination GIDs that follow the record in `data`; `None` if GIDs are
    /// missing.
    pub fn gids(&self, data: &[u8]) -> Option<(Vec<Gid>, Vec<Gid>)> {
        let gids = data.get(Self::SIZE..)?.as_chunks::<16>().0;
        let sources = usize::from(self.sgid_count());
        let targets = usize::from(self.dgid_count());
        let sgids = gids.get(..sources)?.iter().map(|bytes| gid_of(bytes));
        let dgids = gids.get(sources..sources + targets)?.iter().map(|bytes| gid_of(bytes));
        Some((sgids.collect(), dgids.collect()))
    }

    /// Converts the components of `mask` that apply to every path to a PathRecord without ends,
    /// with its component mask.
    pub fn each_path(&self, mask: u64) -> (PathRecord, u64) {
        let mut path = PathRecord::default();
        path.set_service_id(u64::from(self.service_id_msb()) << 56 | self.service_id_lsb());
        path.set_raw_traffic(self.raw_traffic());
        path.set_flow_label(self.flow_label());
        path.set_hop_limit(self.hop_limit());
        path.set_traffic_class(self.traffic_class());
        path.set_reversible(self.reversible());
        path.set_numb_path(self.numb_path());
        path.set_pkey(self.pkey());
        path.set_qos_class(self.qos_class());
        path.set_sl(self.sl());
        path.set_mtu_selector(self.mtu_selector());
        path.set_mtu(self.mtu());
        path.set_rate_selector(self.rate_selector());
        path.set_rate(self.rate());
        path.set_packet_life_selector(self.packet_life_selector());
        path.set_packet_life(self.packet_life());
        let named = IN_PATH.iter().filter(|(here, _)| mask & here != 0);
        (path, named.fold(0, |mask, (_, there)| mask | there))
    }
}

fn gid_of(bytes: &[u8]) -> Gid {
    Gid(std::array::from_fn(|i| bytes[i]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::record::{Component, Record, matches};
    use proptest::prelude::*;

    #[test]
    fn layout() {
        let mut wanted = MultiPathRecord::default();
        wanted.set_raw_traffic(true);
        wanted.set_flow_label(0xABCDE);
        wanted.set_hop_limit(0xFF);
        wanted.set_traffic_class(7);
        wanted.set_reversible(true);
        wanted.set_numb_path(3);
        wanted.set_pkey(Pkey(0xFFFF));
        wanted.set_qos_class(0x123);
        wanted.set_sl(Sl(4));
        wanted.set_mtu_selector(Selector::Exactly);
        wanted.set_mtu(4);
        wanted.set_rate_selector(Selector::LessThan);
        wanted.set_rate(7);
        wanted.set_packet_life(18);
        wanted.set_service_id_msb(0x10);
        wanted.set_independence(1);
        wanted.set_sgid_count(2);
        wanted.set_dgid_count(1);
        wanted.set_service_id_lsb(0x0000_1122_3344_5566);
        assert_eq!(&wanted.0[..6], &[0x8A, 0xBC, 0xDE, 0xFF, 7, 0x83]);
        assert_eq!(&wanted.0[6..14], &[0xFF, 0xFF, 0x12, 0x34, 0x84, 0x47, 18, 0x10]);
        assert_eq!(&wanted.0[14..], &[0x40, 2, 1, 0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66]);
    }

    #[test]
    fn gids_follow_the_record() {
        let mut wanted = MultiPathRecord::default();
        wanted.set_sgid_count(2);
        wanted.set_dgid_count(1);
        let mut data = wanted.0.to_vec();
        data.extend([[1; 16], [2; 16], [3; 16]].as_flattened());
        let gids = (vec![Gid([1; 16]), Gid([2; 16])], vec![Gid([3; 16])]);
        assert_eq!(wanted.gids(&data), Some(gids));
        assert_eq!(wanted.gids(&data[..71]), None, "the last GID is not whole");
        assert_eq!(wanted.gids(&[]), None);
    }

    fn field(bytes: &[u8], component: &Component) -> u64 {
        crate::wire::bits::get(bytes, component.offset.into(), component.width.into())
    }

    fn find(components: &'static [Component], bit: u64) -> &'static Component {
        components.iter().find(|component| 1 << component.bit == bit).expect("a component")
    }

    proptest! {
        /// Asserts that each component has the same value in the PathRecord of `each_path`.
        #[test]
        fn nothing_asked_for_is_lost(bytes: [u8; 24], mask: u64) {
            let wanted = MultiPathRecord::parse(&bytes);
            let (path, named) = wanted.each_path(mask);
            for (here, there) in IN_PATH {
                prop_assert_eq!(named & there != 0, mask & here != 0);
                let from = find(MultiPathRecord::COMPONENTS, here);
                let to = find(PathRecord::COMPONENTS, there);
                prop_assert_eq!(from.width, to.width);
                prop_assert_eq!(field(&bytes, from), field(path.bytes(), to));
            }
            prop_assert!(matches(named, &path, &path));
        }
    }
}
