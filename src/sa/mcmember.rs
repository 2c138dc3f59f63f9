//! MCMemberRecord (IBA vol. 1, 15.2.5.17): checks requests to join and leave multicast groups by
//! the rules o15-0.1.x and o15-0.2.x, with OpenSM's status codes. The
//! [`Registry`](super::registry::Registry) carries them out; [`creation`] sets the parameters of a
//! new group.

mod creation;

use super::query::{Query, ReplyBuilder};
use super::rates::{mtu_is_valid, rate_rank};
use super::registry::groups::{
    Group, GroupMember, GroupSpec, Join, JoinTarget, LINK_LOCAL_SCOPE, Leave, last_mlid,
};
use super::selector::satisfies;
use super::status::ErrorStatus;
use super::trust::{ProxyJoins, TrustRules};
use super::view::SubnetView;
use crate::fabric::PortId;
use crate::ids::{Gid, Guid};
use crate::wire::mad::{Method, Status};
use crate::wire::record::{JoinState, McMemberRecord, PathRecord, Selector};
use crate::wire::sa::SaStatus;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Reason of requests with invalid components.
const MALFORMED: &str = "MGID, PortGID or JoinState is missing, or a component is invalid";
/// Reason of joins of unknown groups that create none.
const NO_GROUP: &str =
    "there is no such group, and the request has not the valid components that create one";

/// Required components of joins and leaves.
const REQUIRED: u64 = McMemberRecord::MGID | McMemberRecord::PORT_GID | McMemberRecord::JOIN_STATE;

const INVALID: ErrorStatus = ErrorStatus(SaStatus::REQ_INVALID);

fn require(condition: bool) -> Result<(), ErrorStatus> {
    if condition { Ok(()) } else { Err(INVALID) }
}

/// A request to join or leave that is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RefusedMembership {
    status: ErrorStatus,
    /// For the log.
    pub(super) reason: &'static str,
}

impl From<RefusedMembership> for ErrorStatus {
    fn from(refused: RefusedMembership) -> Self {
        refused.status
    }
}

/// Refuses with REQ_INVALID.
fn invalid(reason: &'static str) -> RefusedMembership {
    RefusedMembership { status: INVALID, reason }
}

/// Refuses with REQ_INVALID unless `condition` holds.
fn check(condition: bool, reason: &'static str) -> Result<(), RefusedMembership> {
    if condition { Ok(()) } else { Err(invalid(reason)) }
}

/// Refuses with the status of another check.
fn because(reason: &'static str) -> impl Fn(ErrorStatus) -> RefusedMembership {
    move |status| RefusedMembership { status, reason }
}

/// The record of SubnAdmSet or SubnAdmDelete, with its required components checked.
fn checked_member(query: &Query<'_>) -> Result<McMemberRecord, ErrorStatus> {
    let wanted = checked_record(query)?;
    if !query.has(REQUIRED) {
        return Err(ErrorStatus(SaStatus::INSUFFICIENT_COMPONENTS));
    }
    if !query.view.is_local_prefix(wanted.port_gid().prefix()) {
        return Err(ErrorStatus(SaStatus::INVALID_GID));
    }
    Ok(wanted)
}

/// The record of the request, with its rate and MTU codes checked. Fails if `disable_multicast` is
/// set.
fn checked_record(query: &Query<'_>) -> Result<McMemberRecord, ErrorStatus> {
    if query.view.options().disable_multicast {
        return Err(ErrorStatus(Status::BAD_METHOD_ATTR));
    }
    let wanted: McMemberRecord = query.record();
    let rate = query.has(McMemberRecord::RATE_SELECTOR | McMemberRecord::RATE);
    let mtu = query.has(McMemberRecord::MTU_SELECTOR | McMemberRecord::MTU);
    require(!rate || rate_rank(wanted.rate()).is_some())?;
    require(!mtu || mtu_is_valid(wanted.mtu()))?;
    Ok(wanted)
}

