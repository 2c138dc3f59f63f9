//! Time from the new picture of a running fabric that has lost a cable until the first changed
//! block of a forwarding table is ready to be sent: plan, verify, delta, in this process. The
//! plan in force, which the daemon prepares while nothing happens, is there already.

#![allow(missing_docs, reason = "criterion_group! makes public functions without any")]

#[path = "../tests/planning/mod.rs"]
mod planning;

use criterion::{Criterion, criterion_group, criterion_main};
use planning::Site;
use std::path::Path;
use std::sync::Arc;
use torus_sm::apply::Acknowledged;
use torus_sm::apply::delta::{Change, Delta};
use torus_sm::config::torus::TorusConfig;
use torus_sm::fabric::Fabric;
use torus_sm::fabric::difference::Difference;
use torus_sm::ids::{Mlid, Sl};
use torus_sm::notes::Note;
use torus_sm::plan::Plan;
use torus_sm::plan::compute::{PlanInput, compute};
use torus_sm::plan::lids::Memory;
use torus_sm::plan::multicast::GroupMembers;
use torus_sm::plan::partitions::{self, Partition};
use torus_sm::plan::routing::chain::{Chain, Registry};
use torus_sm::plan::update::{Basis, Inputs, update};
use torus_sm::sim::generate::Shape;
use torus_sm::verify::{Checks, Extent, Proof, Verified, prove, verify_changes};
use torus_sm::wire::attr::PortState;
use torus_sm::wire::attr::tables::PkeyBlock;

const ENGINES: &str = "torus-2QoS,no_fallback";

/// A fabric that is up.
struct Running {
    site: Site,
    fabric: Arc<Fabric>,
    chain: Chain,
    config: Result<TorusConfig, Vec<Note>>,
    partitions: Vec<Partition>,
    pkeys: Arc<Vec<Vec<PkeyBlock>>>,
    groups: Vec<GroupMembers>,
    memory: Memory,
}

/// The plan in force, and what is known of it.
struct Force {
    basis: Basis,
    proof: Proof,
    acknowledged: Acknowledged,
}

