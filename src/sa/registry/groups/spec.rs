//! Parameters of a multicast group.

use crate::ids::{Gid, Pkey, Sl};
use crate::plan::partitions::PermanentGroup;

/// Parameters of a multicast group, as codes of MCMemberRecord (IBA vol. 1, 15.2.5.17).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupSpec {
    /// 0 in a request to create a group with an MGID assigned by the registry.
    pub mgid: Gid,
    pub qkey: u32,
    /// MTU code, 1..=5.
    pub mtu: u8,
    pub rate: u8,
    /// Packet lifetime code: 4.096 us * 2^value.
    pub packet_life: u8,
    pub pkey: Pkey,
    pub sl: Sl,
    pub traffic_class: u8,
    /// 20 bits.
    pub flow_label: u32,
    pub hop_limit: u8,
    /// Scope: 2 link-local, 5 site-local, 8 organisation-local, 14 global.
    pub scope: u8,
}

/// Scope of groups whose packets stay in the subnet.
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
