//! Sets in words: what each would change of what the device holds.

use crate::fabric::{Fabric, PortId, RouteEnd};
use crate::ids::{Mlid, Pkey};
use crate::notes::counted;
use crate::plan::links::settable;
use crate::transport::rehearsal::RehearsedSet;
use crate::wire::attr::tables::{
    LFT_BLOCK, LFT_NO_PATH, MFT_BLOCK, MFT_POSITION_PORTS, MftBlock, PkeyBlock, VlArbBlock,
};
use crate::wire::attr::{AttrId, PortInfo, PortState, SwitchInfo};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};

/// Number of SL to VL mappings in an attribute.
const SLS: u8 = 16;

/// The effect of a Set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SetEffect {
    /// The device holds other settings afterwards.
    Change,
    /// The port names this SM as the master and asks its clients to register again.
    NamesManager,
    /// The clients of the port are asked to register again (ClientReregister); its settings stay.
    RegisterAgain,
    /// The switch clears PortStateChange; its settings stay.
    ClearsStateChange,
    /// The device holds the data already.
    Repetition,
}

/// A Set, or the difference between a plan and a device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SetView {
    /// GUID of the node.
    pub guid: String,
    /// Description of the node.
    pub name: String,
    pub attribute: String,
    /// Attribute modifier.
    pub modifier: u32,
    /// The part of the table, or the port.
    pub place: String,
    pub effect: SetEffect,
    /// Each entry that differs, with what is held and what is planned.
    pub differences: Vec<String>,
}

impl SetView {
    /// Describes a rehearsed Set on the devices of `fabric`; `None` if the fabric lacks its device.
    pub(super) fn new(fabric: &Fabric, set: &RehearsedSet) -> Option<Self> {
        let port = match fabric.end_of_route(&set.route)? {
            RouteEnd::Port(port) | RouteEnd::Behind(port) => port,
        };
        let (effect, differences) = effect(set);
        let node = fabric.node_of(port);
        Some(Self {
            guid: node.guid().to_string(),
            name: node.name().to_string(),
            attribute: AttrId::name(set.attr_id).to_owned(),
            modifier: set.attr_mod,
            place: place(fabric, port, set),
            effect,
            differences,
        })
    }

    /// True if the device holds what is planned, as far as its settings go.
    pub fn is_harmless(&self) -> bool {
        use SetEffect::{ClearsStateChange, RegisterAgain, Repetition};
        matches!(self.effect, RegisterAgain | ClearsStateChange | Repetition)
    }
}

/// The last data of each attribute, with what the device held before the first Set to it.
pub(super) fn outcomes(sets: &[RehearsedSet]) -> Vec<RehearsedSet> {
    let mut last: BTreeMap<(Vec<u8>, u16, u32), RehearsedSet> = BTreeMap::new();
    for set in sets {
        let key = (set.route.as_wire().to_vec(), set.attr_id, set.attr_mod);
        let first = last.get(&key).map_or(set.held, |earlier| earlier.held);
        last.insert(key, RehearsedSet { held: first, ..*set });
    }
    last.into_values().collect()
}

/// The part of a table that a Set writes, or the port.
fn place(fabric: &Fabric, port: PortId, set: &RehearsedSet) -> String {
    let RehearsedSet { attr_id, attr_mod, .. } = *set;
    let is_switch = fabric.node_of(port).is_switch();
    let low = attr_mod & 0xFFFF;
    match attr_id {
        AttrId::PORT_INFO => format!("port {attr_mod}"),
        AttrId::LINEAR_FT | AttrId::GUID_INFO => format!("block {attr_mod}"),
        AttrId::MULTICAST_FT => {
            format!("block {}, ports from {}", low & 0x1FF, (attr_mod >> 28) * 16)
        }
        AttrId::PKEY_TABLE if is_switch => format!("port {}, block {low}", attr_mod >> 16),
        AttrId::PKEY_TABLE => format!("port {}, block {low}", fabric.port(port).num),
        AttrId::VL_ARBITRATION => format!("port {}, block {}", low, attr_mod >> 16),
        AttrId::SL_TO_VL if is_switch => {
            format!("from port {} to port {}", (attr_mod >> 8) & 0xFF, attr_mod & 0xFF)
        }
        AttrId::SL_TO_VL => format!("port {}", fabric.port(port).num),
        _ => String::new(),
    }
}

