//! Multicast groups and their members (IBA vol. 1, 15.2.5.17).

mod activity;
mod member_counts;
mod permanent;
mod replicated;
mod spec;

pub use activity::{GroupActivity, GroupChange};
pub use permanent::{UnmetGroups, last_mlid};
pub use spec::GroupSpec;
pub(crate) use spec::LINK_LOCAL_SCOPE;

use crate::fabric::Fabric;
use crate::ids::{Gid, Guid, Mlid, Pkey};
use crate::plan::multicast::{GroupMembers, MulticastDelta};
use crate::sa::registry::change_log::{ChangedKeys, EntryKey};
use crate::sa::status::ErrorStatus;
use crate::wire::record::{JoinState, McMemberRecord, Selector};
use crate::wire::sa::SaStatus;
use activity::GroupActivities;
use member_counts::MemberCounts;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    pub spec: GroupSpec,
    pub mlid: Mlid,
    /// The group is configured, and exists without members.
    pub permanent: bool,
    /// The port that created the group; 0 if it is configured or restored.
    pub creator: Guid,
    /// Members by the GUID of their PortGID, which may be an alias.
    pub members: BTreeMap<Guid, GroupMember>,
}

/// Membership of a port. A port may have several, with its own GUID and with aliases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupMember {
    /// The port's own GUID.
    pub port: Guid,
    pub state: JoinState,
    /// Another port sent the join.
    pub proxy: bool,
    /// The port that sent the join, whose limit of memberships it counts for.
    pub requester: Guid,
    /// The generation of the groups from which the multicast tree includes the port.
    pub since: u64,
}

impl Group {
    /// The record of the group, with PortGID, JoinState and ProxyJoin cleared.
    pub(crate) fn record(&self) -> McMemberRecord {
        let spec = &self.spec;
        let mut record = McMemberRecord::default();
        record.set_mgid(spec.mgid);
        record.set_qkey(spec.qkey);
        record.set_mlid(self.mlid);
        record.set_mtu_selector(Selector::Exactly);
        record.set_mtu(spec.mtu);
        record.set_traffic_class(spec.traffic_class);
        record.set_pkey(spec.pkey);
        record.set_rate_selector(Selector::Exactly);
        record.set_rate(spec.rate);
        record.set_packet_life_selector(Selector::Exactly);
        record.set_packet_life(spec.packet_life);
        record.set_sl(spec.sl);
        record.set_flow_label(spec.flow_label);
        record.set_hop_limit(spec.hop_limit);
        record.set_scope(spec.scope);
        record
    }

    pub(crate) fn member_record(&self, port_gid: Gid, member: GroupMember) -> McMemberRecord {
        let mut record = self.record();
        record.set_port_gid(port_gid);
        record.set_join_state(member.state);
        record.set_proxy_join(member.proxy);
        record
    }

    /// The members in `fabric`, as ascending port indices.
    fn ports(&self, fabric: &Fabric) -> GroupMembers {
        let mlid = self.mlid;
        let sl = self.spec.sl;
        let mut ports = GroupMembers { mlid, sl, members: Vec::new(), senders: Vec::new() };
        for member in self.members.values() {
            let Some(end) = fabric.end_port_by_guid(member.port) else { continue };
            let port = end.physical;
            let list =
                if member.state.receives() { &mut ports.members } else { &mut ports.senders };
            list.push(port);
        }
        for list in [&mut ports.members, &mut ports.senders] {
            list.sort_unstable();
            list.dedup();
        }
        // A port with a receiving and a send-only membership counts as a receiver.
        ports.senders.retain(|port| ports.members.binary_search(port).is_err());
        ports
    }

    /// True if the port is a member, with its own GUID or with an alias.
    pub(crate) fn has_port(&self, port: Guid) -> bool {
        self.members.get(&port).is_some_and(|member| member.port == port)
            || self.members.values().any(|member| member.port == port)
    }

    /// True if the group has a full member, which keeps it alive (o15-0.1.14).
    fn has_full_member(&self) -> bool {
        self.members.values().any(|member| member.state.keeps_group())
    }

    /// True if neither a full member nor the configuration keeps the group.
    fn is_removable(&self) -> bool {
        !self.permanent && !self.has_full_member()
    }
}

/// A checked request to join.
#[derive(Clone, Debug)]
pub(crate) struct Join {
    pub group: JoinTarget,
    /// PortGID of the request.
    pub port_gid: Gid,
    /// The owner of `port_gid`.
    pub port: Guid,
    /// The sender of the request.
    pub requester: Guid,
    pub state: JoinState,
    pub proxy: bool,
}

