//! Parameters of a path: MTU, rate, packet lifetime, P_Key and SL, limited by the query, its QoS
//! level and the options.

use super::walk::{PathLimits, path_limits};
use super::{PathEnds, leaves_subnet, quirks};
use crate::config::options::RTR_PR_INHERIT;
use crate::config::qos_policy::QosLevel;
use crate::config::qos_policy::Ranges;
use crate::ids::{Pkey, Sl};
use crate::sa::path_index::MtuRate;
use crate::sa::query::Query;
use crate::sa::rates::{clamp_rate, max_rate, rate_known_to, rate_of_rank, rate_rank};
use crate::sa::selector::choose;
use crate::sa::view::SubnetView;
use crate::wire::record::PathRecord;

/// The parameters of a path, as codes of PathRecord.
pub(super) struct PathParams {
    pub mtu: u8,
    pub rate: u8,
    pub life: u8,
    pub pkey: Pkey,
    pub sl: Sl,
}

/// Parameters of the path between two LIDs; `None` if no path satisfies the query.
pub(super) fn params(
    query: &Query<'_>,
    wanted: &PathRecord,
    level: Option<&QosLevel>,
    ends: &PathEnds,
) -> Option<PathParams> {
    let view = &query.view;
    let pkey = pkey(query, wanted, level, ends)?;
    let PathLimits { mtu_rate: MtuRate { mut mtu, mut rate }, dropped_sls } =
        path_limits(view, ends)?;
    let sl = sl(query, wanted, level, ends, pkey, dropped_sls).ok()?;
    let level_life = level.and_then(|level| level.packet_life);
    let default_life = level_life.unwrap_or(view.options().subnet_timeout);
    mtu = quirks::mtu_limit(query, wanted, ends).map_or(mtu, |limit| mtu.min(limit));
    // Packets from a port to itself take no time on the fabric (IBA vol. 1, 15.2.5.16).
    let mut life = if ends.from.physical == ends.to.physical { 0 } else { default_life };
    for limit in configured_limits(query, wanted, level) {
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
        let selector = wanted.packet_life_selector();
        let asked = wanted.packet_life();
        life = choose(selector, asked.into(), life.into(), 1, false)? as u8;
    }
    let rate = reported_rate(view, ends, rate_of_rank(rate.into()));
    Some(PathParams { mtu, rate, life, pkey, sl })
}

/// The rate of the reply: limited by the configuration or, without a configured limit, to rates
/// that both ends have codes for.
fn reported_rate(view: &SubnetView<'_>, ends: &PathEnds, rate: u8) -> u8 {
    let options = view.options();
    if let Some(limit) = max_rate(options) {
        return clamp_rate(rate, limit);
    }
    let infos = [ends.from, ends.to].map(|port| view.fabric().port(port.physical).info());
    infos.into_iter().flatten().fold(rate, |rate, info| rate_known_to(&info, rate))
}

/// Upper limits of a path, as MTU and rate codes.
struct ConfiguredLimit {
    mtu: Option<u8>,
    rate: Option<u8>,
}

/// Limits of the QoS level and, for paths to other subnets, of the options `rtr_pr_mtu` and
/// `rtr_pr_rate`.
fn configured_limits(
    query: &Query<'_>,
    wanted: &PathRecord,
    level: Option<&QosLevel>,
) -> impl Iterator<Item = ConfiguredLimit> + use<> {
    let of_level =
        level.map(|level| ConfiguredLimit { mtu: level.mtu_limit, rate: level.rate_limit });
    let options = query.view.options();
    let of_routers = leaves_subnet(query, wanted).then(|| ConfiguredLimit {
        mtu: nonzero(options.rtr_pr_mtu),
        rate: nonzero(options.rtr_pr_rate),
    });
    of_level.into_iter().chain(of_routers)
}

fn nonzero(code: u8) -> Option<u8> {
    Some(code).filter(|&code| code != RTR_PR_INHERIT)
}

