//! What a path is good for: MTU and rate, lifetime, P_Key and SL, within what the query, its QoS level
//! and the options allow.

use super::walk::{Way, way};
use super::{Ends, leaves_subnet};
use crate::config::options::OF_PATH;
use crate::config::qos_policy::QosLevel;
use crate::ids::{Pkey, Sl};
use crate::sa::facts::Speed;
use crate::sa::limits::{choose, known_rate, limited_rate, rate_limit, rate_of_rank, rate_rank};
use crate::sa::query::Query;
use crate::sa::view::View;
use crate::wire::record::PathRecord;

/// What a path is good for.
pub(super) struct Params {
    pub mtu: u8,
    pub rate: u8,
    pub life: u8,
    pub pkey: Pkey,
    pub sl: Sl,
}

/// What the path from one LID to another is good for; `None` if there is none as wanted.
pub(super) fn params(
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

/// True if the path is for raw packets.
pub(super) fn is_raw(query: &Query<'_>, wanted: &PathRecord) -> bool {
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
