//! ClassPortInfo as subnet administration answers it: IBA vol. 1, 13.4.8.1 and 15.2.5.1.

use super::components;
use crate::ids::{Lid, Pkey};
use crate::wire::bits::record;

record! {
    /// ClassPortInfo, IBA vol. 1, 13.4.8.1.
    pub struct ClassPortInfo[72] {
        /// Highest version of the MAD base format.
        base_version, set_base_version: u8 = 0, 8;
        /// Highest version of the class.
        class_version, set_class_version: u8 = 8, 8;
        /// Capabilities, see [`ClassCap`].
        capability_mask, set_capability_mask: u16 = 16, 16;
        /// More capabilities, 27 bits, see [`ClassCap2`].
        capability_mask2, set_capability_mask2: u32 = 32, 27;
        /// Longest time until a response: 4.096 us * 2^value.
        resp_time_value, set_resp_time_value: u8 = 59, 5;
        /// LID of the redirection; 0 if there is none.
        redirect_lid, set_redirect_lid: Lid = 224, 16;
        /// P_Key of the redirection.
        redirect_pkey, set_redirect_pkey: Pkey = 240, 16;
        /// Queue pair of the redirection, 24 bits.
        redirect_qp, set_redirect_qp: u32 = 264, 24;
        /// Q_Key of the redirection.
        redirect_qkey, set_redirect_qkey: u32 = 288, 32;
        /// LID to which traps go.
        trap_lid, set_trap_lid: Lid = 480, 16;
        /// Q_Key for traps.
        trap_qkey, set_trap_qkey: u32 = 544, 32;
    }
}

components!(ClassPortInfo, reserved [] {});

/// Bits of the capability mask (IBA vol. 1, 13.4.8.1 and 15.2.5.1).
pub struct ClassCap;

impl ClassCap {
    /// Get and Set of Notice are supported.
    pub const NOTICE: u16 = 1 << 1;
    /// The optional records are supported.
    pub const OPTIONAL_RECORDS: u16 = 1 << 8;
    /// Multicast groups for unreliable datagrams.
    pub const UD_MULTICAST: u16 = 1 << 9;
    /// MultiPathRecord and TraceRecord are supported.
    pub const MULTIPATH: u16 = 1 << 10;
    /// PortInfoRecord queries may select single bits of CapabilityMask.
    pub const PORT_INFO_CAPMASK_MATCH: u16 = 1 << 13;
}

/// Bits of the second capability mask.
pub struct ClassCap2;

impl ClassCap2 {
    /// PathRecord queries support QoS class and ServiceID.
    pub const QOS: u32 = 1 << 1;
    /// SwitchInfo's MulticastFDBTop is used.
    pub const MULTICAST_TOP: u32 = 1 << 3;
    pub const ALIAS_GUIDS: u32 = 1 << 5;
    /// PortInfoRecord contains all fields of PortInfo.
    pub const FULL_PORT_INFO: u32 = 1 << 6;
    pub const EXTENDED_SPEEDS: u32 = 1 << 7;
    /// ServiceRecords of multicast GIDs.
    pub const MULTICAST_SERVICE_RECORDS: u32 = 1 << 8;
    /// PortInfoRecord queries may select single bits of CapabilityMask2.
    pub const PORT_INFO_CAPMASK2_MATCH: u32 = 1 << 10;
    /// Send-only full members of multicast groups.
    pub const SEND_ONLY_FULL_MEMBER: u32 = 1 << 12;
    pub const LINK_WIDTH_2X: u32 = 1 << 13;
    pub const LINK_SPEED_HDR: u32 = 1 << 15;
    pub const LINK_SPEED_NDR: u32 = 1 << 17;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout() {
        let mut info = ClassPortInfo::default();
        info.set_base_version(1);
        info.set_class_version(2);
        info.set_capability_mask(ClassCap::UD_MULTICAST);
        info.set_capability_mask2(ClassCap2::QOS);
        info.set_resp_time_value(16);
        info.set_redirect_qp(1);
        info.set_redirect_qkey(0x8001_0000);
        info.set_trap_qkey(0x8001_0000);
        assert_eq!(&info.0[..8], &[1, 2, 2, 0, 0, 0, 0, 0x50]);
        assert_eq!(&info.0[32..40], &[0, 0, 0, 1, 0x80, 1, 0, 0]);
        assert_eq!(&info.0[68..], &[0x80, 1, 0, 0]);
    }
}