/// Checks SubnAdmSet, which joins a group and creates it if necessary.
pub(super) fn join(query: &Query<'_>) -> Result<Join, RefusedMembership> {
    let wanted = checked_member(query).map_err(because(MALFORMED))?;
    let view = &query.view;
    let port = query.port_by_gid(&wanted.port_gid()).ok_or(invalid("its PortGID is unknown"))?;
    let proxy = port != query.requester;
    if proxy {
        let group = query.registry.group(&wanted.mgid());
        check_proxy(query, group).map_err(because("it may not act for another port"))?;
    }
    check(query.is_visible(port), "it shares no partition with the requester")?;
    let has_pkey = !query.has(McMemberRecord::PKEY) || wanted.pkey().base() != 0;
    check(has_pkey, "the P_Key of the request is invalid")?;
    let state = wanted.join_state();
    check(!state.is_empty(), "JoinState is 0")?;
    let (group, pkey) = match query.registry.group(&wanted.mgid()) {
        Some(group) => {
            // No switch could forward the packets of the group.
            if group.mlid > last_mlid(view.fabric()) {
                let status = ErrorStatus(SaStatus::NO_RESOURCES);
                let reason = "the switches have no room for the group";
                return Err(RefusedMembership { status, reason });
            }
            let validate = view.options().mcgroup_join_validation;
            let is_same = !validate || parameters_match(query, &wanted, &group.spec);
            check(is_same, "Q_Key, P_Key, SL or another component is not that of the group")?;
            let fits = selectors_match(query, &wanted, &group.spec);
            check(fits, "the group has not the MTU or rate of the request")?;
            let is_supported = link_supports(query, port.physical, &group.spec);
            check(is_supported, "its link has not the MTU or rate of the group")?;
            let may_modify = may_modify(query, group, wanted.port_gid());
            check(may_modify, "the member is another port's")?;
            (JoinTarget::Existing(group.spec.mgid), group.spec.pkey)
        }
        None => {
            let spec = creation::new_group(query, &wanted, port).map_err(because(NO_GROUP))?;
            check_group_quota(query).map_err(because("sa_max_groups_per_port is reached"))?;
            let pkey = spec.pkey;
            let mlid = query.has(McMemberRecord::MLID).then(|| wanted.mlid());
            let prefix = view.options().subnet_prefix;
            let last = last_mlid(view.fabric());
            let consolidate = view.options().consolidate_ipv6_snm_req;
            (JoinTarget::New { spec, mlid, last, prefix, consolidate }, pkey)
        }
    };
    check(view.has_pkey(port, pkey), "it is not in the partition of the group")?;
    let is_member = !proxy || query.is_privileged() || view.has_pkey(query.requester, pkey);
    check(is_member, "the requester is not in the partition of the group")?;
    let quota = check_membership_quota(query, &wanted);
    quota.map_err(because("sa_max_memberships_per_port is reached"))?;
    let requester = view.guid(query.requester);
    Ok(Join { group, port_gid: wanted.port_gid(), port: view.guid(port), requester, state, proxy })
}

/// Checks SubnAdmDelete, which leaves a group or gives up some join states (o15-0.1.14).
pub(super) fn leave(query: &Query<'_>) -> Result<Leave, RefusedMembership> {
    let wanted = checked_member(query).map_err(because(MALFORMED))?;
    let no_group = invalid("there is no such group");
    let group = query.registry.group(&wanted.mgid()).ok_or(no_group)?;
    let guid = wanted.port_gid().guid();
    let member = group.members.get(&guid).ok_or(invalid("it is no member"))?;
    let state = wanted.join_state();
    let has_state = !state.is_empty() && member.state.contains(state);
    check(has_state, "it has not the JoinState of the request")?;
    let is_present = query.view.fabric().end_port_by_guid(member.port).is_some();
    check(is_present, "the port of the member is absent")?;
    if member.port != query.view.guid(query.requester) {
        check_proxy(query, Some(group)).map_err(because("it may not act for another port"))?;
    }
    let may_modify = may_modify(query, group, wanted.port_gid());
    check(may_modify, "the member is another port's")?;
    Ok(Leave { mgid: group.spec.mgid, port_gid: wanted.port_gid(), state })
}

/// Checks that the requester may join or leave `group` for another port; `None` is a group that the
/// request creates.
fn check_proxy(query: &Query<'_>, group: Option<&Group>) -> Result<(), ErrorStatus> {
    let requester = query.view.guid(query.requester);
    let is_allowed = query.is_privileged()
        || match TrustRules::of(query.view.options()).proxy_joins {
            ProxyJoins::Partition => true,
            ProxyJoins::OwnGroups => group.is_none_or(|group| group.creator == requester),
            ProxyJoins::Denied => false,
        };
    if is_allowed { Ok(()) } else { Err(ErrorStatus(SaStatus::DENIED)) }
}

/// Checks that another group of the requester does not exceed `sa_max_groups_per_port`.
fn check_group_quota(query: &Query<'_>) -> Result<(), ErrorStatus> {
    let requester = query.view.guid(query.requester);
    let groups = query.registry.iter().filter(|group| group.creator == requester).count();
    let exceeds = groups >= query.view.options().sa_max_groups_per_port as usize;
    if exceeds && !query.is_privileged() {
        Err(ErrorStatus(SaStatus::NO_RESOURCES))
    } else {
        Ok(())
    }
}