impl Running {
    /// The fabric as it is once `shape` was planned and programmed. With `groups` all hosts are in
    /// one multicast group.
    fn new(shape: &Shape, groups: bool) -> Self {
        let site = Site::generated(shape, ENGINES, true);
        let chain = Chain::parse(ENGINES, &Registry::standard(Arc::default())).expect("an engine");
        let config = TorusConfig::parse(Path::new("torus-2QoS.conf"), &site.torus_conf);
        let hosts = site.fabric.end_ports().filter(|&port| !site.fabric.node_of(port).is_switch());
        let (mlid, sl, members) = (Mlid(0xC000), Sl(0), hosts.collect());
        let group = GroupMembers { mlid, sl, members, senders: Vec::new() };
        let mut running = Self {
            fabric: Arc::new(site.fabric.clone()),
            chain,
            config,
            partitions: partitions::default(&site.options),
            pkeys: Arc::new(vec![Vec::new(); site.fabric.ports().len()]),
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
        PlanInput {
            fabric,
            options: &self.site.options,
            memory: &self.memory,
            torus_config: &self.config,
            partitions: &self.partitions,
            observed_pkeys: &self.pkeys,
            groups: &self.groups,
            aliases: &[],
            previous: None,
            reregister: &|_| false,
            chain: &self.chain,
            qos_policy: None,
        }
    }

    fn force(&self) -> Force {
        let planned = compute(&self.input(&self.fabric)).expect("a healthy torus");
        let (plan, outcome) = planned.split();
        let proven = prove(&self.fabric, plan, &Checks::new(true)).expect("a clean plan");
        let (verified, Some(proof)) = proven else { panic!("a credit loop") };
        let inputs = Inputs {
            fabric: self.fabric.clone(),
            options: Arc::new(self.site.options.clone()),
            partitions: Arc::new(self.partitions.clone()),
            observed_pkeys: self.pkeys.clone(),
            memory: self.memory.clone(),
        };
        let basis = Basis::new(inputs, outcome, verified.plan().clone());
        let mut acknowledged = Acknowledged::default();
        acknowledged.replace(&self.fabric, verified.plan(), &[]);
        Force { basis, proof, acknowledged }
    }

    /// The picture without a cable.
    fn without(&self, shape: &Shape, force: &Force, axis: usize) -> Fabric {
        let broken = Shape { missing_links: vec![([3, 4, 5], axis)], ..shape.clone() };
        let mut fabric = Site::generated(&broken, ENGINES, true).fabric;
        settle(&mut fabric, &force.basis.plan);
        fabric
    }

    fn plan(&self, fabric: &Fabric, force: &Force) -> (Plan, Difference) {
        let (planned, difference) = update(&self.input(fabric), &force.basis);
        (planned.expect("it is routed").plan, difference.expect("the same nodes"))
    }

    /// All that happens.
    fn reroute(&self, fabric: &Fabric, force: &Force) -> (Verified, Change) {
        let (plan, difference) = self.plan(fabric, force);
        let checks = Checks::new(true);
        let verified = verify_changes(fabric, plan, &checks, &force.proof, &difference);
        let verified = verified.expect("a clean plan");
        let delta = Delta {
            fabric,
            pkeys: &self.pkeys,
            plan: verified.plan(),
            acknowledged: &force.acknowledged,
            m_key: 0,
            optimized_sl_to_vl: false,
        };
        let change = delta.lfts().next().expect("a changed block");
        (verified, change)
    }
}

/// The picture once the devices hold the plan.
fn settle(fabric: &mut Fabric, plan: &Plan) {
    let answered = fabric.port_ids().filter_map(|id| {
        let live = fabric.port(id).info.filter(|info| info.port_state() > PortState::Down)?;
        let mut info = plan.ports[id.index()]?;
        info.set_phys_state(live.phys_state());
        info.set_port_state(PortState::Active);
        Some((id, info))
    });
    let ports: Vec<_> = answered.collect();
    let switches: Vec<_> = fabric.switch_ids().zip(plan.switch_infos.iter().copied()).collect();
    fabric.acknowledge(&ports, &switches);
}

fn cable(c: &mut Criterion, shape: &Shape, groups: bool) {
    let running = Running::new(shape, groups);
    let force = running.force();
    let radix = shape.radix[0];
    let with = if groups { " and a group of all hosts" } else { "" };
    for (axis, name) in ["x", "y", "z"].into_iter().enumerate() {
        let fabric = running.without(shape, &force, axis);
        let extent = running.reroute(&fabric, &force).0.summary().extent;
        assert_eq!(extent, Extent::Changes, "the proof must suffice");
        let name = format!("{radix}x{radix}x{radix}{with} without one {name} cable");
        c.bench_function(&format!("reroute {name}"), |b| {
            b.iter_with_large_drop(|| running.reroute(&fabric, &force));
        });
        c.bench_function(&format!("plan {name}"), |b| {
            b.iter_with_large_drop(|| running.plan(&fabric, &force));
        });
        let (plan, difference) = running.plan(&fabric, &force);
        let checks = Checks::new(true);
        c.bench_function(&format!("verify {name}"), |b| {
            b.iter_with_large_drop(|| {
                let plan = plan.clone();
                verify_changes(&fabric, plan, &checks, &force.proof, &difference)
            });
        });
    }
}

fn torus(c: &mut Criterion) {
    for radix in [8, 16] {
        let shape = Shape { hosts: 2, ..Shape::torus([radix; 3]) };
        cable(c, &shape, false);
    }
    let shape = Shape { hosts: 2, ..Shape::torus([16; 3]) };
    cable(c, &shape, true);
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = torus
}
criterion_main!(benches);
