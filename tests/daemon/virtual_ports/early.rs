//! The discovery of vports before the first subnet of a new master.

use super::{
    ORIGIN, POLLED, PORT, QUIET, cluster_with_vports, enabled, requests, state, status, vport_guid,
};
use std::time::Duration;
use testkit::{SimCluster, Sm};
use tokio::time::{Instant, sleep, timeout};
use torus_sm::config::options::Options;
use torus_sm::sim::{AttributeFault, VportSpec};
use torus_sm::wire::attr::{AttrId, PortState, SmState};

/// Waits until a subnet manager publishes its first subnet.
async fn published(sm: &mut Sm) {
    let published = sm.subnet.wait_for(Option::is_some);
    let subnet = timeout(QUIET, published).await.expect("the subnet comes up");
    drop(subnet.expect("the daemon runs"));
}

fn assert_all_active(cluster: &SimCluster, count: u16) {
    for host in cluster.hosts() {
        for index in 0..count {
            assert_eq!(state(cluster, host, index), PortState::Active, "{host} {index}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn vports_are_discovered_before_the_first_plan() {
    let cluster = cluster_with_vports(3);
    let mut sm = cluster.start(ORIGIN, enabled(&cluster));
    published(&mut sm).await;
    assert_eq!(cluster.fabric.requests(AttrId::VPORT_INFO)[0], 27);
    let of_ports = cluster.fabric.requests(AttrId::VIRTUALIZATION_INFO);
    assert_eq!(of_ports, [9, 9], "it is read and enabled once");
    sleep(QUIET).await;
    assert_all_active(&cluster, 3);
    assert_eq!(cluster.fabric.requests(AttrId::VPORT_INFO), [27, 27], "nothing is asked twice");
    assert_eq!(status(&sm).ports.len(), 9);
    assert_eq!(cluster.faults(&sm), [""; 0]);
}

/// A second plan would take longer than the discovery.
#[tokio::test(start_paused = true)]
async fn the_first_plan_has_the_vports() {
    let cluster = cluster_with_vports(3);
    let mut sm = cluster.start(ORIGIN, enabled(&cluster));
    published(&mut sm).await;
    // Before descriptions are read.
    sleep(Duration::from_millis(500)).await;
    assert_all_active(&cluster, 3);
    let generation = sm.subnet.borrow().as_ref().map(|subnet| subnet.generation);
    assert_eq!(generation, Some(1));
}

/// The subnet does not wait for silent ports: their vports are planned when they answer.
#[tokio::test(start_paused = true)]
async fn the_first_plan_waits_a_moment_only() {
    let cluster = cluster_with_vports(3);
    let silent = cluster.shape.host_guid([1, 1, 0], 0);
    let fault = Some(AttributeFault::Silent);
    assert!(cluster.fabric.set_attribute_fault(silent, AttrId::VPORT_INFO, fault));
    let start = Instant::now();
    let mut sm = cluster.start(ORIGIN, enabled(&cluster));
    published(&mut sm).await;
    let duration = start.elapsed();
    assert!(duration < Duration::from_millis(400), "{duration:?}");
    assert!(cluster.fabric.set_attribute_fault(silent, AttrId::VPORT_INFO, None));
    sleep(POLLED).await;
    assert_all_active(&cluster, 3);
    assert_eq!(cluster.faults(&sm), [""; 0]);
}

/// A vport may have another GUID when the subnet comes up than when it was discovered.
#[tokio::test(start_paused = true)]
async fn a_vport_that_changes_meanwhile_is_read_again() {
    let cluster = cluster_with_vports(3);
    let host = cluster.shape.host_guid([1, 1, 0], 0);
    let mut sm = cluster.start(ORIGIN, enabled(&cluster));
    published(&mut sm).await;
    let guid = vport_guid(host, 9);
    let set = |spec: &mut VportSpec| spec.guid = guid;
    assert!(cluster.fabric.change_virtual_port(host, PORT, 2, false, set));
    sleep(QUIET).await;
    assert_all_active(&cluster, 3);
    assert_eq!(status(&sm).ports[&vport_guid(host, 0)].vports[2].guid, guid);
    assert_eq!(cluster.faults(&sm), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn ports_that_carry_data_wait_for_the_subnet() {
    let cluster = cluster_with_vports(2);
    let priority = |sm_priority| Options { sm_priority, ..cluster.options() };
    let first = cluster.start(ORIGIN, priority(9));
    sleep(QUIET).await;
    first.kill().await;
    assert_eq!(requests(&cluster), 0);
    let mut second = cluster.start([2, 2, 0], enabled(&cluster));
    published(&mut second).await;
    // Before, nothing is read but whether virtualization is enabled.
    assert_eq!(cluster.fabric.requests(AttrId::VIRTUALIZATION_INFO)[1], 0);
    assert_eq!(cluster.fabric.requests(AttrId::VPORT_STATE), [0, 0]);
    sleep(QUIET).await;
    assert_eq!(second.state(), SmState::Master);
    assert_all_active(&cluster, 2);
}

/// Without a plan, vports stay in INIT; they are read once, and polled with each attempt.
#[tokio::test(start_paused = true)]
async fn vports_stay_in_init_while_plans_are_rejected() {
    let cluster = cluster_with_vports(2);
    let rejected =
        Options { routing_engine: Some("ftree,no_fallback".into()), ..enabled(&cluster) };
    let sm = cluster.start(ORIGIN, rejected);
    sleep(QUIET).await;
    assert!(sm.subnet.borrow().is_none() && sm.refused.borrow().is_some());
    let host = cluster.shape.host_guid([1, 1, 0], 0);
    assert_eq!(state(&cluster, host, 1), PortState::Init);
    assert_eq!(cluster.fabric.requests(AttrId::VPORT_INFO), [18, 0]);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(cluster.fabric.requests(AttrId::VPORT_INFO), [18, 0]);
    let [polls, _] = cluster.fabric.requests(AttrId::VIRTUALIZATION_INFO);
    assert!(polls <= 9 * 40, "{polls} polls");
}
