//! Devices with the same GUIDs, and ports that are moved during a sweep, which look the same.

use super::ORIGIN;
use super::devices::start;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use testkit::{SimCluster, settle};
use tokio::time::sleep;
use torus_sm::config::options::Options;
use torus_sm::daemon::sm_loop::run::Exit;
use torus_sm::fabric::DiscoveryFault;
use torus_sm::fabric::synthetic::Hardware;
use torus_sm::fabric::topology::Topology;
use torus_sm::ids::{Guid, PortNum};
use torus_sm::sim::generate::Shape;
use torus_sm::wire::attr::{AttrId, PortState};
use torus_sm::wire::smp::DirectedRoute;

#[tokio::test(start_paused = true)]
async fn a_duplicate_guid_is_reported_with_both_paths_and_is_not_fatal() {
    let cluster = SimCluster::healthy("4x4x1", 1);
    let [one, two] = [[1, 0, 0], [2, 2, 0]].map(|at| cluster.shape.host_guid(at, 0));
    assert!(cluster.fabric.set_reported_guid(two, one));
    let (sm, _) = start(&cluster, Options { exit_on_fatal: true, ..cluster.options() }).await;
    let subnet = sm.subnet.borrow().clone().expect("a published subnet");
    let paths: Vec<_> = subnet
        .fabric
        .faults()
        .iter()
        .filter_map(|fault| match fault {
            DiscoveryFault::DuplicateNodeGuid { guid, first, second } if *guid == one => {
                Some([first.to_string(), second.to_string()])
            }
            _ => None,
        })
        .collect();
    assert_eq!(paths.len(), 1, "{:?}", subnet.fabric.faults());
    assert_ne!(paths[0][0], paths[0][1]);
}

#[tokio::test(start_paused = true)]
async fn a_port_that_moves_during_the_sweep_is_no_duplicate() {
    let cluster = SimCluster::healthy("5x5x1", 2);
    let moved = cluster.shape.host_guid(ORIGIN, 1);
    let far = cluster.shape.switch_guid([2, 2, 0]);
    let state = |num| cluster.fabric.port_info(far, num).map(|info| info.port_state());
    let free = (1..64).map(PortNum).find(|&num| state(num) == Some(PortState::Down));
    let free = free.expect("a port without a cable");
    let options = cluster.options();
    let same = options.clone();
    let is_moved = Arc::new(AtomicBool::new(false));
    let tampering = testkit::tamper::Tampering::default();
    let reload = Box::new(move || Ok(same.clone().into()));
    let port = tampering.clone();
    // Moves the port as soon as its node is known.
    let fabric = cluster.fabric.clone();
    let done = is_moved.clone();
    let old = cluster.fabric.links().into_iter().flatten().collect::<Vec<_>>();
    assert!(old.contains(&(moved, PortNum(1))));
    tampering.set(move |mad| {
        let is_description = mad.header().attr_id() == AttrId::NODE_DESCRIPTION;
        let hops = mad.smp().route().map_or(0, |route: DirectedRoute| route.len());
        if is_description && hops == 2 && !done.swap(true, Ordering::Relaxed) {
            assert!(fabric.connect((moved, PortNum(1)), (far, free)));
        }
    });
    let sm = cluster.start_behind(ORIGIN, options, reload, move |inner| port.wrap(inner));
    settle().await;
    sleep(Duration::from_secs(1)).await;
    assert!(is_moved.load(Ordering::Relaxed));
    let subnet = sm.subnet.borrow().clone().expect("a published subnet");
    assert_eq!(subnet.fabric.faults(), []);
    let host = subnet.fabric.node_by_guid(moved).expect("the moved host");
    let port = subnet.fabric.port_of(host, PortNum(1)).expect("port 1");
    let peer = subnet.fabric.port(port).peer.expect("its cable");
    assert_eq!(subnet.fabric.end_of(peer), (far, free));
}

/// Two hosts with the same GUIDs, cabled back to back.
fn twins() -> SimCluster {
    let shape = Shape::torus([3, 1, 1]);
    let mut topology: Topology = shape.build().expect("a shape that can be built");
    let own = shape.host_guid(ORIGIN, 0);
    let other = shape.host_guid([1, 0, 0], 0);
    topology.nodes.retain(|node| [own, other].contains(&node.guid));
    topology.cables = vec![[(0, PortNum(1)), (1, PortNum(1))]];
    let twin_port: Guid = topology.nodes[0].port_guid(PortNum(1));
    topology.nodes[1].port_guids = vec![(PortNum(1), twin_port)];
    let cluster = SimCluster::wired(shape, topology, Hardware::default(), 1);
    assert!(cluster.fabric.set_reported_guid(other, own));
    cluster
}

#[tokio::test(start_paused = true)]
async fn twins_without_a_switch_are_fatal_unless_told_to_stay() {
    for (exit_on_fatal, is_fatal) in [(true, true), (false, false)] {
        let cluster = twins();
        let sm = cluster.start(ORIGIN, Options { exit_on_fatal, ..Options::default() });
        sleep(Duration::from_secs(2)).await;
        let exit = sm.stop().await;
        assert_eq!(matches!(exit, Exit::Fatal(_)), is_fatal, "{exit:?}");
    }
}