/// The effect of a Set and each entry that it changes.
fn effect(set: &RehearsedSet) -> (SetEffect, Vec<String>) {
    let RehearsedSet { attr_id, data, held, .. } = set;
    let Some(held) = held else {
        return (SetEffect::Change, vec!["the device does not tell what it holds".to_owned()]);
    };
    let differences = match *attr_id {
        AttrId::PORT_INFO => return port_info_effect(held, data),
        AttrId::SWITCH_INFO => return switch_info_effect(held, data),
        AttrId::LINEAR_FT => lft_differences(set.attr_mod, held, data),
        AttrId::MULTICAST_FT => mft_differences(set.attr_mod, held, data),
        AttrId::SL_TO_VL => {
            let sls = (0..SLS).filter(|&sl| mapped_vl(held, sl) != mapped_vl(data, sl));
            sls.map(|sl| {
                entry(
                    &format!("SL {sl}"),
                    vl_name(mapped_vl(held, sl)),
                    vl_name(mapped_vl(data, sl)),
                )
            })
            .collect()
        }
        AttrId::VL_ARBITRATION => {
            let pairs = VlArbBlock(*held).entries().collect::<Vec<_>>();
            let planned = VlArbBlock(*data).entries().collect::<Vec<_>>();
            let changed = (0..pairs.len()).filter(|&at| pairs[at] != planned[at]);
            let pair = |(vl, weight): (u8, u8)| format!("{vl}:{weight}");
            changed
                .map(|at| entry(&format!("entry {at}"), pair(pairs[at]), pair(planned[at])))
                .collect()
        }
        AttrId::PKEY_TABLE => {
            let keys = PkeyBlock::read(held).0;
            let planned = PkeyBlock::read(data).0;
            let changed = (0..keys.len()).filter(|&at| keys[at] != planned[at]);
            changed
                .map(|at| entry(&format!("index {at}"), pkey(keys[at]), pkey(planned[at])))
                .collect()
        }
        _ if held == data => Vec::new(),
        _ => vec!["other contents are planned".to_owned()],
    };
    let is_same = differences.is_empty();
    (if is_same { SetEffect::Repetition } else { SetEffect::Change }, differences)
}

fn mapped_vl(data: &[u8; 64], sl: u8) -> u8 {
    let pair = data[usize::from(sl / 2)];
    if sl.is_multiple_of(2) { pair >> 4 } else { pair & 0xF }
}

fn entry(what: &str, held: impl Display, planned: impl Display) -> String {
    format!("{what}: held {held}, planned {planned}")
}

fn vl_name(vl: u8) -> String {
    if vl == 15 { "none (VL 15 drops)".to_owned() } else { format!("VL {vl}") }
}

fn pkey(key: Pkey) -> String {
    if key.0 == 0 { "none".to_owned() } else { format!("{:#06x}", key.0) }
}

fn out_port(port: u8) -> String {
    if port == LFT_NO_PATH { "none".to_owned() } else { format!("port {port}") }
}

fn lft_differences(block: u32, held: &[u8; 64], planned: &[u8; 64]) -> Vec<String> {
    let changed = (0..LFT_BLOCK).filter(|&at| held[at] != planned[at]);
    changed
        .map(|at| {
            entry(
                &format!("LID {}", lid_of_entry(at, block)),
                out_port(held[at]),
                out_port(planned[at]),
            )
        })
        .collect()
}

fn lid_of_entry(at: usize, block: u32) -> usize {
    block as usize * LFT_BLOCK + at
}

fn mft_differences(modifier: u32, held: &[u8; 64], planned: &[u8; 64]) -> Vec<String> {
    let first_port = (modifier >> 28) as usize * MFT_POSITION_PORTS;
    let first_mlid = usize::from(Mlid::FIRST.0) + (modifier & 0x1FF) as usize * MFT_BLOCK;
    let masks = MftBlock::read(held).0;
    let wanted = MftBlock::read(planned).0;
    let changed = (0..MFT_BLOCK).filter(|&at| masks[at] != wanted[at]);
    changed
        .map(|at| {
            let mlid = format!("MLID {:#x}", first_mlid + at);
            entry(&mlid, port_list(masks[at], first_port), port_list(wanted[at], first_port))
        })
        .collect()
}

fn port_list(mask: u16, first_port: usize) -> String {
    let set = (0..MFT_POSITION_PORTS).filter(|bit| mask >> bit & 1 == 1);
    let mut text = String::new();
    for bit in set {
        let comma = if text.is_empty() { "" } else { " " };
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{comma}{}", first_port + bit);
    }
    if text.is_empty() { "no port".to_owned() } else { format!("ports {text}") }
}

fn switch_info_effect(held: &[u8; 64], planned: &[u8; 64]) -> (SetEffect, Vec<String>) {
    let held = SwitchInfo::read(held);
    let planned = SwitchInfo::read(planned);
    let mut found = Vec::new();
    let mut compare = |name: &str, held: u16, planned: u16| {
        if held != planned {
            found.push(entry(name, held, planned));
        }
    };
    compare("LinearFDBTop", held.linear_fdb_top(), planned.linear_fdb_top());
    compare("MulticastFDBTop", held.multicast_fdb_top(), planned.multicast_fdb_top());
    compare("LifeTimeValue", held.life_time_value().into(), planned.life_time_value().into());
    compare("DefaultPort", held.default_port().into(), planned.default_port().into());
    match (found.is_empty(), planned.port_state_change()) {
        (false, _) => (SetEffect::Change, found),
        (true, true) => (SetEffect::ClearsStateChange, found),
        (true, false) => (SetEffect::Repetition, found),
    }
}

