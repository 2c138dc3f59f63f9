//! Notice, the data of a trap: IBA vol. 1, 13.4.8.2 and 14.2.5.1.

use crate::ids::{Gid, Guid, Lid, MKey, PortNum};
use crate::wire::bits::record;

record! {
    /// Notice, IBA vol. 1, 13.4.8.2. In SMPs the first 64 bytes; subnet administration
    /// appends the issuer's GID.
    pub struct Notice[80] {
        /// True for notices defined by the specification, false for those of a vendor.
        is_generic, set_is_generic: bool = 0, 1;
        /// 0 fatal, 1 urgent, 2 security, 3 subnet management, 4 informational, 0x7F empty.
        notice_type, set_notice_type: u8 = 1, 7;
        /// Kind of node that sent it (1 CA, 2 switch, 3 router, 4 class manager), or a vendor ID.
        producer_type, set_producer_type: u32 = 8, 24;
        /// Trap number, see [`TrapNumber`], or a device identifier.
        trap_number, set_trap_number: u16 = 32, 16;
        issuer_lid, set_issuer_lid: Lid = 48, 16;
        /// NoticeToggle of the device's queue.
        toggle, set_toggle: bool = 64, 1;
        /// Number of notices in the device's queue.
        count, set_count: u16 = 65, 15;
        /// Trap 128: the LID of the switch whose link changed.
        link_state_lid, set_link_state_lid: Lid = 80, 16;
        /// Traps 129..=131, 144, 145: the LID of the port or node concerned. Trap 256: the LID of
        /// the requester.
        subject_lid, set_subject_lid: Lid = 96, 16;
        /// Traps 129..=131: the port concerned.
        port, set_port: PortNum = 112, 8;
        /// Trap 144: OtherLocalChanges: the change flags are valid.
        other_local_changes, set_other_local_changes: bool = 127, 1;
        /// Trap 144: CapabilityMask of PortInfo after the change.
        capability_mask, set_capability_mask: u32 = 128, 32;
        /// Trap 144: what changed, see [`ChangeFlag`].
        change_flags, set_change_flags: u16 = 160, 16;
        /// Trap 144: CapabilityMask2 after the change.
        capability_mask2, set_capability_mask2: u16 = 176, 16;
        /// Trap 145: SystemImageGUID after the change.
        system_guid, set_system_guid: Guid = 128, 64;
        /// Trap 256: DrSLID of the refused request.
        dr_slid, set_dr_slid: Lid = 112, 16;
        /// Trap 256: method of the refused request.
        method, set_method: u8 = 128, 8;
        /// Traps 257 and 258: the LID of the destination; [`Notice::subject_lid`] is the source.
        destination_lid, set_destination_lid: Lid = 112, 16;
        /// Traps 257 and 258: the wrong P_Key or Q_Key.
        bad_key, set_bad_key: u32 = 128, 32;
        /// Traps 257 and 258: SL, source and destination QP of the packet.
        bad_key_sl, set_bad_key_sl: u8 = 160, 4;
        source_qp, set_source_qp: u32 = 168, 24;
        destination_qp, set_destination_qp: u32 = 200, 24;
        /// Vendor-specific traps of virtual ports: the number of the trap.
        vendor_trap_number, set_vendor_trap_number: u16 = 496, 16;
        /// Trap 1144: the index of the virtual port.
        vport_index, set_vport_index: u16 = 176, 16;
        /// Traps 1257 and 1258: the index of the virtual port.
        bad_key_vport_index, set_bad_key_vport_index: u16 = 480, 16;
        /// Trap 259: which of its fields are valid.
        data_valid, set_data_valid: u16 = 80, 16;
        /// Trap 259: P_Key, SL, source and destination QP of the packet.
        switch_p_key, set_switch_p_key: u16 = 128, 16;
        switch_sl, set_switch_sl: u8 = 144, 4;
        switch_source_qp, set_switch_source_qp: u32 = 152, 24;
        switch_destination_qp, set_switch_destination_qp: u32 = 184, 24;
        /// Trap 259: the port that the packet came to.
        switch_port, set_switch_port: PortNum = 480, 8;
        /// Trap 256: attribute of the refused request.
        attr_id, set_attr_id: u16 = 144, 16;
        /// Trap 256: attribute modifier of the refused request.
        attr_mod, set_attr_mod: u32 = 160, 32;
        /// Trap 256: the wrong M_Key of the refused request.
        m_key, set_m_key: MKey = 192, 64;
        /// Trap 256: the request had a directed route.
        is_directed, set_is_directed: bool = 264, 1;
        /// Trap 256: the return path is longer than its field.
        is_path_truncated, set_is_path_truncated: bool = 265, 1;
        /// Trap 256: number of valid entries of [`Notice::return_path`].
        hop_count, set_hop_count: u8 = 266, 6;
    }
}

