//! The target PortInfo of every end port and every linked switch port, and the target SwitchInfo of
//! every switch.
//!
//! A target is the observed PortInfo with the configured fields replaced and the states set to "no
//! change", so fields that are not configured keep their values. On a configured fabric, targets
//! equal the observed state. Only [`settable`], on which [`differs`] relies, defines which fields a
//! Set changes, and which of them read back differently than they were written.

use super::LidTable;
use super::multicast::MulticastTables;
use crate::config::options::Options;
use crate::fabric::difference::Difference;
use crate::fabric::link_rate::has_extended_speeds;
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::{Lid, PortNum, Sl};
use crate::paged_vec::PagedVec;
use crate::plan::port_targets::PortTargets;
use crate::wire::attr::tables::MFT_BLOCK;
use crate::wire::attr::{CapMask, NodeKind, PhysState, PortInfo, PortState, SwitchInfo};

/// LinkWidthEnabled: all supported widths (IBA vol. 1, 14.2.5.6).
const ALL_WIDTHS: u8 = 255;
/// LinkSpeedEnabled: all supported speeds.
const ALL_SPEEDS: u8 = 15;
/// LinkSpeedExtEnabled: all supported speeds.
const ALL_SPEEDS_EXT: u8 = 31;
/// LinkSpeedExtEnabled: no extended speed.
const NO_SPEEDS_EXT: u8 = 30;
/// LinkDownDefaultState: Polling.
const LINK_DOWN_POLLING: u8 = 2;
/// PortInfo CapabilityMask of switch port 0: IsMulticastFDBTopSupported.
const CAP_MULTICAST_FDB_TOP: u32 = 1 << 30;

/// The input of the targets.
#[derive(Clone, Copy)]
pub struct LinkInput<'a> {
    pub fabric: &'a Fabric,
    pub lids: &'a LidTable,
    pub options: &'a Options,
    /// The SL of the path from an end port to the SM (MasterSMSL).
    pub sm_sl: &'a dyn Fn(PortId) -> Sl,
    /// VLHighLimit of a port; `None` keeps the observed value.
    pub vl_high_limit: &'a dyn Fn(PortId) -> Option<u8>,
    /// True for end ports that get ClientReregister set, besides those that name another SM.
    pub reregister: &'a dyn Fn(PortId) -> bool,
    /// P_Key enforcement (inbound, outbound) of switch ports, by port slot; `None` keeps the
    /// observed bits.
    pub enforcement: &'a PagedVec<Option<(bool, bool)>>,
}

/// The PortInfo to set, by port slot; `None` for ports that are not programmed.
pub fn targets(input: &LinkInput<'_>) -> PortTargets {
    let ports = input.fabric.port_ids().zip(input.fabric.ports());
    PortTargets::collect(ports.map(|(id, port)| (port.num, target(input, id))))
}

/// Updates the targets of an earlier snapshot: recomputes those of the ports in `difference` and
/// `others`, and of the ports that depend on them. All other input must be unchanged.
pub fn update(
    targets: &mut PortTargets,
    input: &LinkInput<'_>,
    difference: &Difference,
    others: impl IntoIterator<Item = PortId>,
) {
    let fabric = input.fabric;
    // The capability mask of port 0 applies to all ports of a switch.
    let changed_port_0s = difference.ports.iter().map(|&id| fabric.port(id));
    let whole_switches =
        changed_port_0s.filter(|port| port.num == PortNum::ZERO).map(|port| port.node);
    let nodes = difference.nodes.iter().copied().chain(whole_switches);
    let own = difference.ports.iter().copied().chain(nodes.flat_map(|id| fabric.node(id).slots()));
    let ports = own.flat_map(|id| std::iter::once(id).chain(fabric.port(id).peer));
    for id in ports.chain(others) {
        targets.replace(id, target(input, id));
    }
}

fn target(input: &LinkInput<'_>, id: PortId) -> Option<PortInfo> {
    let fabric = input.fabric;
    let port = fabric.port(id);
    let node = fabric.node_of(id);
    let observed = port.info()?;
    let is_port_0 = node.is_switch() && port.num == PortNum::ZERO;
    let is_linked = port.peer.is_some() && port.state() != PortState::Down;
    if !is_port_0 && !is_linked && id != fabric.local() {
        return None;
    }
    let is_end_port = is_port_0 || !node.is_switch();
    if is_end_port && input.lids.base(id).is_none() {
        // Devices refuse LID 0, and a port without a LID is not reachable.
        return None;
    }
    let mut info = observed;
    info.set_port_state(PortState::NoChange);
    info.set_phys_state(PhysState::NoChange);
    info.set_client_reregister(false);
    if is_end_port {
        set_end_port(input, id, &mut info);
    }
    if is_port_0 && !node.switch_info.enhanced_port0() {
        return Some(info);
    }
    set_common(input, id, &mut info);
    if is_port_0 {
        info.set_neighbor_mtu(observed.mtu_cap());
    } else {
        set_link(input, id, &mut info);
    }
    Some(info)
}

