//! SL to VL mapping and VL arbitration tables.
//!
//! The configuration knows four kinds of ports (channel adapters, routers, enhanced switch
//! ports 0, external switch ports); what is not set for a kind is inherited from the general
//! option, and from OpenSM's default after that. Routing engines may put their own SL to VL
//! mapping in its place and rewrite VL arbitration. Last, VLs are cut to those that operate.

use super::routing::RoutingPolicy;
use super::shared::Shared;
use crate::config::options::Options;
use crate::fabric::{Fabric, NodeId, PortId};
use crate::ids::PortNum;
use crate::notes::Note;
use crate::wire::attr::tables::{SlToVl, VLARB_BLOCK, VlArbBlock};
use crate::wire::attr::{CapMask, NodeKind, PortInfo, PortState};
use rayon::prelude::*;

/// Default of `qos_vlarb_high`: only VL 0 has weight.
const VLARB_HIGH: &str = "0:4,1:0,2:0,3:0,4:0,5:0,6:0,7:0,8:0,9:0,10:0,11:0,12:0,13:0,14:0";
/// Default of `qos_vlarb_low`: all VLs but 0 have the same weight.
const VLARB_LOW: &str = "0:0,1:4,2:4,3:4,4:4,5:4,6:4,7:4,8:4,9:4,10:4,11:4,12:4,13:4,14:4";
/// Default of `qos_sl2vl`.
const SL2VL: &str = "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,7";
/// The VL of an SL that is dropped.
const DROP: u8 = 15;

/// The QoS tables of a fabric; empty when QoS is off.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QosTables {
    /// By node: SL to VL mappings as (input port, output port, mapping), outputs outermost, in
    /// the order in which they are written; (0, port) of each live port for channel adapters and
    /// routers.
    pub sl_to_vl: Shared<Vec<(u8, u8, SlToVl)>>,
    /// By port slot: VL arbitration blocks (block number 1..=4, block).
    pub vl_arbitration: Shared<Vec<(u8, VlArbBlock)>>,
}

/// What is configured for one kind of ports.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct PortKind {
    high_limit: u8,
    high: Vec<(u8, u8)>,
    low: Vec<(u8, u8)>,
    sl_to_vl: SlToVl,
}

/// The QoS options, read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QosConfig {
    ca: PortKind,
    router: PortKind,
    switch0: PortKind,
    external: PortKind,
}

/// The options of one kind.
struct Raw<'a> {
    prefix: &'a str,
    high_limit: i32,
    high: &'a Option<String>,
    low: &'a Option<String>,
    sl_to_vl: &'a Option<String>,
}

macro_rules! raw {
    ($options:ident, $prefix:literal, $limit:ident, $high:ident, $low:ident, $map:ident) => {
        Raw {
            prefix: $prefix,
            high_limit: $options.$limit,
            high: &$options.$high,
            low: &$options.$low,
            sl_to_vl: &$options.$map,
        }
    };
}

impl QosConfig {
    /// Reads the options; the notes name options that make no sense and say what is wrong, and
    /// where. In their place the inherited value counts.
    pub fn read(options: &Options) -> (Self, Vec<Note>) {
        let general =
            raw!(options, "qos", qos_high_limit, qos_vlarb_high, qos_vlarb_low, qos_sl2vl);
        let mut notes = Vec::new();
        let default = PortKind {
            high_limit: 0,
            high: arbitration(VLARB_HIGH).unwrap_or_default(),
            low: arbitration(VLARB_LOW).unwrap_or_default(),
            sl_to_vl: mapping(SL2VL).unwrap_or_default(),
        };
        let general = general.over(&default, &mut notes);
        let mut kind = |raw: Raw<'_>| raw.over(&general, &mut notes);
        let config = Self {
            ca: kind(raw!(
                options,
                "qos_ca",
                qos_ca_high_limit,
                qos_ca_vlarb_high,
                qos_ca_vlarb_low,
                qos_ca_sl2vl
            )),
            router: kind(raw!(
                options,
                "qos_rtr",
                qos_rtr_high_limit,
                qos_rtr_vlarb_high,
                qos_rtr_vlarb_low,
                qos_rtr_sl2vl
            )),
            switch0: kind(raw!(
                options,
                "qos_sw0",
                qos_sw0_high_limit,
                qos_sw0_vlarb_high,
                qos_sw0_vlarb_low,
                qos_sw0_sl2vl
            )),
            external: kind(raw!(
                options,
                "qos_swe",
                qos_swe_high_limit,
                qos_swe_vlarb_high,
                qos_swe_vlarb_low,
                qos_swe_sl2vl
            )),
        };
        (config, notes)
    }

    fn of(&self, fabric: &Fabric, port: PortId) -> &PortKind {
        match (fabric.node_of(port).kind(), fabric.port(port).num) {
            (NodeKind::Switch, PortNum::ZERO) => &self.switch0,
            (NodeKind::Switch, _) => &self.external,
            (NodeKind::Router, _) => &self.router,
            _ => &self.ca,
        }
    }

