//! PathRecord (IBA vol. 1, 15.2.5.16): how one port reaches another.
//!
//! MTU and rate are the least along the programmed tables ([`mod@walk`]). The SL is the routing
//! engine's, made from that of the partition; a query that asks for another gets no record. Between
//! ports of several LIDs the paths whose LIDs differ at both ends come first (preference 0), then
//! the others.
//!
//! SLs that an SL to VL table on the way leads to VL 15 are no paths.
//!
//! Paths to other subnets lead to a router (prefix-routes.conf) and are as the options rtr_pr_* have
//! them, within what the way to the router allows.
//!
//! With a QoS policy the level of the first rule that the query matches limits MTU and rate, gives
//! SL, P_Key, lifetime and path bits; what the query asks for and the level does not give has no
//! record.

mod params;
mod walk;

pub(super) use walk::{NodeTransit, walk};

use super::mcmember;
use super::query::{Query, ReplyBuilder};
use super::rates::{mtu_is_valid, rate_rank};
use super::status::ErrorStatus;
use super::view::SubnetView;
use crate::config::prefix_routes;
use crate::config::qos_policy::{QosLevel, Ranges};
use crate::fabric::PortId;
use crate::ids::{Gid, Lid, Pkey};
use crate::plan::qos::policy::QosQuery;
use crate::wire::attr::NodeKind;
use crate::wire::mad::Method;
use crate::wire::record::{PathRecord, Selector};
use crate::wire::sa::SaStatus;
use params::{is_raw, params};
use std::ops::ControlFlow;

/// The answer to who asks with a GID that no port has.
const UNKNOWN_GID: ErrorStatus = ErrorStatus(SaStatus::INVALID_GID);

