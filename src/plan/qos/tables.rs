//! Computes the SL to VL mapping and VL arbitration tables.
//!
//! Input: the options, the scopes of qos-policy.conf, the routing engine's policy and the PortInfo
//! targets. Result: the tables of every port. Invariant: a table uses only VLs that are operational
//! on its (output) port and no more entries than the port has, because every entry passes through
//! [`vl_mask`] and every table is cut to the port's capacity.
//!
//! SL to VL mappings come from the routing engine if it supplies them, else from the first matching
//! `sl2vl-scope`, else from the options. VL arbitration comes from the first matching `vlarb-scope`
//! or the options, and is then adapted by the routing engine. Options exist for four kinds of ports
//! (channel adapters, routers, enhanced switch ports 0, external switch ports); an unset option
//! inherits the general one, which defaults to OpenSM's default.

use super::options::QosConfig;
use super::setup::QosSetup;
use super::vls::{DROPPED_VL, configurable_info, vl_mask};
use crate::config::qos_policy::{VlArbEntry, VlArbScope};
use crate::fabric::{Fabric, NodeId, PortId};
use crate::interned::Interned;
use crate::paged_vec::PagedVec;
use crate::plan::port_targets::PortTargets;
use crate::plan::routing::RoutingPolicy;
use crate::wire::attr::tables::{SlToVl, VLARB_BLOCK, VlArbBlock};
use crate::wire::attr::{CapMask, PortInfo};
use rayon::prelude::*;
use std::hash::Hash;
use std::sync::Arc;

/// The QoS tables of a fabric; empty if QoS is disabled.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QosTables {
    /// SL to VL mappings (input port, output port, mapping) by node, grouped by output port, in the
    /// order in which they are written. Channel adapters and routers have one mapping (0, port) per
    /// live port.
    pub sl_to_vl: PagedVec<Arc<[(u8, u8, SlToVl)]>>,
    /// VL arbitration blocks (block number 1 to 4, block), by port slot.
    pub vl_arbitration: PagedVec<Arc<[(u8, VlArbBlock)]>>,
    /// The `qos-setup` scopes that were applied.
    pub setup: Option<Arc<QosSetup>>,
}

impl QosTables {
    /// The SL to VL mappings of a node (input port, output port, mapping); none if it is not planned.
    pub fn sl_to_vl_of(&self, node: NodeId) -> &[(u8, u8, SlToVl)] {
        self.sl_to_vl.get(node.index()).map_or(&[], |rows| rows)
    }
}

/// The configuration of the tables.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QosSources {
    pub config: QosConfig,
    /// The `qos-setup` scopes of the QoS policy.
    pub setup: Option<Arc<QosSetup>>,
}

impl QosSources {
    /// VLHighLimit of a port, in units of 4096 bytes; 0 for ports with a single data VL.
    pub fn high_limit(&self, fabric: &Fabric, port: PortId) -> u8 {
        if fabric.port(port).info().is_some_and(|info| info.vl_cap() == 1) {
            return 0;
        }
        let limit = self.arbitration(fabric, port).and_then(|scope| scope.high_limit);
        limit.unwrap_or_else(|| self.config.of(fabric, port).high_limit)
    }

    /// The `vlarb-scope` of a port.
    fn arbitration(&self, fabric: &Fabric, port: PortId) -> Option<&VlArbScope> {
        let setup = self.setup.as_ref()?;
        let first = setup.arbitration_at(fabric, port).next()?;
        setup.policy().vl_arbitration.get(first)
    }
}

/// Computes the tables of a fabric whose ports get the PortInfo `targets` (by port slot).
pub fn tables(
    fabric: &Fabric,
    sources: &QosSources,
    policy: &dyn RoutingPolicy,
    targets: &PortTargets,
) -> QosTables {
    let builder = TableBuilder { fabric, sources, policy, targets };
    let nodes: Vec<NodeId> = fabric.node_ids().collect();
    let ports: Vec<PortId> = fabric.port_ids().collect();
    let sl_to_vl = shared(&nodes, |&node| builder.sl_to_vl_of(node));
    let vl_arbitration = shared(&ports, |&port| builder.vl_arbitration_of(port));
    let setup = sources.setup.clone();
    QosTables { sl_to_vl, vl_arbitration, setup }
}

