//! The multicast groups and their members (IBA vol. 1, 15.2.5.17).
//!
//! The registry holds what clients wrote and nothing of the fabric: members are GUIDs, so that it
//! outlives sweeps. It is deterministic: the same requests in the same order make the same
//! groups with the same MLIDs.

use super::query::Refused;
use crate::fabric::{Fabric, Fault};
use crate::ids::{Gid, Guid, Mlid, Pkey, Sl};
use crate::plan::multicast::GroupMembers;
use crate::wire::record::{JoinState, McMemberRecord, Selector};
use crate::wire::sa::SaStatus;
use std::collections::{BTreeMap, BTreeSet};

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
pub(super) const LINK_LOCAL_SCOPE: u8 = 2;

impl GroupSpec {
    /// The IPv4 broadcast group of IPoIB in the partition of `pkey` (RFC 4391, 4), with OpenSM's
    /// defaults: 2048 bytes, 10 Gb/s, Q_Key 0x0b1b, link-local scope.
    pub fn ipoib_broadcast(pkey: Pkey, sl: Sl, packet_life: u8) -> Self {
        let pkey = Pkey(pkey.0 | 0x8000);
        Self {
            mgid: broadcast_mgid(LINK_LOCAL_SCOPE, pkey),
            qkey: 0x0b1b,
            mtu: 4,
            rate: 3,
            packet_life,
            pkey,
            sl,
            traffic_class: 0,
            flow_label: 0,
            hop_limit: 0,
            scope: LINK_LOCAL_SCOPE,
        }
    }
}

/// ff1S:401b:PPPP::ffff:ffff
pub(super) fn broadcast_mgid(scope: u8, pkey: Pkey) -> Gid {
    let mut raw = [0; 16];
    raw[..4].copy_from_slice(&[0xFF, 0x10 | scope & 0xF, 0x40, 0x1B]);
    raw[4..6].copy_from_slice(&pkey.0.to_be_bytes());
    raw[12..].fill(0xFF);
    Gid(raw)
}

/// A group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// What it is.
    pub spec: GroupSpec,
    /// Its LID.
    pub mlid: Mlid,
    /// It stays without members: a group of the configuration.
    pub permanent: bool,
    /// By port GUID.
    pub members: BTreeMap<Guid, Member>,
}

/// A port's part in a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// Its roles.
    pub state: JoinState,
    /// Another port joined it.
    pub proxy: bool,
}

impl Group {
    /// The group as a record, without any member.
    pub(super) fn record(&self) -> McMemberRecord {
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
    pub(super) fn member_record(&self, port_gid: Gid, member: Member) -> McMemberRecord {
        let mut record = self.record();
        record.set_port_gid(port_gid);
        record.set_join_state(member.state);
        record.set_proxy_join(member.proxy);
        record
    }
}

/// A checked request to join.
#[derive(Clone, Debug)]
pub(super) struct Join {
    pub group: Target,
    /// As it stood in the request, for the answer.
    pub port_gid: Gid,
    pub port: Guid,
    pub state: JoinState,
    pub proxy: bool,
}

/// The group of a [`Join`].
#[derive(Clone, Debug)]
pub(super) enum Target {
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
    },
}

/// A checked request to leave.
#[derive(Clone, Debug)]
pub(super) struct Leave {
    pub mgid: Gid,
    pub port_gid: Gid,
    pub port: Guid,
    pub state: JoinState,
}

/// All groups.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    groups: BTreeMap<Gid, Group>,
    mlids: BTreeSet<Mlid>,
    generation: u64,
    next_mgid: u32,
    /// Members that the last heavy sweep did not find, and for how many sweeps in a row.
    missed: BTreeMap<Guid, u32>,
}

/// Heavy sweeps with faults that must all miss a port before its memberships are forgotten.
pub const PATIENCE: u32 = 4;

impl Registry {
    /// Counts the changes that matter to forwarding tables: when it is another one than at the
    /// last plan, multicast is to be planned again.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// All groups, ascending by MGID.
    pub fn iter(&self) -> impl Iterator<Item = &Group> {
        self.groups.values()
    }

    /// The group of this name.
    pub fn group(&self, mgid: &Gid) -> Option<&Group> {
        self.groups.get(mgid)
    }

