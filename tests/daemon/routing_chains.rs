//! Chains of routing engines in the whole daemon.

use std::time::Duration;
use testkit::{SimCluster, settle};
use tokio::time::sleep;
use torus_sm::config::options::Options;
use torus_sm::fabric::synthetic::Hardware;
use torus_sm::fabric::topology::TopologyNode;
use torus_sm::ids::{Guid, PortNum};
use torus_sm::sim::generate::Shape;
use torus_sm::wire::attr::NodeKind;

const LEAVES: usize = 4;
const SPINES: usize = 2;

/// A tree of [`LEAVES`] leaf switches with two hosts each and [`SPINES`] spines, with two parallel cables
/// between each of both: the switches of a row, without their cables, become the leaf switches.
fn tree() -> SimCluster {
    let shape = Shape { hosts: 2, ..Shape::torus([LEAVES as u16, 1, 1]) };
    let mut topology = shape.build().expect("a row");
    let switches: Vec<usize> = (0..topology.nodes.len())
        .filter(|&node| topology.nodes[node].kind == NodeKind::Switch)
        .collect();
    topology.cables.retain(|ends| !ends.iter().all(|(node, _)| switches.contains(node)));
    for spine in 0..SPINES {
        let model = topology.nodes[switches[0]].clone();
        let node = topology.nodes.len();
        let guid = Guid(0x77_0000 + 16 * spine as u64);
        let description = format!("spine {spine}");
        topology.nodes.push(TopologyNode { guid, system_guid: guid, description, ..model });
        for (leaf, &switch) in switches.iter().enumerate() {
            for cable in 1..=2 {
                let up = PortNum((2 * spine + cable) as u8);
                let down = PortNum((2 * leaf + cable) as u8);
                topology.cables.push([(switch, up), (node, down)]);
            }
        }
    }
    topology.normalize();
    SimCluster::wired(shape, topology, Hardware::default(), 1)
}

/// The options of a chain whose second step has the routes of pqft in the whole fabric.
fn chain(cluster: &SimCluster) -> Options {
    let write = |name: &str, text: &str| {
        std::fs::write(cluster.file(name), text).expect("a file");
        Some(cluster.file(name).display().to_string())
    };
    let topologies =
        "topology\nid: 1\nsw-grp: ALL_SWITCHES\nhca-grp: ALL_CAS\nend-topology\n".to_owned();
    let steps = "unicast-step\nid: 1\nengine: minhop\nend-unicast-step\n\
                 unicast-step\nid: 2\nengine: pqft\ntopology: 1\nend-unicast-step\n";
    Options {
        routing_engine: Some("chain,no_fallback".into()),
        pgrp_policy_file: write("pgrp.conf", ""),
        topo_policy_file: write("topo.conf", &topologies),
        rch_policy_file: write("rch.conf", steps),
        pqft_structure: Some("2;2,4;1,2;1,2".into()),
        qos: false,
        ..cluster.options()
    }
}

/// The ports to all hosts, by switch. Spines have no routes to each other by pqft, and keep those of an
/// earlier step.
fn routes_to_hosts(cluster: &SimCluster) -> Vec<Vec<u8>> {
    let lid = |host| cluster.fabric.port_info(host, PortNum(1)).expect("a port").lid();
    let lids: Vec<usize> = cluster.hosts().map(|host| lid(host).index()).collect();
    let tables = cluster.tables().into_iter();
    tables.map(|(_, lft, _)| lids.iter().map(|&lid| lft[lid]).collect()).collect()
}

/// The routes of pqft alone and of a chain that ends with it: whole, damaged and repaired.
async fn routes_through_damage(is_chain: bool) -> Vec<Vec<Vec<u8>>> {
    let cluster = tree();
    let alone = Options { routing_engine: Some("pqft,no_fallback".into()), ..chain(&cluster) };
    let options = if is_chain { chain(&cluster) } else { alone };
    let sm = cluster.start([0, 0, 0], options);
    settle().await;
    assert_eq!(sm.engine(), if is_chain { "chain" } else { "pqft" });
    let mut seen = vec![routes_to_hosts(&cluster)];
    let leaf = cluster.shape.switch_guid([2, 0, 0]);
    for is_linked in [false, true] {
        let changed = if is_linked {
            cluster.fabric.relink(leaf, PortNum(1))
        } else {
            cluster.fabric.unlink(leaf, PortNum(1))
        };
        assert!(changed);
        sleep(Duration::from_secs(15)).await;
        assert_eq!(cluster.faults(&sm), [""; 0], "linked: {is_linked}");
        seen.push(routes_to_hosts(&cluster));
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn a_step_of_pqft_has_its_routes_through_damage_and_repair() {
    let chain = routes_through_damage(true).await;
    let alone = routes_through_damage(false).await;
    assert_eq!(chain, alone);
    assert_ne!(chain[0], chain[1]);
    assert_eq!(chain[0], chain[2]);
}