/// The reason why a path has no SL.
pub(super) enum SlRefusal {
    /// The query asks for another SL than `rtr_pr_sl`.
    RouterSl,
    /// The query asks for another SL than that of its QoS level.
    LevelSl { asked: Sl, level: Sl },
    /// A table on the path maps the SL to VL 15.
    Dropped(Sl),
    /// The query asks for another SL than that of the routing engine.
    EngineSl { asked: Sl, engine: Sl },
}

/// The SL of a path. The routing engine chooses it from a hint: the SL of the query, else
/// `rtr_pr_sl` for paths to other subnets, the SL of the QoS level, or that of the partition.
///
/// # Errors
/// The hint is one of `dropped_sls`, or the query asks for an SL of another QoS level, or for one that the engine
/// does not choose.
pub(super) fn sl(
    query: &Query<'_>,
    wanted: &PathRecord,
    level: Option<&QosLevel>,
    ends: &PathEnds,
    pkey: Pkey,
    dropped_sls: u16,
) -> Result<Sl, SlRefusal> {
    let view = &query.view;
    let asked = query.has(PathRecord::SL).then(|| wanted.sl());
    let of_routers = Some(view.options().rtr_pr_sl)
        .filter(|&sl| sl != RTR_PR_INHERIT && leaves_subnet(query, wanted))
        .map(Sl);
    let of_level = level.map(|level| level.sl);
    let policy = &view.plan().routing.policy;
    // torus-2QoS uses only the high bit of an SL: two SLs with the same one are the same QoS level.
    let is_same_level = |a: Sl, b: Sl| policy.qos_level(a) == policy.qos_level(b);
    match (asked, of_routers, of_level) {
        (Some(asked), Some(router), _) if !is_same_level(asked, router) => {
            return Err(SlRefusal::RouterSl);
        }
        (Some(asked), None, Some(level)) if !is_same_level(asked, level) => {
            return Err(SlRefusal::LevelSl { asked, level });
        }
        _ => {}
    }
    let hint = asked
        .or(of_routers)
        .or(of_level)
        .unwrap_or_else(|| view.plan().partitions.service_level(pkey));
    if dropped_sls >> (hint.0 & 0xF) & 1 == 1 {
        return Err(SlRefusal::Dropped(hint));
    }
    let engine = view.plan().path_sl(ends.from.physical, ends.to.physical, ends.dlid, hint);
    match asked {
        Some(asked) if asked != engine => Err(SlRefusal::EngineSl { asked, engine }),
        _ => Ok(engine),
    }
}

/// True if the query is for raw traffic.
pub(super) fn is_raw(query: &Query<'_>, wanted: &PathRecord) -> bool {
    query.has(PathRecord::RAW_TRAFFIC) && wanted.raw_traffic()
}

/// The P_Key of a path: that of the query if both ends are members, else one that both ends share.
/// A QoS level with P_Keys restricts the choice to these.
pub(super) fn pkey(
    query: &Query<'_>,
    wanted: &PathRecord,
    level: Option<&QosLevel>,
    ends: &PathEnds,
) -> Option<Pkey> {
    let view = &query.view;
    if is_raw(query, wanted) {
        // Raw packets carry no P_Key, but the ends must share a partition.
        let none = (ends.from == ends.to).then_some(Pkey(0));
        return view.common_pkey(ends.from, ends.to).or(none);
    }
    let keys = level.map(|level| &level.pkeys).filter(|keys| !keys.is_empty());
    if query.has(PathRecord::PKEY) {
        let asked = wanted.pkey();
        return (view.share_pkey(ends.from, ends.to, asked) && allows_key(&keys, asked))
            .then_some(asked);
    }
    match keys {
        Some(_) => view.common_pkey_of(ends.from, ends.to, |key| allows_key(&keys, key)),
        None => view.common_pkey(ends.from, ends.to),
    }
}

fn allows_key(keys: &Option<&Ranges>, key: Pkey) -> bool {
    keys.is_none_or(|keys| keys.contains(u64::from(key.base())))
}
