//! Cables and switches that go down and return, with each engine: the plan that is based on the one
//! before equals the plan from scratch, engines that promise routes without credit loops keep
//! their promise, and end ports keep their LIDs. While nothing changes, path SLs stay as they are,
//! and those of engines that choose SLs by routes are back when the fabric is whole again.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use tempfile::NamedTempFile;
use testkit::fabrics::{self, Family, RandomFabric};
use testkit::planning::options;
use testkit::torus::random::Random;
use torus_sm::config::files;
use torus_sm::config::options::Options;
use torus_sm::fabric::Fabric;
use torus_sm::fabric::synthetic::SyntheticView;
use torus_sm::fabric::topology::{Topology, TopologyNode};
use torus_sm::ids::{Guid, Lid, Mlid, PortNum, Sl};
use torus_sm::plan::compute::{PlanInput, Registrations};
use torus_sm::plan::lids::Memory;
use torus_sm::plan::multicast::GroupMembers;
use torus_sm::plan::routing::chain::{Chain, EngineRegistry};
use torus_sm::plan::update::BaselineInputs;
use torus_sm::plan::{Plan, partitions};
use torus_sm::verify::baseline::{Outcome, VerifiedBaseline, plan_and_verify};
use torus_sm::verify::{Checks, Extent, verify};
use torus_sm::wire::attr::NodeKind;

/// Changes of a fabric in a test.
const CHANGES: usize = 5;

/// Engines that choose path SLs by the routes, and routes by the fabric and its LIDs alone.
const CHOOSE_SLS: [&str; 3] = ["lash", "dfsssp", "nue"];

/// The plan in force and what the next one depends on.
struct InForce {
    plan: Arc<Plan>,
    baseline: VerifiedBaseline,
}

/// A daemon that plans, without devices.
struct Planner {
    options: Arc<Options>,
    chain: Chain,
    memory: Memory,
    in_force: Option<InForce>,
    members: Vec<Guid>,
    /// The LIDs of all end ports that were in a fabric so far.
    lids: BTreeMap<Guid, Lid>,
    /// Number of plans with hosts that do not reach others which were verified incrementally.
    incremental_gaps: usize,
}

impl Planner {
    fn new(engine: &str, topology: &Topology, roots: Option<&Path>) -> Self {
        let mut options = options(&format!("{engine},no_fallback"), true);
        options.root_guid_file = roots.map(|file| file.display().to_string());
        let options = Arc::new(options);
        let (lists, _) = files::guid_lists(&options);
        let registry = EngineRegistry::standard(Arc::new(lists));
        let names = options.routing_engine.as_deref().unwrap_or_default();
        let hosts = topology.nodes.iter().filter(|node| node.kind == NodeKind::Ca);
        Self {
            chain: Chain::parse(names, &registry).expect("engines that exist"),
            options,
            memory: Memory::default(),
            in_force: None,
            members: hosts.map(|node| Guid(node.guid.0 + 1)).step_by(2).collect(),
            lids: BTreeMap::new(),
            incremental_gaps: 0,
        }
    }

    /// Plans a fabric, with the present plan as a baseline or not.
    fn outcome(
        &self,
        fabric: &Fabric,
        previous: Option<&InForce>,
        is_incremental: bool,
    ) -> Outcome {
        let members = self.members.iter().filter_map(|&guid| fabric.port_by_guid(guid));
        let group = GroupMembers {
            mlid: Mlid(0xc010),
            sl: Sl(0),
            members: members.collect(),
            senders: Vec::new(),
        };
        let input = PlanInput {
            fabric,
            options: &self.options,
            memory: &self.memory,
            torus_config: &Err(Vec::new()),
            partitions: &partitions::default(&self.options),
            observed_pkeys: &vec![Arc::default(); fabric.ports().len()],
            registrations: Registrations { groups: &[group], ..Registrations::default() },
            previous: previous.map(|previous| &*previous.plan),
            reregister: &|_| false,
            chain: &self.chain,
            qos_policy: None,
        };
        let baseline = previous.map(|previous| &previous.baseline).filter(|_| is_incremental);
        plan_and_verify(&input, baseline, &Checks::new(true))
    }

