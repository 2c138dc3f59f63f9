//! PathRecord (IBA vol. 1, 15.2.5.16): the paths between two ports.
//!
//! * MTU and rate are the minima along the planned tables ([`mod@walk`]).
//! * The routing engine chooses the SL, given that of the partition. A query for another SL gets no
//!   record, nor does one for an SL that a table on the path maps to VL 15.
//! * Between ports with several LIDs, paths whose LIDs differ at both ends come first (preference
//!   0), then the others.
//! * Paths from or to vports have the HopLimit of `virt_default_hop_limit`.
//! * Paths to other subnets lead to a router (prefix-routes.conf). Their parameters are those of
//!   the options rtr_pr_*, limited by the path to the router.
//! * With a QoS policy, the QoS level of the first matching rule limits MTU and rate and sets SL,
//!   P_Key, packet lifetime and path bits. A query that contradicts the level gets no record.

mod params;
mod quirks;
mod refusal;
mod walk;

pub(super) use refusal::refusal;
pub(super) use walk::{NodeTransit, walk};

use super::mcmember;
use super::query::{Query, ReplyBuilder};
use super::rates::{mtu_is_valid, rate_rank};
use super::status::ErrorStatus;
use super::view::SubnetView;
use crate::config::prefix_routes;
use crate::config::qos_policy::{QosLevel, Ranges};
use crate::fabric::Fabric;
use crate::fabric::PortId;
use crate::fabric::virtual_ports::EndPort;
use crate::ids::{Gid, Lid, Pkey};
use crate::plan::qos::policy::QosQuery;
use crate::wire::attr::NodeKind;
use crate::wire::mad::Method;
use crate::wire::record::{PathRecord, Selector};
use crate::wire::sa::SaStatus;
use params::{is_raw, params};
use std::ops::ControlFlow;

/// Status of a query with a GID that no port has.
const UNKNOWN_GID: ErrorStatus = ErrorStatus(SaStatus::INVALID_GID);