/// Sets the fields that only ports with a LID have.
fn set_end_port(input: &LinkInput<'_>, id: PortId, info: &mut PortInfo) {
    let fabric = input.fabric;
    let options = input.options;
    if let Some(lid) = input.lids.base(id) {
        info.set_lid(lid);
        info.set_lmc(input.lids.lmc(id));
    }
    let mut names_other_sm = false;
    if let Some(sm) = input.lids.base_of_owner(fabric, fabric.local()) {
        names_other_sm = info.master_sm_lid() != sm;
        info.set_master_sm_lid(sm);
    }
    info.set_master_sm_sl((input.sm_sl)(id));
    info.set_m_key(options.m_key);
    info.set_m_key_lease_period(options.m_key_lease_period);
    info.set_m_key_protect_bits(options.m_key_protection_level);
    info.set_gid_prefix(options.subnet_prefix);
    info.set_subnet_timeout(options.subnet_timeout);
    let can_reregister = info.has(CapMask::CLIENT_REREGISTER) && !options.no_clients_rereg;
    let is_due = names_other_sm || (input.reregister)(id);
    info.set_client_reregister(can_reregister && is_due);
}

/// Sets the fields of all ports except base switch ports 0.
fn set_common(input: &LinkInput<'_>, id: PortId, info: &mut PortInfo) {
    let options = input.options;
    info.set_local_phy_errors(options.local_phy_errors_threshold);
    info.set_overrun_errors(options.overrun_errors_threshold);
    if let Some(limit) = (input.vl_high_limit)(id) {
        info.set_vl_high_limit(limit);
    }
    if options.max_op_vls > 0 {
        let peer = input.fabric.port(id).peer.and_then(|peer| input.fabric.port(peer).info());
        let vls = match peer {
            Some(peer) => info.vl_cap().min(peer.vl_cap()),
            None => info.operational_vls(),
        };
        info.set_operational_vls(vls.max(1).min(options.max_op_vls));
    }
}

/// Sets the fields of ports that have a link.
fn set_link(input: &LinkInput<'_>, id: PortId, info: &mut PortInfo) {
    let fabric = input.fabric;
    let options = input.options;
    let Some(peer) = fabric.port(id).peer else { return };
    info.set_link_down_default_state(LINK_DOWN_POLLING);
    let mtu_cap = fabric.port(peer).info().map_or(info.mtu_cap(), |peer| peer.mtu_cap());
    info.set_neighbor_mtu(info.mtu_cap().min(mtu_cap).max(1));
    set_speed(input, id, peer, info);
    let to_switch = fabric.node_of(peer).is_switch();
    match fabric.node_of(id).kind() {
        NodeKind::Switch if to_switch => {
            info.set_hoq_life(options.head_of_queue_lifetime);
            info.set_vl_stall_count(options.vl_stall_count);
        }
        NodeKind::Switch => {
            info.set_hoq_life(options.leaf_head_of_queue_lifetime);
            info.set_vl_stall_count(options.leaf_vl_stall_count);
        }
        NodeKind::Router => info.set_hoq_life(options.leaf_head_of_queue_lifetime),
        _ => {}
    }
    if let Some((inbound, outbound)) = input.enforcement.get(id.index()).copied().flatten() {
        info.set_partition_enforcement_in(inbound);
        info.set_partition_enforcement_out(outbound);
    }
}

/// Sets the enabled width and speeds. A forced value is limited to the supported ones; if the port
/// supports none of them, the observed value stays.
fn set_speed(input: &LinkInput<'_>, id: PortId, peer: PortId, info: &mut PortInfo) {
    let options = input.options;
    let width = forced(options.force_link_width, ALL_WIDTHS, info.link_width_supported());
    if let Some(width) = width
        && effective_width(info) != width
    {
        info.set_link_width_enabled(options.force_link_width);
    }
    let speed = forced(options.force_link_speed, ALL_SPEEDS, info.link_speed_supported());
    if let Some(speed) = speed
        && effective_speed(info) != speed
    {
        info.set_link_speed_enabled(options.force_link_speed);
    }
    let both =
        [id, peer].into_iter().all(|port| has_extended_speeds(input.fabric, port) == Some(true));
    if !both || options.force_link_speed_ext == 0 {
        return;
    }
    let wanted = match options.force_link_speed_ext {
        NO_SPEEDS_EXT => Some(0),
        forced_ext => forced(forced_ext, ALL_SPEEDS_EXT, info.link_speed_ext_supported()),
    };
    if let Some(wanted) = wanted
        && effective_speed_ext(info) != wanted
    {
        info.set_link_speed_ext_enabled(options.force_link_speed_ext);
    }
}

/// The supported bits of a forced value; `None` if there are none.
fn forced(value: u8, all: u8, supported: u8) -> Option<u8> {
    let effective = if value == all { supported } else { value & supported };
    (effective != 0).then_some(effective)
}

