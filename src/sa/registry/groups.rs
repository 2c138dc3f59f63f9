//! The multicast groups and their members (IBA vol. 1, 15.2.5.17).

mod spec;

pub use spec::GroupSpec;
pub(crate) use spec::{LINK_LOCAL_SCOPE, broadcast_mgid};

use crate::fabric::Fabric;
use crate::ids::{Gid, Guid, Mlid, Pkey};
use crate::plan::multicast::{GroupMembers, MulticastDelta};
use crate::sa::status::ErrorStatus;
use crate::wire::record::{JoinState, McMemberRecord, Selector};
use crate::wire::sa::SaStatus;
use std::collections::{BTreeMap, BTreeSet};

/// A group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// What it is.
    pub spec: GroupSpec,
    /// Its LID.
    pub mlid: Mlid,
    /// It stays without members: a group of the configuration.
    pub permanent: bool,
    /// By the GUID they joined with, which may be an alias of their port's.
    pub members: BTreeMap<Guid, Member>,
}

/// A port's part in a group, under one of its names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// GUID of the port.
    pub port: Guid,
    /// Its roles.
    pub state: JoinState,
    /// Another port joined it.
    pub proxy: bool,
    /// The generation of the groups from which on the tree has a place for it.
    pub since: u64,
}

impl Group {
    /// The group as a record, without any member.
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

    /// The record of a member.
    pub(crate) fn member_record(&self, port_gid: Gid, member: Member) -> McMemberRecord {
        let mut record = self.record();
        record.set_port_gid(port_gid);
        record.set_join_state(member.state);
        record.set_proxy_join(member.proxy);
        record
    }

    /// The members as ports of `fabric`, ascending; those that are not there are left out.
    fn ports(&self, fabric: &Fabric) -> GroupMembers {
        let (mlid, sl) = (self.mlid, self.spec.sl);
        let mut ports = GroupMembers { mlid, sl, members: Vec::new(), senders: Vec::new() };
        for member in self.members.values() {
            let Some(port) = fabric.port_by_guid(member.port) else { continue };
            let role =
                if member.state.receives() { &mut ports.members } else { &mut ports.senders };
            role.push(port);
        }
        for role in [&mut ports.members, &mut ports.senders] {
            role.sort_unstable();
            role.dedup();
        }
        // A port that receives under one name and sends under another is in the tree once.
        ports.senders.retain(|port| ports.members.binary_search(port).is_err());
        ports
    }

    /// True if the port is a member, under any name.
    pub(crate) fn has_port(&self, port: Guid) -> bool {
        let is_port = |member: &Member| member.port == port;
        self.members.get(&port).is_some_and(is_port) || self.members.values().any(is_port)
    }

    /// True if a member keeps the group alive.
    fn is_kept(&self) -> bool {
        self.members.values().any(|member| member.state.keeps_group())
    }

    /// True if nothing keeps the group.
    fn is_dead(&self) -> bool {
        !self.permanent && !self.is_kept()
    }
}

/// A checked request to join.
#[derive(Clone, Debug)]
pub(crate) struct Join {
    pub group: JoinTarget,
    /// As it stood in the request: the member's name.
    pub port_gid: Gid,
    /// The port that has this GID.
    pub port: Guid,
    pub state: JoinState,
    pub proxy: bool,
}

/// The group of a [`Join`].
#[derive(Clone, Debug)]
pub(crate) enum JoinTarget {
    /// It is there.
    Existing(Gid),
    /// It is to be created.
    New {
        spec: GroupSpec,
        /// The MLID asked for.
        mlid: Option<Mlid>,
        /// The highest MLID that all switches can forward.
        last: Mlid,
        /// Subnet prefix, for MGIDs of the registry's choice.
        prefix: u64,
        /// Groups of IPv6 solicited-node addresses share MLIDs.
        consolidate: bool,
    },
}

/// A checked request to leave.
#[derive(Clone, Debug)]
pub(crate) struct Leave {
    pub mgid: Gid,
    /// The member's name as it stood in the request.
    pub port_gid: Gid,
    pub state: JoinState,
}