    /// Makes the groups of the configuration permanent: creates those that are not there and
    /// releases those that are no longer wanted. Groups that exist keep their MLID, parameters
    /// and members.
    ///
    /// # Errors
    /// The groups for which there was no MLID up to `last`.
    pub fn set_permanent(&mut self, specs: &[GroupSpec], last: Mlid) -> Result<(), Vec<Gid>> {
        for group in self.groups.values_mut() {
            group.permanent = specs.iter().any(|spec| spec.mgid == group.spec.mgid);
        }
        let orphans: Vec<Gid> = self.groups.values().filter(|g| is_dead(g)).map(mgid).collect();
        for orphan in orphans {
            self.remove(&orphan);
        }
        let mut failed = Vec::new();
        for spec in specs {
            if self.groups.contains_key(&spec.mgid) {
                continue;
            }
            match self.create(spec.clone(), None, last) {
                Some(group) => group.permanent = true,
                None => failed.push(spec.mgid),
            }
        }
        if failed.is_empty() { Ok(()) } else { Err(failed) }
    }

    /// Forgets members whose ports are gone. To be called after each heavy sweep with the fabric
    /// it found.
    ///
    /// That a sweep did not find a port proves nothing while other nodes did not answer it: a
    /// lost reply hides all that is behind its sender. A member is forgotten if a sweep without
    /// such faults does not find its port, or if [`PATIENCE`] sweeps in a row do not. Until then
    /// the membership only rests: [`Self::groups`] leaves out ports that are not there.
    pub fn forget_absent(&mut self, fabric: &Fabric) {
        let is_complete = fabric.faults().iter().all(|fault| !hides_ports(fault));
        let members = self.groups.values().flat_map(|group| group.members.keys().copied());
        let absent: BTreeSet<Guid> =
            members.filter(|&guid| fabric.port_by_guid(guid).is_none()).collect();
        let missed = |guid: Guid| (guid, self.missed.get(&guid).copied().unwrap_or(0) + 1);
        self.missed = absent.into_iter().map(missed).collect();
        let gone = |sweeps: u32| is_complete || sweeps >= PATIENCE;
        let forgotten: BTreeSet<Guid> = self
            .missed
            .iter()
            .filter(|&(_, &sweeps)| gone(sweeps))
            .map(|(&guid, _)| guid)
            .collect();
        if forgotten.is_empty() {
            return;
        }
        self.missed.retain(|guid, _| !forgotten.contains(guid));
        self.generation += 1;
        for group in self.groups.values_mut() {
            group.members.retain(|guid, _| !forgotten.contains(guid));
        }
        let dead: Vec<Gid> = self.groups.values().filter(|g| is_dead(g)).map(mgid).collect();
        for dead in dead {
            self.remove(&dead);
        }
    }

    /// The groups as the plan wants them: members as ports of `fabric`, ascending; groups
    /// without any are left out.
    pub fn groups(&self, fabric: &Fabric) -> Vec<GroupMembers> {
        let groups = self.groups.values().map(|group| {
            let ports = group.members.keys().filter_map(|&guid| fabric.port_by_guid(guid));
            let mut members: Vec<_> = ports.collect();
            members.sort_unstable();
            members.dedup();
            GroupMembers { mlid: group.mlid, members }
        });
        groups.filter(|group| !group.members.is_empty()).collect()
    }

    /// Joins a port, creating the group if that was asked for, and returns its record.
    pub(super) fn join(&mut self, request: Join) -> Result<McMemberRecord, Refused> {
        let no_room = Refused(SaStatus::NO_RESOURCES);
        let mgid = match request.group {
            Target::Existing(mgid) => mgid,
            Target::New { mut spec, mlid, last, prefix } => {
                if spec.mgid == Gid::default() {
                    spec.mgid = self.new_mgid(spec.scope, prefix).ok_or(no_room)?;
                }
                let mgid = spec.mgid;
                self.create(spec, mlid, last).ok_or(no_room)?;
                mgid
            }
        };
        let group = self.groups.get_mut(&mgid).ok_or(Refused(SaStatus::REQ_INVALID))?;
        let fresh = Member { state: JoinState(0), proxy: request.proxy };
        let is_new = !group.members.contains_key(&request.port);
        let member = group.members.entry(request.port).or_insert(fresh);
        member.state = member.state.with(request.state);
        self.generation += u64::from(is_new);
        let member = *member;
        Ok(group.member_record(request.port_gid, member))
    }