/// The group of a [`Join`].
#[derive(Clone, Debug)]
pub(crate) enum JoinTarget {
    Existing(Gid),
    /// The join creates the group.
    New {
        spec: GroupSpec,
        /// The MLID of the request.
        mlid: Option<Mlid>,
        /// The highest MLID that all switches support.
        last: Mlid,
        /// Subnet prefix, for assigned MGIDs.
        prefix: u64,
        /// Groups of IPv6 solicited-node addresses share an MLID (`consolidate_ipv6_snm_req`).
        consolidate: bool,
    },
}

/// A checked request to leave.
#[derive(Clone, Debug)]
pub(crate) struct Leave {
    pub mgid: Gid,
    /// PortGID of the request.
    pub port_gid: Gid,
    pub state: JoinState,
}

/// A group got its first or lost its last full member, which is reported as notice 66 or 67.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupEvent {
    pub created: bool,
    pub mgid: Gid,
    pub pkey: Pkey,
}

#[derive(Clone, Debug, Default)]
pub struct Groups {
    groups: BTreeMap<Gid, Group>,
    /// Assigned MLIDs, with their groups.
    mlids: BTreeMap<Mlid, BTreeSet<Gid>>,
    generation: u64,
    /// Generation of the last change of each MLID, assigned or not, that affects forwarding tables.
    changed_in: BTreeMap<Mlid, u64>,
    /// Number of all changes.
    changes: u64,
    next_mgid: u32,
    events: Vec<GroupEvent>,
    activities: GroupActivities,
    member_counts: MemberCounts,
    /// For replication.
    pub(super) changed: ChangedKeys,
}

impl Groups {
    /// Number of changes that affect forwarding tables.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Number of all changes.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// All groups, ascending by MGID.
    pub fn iter(&self) -> impl Iterator<Item = &Group> {
        self.groups.values()
    }

    pub fn get(&self, mgid: &Gid) -> Option<&Group> {
        self.groups.get(mgid)
    }

    /// Returns the events since the last call.
    pub(crate) fn take_events(&mut self) -> Vec<GroupEvent> {
        std::mem::take(&mut self.events)
    }

    /// Records changes for [`Self::take_activities`] from now on, or no longer.
    pub(super) fn record_activities(&mut self, is_recording: bool) {
        self.activities.record(is_recording);
    }

    /// The recorded changes since the last call, and the number of those that were not kept.
    pub(super) fn take_activities(&mut self) -> (Vec<GroupActivity>, u64) {
        self.activities.take()
    }

    /// Number of memberships for which a port sent the join.
    pub(crate) fn memberships_of(&self, requester: Guid) -> usize {
        self.member_counts.of(requester)
    }

    /// True if a port has joined a group with this GUID or alias GUID.
    pub(crate) fn has_member(&self, guid: Guid) -> bool {
        self.groups.values().any(|group| group.members.contains_key(&guid))
    }

    /// The ports that are members of any group.
    pub(super) fn ports(&self) -> BTreeSet<Guid> {
        let members = self.groups.values().flat_map(|group| group.members.values());
        members.map(|member| member.port).collect()
    }

    /// Removes ports from all groups.
    pub(super) fn remove_ports(&mut self, ports: &BTreeSet<Guid>) {
        let Self {
            groups,
            events,
            generation,
            changes,
            changed_in,
            changed,
            member_counts,
            activities,
            ..
        } = self;
        for group in groups.values_mut() {
            let had_full_member = group.has_full_member();
            let before = group.members.len();
            let mgid = group.spec.mgid;
            group.members.retain(|&guid, member| {
                let is_kept = !ports.contains(&member.port);
                if !is_kept {
                    changed.add(EntryKey::Member(mgid, guid));
                    activities.add(group.mlid, mgid, GroupChange::Left(guid));
                    member_counts.removed(member);
                }
                is_kept
            });
            debug_assert!(group.members.len() <= before, "no member is added");
            if group.members.len() != before {
                *generation += 1;
                *changes += 1;
                changed_in.insert(group.mlid, *generation);
            }
            events.extend(membership_event(group, had_full_member));
        }
        self.remove_unused();
    }

    /// See [`Registry::groups`](super::Registry::groups).
    pub(super) fn members(&self, fabric: &Fabric) -> Vec<GroupMembers> {
        let groups = self.groups.values().map(|group| group.ports(fabric));
        groups.filter(|group| !group.members.is_empty() || !group.senders.is_empty()).collect()
    }

    /// See [`Registry::multicast_delta`](super::Registry::multicast_delta).
    pub(super) fn multicast_delta(&self, since: u64, fabric: &Fabric) -> MulticastDelta {
        let changed_in = self.changed_in.iter().filter(|&(_, &generation)| generation > since);
        let mlids: BTreeSet<Mlid> = changed_in.map(|(&mlid, _)| mlid).collect();
        let mgids = mlids.iter().filter_map(|mlid| self.mlids.get(mlid)).flatten();
        // Sorted, so that the order is that of `members`.
        let mgids: BTreeSet<&Gid> = mgids.collect();
        let groups = mgids.into_iter().filter_map(|mgid| self.groups.get(mgid));
        let groups = groups.map(|group| group.ports(fabric));
        let groups = groups.filter(|group| !group.members.is_empty() || !group.senders.is_empty());
        MulticastDelta { groups: groups.collect(), mlids }
    }