/// The tables of all owners, equal ones stored once. They are computed in parallel, a part at a time, since all of
/// them would take more memory than the result.
fn shared<O: Sync, T: Eq + Hash + Send>(
    owners: &[O],
    table: impl Fn(&O) -> Vec<T> + Sync,
) -> PagedVec<Arc<[T]>> {
    const PART: usize = 4096;
    let mut known = Interned::default();
    let mut tables = Vec::with_capacity(owners.len());
    for part in owners.chunks(PART) {
        let computed: Vec<Vec<T>> = part.par_iter().map(&table).collect();
        tables.extend(computed.into_iter().map(|table| known.share(table)));
    }
    tables.into()
}

/// Updates tables after fabric, targets or the engine's policy changed at the ports `changed`.
/// Nothing may differ at other ports, and the sources must be the same.
pub fn update(
    tables: &mut QosTables,
    fabric: &Fabric,
    sources: &QosSources,
    policy: &dyn RoutingPolicy,
    targets: &PortTargets,
    changed: &[PortId],
) {
    let builder = TableBuilder { fabric, sources, policy, targets };
    for &port in changed {
        tables.vl_arbitration.replace(port.index(), builder.vl_arbitration_of(port).into());
    }
    let mut nodes: Vec<NodeId> = changed.iter().map(|&port| fabric.port(port).node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    for node in nodes {
        tables.sl_to_vl.replace(node.index(), builder.sl_to_vl_of(node).into());
    }
}

#[derive(Clone, Copy)]
struct TableBuilder<'a> {
    fabric: &'a Fabric,
    sources: &'a QosSources,
    policy: &'a dyn RoutingPolicy,
    targets: &'a PortTargets,
}

impl TableBuilder<'_> {
    fn configurable_info(&self, port: PortId) -> Option<PortInfo> {
        configurable_info(self.fabric, self.targets, port)
    }

    fn sl_to_vl_of(&self, node: NodeId) -> Vec<(u8, u8, SlToVl)> {
        let is_switch = self.fabric.node(node).is_switch();
        let port_0 = self.fabric.port(self.fabric.node(node).first_port).info();
        if is_switch && !port_0.is_some_and(|info| info.has(CapMask::SL_MAPPING)) {
            return Vec::new();
        }
        let mut maps = Vec::new();
        for output in self.fabric.node(node).slots() {
            let Some(info) = self.configurable_info(output) else { continue };
            let scopes = self.scopes_out_of(output);
            if is_switch {
                let out = self.fabric.port(output).num.0;
                maps.reserve_exact(usize::from(self.fabric.node(node).num_ports()) + 1);
                maps.extend(self.fabric.node(node).slots().map(|input| {
                    (self.fabric.port(input).num.0, out, self.mapped(input, output, &scopes, &info))
                }));
            } else if info.has(CapMask::SL_MAPPING) {
                let num = self.fabric.port(output).num.0;
                maps.push((0, num, self.mapped(output, output, &scopes, &info)));
            }
        }
        debug_assert!(maps.is_sorted_by_key(|&(input, output, _)| (output, input)));
        maps
    }

    /// The scopes that apply to this output for some input; none if the engine decides the
    /// mappings.
    fn scopes_out_of(&self, output: PortId) -> Vec<usize> {
        let setup = self.sources.setup.as_ref().filter(|_| !self.policy.decides_sl_to_vl());
        setup.map_or_else(Vec::new, |setup| setup.mappings_to(self.fabric, output).collect())
    }

    fn mapped(&self, input: PortId, output: PortId, scopes: &[usize], info: &PortInfo) -> SlToVl {
        let engine_map = self.policy.sl_to_vl(input, output);
        let map = engine_map
            .or_else(|| {
                let setup = self.sources.setup.as_ref()?;
                let scope = setup.mapping(self.fabric, scopes, input)?;
                setup.policy().sl_to_vl.get(scope).map(|scope| SlToVl::new(scope.vls))
            })
            .unwrap_or_else(|| self.sources.config.of(self.fabric, output).sl_to_vl);
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
        let low =
            scope.and_then(|scope| vl_weights(&scope.low)).unwrap_or_else(|| kind.low.clone());
        let high =
            scope.and_then(|scope| vl_weights(&scope.high)).unwrap_or_else(|| kind.high.clone());
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

fn vl_weights(table: &Option<Vec<VlArbEntry>>) -> Option<Vec<(u8, u8)>> {
    let table = table.as_ref()?.iter();
    Some(table.map(|entry| (entry.vl, entry.weight)).collect::<Vec<_>>())
}
