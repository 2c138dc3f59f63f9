//! Plans for generated tori by a simple deadlock-free reference engine: dimension order, the
//! shorter direction, with one VL for paths that cross the dateline of a ring and another for those
//! that do not.

use std::collections::HashMap;
use std::sync::Arc;
use torus_sm::fabric::synthetic::SyntheticView;
use torus_sm::fabric::{Fabric, NodeId, PortId, SwitchId};
use torus_sm::ids::{Lid, Sl};
use torus_sm::plan::port_targets::PortTargets;
use torus_sm::plan::routing::{Lft, Routing, RoutingPolicy};
use torus_sm::plan::{LidTable, Plan};
use torus_sm::sim::generate::Shape;
use torus_sm::wire::attr::PortState;
use torus_sm::wire::attr::tables::SlToVl;

/// OperationalVLs code of VLs 0 to 7 (IBA vol. 1, 14.2.5.6).
const EIGHT_DATA_VLS: u8 = 4;

/// A torus with its coordinates.
pub struct Torus {
    pub shape: Shape,
    pub fabric: Fabric,
    /// Coordinates by switch.
    pub at: Vec<[u16; 3]>,
}

/// Path SLs from dateline crossings.
pub struct Datelines {
    radix: [u16; 3],
    looped: [bool; 3],
    /// Coordinates and index of its switch, by port.
    at: Vec<Option<([u16; 3], u32)>>,
    pub promise: bool,
}

fn crosses(radix: u16, looped: bool, from: u16, to: u16) -> bool {
    let direct = from.abs_diff(to);
    looped && direct > radix - direct
}

impl RoutingPolicy for Datelines {
    fn path_sl(&self, source: PortId, destination: PortId, hint: Sl) -> Sl {
        let (Some((from, _)), Some((to, _))) =
            (self.at[source.index()], self.at[destination.index()])
        else {
            return Sl(0);
        };
        Sl(hint.0 & 8
            | bit(&from, &to, &self.radix, &self.looped, 0)
            | bit(&from, &to, &self.radix, &self.looped, 1)
            | bit(&from, &to, &self.radix, &self.looped, 2))
    }

    /// A policy that promises freedom from credit loops must state its own mappings; the plan has
    /// the actual ones.
    fn sl_to_vl(&self, _: PortId, _: PortId) -> Option<SlToVl> {
        self.promise.then(SlToVl::default)
    }

    fn sl_group(&self, port: PortId) -> u32 {
        self.at[port.index()].map_or(u32::MAX, |(_, switch)| switch)
    }

    fn decides_sl_to_vl(&self) -> bool {
        self.promise
    }