    /// Records a change of an MLID that affects forwarding tables.
    fn mark_changed(&mut self, mlid: Mlid) {
        self.generation += 1;
        self.changed_in.insert(mlid, self.generation);
    }

    /// Joins a port, and creates the group if necessary. Returns the record of the member, and the
    /// generation from which the multicast tree includes it.
    pub(crate) fn join(&mut self, request: Join) -> Result<(McMemberRecord, u64), ErrorStatus> {
        let no_resources = ErrorStatus(SaStatus::NO_RESOURCES);
        let mgid = match request.group {
            JoinTarget::Existing(mgid) => mgid,
            JoinTarget::New { mut spec, mlid, last, prefix, consolidate } => {
                if spec.mgid == Gid::default() {
                    spec.mgid = self.new_mgid(spec.scope, prefix).ok_or(no_resources)?;
                }
                let mgid = spec.mgid;
                let group = self.create(spec, mlid, last, consolidate).ok_or(no_resources)?;
                group.creator = request.requester;
                mgid
            }
        };
        let group = self.groups.get_mut(&mgid).ok_or(ErrorStatus(SaStatus::REQ_INVALID))?;
        let had_full_member = group.has_full_member();
        let port = request.port;
        let proxy = request.proxy;
        let requester = request.requester;
        let new_member = GroupMember { port, state: JoinState(0), proxy, requester, since: 0 };
        let member = group.members.entry(request.port_gid.guid()).or_insert_with(|| {
            self.member_counts.added(&new_member);
            new_member
        });
        member.port = port;
        let before = member.state;
        member.state = before.with(request.state);
        if before.is_empty() {
            let joined = GroupChange::Joined(request.port_gid.guid());
            self.activities.add(group.mlid, mgid, joined);
        }
        if before.is_empty() || before.receives() != member.state.receives() {
            self.generation += 1;
            member.since = self.generation;
            self.changed_in.insert(group.mlid, self.generation);
        }
        let member = *member;
        self.changes += 1;
        self.changed.add(EntryKey::Member(mgid, request.port_gid.guid()));
        self.events.extend(membership_event(group, had_full_member));
        Ok((group.member_record(request.port_gid, member), member.since))
    }

    /// Removes join states from a member. A member without join states is removed, and a group
    /// without full members is deleted unless it is permanent. Returns the record with the
    /// remaining states.
    pub(crate) fn leave(&mut self, request: Leave) -> Result<McMemberRecord, ErrorStatus> {
        let invalid = ErrorStatus(SaStatus::REQ_INVALID);
        let guid = request.port_gid.guid();
        let group = self.groups.get_mut(&request.mgid).ok_or(invalid)?;
        let had_full_member = group.has_full_member();
        let member = group.members.get_mut(&guid).ok_or(invalid)?;
        let before = member.state;
        member.state = before.without(request.state);
        let remaining = *member;
        let record = group.member_record(request.port_gid, remaining);
        if remaining.state.is_empty() {
            group.members.remove(&guid);
            self.activities.add(group.mlid, request.mgid, GroupChange::Left(guid));
            self.member_counts.removed(&remaining);
        }
        let changed = remaining.state.is_empty() || before.receives() != remaining.state.receives();
        let is_removable = group.is_removable();
        let event = membership_event(group, had_full_member);
        let mlid = group.mlid;
        if changed {
            self.mark_changed(mlid);
        }
        self.changes += 1;
        self.changed.add(EntryKey::Member(request.mgid, guid));
        self.events.extend(event);
        if is_removable {
            self.remove(&request.mgid);
        }
        Ok(record)
    }

