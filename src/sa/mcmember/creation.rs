//! Parameters of a multicast group that a join creates.
//!
//! The request sets the parameters, limited by the capabilities of the joining port. Q_Key, traffic
//! class, flow label, P_Key and SL are required (o15-0.2.3).
//!
//! With a QoS policy, the QoS level of the first rule that matches the P_Key and the joining port
//! as source supplies a missing P_Key, SL or packet lifetime and limits MTU and rate. A request
//! above these limits, or for a P_Key outside the level, is rejected. An SL in the request takes
//! precedence over the level, because hosts copy it from the broadcast group. Rules with a
//! destination, a service ID or a QoS class never match.
//!
//! Groups of an IPoIB link get the P_Key and SL of its broadcast group and no limits (RFC 4391,
//! section 5), so that a policy does not reject groups that drivers create. OpenSM applies no QoS
//! policy to groups.

use super::{INVALID, LINK_LOCAL_SCOPE, parameters_match, require};
use crate::config::qos_policy::QosLevel;
use crate::config::qos_policy::Ranges;
use crate::fabric::virtual_ports::EndPort;
use crate::ids::{Gid, Pkey, Sl};
use crate::plan::qos::policy::QosQuery;
use crate::sa::query::Query;
use crate::sa::rates::{clamp_rate, max_rate, mtu_is_valid, rate_of_rank, rate_rank};
use crate::sa::registry::groups::GroupSpec;
use crate::sa::selector::choose;
use crate::sa::status::ErrorStatus;
use crate::wire::record::{McMemberRecord, Selector};
use crate::wire::sa::SaStatus;

/// Components that every request to create a group must have.
const REQUIRED: u64 =
    McMemberRecord::QKEY | McMemberRecord::TRAFFIC_CLASS | McMemberRecord::FLOW_LABEL;

/// Status of a request without a component that neither the policy nor the broadcast group
/// supplies.
const INSUFFICIENT: ErrorStatus = ErrorStatus(SaStatus::INSUFFICIENT_COMPONENTS);

/// The parameters of the group that a join creates.
pub(super) fn new_group(
    query: &Query<'_>,
    wanted: &McMemberRecord,
    port: EndPort,
) -> Result<GroupSpec, ErrorStatus> {
    require(wanted.join_state().keeps_group())?;
    if !query.has(REQUIRED) {
        return Err(INSUFFICIENT);
    }
    let creation = Creation::new(query, wanted, port);
    let pkey = creation.pkey()?;
    let sl = creation.sl()?;
    let mgid = wanted.mgid();
    let scope = match (query.has(McMemberRecord::SCOPE), mgid == Gid::default()) {
        (true, _) => wanted.scope(),
        (false, true) => LINK_LOCAL_SCOPE,
        (false, false) => mgid.scope(),
    };
    if mgid != Gid::default() && query.view.options().ipoib_mcgroup_creation_validation {
        validate_mgid(query, wanted)?;
    }
    let hops = if scope == LINK_LOCAL_SCOPE { 0 } else { u8::MAX };
    let hop_limit = if query.has(McMemberRecord::HOP_LIMIT) { wanted.hop_limit() } else { hops };
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

/// A request to create a group, with the sources of its parameters.
struct Creation<'a> {
    query: &'a Query<'a>,
    wanted: &'a McMemberRecord,
    port: EndPort,
    /// The broadcast group of the same IPoIB link; always `None` without a QoS policy.
    broadcast: Option<&'a GroupSpec>,
    /// The QoS level that the policy assigns.
    level: Option<&'a QosLevel>,
}

impl<'a> Creation<'a> {
    fn new(query: &'a Query<'a>, wanted: &'a McMemberRecord, port: EndPort) -> Self {
        let policy = query.view.qos_policy();
        let broadcast = ipoib_broadcast_mgid(&wanted.mgid()).filter(|_| policy.is_some());
        let broadcast = broadcast.and_then(|mgid| query.registry.group(&mgid));
        let qos_query = QosQuery {
            from: port.physical,
            to: None,
            service_id: None,
            qos_class: None,
            pkey: query.has(McMemberRecord::PKEY).then(|| wanted.pkey()),
        };
        let level =
            policy.filter(|_| broadcast.is_none()).and_then(|policy| policy.level(&qos_query));
        Self { query, wanted, port, broadcast: broadcast.map(|group| &group.spec), level }
    }

    fn pkey(&self) -> Result<Pkey, ErrorStatus> {
        let keys = self.level.map(|level| &level.pkeys).filter(|keys| !keys.is_empty());
        if self.query.has(McMemberRecord::PKEY) {
            let key = self.wanted.pkey();
            return is_allowed(&keys, key).then_some(key).ok_or(INVALID);
        }
        if let Some(broadcast) = self.broadcast {
            return Ok(broadcast.pkey);
        }
        if keys.is_none() {
            return Err(INSUFFICIENT);
        }
        let held = self.query.view.pkeys(self.port).iter().copied();
        let first = held
            .filter(|&key| is_allowed(&keys, key))
            .min_by_key(|key| (key.base(), !key.is_full()));
        first.ok_or(INVALID)
    }

