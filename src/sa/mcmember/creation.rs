//! What a group is like that a join creates.
//!
//! What the creator says counts, within what its port can do; it must say Q_Key, traffic class,
//! flow label, P_Key and SL (o15-0.2.3). With a QoS policy the level of the first rule that the
//! joining port, as a source, and the P_Key match has its part: it gives P_Key, SL and packet lifetime
//! if the creator does not say them, and sets the upper limit of MTU and rate. Who asks for more, or for
//! a P_Key that the level does not have, is refused as one who asks for more than its port can
//! do. An SL that the creator says is the group's, whatever the level has: hosts take it over from
//! the broadcast group. Rules with a destination, a service ID or a QoS class are not about groups.
//!
//! The groups of an IPoIB link are like its broadcast group (RFC 4391, 5), so that no policy is
//! in the way of a host whose driver creates them: they have its P_Key and SL, and no limits.
//! OpenSM asks the policy for none of all this.

use super::{INVALID, LINK_LOCAL_SCOPE, require, same_group};
use crate::config::qos_policy::QosLevel;
use crate::fabric::PortId;
use crate::ids::{Gid, Pkey, Sl};
use crate::plan::qos::policy::QosQuery;
use crate::sa::query::Query;
use crate::sa::rates::{clamp_rate, max_rate, mtu_is_valid, rate_of_rank, rate_rank};
use crate::sa::registry::groups::{GroupSpec, broadcast_mgid};
use crate::sa::selector::choose;
use crate::sa::status::ErrorStatus;
use crate::wire::record::{McMemberRecord, Selector};
use crate::wire::sa::SaStatus;

/// What every creator must say.
const REQUIRED: u64 =
    McMemberRecord::QKEY | McMemberRecord::TRAFFIC_CLASS | McMemberRecord::FLOW_LABEL;

/// The status for what is not said and nobody else says.
const INSUFFICIENT: ErrorStatus = ErrorStatus(SaStatus::INSUFFICIENT_COMPONENTS);

/// The group that a join is to create.
pub(super) fn new_group(
    query: &Query<'_>,
    wanted: &McMemberRecord,
    port: PortId,
) -> Result<GroupSpec, ErrorStatus> {
    require(wanted.join_state().keeps_group())?;
    if !query.has(REQUIRED) {
        return Err(INSUFFICIENT);
    }
    let creation = Creation::new(query, wanted, port);
    let (pkey, sl) = (creation.pkey()?, creation.sl()?);
    let mgid = wanted.mgid();
    let scope = match (query.has(McMemberRecord::SCOPE), mgid == Gid::default()) {
        (true, _) => wanted.scope(),
        (false, true) => LINK_LOCAL_SCOPE,
        (false, false) => mgid.0[1] & 0xF,
    };
    if mgid != Gid::default() && query.view.options().ipoib_mcgroup_creation_validation {
        validate_mgid(query, wanted)?;
    }
    let hops = if scope == LINK_LOCAL_SCOPE { 0 } else { u8::MAX };
    let hop_limit = match query.has(McMemberRecord::HOP_LIMIT) {
        true => wanted.hop_limit(),
        false => hops,
    };
    Ok(GroupSpec {
        mgid,
        qkey: wanted.qkey(),
        mtu: creation.mtu()?,
        rate: creation.rate()?,
        packet_life: creation.packet_life()?,
        pkey,
        sl,
        traffic_class: wanted.traffic_class(),
        flow_label: wanted.flow_label(),
        hop_limit,
        scope,
    })
}

/// A group to be, and who has a say in what it is like.
struct Creation<'a> {
    query: &'a Query<'a>,
    wanted: &'a McMemberRecord,
    port: PortId,
    /// The broadcast group of the IPoIB link that the group belongs to.
    broadcast: Option<&'a GroupSpec>,
    /// The level of the QoS policy.
    level: Option<&'a QosLevel>,
}

impl<'a> Creation<'a> {
    fn new(query: &'a Query<'a>, wanted: &'a McMemberRecord, port: PortId) -> Self {
        let policy = query.view.qos_policy();
        let broadcast = broadcast_of(&wanted.mgid()).filter(|_| policy.is_some());
        let broadcast = broadcast.and_then(|mgid| query.registry.group(&mgid));
        let asked = QosQuery {
            from: port,
            to: None,
            service_id: None,
            qos_class: None,
            pkey: query.has(McMemberRecord::PKEY).then(|| wanted.pkey()),
        };
        let level = policy.filter(|_| broadcast.is_none()).and_then(|policy| policy.level(&asked));
        Self { query, wanted, port, broadcast: broadcast.map(|group| &group.spec), level }
    }

    fn pkey(&self) -> Result<Pkey, ErrorStatus> {
        let keys = self.level.map(|level| &level.pkeys).filter(|keys| !keys.is_empty());
        let is_allowed = |key: Pkey| keys.is_none_or(|keys| keys.contains(key.base().into()));
        if self.query.has(McMemberRecord::PKEY) {
            let key = self.wanted.pkey();
            return is_allowed(key).then_some(key).ok_or(INVALID);
        }
        if let Some(broadcast) = self.broadcast {
            return Ok(broadcast.pkey);
        }
        if keys.is_none() {
            return Err(INSUFFICIENT);
        }
        let held = self.query.view.pkeys(self.port).iter().copied();
        let first =
            held.filter(|&key| is_allowed(key)).min_by_key(|key| (key.base(), !key.is_full()));
        first.ok_or(INVALID)
    }