    /// The limit of high priority arbitration of a port: 0 where there is a single data VL.
    pub fn high_limit(&self, fabric: &Fabric, port: PortId) -> u8 {
        let one_vl = fabric.port(port).info.is_some_and(|info| info.vl_cap() == 1);
        if one_vl { 0 } else { self.of(fabric, port).high_limit }
    }
}

impl Raw<'_> {
    fn over(self, inherited: &PortKind, notes: &mut Vec<Note>) -> PortKind {
        let prefix = self.prefix;
        let mut read = |key: &str, text: &Option<String>, fault: Option<String>| {
            if let (Some(text), Some(fault)) = (text, fault) {
                let place = format!("{prefix}_{key} \"{text}\"");
                notes.push(Note::warning(format!("{place}: {fault}; ignored")));
            }
        };
        let parsed = |text: &Option<String>| text.as_deref().map(arbitration);
        let (high, low) = (parsed(self.high), parsed(self.low));
        let map = self.sl_to_vl.as_deref().map(mapping);
        read("vlarb_high", self.high, high.clone().and_then(Result::err));
        read("vlarb_low", self.low, low.clone().and_then(Result::err));
        read("sl2vl", self.sl_to_vl, map.clone().and_then(Result::err));
        PortKind {
            high_limit: u8::try_from(self.high_limit).unwrap_or(inherited.high_limit),
            high: high.and_then(Result::ok).unwrap_or_else(|| inherited.high.clone()),
            low: low.and_then(Result::ok).unwrap_or_else(|| inherited.low.clone()),
            sl_to_vl: map.and_then(Result::ok).unwrap_or(inherited.sl_to_vl),
        }
    }
}

/// A number as C writes them, 0..=255.
fn byte(text: &str, entry: usize) -> Result<u8, String> {
    let text = text.trim();
    let value = match text.strip_prefix("0x") {
        Some(hex) => u8::from_str_radix(hex, 16),
        None => text.parse(),
    };
    value.map_err(|_| format!("entry {entry}: \"{text}\" is not a number from 0 to 255"))
}

/// VL arbitration entries `vl:weight,…`; a VL of 15 becomes 0, as in OpenSM (VL modulo 15).
fn arbitration(text: &str) -> Result<Vec<(u8, u8)>, String> {
    let entries: Result<Vec<_>, String> = (1..)
        .zip(text.split(',').filter(|entry| !entry.trim().is_empty()))
        .map(|(index, entry)| {
            let (vl, weight) = entry
                .split_once(':')
                .ok_or_else(|| format!("entry {index}: \"{entry}\" is not vl:weight"))?;
            Ok((byte(vl, index)? % 15, byte(weight, index)?))
        })
        .collect();
    let entries = entries?;
    if entries.len() > 2 * VLARB_BLOCK {
        return Err(format!("{} entries, more than {}", entries.len(), 2 * VLARB_BLOCK));
    }
    Ok(entries)
}

/// The VLs of SL 0 to 15; missing ones are VL 0.
fn mapping(text: &str) -> Result<SlToVl, String> {
    let mut vls = [0; 16];
    for (index, entry) in text.split(',').filter(|entry| !entry.trim().is_empty()).enumerate() {
        let vl = byte(entry, index + 1)?;
        let slot = vls.get_mut(index).ok_or("more than 16 entries")?;
        if vl > DROP {
            return Err(format!("entry {}: VL {vl} is above 15", index + 1));
        }
        *slot = vl;
    }
    Ok(SlToVl::new(vls))
}

/// The tables for a fabric whose ports get the PortInfo of `targets` (by port slot).
pub fn tables(
    fabric: &Fabric,
    config: &QosConfig,
    policy: &dyn RoutingPolicy,
    targets: &Shared<Option<PortInfo>>,
) -> QosTables {
    let work = Work { fabric, config, policy, targets };
    let nodes: Vec<NodeId> = fabric.node_ids().collect();
    let ports: Vec<PortId> = fabric.port_ids().collect();
    let maps: Vec<_> = nodes.par_iter().map(|&node| work.sl_to_vl_of(node)).collect();
    let blocks: Vec<_> = ports.par_iter().map(|&port| work.vl_arbitration_of(port)).collect();
    QosTables { sl_to_vl: maps.into(), vl_arbitration: blocks.into() }
}

/// Brings tables to a fabric and targets that differ from those they were made for in no other
/// ports than `changed`; the configuration must be the same, and so must the answers of the engine
/// elsewhere.
pub fn update(
    tables: &mut QosTables,
    fabric: &Fabric,
    config: &QosConfig,
    policy: &dyn RoutingPolicy,
    targets: &Shared<Option<PortInfo>>,
    changed: &[PortId],
) {
    let work = Work { fabric, config, policy, targets };
    for &port in changed {
        tables.vl_arbitration.replace(port.index(), work.vl_arbitration_of(port));
    }
    let mut nodes: Vec<NodeId> = changed.iter().map(|&port| fabric.port(port).node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    for node in nodes {
        tables.sl_to_vl.replace(node.index(), work.sl_to_vl_of(node));
    }
}

#[derive(Clone, Copy)]
struct Work<'a> {
    fabric: &'a Fabric,
    config: &'a QosConfig,
    policy: &'a dyn RoutingPolicy,
    targets: &'a Shared<Option<PortInfo>>,
}

