//! The engine whose routes are used if an engine breaks its promise, and credit loops that packets
//! of switches close.

use std::sync::Arc;
use testkit::planning::{PlanSetup, options};
use torus_sm::fabric::PortId;
use torus_sm::plan::compute::{PlanInput, Registrations};
use torus_sm::plan::lids::Memory;
use torus_sm::plan::partitions;
use torus_sm::plan::routing::chain::{Chain, EngineRegistry};
use torus_sm::plan::routing::minhop::MinHop;
use torus_sm::plan::routing::{Engine, Routing, RoutingError, RoutingInput, RoutingPolicy};
use torus_sm::sim::generate::Shape;
use torus_sm::verify::baseline::plan_and_verify;
use torus_sm::verify::{Checks, Verified, VerifyFailure};

/// An engine with the routes of minhop that promises to have no credit loop.
struct Promising;

struct PromisingPolicy;

impl RoutingPolicy for PromisingPolicy {
    fn sl_group(&self, _port: PortId) -> u32 {
        0
    }

    fn guarantees_no_credit_loops(&self) -> bool {
        true
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

impl Engine for Promising {
    fn name(&self) -> &'static str {
        "promising"
    }

    fn route(&self, input: &RoutingInput<'_>) -> Result<Routing, RoutingError> {
        let routing = MinHop::default().route(input)?;
        Ok(Routing { engine: self.name(), policy: Arc::new(PromisingPolicy), ..routing })
    }
}

/// The verdict on a ring of six switches with hosts, on which shortest paths close a loop.
fn verdict(engines: &str, checks: &Checks) -> Result<Verified, VerifyFailure> {
    let ring = Shape { hosts: 1, ..Shape::torus([6, 1, 1]) };
    let setup = PlanSetup::generated(&ring, engines, false);
    let registry = EngineRegistry::standard(Arc::default()).with(Arc::new(Promising));
    let input = PlanInput {
        fabric: &setup.fabric,
        options: &setup.options,
        memory: &Memory::default(),
        torus_config: &Err(Vec::new()),
        partitions: &partitions::default(&setup.options),
        observed_pkeys: &vec![Arc::default(); setup.fabric.ports().len()],
        registrations: Registrations::default(),
        previous: None,
        reregister: &|_| false,
        chain: &Chain::parse(engines, &registry).expect("known engines"),
        qos_policy: None,
    };
    plan_and_verify(&input, None, checks).expect("a plan").verdict
}

#[test]
fn a_fallback_must_have_better_routes() {
    let checks = Checks::new(false);
    let used = |engines: &str, checks: &Checks| {
        let verified = verdict(engines, checks).expect("a plan that passes");
        (verified.plan().routing.engine, verified.summary().clone())
    };
    // minhop has the same loop, nue has none.
    let (engine, summary) = used("promising", &checks);
    assert_eq!((engine, summary.has_host_loop), ("promising", true));
    let said = &summary.notes[0].text;
    assert!(said.contains("promising leaves a credit loop although it promises none"), "{said}");
    for engines in ["promising,nue", "promising,minhop,nue"] {
        let (engine, summary) = used(engines, &checks);
        assert_eq!((engine, summary.cycle), ("nue", None), "{engines}");
    }
    let failure = verdict("promising,no_fallback", &checks).expect_err("a broken promise");
    assert!(failure.credit_loop().is_some(), "{failure}");
    // Strict checks let any engine without a promise replace it.
    assert_eq!(used("promising", &checks.strict()).0, "minhop");
}

/// A ring of six switches with hosts at two neighbours only.
fn ring_of_two_hosts(vls: u8) -> PlanSetup {
    let ring = Shape { hosts: 1, ..Shape::torus([6, 1, 1]) };
    let mut topology = ring.build().expect("a fabric");
    let is_host = |node: usize| topology.nodes[node].description.starts_with('h');
    let hosts: Vec<usize> = (0..topology.nodes.len()).filter(|&node| is_host(node)).collect();
    let removed = &hosts[2..];
    assert_eq!(removed.len(), 4);
    topology.cables.retain(|ends| !ends.iter().any(|end| removed.contains(&end.0)));
    let mut options = options("dfsssp,no_fallback", true);
    options.max_op_vls = vls;
    PlanSetup::new(&topology, hosts[0], options, String::new())
}

#[test]
fn paths_of_switches_neither_refuse_a_fabric_nor_take_a_vl_from_hosts() {
    // Code 1 is one data VL, code 4 eight.
    let setup = ring_of_two_hosts(1);
    let verified = setup.verdict().expect("a plan").verdict.expect("a warning");
    let summary = verified.summary();
    assert!(summary.cycle.is_some() && !summary.has_host_loop, "{summary:?}");
    let said = &summary.notes[0].text;
    assert!(said.starts_with("packets from or to switches close a credit loop"), "{said}");

    let strict = |vls: u8| {
        let mut setup = ring_of_two_hosts(vls);
        setup.options.refuse_faulty_routes = true;
        setup.verdict()
    };
    let failure = strict(1).expect_err("one VL is not enough for all packets");
    assert_eq!(failure.routing_errors[0].reason().and_then(|note| note.code), Some("AD25"));

    let setup = ring_of_two_hosts(4);
    let verified = setup.verdict().expect("a plan").verdict.expect("it passes");
    assert_eq!(verified.summary().cycle, None, "packets of switches share a VL with some hosts'");
    assert!(strict(4).expect("a plan").verdict.is_ok());
}
