//! What a multicast group is, apart from its MLID and members.

use crate::ids::{Gid, Pkey, Sl};
use crate::plan::partitions::PermanentGroup;

/// What a group is, apart from its MLID and members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupSpec {
    /// Name of the group; 0 lets the registry choose one.
    pub mgid: Gid,
    /// Q_Key.
    pub qkey: u32,
    /// MTU code, 1..=5.
    pub mtu: u8,
    /// Rate code.
    pub rate: u8,
    /// Packet life: 4.096 us * 2^value.
    pub packet_life: u8,
    /// Partition.
    pub pkey: Pkey,
    /// Service level.
    pub sl: Sl,
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Scope, 2 for link-local.
    pub scope: u8,
}

/// Scope of groups that do not leave the link.
pub(crate) const LINK_LOCAL_SCOPE: u8 = 2;

impl From<&PermanentGroup> for GroupSpec {
    fn from(group: &PermanentGroup) -> Self {
        Self {
            mgid: group.mgid,
            qkey: group.q_key,
            mtu: group.mtu,
            rate: group.rate,
            packet_life: group.packet_life,
            pkey: group.pkey,
            sl: group.sl,
            traffic_class: group.tclass,
            flow_label: group.flow_label,
            hop_limit: group.hop_limit,
            scope: group.scope,
        }
    }
}

/// ff1S:401b:PPPP::ffff:ffff: the IPv4 broadcast group of IPoIB (RFC 4391, 4).
pub(crate) fn broadcast_mgid(scope: u8, pkey: Pkey) -> Gid {
    let mut raw = [0; 16];
    raw[..4].copy_from_slice(&[0xFF, 0x10 | scope & 0xF, 0x40, 0x1B]);
    raw[4..6].copy_from_slice(&pkey.0.to_be_bytes());
    raw[12..].fill(0xFF);
    Gid(raw)
}
