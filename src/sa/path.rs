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

mod walk;

pub(super) use walk::{Passing, walk};

use super::facts::Speed;
use super::limits::{
    choose, known_rate, limited_rate, mtu_is_valid, rate_limit, rate_of_rank, rate_rank,
};
use super::mcmember;
use super::query::{Answer, Query};
use super::refused::Refused;
use super::view::View;
use crate::config::options::OF_PATH;
use crate::config::prefix_routes;
use crate::config::qos_policy::{QosLevel, Ranges};
use crate::fabric::PortId;
use crate::ids::{Gid, Lid, Pkey, Sl};
use crate::plan::qos_policy::Asked;
use crate::wire::attr::NodeKind;
use crate::wire::mad::Method;
use crate::wire::record::{PathRecord, Selector};
use crate::wire::sa::SaStatus;
use std::ops::ControlFlow;
use walk::{Way, way};

/// The answer to who asks with a GID that no port has.
const UNKNOWN_GID: Refused = Refused(SaStatus::INVALID_GID);

/// Answers a path query.
pub(super) fn paths(query: &Query<'_>, answer: &mut Answer) -> Result<(), Refused> {
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
    if [source, destination].iter().any(|end| matches!(end, Ok(End::Nowhere))) {
        return Ok(());
    }
    let (source, destination) = (source?, destination?);
    let all = |end: End| {
        let world = matches!(end, End::Any).then(|| query.view.fabric().end_ports());
        let one = if let End::Port(port) = end { Some(port) } else { None };
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
pub(super) fn validate(query: &Query<'_>, wanted: &PathRecord) -> Result<(), Refused> {
    let rate = query.has(PathRecord::RATE_SELECTOR | PathRecord::RATE);
    let mtu = query.has(PathRecord::MTU_SELECTOR | PathRecord::MTU);
    if rate && rate_rank(wanted.rate()).is_none() || mtu && !mtu_is_valid(wanted.mtu()) {
        return Err(Refused(SaStatus::REQ_INVALID));
    }
    let service = PathRecord::SERVICE_ID_MSB | PathRecord::SERVICE_ID_LSB;
    if query.mask & service != 0 && !query.has(service) {
        return Err(Refused(SaStatus::INSUFFICIENT_COMPONENTS));
    }
    Ok(())
}

/// What a request says about one end of the paths.
#[derive(Clone, Copy)]
enum End {
    /// Nothing.
    Any,
    /// This port.
    Port(PortId),
    /// A LID that no port has.
    Nowhere,
}

/// The end that a GID (of `by_gid`), a LID or both name. That they name different ports makes the
/// request invalid.
fn end(query: &Query<'_>, by_gid: Option<PortId>, lid: Option<Lid>) -> Result<End, Refused> {
    let Some(lid) = lid else { return Ok(by_gid.map_or(End::Any, End::Port)) };
    match (by_gid, query.view.lids().port(lid)) {
        (_, None) => Ok(End::Nowhere),
        (Some(a), Some(b)) if a != b => Err(Refused(SaStatus::REQ_INVALID)),
        (_, Some(port)) => Ok(End::Port(port)),
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
pub(super) fn lids(view: &View<'_>, port: PortId, asked: Option<Lid>) -> Option<(u16, u16)> {
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
    answer: &mut Answer,
) -> ControlFlow<()> {
    let view = &query.view;
    if !query.visible(from) || !query.visible(to) {
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
        let ends = Ends { from, to, slid: Lid(slid + s), dlid: Lid(dlid + d) };
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
pub(super) struct Ends {
    pub from: PortId,
    pub to: PortId,
    pub slid: Lid,
    pub dlid: Lid,
}

impl Ends {
    fn reversed(&self) -> Self {
        Self { from: self.to, to: self.from, slid: self.dlid, dlid: self.slid }
    }
}

/// What a path is good for.
struct Params {
    mtu: u8,
    rate: u8,
    life: u8,
    pkey: Pkey,
    sl: Sl,
}

/// The record of one path, if it is as wanted. The way back belongs to the same traffic, so that
/// it has the same level, whichever rules are about its ends.
pub(super) fn record(
    query: &Query<'_>,
    wanted: &PathRecord,
    level: Option<&QosLevel>,
    ends: &Ends,
) -> Option<PathRecord> {
    let params = params(query, wanted, level, ends)?;
    let back = self::params(query, wanted, level, &ends.reversed());
    let reversible = back.is_some_and(|back| back.sl == params.sl);
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
    record.set_pkey(if is_raw(query, wanted) { Pkey(0) } else { params.pkey });
    record.set_sl(params.sl);
    record.set_mtu_selector(Selector::Exactly);
    record.set_mtu(params.mtu);
    record.set_rate_selector(Selector::Exactly);
    record.set_rate(params.rate);
    record.set_packet_life_selector(Selector::Exactly);
    record.set_packet_life(params.life);
    Some(record)
}

/// A GID comes back as it was asked with (its prefix may be the default one).
fn answered_gid(query: &Query<'_>, component: u64, asked: Gid, port: PortId) -> Gid {
    if query.has(component) { asked } else { query.view.gid(port) }
}

/// What the path from one LID to another is good for; `None` if there is none as wanted.
fn params(
    query: &Query<'_>,
    wanted: &PathRecord,
    level: Option<&QosLevel>,
    ends: &Ends,
) -> Option<Params> {
    let view = &query.view;
    let pkey = pkey(query, wanted, level, ends)?;
    let Way { speed: Speed { mut mtu, mut rate }, dropped } = way(view, ends)?;
    let sl = sl(query, wanted, level, ends, pkey, dropped)?;
    // Packets that do not leave the port are not under way (IBA vol. 1, 15.2.5.16).
    let of_level = level.and_then(|level| level.packet_life);
    let usual = of_level.unwrap_or(view.options().subnet_timeout);
    let mut life = if ends.from == ends.to { 0 } else { usual };
    for limit in limits(query, wanted, level) {
        mtu = limit.mtu.map_or(mtu, |limit| mtu.min(limit));
        let limit = limit.rate.and_then(rate_rank);
        rate = limit.map_or(rate, |limit| rate.min(limit as u8));
    }
    if query.has(PathRecord::MTU_SELECTOR | PathRecord::MTU) {
        let chosen = choose(wanted.mtu_selector(), wanted.mtu().into(), mtu.into(), 1, false)?;
        mtu = chosen as u8;
    }
    if query.has(PathRecord::RATE_SELECTOR | PathRecord::RATE) {
        let rank = rate_rank(wanted.rate())?;
        rate = choose(wanted.rate_selector(), rank, rate.into(), 0, true)? as u8;
    }
    if query.has(PathRecord::PACKET_LIFE_SELECTOR | PathRecord::PACKET_LIFE) {
        let (selector, asked) = (wanted.packet_life_selector(), wanted.packet_life());
        life = choose(selector, asked.into(), life.into(), 1, false)? as u8;
    }
    let rate = told_rate(view, ends, rate_of_rank(rate.into()));
    Some(Params { mtu, rate, life, pkey, sl })
}

/// The rate to answer with: one that clients know, by the configuration or, if that has no limit,
/// by what both ends are capable of.
fn told_rate(view: &View<'_>, ends: &Ends, rate: u8) -> u8 {
    let options = view.options();
    if let Some(limit) = rate_limit(options) {
        return limited_rate(rate, limit);
    }
    let infos = [ends.from, ends.to].map(|port| view.fabric().port(port).info);
    infos.into_iter().flatten().fold(rate, |rate, info| known_rate(rate, &info))
}

/// MTU and rate, as codes, that a path may not exceed.
struct Limit {
    mtu: Option<u8>,
    rate: Option<u8>,
}

/// What limits a path besides its way: the level, and the options for paths to other subnets.
fn limits(
    query: &Query<'_>,
    wanted: &PathRecord,
    level: Option<&QosLevel>,
) -> impl Iterator<Item = Limit> + use<> {
    let of_level = level.map(|level| Limit { mtu: level.mtu_limit, rate: level.rate_limit });
    let options = query.view.options();
    let set = |code: u8| Some(code).filter(|&code| code != OF_PATH);
    let of_routers = leaves_subnet(query, wanted)
        .then(|| Limit { mtu: set(options.rtr_pr_mtu), rate: set(options.rtr_pr_rate) });
    of_level.into_iter().chain(of_routers)
}

/// The SL of a path whose way drops the packets of some SLs; `None` if that asked for is another,
/// or dropped. For torus-2QoS it is the routing's, of which these are a hint: that asked for,
/// that for paths to other subnets, the level's, the partition's.
fn sl(
    query: &Query<'_>,
    wanted: &PathRecord,
    level: Option<&QosLevel>,
    ends: &Ends,
    pkey: Pkey,
    dropped: u16,
) -> Option<Sl> {
    let view = &query.view;
    let of_routers = Some(view.options().rtr_pr_sl)
        .filter(|&sl| sl != OF_PATH && leaves_subnet(query, wanted))
        .map(Sl);
    let ruled = of_routers.or(level.map(|level| level.sl));
    let hint = if query.has(PathRecord::SL) {
        let asked = wanted.sl();
        ruled.is_none_or(|ruled| ruled == asked).then_some(asked)?
    } else {
        ruled.unwrap_or_else(|| view.plan().partitions.service_level(pkey))
    };
    if dropped >> (hint.0 & 0xF) & 1 == 1 {
        return None;
    }
    let sl = view.plan().routing.policy.path_sl(ends.from, ends.to, hint);
    (!query.has(PathRecord::SL) || sl == hint).then_some(sl)
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
    policy.level(&Asked {
        from,
        to: Some(to),
        service_id: query.has(service).then(|| wanted.service_id()),
        qos_class: query.has(PathRecord::QOS_CLASS).then(|| wanted.qos_class()),
        pkey: query.has(PathRecord::PKEY).then(|| wanted.pkey()),
    })
}

/// True if the path is for raw packets.
fn is_raw(query: &Query<'_>, wanted: &PathRecord) -> bool {
    query.has(PathRecord::RAW_TRAFFIC) && wanted.raw_traffic()
}

/// The P_Key of a path: as asked, or one that both ends share; one of the level's, if it has any.
fn pkey(
    query: &Query<'_>,
    wanted: &PathRecord,
    level: Option<&QosLevel>,
    ends: &Ends,
) -> Option<Pkey> {
    let view = &query.view;
    if is_raw(query, wanted) {
        // Raw packets need none, but to reach another port is for partners.
        let none = (ends.from == ends.to).then_some(Pkey(0));
        return view.common_key(ends.from, ends.to).or(none);
    }
    let keys = level.map(|level| &level.pkeys).filter(|keys| !keys.is_empty());
    let allowed = |key: Pkey| keys.is_none_or(|keys| keys.contains(u64::from(key.base())));
    if query.has(PathRecord::PKEY) {
        let asked = wanted.pkey();
        return (view.share_key(ends.from, ends.to, asked) && allowed(asked)).then_some(asked);
    }
    match keys {
        Some(_) => view.common_key_of(ends.from, ends.to, allowed),
        None => view.common_key(ends.from, ends.to),
    }
}
