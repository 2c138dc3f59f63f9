//! The content of a changed registration, as it is sent.

use crate::ids::{Gid, Guid, Lid, Mlid, Pkey, Sl};
use crate::sa::rates::{mtu_is_valid, rate_rank};
use crate::sa::registry::Registry;
use crate::sa::registry::change_log::EntryKey;
use crate::sa::registry::groups::{Group, GroupMember, GroupSpec};
use crate::sa::registry::subscriptions::Subscription;
use crate::transport::Address;
use crate::wire::attr::tables::GUID_BLOCK;
use crate::wire::record::{InformInfo, JoinState, McMemberRecord, Record, ServiceRecord};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Instant;

/// A registration that was made, changed or, without content, removed. Kinds that this version does
/// not know are ignored. It has no `Debug`, because it contains keys of services.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Change {
    /// A block of alias GUIDs.
    Aliases {
        port: u64,
        block: u8,
        content: Option<AliasContent>,
    },
    Group {
        mgid: Halves,
        content: Option<GroupContent>,
    },
    Member {
        mgid: Halves,
        guid: u64,
        content: Option<MemberContent>,
    },
    Service {
        id: u64,
        gid: Halves,
        pkey: u16,
        content: Option<ServiceContent>,
    },
    /// All subscriptions of a port.
    Subscriptions {
        port: u64,
        content: Vec<SubscriptionContent>,
    },
    #[serde(other)]
    Unknown,
}