    fn sl(&self) -> Result<Sl, ErrorStatus> {
        if self.query.has(McMemberRecord::SL) {
            return Ok(self.wanted.sl());
        }
        // The SL of the path from the port to itself, for which the routing engine sets no bits to
        // avoid deadlocks: torus-2QoS sets only the bit of the QoS class.
        let policy = &self.query.view.plan().routing.policy;
        let port = self.port.physical;
        let of_level = self.level.map(|level| policy.path_sl(port, port, level.sl));
        self.broadcast.map(|broadcast| broadcast.sl).or(of_level).ok_or(INSUFFICIENT)
    }

    fn mtu(&self) -> Result<u8, ErrorStatus> {
        let query = self.query;
        let wanted = self.wanted;
        let port_mtu =
            query.view.port_info(self.port.physical).map_or(0, |info| info.neighbor_mtu());
        let limit = self.level.and_then(|level| level.mtu_limit);
        let mut mtu = limit.map_or(port_mtu, |limit| limit.min(port_mtu));
        if query.has(McMemberRecord::MTU_SELECTOR | McMemberRecord::MTU) {
            let selector = wanted.mtu_selector();
            let wanted_mtu = wanted.mtu();
            let chosen =
                choose(selector, wanted_mtu.into(), mtu.into(), 1, false).ok_or(INVALID)?;
            mtu = chosen as u8;
        }
        require(mtu_is_valid(mtu)).map(|()| mtu)
    }

    fn rate(&self) -> Result<u8, ErrorStatus> {
        let query = self.query;
        let wanted = self.wanted;
        let port_rate = usize::from(query.view.path_index().mtu_rate(self.port.physical).rate);
        let limit = self.level.and_then(|level| level.rate_limit).and_then(rate_rank);
        let mut rate = limit.map_or(port_rate, |limit| limit.min(port_rate));
        if query.has(McMemberRecord::RATE_SELECTOR | McMemberRecord::RATE) {
            let rank = rate_rank(wanted.rate()).ok_or(INVALID)?;
            rate = choose(wanted.rate_selector(), rank, rate, 0, false).ok_or(INVALID)?;
        }
        let rate = rate_of_rank(rate);
        Ok(max_rate(query.view.options()).map_or(rate, |limit| clamp_rate(rate, limit)))
    }

    /// The packet lifetime. Unless the QoS level has one, the selector of the request is ignored,
    /// as in OpenSM.
    fn packet_life(&self) -> Result<u8, ErrorStatus> {
        const MAX_PACKET_LIFE: u8 = 63;
        let query = self.query;
        let wanted = self.wanted;
        let level_life = self.level.and_then(|level| level.packet_life);
        let default_life = level_life.unwrap_or(query.view.options().subnet_timeout);
        if !query.has(McMemberRecord::PACKET_LIFE) {
            return Ok(default_life);
        }
        let wanted_life = wanted.packet_life();
        if level_life.is_none() || !query.has(McMemberRecord::PACKET_LIFE_SELECTOR) {
            return Ok(wanted_life);
        }
        match wanted.packet_life_selector() {
            Selector::Exactly => Ok(wanted_life),
            Selector::Best => Ok(default_life),
            Selector::GreaterThan => {
                require(wanted_life < MAX_PACKET_LIFE).map(|()| default_life.max(wanted_life + 1))
            }
            Selector::LessThan => Ok(default_life.min(wanted_life.checked_sub(1).ok_or(INVALID)?)),
        }
    }
}

fn is_allowed(keys: &Option<&Ranges>, key: Pkey) -> bool {
    keys.is_none_or(|keys| keys.contains(key.base().into()))
}

/// The MGID of the broadcast group of the IPoIB link that `mgid` belongs to; `None` for other
/// groups.
fn ipoib_broadcast_mgid(mgid: &Gid) -> Option<Gid> {
    let signatures = [Gid::SIGNATURE_IPOIB_V4, Gid::SIGNATURE_IPOIB_V6];
    let is_ipoib = mgid.is_multicast() && signatures.contains(&mgid.signature());
    is_ipoib.then(|| Gid::ipoib_broadcast(mgid.scope(), mgid.ipoib_pkey()))
}

/// Checks an MGID chosen by the client (o15-0.1.5). An IPoIB group requires its broadcast group and
/// must have the same parameters (RFC 4391, section 5).
fn validate_mgid(query: &Query<'_>, wanted: &McMemberRecord) -> Result<(), ErrorStatus> {
    let mgid = wanted.mgid();
    require(mgid.is_multicast())?;
    match ipoib_broadcast_mgid(&mgid) {
        Some(broadcast) if broadcast == mgid => Ok(()),
        Some(broadcast) => {
            let broadcast = query.registry.group(&broadcast).ok_or(INVALID)?;
            require(parameters_match(query, wanted, &broadcast.spec))
        }
        None => {
            require(mgid.multicast_flags() & 0b1110 == 0)?;
            let is_reserved =
                mgid.signature() == Gid::SIGNATURE_SA && mgid.scope() == LINK_LOCAL_SCOPE;
            require(!is_reserved)
        }
    }
}