/// A group came to life, or lost the last member that kept it: what traps 66 and 67 tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupEvent {
    /// It came to life.
    pub created: bool,
    /// Its name.
    pub mgid: Gid,
    /// Its partition.
    pub pkey: Pkey,
}

/// All groups.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    groups: BTreeMap<Gid, Group>,
    /// MLIDs that are taken, and by which groups.
    mlids: BTreeMap<Mlid, BTreeSet<Gid>>,
    generation: u64,
    /// By MLID, taken or not: the generation in which something about it changed last that matters
    /// to forwarding tables.
    touched: BTreeMap<Mlid, u64>,
    /// Counts all changes.
    changes: u64,
    next_mgid: u32,
    events: Vec<GroupEvent>,
}

impl Groups {
    /// Counts the changes that matter to forwarding tables.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Counts all changes.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// All groups, ascending by MGID.
    pub fn iter(&self) -> impl Iterator<Item = &Group> {
        self.groups.values()
    }

    /// The group of this name.
    pub fn get(&self, mgid: &Gid) -> Option<&Group> {
        self.groups.get(mgid)
    }

    /// What happened since the last call.
    pub(crate) fn take_events(&mut self) -> Vec<GroupEvent> {
        std::mem::take(&mut self.events)
    }

    /// See [`Registry::set_permanent`](super::Registry::set_permanent).
    pub(super) fn set_permanent(
        &mut self,
        specs: &[GroupSpec],
        last: Mlid,
    ) -> Result<(), Vec<Gid>> {
        for group in self.groups.values_mut() {
            group.permanent = specs.iter().any(|spec| spec.mgid == group.spec.mgid);
        }
        self.remove_dead();
        let mut failed = Vec::new();
        for spec in specs {
            if self.groups.contains_key(&spec.mgid) {
                continue;
            }
            match self.create(spec.clone(), None, last, false) {
                Some(group) => group.permanent = true,
                None => failed.push(spec.mgid),
            }
        }
        if failed.is_empty() { Ok(()) } else { Err(failed) }
    }

    /// True if a group has a member of this name.
    pub(crate) fn has_member(&self, name: Guid) -> bool {
        self.groups.values().any(|group| group.members.contains_key(&name))
    }

    /// The ports that are members of any group.
    pub(super) fn ports(&self) -> BTreeSet<Guid> {
        let members = self.groups.values().flat_map(|group| group.members.values());
        members.map(|member| member.port).collect()
    }

    /// Takes these ports out of all groups.
    pub(super) fn forget(&mut self, ports: &BTreeSet<Guid>) {
        let Self { groups, events, generation, changes, touched, .. } = self;
        for group in groups.values_mut() {
            let (was_kept, before) = (group.is_kept(), group.members.len());
            group.members.retain(|_, member| !ports.contains(&member.port));
            if group.members.len() != before {
                *generation += 1;
                *changes += 1;
                touched.insert(group.mlid, *generation);
            }
            events.extend(change(group, was_kept));
        }
        self.remove_dead();
    }

    /// The groups as the plan wants them: see [`Registry::groups`](super::Registry::groups).
    pub(super) fn members(&self, fabric: &Fabric) -> Vec<GroupMembers> {
        let groups = self.groups.values().map(|group| group.ports(fabric));
        groups.filter(|group| !group.members.is_empty() || !group.senders.is_empty()).collect()
    }

    /// See [`Registry::regrouping`](super::Registry::regrouping).
    pub(super) fn multicast_delta(&self, since: u64, fabric: &Fabric) -> MulticastDelta {
        let touched = self.touched.iter().filter(|&(_, &generation)| generation > since);
        let mlids: BTreeSet<Mlid> = touched.map(|(&mlid, _)| mlid).collect();
        let names = mlids.iter().filter_map(|mlid| self.mlids.get(mlid)).flatten();
        // In the order of `members`.
        let names: BTreeSet<&Gid> = names.collect();
        let groups = names.into_iter().filter_map(|mgid| self.groups.get(mgid));
        let groups = groups.map(|group| group.ports(fabric));
        let groups = groups.filter(|group| !group.members.is_empty() || !group.senders.is_empty());
        MulticastDelta { groups: groups.collect(), mlids }
    }