/// The halves of a GID.
type Halves = [u64; 2];

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AliasContent {
    lid: u16,
    guids: [u64; GUID_BLOCK],
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupContent {
    /// MCMemberRecord without member.
    record: Vec<u8>,
    creator: u64,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberContent {
    port: u64,
    state: u8,
    proxy: bool,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceContent {
    /// ServiceRecord with the lease of its registration.
    record: Vec<u8>,
    owner: Option<u64>,
    /// Remaining seconds; 0xFFFFFFFF is an indefinite lease.
    remaining: u32,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubscriptionContent {
    prefix: u64,
    number: u16,
    /// InformInfo.
    info: Vec<u8>,
    lid: u16,
    qpn: u32,
    qkey: u32,
    sl: u8,
    path_bits: u8,
    pkey_index: u16,
    trusted: bool,
}

fn halves(gid: Gid) -> Halves {
    [gid.prefix(), gid.guid().0]
}

fn gid([prefix, guid]: Halves) -> Gid {
    Gid::new(prefix, Guid(guid))
}

impl Change {
    /// The present content of a registration.
    pub(super) fn of(registry: &Registry, key: EntryKey, now: Instant) -> Self {
        match key {
            EntryKey::Aliases(port, block) => {
                let content = registry.aliases.content(port, block);
                let content = content.map(|(lid, guids)| AliasContent {
                    lid: lid.0,
                    guids: guids.map(|guid| guid.0),
                });
                Self::Aliases { port: port.0, block, content }
            }
            EntryKey::Group(mgid) => {
                let content = registry.multicast.get(&mgid).map(|group| GroupContent {
                    record: group.record().bytes().to_vec(),
                    creator: group.creator.0,
                });
                Self::Group { mgid: halves(mgid), content }
            }
            EntryKey::Member(mgid, guid) => {
                let group = registry.multicast.get(&mgid);
                let member = group.and_then(|group| group.members.get(&guid));
                let content = member.map(|member| MemberContent {
                    port: member.port.0,
                    state: member.state.0,
                    proxy: member.proxy,
                });
                Self::Member { mgid: halves(mgid), guid: guid.0, content }
            }
            EntryKey::Service(rid) => {
                let (id, gid, pkey) = rid;
                let content = registry.services.get(&rid).map(|service| ServiceContent {
                    record: service.registered().bytes().to_vec(),
                    owner: service.owner().map(|owner| owner.0),
                    remaining: service.remaining_lease(now),
                });
                Self::Service { id, gid: halves(gid), pkey: pkey.0, content }
            }
            EntryKey::Subscriptions(port) => {
                let content = registry.subscriptions.of_port(port).iter().map(subscription_content);
                Self::Subscriptions { port: port.0, content: content.collect() }
            }
        }
    }

    /// Takes over a change. Content that no registration can have is ignored.
    pub(super) fn apply(self, registry: &mut Registry, now: Instant) {
        match self {
            Self::Aliases { port, block, content } => match content {
                Some(AliasContent { lid, guids }) => {
                    registry.aliases.restore(Guid(port), block, Lid(lid), guids.map(Guid));
                }
                None => registry.aliases.remove_block(Guid(port), block),
            },
            Self::Group { mgid, content } => match content {
                Some(content) => {
                    if let Some(group) = group(gid(mgid), &content) {
                        registry.multicast.put(group);
                    }
                }
                None => registry.multicast.remove_replica(&gid(mgid)),
            },
            Self::Member { mgid, guid, content } => {
                let member = content.and_then(|content| member(&content));
                registry.multicast.put_member(&gid(mgid), Guid(guid), member);
            }
            Self::Service { id, gid: halves, pkey, content } => {
                let rid = (id, gid(halves), Pkey(pkey));
                match content {
                    Some(ServiceContent { record, owner, remaining }) if remaining > 0 => {
                        let record = ServiceRecord::parse(&record);
                        registry.services.put(record, owner.map(Guid), remaining, now);
                    }
                    _ => {
                        registry.services.delete(&rid, now);
                    }
                }
            }
            Self::Subscriptions { port, content } => {
                let all = content.iter().filter_map(|content| subscription(Guid(port), content));
                registry.subscriptions.put(Guid(port), all.collect());
            }
            Self::Unknown => {}
        }
    }
}

fn group(mgid: Gid, content: &GroupContent) -> Option<Group> {
    let record = McMemberRecord::parse(&content.record);
    let mtu = record.mtu();
    let rate = record.rate();
    let is_valid = mgid.is_multicast()
        && record.mgid() == mgid
        && (Mlid::FIRST..=Mlid::LAST).contains(&record.mlid())
        && mtu_is_valid(mtu)
        && rate_rank(rate).is_some();
    is_valid.then(|| Group {
        spec: GroupSpec {
            mgid,
            qkey: record.qkey(),
            mtu,
            rate,
            packet_life: record.packet_life(),
            pkey: record.pkey(),
            sl: record.sl(),
            traffic_class: record.traffic_class(),
            flow_label: record.flow_label(),
            hop_limit: record.hop_limit(),
            scope: record.scope(),
        },
        mlid: record.mlid(),
        permanent: false,
        creator: Guid(content.creator),
        members: BTreeMap::new(),
    })
}

fn member(content: &MemberContent) -> Option<GroupMember> {
    let port = Guid(content.port);
    let state = JoinState(content.state & 0xF);
    (!state.is_empty()).then_some(GroupMember {
        port,
        state,
        proxy: content.proxy,
        requester: port,
        since: 0,
    })
}

fn subscription_content(subscription: &Subscription) -> SubscriptionContent {
    let to = &subscription.to;
    SubscriptionContent {
        prefix: subscription.prefix,
        number: subscription.number,
        info: subscription.info.0.to_vec(),
        lid: to.lid.0,
        qpn: to.qpn,
        qkey: to.qkey,
        sl: to.sl.0,
        path_bits: to.path_bits,
        pkey_index: to.pkey_index,
        trusted: subscription.trusted,
    }
}

fn subscription(subscriber: Guid, content: &SubscriptionContent) -> Option<Subscription> {
    let lid = Lid(content.lid);
    let to = Address {
        lid,
        qpn: content.qpn & 0xFF_FFFF,
        qkey: content.qkey,
        sl: Sl(content.sl & 0xF),
        path_bits: content.path_bits,
        pkey_index: content.pkey_index,
        grh: None,
    };
    lid.is_unicast().then(|| Subscription {
        subscriber,
        prefix: content.prefix,
        number: content.number,
        info: InformInfo::read(&content.info),
        to,
        trusted: content.trusted,
    })
}
