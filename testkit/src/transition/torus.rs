//! Tori routed by the real engines, with failures and repairs.

use super::Scene;
use super::draw::{at_work, go_on};
use crate::planning::{PlanSetup, options};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use torus_sm::fabric::Fabric;
use torus_sm::fabric::synthetic::SyntheticView;
use torus_sm::fabric::topology::Topology;
use torus_sm::fabric::topology::TopologyNode;
use torus_sm::ids::{Lid, Mlid, PortNum, Sl};
use torus_sm::plan::Plan;
use torus_sm::plan::lids::Memory;
use torus_sm::plan::multicast::GroupMembers;
use torus_sm::sim::generate::Shape;
use torus_sm::wire::attr::{NodeKind, PortState};

/// A torus without some of its parts.
pub struct Torus {
    shape: Shape,
    pub topology: Topology,
    engine: &'static str,
}

/// Indexes of the nodes and links that are missing.
#[derive(Clone, Default)]
pub struct Missing {
    pub nodes: BTreeSet<usize>,
    pub cables: BTreeSet<usize>,
}

impl Torus {
    pub fn new(shape: Shape, engine: &'static str) -> Self {
        let topology = shape.build().expect("the shape fits a fabric");
        Self { shape, topology, engine }
    }

    pub fn has_qos(&self) -> bool {
        self.engine != "minhop"
    }

    /// Indexes of the switches.
    pub fn switches(&self) -> Vec<usize> {
        let nodes = self.topology.nodes.iter().enumerate();
        nodes.filter(|(_, node)| node.kind == NodeKind::Switch).map(|(number, _)| number).collect()
    }

    /// Indexes of the links between switches.
    pub fn trunks(&self) -> Vec<usize> {
        let cables = self.topology.cables.iter().enumerate();
        let between =
            |ends: &[_; 2]| ends.iter().all(|&(node, _)| is_switch(&self.topology.nodes, node));
        cables.filter(|(_, ends)| between(ends)).map(|(number, _)| number).collect()
    }

    /// The first cable from the switch with this number along an axis.
    pub fn cable(&self, switch: usize, axis: usize) -> usize {
        let node = self.switches()[switch];
        let port = PortNum(1 + 2 * axis as u8);
        let mut cables = self.topology.cables.iter();
        cables.position(|ends| ends.contains(&(node, port))).expect("a switch has all its links")
    }

    fn picture(&self, missing: &Missing) -> Fabric {
        let mut topology = self.topology.clone();
        let mut number = 0..;
        topology.cables.retain(|ends| {
            let number = number.next().expect("it has no end");
            let is_lost = ends.iter().any(|(node, _)| missing.nodes.contains(node));
            !missing.cables.contains(&number) && !is_lost
        });
        let local = (0..topology.nodes.len())
            .rev()
            .find(|&node| host(&topology.nodes, &topology.cables, node))
            .expect("a host");
        let view = SyntheticView { state: PortState::Active, ..SyntheticView::default() };
        Fabric::from_topology(&topology, local, &view).expect("the host exists")
    }

    /// The daemon's plan, with all hosts in one group and every third in another.
    fn plan(&self, fabric: &Fabric, memory: &Memory) -> Option<Plan> {
        let site = PlanSetup {
            fabric: fabric.clone(),
            options: options(self.engine, self.has_qos()),
            memory: memory.clone(),
            torus_conf: self.shape.torus_conf(),
        };
        let hosts = fabric.end_ports().filter(|&port| !fabric.node_of(port).is_switch());
        let members: Vec<_> = hosts.collect();
        let some = members.iter().copied().step_by(3).collect();
        let groups = [(Mlid(0xC000), members), (Mlid(0xC021), some)];
        let groups = groups.map(|(mlid, members)| GroupMembers {
            mlid,
            sl: Sl(0),
            members,
            senders: Vec::new(),
        });
        site.plan(&groups).ok()
    }

    /// The transition from the plan without `before` to the plan without `after`; `None` if one of
    /// them cannot be routed.
    pub fn scene(&self, before: &Missing, after: &Missing) -> Option<Scene> {
        let whole = self.picture(&Missing::default());
        let memory = Memory::new(Default::default());
        let lids = self.plan(&whole, &memory)?.lids;
        let mut guid2lid = BTreeMap::<_, (Lid, Lid)>::new();
        for (lid, port) in lids.iter() {
            guid2lid.entry(whole.port(port).guid).or_insert((lid, lid)).1 = lid;
        }
        let memory = Memory::new(guid2lid);
        let mut first = self.picture(before);
        let old = self.plan(&first, &memory)?;
        at_work(&mut first, &old.lids, &old.switch_infos);
        let mut fabric = self.picture(after);
        let mut new = self.plan(&fabric, &memory)?;
        share_tables(&old, &mut new);
        go_on(&first, &mut fabric, &new);
        Some(Scene { before: Arc::new(first), old: Arc::new(old), fabric, new })
    }
}

fn host(nodes: &[TopologyNode], cables: &[[(usize, PortNum); 2]], node: usize) -> bool {
    nodes[node].kind == NodeKind::Ca && cables.iter().flatten().any(|&(at, _)| at == node)
}

fn is_switch(topology_nodes: &[TopologyNode], node: usize) -> bool {
    topology_nodes[node].kind == NodeKind::Switch
}

/// Lets a plan share the forwarding tables that equal those of the one before, as an engine does
/// that starts from the routes in force.
fn share_tables(old: &Plan, new: &mut Plan) {
    let routing = Arc::get_mut(&mut new.routing).expect("nobody else has the new routes");
    for (table, before) in routing.lfts.iter_mut().zip(&old.routing.lfts) {
        if table == before {
            *table = before.clone();
        }
    }
}