/// Checks that another membership that the requester asks for, for itself or for others, does not
/// exceed `sa_max_memberships_per_port`.
fn check_membership_quota(query: &Query<'_>, wanted: &McMemberRecord) -> Result<(), ErrorStatus> {
    let group = query.registry.group(&wanted.mgid());
    let is_member =
        group.is_some_and(|group| group.members.contains_key(&wanted.port_gid().guid()));
    let quota = query.view.options().sa_max_memberships_per_port as usize;
    let count = query.registry.multicast.memberships_of(query.view.guid(query.requester));
    let exceeds = !is_member && !query.is_privileged() && count >= quota;
    if exceeds { Err(ErrorStatus(SaStatus::NO_RESOURCES)) } else { Ok(()) }
}

/// Checks that the requester may modify a membership (o15-0.2.1): the member port may, and for
/// proxy joins any port of the group's partition.
fn may_modify(query: &Query<'_>, group: &Group, member: Gid) -> bool {
    match group.members.get(&member.guid()) {
        None => true,
        Some(GroupMember { proxy: true, .. }) => {
            query.view.has_pkey(query.requester, group.spec.pkey)
        }
        Some(GroupMember { port, .. }) => *port == query.view.guid(query.requester),
    }
}

/// True if the selected components equal the group's parameters. P_Keys match if they belong to the
/// same partition and are not both limited.
fn parameters_match(query: &Query<'_>, wanted: &McMemberRecord, spec: &GroupSpec) -> bool {
    !(is_different(query, McMemberRecord::QKEY, wanted.qkey() != spec.qkey)
        || is_different(query, McMemberRecord::PKEY, !wanted.pkey().matches(spec.pkey))
        || is_different(
            query,
            McMemberRecord::TRAFFIC_CLASS,
            wanted.traffic_class() != spec.traffic_class,
        )
        || is_different(query, McMemberRecord::SL, wanted.sl() != spec.sl)
        || is_different(query, McMemberRecord::FLOW_LABEL, wanted.flow_label() != spec.flow_label)
        || is_different(query, McMemberRecord::HOP_LIMIT, wanted.hop_limit() != spec.hop_limit))
}

fn is_different(query: &Query<'_>, component: u64, differs: bool) -> bool {
    query.has(component) && differs
}

/// True if the group's MTU and rate satisfy the selectors of the request.
fn selectors_match(query: &Query<'_>, wanted: &McMemberRecord, spec: &GroupSpec) -> bool {
    let mtu = query.has(McMemberRecord::MTU_SELECTOR | McMemberRecord::MTU);
    let rate = query.has(McMemberRecord::RATE_SELECTOR | McMemberRecord::RATE);
    (!mtu || satisfies(wanted.mtu_selector(), wanted.mtu().into(), spec.mtu.into()))
        && (!rate
            || satisfies(
                wanted.rate_selector(),
                rank_of_code(wanted.rate()),
                rank_of_code(spec.rate),
            ))
}

/// True if the port's link supports the group's MTU and rate.
fn link_supports(query: &Query<'_>, port: PortId, spec: &GroupSpec) -> bool {
    let mtu = query.view.port_info(port).map_or(0, |info| info.neighbor_mtu());
    let rate = usize::from(query.view.path_index().mtu_rate(port).rate);
    mtu >= spec.mtu && rate_rank(spec.rate).is_none_or(|needed| rate >= needed)
}

/// SubnAdmGet and SubnAdmGetTable. Trusted requesters see every member; others see the groups of
/// their partitions with PortGID, JoinState and ProxyJoin cleared.
pub(super) fn list(query: &Query<'_>, reply: &mut ReplyBuilder) -> Result<(), ErrorStatus> {
    let wanted = checked_record(query)?;
    for group in query.registry.iter() {
        let differs = query.has(McMemberRecord::MGID) && wanted.mgid() != group.spec.mgid
            || query.has(McMemberRecord::MLID) && wanted.mlid() != group.mlid
            || query.has(McMemberRecord::SCOPE) && wanted.scope() != group.spec.scope;
        if differs
            || !query.view.has_pkey(query.requester, group.spec.pkey)
            || !parameters_match(query, &wanted, &group.spec)
            || !selectors_match(query, &wanted, &group.spec)
        {
            continue;
        }
        if push_group(query, &wanted, group, reply).is_break() {
            break;
        }
    }
    Ok(())
}

