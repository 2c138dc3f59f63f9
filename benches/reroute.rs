//! Time from the snapshot of a running fabric that has lost a link until the first changed
//! forwarding table block is ready to be sent: plan, verify, delta, in this process. The baseline
//! of the plan in force, which the daemon prepares while it is idle, exists already.
//!
//! Also measured: a second link lost right after the first, when the baseline is carried forward,
//! and the time to carry it forward against the time to compute it from scratch; and a host or a
//! switch that goes or comes, against planning from scratch.

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use std::path::Path;
use std::sync::Arc;
use testkit::planning::PlanSetup;
use torus_sm::apply::Acknowledged;
use torus_sm::apply::delta::scope::Scope;
use torus_sm::apply::delta::{Delta, SetRequest};
use torus_sm::config::torus::TorusConfig;
use torus_sm::fabric::Fabric;
use torus_sm::fabric::synthetic::SyntheticView;
use torus_sm::fabric::topology::Topology;
use torus_sm::ids::{Mlid, Sl};
use torus_sm::notes::Note;
use torus_sm::observe::m_keys::MKeys;
use torus_sm::plan::Plan;
use torus_sm::plan::compute::{PlanInput, Registrations, compute};
use torus_sm::plan::lids::Memory;
use torus_sm::plan::multicast::GroupMembers;
use torus_sm::plan::partitions::{self, Partition};
use torus_sm::plan::routing::chain::{Chain, EngineRegistry};
use torus_sm::plan::update::{BaselineInputs, update};
use torus_sm::sim::generate::Shape;
use torus_sm::verify::baseline::{PlanVerdict, VerifiedBaseline, plan_and_verify};
use torus_sm::verify::{Checks, Extent, Verified};
use torus_sm::wire::attr::tables::PkeyTable;
use torus_sm::wire::attr::{NodeKind, PortState};

const ENGINES: &str = "torus-2QoS,no_fallback";

/// A fabric that is up.
struct Running {
    site: PlanSetup,
    fabric: Arc<Fabric>,
    chain: Chain,
    config: Result<TorusConfig, Vec<Note>>,
    partitions: Vec<Partition>,
    pkeys: Arc<Vec<PkeyTable>>,
    groups: Vec<GroupMembers>,
    memory: Memory,
}

/// The plan in force and its baseline.
struct PlanInForce {
    baseline: VerifiedBaseline,
    memory: Memory,
    acknowledged: Acknowledged,
}

impl Running {
    /// The fabric once `shape` is planned and programmed. With `groups` all hosts are in one
    /// multicast group.
    fn new(shape: &Shape, groups: bool) -> Self {
        let site = PlanSetup::generated(shape, ENGINES, true);
        let chain =
            Chain::parse(ENGINES, &EngineRegistry::standard(Arc::default())).expect("an engine");
        let config = TorusConfig::parse(Path::new("torus-2QoS.conf"), &site.torus_conf);
        let hosts = site.fabric.end_ports().filter(|&port| !site.fabric.node_of(port).is_switch());
        let mlid = Mlid(0xC000);
        let sl = Sl(0);
        let members = hosts.collect();
        let group = GroupMembers { mlid, sl, members, senders: Vec::new() };
        let mut running = Self {
            fabric: Arc::new(site.fabric.clone()),
            chain,
            config,
            partitions: partitions::default(&site.options),
            pkeys: Arc::new(vec![PkeyTable::default(); site.fabric.ports().len()]),
            groups: if groups { vec![group] } else { Vec::new() },
            memory: Memory::default(),
            site,
        };
        let planned = compute(&running.input(&running.fabric)).expect("a healthy torus");
        running.memory = planned.memory;
        let blocks = planned.plan.partitions.blocks.iter();
        let pkeys = blocks.map(|blocks| blocks.iter().map(|&(_, block)| block).collect());
        running.pkeys = Arc::new(pkeys.collect());
        settle(Arc::make_mut(&mut running.fabric), &planned.plan);
        running
    }

    fn input<'a>(&'a self, fabric: &'a Fabric) -> PlanInput<'a> {
        self.input_of(fabric, &self.memory, &self.pkeys)
    }

