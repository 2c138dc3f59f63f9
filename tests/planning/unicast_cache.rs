//! `use_ucast_cache`: a leaf switch that goes and returns changes no route, with each engine.

use std::collections::BTreeMap;
use std::sync::Arc;
use testkit::planning::options;
use torus_sm::config::files;
use torus_sm::config::options::Options;
use torus_sm::fabric::Fabric;
use torus_sm::fabric::synthetic::SyntheticView;
use torus_sm::fabric::topology::Topology;
use torus_sm::ids::{Guid, Lid, Sl};
use torus_sm::plan::compute::{PlanInput, Registrations};
use torus_sm::plan::lids::Memory;
use torus_sm::plan::routing::chain::{Chain, EngineRegistry};
use torus_sm::plan::{Plan, partitions};
use torus_sm::sim::generate::FabricShape;
use torus_sm::verify::Checks;
use torus_sm::verify::baseline::plan_and_verify;
use torus_sm::wire::attr::NodeKind;

/// A daemon that plans, without devices.
struct Planner {
    options: Options,
    chain: Chain,
    memory: Memory,
    plan: Option<Arc<Plan>>,
}

impl Planner {
    fn new(engine: &str) -> Self {
        let options =
            Options { use_ucast_cache: true, ..options(&format!("{engine},no_fallback"), true) };
        let (lists, _) = files::guid_lists(&options);
        let registry = EngineRegistry::standard(Arc::new(lists));
        let names = options.routing_engine.as_deref().unwrap_or_default();
        let chain = Chain::parse(names, &registry).expect("engines that exist");
        Self { options, chain, memory: Memory::default(), plan: None }
    }

    /// Plans and verifies a topology after the one before.
    fn plan(&mut self, topology: &Topology) -> (Fabric, Arc<Plan>) {
        let local = topology.nodes.iter().rposition(|node| node.kind == NodeKind::Ca);
        let fabric = Fabric::from_topology(topology, local.unwrap(), &SyntheticView::default());
        let fabric = fabric.expect("the local node");
        let input = PlanInput {
            fabric: &fabric,
            options: &self.options,
            memory: &self.memory,
            torus_config: &Err(Vec::new()),
            partitions: &partitions::default(&self.options),
            observed_pkeys: &vec![Arc::default(); fabric.ports().len()],
            registrations: Registrations::default(),
            previous: self.plan.as_deref(),
            reregister: &|_| false,
            chain: &self.chain,
            qos_policy: None,
        };
        let planned = plan_and_verify(&input, None, &Checks::new(true));
        let planned = planned.unwrap_or_else(|error| panic!("{:?}", error.routing_errors));
        let plan = planned.verdict.expect("a plan that passes").plan().clone();
        self.memory = planned.memory;
        self.plan = Some(Arc::clone(&plan));
        (fabric, plan)
    }
}

/// True if the plan has routes of the cache.
fn is_cached(plan: &Plan) -> bool {
    plan.notes.iter().any(|note| note.text.starts_with("routes of the unicast cache are used"))
}

/// Output ports by switch and LID, for LIDs in use.
fn tables(fabric: &Fabric, plan: &Plan) -> BTreeMap<(Guid, Lid), Option<u8>> {
    let switches = fabric.switch_ids().zip(&plan.routing.lfts);
    let rows = switches.flat_map(|(switch, lft)| {
        let guid = fabric.switch(switch).guid();
        plan.lids.iter().map(move |(lid, _)| ((guid, lid), lft.out(lid)))
    });
    rows.collect()
}

/// Path SLs by source and destination LID.
fn path_sls(fabric: &Fabric, plan: &Plan) -> BTreeMap<(Guid, Lid), Sl> {
    let policy = &plan.routing.policy;
    let pairs = fabric.end_ports().flat_map(|from| plan.lids.iter().map(move |to| (from, to)));
    let sl = |(from, (lid, to))| {
        ((fabric.port(from).guid, lid), policy.path_sl_to_lid(from, to, lid, Sl(0)))
    };
    pairs.map(sl).collect()
}

/// The topology without the cables of this node.
fn without(topology: &Topology, description: &str) -> Topology {
    let node = topology.nodes.iter().position(|node| node.description == description);
    let node = node.expect("a node of this description");
    let mut left = topology.clone();
    left.cables.retain(|ends| ends.iter().all(|end| end.0 != node));
    left
}

fn tree() -> Topology {
    let shape: FabricShape = "fattree:5x3".parse().expect("a fat tree");
    let FabricShape::Other { family, .. } = shape else { panic!("a fat tree") };
    FabricShape::Other { family, hosts: 2, parallel: 2 }.build().expect("it fits")
}

