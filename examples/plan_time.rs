//! Times the stages of planning on a generated torus: `plan_time SHAPE HOSTS`.
use std::path::Path;
use std::time::Instant;
use torus_sm::config::options::Options;
use torus_sm::config::torus::TorusConfig;
use torus_sm::fabric::Fabric;
use torus_sm::fabric::picture::View;
use torus_sm::plan::routing::{RoutingInput, chain};
use torus_sm::plan::{compute, lids, links, multicast, partitions, qos};
use torus_sm::sim::generate::Shape;
use torus_sm::verify::{Checks, verify};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let mut shape: Shape = args[1].parse()?;
    shape.hosts = args[2].parse()?;
    let topology = shape.build()?;
    let fabric = Fabric::from_topology(&topology, 0, &View::default()).ok_or("no fabric")?;
    let conf = TorusConfig::parse(Path::new("generated"), &shape.torus_conf());
    let options =
        Options { qos: true, routing_engine: Some("torus-2QoS".into()), ..Options::default() };
    let registry = chain::Registry::standard(Default::default());
    let chain = chain::Chain::parse("torus-2QoS", &registry)?;
    let partitions = partitions::default(&options);
    let pkeys = vec![Vec::new(); fabric.ports().len()];
    for _ in 0..3 {
        let start = Instant::now();
        let (table, _, _) = lids::assign(&fabric, &options, &Default::default());
        println!("lids {:?}", start.elapsed());
        let input = RoutingInput {
            fabric: &fabric,
            lids: &table,
            options: &options,
            torus_config: &conf,
            previous: None,
        };
        let start = Instant::now();
        let routing = chain.route(&input).map_err(|e| format!("{e:?}"))?;
        println!("route {:?}", start.elapsed());
        drop(routing);
        let input = compute::PlanInput {
            fabric: &fabric,
            options: &options,
            memory: &Default::default(),
            torus_config: &conf,
            partitions: &partitions,
            groups: &[],
            previous: None,
            observed_pkeys: &pkeys,
            reregister: &|_| false,
            route: &|i| chain.route(i),
            multicast: &multicast::plan,
        };
        let start = Instant::now();
        let planned = compute::compute(&input).map_err(|e| format!("{e:?}"))?;
        println!("compute {:?}", start.elapsed());
        let start = Instant::now();
        let (config, _) = qos::QosConfig::read(&options);
        let _q = qos::tables(&fabric, &config, &*planned.plan.routing.policy, &planned.plan.ports);
        println!("  qos {:?}", start.elapsed());
        let _ = links::settable;
        let start = Instant::now();
        let verified =
            verify(&fabric, planned.plan, &Checks::new(true)).map_err(|e| e.to_string())?;
        println!("verify {:?} {:?}", start.elapsed(), verified.summary().dependencies);
    }
    Ok(())
}