    fn input_of<'a>(
        &'a self,
        fabric: &'a Fabric,
        memory: &'a Memory,
        pkeys: &'a [PkeyTable],
    ) -> PlanInput<'a> {
        PlanInput {
            fabric,
            options: &self.site.options,
            memory,
            torus_config: &self.config,
            partitions: &self.partitions,
            observed_pkeys: pkeys,
            registrations: Registrations { groups: &self.groups, ..Registrations::default() },
            previous: None,
            reregister: &|_| false,
            chain: &self.chain,
            qos_policy: None,
        }
    }

    fn inputs(&self, fabric: &Fabric, memory: &Memory) -> BaselineInputs {
        BaselineInputs {
            fabric: Arc::new(fabric.clone()),
            options: Arc::new(self.site.options.clone()),
            partitions: Arc::new(self.partitions.clone()),
            observed_pkeys: self.pkeys_of(fabric),
            memory: memory.clone(),
        }
    }

    /// P_Key tables by port slot; empty tables for a fabric with other ports, whose P_Keys do not
    /// matter here.
    fn pkeys_of(&self, fabric: &Fabric) -> Arc<Vec<PkeyTable>> {
        match fabric.ports().len() {
            same if same == self.pkeys.len() => self.pkeys.clone(),
            other => Arc::new(vec![PkeyTable::default(); other]),
        }
    }

    fn force(&self) -> PlanInForce {
        let input = self.input(&self.fabric);
        let inputs = self.inputs(&self.fabric, &self.memory);
        let baseline = VerifiedBaseline::compute(&input, inputs, &Checks::new(true), None)
            .expect("a clean plan");
        self.in_force(baseline, &self.fabric, self.memory.clone())
    }

    fn in_force(&self, baseline: VerifiedBaseline, fabric: &Fabric, memory: Memory) -> PlanInForce {
        let mut acknowledged = Acknowledged::default();
        acknowledged.replace(&Arc::new(fabric.clone()), &baseline.plan_baseline().plan, &[]);
        PlanInForce { baseline, memory, acknowledged }
    }

    /// The snapshot without some links.
    fn without(&self, shape: &Shape, force: &PlanInForce, lost: &[([u16; 3], usize)]) -> Fabric {
        let broken = Shape { missing_links: lost.to_vec(), ..shape.clone() };
        let mut fabric = PlanSetup::generated(&broken, ENGINES, true).fabric;
        settle(&mut fabric, &force.baseline.plan_baseline().plan);
        fabric
    }

    /// The snapshot without a host of the switch in the middle.
    fn without_host(&self, shape: &Shape) -> Fabric {
        let mut topology = shape.build().expect("the shape fits a fabric");
        let nodes = &topology.nodes;
        let host = (0..nodes.len())
            .filter(|node| nodes[*node].kind == NodeKind::Ca)
            .nth(nodes.len() / 3)
            .expect("a host");
        topology.cables.retain(|ends| ends.iter().all(|&(node, _)| node != host));
        self.settled(&topology)
    }

    /// The snapshot without a switch and its hosts.
    fn without_switch(&self, shape: &Shape) -> Fabric {
        let broken = Shape { missing_switches: vec![FIRST], ..shape.clone() };
        self.settled(&broken.build().expect("the shape fits a fabric"))
    }

    /// The snapshot of a fabric whose devices hold a plan.
    fn settled(&self, topology: &Topology) -> Fabric {
        let mut fabric =
            Fabric::from_topology(topology, 0, &SyntheticView::default()).expect("the first node");
        let planned = compute(&self.input_of(
            &fabric,
            &self.memory,
            &vec![PkeyTable::default(); fabric.ports().len()],
        ));
        settle(&mut fabric, &planned.expect("it is routed").plan);
        fabric
    }

    /// Plans and verifies from the baseline.
    fn plan_and_verify(&self, fabric: &Fabric, force: &PlanInForce) -> PlanVerdict {
        let pkeys = self.pkeys_of(fabric);
        let input = self.input_of(fabric, &force.memory, &pkeys);
        let known = Some(&force.baseline);
        plan_and_verify(&input, known, &Checks::new(true)).expect("it is routed")
    }

    /// Plans and verifies from scratch.
    fn plan_and_verify_from_scratch(&self, fabric: &Fabric, force: &PlanInForce) -> PlanVerdict {
        let pkeys = self.pkeys_of(fabric);
        let plan = &*force.baseline.plan_baseline().plan;
        let input =
            PlanInput { previous: Some(plan), ..self.input_of(fabric, &force.memory, &pkeys) };
        plan_and_verify(&input, None, &Checks::new(true)).expect("it is routed")
    }

    /// The plan in force and its baseline once the plan for `fabric` has been applied.
    fn after(&self, fabric: &Fabric, force: &PlanInForce) -> PlanInForce {
        let judged = self.plan_and_verify(fabric, force);
        let inputs = self.inputs(fabric, &force.memory);
        let remains = judged.pending_baseline.expect("a clean plan");
        let baseline = remains.complete(inputs, &Checks::new(true));
        self.in_force(baseline, fabric, judged.memory)
    }

    /// Plan, verification and delta.
    fn reroute(&self, fabric: &Fabric, force: &PlanInForce) -> (Verified, SetRequest) {
        let verified = self.plan_and_verify(fabric, force).verdict.expect("a clean plan");
        let keys = MKeys::default();
        let delta = Delta {
            fabric,
            pkeys: &self.pkeys,
            plan: verified.plan(),
            acknowledged: &force.acknowledged,
            keys: &keys,
            optimized_sl_to_vl: false,
            fdr10: 0,
            scope: Scope::All,
        };
        let change = delta.lfts().next().expect("a changed block");
        (verified, change)
    }
}