impl Work<'_> {
    /// PortInfo of a port that has tables: all that are up, but not base ports 0 of switches.
    fn live(&self, port: PortId) -> Option<PortInfo> {
        let node = self.fabric.node_of(port);
        let info = self.fabric.port(port).info?;
        let is_port_0 = node.is_switch() && self.fabric.port(port).num == PortNum::ZERO;
        let lives = if is_port_0 {
            node.switch_info.enhanced_port0()
        } else {
            info.port_state() != PortState::Down
        };
        lives.then(|| self.targets.get(port.index()).copied().flatten().unwrap_or(info))
    }

    fn sl_to_vl_of(&self, node: NodeId) -> Vec<(u8, u8, SlToVl)> {
        let is_switch = self.fabric.node(node).is_switch();
        let port_0 = self.fabric.port(self.fabric.node(node).first_port).info;
        if is_switch && !port_0.is_some_and(|info| info.has(CapMask::SL_MAPPING)) {
            return Vec::new();
        }
        let mut maps = Vec::new();
        for output in self.ids(node) {
            let Some(info) = self.live(output) else { continue };
            if is_switch {
                let out = self.fabric.port(output).num.0;
                maps.reserve_exact(usize::from(self.fabric.node(node).num_ports()) + 1);
                maps.extend(self.ids(node).map(|input| {
                    (self.fabric.port(input).num.0, out, self.mapped(input, output, &info))
                }));
            } else if info.has(CapMask::SL_MAPPING) {
                let num = self.fabric.port(output).num.0;
                maps.push((0, num, self.mapped(output, output, &info)));
            }
        }
        maps
    }

    fn ids(&self, node: NodeId) -> impl Iterator<Item = PortId> + use<> {
        let node = self.fabric.node(node);
        let first = node.first_port.0;
        (first..=first + u32::from(node.num_ports())).map(PortId)
    }

    fn mapped(&self, input: PortId, output: PortId, info: &PortInfo) -> SlToVl {
        let of_engine = self.policy.sl_to_vl(input, output);
        let map = of_engine.unwrap_or(self.config.of(self.fabric, output).sl_to_vl);
        let mask = vl_mask(info);
        SlToVl::new(map.vls().map(|vl| if vl == DROP { DROP } else { vl & mask }))
    }

    fn vl_arbitration_of(&self, port: PortId) -> Vec<(u8, VlArbBlock)> {
        let Some(info) = self.live(port) else { return Vec::new() };
        if info.vl_cap() == 1 {
            return Vec::new();
        }
        let kind = self.config.of(self.fabric, port);
        let mut blocks = Vec::new();
        for (first, entries, cap) in
            [(1, &kind.low, info.vl_arb_low_cap()), (3, &kind.high, info.vl_arb_high_cap())]
        {
            let cap = usize::from(cap).min(2 * VLARB_BLOCK);
            let mut padded = entries.clone();
            padded.resize(cap, (0, 0));
            for (number, chunk) in (first..).zip(padded.chunks(VLARB_BLOCK)) {
                let configured = VlArbBlock::new(chunk.iter().copied());
                let block = self.policy.vl_arbitration(port, configured);
                let mask = vl_mask(&info);
                let cut = block.entries().take(chunk.len()).map(|(vl, weight)| (vl & mask, weight));
                blocks.push((number, VlArbBlock::new(cut)));
            }
        }
        blocks
    }
}

/// The bits of a VL number that operate on a port.
fn vl_mask(info: &PortInfo) -> u8 {
    match info.operational_vls() {
        code @ 1..=5 => (1 << (code - 1)) - 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_read_and_faults_are_placed() {
        assert_eq!(arbitration("0:4, 15:0x10,14:0,"), Ok(vec![(0, 4), (0, 16), (14, 0)]));
        assert!(arbitration("0:4,1").is_err_and(|fault| fault.contains("entry 2")));
        assert!(arbitration("0:256").is_err());
        assert_eq!(mapping("3,2").map(|map| map.vls()[..3].to_vec()), Ok(vec![3, 2, 0]));
        assert!(mapping("1,16").is_err_and(|fault| fault.contains("entry 2")));
        assert!(mapping("0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0").is_err());
    }

    #[test]
    fn kinds_inherit_the_general_option() {
        let options = Options {
            qos_vlarb_high: Some("1:9".into()),
            qos_swe_vlarb_high: Some("2:8".into()),
            qos_ca_vlarb_high: Some("oops".into()),
            qos_high_limit: 7,
            qos_rtr_high_limit: 0,
            ..Options::default()
        };
        let (config, notes) = QosConfig::read(&options);
        assert_eq!(config.external.high, [(2, 8)]);
        assert_eq!(config.ca.high, [(1, 9)]);
        assert_eq!(config.switch0.low.len(), 15);
        assert_eq!((config.ca.high_limit, config.router.high_limit), (7, 0));
        assert_eq!(config.ca.sl_to_vl.vls()[15], 7);
        assert!(notes.len() == 1 && notes[0].text.contains("qos_ca_vlarb_high"));
    }
}
