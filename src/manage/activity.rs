//! The records of the activity report, with the numbers and names of NVIDIA's OpenSM.

use crate::config::options::ActivitySubjects;
use crate::ids::{Gid, Guid, Mlid, Pkey};
use crate::wire::attr::PortState;
use crate::wire::bits::Field;
use std::fmt;

/// Why a partition ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PartitionEnd {
    /// It is no longer configured.
    Empty,
    /// This SM ended, or is no longer master.
    Shutdown,
}

/// Something that the subnet manager did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SubnetActivity {
    /// A port joined a multicast group, or left it.
    MulticastMember {
        mlid: Mlid,
        mgid: Gid,
        port_guid: Guid,
        has_joined: bool,
    },
    /// A multicast group was created or deleted.
    MulticastGroup {
        mlid: Mlid,
        mgid: Gid,
        is_deleted: bool,
    },
    /// A port got a P_Key.
    PartitionGuidAdded {
        port_guid: Guid,
        pkey: Pkey,
        block: u16,
        index: u8,
    },
    PartitionCreated {
        pkey: Pkey,
        name: String,
    },
    PartitionDeleted {
        pkey: Pkey,
        reason: PartitionEnd,
    },
    /// A port with vports was discovered.
    PortVirtualizationDiscovered {
        port_guid: Guid,
        top_index: u16,
    },
    VportStateChanged {
        /// GUID of the physical port.
        port_guid: Guid,
        vport_guid: Guid,
        index: u16,
        vnode_guid: Guid,
        state: PortState,
    },
    /// The tree of a multicast LID was calculated.
    TreeCalculated(Mlid),
    RoutingSucceeded(&'static str),
    RoutingFailed(&'static str),
    UnicastCacheInvalidated,
    UnicastCacheRouted,
}

/// A field of a record.
pub type ActivityField = (&'static str, String);

impl SubnetActivity {
    /// The number of the activity.
    pub fn id(&self) -> u8 {
        match self {
            Self::MulticastMember { .. } => 1,
            Self::MulticastGroup { .. } => 2,
            Self::PartitionGuidAdded { .. } => 3,
            Self::PartitionCreated { .. } => 4,
            Self::PartitionDeleted { .. } => 5,
            Self::PortVirtualizationDiscovered { .. } => 6,
            Self::VportStateChanged { .. } => 7,
            Self::TreeCalculated(_) => 8,
            Self::RoutingSucceeded(_) => 9,
            Self::RoutingFailed(_) => 10,
            Self::UnicastCacheInvalidated => 11,
            Self::UnicastCacheRouted => 12,
        }
    }

    pub fn name(&self) -> &'static str {
        match self {
            Self::MulticastMember { .. } => "mcm_member",
            Self::MulticastGroup { .. } => "mcg_change",
            Self::PartitionGuidAdded { .. } => "prtn_guid_add",
            Self::PartitionCreated { .. } => "prtn_create",
            Self::PartitionDeleted { .. } => "prtn_delete",
            Self::PortVirtualizationDiscovered { .. } => "port_virt_discover",
            Self::VportStateChanged { .. } => "vport_state_change",
            Self::TreeCalculated(_) => "mcg_tree_calc",
            Self::RoutingSucceeded(_) => "routing_succeed",
            Self::RoutingFailed(_) => "routing_failed",
            Self::UnicastCacheInvalidated => "ucast_cache_invalidated",
            Self::UnicastCacheRouted => "ucast_cache_routing_done",
        }
    }

    /// The subjects that the activity belongs to: it is reported if one of them is.
    pub fn subjects(&self) -> ActivitySubjects {
        match self {
            Self::MulticastMember { .. } | Self::MulticastGroup { .. } => {
                ActivitySubjects::MULTICAST
            }
            Self::PartitionGuidAdded { .. }
            | Self::PartitionCreated { .. }
            | Self::PartitionDeleted { .. } => ActivitySubjects::PARTITIONS,
            Self::PortVirtualizationDiscovered { .. } | Self::VportStateChanged { .. } => {
                ActivitySubjects::VIRTUALIZATION
            }
            Self::TreeCalculated(_) => ActivitySubjects::MULTICAST.and(ActivitySubjects::ROUTING),
            Self::RoutingSucceeded(_)
            | Self::RoutingFailed(_)
            | Self::UnicastCacheInvalidated
            | Self::UnicastCacheRouted => ActivitySubjects::ROUTING,
        }
    }

    /// The fields in the order of NVIDIA's manual.
    pub fn fields(&self) -> Vec<ActivityField> {
        match self {
            Self::MulticastMember { mlid, mgid, port_guid, has_joined } => vec![
                ("mlid", mlid.to_string()),
                ("mgid", mgid.to_string()),
                ("port_guid", port_guid.to_string()),
                ("join_state", if *has_joined { "1" } else { "-1" }.to_owned()),
            ],
            Self::MulticastGroup { mlid, mgid, is_deleted } => vec![
                ("mlid", mlid.to_string()),
                ("mgid", mgid.to_string()),
                ("change", u8::from(*is_deleted).to_string()),
            ],
            Self::PartitionGuidAdded { port_guid, pkey, block, index } => vec![
                ("port_guid", port_guid.to_string()),
                ("pkey", format!("0x{:04x}", pkey.0)),
                ("block_index", block.to_string()),
                ("pkey_index", index.to_string()),
            ],
            Self::PartitionCreated { pkey, name } => {
                vec![("pkey", format!("0x{:04x}", pkey.0)), ("prtn_name", name.clone())]
            }
            Self::PartitionDeleted { pkey, reason } => {
                let reason = match reason {
                    PartitionEnd::Empty => "0",
                    PartitionEnd::Shutdown => "2",
                };
                vec![("pkey", format!("0x{:04x}", pkey.0)), ("delete_reason", reason.to_owned())]
            }
            Self::PortVirtualizationDiscovered { port_guid, top_index } => {
                vec![("port_guid", port_guid.to_string()), ("top_index", top_index.to_string())]
            }
            Self::VportStateChanged { port_guid, vport_guid, index, vnode_guid, state } => vec![
                ("port_guid", port_guid.to_string()),
                ("vport_guid", vport_guid.to_string()),
                ("vport_index", index.to_string()),
                ("vnode_guid", vnode_guid.to_string()),
                ("vport_state", state.to_bits().to_string()),
            ],
            Self::TreeCalculated(mlid) => vec![("mlid", mlid.to_string())],
            Self::RoutingSucceeded(engine) | Self::RoutingFailed(engine) => {
                vec![("routing_engine_name", (*engine).to_owned())]
            }
            Self::UnicastCacheInvalidated | Self::UnicastCacheRouted => Vec::new(),
        }
    }
}

impl fmt::Display for SubnetActivity {
    /// `ID NAME KEY=VALUE …`; names that the administrator chose are quoted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.id(), self.name())?;
        for (key, value) in self.fields() {
            match key {
                "prtn_name" => write!(f, " {key}={value:?}")?,
                _ => write!(f, " {key}={value}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_the_fields_of_the_manual_in_its_order() {
        let mgid =
            Gid([0xFF, 0x12, 0x40, 0x1B, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF]);
        let mlid = Mlid(0xC001);
        let port_guid = Guid(0x11);
        let pkey = Pkey(0x8001);
        let lines = [
            SubnetActivity::MulticastMember { mlid, mgid, port_guid, has_joined: false },
            SubnetActivity::MulticastGroup { mlid, mgid, is_deleted: true },
            SubnetActivity::PartitionGuidAdded { port_guid, pkey, block: 2, index: 31 },
            SubnetActivity::PartitionCreated { pkey, name: "a \"name\"\n".into() },
            SubnetActivity::PartitionDeleted { pkey, reason: PartitionEnd::Shutdown },
            SubnetActivity::TreeCalculated(mlid),
            SubnetActivity::RoutingSucceeded("updn"),
            SubnetActivity::RoutingFailed("ftree"),
            SubnetActivity::UnicastCacheInvalidated,
            SubnetActivity::UnicastCacheRouted,
        ]
        .map(|activity| activity.to_string());
        let expected = [
            "1 mcm_member mlid=0xc001 mgid=ff12:401b:ffff::ffff:ffff port_guid=0x0000000000000011 \
             join_state=-1",
            "2 mcg_change mlid=0xc001 mgid=ff12:401b:ffff::ffff:ffff change=1",
            "3 prtn_guid_add port_guid=0x0000000000000011 pkey=0x8001 block_index=2 pkey_index=31",
            "4 prtn_create pkey=0x8001 prtn_name=\"a \\\"name\\\"\\n\"",
            "5 prtn_delete pkey=0x8001 delete_reason=2",
            "8 mcg_tree_calc mlid=0xc001",
            "9 routing_succeed routing_engine_name=updn",
            "10 routing_failed routing_engine_name=ftree",
            "11 ucast_cache_invalidated",
            "12 ucast_cache_routing_done",
        ];
        assert_eq!(lines, expected);
    }
}