    /// Takes roles from a member; without any it leaves, and the last one that kept the group
    /// takes the group along. Returns the record with the roles that remain.
    pub(super) fn leave(&mut self, request: Leave) -> Result<McMemberRecord, Refused> {
        let invalid = Refused(SaStatus::REQ_INVALID);
        let group = self.groups.get_mut(&request.mgid).ok_or(invalid)?;
        let member = group.members.get_mut(&request.port).ok_or(invalid)?;
        member.state = member.state.without(request.state);
        let left = *member;
        let record = group.member_record(request.port_gid, left);
        if left.state.is_empty() {
            group.members.remove(&request.port);
            self.generation += 1;
        }
        if is_dead(group) {
            self.remove(&request.mgid);
        }
        Ok(record)
    }

    fn create(&mut self, spec: GroupSpec, wanted: Option<Mlid>, last: Mlid) -> Option<&mut Group> {
        let free = |mlid: &Mlid| !self.mlids.contains(mlid);
        let range = Mlid::FIRST.0..=last.0.min(Mlid::LAST.0);
        let mlid = wanted
            .filter(|mlid| range.contains(&mlid.0) && free(mlid))
            .or_else(|| range.clone().map(Mlid).find(free))?;
        self.mlids.insert(mlid);
        self.generation += 1;
        let group = Group { mlid, permanent: false, members: BTreeMap::new(), spec };
        Some(self.groups.entry(group.spec.mgid).or_insert(group))
    }