fn push_group(
    query: &Query<'_>,
    wanted: &McMemberRecord,
    group: &Group,
    reply: &mut ReplyBuilder,
) -> ControlFlow<()> {
    let prefix = query.view.options().subnet_prefix;
    let by_port = query.has(McMemberRecord::PORT_GID);
    if !by_port && !query.is_trusted() {
        // For JoinState and ProxyJoin, an untrusted requester sees the group as one full member.
        let port = Guid::default();
        let state = JoinState::FULL;
        let requester = port;
        let group_itself = GroupMember { port, state, proxy: false, requester, since: 0 };
        return if fits_member(query, wanted, &group_itself) {
            reply.push(&group.record())
        } else {
            ControlFlow::Continue(())
        };
    }
    for (&guid, member) in &group.members {
        let gid = wanted.port_gid();
        let other_port =
            by_port && (gid.guid() != guid || !query.view.is_local_prefix(gid.prefix()));
        if other_port || !fits_member(query, wanted, member) {
            continue;
        }
        if query.is_trusted() {
            reply.push(&group.member_record(Gid::new(prefix, guid), *member))?;
        } else {
            reply.push(&group.record())?;
        }
    }
    ControlFlow::Continue(())
}

fn fits_member(query: &Query<'_>, wanted: &McMemberRecord, member: &GroupMember) -> bool {
    (!query.has(McMemberRecord::JOIN_STATE) || member.state == wanted.join_state())
        && (!query.has(McMemberRecord::PROXY_JOIN) || member.proxy == wanted.proxy_join())
}

/// Appends the reply to a PathRecord query with a multicast DGID: the parameters of the group.
pub(super) fn path_to_group(query: &Query<'_>, wanted: &PathRecord, reply: &mut ReplyBuilder) {
    let Some(group) = query.registry.group(&wanted.dgid()) else { return };
    if !path_matches(query, wanted, group) {
        return;
    }
    let spec = &group.spec;
    let mut record = *wanted;
    record.set_dlid(crate::ids::Lid(group.mlid.0));
    record.set_pkey(spec.pkey);
    record.set_sl(spec.sl);
    record.set_qos_class(0);
    record.set_raw_traffic(false);
    record.set_traffic_class(spec.traffic_class);
    record.set_flow_label(spec.flow_label);
    let hops = if spec.scope == LINK_LOCAL_SCOPE { spec.hop_limit } else { u8::MAX };
    record.set_hop_limit(hops);
    record.set_reversible(false);
    record.set_numb_path(1);
    record.set_mtu_selector(Selector::Exactly);
    record.set_mtu(spec.mtu);
    record.set_rate_selector(Selector::Exactly);
    record.set_rate(spec.rate);
    record.set_packet_life_selector(Selector::Exactly);
    record.set_packet_life(spec.packet_life);
    let _ = reply.push(&record);
}

/// True if the group satisfies a path query, and the source of the query is a member.
fn path_matches(query: &Query<'_>, wanted: &PathRecord, group: &Group) -> bool {
    let spec = &group.spec;
    let view = &query.view;
    let mtu = PathRecord::MTU_SELECTOR | PathRecord::MTU;
    let rate = PathRecord::RATE_SELECTOR | PathRecord::RATE;
    let mtu_fits = satisfies(wanted.mtu_selector(), wanted.mtu().into(), spec.mtu.into());
    let rate_fits =
        satisfies(wanted.rate_selector(), rank_of_code(wanted.rate()), rank_of_code(spec.rate));
    let wants_no_path = query.method != Method::GET && wanted.numb_path() == 0;
    view.has_pkey(query.requester, spec.pkey)
        && !(is_different(query, PathRecord::DLID, wanted.dlid().0 != group.mlid.0)
            || is_different(
                query,
                PathRecord::SGID,
                !is_member_gid(view, &group.members, wanted.sgid()),
            )
            || is_different(
                query,
                PathRecord::SLID,
                !is_member_port(group, view, view.lids().port(wanted.slid())),
            )
            || is_different(query, PathRecord::PKEY, wanted.pkey() != spec.pkey)
            || is_different(query, PathRecord::SL, wanted.sl() != spec.sl)
            || is_different(query, PathRecord::NUMB_PATH, wants_no_path)
            || is_different(query, PathRecord::FLOW_LABEL, wanted.flow_label() != spec.flow_label)
            || is_different(query, PathRecord::HOP_LIMIT, wanted.hop_limit() != spec.hop_limit)
            || is_different(
                query,
                PathRecord::TRAFFIC_CLASS,
                wanted.traffic_class() != spec.traffic_class,
            )
            || is_different(query, mtu, !mtu_fits)
            || is_different(query, rate, !rate_fits))
}

fn rank_of_code(code: u8) -> usize {
    rate_rank(code).unwrap_or(0)
}

fn is_member_port(group: &Group, view: &SubnetView<'_>, port: Option<PortId>) -> bool {
    port.is_some_and(|port| group.has_port(view.guid(port)))
}

fn is_member_gid(view: &SubnetView<'_>, members: &BTreeMap<Guid, GroupMember>, gid: Gid) -> bool {
    view.is_local_prefix(gid.prefix()) && members.contains_key(&gid.guid())
}
