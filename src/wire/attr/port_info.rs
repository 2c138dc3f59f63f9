//! PortInfo: IBA vol. 1, 14.2.5.6.

use crate::ids::{Lid, MKey, PortNum, Sl};
use crate::wire::bits::{Field, record};
use crate::wire::vendor::facts;
use std::fmt;

record! {
    /// PortInfo, IBA vol. 1, 14.2.5.6. Coded fields are not decoded: an MTU of 4 means 2048 bytes.
    pub struct PortInfo[64] {
        m_key, set_m_key: MKey = 0, 64;
        gid_prefix, set_gid_prefix: u64 = 64, 64;
        lid, set_lid: Lid = 128, 16;
        /// LID of the master SM.
        master_sm_lid, set_master_sm_lid: Lid = 144, 16;
        /// Capabilities, see [`CapMask`].
        capability_mask, set_capability_mask: u32 = 160, 32;
        diag_code, set_diag_code: u16 = 192, 16;
        /// M_Key lease period, seconds.
        m_key_lease_period, set_m_key_lease_period: u16 = 208, 16;
        /// The port through which the request arrived.
        local_port, set_local_port: PortNum = 224, 8;
        /// Enabled link widths, a mask; 255 sets all supported.
        link_width_enabled, set_link_width_enabled: u8 = 232, 8;
        /// Supported link widths, a mask.
        link_width_supported, set_link_width_supported: u8 = 240, 8;
        /// Width in use, see [`LinkWidth`].
        link_width_active, set_link_width_active: u8 = 248, 8;
        /// Supported link speeds, a mask: 1 SDR, 2 DDR, 4 QDR.
        link_speed_supported, set_link_speed_supported: u8 = 256, 4;
        /// Logical state; a Set with [`PortState::NoChange`] leaves it.
        port_state, set_port_state: PortState = 260, 4;
        phys_state, set_phys_state: PhysState = 264, 4;
        /// Default state of a port without a link: 1 sleep, 2 polling.
        link_down_default_state, set_link_down_default_state: u8 = 268, 4;
        /// M_Key protection level, 0..=3.
        m_key_protect_bits, set_m_key_protect_bits: u8 = 272, 2;
        /// LID mask control: 2^LMC LIDs belong to the port.
        lmc, set_lmc: u8 = 277, 3;
        /// Speed in use (1 SDR, 2 DDR, 4 QDR), unless an extended speed is active.
        link_speed_active, set_link_speed_active: u8 = 280, 4;
        /// Enabled speeds, a mask; 15 sets all supported.
        link_speed_enabled, set_link_speed_enabled: u8 = 284, 4;
        /// MTU of the link, code 1 (256) to 5 (4096).
        neighbor_mtu, set_neighbor_mtu: u8 = 288, 4;
        /// SL for reaching the master SM.
        master_sm_sl, set_master_sm_sl: Sl = 292, 4;
        /// Supported VLs: 1 VL0, 2 VL0-1, 3 VL0-3, 4 VL0-7, 5 VL0-14.
        vl_cap, set_vl_cap: u8 = 296, 4;
        /// Requested type of initialization.
        init_type, set_init_type: u8 = 300, 4;
        /// Limit of high-priority arbitration.
        vl_high_limit, set_vl_high_limit: u8 = 304, 8;
        /// Entries of the high-priority VL arbitration table.
        vl_arb_high_cap, set_vl_arb_high_cap: u8 = 312, 8;
        /// Entries of the low-priority VL arbitration table.
        vl_arb_low_cap, set_vl_arb_low_cap: u8 = 320, 8;
        /// Type of initialization performed.
        init_type_reply, set_init_type_reply: u8 = 328, 4;
        /// Largest MTU supported, a code.
        mtu_cap, set_mtu_cap: u8 = 332, 4;
        /// Number of packets dropped in sequence after which a VL becomes VLStalled.
        vl_stall_count, set_vl_stall_count: u8 = 336, 3;
        /// Head-of-queue lifetime: 4.096 us * 2^code.
        hoq_life, set_hoq_life: u8 = 339, 5;
        /// VLs in use, a code as of [`Self::vl_cap`].
        operational_vls, set_operational_vls: u8 = 344, 4;
        /// P_Key check of inbound packets.
        partition_enforcement_in, set_partition_enforcement_in: bool = 348, 1;
        /// P_Key check of outbound packets.
        partition_enforcement_out, set_partition_enforcement_out: bool = 349, 1;
        /// Inbound raw packets are dropped.
        filter_raw_in, set_filter_raw_in: bool = 350, 1;
        /// Outbound raw packets are dropped.
        filter_raw_out, set_filter_raw_out: bool = 351, 1;
        m_key_violations, set_m_key_violations: u16 = 352, 16;
        p_key_violations, set_p_key_violations: u16 = 368, 16;
        q_key_violations, set_q_key_violations: u16 = 384, 16;
        /// Number of entries of the GUID table.
        guid_cap, set_guid_cap: u8 = 400, 8;
        /// ClientReregister: asks the clients of the host to register again.
        client_reregister, set_client_reregister: bool = 408, 1;
        /// Suppression of multicast P_Key traps.
        mcast_pkey_trap_suppression, set_mcast_pkey_trap_suppression: u8 = 409, 2;
        /// Subnet timeout: 4.096 us * 2^code.
        subnet_timeout, set_subnet_timeout: u8 = 411, 5;
        /// Response time: 4.096 us * 2^code.
        resp_time_value, set_resp_time_value: u8 = 419, 5;
        local_phy_errors, set_local_phy_errors: u8 = 424, 4;
        overrun_errors, set_overrun_errors: u8 = 428, 4;
        /// Hint for the largest credit.
        max_credit_hint, set_max_credit_hint: u16 = 432, 16;
        /// Extended speed of a second set in use: 2 XDR, 0 none.
        link_speed_ext_active2, set_link_speed_ext_active2: u8 = 448, 4;
        /// Extended speeds of the second set supported, a mask.
        link_speed_ext_supported2, set_link_speed_ext_supported2: u8 = 452, 4;
        /// Round trip latency of the link.
        link_round_trip_latency, set_link_round_trip_latency: u32 = 456, 24;
        capability_mask2, set_capability_mask2: u16 = 480, 16;
        /// Extended speed in use: 0 none, 1 FDR, 2 EDR, 4 HDR, 8 NDR.
        link_speed_ext_active, set_link_speed_ext_active: u8 = 496, 4;
        /// Extended speeds supported, a mask.
        link_speed_ext_supported, set_link_speed_ext_supported: u8 = 500, 4;
        /// Extended speeds enabled, a mask; 31 sets all supported.
        link_speed_ext_enabled, set_link_speed_ext_enabled: u8 = 507, 5;
    }
}