/// Answers a path query.
pub(super) fn paths(query: &Query<'_>, answer: &mut ReplyBuilder) -> Result<(), ErrorStatus> {
    let wanted: PathRecord = query.record();
    validate(query, &wanted)?;
    if query.has(PathRecord::DGID) && wanted.dgid().is_multicast() {
        mcmember::path_to_group(query, &wanted, answer);
        return Ok(());
    }
    let given = |component, gid: Gid| query.has(component).then_some(gid);
    let sgid = given(PathRecord::SGID, wanted.sgid());
    let dgid = given(PathRecord::DGID, wanted.dgid());
    let from = sgid.map(|gid| query.port_by_gid(&gid).ok_or(UNKNOWN_GID)).transpose()?;
    let to = dgid.map(|gid| target(query, gid).ok_or(UNKNOWN_GID)).transpose()?;
    let source = end(query, from, query.has(PathRecord::SLID).then(|| wanted.slid()));
    let destination = end(query, to, query.has(PathRecord::DLID).then(|| wanted.dlid()));
    // That one end is nowhere is known before the other is compared with its GID.
    if [source, destination].iter().any(|end| matches!(end, Ok(PathEnd::Nowhere))) {
        return Ok(());
    }
    let (source, destination) = (source?, destination?);
    let all = |end: PathEnd| {
        let world = matches!(end, PathEnd::Any).then(|| query.view.fabric().end_ports());
        let one = if let PathEnd::Port(port) = end { Some(port) } else { None };
        one.into_iter().chain(world.into_iter().flatten())
    };
    for to in all(destination) {
        for from in all(source) {
            if pair(query, &wanted, from, to, answer).is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Values that no path can have make the whole request invalid.
pub(super) fn validate(query: &Query<'_>, wanted: &PathRecord) -> Result<(), ErrorStatus> {
    let rate = query.has(PathRecord::RATE_SELECTOR | PathRecord::RATE);
    let mtu = query.has(PathRecord::MTU_SELECTOR | PathRecord::MTU);
    if rate && rate_rank(wanted.rate()).is_none() || mtu && !mtu_is_valid(wanted.mtu()) {
        return Err(ErrorStatus(SaStatus::REQ_INVALID));
    }
    let service = PathRecord::SERVICE_ID_MSB | PathRecord::SERVICE_ID_LSB;
    if query.mask & service != 0 && !query.has(service) {
        return Err(ErrorStatus(SaStatus::INSUFFICIENT_COMPONENTS));
    }
    Ok(())
}

/// What a request says about one end of the paths.
#[derive(Clone, Copy)]
enum PathEnd {
    /// Nothing.
    Any,
    /// This port.
    Port(PortId),
    /// A LID that no port has.
    Nowhere,
}

/// The end that a GID (of `by_gid`), a LID or both name. That they name different ports makes the
/// request invalid.
fn end(
    query: &Query<'_>,
    by_gid: Option<PortId>,
    lid: Option<Lid>,
) -> Result<PathEnd, ErrorStatus> {
    let Some(lid) = lid else { return Ok(by_gid.map_or(PathEnd::Any, PathEnd::Port)) };
    match (by_gid, query.view.lids().port(lid)) {
        (_, None) => Ok(PathEnd::Nowhere),
        (Some(a), Some(b)) if a != b => Err(ErrorStatus(SaStatus::REQ_INVALID)),
        (_, Some(port)) => Ok(PathEnd::Port(port)),
    }
}

/// The port that packets to a GID go to: its own, or for other subnets that of a router.
fn target(query: &Query<'_>, gid: Gid) -> Option<PortId> {
    if is_foreign(query, &gid) { router_to(query, gid) } else { query.port_by_gid(&gid) }
}

/// True for unicast GIDs of other subnets.
fn is_foreign(query: &Query<'_>, gid: &Gid) -> bool {
    !gid.is_multicast() && !query.view.is_local_prefix(gid.prefix())
}

/// True if the path goes on in another subnet.
fn leaves_subnet(query: &Query<'_>, wanted: &PathRecord) -> bool {
    query.has(PathRecord::DGID) && is_foreign(query, &wanted.dgid())
}

/// The router port that leads to a GID of another subnet, by prefix-routes.conf. Of several
/// routers the first is that of the lowest GUID with its bytes in reverse, as in OpenSM on the
/// usual machines.
fn router_to(query: &Query<'_>, gid: Gid) -> Option<PortId> {
    let fabric = query.view.fabric();
    let is_router = |port: &PortId| fabric.node_of(*port).kind() == NodeKind::Router;
    match prefix_routes::router(query.prefix_routes, gid.prefix()).ok()? {
        Some(guid) => fabric.port_by_guid(guid).filter(is_router),
        None => fabric
            .end_ports()
            .filter(is_router)
            .min_by_key(|&port| query.view.guid(port).0.swap_bytes()),
    }
}

/// All LIDs of a port, or the one asked for.
pub(super) fn lids(view: &SubnetView<'_>, port: PortId, asked: Option<Lid>) -> Option<(u16, u16)> {
    if let Some(lid) = asked {
        return Some((lid.0, 1));
    }
    Some((view.lids().base(port)?.0, 1 << view.lids().lmc(port)))
}

/// The path bits that a level wants, if any of a destination's LIDs, so many, has them.
pub(super) fn path_bits(level: Option<&QosLevel>, targets: u16) -> Option<&Ranges> {
    let bits = level.map(|level| &level.path_bits);
    bits.filter(|bits| (0..targets).any(|d| bits.contains(d.into())))
}

/// The paths from one port to another.
fn pair(
    query: &Query<'_>,
    wanted: &PathRecord,
    from: PortId,
    to: PortId,
    answer: &mut ReplyBuilder,
) -> ControlFlow<()> {
    let view = &query.view;
    if !query.is_visible(from) || !query.is_visible(to) {
        return ControlFlow::Continue(());
    }
    let most = match query.method {
        Method::GET => 1,
        _ if query.has(PathRecord::NUMB_PATH) => usize::from(wanted.numb_path()),
        _ => usize::MAX,
    };
    let slids = lids(view, from, query.has(PathRecord::SLID).then(|| wanted.slid()));
    let dlids = lids(view, to, query.has(PathRecord::DLID).then(|| wanted.dlid()));
    let (Some((slid, sources)), Some((dlid, targets))) = (slids, dlids) else {
        return ControlFlow::Continue(());
    };
    let is_whole = !query.has(PathRecord::DLID);
    let level = level(query, wanted, from, to);
    let bits = path_bits(level, targets).filter(|_| is_whole);
    let apart = (0..sources.min(targets)).map(|n| (n, n, 0));
    let rest = (0..sources).flat_map(|s| (0..targets).map(move |d| (s, d, 2)));
    let rest = rest.filter(|(s, d, _)| s != d);
    let chosen = |d: &u16| bits.is_none_or(|bits| bits.contains(u64::from(*d)));
    let paths = apart.chain(rest).filter(|(_, d, _)| chosen(d));
    let records = paths.filter_map(|(s, d, preference)| {
        let ends = PathEnds { from, to, slid: Lid(slid + s), dlid: Lid(dlid + d) };
        let mut record = record(query, wanted, level, &ends)?;
        record.set_preference(preference);
        Some(record)
    });
    for record in records.take(most) {
        named(query, record, (from, to)).try_for_each(|record| answer.push(&record))?;
        if query.method == Method::GET {
            // One path is what Get is for, though there may be others.
            return ControlFlow::Break(());
        }
    }
    ControlFlow::Continue(())
}

/// The record of a path for each GID that its ends have, where the query does not name them by
/// GID. One is enough for a Get.
fn named<'a>(
    query: &'a Query<'_>,
    record: PathRecord,
    (from, to): (PortId, PortId),
) -> impl Iterator<Item = PathRecord> + 'a {
    let gids = |component, named: Gid, port| {
        let is_named = query.has(component) || query.method == Method::GET;
        let all = (!is_named).then(|| query.gids(port));
        is_named.then_some(named).into_iter().chain(all.into_iter().flatten())
    };
    let sources = move || gids(PathRecord::SGID, record.sgid(), from);
    gids(PathRecord::DGID, record.dgid(), to).flat_map(move |dgid| {
        sources().map(move |sgid| {
            let mut record = record;
            record.set_sgid(sgid);
            record.set_dgid(dgid);
            record
        })
    })
}

/// The two ends of a path.
#[derive(Clone, Copy)]
pub(super) struct PathEnds {
    pub from: PortId,
    pub to: PortId,
    pub slid: Lid,
    pub dlid: Lid,
}

impl PathEnds {
    fn reversed(&self) -> Self {
        Self { from: self.to, to: self.from, slid: self.dlid, dlid: self.slid }
    }
}

/// The record of one path, if it is as wanted. The way back belongs to the same traffic, so that
/// it has the same level, whichever rules are about its ends.
pub(super) fn record(
    query: &Query<'_>,
    wanted: &PathRecord,
    level: Option<&QosLevel>,
    ends: &PathEnds,
) -> Option<PathRecord> {
    let there = params(query, wanted, level, ends)?;
    let back = params(query, wanted, level, &ends.reversed());
    let reversible = back.is_some_and(|back| back.sl == there.sl);
    if query.has(PathRecord::REVERSIBLE) && wanted.reversible() && !reversible {
        return None;
    }
    let mut record = PathRecord::default();
    record.set_sgid(answered_gid(query, PathRecord::SGID, wanted.sgid(), ends.from));
    record.set_dgid(answered_gid(query, PathRecord::DGID, wanted.dgid(), ends.to));
    record.set_slid(ends.slid);
    record.set_dlid(ends.dlid);
    if leaves_subnet(query, wanted) {
        let options = query.view.options();
        record.set_hop_limit(u8::MAX);
        record.set_flow_label(options.rtr_pr_flow_label);
        record.set_traffic_class(options.rtr_pr_tclass);
    }
    record.set_reversible(reversible);
    // Raw packets are of no partition.
    record.set_pkey(if is_raw(query, wanted) { Pkey(0) } else { there.pkey });
    record.set_sl(there.sl);
    record.set_mtu_selector(Selector::Exactly);
    record.set_mtu(there.mtu);
    record.set_rate_selector(Selector::Exactly);
    record.set_rate(there.rate);
    record.set_packet_life_selector(Selector::Exactly);
    record.set_packet_life(there.life);
    Some(record)
}

/// A GID comes back as it was asked with (its prefix may be the default one).
fn answered_gid(query: &Query<'_>, component: u64, asked: Gid, port: PortId) -> Gid {
    if query.has(component) { asked } else { query.view.gid(port) }
}

/// The QoS level of a path; `None` without a policy.
pub(super) fn level<'a>(
    query: &Query<'a>,
    wanted: &PathRecord,
    from: PortId,
    to: PortId,
) -> Option<&'a QosLevel> {
    let policy = query.view.qos_policy()?;
    let service = PathRecord::SERVICE_ID_MSB | PathRecord::SERVICE_ID_LSB;
    policy.level(&QosQuery {
        from,
        to: Some(to),
        service_id: query.has(service).then(|| wanted.service_id()),
        qos_class: query.has(PathRecord::QOS_CLASS).then(|| wanted.qos_class()),
        pkey: query.has(PathRecord::PKEY).then(|| wanted.pkey()),
    })
}