    /// Restores a group of the dump file, without an event.
    ///
    /// # Errors
    /// A message if the MGID or the MLID is in use.
    pub(super) fn restore(&mut self, mut group: Group) -> Result<(), &'static str> {
        if self.groups.contains_key(&group.spec.mgid) {
            return Err("its MGID exists already");
        }
        if self.mlids.contains_key(&group.mlid) && !self.shares_mlid(&group) {
            return Err("its MLID belongs to another group");
        }
        self.mark_changed(group.mlid);
        group.members.values_mut().for_each(|member| member.since = self.generation);
        group.members.values().for_each(|member| self.member_counts.added(member));
        self.mlids.entry(group.mlid).or_default().insert(group.spec.mgid);
        self.groups.insert(group.spec.mgid, group);
        Ok(())
    }

    /// True if a group of the same MLID has the same prefix of solicited-node addresses.
    fn shares_mlid(&self, group: &Group) -> bool {
        let Some(prefix) = solicited_node_prefix(&group.spec.mgid) else { return false };
        let mut others = self.groups.values().filter(|other| other.mlid == group.mlid);
        others.any(|other| solicited_node_prefix(&other.spec.mgid) == Some(prefix))
    }

    /// Removes groups without full members that are not permanent.
    pub(super) fn remove_unused(&mut self) {
        let unused = self.groups.values().filter(|group| group.is_removable());
        let unused: Vec<Gid> = unused.map(|group| group.spec.mgid).collect();
        unused.iter().for_each(|mgid| self.remove(mgid));
    }

    /// Creates a group with the `wanted` MLID if it is free, else with a shared one or the lowest
    /// free one. `None` if there is no free MLID up to `last`.
    fn create(
        &mut self,
        spec: GroupSpec,
        wanted: Option<Mlid>,
        last: Mlid,
        consolidate: bool,
    ) -> Option<&mut Group> {
        let range = Mlid::FIRST.0..=last.0.min(Mlid::LAST.0);
        let mlid = wanted
            .filter(|mlid| range.contains(&mlid.0) && !self.mlids.contains_key(mlid))
            .or_else(|| if consolidate { self.shared_mlid(&spec.mgid) } else { None })
            .or_else(|| range.clone().map(Mlid).find(|mlid| !self.mlids.contains_key(mlid)))?;
        debug_assert!(range.contains(&mlid.0), "the switches have no entry for {mlid}");
        self.mlids.entry(mlid).or_default().insert(spec.mgid);
        self.changed.add(EntryKey::Group(spec.mgid));
        self.activities.add(mlid, spec.mgid, GroupChange::Created);
        self.mark_changed(mlid);
        self.changes += 1;
        let creator = Guid::default();
        let group = Group { mlid, permanent: false, creator, members: BTreeMap::new(), spec };
        Some(self.groups.entry(group.spec.mgid).or_insert(group))
    }

    /// The MLID of an existing group with the same solicited-node prefix.
    fn shared_mlid(&self, mgid: &Gid) -> Option<Mlid> {
        let prefix = solicited_node_prefix(mgid)?;
        let mut first = [0; 16];
        first[..prefix.len()].copy_from_slice(&prefix);
        let (_, group) = self.groups.range(Gid(first)..).next()?;
        (solicited_node_prefix(&group.spec.mgid) == Some(prefix)).then_some(group.mlid)
    }

    fn remove(&mut self, mgid: &Gid) {
        let Some(group) = self.groups.remove(mgid) else { return };
        for (&guid, member) in &group.members {
            self.member_counts.removed(member);
            self.activities.add(group.mlid, *mgid, GroupChange::Left(guid));
        }
        self.activities.add(group.mlid, *mgid, GroupChange::Deleted);
        let members = group.members.keys().map(|&guid| EntryKey::Member(*mgid, guid));
        std::iter::once(EntryKey::Group(*mgid))
            .chain(members)
            .for_each(|key| self.changed.add(key));
        self.mark_changed(group.mlid);
        self.changes += 1;
        if let Some(groups) = self.mlids.get_mut(&group.mlid) {
            groups.remove(mgid);
            if groups.is_empty() {
                self.mlids.remove(&group.mlid);
            }
        }
    }

    /// Assigns an unused MGID (o15-0.1.5).
    fn new_mgid(&mut self, scope: u8, prefix: u64) -> Option<Gid> {
        for _ in 0..=self.groups.len() {
            let mgid = Gid::sa_assigned(scope, prefix, self.next_mgid);
            self.next_mgid = self.next_mgid.wrapping_add(1);
            if !self.groups.contains_key(&mgid) {
                return Some(mgid);
            }
        }
        None
    }
}

/// The event of a change of members; `None` if it needs no report.
fn membership_event(group: &Group, had_full_member: bool) -> Option<GroupEvent> {
    let created = group.has_full_member();
    let mgid = group.spec.mgid;
    let pkey = group.spec.pkey;
    (created != had_full_member).then_some(GroupEvent { created, mgid, pkey })
}

/// The prefix that the groups of IPv6 solicited-node addresses of one scope and partition share:
/// ff1S:601b:PPPP::1:ffXX:XXXX without the 24 address bits (RFC 4391, section 4; RFC 4291, section
/// 2.7.1). `None` for other groups.
fn solicited_node_prefix(mgid: &Gid) -> Option<[u8; 13]> {
    let raw = &mgid.0;
    let is_solicited_node = raw[0] == 0xFF
        && raw[1] >> 4 == 1
        && raw[2..4] == [0x60, 0x1B]
        && raw[6..13] == [0, 0, 0, 0, 0, 1, 0xFF];
    is_solicited_node.then(|| std::array::from_fn(|i| raw[i]))
}