/// Bits of the capability mask.
pub struct CapMask;

impl CapMask {
    /// The port's node runs a subnet manager.
    pub const IS_SM: u32 = 1 << 1;
    /// The device sends traps.
    pub const TRAPS: u32 = 1 << 3;
    /// The device keeps an SL to VL mapping.
    pub const SL_MAPPING: u32 = 1 << 6;
    /// No subnet manager shall run at the port.
    pub const SM_DISABLED: u32 = 1 << 10;
    /// Extended link speeds are supported.
    pub const EXTENDED_SPEEDS: u32 = 1 << 14;
    /// The second capability mask is valid.
    pub const CAP_MASK2: u32 = 1 << 15;
    /// The device sends trap 144 when its capability mask changes.
    pub const CAP_MASK_NOTICE: u32 = 1 << 22;
    /// Client reregistration is supported.
    pub const CLIENT_REREGISTER: u32 = 1 << 25;
}

/// Bits of the second capability mask (IBA vol. 1, 14.2.5.6).
pub struct CapMask2;

impl CapMask2 {
    /// The port may have virtual ports (VirtualizationInfo of Mellanox).
    pub const VIRTUALIZATION: u16 = facts::CAP_MASK2_VIRTUALIZATION.value;
    pub const LINK_WIDTH_2X: u16 = 1 << 4;
    pub const LINK_SPEED_HDR: u16 = 1 << 5;
    pub const LINK_SPEED_NDR: u16 = 1 << 10;
    /// The second set of extended speeds is supported.
    pub const EXTENDED_SPEEDS2: u16 = 1 << 11;
    pub const LINK_SPEED_XDR: u16 = 1 << 12;
}

/// Logical port states (IBA vol. 1, 7.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum PortState {
    /// No change, in a SubnSet.
    NoChange,
    Down,
    /// The link is trained; only VL15 passes.
    Init,
    /// Data packets are received, but not sent.
    Armed,
    /// Data packets are sent and received.
    Active,
    /// An undefined code.
    Unknown(u8),
}

impl Field for PortState {
    fn from_bits(bits: u64) -> Self {
        match bits as u8 {
            0 => Self::NoChange,
            1 => Self::Down,
            2 => Self::Init,
            3 => Self::Armed,
            4 => Self::Active,
            other => Self::Unknown(other),
        }
    }