    /// Something about an MLID changed that matters to forwarding tables.
    fn touch(&mut self, mlid: Mlid) {
        self.generation += 1;
        self.touched.insert(mlid, self.generation);
    }

    /// Joins a port, creating the group if that was asked for. Returns its record, and the
    /// generation from which on the tree has a place for it.
    pub(crate) fn join(&mut self, request: Join) -> Result<(McMemberRecord, u64), ErrorStatus> {
        let no_room = ErrorStatus(SaStatus::NO_RESOURCES);
        let mgid = match request.group {
            JoinTarget::Existing(mgid) => mgid,
            JoinTarget::New { mut spec, mlid, last, prefix, consolidate } => {
                if spec.mgid == Gid::default() {
                    spec.mgid = self.new_mgid(spec.scope, prefix).ok_or(no_room)?;
                }
                let mgid = spec.mgid;
                self.create(spec, mlid, last, consolidate).ok_or(no_room)?;
                mgid
            }
        };
        let group = self.groups.get_mut(&mgid).ok_or(ErrorStatus(SaStatus::REQ_INVALID))?;
        let was_kept = group.is_kept();
        let (port, proxy) = (request.port, request.proxy);
        let fresh = Member { port, state: JoinState(0), proxy, since: 0 };
        let member = group.members.entry(request.port_gid.guid()).or_insert(fresh);
        member.port = port;
        let before = member.state;
        member.state = before.with(request.state);
        if before.is_empty() || before.receives() != member.state.receives() {
            self.generation += 1;
            member.since = self.generation;
            self.touched.insert(group.mlid, self.generation);
        }
        let member = *member;
        self.changes += 1;
        self.events.extend(change(group, was_kept));
        Ok((group.member_record(request.port_gid, member), member.since))
    }

    /// Takes roles from a member; without any it leaves, and the last one that kept the group
    /// takes the group along. Returns the record with the roles that remain.
    pub(crate) fn leave(&mut self, request: Leave) -> Result<McMemberRecord, ErrorStatus> {
        let (invalid, name) = (ErrorStatus(SaStatus::REQ_INVALID), request.port_gid.guid());
        let group = self.groups.get_mut(&request.mgid).ok_or(invalid)?;
        let was_kept = group.is_kept();
        let member = group.members.get_mut(&name).ok_or(invalid)?;
        let before = member.state;
        member.state = before.without(request.state);
        let left = *member;
        let record = group.member_record(request.port_gid, left);
        if left.state.is_empty() {
            group.members.remove(&name);
        }
        let changed = left.state.is_empty() || before.receives() != left.state.receives();
        let (is_dead, event, mlid) = (group.is_dead(), change(group, was_kept), group.mlid);
        if changed {
            self.touch(mlid);
        }
        self.changes += 1;
        self.events.extend(event);
        if is_dead {
            self.remove(&request.mgid);
        }
        Ok(record)
    }