    fn remove(&mut self, mgid: &Gid) {
        if let Some(group) = self.groups.remove(mgid) {
            self.mlids.remove(&group.mlid);
            self.generation += 1;
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

/// True if there may be ports that the sweep did not see for this fault.
fn hides_ports(fault: &Fault) -> bool {
    matches!(fault, Fault::Silent { .. } | Fault::Nonsense { .. })
}

/// True if nothing keeps the group.
fn is_dead(group: &Group) -> bool {
    !group.permanent && !group.members.values().any(|member| member.state.keeps_group())
}

fn mgid(group: &Group) -> Gid {
    group.spec.mgid
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::NodeParts;
    use crate::ids::PortNum;
    use crate::wire::attr::{NodeDescription, NodeInfo, SwitchInfo};
    use crate::wire::smp::DirectedRoute;

    fn spec(n: u8) -> GroupSpec {
        let mut spec = GroupSpec::ipoib_broadcast(Pkey(0x7FFF), Sl(0), 18);
        spec.mgid.0[15] = n;
        spec
    }

    fn new(n: u8, last: u16) -> Target {
        Target::New { spec: spec(n), mlid: None, last: Mlid(last), prefix: 0 }
    }

    fn join(group: Target, port: u64, state: JoinState) -> Join {
        Join { group, port_gid: Gid::default(), port: Guid(port), state, proxy: false }
    }

    fn leave(n: u8, port: u64, state: JoinState) -> Leave {
        Leave { mgid: spec(n).mgid, port_gid: Gid::default(), port: Guid(port), state }
    }

    #[test]
    fn mlids_are_the_lowest_free_ones() {
        let mut registry = Registry::default();
        for (n, mlid) in [(1, 0xC000), (2, 0xC001)] {
            let record = registry.join(join(new(n, 0xC001), 1, JoinState::FULL)).unwrap();
            assert_eq!(record.mlid(), Mlid(mlid));
        }
        let full = registry.join(join(new(3, 0xC001), 1, JoinState::FULL));
        assert_eq!(full, Err(Refused(SaStatus::NO_RESOURCES)));
        registry.leave(leave(1, 1, JoinState::FULL)).unwrap();
        let record = registry.join(join(new(4, 0xC001), 1, JoinState::FULL)).unwrap();
        assert_eq!(record.mlid(), Mlid::FIRST, "the one that was given back");
    }

    #[test]
    fn roles_come_and_go_one_by_one() {
        let mut registry = Registry::default();
        registry.join(join(new(1, 0xC00F), 1, JoinState::FULL)).unwrap();
        let existing = || Target::Existing(spec(1).mgid);
        let record = registry.join(join(existing(), 1, JoinState::SEND_ONLY)).unwrap();
        assert_eq!(record.join_state(), JoinState(5));
        registry.join(join(existing(), 2, JoinState::NON)).unwrap();
        let before = registry.generation();
        let record = registry.leave(leave(1, 1, JoinState::SEND_ONLY)).unwrap();
        assert_eq!(record.join_state(), JoinState::FULL);
        assert_eq!(registry.generation(), before, "the port keeps its branch");
        registry.leave(leave(1, 1, JoinState::FULL)).unwrap();
        assert!(registry.group(&spec(1).mgid).is_none(), "a non-member keeps no group");
        assert!(registry.generation() > before);
    }

    fn fabric(faults: Vec<Fault>) -> Fabric {
        let info = NodeInfo::default();
        let port = NodeParts {
            info,
            description: NodeDescription::default(),
            switch_info: SwitchInfo::default(),
            route: DirectedRoute::LOCAL,
            ports: vec![(Guid(1), None)],
        };
        let local = (info.node_guid(), PortNum(0));
        Fabric::assemble(vec![port], &[], local, faults).expect("the node is there")
    }

    fn with_lost_reply() -> Fabric {
        let (what, route) = ("a switch".to_owned(), DirectedRoute::LOCAL);
        fabric(vec![Fault::Silent { attribute: "PortInfo", what, route }])
    }

    fn with_members(ports: &[u64]) -> Registry {
        let mut registry = Registry::default();
        for (n, &port) in ports.iter().enumerate() {
            let group = if n == 0 { new(1, 0xC00F) } else { Target::Existing(spec(1).mgid) };
            registry.join(join(group, port, JoinState::FULL)).unwrap();
        }
        registry
    }

    fn members(registry: &Registry) -> Vec<u64> {
        registry.iter().flat_map(|group| group.members.keys().map(|guid| guid.0)).collect()
    }

    #[test]
    fn ports_that_left_are_forgotten_with_their_groups() {
        let mut registry = with_members(&[1, 2]);
        let before = registry.generation();
        registry.forget_absent(&fabric(Vec::new()));
        assert_eq!(members(&registry), [1]);
        assert_eq!(registry.generation(), before + 1);
        let mut lonely = with_members(&[2]);
        lonely.forget_absent(&fabric(Vec::new()));
        assert_eq!(lonely.iter().count(), 0);
    }

    #[test]
    fn a_sweep_that_lost_replies_forgets_nobody_at_once() {
        let mut registry = with_members(&[1, 2]);
        for _ in 1..PATIENCE {
            registry.forget_absent(&with_lost_reply());
            assert_eq!(members(&registry), [1, 2]);
        }
        let mut returned = registry.clone();
        registry.forget_absent(&with_lost_reply());
        assert_eq!(members(&registry), [1], "silent for too long");
        returned.missed.clear();
        returned.forget_absent(&with_lost_reply());
        assert_eq!(members(&returned), [1, 2], "counted anew");
    }

    #[test]
    fn permanent_groups_stay() {
        let mut registry = Registry::default();
        registry.set_permanent(&[spec(1)], Mlid::LAST).unwrap();
        registry.join(join(Target::Existing(spec(1).mgid), 1, JoinState::FULL)).unwrap();
        registry.leave(leave(1, 1, JoinState::FULL)).unwrap();
        assert!(registry.group(&spec(1).mgid).is_some());
        registry.set_permanent(&[], Mlid::LAST).unwrap();
        assert_eq!(registry.iter().count(), 0);
        assert_eq!(registry.set_permanent(&[spec(1)], Mlid(0xBFFF)), Err(vec![spec(1).mgid]));
    }

    #[test]
    fn the_broadcast_group_has_its_well_known_name() {
        let spec = GroupSpec::ipoib_broadcast(Pkey(0x7FFF), Sl(0), 18);
        assert_eq!(spec.mgid.to_string(), "ff12:401b:ffff::ffff:ffff");
    }
}