/// Updates the snapshot to devices that hold the plan.
fn settle(fabric: &mut Fabric, plan: &Plan) {
    let answered = fabric.port_ids().filter_map(|id| {
        let live = fabric.port(id).info().filter(|info| info.port_state() > PortState::Down)?;
        let mut info = plan.ports.of(id)?;
        info.set_phys_state(live.phys_state());
        info.set_port_state(PortState::Active);
        Some((id, info))
    });
    let ports: Vec<_> = answered.collect();
    let switches: Vec<_> = fabric.switch_ids().zip(plan.switch_infos.iter().copied()).collect();
    fabric.acknowledge(&ports, &switches);
}

/// Positions of the links that are lost.
const FIRST: [u16; 3] = [3, 4, 5];
const SECOND: [u16; 3] = [6, 1, 2];

fn cable(c: &mut Criterion, running: &Running, force: &PlanInForce, shape: &Shape) {
    let radix = shape.radix[0];
    let with = if running.groups.is_empty() { "" } else { " and a group of all hosts" };
    for (axis, name) in ["x", "y", "z"].into_iter().enumerate() {
        let fabric = running.without(shape, force, &[(FIRST, axis)]);
        assert_not_whole(&running.plan_and_verify(&fabric, force));
        let name = format!("{radix}x{radix}x{radix}{with} without one {name} cable");
        c.bench_function(&format!("reroute {name}"), |b| {
            b.iter_with_large_drop(|| running.reroute(&fabric, force));
        });
        c.bench_function(&format!("plan {name}"), |b| {
            let basis = force.baseline.plan_baseline();
            b.iter_with_large_drop(|| update(&running.input(&fabric), basis));
        });
    }
}

/// A second link is lost right after the first: the baseline of the first is carried forward, and
/// the second is planned from it.
fn second_cable(c: &mut Criterion, running: &Running, force: &PlanInForce, shape: &Shape) {
    let name = format!("{0}x{0}x{0}", shape.radix[0]);
    let first = running.without(shape, force, &[(FIRST, 0)]);
    let carried = running.after(&first, force);
    let both = running.without(shape, &carried, &[(FIRST, 0), (SECOND, 1)]);
    assert_not_whole(&running.plan_and_verify(&both, &carried));
    c.bench_function(&format!("reroute {name} without a second cable"), |b| {
        b.iter_with_large_drop(|| running.reroute(&both, &carried));
    });
    c.bench_function(&format!("carry {name} without one cable"), |b| {
        b.iter_batched(
            || {
                let judged = running.plan_and_verify(&first, force);
                (
                    judged.pending_baseline.expect("a clean plan"),
                    running.inputs(&first, &force.memory),
                )
            },
            |(remains, inputs)| remains.complete(inputs, &Checks::new(true)),
            BatchSize::PerIteration,
        );
    });
    c.bench_function(&format!("lay {name} without one cable"), |b| {
        let inputs = running.inputs(&first, &force.memory);
        let input = running.input(&first);
        b.iter_with_large_drop(|| {
            VerifiedBaseline::compute(&input, inputs.clone(), &Checks::new(true), None)
        });
    });
}

fn nodes(c: &mut Criterion, running: &Running, force: &PlanInForce, shape: &Shape) {
    let name = format!("{0}x{0}x{0}", shape.radix[0]);
    let host = running.without_host(shape);
    let switch = running.without_switch(shape);
    let [no_host, no_switch] = [&host, &switch].map(|fabric| running.after(fabric, force));
    for (what, fabric, force) in [
        ("without a host", &host, force),
        ("with a host that is back", &running.fabric, &no_host),
        ("without a switch", &switch, force),
        ("with a switch that is back", &running.fabric, &no_switch),
    ] {
        assert_not_whole(&running.plan_and_verify(fabric, force));
        c.bench_function(&format!("plan and verify {name} {what}"), |b| {
            b.iter_with_large_drop(|| running.plan_and_verify(fabric, force));
        });
        c.bench_function(&format!("plan and verify as a whole {name} {what}"), |b| {
            b.iter_with_large_drop(|| running.plan_and_verify_from_scratch(fabric, force));
        });
        c.bench_function(&format!("plan {name} {what}"), |b| {
            let basis = force.baseline.plan_baseline();
            let pkeys = running.pkeys_of(fabric);
            let input = running.input_of(fabric, &force.memory, &pkeys);
            b.iter_with_large_drop(|| update(&input, basis));
        });
    }
}

fn assert_not_whole(judged: &PlanVerdict) {
    let verified = judged.verdict.as_ref().expect("a clean plan");
    assert_ne!(verified.summary().extent, Extent::Full, "a proof must suffice");
}

fn torus(c: &mut Criterion) {
    for (radix, groups) in [(8, false), (16, false), (16, true)] {
        let shape = Shape { hosts: 2, ..Shape::torus([radix; 3]) };
        let running = Running::new(&shape, groups);
        let force = running.force();
        cable(c, &running, &force, &shape);
        if !groups {
            second_cable(c, &running, &force, &shape);
            nodes(c, &running, &force, &shape);
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = torus
}
criterion_main!(benches);