    /// Plans a fabric in both ways, compares them, and puts the plan into force.
    fn advance(&mut self, fabric: Fabric, case: &str) {
        let fresh = self.outcome(&fabric, self.in_force.as_ref(), false);
        let updated = self.outcome(&fabric, self.in_force.as_ref(), true);
        let (fresh, updated) = match (fresh, updated) {
            (Ok(fresh), Ok(updated)) => (fresh, updated),
            (Err(_), Err(_)) => return, // the engine refuses the fabric; the old plan remains
            (fresh, _) => {
                panic!("{case}: routed only {}", if fresh.is_ok() { "anew" } else { "after" })
            }
        };
        let (one, other) = match (&fresh.verdict, &updated.verdict) {
            (Ok(one), Ok(other)) => (one, other),
            // A reason may name another loop of several.
            (Err(_), Err(_)) => return,
            (one, other) => panic!("{case}: from scratch {one:?}, incremental {other:?}"),
        };
        let whole = verify(&fabric, (**other.plan()).clone(), &Checks::new(true));
        let whole = whole.expect("the plan passes").summary().unrouted;
        assert_eq!(other.summary().unrouted, whole, "{case}: pairs without a route");
        assert_eq!(one.summary().unrouted, whole, "{case}: pairs without a route");
        let is_incremental = other.summary().extent != Extent::Full;
        self.incremental_gaps += usize::from(is_incremental && whole.hosts > 0);
        let [one, other] = [one, other].map(|verified| verified.plan().clone());
        assert!(one.routing.lfts == other.routing.lfts, "{case}: forwarding tables");
        assert!(one.multicast.by_switch == other.multicast.by_switch, "{case}: multicast");
        assert_eq!(path_sls(&fabric, &one), path_sls(&fabric, &other), "{case}: path SLs");
        let inputs = BaselineInputs {
            fabric: Arc::new(fabric.clone()),
            options: Arc::clone(&self.options),
            partitions: Arc::new(partitions::default(&self.options)),
            observed_pkeys: Arc::new(vec![Arc::default(); fabric.ports().len()]),
            memory: self.memory.clone(),
        };
        self.memory = updated.memory;
        let pending = updated.pending_baseline.expect("a plan that passed");
        let baseline = pending.complete(inputs, &Checks::new(true));
        self.in_force = Some(InForce { plan: other, baseline });
        self.check_lids(&fabric, case);
        self.check_repetition(&fabric, case);
    }

    /// End ports have the LIDs that they had in all fabrics before.
    fn check_lids(&mut self, fabric: &Fabric, case: &str) {
        let Some(in_force) = &self.in_force else { return };
        for port in fabric.end_ports() {
            let guid = fabric.port(port).guid;
            let lid = in_force.plan.lids.base(port);
            let Some(lid) = lid else { continue };
            assert_eq!(*self.lids.entry(guid).or_insert(lid), lid, "{case}: LID of {guid}");
        }
    }

    /// Another plan of the same fabric changes no LID, route or path SL.
    fn check_repetition(&self, fabric: &Fabric, case: &str) {
        let Some(in_force) = &self.in_force else { return };
        for is_incremental in [false, true] {
            let outcome = self.outcome(fabric, Some(in_force), is_incremental);
            let Ok(verified) = outcome.expect("routes, as before").verdict else {
                panic!("{case}: does not pass again");
            };
            let before = &in_force.plan;
            let again = verified.plan();
            assert!(before.lids.iter().eq(again.lids.iter()), "{case}: LIDs of the same fabric");
            assert!(before.routing.lfts == again.routing.lfts, "{case}: the same fabric");
            assert_eq!(path_sls(fabric, before), path_sls(fabric, again), "{case}: same fabric");
        }
    }
}

/// The SLs of the paths between all end ports, by LID.
fn path_sls(fabric: &Fabric, plan: &Plan) -> Vec<u8> {
    let ports: Vec<_> = fabric.end_ports().collect();
    let policy = &plan.routing.policy;
    let pairs = ports.iter().flat_map(|&from| plan.lids.iter().map(move |to| (from, to)));
    pairs.map(|(from, (lid, to))| policy.path_sl_to_lid(from, to, lid, Sl(0)).0).collect()
}

/// The topology without these cables, and without the cables of these nodes.
fn damaged(topology: &Topology, cables: &[usize], nodes: &[usize]) -> Topology {
    let mut left = topology.clone();
    let mut index = 0;
    left.cables.retain(|ends| {
        index += 1;
        !cables.contains(&(index - 1)) && !ends.iter().any(|(node, _)| nodes.contains(node))
    });
    left
}

/// Adds an aggregation node to each switch: a channel adapter at an additional port.
fn with_aggregation_nodes(mut topology: Topology) -> Topology {
    for switch in 0..topology.nodes.len() {
        if topology.nodes[switch].kind != NodeKind::Switch {
            continue;
        }
        let node = &mut topology.nodes[switch];
        node.num_ports += 1;
        let port = PortNum(node.num_ports);
        let guid = Guid(node.guid.0 + 0x0100_0000_0000);
        let adapter = TopologyNode {
            model: node.model,
            ..TopologyNode::new(NodeKind::Ca, guid, 1)
                .described("Mellanox Technologies Aggregation Node")
        };
        topology.nodes.push(adapter);
        topology.cables.push([(switch, port), (topology.nodes.len() - 1, PortNum(1))]);
    }
    topology
}

/// A root_guid_file with the switches of a tree that are farthest from its hosts.
fn roots_file(topology: &Topology) -> NamedTempFile {
    let nodes = 0..topology.nodes.len();
    let is_host = |node: usize| topology.nodes[node].kind != NodeKind::Switch;
    let mut is_near: Vec<bool> = nodes.clone().map(is_host).collect();
    let mut farthest: Vec<usize> = Vec::new();
    loop {
        let left: Vec<usize> = nodes.clone().filter(|&node| !is_near[node]).collect();
        if left.is_empty() || left == farthest {
            break;
        }
        farthest = left;
        let before = is_near.clone();
        for [one, other] in &topology.cables {
            is_near[one.0] |= before[other.0];
            is_near[other.0] |= before[one.0];
        }
    }
    let mut file = NamedTempFile::new().expect("a file");
    for node in farthest {
        writeln!(file, "{}", topology.nodes[node].guid).expect("it is written");
    }
    file
}