/// Bits of [`Notice::change_flags`] (IBA vol. 1, 14.2.5.1).
pub struct ChangeFlag;

impl ChangeFlag {
    pub const NODE_DESCRIPTION: u16 = 1;
    pub const LINK_WIDTH_ENABLED: u16 = 1 << 1;
    pub const LINK_SPEED_ENABLED: u16 = 1 << 2;
    pub const SM_PRIORITY: u16 = 1 << 3;
    pub const HIERARCHY_INFO: u16 = 1 << 4;
    pub const CAPABILITY_MASK2: u16 = 1 << 5;
}

/// Trap numbers of subnet management (IBA vol. 1, 14.2.5.1).
pub struct TrapNumber;

impl TrapNumber {
    /// A GID is now in service.
    pub const GID_IN: u16 = 64;
    /// A GID is out of service.
    pub const GID_OUT: u16 = 65;
    /// A multicast group was created.
    pub const MCAST_CREATED: u16 = 66;
    /// A multicast group was deleted.
    pub const MCAST_DELETED: u16 = 67;
    /// The state of a link of a switch changed.
    pub const LINK_STATE: u16 = 128;
    /// Local link integrity threshold reached.
    pub const LINK_INTEGRITY: u16 = 129;
    /// Excessive buffer overruns.
    pub const BUFFER_OVERRUN: u16 = 130;
    /// Flow control watchdog expired.
    pub const FLOW_CONTROL: u16 = 131;
    /// Capability mask, node description or other local setting changed.
    pub const LOCAL_CHANGES: u16 = 144;
    /// System image GUID changed.
    pub const SYSTEM_GUID: u16 = 145;
    pub const BAD_M_KEY: u16 = 256;
    pub const BAD_P_KEY: u16 = 257;
    pub const BAD_Q_KEY: u16 = 258;
    /// Bad P_Key seen by a switch's external port.
    pub const SWITCH_BAD_P_KEY: u16 = 259;
}

/// Byte offset of the return path of trap 256, and its maximum length.
const RETURN_PATH: usize = 34;
const MAX_RETURN_PATH: usize = 30;

impl Notice {
    /// Trap 256 about a request with a directed route: the ports by which the nodes on its way
    /// received it, the first hop first. Empty if the path is truncated or invalid.
    pub fn return_path(&self) -> &[u8] {
        let hops = usize::from(self.hop_count());
        let is_whole = self.is_directed() && !self.is_path_truncated() && hops <= MAX_RETURN_PATH;
        &self.0[RETURN_PATH..RETURN_PATH + if is_whole { hops } else { 0 }]
    }

    /// Sets the fields of [`Self::return_path`].
    pub fn set_return_path(&mut self, path: &[u8]) {
        let hops = path.len().min(MAX_RETURN_PATH);
        self.set_is_directed(true);
        self.set_is_path_truncated(hops < path.len());
        self.set_hop_count(hops as u8);
        self.0[RETURN_PATH..RETURN_PATH + hops].copy_from_slice(&path[..hops]);
    }

    /// IssuerGID, which the SA appends.
    pub fn issuer_gid(&self) -> Gid {
        Gid(self.0[64..].try_into().expect("16 of 80 bytes"))
    }

    /// Traps 257..=259: GIDs of source and destination of the packet.
    pub fn packet_gids(&self) -> [Gid; 2] {
        let is_from_switch = self.trap_number() == TrapNumber::SWITCH_BAD_P_KEY;
        let start = if is_from_switch { 26 } else { 28 };
        [start, start + 16].map(|at| Gid(self.0[at..at + 16].try_into().expect("16 of 80 bytes")))
    }

    /// Traps 64..=67: the GID of the port or group.
    pub fn subject_gid(&self) -> Gid {
        Gid(self.0[16..32].try_into().expect("16 of 80 bytes"))
    }

    pub fn set_subject_gid(&mut self, gid: Gid) {
        self.0[16..32].copy_from_slice(&gid.0);
    }

    pub fn set_issuer_gid(&mut self, gid: Gid) {
        self.0[64..].copy_from_slice(&gid.0);
    }
}