    /// Puts a group of an earlier run back, if its name and its MLID are free: nobody is told.
    pub(super) fn restore(&mut self, mut group: Group) -> Result<(), &'static str> {
        if self.groups.contains_key(&group.spec.mgid) {
            return Err("the group is there already");
        }
        let shares = |other: &Group| {
            other.mlid == group.mlid
                && solicited_node(&other.spec.mgid).is_some()
                && solicited_node(&other.spec.mgid) == solicited_node(&group.spec.mgid)
        };
        if self.mlids.contains_key(&group.mlid) && !self.groups.values().any(shares) {
            return Err("the MLID belongs to another group");
        }
        self.touch(group.mlid);
        group.members.values_mut().for_each(|member| member.since = self.generation);
        self.mlids.entry(group.mlid).or_default().insert(group.spec.mgid);
        self.groups.insert(group.spec.mgid, group);
        Ok(())
    }

    /// Removes the groups that nothing keeps.
    pub(super) fn remove_dead(&mut self) {
        let dead = self.groups.values().filter(|group| group.is_dead());
        let dead: Vec<Gid> = dead.map(|group| group.spec.mgid).collect();
        dead.iter().for_each(|mgid| self.remove(mgid));
    }

    fn create(
        &mut self,
        spec: GroupSpec,
        wanted: Option<Mlid>,
        last: Mlid,
        consolidate: bool,
    ) -> Option<&mut Group> {
        let free = |mlid: &Mlid| !self.mlids.contains_key(mlid);
        let range = Mlid::FIRST.0..=last.0.min(Mlid::LAST.0);
        let mlid = wanted
            .filter(|mlid| range.contains(&mlid.0) && free(mlid))
            .or_else(|| if consolidate { self.shared_mlid(&spec.mgid) } else { None })
            .or_else(|| range.clone().map(Mlid).find(free))?;
        self.mlids.entry(mlid).or_default().insert(spec.mgid);
        self.touch(mlid);
        self.changes += 1;
        let group = Group { mlid, permanent: false, members: BTreeMap::new(), spec };
        Some(self.groups.entry(group.spec.mgid).or_insert(group))
    }

    /// The MLID of the groups of solicited-node addresses that this one belongs to.
    fn shared_mlid(&self, mgid: &Gid) -> Option<Mlid> {
        let kin = solicited_node(mgid)?;
        let mut first = [0; 16];
        first[..kin.len()].copy_from_slice(&kin);
        let (_, group) = self.groups.range(Gid(first)..).next()?;
        (solicited_node(&group.spec.mgid) == Some(kin)).then_some(group.mlid)
    }

    fn remove(&mut self, mgid: &Gid) {
        let Some(group) = self.groups.remove(mgid) else { return };
        self.touch(group.mlid);
        self.changes += 1;
        if let Some(groups) = self.mlids.get_mut(&group.mlid) {
            groups.remove(mgid);
            if groups.is_empty() {
                self.mlids.remove(&group.mlid);
            }
        }
    }

    /// A name of the form that is the administrator's to give: ff1S:a01b, subnet prefix, number
    /// (IBA vol. 1, 4.1.1 and o15-0.1.5).
    fn new_mgid(&mut self, scope: u8, prefix: u64) -> Option<Gid> {
        for _ in 0..=self.groups.len() {
            let mut raw = [0; 16];
            raw[..4].copy_from_slice(&[0xFF, 0x10 | scope & 0xF, 0xA0, 0x1B]);
            raw[4..12].copy_from_slice(&prefix.to_be_bytes());
            raw[12..].copy_from_slice(&self.next_mgid.to_be_bytes());
            self.next_mgid = self.next_mgid.wrapping_add(1);
            if !self.groups.contains_key(&Gid(raw)) {
                return Some(Gid(raw));
            }
        }
        None
    }
}

/// What there is to tell after a change of members.
fn change(group: &Group, was_kept: bool) -> Option<GroupEvent> {
    let created = group.is_kept();
    let (mgid, pkey) = (group.spec.mgid, group.spec.pkey);
    (created != was_kept).then_some(GroupEvent { created, mgid, pkey })
}

/// What the groups of IPv6 solicited-node addresses of one scope and partition have in common:
/// ff1S:601b:PPPP::1:ffXX:XXXX without the 24 bits of the address (RFC 4391, 4; RFC 4291, 2.7.1).
fn solicited_node(mgid: &Gid) -> Option<[u8; 13]> {
    let raw = &mgid.0;
    let is_one = raw[0] == 0xFF
        && raw[1] >> 4 == 1
        && raw[2..4] == [0x60, 0x1B]
        && raw[6..13] == [0, 0, 0, 0, 0, 1, 0xFF];
    is_one.then(|| std::array::from_fn(|i| raw[i]))
}