    fn sl(&self) -> Result<Sl, ErrorStatus> {
        if self.query.has(McMemberRecord::SL) {
            return Ok(self.wanted.sl());
        }
        // What the routing makes of the level's on the way from a port to itself, where nothing
        // has to be avoided: of torus-2QoS the bit that tells the two qualities of service apart.
        let policy = &self.query.view.plan().routing.policy;
        let of_level = self.level.map(|level| policy.path_sl(self.port, self.port, level.sl));
        self.broadcast.map(|broadcast| broadcast.sl).or(of_level).ok_or(INSUFFICIENT)
    }

    fn mtu(&self) -> Result<u8, ErrorStatus> {
        let (query, wanted) = (self.query, self.wanted);
        let of_port = query.view.port_info(self.port).map_or(0, |info| info.neighbor_mtu());
        let limit = self.level.and_then(|level| level.mtu_limit);
        let mut mtu = limit.map_or(of_port, |limit| limit.min(of_port));
        if query.has(McMemberRecord::MTU_SELECTOR | McMemberRecord::MTU) {
            let (selector, asked) = (wanted.mtu_selector(), wanted.mtu());
            let chosen = choose(selector, asked.into(), mtu.into(), 1, false).ok_or(INVALID)?;
            mtu = chosen as u8;
        }
        require(mtu_is_valid(mtu)).map(|()| mtu)
    }

    fn rate(&self) -> Result<u8, ErrorStatus> {
        let (query, wanted) = (self.query, self.wanted);
        let of_port = usize::from(query.view.path_index().mtu_rate(self.port).rate);
        let limit = self.level.and_then(|level| level.rate_limit).and_then(rate_rank);
        let mut rate = limit.map_or(of_port, |limit| limit.min(of_port));
        if query.has(McMemberRecord::RATE_SELECTOR | McMemberRecord::RATE) {
            let rank = rate_rank(wanted.rate()).ok_or(INVALID)?;
            rate = choose(wanted.rate_selector(), rank, rate, 0, false).ok_or(INVALID)?;
        }
        let rate = rate_of_rank(rate);
        Ok(max_rate(query.view.options()).map_or(rate, |limit| clamp_rate(rate, limit)))
    }

    /// Without a level of its own lifetime what is said is taken as it is, as OpenSM does.
    fn packet_life(&self) -> Result<u8, ErrorStatus> {
        const LONGEST: u8 = 63;
        let (query, wanted) = (self.query, self.wanted);
        let of_level = self.level.and_then(|level| level.packet_life);
        let usual = of_level.unwrap_or(query.view.options().subnet_timeout);
        if !query.has(McMemberRecord::PACKET_LIFE) {
            return Ok(usual);
        }
        let asked = wanted.packet_life();
        if of_level.is_none() || !query.has(McMemberRecord::PACKET_LIFE_SELECTOR) {
            return Ok(asked);
        }
        match wanted.packet_life_selector() {
            Selector::Exactly => Ok(asked),
            Selector::Best => Ok(usual),
            Selector::GreaterThan => require(asked < LONGEST).map(|()| usual.max(asked + 1)),
            Selector::LessThan => Ok(usual.min(asked.checked_sub(1).ok_or(INVALID)?)),
        }
    }
}

/// What an MGID is for.
fn signature(mgid: &Gid) -> u16 {
    u16::from_be_bytes([mgid.0[2], mgid.0[3]])
}

/// The broadcast group of the IPoIB link that an MGID belongs to, by scope and P_Key (RFC 4391, 4).
fn broadcast_of(mgid: &Gid) -> Option<Gid> {
    const IPV4: u16 = 0x401B;
    const IPV6: u16 = 0x601B;
    let is_ipoib = mgid.is_multicast() && [IPV4, IPV6].contains(&signature(mgid));
    let pkey = Pkey(u16::from_be_bytes([mgid.0[4], mgid.0[5]]));
    is_ipoib.then(|| broadcast_mgid(mgid.0[1] & 0xF, pkey))
}

/// o15-0.1.5: which names clients may give. Those of IPoIB need their broadcast group first and
/// must agree with it (RFC 4391, 5).
fn validate_mgid(query: &Query<'_>, wanted: &McMemberRecord) -> Result<(), ErrorStatus> {
    const ADMINISTRATOR: u16 = 0xA01B;
    let mgid = wanted.mgid();
    let (flags, scope) = (mgid.0[1] >> 4, mgid.0[1] & 0xF);
    require(mgid.is_multicast())?;
    match broadcast_of(&mgid) {
        Some(broadcast) if broadcast == mgid => Ok(()),
        Some(broadcast) => {
            let broadcast = query.registry.group(&broadcast).ok_or(INVALID)?;
            require(same_group(query, wanted, &broadcast.spec))
        }
        None => {
            require(flags & 0b1110 == 0)?;
            require(signature(&mgid) != ADMINISTRATOR || scope != LINK_LOCAL_SCOPE)
        }
    }
}