fn effective_width(info: &PortInfo) -> u8 {
    match info.link_width_enabled() {
        ALL_WIDTHS => info.link_width_supported(),
        width => width & info.link_width_supported(),
    }
}

fn effective_speed(info: &PortInfo) -> u8 {
    match info.link_speed_enabled() {
        ALL_SPEEDS => info.link_speed_supported(),
        speed => speed & info.link_speed_supported(),
    }
}

fn effective_speed_ext(info: &PortInfo) -> u8 {
    match info.link_speed_ext_enabled() {
        ALL_SPEEDS_EXT => info.link_speed_ext_supported(),
        NO_SPEEDS_EXT => 0,
        speed => speed & info.link_speed_ext_supported(),
    }
}

macro_rules! copy_fields {
    ($from:ident => $to:ident: $($get:ident, $set:ident;)*) => { $($to.$set($from.$get());)* };
}

/// The fields that a Set changes, with the values they read back; all other fields are 0. States
/// and ClientReregister are requests rather than values and are excluded.
pub fn settable(info: &PortInfo) -> PortInfo {
    let mut out = PortInfo::default();
    copy_fields! { info => out:
        m_key, set_m_key;
        gid_prefix, set_gid_prefix;
        lid, set_lid;
        master_sm_lid, set_master_sm_lid;
        m_key_lease_period, set_m_key_lease_period;
        link_down_default_state, set_link_down_default_state;
        m_key_protect_bits, set_m_key_protect_bits;
        lmc, set_lmc;
        neighbor_mtu, set_neighbor_mtu;
        master_sm_sl, set_master_sm_sl;
        vl_high_limit, set_vl_high_limit;
        vl_stall_count, set_vl_stall_count;
        hoq_life, set_hoq_life;
        operational_vls, set_operational_vls;
        partition_enforcement_in, set_partition_enforcement_in;
        partition_enforcement_out, set_partition_enforcement_out;
        filter_raw_in, set_filter_raw_in;
        filter_raw_out, set_filter_raw_out;
        mcast_pkey_trap_suppression, set_mcast_pkey_trap_suppression;
        subnet_timeout, set_subnet_timeout;
        local_phy_errors, set_local_phy_errors;
        overrun_errors, set_overrun_errors;
    }
    // "All supported" reads back as the set of supported values.
    out.set_link_width_enabled(effective_width(info));
    out.set_link_speed_enabled(effective_speed(info));
    out.set_link_speed_ext_enabled(effective_speed_ext(info));
    out
}

/// True if `target` must be sent to a port with the PortInfo `observed`: a field would change, or
/// ClientReregister is set. Port states are ignored.
pub fn differs(observed: &PortInfo, target: &PortInfo) -> bool {
    target.client_reregister() || settable(observed) != settable(target)
}

/// The SwitchInfo to set, by switch.
pub fn switch_targets(
    fabric: &Fabric,
    lids: &LidTable,
    multicast: &MulticastTables,
    options: &Options,
) -> Vec<SwitchInfo> {
    let switches = fabric.switch_ids();
    switches.map(|switch| switch_target(fabric, switch, lids, multicast, options)).collect()
}

fn switch_target(
    fabric: &Fabric,
    switch: SwitchId,
    lids: &LidTable,
    multicast: &MulticastTables,
    options: &Options,
) -> SwitchInfo {
    let node = fabric.switch(switch);
    let mut info = node.switch_info;
    if node.lacks_switch_info() {
        // A Set would put zeros into the fields that are unknown.
        return info;
    }
    info.set_port_state_change(false);
    info.set_linear_fdb_top(lids.max().0.min(info.linear_fdb_cap().saturating_sub(1)));
    info.set_life_time_value(options.packet_life_time);
    let port_0 = fabric.port(node.first_port).info();
    if options.use_mfttop && port_0.is_some_and(|info| info.has(CAP_MULTICAST_FDB_TOP)) {
        let last = multicast.by_switch.get(switch.index()).and_then(|table| table.last());
        let blocks = last.map_or(0, |(mlid, _)| (mlid.0 & 0x3FFF) / MFT_BLOCK as u16 + 1);
        info.set_multicast_fdb_top(Lid::UNICAST_MAX.0 + blocks * MFT_BLOCK as u16);
    }
    info
}

/// True if `target` must be sent to a switch with the SwitchInfo `observed`. PortStateChange is
/// ignored: the sweep that saw the change clears it.
pub fn switch_differs(observed: &SwitchInfo, target: &SwitchInfo) -> bool {
    limited_fields(observed) != limited_fields(target)
}

fn limited_fields(info: &SwitchInfo) -> (u16, u8, u16, u8, u8, u8) {
    (
        info.linear_fdb_top(),
        info.life_time_value(),
        info.multicast_fdb_top(),
        info.default_port(),
        info.default_mcast_primary(),
        info.default_mcast_not_primary(),
    )
}