fn leaf_goes_and_returns(engine: &str) {
    let topology = tree();
    let mut planner = Planner::new(engine);
    let (fabric, plan) = planner.plan(&topology);
    assert!(!is_cached(&plan), "{engine}");
    let all_routes = tables(&fabric, &plan);
    let all_sls = path_sls(&fabric, &plan);
    for gone in ["leaf 1", "h0-0 HCA-1", "leaf 0"] {
        let (fabric, plan) = planner.plan(&without(&topology, gone));
        assert!(is_cached(&plan), "{engine}: {gone}");
        assert!(fabric.nodes().len() < topology.nodes.len(), "{engine}: {gone}");
        for ((switch, lid), port) in tables(&fabric, &plan) {
            let kept = all_routes[&(switch, lid)];
            // Packets between spines pass leaves.
            let to_switch = plan.lids.port(lid).is_some_and(|to| fabric.node_of(to).is_switch());
            let is_spine = fabric
                .node_by_guid(switch)
                .is_some_and(|node| fabric.node(node).description.to_string().starts_with("spine"));
            assert!(kept == port || (to_switch && is_spine), "{engine}: {gone}: LID {lid}");
        }
        for (key, sl) in path_sls(&fabric, &plan) {
            assert_eq!(all_sls[&key], sl, "{engine}: {gone}: {key:?}");
        }
    }
    let (fabric, plan) = planner.plan(&topology);
    assert!(is_cached(&plan), "{engine}");
    assert!(tables(&fabric, &plan) == all_routes, "{engine}: routes after the return");
    assert_eq!(path_sls(&fabric, &plan), all_sls, "{engine}");
    if engine == "ftree" {
        return; // It refuses a tree that lacks a cable or a spine.
    }
    // A lost cable between switches, and a lost spine, need new routes.
    let mut cut = topology.clone();
    let is_switch = |node: usize| topology.nodes[node].kind == NodeKind::Switch;
    let cable = cut.cables.iter().position(|ends| ends.iter().all(|end| is_switch(end.0)));
    cut.cables.remove(cable.expect("a cable between switches"));
    assert!(!is_cached(&planner.plan(&cut).1), "{engine}: lost cable");
    planner.plan(&topology);
    let (_, plan) = planner.plan(&without(&topology, "spine 1"));
    assert!(!is_cached(&plan), "{engine}: lost spine");
}

macro_rules! engines {
    ($($test:ident: $engine:literal;)*) => {$(
        #[test]
        fn $test() {
            leaf_goes_and_returns($engine);
        }
    )*};
}

engines! {
    minhop_keeps_routes: "minhop";
    updn_keeps_routes: "updn";
    dnup_keeps_routes: "dnup";
    dor_keeps_routes: "dor";
    ftree_keeps_routes: "ftree";
    lash_keeps_routes: "lash";
    sssp_keeps_routes: "sssp";
    dfsssp_keeps_routes: "dfsssp";
    nue_keeps_routes: "nue";
}

/// A spine with a host counts as a leaf, but others' paths pass it: OpenSM keeps their routes, which
/// lead nowhere.
#[test]
fn a_switch_on_the_paths_of_others_needs_new_routes() {
    let mut topology = tree();
    let spine = topology.nodes.iter().position(|node| node.description == "spine 1").unwrap();
    let mut host = topology.nodes[0].clone();
    host.guid = Guid(0x7000_0000);
    host.description = "host of a spine".to_owned();
    topology.nodes.push(host);
    topology.nodes[spine].num_ports += 1;
    let port = torus_sm::ids::PortNum(topology.nodes[spine].num_ports);
    let number = topology.nodes.len() - 1;
    topology.cables.push([(spine, port), (number, torus_sm::ids::PortNum(1))]);
    // The SM is at the last host, which must stay.
    topology.nodes.swap(number, 0);
    for end in topology.cables.iter_mut().flatten() {
        if end.0 == number || end.0 == 0 {
            end.0 = number - end.0;
        }
    }
    let mut planner = Planner::new("minhop");
    planner.plan(&topology);
    let (_, plan) = planner.plan(&without(&topology, "spine 1"));
    assert!(!is_cached(&plan));
}

/// A new host ends the use of the cache.
#[test]
fn a_new_host_needs_new_routes() {
    let topology = tree();
    let mut planner = Planner::new("minhop");
    planner.plan(&without(&topology, "h0-0 HCA-1"));
    assert!(!is_cached(&planner.plan(&topology).1));
    assert!(is_cached(&planner.plan(&topology).1));
}
