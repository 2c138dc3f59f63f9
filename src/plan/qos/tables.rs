//! Computes the SL to VL mapping and VL arbitration tables.

use super::options::QosConfig;
use super::setup::QosSetup;
use super::vls::{DROPPED_VL, configurable_info, vl_mask};
use crate::config::qos_policy::{VlArbScope, Weight};
use crate::fabric::{Fabric, NodeId, PortId};
use crate::plan::paged_vec::PagedVec;
use crate::plan::routing::RoutingPolicy;
use crate::wire::attr::tables::{SlToVl, VLARB_BLOCK, VlArbBlock};
use crate::wire::attr::{CapMask, PortInfo};
use rayon::prelude::*;
use std::sync::Arc;

/// The QoS tables of a fabric; empty when QoS is off.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QosTables {
    /// By node: SL to VL mappings as (input port, output port, mapping), outputs outermost, in
    /// the order in which they are written; (0, port) of each live port for channel adapters and
    /// routers.
    pub sl_to_vl: PagedVec<Vec<(u8, u8, SlToVl)>>,
    /// By port slot: VL arbitration blocks (block number 1..=4, block).
    pub vl_arbitration: PagedVec<Vec<(u8, VlArbBlock)>>,
    /// The scopes that they follow; `None` if there are none.
    pub setup: Option<Arc<QosSetup>>,
}

/// What the tables are made from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QosSources {
    /// The options.
    pub config: QosConfig,
    /// The scopes of the QoS policy; `None` if there are none.
    pub setup: Option<Arc<QosSetup>>,
}

impl QosSources {
    /// The limit of high priority arbitration of a port: 0 where there is a single data VL.
    pub fn high_limit(&self, fabric: &Fabric, port: PortId) -> u8 {
        if fabric.port(port).info.is_some_and(|info| info.vl_cap() == 1) {
            return 0;
        }
        let limit = self.arbitration(fabric, port).and_then(|scope| scope.high_limit);
        limit.unwrap_or_else(|| self.config.of(fabric, port).high_limit)
    }

    /// The scope for the VL arbitration of a port.
    fn arbitration(&self, fabric: &Fabric, port: PortId) -> Option<&VlArbScope> {
        let setup = self.setup.as_ref()?;
        let first = setup.arbitration_at(fabric, port).next()?;
        setup.policy().vl_arbitration.get(first)
    }
}

/// The tables for a fabric whose ports get the PortInfo of `targets` (by port slot).
pub fn tables(
    fabric: &Fabric,
    sources: &QosSources,
    policy: &dyn RoutingPolicy,
    targets: &PagedVec<Option<PortInfo>>,
) -> QosTables {
    let work = Work { fabric, sources, policy, targets };
    let nodes: Vec<NodeId> = fabric.node_ids().collect();
    let ports: Vec<PortId> = fabric.port_ids().collect();
    let maps: Vec<_> = nodes.par_iter().map(|&node| work.sl_to_vl_of(node)).collect();
    let blocks: Vec<_> = ports.par_iter().map(|&port| work.vl_arbitration_of(port)).collect();
    let setup = sources.setup.clone();
    QosTables { sl_to_vl: maps.into(), vl_arbitration: blocks.into(), setup }
}

/// Brings tables to a fabric and targets that differ from those they were made for in no other
/// ports than `changed`; the sources must be the same, and so must the answers of the engine
/// elsewhere.
pub fn update(
    tables: &mut QosTables,
    fabric: &Fabric,
    sources: &QosSources,
    policy: &dyn RoutingPolicy,
    targets: &PagedVec<Option<PortInfo>>,
    changed: &[PortId],
) {
    let work = Work { fabric, sources, policy, targets };
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
    sources: &'a QosSources,
    policy: &'a dyn RoutingPolicy,
    targets: &'a PagedVec<Option<PortInfo>>,
}

impl Work<'_> {
    fn configurable_info(&self, port: PortId) -> Option<PortInfo> {
        configurable_info(self.fabric, self.targets, port)
    }

    fn sl_to_vl_of(&self, node: NodeId) -> Vec<(u8, u8, SlToVl)> {
        let is_switch = self.fabric.node(node).is_switch();
        let port_0 = self.fabric.port(self.fabric.node(node).first_port).info;
        if is_switch && !port_0.is_some_and(|info| info.has(CapMask::SL_MAPPING)) {
            return Vec::new();
        }
        let mut maps = Vec::new();
        for output in self.ids(node) {
            let Some(info) = self.configurable_info(output) else { continue };
            let scopes = self.scopes_out_of(output);
            if is_switch {
                let out = self.fabric.port(output).num.0;
                maps.reserve_exact(usize::from(self.fabric.node(node).num_ports()) + 1);
                maps.extend(self.ids(node).map(|input| {
                    (self.fabric.port(input).num.0, out, self.mapped(input, output, &scopes, &info))
                }));
            } else if info.has(CapMask::SL_MAPPING) {
                let num = self.fabric.port(output).num.0;
                maps.push((0, num, self.mapped(output, output, &scopes, &info)));
            }
        }
        maps
    }

    fn ids(&self, node: NodeId) -> impl Iterator<Item = PortId> + use<> {
        let node = self.fabric.node(node);
        let first = node.first_port.0;
        (first..=first + u32::from(node.num_ports())).map(PortId)
    }

    /// The scopes that may have mappings to this output.
    fn scopes_out_of(&self, output: PortId) -> Vec<usize> {
        let setup = self.sources.setup.as_ref().filter(|_| !self.policy.decides_sl_to_vl());
        setup.map_or_else(Vec::new, |setup| setup.mappings_to(self.fabric, output).collect())
    }

    fn mapped(&self, input: PortId, output: PortId, scopes: &[usize], info: &PortInfo) -> SlToVl {
        let of_scope = || {
            let setup = self.sources.setup.as_ref()?;
            let scope = setup.mapping(self.fabric, scopes, input)?;
            setup.policy().sl_to_vl.get(scope).map(|scope| SlToVl::new(scope.vls))
        };
        let configured = || self.sources.config.of(self.fabric, output).sl_to_vl;
        let of_engine = self.policy.sl_to_vl(input, output);
        let map = of_engine.or_else(of_scope).unwrap_or_else(configured);
        let mask = vl_mask(info);
        SlToVl::new(map.vls().map(|vl| if vl == DROPPED_VL { DROPPED_VL } else { vl & mask }))
    }

    fn vl_arbitration_of(&self, port: PortId) -> Vec<(u8, VlArbBlock)> {
        let Some(info) = self.configurable_info(port) else { return Vec::new() };
        if info.vl_cap() == 1 {
            return Vec::new();
        }
        let kind = self.sources.config.of(self.fabric, port);
        let scope = self.sources.arbitration(self.fabric, port);
        let pairs = |table: &Option<Vec<Weight>>| {
            let table = table.as_ref()?.iter();
            Some(table.map(|entry| (entry.vl, entry.weight)).collect::<Vec<_>>())
        };
        let low = scope.and_then(|scope| pairs(&scope.low)).unwrap_or_else(|| kind.low.clone());
        let high = scope.and_then(|scope| pairs(&scope.high)).unwrap_or_else(|| kind.high.clone());
        let mut blocks = Vec::new();
        for (first, entries, cap) in
            [(1, low, info.vl_arb_low_cap()), (3, high, info.vl_arb_high_cap())]
        {
            let cap = usize::from(cap).min(2 * VLARB_BLOCK);
            let mut padded = entries;
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
