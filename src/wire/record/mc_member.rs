//! MCMemberRecord: IBA vol. 1, 15.2.5.17.

use super::{Selector, components};
use crate::ids::{Gid, Mlid, Pkey, Sl};
use crate::wire::bits::{Field, record};
use std::fmt;

record! {
    /// MCMemberRecord, IBA vol. 1, 15.2.5.17: a multicast group, or the membership of a port.
    pub struct McMemberRecord[56] {
        /// Q_Key of the group.
        qkey, set_qkey: u32 = 256, 32;
        /// LID of the group.
        mlid, set_mlid: Mlid = 288, 16;
        /// Comparison with [`Self::mtu`].
        mtu_selector, set_mtu_selector: Selector = 304, 2;
        /// MTU code of the group.
        mtu, set_mtu: u8 = 306, 6;
        traffic_class, set_traffic_class: u8 = 312, 8;
        /// Partition of the group.
        pkey, set_pkey: Pkey = 320, 16;
        /// Comparison with [`Self::rate`].
        rate_selector, set_rate_selector: Selector = 336, 2;
        /// Rate code of the group.
        rate, set_rate: u8 = 338, 6;
        /// Comparison with [`Self::packet_life`].
        packet_life_selector, set_packet_life_selector: Selector = 344, 2;
        /// Packet lifetime: 4.096 us * 2^value.
        packet_life, set_packet_life: u8 = 346, 6;
        /// Service level of the group.
        sl, set_sl: Sl = 352, 4;
        flow_label, set_flow_label: u32 = 356, 20;
        hop_limit, set_hop_limit: u8 = 376, 8;
        /// Scope of the group: 2 link-local, 5 site, 8 organization, 14 global.
        scope, set_scope: u8 = 384, 4;
        /// Join states of the port.
        join_state, set_join_state: JoinState = 388, 4;
        /// True if another port sent the join.
        proxy_join, set_proxy_join: bool = 392, 1;
    }
}

components!(McMemberRecord, reserved [] {
    MGID = 0: 0, 128;
    PORT_GID = 1: 128, 128;
    QKEY = 2: 256, 32;
    MLID = 3: 288, 16;
    MTU_SELECTOR = 4: 304, 2;
    MTU = 5: 306, 6;
    TRAFFIC_CLASS = 6: 312, 8;
    PKEY = 7: 320, 16;
    RATE_SELECTOR = 8: 336, 2;
    RATE = 9: 338, 6;
    PACKET_LIFE_SELECTOR = 10: 344, 2;
    PACKET_LIFE = 11: 346, 6;
    SL = 12: 352, 4;
    FLOW_LABEL = 13: 356, 20;
    HOP_LIMIT = 14: 376, 8;
    SCOPE = 15: 384, 4;
    JOIN_STATE = 16: 388, 4;
    PROXY_JOIN = 17: 392, 1;
});

impl McMemberRecord {
    pub fn mgid(&self) -> Gid {
        Gid(std::array::from_fn(|i| self.0[i]))
    }

    pub fn set_mgid(&mut self, gid: Gid) {
        self.0[..16].copy_from_slice(&gid.0);
    }

    /// GID of the member.
    pub fn port_gid(&self) -> Gid {
        Gid(std::array::from_fn(|i| self.0[16 + i]))
    }

    pub fn set_port_gid(&mut self, gid: Gid) {
        self.0[16..32].copy_from_slice(&gid.0);
    }
}

/// JoinState: a set of membership types (IBA vol. 1, 15.2.5.17).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct JoinState(pub u8);

impl JoinState {
    /// Full member: receives and sends, and keeps the group alive.
    pub const FULL: Self = Self(1);
    /// Non-member: receives and sends.
    pub const NON: Self = Self(2);
    /// Send-only non-member.
    pub const SEND_ONLY: Self = Self(4);
    /// Send-only full member: sends, and keeps the group alive.
    pub const SEND_ONLY_FULL: Self = Self(8);

    /// True if the two sets intersect.
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// True if `other` is a subset.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The union.
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The set difference.
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// True without any membership type.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True for members that receive the packets of the group.
    pub fn receives(self) -> bool {
        self.intersects(Self::FULL.with(Self::NON))
    }

    /// True for full members, which keep the group alive.
    pub fn keeps_group(self) -> bool {
        self.intersects(Self::FULL.with(Self::SEND_ONLY_FULL))
    }
}

impl Field for JoinState {
    fn from_bits(bits: u64) -> Self {
        Self(bits as u8 & 0xF)
    }

    fn to_bits(self) -> u64 {
        u64::from(self.0 & 0xF)
    }
}

impl fmt::Debug for JoinState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout() {
        let mut member = McMemberRecord::default();
        member.set_mgid(Gid([0xFF; 16]));
        member.set_port_gid(Gid([0x11; 16]));
        member.set_qkey(0x0b1b);
        member.set_mlid(Mlid(0xC000));
        member.set_mtu_selector(Selector::Exactly);
        member.set_mtu(4);
        member.set_traffic_class(1);
        member.set_pkey(Pkey(0xFFFF));
        member.set_rate_selector(Selector::Exactly);
        member.set_rate(3);
        member.set_packet_life_selector(Selector::Exactly);
        member.set_packet_life(18);
        member.set_sl(Sl(3));
        member.set_flow_label(0x12345);
        member.set_hop_limit(9);
        member.set_scope(2);
        member.set_join_state(JoinState::FULL);
        member.set_proxy_join(true);
        assert_eq!((member.0[15], member.0[16], member.0[31]), (0xFF, 0x11, 0x11));
        assert_eq!(&member.0[32..40], &[0, 0, 0x0b, 0x1b, 0xC0, 0, 0x84, 1]);
        assert_eq!(&member.0[40..44], &[0xFF, 0xFF, 0x83, 0x92]);
        assert_eq!(&member.0[44..52], &[0x31, 0x23, 0x45, 9, 0x21, 0x80, 0, 0]);
    }

    #[test]
    fn join_states_are_sets() {
        let both = JoinState::FULL.with(JoinState::NON);
        assert!(both.contains(JoinState::NON) && !both.contains(JoinState(5)));
        assert_eq!(both.without(JoinState::FULL), JoinState::NON);
        assert!(JoinState::SEND_ONLY_FULL.keeps_group() && !JoinState::SEND_ONLY.keeps_group());
    }
}
