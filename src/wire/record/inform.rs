//! InformInfo and InformInfoRecord, subscriptions to notices: IBA vol. 1, 13.4.8.3 and
//! 15.2.5.12.

use super::components;
use crate::ids::{Gid, Lid};
use crate::wire::bits::record;

record! {
    /// InformInfo, IBA vol. 1, 13.4.8.3.
    pub struct InformInfo[40] {
        /// First LID of the range of sources; 0xFFFF stands for all.
        lid_range_begin, set_lid_range_begin: Lid = 128, 16;
        /// Last LID of the range of sources.
        lid_range_end, set_lid_range_end: Lid = 144, 16;
        /// 1 for notices defined by the specification, 0 for those of a vendor.
        is_generic, set_is_generic: u8 = 176, 8;
        /// 1 subscribes, 0 ends a subscription.
        subscribe, set_subscribe: u8 = 184, 8;
        /// Type of the notices; 0xFFFF stands for all.
        notice_type, set_notice_type: u16 = 192, 16;
        /// Trap number or device ID; 0xFFFF stands for all.
        trap_number, set_trap_number: u16 = 208, 16;
        /// Queue pair of the subscriber, 24 bits.
        qpn, set_qpn: u32 = 224, 24;
        /// Response time of the subscriber: 4.096 us * 2^value.
        resp_time_value, set_resp_time_value: u8 = 251, 5;
        /// Kind of node that produces the notices, or a vendor ID; 0xFFFFFF stands for all.
        producer_type, set_producer_type: u32 = 264, 24;
    }
}

components!(InformInfo, reserved [] {});

impl InformInfo {
    /// GID of the source; 0 to select by LID range.
    pub fn gid(&self) -> Gid {
        Gid(std::array::from_fn(|i| self.0[i]))
    }

    pub fn set_gid(&mut self, gid: Gid) {
        self.0[..16].copy_from_slice(&gid.0);
    }
}

record! {
    /// InformInfoRecord, IBA vol. 1, 15.2.5.12.
    pub struct InformInfoRecord[64] {
        /// Number of the subscription.
        number, set_number: u16 = 128, 16;
    }
}

components!(InformInfoRecord, reserved [2, 6, 12, 14] {
    SUBSCRIBER_GID = 0: 0, 128;
    NUMBER = 1: 128, 16;
    GID = 3: 192, 128;
    LID_RANGE_BEGIN = 4: 320, 16;
    LID_RANGE_END = 5: 336, 16;
    IS_GENERIC = 7: 368, 8;
    SUBSCRIBE = 8: 376, 8;
    NOTICE_TYPE = 9: 384, 16;
    TRAP_NUMBER = 10: 400, 16;
    QPN = 11: 416, 24;
    RESP_TIME_VALUE = 13: 443, 5;
    PRODUCER_TYPE = 15: 456, 24;
});

impl InformInfoRecord {
    pub fn subscriber_gid(&self) -> Gid {
        Gid(std::array::from_fn(|i| self.0[i]))
    }

    pub fn set_subscriber_gid(&mut self, gid: Gid) {
        self.0[..16].copy_from_slice(&gid.0);
    }

    pub fn inform_info(&self) -> InformInfo {
        InformInfo::read(&self.0[24..])
    }

    pub fn set_inform_info(&mut self, info: &InformInfo) {
        info.write(&mut self.0[24..60]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout() {
        let mut info = InformInfo::default();
        info.set_gid(Gid([1; 16]));
        info.set_lid_range_begin(Lid(0xFFFF));
        info.set_is_generic(1);
        info.set_subscribe(1);
        info.set_notice_type(0xFFFF);
        info.set_trap_number(67);
        info.set_qpn(1);
        info.set_resp_time_value(16);
        info.set_producer_type(4);
        assert_eq!(&info.0[16..24], &[0xFF, 0xFF, 0, 0, 0, 0, 1, 1]);
        assert_eq!(&info.0[24..36], &[0xFF, 0xFF, 0, 67, 0, 0, 1, 16, 0, 0, 0, 4]);
        let mut record = InformInfoRecord::default();
        record.set_subscriber_gid(Gid([2; 16]));
        record.set_number(5);
        record.set_inform_info(&info);
        assert_eq!(&record.0[14..20], &[2, 2, 0, 5, 0, 0]);
        assert_eq!((record.0[24], record.0[59]), (1, 4));
        assert_eq!(record.inform_info(), info);
    }
}