/// Handles SubnAdmGet and SubnAdmGetTable of PathRecord.
pub(super) fn paths(query: &Query<'_>, reply: &mut ReplyBuilder) -> Result<(), ErrorStatus> {
    let wanted: PathRecord = query.record();
    validate(query, &wanted)?;
    if query.has(PathRecord::DGID) && wanted.dgid().is_multicast() {
        mcmember::path_to_group(query, &wanted, reply);
        return Ok(());
    }
    let sgid = given_gid(query, PathRecord::SGID, wanted.sgid());
    let dgid = given_gid(query, PathRecord::DGID, wanted.dgid());
    let from = sgid.map(|gid| query.port_by_gid(&gid).ok_or(UNKNOWN_GID)).transpose()?;
    let to = dgid.map(|gid| destination_port(query, gid).ok_or(UNKNOWN_GID)).transpose()?;
    let source = path_end(query, from, query.has(PathRecord::SLID).then(|| wanted.slid()));
    let destination = path_end(query, to, query.has(PathRecord::DLID).then(|| wanted.dlid()));
    // An unknown LID of either end gives no records, even if the LID and GID of the other disagree.
    if [source, destination].iter().any(|end| matches!(end, Ok(PathEnd::UnknownLid))) {
        return Ok(());
    }
    let source = source?;
    let destination = destination?;
    for to in ports_of(query, destination) {
        for from in ports_of(query, source) {
            if push_paths(query, &wanted, from, to, reply).is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn given_gid(query: &Query<'_>, component: u64, gid: Gid) -> Option<Gid> {
    query.has(component).then_some(gid)
}

/// The ports that an end of the query selects.
fn ports_of(query: &Query<'_>, end: PathEnd) -> impl Iterator<Item = EndPort> {
    let all =
        matches!(end, PathEnd::Any).then(|| query.view.fabric().end_ports().map(EndPort::from));
    let one = if let PathEnd::Port(port) = end { Some(port) } else { None };
    one.into_iter().chain(all.into_iter().flatten())
}

/// Rejects undefined rate and MTU codes, and half a ServiceID.
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

/// One end of the paths, as the query selects it.
#[derive(Clone, Copy)]
enum PathEnd {
    /// Every end port.
    Any,
    Port(EndPort),
    /// The query contains a LID that no port has.
    UnknownLid,
}

/// Combines the port of a GID and a LID; `REQ_INVALID` if they belong to different ports.
fn path_end(
    query: &Query<'_>,
    by_gid: Option<EndPort>,
    lid: Option<Lid>,
) -> Result<PathEnd, ErrorStatus> {
    let Some(lid) = lid else { return Ok(by_gid.map_or(PathEnd::Any, PathEnd::Port)) };
    let view = &query.view;
    match (by_gid, view.lids().owner(lid)) {
        (_, None) => Ok(PathEnd::UnknownLid),
        (Some(end), Some(_)) if !receives_at(view, end, lid) => {
            Err(ErrorStatus(SaStatus::REQ_INVALID))
        }
        (Some(end), Some(_)) => Ok(PathEnd::Port(end)),
        (None, Some(owner)) => Ok(PathEnd::Port(owner)),
    }
}

/// The port that packets to a GID are sent to: a router port for GIDs of other subnets.
fn destination_port(query: &Query<'_>, gid: Gid) -> Option<EndPort> {
    if is_foreign(query, &gid) {
        router_to(query, gid).map(EndPort::from)
    } else {
        query.port_by_gid(&gid)
    }
}

/// True for unicast GIDs of other subnets.
fn is_foreign(query: &Query<'_>, gid: &Gid) -> bool {
    !gid.is_multicast() && !query.view.is_local_prefix(gid.prefix())
}

/// True if the destination is in another subnet.
fn leaves_subnet(query: &Query<'_>, wanted: &PathRecord) -> bool {
    query.has(PathRecord::DGID) && is_foreign(query, &wanted.dgid())
}

/// The router port to a GID of another subnet, by prefix-routes.conf. If that allows any router,
/// the first in OpenSM's order of GUIDs.
fn router_to(query: &Query<'_>, gid: Gid) -> Option<PortId> {
    let fabric = query.view.fabric();
    match prefix_routes::router(query.prefix_routes, gid.prefix()).ok()? {
        Some(guid) => fabric.port_by_guid(guid).filter(|port| is_router(fabric, port)),
        None => fabric
            .end_ports()
            .filter(|port| is_router(fabric, port))
            .min_by_key(|&port| query.view.guid(port).opensm_order()),
    }
}

fn is_router(fabric: &Fabric, port: &PortId) -> bool {
    fabric.node_of(*port).kind() == NodeKind::Router
}

/// The LIDs of a path end: the one of the query, or all LIDs of the port. Returns the first LID and
/// the number of LIDs.
pub(super) fn lids(view: &SubnetView<'_>, end: EndPort, wanted: Option<Lid>) -> Option<(u16, u16)> {
    if let Some(lid) = wanted {
        return Some((lid.0, 1));
    }
    let base = view.lids().receives_at(view.fabric(), end)?;
    Some((base.0, 1 << view.lids().lmc_at(view.fabric(), end)))
}

/// True if a LID is one of those at which an end port receives packets.
fn receives_at(view: &SubnetView<'_>, end: EndPort, lid: Lid) -> bool {
    let range = lids(view, end, None);
    range.is_some_and(|(first, count)| (first..=first + (count - 1)).contains(&lid.0))
}

/// The path bits of a QoS level, if at least one of the destination's `lid_count` LIDs has them.
/// They hold for queries by DLID, too.
pub(super) fn path_bits(level: Option<&QosLevel>, lid_count: u16) -> Option<&Ranges> {
    let bits = level.map(|level| &level.path_bits);
    bits.filter(|bits| (0..lid_count).any(|d| bits.contains(d.into())))
}

/// Appends the paths between two ports.
fn push_paths(
    query: &Query<'_>,
    wanted: &PathRecord,
    from: EndPort,
    to: EndPort,
    reply: &mut ReplyBuilder,
) -> ControlFlow<()> {
    let view = &query.view;
    if !query.is_visible(from) || !query.is_visible(to) {
        return ControlFlow::Continue(());
    }
    let max_paths = match query.method {
        Method::GET => 1,
        _ if query.has(PathRecord::NUMB_PATH) => usize::from(wanted.numb_path()),
        _ => usize::MAX,
    };
    let slids = lids(view, from, query.has(PathRecord::SLID).then(|| wanted.slid()));
    let dlids = lids(view, to, query.has(PathRecord::DLID).then(|| wanted.dlid()));
    let (Some((slid, sources)), Some((dlid, targets))) = (slids, dlids) else {
        return ControlFlow::Continue(());
    };
    let level = level(query, wanted, from, to);
    let (base, lid_count) = lids(view, to, None).unwrap_or((dlid, 1));
    let bits = path_bits(level, lid_count);
    let disjoint = (0..sources.min(targets)).map(|n| (n, n, 0));
    let rest = (0..sources).flat_map(|s| (0..targets).map(move |d| (s, d, 2)));
    let rest = rest.filter(|(s, d, _)| s != d);
    let paths = disjoint.chain(rest).filter(|(_, d, _)| has_path_bits(&bits, d, dlid, base));
    let records = paths.filter_map(|(s, d, preference)| {
        let ends = PathEnds { from, to, slid: Lid(slid + s), dlid: Lid(dlid + d) };
        let mut record = record(query, wanted, level, &ends)?;
        record.set_preference(preference);
        Some(record)
    });
    for record in records.take(max_paths) {
        with_gids(query, record, from, to).try_for_each(|record| reply.push(&record))?;
        if query.method == Method::GET {
            // SubnAdmGet returns one path even if several exist.
            return ControlFlow::Break(());
        }
    }
    ControlFlow::Continue(())
}

fn has_path_bits(bits: &Option<&Ranges>, d: &u16, dlid: u16, base: u16) -> bool {
    bits.is_none_or(|bits| bits.contains(u64::from((dlid + d).saturating_sub(base))))
}

/// The record of a path for every GID, aliases included, of the ends that the query does not select
/// by GID. SubnAdmGet gets a single record.
fn with_gids<'a>(
    query: &'a Query<'_>,
    record: PathRecord,
    from: EndPort,
    to: EndPort,
) -> impl Iterator<Item = PathRecord> + 'a {
    let dgids = gids(query, PathRecord::DGID, record.dgid(), to);
    dgids.flat_map(move |dgid| {
        gids(query, PathRecord::SGID, record.sgid(), from).map(move |sgid| {
            let mut record = record;
            record.set_sgid(sgid);
            record.set_dgid(dgid);
            record
        })
    })
}

/// The GIDs of one end of a path: that of the record if the query selects by it, or else each GID of the
/// port.
fn gids<'a>(
    query: &'a Query<'_>,
    component: u64,
    named: Gid,
    port: EndPort,
) -> impl Iterator<Item = Gid> + 'a {
    let is_named = query.has(component) || query.method == Method::GET;
    let all = (!is_named).then(|| query.gids(port));
    is_named.then_some(named).into_iter().chain(all.into_iter().flatten())
}