    fn guarantees_no_credit_loops(&self) -> bool {
        self.promise
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

fn bit(from: &[u16; 3], to: &[u16; 3], radix: &[u16; 3], looped: &[bool; 3], d: usize) -> u8 {
    u8::from(crosses(radix[d], looped[d], from[d], to[d])) << d
}

impl Torus {
    pub fn new(radix: [u16; 3], hosts: u8, parallel: u8) -> Self {
        let shape = Shape { hosts, parallel, ..Shape::torus(radix) };
        let topology = shape.build().expect("a healthy torus");
        let view = SyntheticView { state: PortState::Active, ..SyntheticView::default() };
        let fabric = Fabric::from_topology(&topology, 0, &view).expect("node 0");
        let mut by_guid = HashMap::new();
        for x in 0..radix[0] {
            for y in 0..radix[1] {
                for z in 0..radix[2] {
                    by_guid.insert(shape.switch_guid([x, y, z]), [x, y, z]);
                }
            }
        }
        let at = fabric.switch_ids().map(|id| by_guid[&fabric.switch(id).guid()]).collect();
        Self { shape, fabric, at }
    }

    fn step(&self, from: [u16; 3], to: [u16; 3]) -> Option<[u16; 3]> {
        let d = (0..3).find(|&d| from[d] != to[d])?;
        let radix = self.shape.radix[d];
        let up = (to[d] > from[d]) != crosses(radix, self.shape.looped[d], from[d], to[d]);
        let mut next = from;
        next[d] = if up { (from[d] + 1) % radix } else { (from[d] + radix - 1) % radix };
        Some(next)
    }

    /// LIDs 1, 2 … in the order of the ports.
    fn lids(&self) -> LidTable {
        let mut lids = LidTable::new(self.fabric.ports().len());
        for (port, lid) in self.fabric.end_ports().zip(1..) {
            lids.assign(port, Lid(lid), 0);
        }
        lids
    }

    /// The ports of a switch towards each of its neighbours.
    fn ways(&self, switch: SwitchId) -> HashMap<[u16; 3], Vec<u8>> {
        let mut ways: HashMap<_, Vec<u8>> = HashMap::new();
        for port in self.fabric.ports_of(self.fabric.switches()[switch.index()]) {
            let to = port.peer.and_then(|peer| self.fabric.node_of(peer).switch);
            if let Some(to) = to {
                ways.entry(self.at[to.index()]).or_default().push(port.num.0);
            }
        }
        ways
    }

    fn lft(&self, lids: &LidTable, switch: SwitchId) -> Lft {
        let mut lft = Lft::empty(lids.max());
        let here = self.at[switch.index()];
        let ways = self.ways(switch);
        for (lid, port) in lids.iter() {
            let to = self.fabric.switch_behind(port).expect("a switch");
            let port = match self.step(here, self.at[to.index()]) {
                Some(next) => {
                    let ports = &ways[&next];
                    ports[lid.index() % ports.len()]
                }
                None if self.fabric.node_of(port).is_switch() => 0,
                None => {
                    let peer = self.fabric.port(port).peer.expect("a cable");
                    self.fabric.port(peer).num.0
                }
            };
            lft.set(lid, port);
        }
        lft
    }

    /// The dimension of a port between switches.
    fn dimension(&self, port: PortId) -> Option<usize> {
        let peer = self.fabric.port(port).peer?;
        let a = self.fabric.node_of(port).switch?;
        let b = self.fabric.node_of(peer).switch?;
        (0..3).find(|&d| self.at[a.index()][d] != self.at[b.index()][d])
    }

    fn map(&self, input: Option<usize>, output: Option<usize>) -> SlToVl {
        SlToVl::new(std::array::from_fn(|sl| {
            let qos = sl as u8 >> 3;
            match output {
                Some(d) => {
                    let turn = u8::from(input.is_some_and(|from| from > d));
                    qos << 2 | turn << 1 | (sl as u8 >> d & 1)
                }
                None => qos,
            }
        }))
    }

    /// The plan. Without QoS it has no VL tables.
    pub fn plan(&self, qos: bool, promise: bool) -> Plan {
        let lids = self.lids();
        let at = self.fabric.port_ids().map(|port| {
            let switch = self.fabric.switch_behind(port)?;
            Some((self.at[switch.index()], switch.0))
        });
        let radix = self.shape.radix;
        let looped = self.shape.looped;
        let policy = Datelines { radix, looped, at: at.collect(), promise };
        let lfts = self.fabric.switch_ids().map(|id| Arc::new(self.lft(&lids, id))).collect();
        let mut plan = Plan {
            ports: PortTargets::none(self.fabric.ports().len()),
            lids: Arc::new(lids),
            switch_infos: self
                .fabric
                .switch_ids()
                .map(|id| self.fabric.switch(id).switch_info)
                .collect(),
            aliases: Vec::new(),
            vport_aliases: Vec::new(),
            routing: Arc::new(Routing {
                engine: "dimension order",
                lfts,
                policy: Arc::new(policy),
                notes: Vec::new(),
                routing_errors: Vec::new(),
            }),
            qos: Default::default(),
            partitions: Default::default(),
            multicast: Default::default(),
            notes: Vec::new(),
        };
        if qos {
            self.add_qos(&mut plan);
        }
        plan
    }

    fn add_qos(&self, plan: &mut Plan) {
        for id in self.fabric.port_ids() {
            // Port slots that the node does not have have no PortInfo.
            let mut info = self.fabric.port(id).info().unwrap_or_default();
            info.set_port_state(PortState::NoChange);
            info.set_operational_vls(EIGHT_DATA_VLS);
            plan.ports.replace(id, Some(info));
        }
        plan.qos.sl_to_vl = self.fabric.node_ids().map(|id| self.mappings(id).into()).collect();
    }

    fn mappings(&self, id: NodeId) -> Vec<(u8, u8, SlToVl)> {
        let node = self.fabric.node(id);
        if !node.is_switch() {
            return vec![(0, 0, self.map(None, None))];
        }
        let mut rows = Vec::new();
        for output in 1..=node.num_ports() {
            for input in 0..=node.num_ports() {
                let map = self.map(
                    self.dimension(slot(&node.first_port.0, input)),
                    self.dimension(slot(&node.first_port.0, output)),
                );
                rows.push((input, output, map));
            }
        }
        rows
    }
}

fn slot(node_first_port_0: &u32, num: u8) -> PortId {
    PortId(*node_first_port_0 + u32::from(num))
}

/// The plan with changed forwarding tables.
pub fn with_lfts(mut plan: Plan, change: impl FnOnce(&mut [Vec<u8>])) -> Plan {
    let mut routing = Routing::clone(&plan.routing);
    let mut tables: Vec<Vec<u8>> = routing.lfts.iter().map(|lft| lft.entries().collect()).collect();
    change(&mut tables);
    routing.lfts = tables.into_iter().map(|table| Arc::new(Lft::from(&table[..]))).collect();
    plan.routing = Arc::new(routing);
    plan
}
