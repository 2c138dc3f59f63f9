//! PortInfoRecord: IBA vol. 1, 15.2.5.3.

use super::components;
use crate::ids::{Lid, PortNum};
use crate::wire::attr::PortInfo;
use crate::wire::bits::record;

record! {
    /// PortInfoRecord, IBA vol. 1, 15.2.5.3.
    pub struct PortInfoRecord[72] {
        /// LID of the end port; for the ports of a switch that of its port 0.
        lid, set_lid: Lid = 0, 16;
        port, set_port: PortNum = 16, 8;
        /// Most significant bit: the requester understands all fields of PortInfo, including
        /// extended speeds.
        options, set_options: u8 = 24, 8;
    }
}

components!(PortInfoRecord, reserved [19, 44, 46, 51, 56] {
    LID = 0: 0, 16;
    PORT = 1: 16, 8;
    OPTIONS = 2: 24, 8;
    M_KEY = 3: 32, 64;
    GID_PREFIX = 4: 96, 64;
    BASE_LID = 5: 160, 16;
    MASTER_SM_LID = 6: 176, 16;
    CAPABILITY_MASK = 7: 192, 32;
    DIAG_CODE = 8: 224, 16;
    M_KEY_LEASE_PERIOD = 9: 240, 16;
    LOCAL_PORT = 10: 256, 8;
    LINK_WIDTH_ENABLED = 11: 264, 8;
    LINK_WIDTH_SUPPORTED = 12: 272, 8;
    LINK_WIDTH_ACTIVE = 13: 280, 8;
    LINK_SPEED_SUPPORTED = 14: 288, 4;
    PORT_STATE = 15: 292, 4;
    PHYS_STATE = 16: 296, 4;
    LINK_DOWN_DEFAULT_STATE = 17: 300, 4;
    M_KEY_PROTECT_BITS = 18: 304, 2;
    LMC = 20: 309, 3;
    LINK_SPEED_ACTIVE = 21: 312, 4;
    LINK_SPEED_ENABLED = 22: 316, 4;
    NEIGHBOR_MTU = 23: 320, 4;
    MASTER_SM_SL = 24: 324, 4;
    VL_CAP = 25: 328, 4;
    INIT_TYPE = 26: 332, 4;
    VL_HIGH_LIMIT = 27: 336, 8;
    VL_ARB_HIGH_CAP = 28: 344, 8;
    VL_ARB_LOW_CAP = 29: 352, 8;
    INIT_TYPE_REPLY = 30: 360, 4;
    MTU_CAP = 31: 364, 4;
    VL_STALL_COUNT = 32: 368, 3;
    HOQ_LIFE = 33: 371, 5;
    OPERATIONAL_VLS = 34: 376, 4;
    PARTITION_ENFORCEMENT_IN = 35: 380, 1;
    PARTITION_ENFORCEMENT_OUT = 36: 381, 1;
    FILTER_RAW_IN = 37: 382, 1;
    FILTER_RAW_OUT = 38: 383, 1;
    M_KEY_VIOLATIONS = 39: 384, 16;
    P_KEY_VIOLATIONS = 40: 400, 16;
    Q_KEY_VIOLATIONS = 41: 416, 16;
    GUID_CAP = 42: 432, 8;
    CLIENT_REREGISTER = 43: 440, 1;
    SUBNET_TIMEOUT = 45: 443, 5;
    RESP_TIME_VALUE = 47: 451, 5;
    LOCAL_PHY_ERRORS = 48: 456, 4;
    OVERRUN_ERRORS = 49: 460, 4;
    MAX_CREDIT_HINT = 50: 464, 16;
    LINK_ROUND_TRIP_LATENCY = 52: 488, 24;
    CAPABILITY_MASK2 = 53: 512, 16;
    LINK_SPEED_EXT_ACTIVE = 54: 528, 4;
    LINK_SPEED_EXT_SUPPORTED = 55: 532, 4;
    LINK_SPEED_EXT_ENABLED = 57: 539, 5;
});

impl PortInfoRecord {
    /// Bit of [`Self::options`]: the requester understands all fields of PortInfo.
    pub const FULL_PORT_INFO: u8 = 0x80;
    /// Bit of the attribute modifier: capability masks match if they contain all requested bits.
    pub const MATCH_CAPABILITIES: u32 = 1 << 31;

    pub fn port_info(&self) -> PortInfo {
        PortInfo::read(&self.0[4..])
    }

    pub fn set_port_info(&mut self, info: &PortInfo) {
        info.write(&mut self.0[4..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::MKey;
    use crate::wire::record::Record;

    #[test]
    fn layout() {
        let mut info = PortInfo::default();
        info.set_m_key(MKey(0xAABB));
        info.set_lid(Lid(9));
        info.set_lmc(2);
        info.set_mtu_cap(5);
        let mut record = PortInfoRecord::default();
        record.set_lid(Lid(8));
        record.set_port(PortNum(3));
        record.set_port_info(&info);
        assert_eq!(&record.0[..12], &[0, 8, 3, 0, 0, 0, 0, 0, 0, 0, 0xAA, 0xBB]);
        assert_eq!(&record.0[20..22], &[0, 9]);
        assert_eq!(record.0[38], 2);
        assert_eq!(record.0[45], 5);
        assert_eq!(record.port_info(), info);
    }

    /// Asserts that each component covers its field of PortInfo: setting the field to all ones
    /// changes just the bits of the component.
    #[test]
    fn components_lie_on_their_fields() {
        type Setter = fn(&mut PortInfo);
        let fields: [(u64, Setter); 10] = [
            (PortInfoRecord::M_KEY, |i| i.set_m_key(MKey(u64::MAX))),
            (PortInfoRecord::BASE_LID, |i| i.set_lid(Lid(0xFFFF))),
            (PortInfoRecord::LMC, |i| i.set_lmc(7)),
            (PortInfoRecord::HOQ_LIFE, |i| i.set_hoq_life(31)),
            (PortInfoRecord::NEIGHBOR_MTU, |i| i.set_neighbor_mtu(15)),
            (PortInfoRecord::SUBNET_TIMEOUT, |i| i.set_subnet_timeout(31)),
            (PortInfoRecord::RESP_TIME_VALUE, |i| i.set_resp_time_value(31)),
            (PortInfoRecord::OVERRUN_ERRORS, |i| i.set_overrun_errors(15)),
            (PortInfoRecord::CAPABILITY_MASK2, |i| i.set_capability_mask2(0xFFFF)),
            (PortInfoRecord::LINK_SPEED_EXT_ENABLED, |i| i.set_link_speed_ext_enabled(31)),
        ];
        for (mask, set) in fields {
            let mut info = PortInfo::default();
            set(&mut info);
            let mut record = PortInfoRecord::default();
            record.set_port_info(&info);
            let ones: u32 = record.0.iter().map(|byte| byte.count_ones()).sum();
            let field = PortInfoRecord::COMPONENTS.iter().find(|c| 1 << c.bit == mask).unwrap();
            assert_eq!(ones, u32::from(field.width), "{field:?}");
            for bit in field.offset..field.offset + field.width {
                assert_eq!(crate::wire::bits::get(&record.0, bit.into(), 1), 1, "{field:?}");
            }
        }
    }
}