fn port_info_effect(held: &[u8; 64], planned: &[u8; 64]) -> (SetEffect, Vec<String>) {
    let held = PortInfo::read(held);
    let planned = PortInfo::read(planned);
    let mut of_manager = Vec::new();
    if held.master_sm_lid() != planned.master_sm_lid() {
        of_manager.push(entry("MasterSMLID", held.master_sm_lid(), planned.master_sm_lid()));
    }
    if held.master_sm_sl() != planned.master_sm_sl() {
        of_manager.push(entry("MasterSMSL", held.master_sm_sl(), planned.master_sm_sl()));
    }
    let mut found = port_settings(&held, &planned);
    let is_change = !found.is_empty();
    found.extend(of_manager.iter().cloned());
    let effect = match (is_change, of_manager.is_empty()) {
        (true, _) => SetEffect::Change,
        (false, false) => SetEffect::NamesManager,
        (false, true) if planned.client_reregister() => SetEffect::RegisterAgain,
        (false, true) => SetEffect::Repetition,
    };
    (effect, found)
}

/// The settings of a port that differ, apart from those that name the master SM.
fn port_settings(held: &PortInfo, planned: &PortInfo) -> Vec<String> {
    let state = planned.port_state();
    let held_state = held.port_state();
    let held = settable(held);
    let planned = settable(planned);
    let mut found = Vec::new();
    macro_rules! compare {
        ($($name:literal: $field:ident;)+) => {
            $(if held.$field() != planned.$field() {
                found.push(entry($name, held.$field(), planned.$field()));
            })+
        };
    }
    compare! {
        "LID": lid;
        "LMC": lmc;
        "NeighborMTU": neighbor_mtu;
        "OperationalVLs": operational_vls;
        "VLHighLimit": vl_high_limit;
        "VLStallCount": vl_stall_count;
        "HOQLife": hoq_life;
        "PartitionEnforcementInbound": partition_enforcement_in;
        "PartitionEnforcementOutbound": partition_enforcement_out;
        "FilterRawInbound": filter_raw_in;
        "FilterRawOutbound": filter_raw_out;
        "SubnetTimeOut": subnet_timeout;
        "LocalPhyErrors": local_phy_errors;
        "OverrunErrors": overrun_errors;
        "M_KeyLeasePeriod": m_key_lease_period;
        "M_KeyProtectBits": m_key_protect_bits;
        "LinkDownDefaultState": link_down_default_state;
        "LinkWidthEnabled": link_width_enabled;
        "LinkSpeedEnabled": link_speed_enabled;
        "LinkSpeedExtEnabled": link_speed_ext_enabled;
        "MulticastPKeyTrapSuppressionEnabled": mcast_pkey_trap_suppression;
    }
    if held.gid_prefix() != planned.gid_prefix() {
        let planned = hexadecimal(planned.gid_prefix());
        found.push(entry("GidPrefix", hexadecimal(held.gid_prefix()), planned));
    }
    // The keys themselves are secret.
    if held.m_key() != planned.m_key() {
        found.push("M_Key: another one is planned".to_owned());
    }
    if state != PortState::NoChange && state != held_state {
        found.push(entry("PortState", held_state, state));
    }
    found
}

fn hexadecimal(prefix: u64) -> String {
    format!("{prefix:#018x}")
}

/// Number of Sets by attribute, in words: `PortInfo 3, P_KeyTable 1`.
pub(super) fn by_attribute<'a>(sets: impl Iterator<Item = &'a SetView>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    sets.for_each(|set| *counts.entry(&set.attribute).or_default() += 1);
    let counts: Vec<String> =
        counts.iter().map(|(attribute, count)| format!("{attribute} {count}")).collect();
    counts.join(", ")
}

/// Maximum number of differences that the text of a Set lists.
const MAX_LISTED: usize = 8;

/// A Set with its differences in one line: `PortInfo port 3: LID: held 4, planned 5`.
pub(super) fn line(set: &SetView) -> String {
    let mut text = format!("{} {}", set.attribute, set.place).trim_end().to_owned();
    let purpose = match set.effect {
        SetEffect::RegisterAgain => Some("asks the clients to register again, no other change"),
        SetEffect::ClearsStateChange => Some("clears PortStateChange, no other change"),
        SetEffect::Repetition => Some("no change"),
        SetEffect::Change | SetEffect::NamesManager => None,
    };
    if let Some(purpose) = purpose {
        return format!("{text}: {purpose}");
    }
    let listed: Vec<&str> = set.differences.iter().take(MAX_LISTED).map(String::as_str).collect();
    text = format!("{text}: {}", listed.join("; "));
    if set.differences.len() > MAX_LISTED {
        let more = set.differences.len() - MAX_LISTED;
        text += &format!("; and {}", counted(more, "further entry", "further entries"));
    }
    text
}