/// Source and destination of a path.
#[derive(Clone, Copy)]
pub(super) struct PathEnds {
    pub from: EndPort,
    pub to: EndPort,
    pub slid: Lid,
    pub dlid: Lid,
}

impl PathEnds {
    fn reversed(&self) -> Self {
        Self { from: self.to, to: self.from, slid: self.dlid, dlid: self.slid }
    }
}

/// The record of one path; `None` if it does not satisfy the query. The reverse direction carries
/// the same traffic and therefore has the same QoS level, whatever the policy says about its ends.
pub(super) fn record(
    query: &Query<'_>,
    wanted: &PathRecord,
    level: Option<&QosLevel>,
    ends: &PathEnds,
) -> Option<PathRecord> {
    let forward = params(query, wanted, level, ends)?;
    let reverse = params(query, wanted, level, &ends.reversed());
    let reversible = reverse.is_some_and(|reverse| reverse.sl == forward.sl);
    if query.has(PathRecord::REVERSIBLE) && wanted.reversible() && !reversible {
        return None;
    }
    let mut record = PathRecord::default();
    record.set_sgid(reply_gid(query, PathRecord::SGID, wanted.sgid(), ends.from));
    record.set_dgid(reply_gid(query, PathRecord::DGID, wanted.dgid(), ends.to));
    record.set_slid(ends.slid);
    record.set_dlid(ends.dlid);
    if ends.from.is_virtual() || ends.to.is_virtual() {
        // Vports with the same LID are told apart by the GIDs of a global route header, which
        // users send if HopLimit is above 1.
        record.set_hop_limit(query.view.options().virt_default_hop_limit);
    }
    if leaves_subnet(query, wanted) {
        let options = query.view.options();
        record.set_hop_limit(u8::MAX);
        record.set_flow_label(options.rtr_pr_flow_label);
        record.set_traffic_class(options.rtr_pr_tclass);
    }
    if query.has(PathRecord::QOS_CLASS) {
        record.set_qos_class(wanted.qos_class());
    }
    record.set_reversible(reversible);
    // Raw packets carry no P_Key.
    record.set_pkey(if is_raw(query, wanted) { Pkey(0) } else { forward.pkey });
    record.set_sl(forward.sl);
    record.set_mtu_selector(Selector::Exactly);
    record.set_mtu(forward.mtu);
    record.set_rate_selector(Selector::Exactly);
    record.set_rate(forward.rate);
    record.set_packet_life_selector(Selector::Exactly);
    record.set_packet_life(forward.life);
    Some(record)
}

/// The GID of a path end: that of the query, which may have the default prefix, else the port's.
fn reply_gid(query: &Query<'_>, component: u64, wanted: Gid, port: EndPort) -> Gid {
    if query.has(component) { wanted } else { query.view.gid(port) }
}

/// The QoS level of a path; `None` without a QoS policy.
pub(super) fn level<'a>(
    query: &Query<'a>,
    wanted: &PathRecord,
    from: EndPort,
    to: EndPort,
) -> Option<&'a QosLevel> {
    let policy = query.view.qos_policy()?;
    let service = PathRecord::SERVICE_ID_MSB | PathRecord::SERVICE_ID_LSB;
    policy.level(&QosQuery {
        from: from.physical,
        to: Some(to.physical),
        service_id: query.has(service).then(|| wanted.service_id()),
        qos_class: query.has(PathRecord::QOS_CLASS).then(|| wanted.qos_class()),
        pkey: query.has(PathRecord::PKEY).then(|| wanted.pkey()),
    })
}