    fn to_bits(self) -> u64 {
        match self {
            Self::NoChange => 0,
            Self::Down => 1,
            Self::Init => 2,
            Self::Armed => 3,
            Self::Active => 4,
            Self::Unknown(other) => other.into(),
        }
    }
}

impl fmt::Display for PortState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::NoChange => "no change",
            Self::Down => "DOWN",
            Self::Init => "INIT",
            Self::Armed => "ARMED",
            Self::Active => "ACTIVE",
            Self::Unknown(_) => "unknown",
        })
    }
}

/// Physical port states (IBA vol. 1, 14.2.5.6).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PhysState {
    /// No change, in a SubnSet.
    NoChange,
    Sleep,
    /// Polling for a peer.
    Polling,
    /// Disabled by management.
    Disabled,
    /// Training the link.
    Training,
    LinkUp,
    /// Recovering from errors.
    Recovery,
    /// An undefined code.
    Unknown(u8),
}

impl Field for PhysState {
    fn from_bits(bits: u64) -> Self {
        match bits as u8 {
            0 => Self::NoChange,
            1 => Self::Sleep,
            2 => Self::Polling,
            3 => Self::Disabled,
            4 => Self::Training,
            5 => Self::LinkUp,
            6 => Self::Recovery,
            other => Self::Unknown(other),
        }
    }

    fn to_bits(self) -> u64 {
        match self {
            Self::NoChange => 0,
            Self::Sleep => 1,
            Self::Polling => 2,
            Self::Disabled => 3,
            Self::Training => 4,
            Self::LinkUp => 5,
            Self::Recovery => 6,
            Self::Unknown(other) => other.into(),
        }
    }
}

/// Codes of the link width fields, one bit each.
pub struct LinkWidth;

impl LinkWidth {
    pub const X1: u8 = 1;
    pub const X4: u8 = 2;
    pub const X8: u8 = 4;
    pub const X12: u8 = 8;
    pub const X2: u8 = 16;
}

impl PortInfo {
    /// True if all capabilities of `mask`, see [`CapMask`], are supported.
    /// True for a port with a link that announces vports (VirtualizationInfo of Mellanox).
    pub fn has_virtual_ports(&self) -> bool {
        self.has(CapMask::CAP_MASK2)
            && self.capability_mask2() & CapMask2::VIRTUALIZATION != 0
            && self.port_state() != PortState::Down
    }

    pub fn has(&self, mask: u32) -> bool {
        self.capability_mask() & mask == mask
    }

    /// Number of data VLs that a VL code stands for: 1, 2, 4, 8 or 15; 0 for other codes.
    pub fn data_vls(code: u8) -> u8 {
        match code {
            1..=4 => 1 << (code - 1),
            5 => 15,
            _ => 0,
        }
    }

    /// The rate code of the link in use (IBA vol. 1, 15.2.5.16, PathRecord Rate): 2 = 2.5 Gb/s,
    /// 3 = 10, 6 = 20, 7 = 40, 16 = 100 …; 2 if the fields are invalid.
    pub fn rate_code(&self) -> u8 {
        let width = match self.link_width_active() {
            LinkWidth::X1 => 0,
            LinkWidth::X2 => 1,
            LinkWidth::X4 => 2,
            LinkWidth::X8 => 3,
            LinkWidth::X12 => 4,
            _ => return 2,
        };
        let extended =
            if self.has(CapMask::EXTENDED_SPEEDS) { self.link_speed_ext_active() } else { 0 };
        let is_xdr = self.has(CapMask::EXTENDED_SPEEDS) && self.link_speed_ext_active2() == 2;
        let row: [u8; 5] = match (extended, self.link_speed_active()) {
            _ if is_xdr => [17, 21, 23, 24, 24], // XDR: 200 400 800, at least 1200
            (8, _) => [16, 17, 21, 23, 24],      // NDR: 100 200 400 800 1200
            (4, _) => [20, 16, 17, 21, 22],      // HDR: 50 100 200 400 600
            (2, _) => [15, 20, 16, 17, 18],      // EDR: 25 50 100 200 300
            (1, _) => [11, 19, 12, 13, 14],      // FDR: 14 28 56 112 168
            (_, 4) => [3, 6, 7, 9, 10],          // QDR: 10 20 40 80 120
            (_, 2) => [5, 3, 6, 7, 8],           // DDR: 5 10 20 40 60
            _ => [2, 5, 3, 6, 4],                // SDR: 2.5 5 10 20 30
        };
        row[width]
    }
}
