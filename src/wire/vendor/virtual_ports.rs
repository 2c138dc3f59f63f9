//! Virtual ports of a port of a channel adapter, such as those of SR-IOV functions.
//!
//! A virtual port (vport) has an index, a GUID, a P_Key table and a port state, and belongs to a virtual
//! node (vnode). Vports share the LID of the physical port unless they require one of their own.

use super::facts::{VPORT_INDEX_SHIFT, VPORT_STATES_IN_BLOCK};
use crate::ids::{Guid, Lid, PortNum};
use crate::wire::attr::PortState;
use crate::wire::bits::{Field, record};
use crate::wire::smp::DATA_SIZE;

record! {
    /// VirtualizationInfo: the vports of a physical port as a whole. The attribute modifier is 0.
    pub struct VirtualizationInfo[64] {
        /// Number of vports that the port supports.
        vport_cap, set_vport_cap: u16 = 0, 16;
        /// The highest index of a vport in use.
        top_index, set_top_index: u16 = 16, 16;
        /// The subnet manager supports vports.
        enable, set_enable: bool = 32, 1;
        /// Asks the clients of all vports to reregister.
        client_reregister, set_client_reregister: bool = 33, 1;
        /// Set by the port when the state of a vport changes; writing 1 clears it.
        state_change, set_state_change: bool = 34, 1;
        /// Revision of virtualization; subnet managers support 0.
        revision, set_revision: u8 = 48, 8;
        capabilities, set_capabilities: u8 = 56, 8;
    }
}

record! {
    /// VPortInfo: one vport. The attribute modifier is its index.
    pub struct VportInfo[64] {
        /// State of the vport; 0 in a Set changes nothing.
        state, set_state: PortState = 0, 4;
        client_reregister, set_client_reregister: bool = 4, 1;
        /// The vport needs a LID of its own.
        lid_required, set_lid_required: bool = 5, 1;
        /// Entries of the GUID table.
        guid_cap, set_guid_cap: u8 = 8, 8;
        /// CM 1, SNMP 2, device management 4, vendor 8, boot 0x10, IsSM 0x20, SM disabled 0x40.
        capability_mask, set_capability_mask: u16 = 16, 16;
        p_key_violations, set_p_key_violations: u16 = 32, 16;
        q_key_violations, set_q_key_violations: u16 = 48, 16;
        /// LID of a vport that requires one.
        lid, set_lid: Lid = 64, 16;
        /// Index of the vport whose LID this one shares.
        lid_by_vport_index, set_lid_by_vport_index: u16 = 80, 16;
        guid, set_guid: Guid = 96, 64;
        /// Profile GUID.
        profile, set_profile: Guid = 160, 64;
    }
}

record! {
    /// VNodeInfo: the vnode of a vport. The attribute modifier is the index of the vport.
    pub struct VnodeInfo[64] {
        /// Entries of the P_Key table of each vport.
        partition_cap, set_partition_cap: u16 = 0, 16;
        local_port, set_local_port: PortNum = 16, 8;
        num_ports, set_num_ports: u8 = 24, 8;
        guid, set_guid: Guid = 32, 64;
    }
}

/// VPortState: the states of consecutive vports. The attribute modifier is the number of the block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VportStates(pub [u8; DATA_SIZE]);

impl VportStates {
    /// Number of vports.
    pub const COUNT: u16 = VPORT_STATES_IN_BLOCK.value;

    /// The state of the vport with a position in the block; the low 7 bits count.
    pub fn state(&self, position: u16) -> PortState {
        let position = position % Self::COUNT;
        let byte = self.0[usize::from(position / 2)];
        let nibble = if position.is_multiple_of(2) { byte >> 4 } else { byte & 0xF };
        PortState::from_bits(nibble.into())
    }

    pub fn set_state(&mut self, position: u16, state: PortState) {
        let position = position % Self::COUNT;
        let byte = &mut self.0[usize::from(position / 2)];
        let bits = state.to_bits() as u8 & 0xF;
        *byte =
            if position.is_multiple_of(2) { *byte & 0xF | bits << 4 } else { *byte & 0xF0 | bits };
    }

    /// The block with the state of a vport.
    pub fn block(index: u16) -> u32 {
        (index / Self::COUNT).into()
    }
}

/// The attribute modifier of a block of a table of a vport: VPortGUIDInfo or VPortPKeyTable.
pub fn table_modifier(index: u16, block: u16) -> u32 {
    u32::from(index) << VPORT_INDEX_SHIFT.value | u32::from(block)
}

/// A block of a table of a vport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VportBlock {
    pub index: u16,
    pub block: u16,
}

impl VportBlock {
    /// The block that an attribute modifier names.
    pub fn of(modifier: u32) -> Self {
        let index = (modifier >> VPORT_INDEX_SHIFT.value) as u16;
        Self { index, block: modifier as u16 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes as the fields are documented: high bits first.
    #[test]
    fn fields_are_where_the_layout_says() {
        let mut info = VirtualizationInfo::default();
        info.set_vport_cap(0x0102);
        info.set_top_index(0x0304);
        info.set_enable(true);
        info.set_state_change(true);
        info.set_revision(7);
        assert_eq!(info.0[..8], [1, 2, 3, 4, 0xA0, 0, 7, 0]);
        let mut vport = VportInfo::default();
        vport.set_state(PortState::Active);
        vport.set_client_reregister(true);
        vport.set_lid_required(true);
        vport.set_guid_cap(9);
        vport.set_lid(Lid(0x1122));
        vport.set_lid_by_vport_index(0x3344);
        vport.set_guid(Guid(0x0102_0304_0506_0708));
        assert_eq!(vport.0[..4], [0x4C, 9, 0, 0]);
        assert_eq!(vport.0[8..20], [0x11, 0x22, 0x33, 0x44, 1, 2, 3, 4, 5, 6, 7, 8]);
        let mut vnode = VnodeInfo::default();
        vnode.set_partition_cap(0x80);
        vnode.set_local_port(PortNum(1));
        vnode.set_num_ports(2);
        vnode.set_guid(Guid(0xA1));
        assert_eq!(vnode.0[..12], [0, 0x80, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0xA1]);
    }

    #[test]
    fn states_are_nibbles_with_the_even_index_first() {
        let mut states = VportStates([0; DATA_SIZE]);
        states.set_state(0, PortState::Down);
        states.set_state(1, PortState::Init);
        states.set_state(127, PortState::Active);
        assert_eq!((states.0[0], states.0[63]), (0x12, 0x04));
        let read = [0, 1, 2, 127].map(|position| states.state(position));
        let expected = [PortState::Down, PortState::Init, PortState::NoChange, PortState::Active];
        assert_eq!(read, expected);
        assert_eq!([127, 128].map(VportStates::block), [0, 1]);
    }

    #[test]
    fn a_modifier_names_index_and_block() {
        assert_eq!(table_modifier(0x0102, 3), 0x0102_0003);
        assert_eq!(VportBlock::of(0x0102_0003), VportBlock { index: 0x0102, block: 3 });
    }
}