/// Random changes of random fabrics of these families.
fn change_fabrics(engine: &str, families: &[Family], is_loop_free: bool) {
    let incremental_gaps = change(engine, families, is_loop_free, |topology| topology);
    assert_eq!(incremental_gaps, 0, "{engine}: all hosts are at leaves");
}

/// Random changes of random fabrics of these families. Returns the number of incremental checks of
/// plans that leave hosts without routes to others.
fn change(
    engine: &str,
    families: &[Family],
    is_loop_free: bool,
    extend: impl Fn(Topology) -> Topology,
) -> usize {
    let mut routed = 0;
    let mut incremental_gaps = 0;
    for seed in 0..2 * families.len() as u64 {
        let family = families[seed as usize % families.len()];
        let mut random = Random::new(seed + 1000);
        let RandomFabric { topology, local } = fabrics::random(family, &mut random);
        let roots = roots_file(&topology);
        let extended = extend(topology.clone());
        let has_roots = extended != topology;
        let topology = extended;
        let mut planner = Planner::new(engine, &topology, Some(roots.path()).filter(|_| has_roots));
        let mut first_sls = None;
        let switches: Vec<usize> = (0..topology.nodes.len())
            .filter(|&node| topology.nodes[node].kind == NodeKind::Switch)
            .filter(|&node| {
                !topology.cables.iter().any(|ends| {
                    ends.iter().any(|end| end.0 == node) && ends.iter().any(|end| end.0 == local)
                })
            })
            .collect();
        for change in 0..CHANGES {
            // The first and the last fabric are whole.
            let is_whole = change == 0 || change + 1 == CHANGES;
            let mut cables = Vec::new();
            let mut nodes = Vec::new();
            if !is_whole {
                cables
                    .extend((0..1 + random.below(3)).map(|_| random.below(topology.cables.len())));
                cables.retain(|&cable| topology.cables[cable].iter().all(|end| end.0 != local));
                if random.percent(40) && !switches.is_empty() {
                    nodes.push(switches[random.below(switches.len())]);
                }
            }
            let left = damaged(&topology, &cables, &nodes);
            let fabric = Fabric::from_topology(&left, local, &SyntheticView::default());
            let case = format!("{engine}, {family} {seed}, change {change}");
            let fabric = fabric.expect("the local node");
            planner.advance(fabric.clone(), &case);
            if change == 0 {
                first_sls = planner.in_force.as_ref().map(|now| path_sls(&fabric, &now.plan));
            } else if is_whole && CHOOSE_SLS.contains(&engine) && first_sls.is_some() {
                let now = planner.in_force.as_ref().map(|now| path_sls(&fabric, &now.plan));
                assert_eq!(now, first_sls, "{case}: path SLs of the whole fabric");
            }
        }
        incremental_gaps += planner.incremental_gaps;
        if let Some(in_force) = &planner.in_force {
            routed += 1;
            let proves = in_force.plan.routing.policy.guarantees_no_credit_loops();
            assert_eq!(proves, is_loop_free, "{engine}: {family} {seed}");
        }
    }
    assert!(routed >= families.len(), "{engine} routed only {routed} fabrics");
    incremental_gaps
}

macro_rules! engines {
    ($($test:ident: $engine:literal, $families:expr, $is_loop_free:literal;)*) => {$(
        #[test]
        fn $test() {
            change_fabrics($engine, $families, $is_loop_free);
        }
    )*};
}

const TREES: &[Family] = &[Family::FatTree2, Family::FatTree3];

engines! {
    minhop_follows_changes: "minhop", &Family::ALL, false;
    updn_follows_changes: "updn", TREES, false;
    dnup_follows_changes: "dnup", TREES, false;
    ftree_follows_changes: "ftree", TREES, false;
    dor_follows_changes: "dor", &Family::ALL, false;
    lash_follows_changes: "lash", &Family::ALL, true;
    sssp_follows_changes: "sssp", &Family::ALL, false;
    dfsssp_follows_changes: "dfsssp", &Family::ALL, true;
    nue_follows_changes: "nue", &Family::ALL, true;
}

/// Aggregation nodes of spines do not reach each other, and the incremental check counts them.
#[test]
fn trees_with_aggregation_nodes_follow_changes() {
    let incremental_gaps = change("updn", TREES, false, with_aggregation_nodes);
    assert!(incremental_gaps > 0, "no incremental check of such a plan");
    change("dnup", TREES, false, with_aggregation_nodes);
    for engine in ["minhop", "dfsssp"] {
        let is_loop_free = engine == "dfsssp";
        assert_eq!(change(engine, TREES, is_loop_free, with_aggregation_nodes), 0, "{engine}");
    }
}
