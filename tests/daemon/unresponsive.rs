//! Devices that do not answer. One whose neighbours show that its links are up stays in the subnet
//! with its LIDs and routes, however many they are; one whose links are down is gone at once.

use std::sync::Arc;
use std::time::Duration;
use testkit::{SimCluster, Sm, settle};
use tokio::time::{Instant, sleep};
use torus_sm::config::options::Options;
use torus_sm::daemon::messages::SmEvent;
use torus_sm::ids::{Guid, PortNum};
use torus_sm::manage::action::{OperatorAction, RequestId};
use torus_sm::manage::loop_status::LoopStatus;
use torus_sm::sim::generate::Shape;
use torus_sm::wire::attr::{NodeKind, PortState};

const HOME: [u16; 3] = [0, 0, 0];

/// A switch that is not that of the subnet manager, nor beside it.
const FAR: [u16; 3] = [3, 2, 0];

async fn start(cluster: &SimCluster, options: Options) -> Sm {
    let sm = cluster.start(HOME, options);
    settle().await;
    assert_eq!(cluster.faults(&sm), [] as [String; 0]);
    assert_eq!(sm.engine(), "torus-2QoS");
    sm
}

fn status(sm: &Sm) -> Arc<LoopStatus> {
    sm.management.as_ref().expect("not taken").live.status.load_full()
}

fn unresponsive(sm: &Sm) -> Vec<Guid> {
    status(sm).anomalies.unresponsive.devices.iter().map(|device| device.guid).collect()
}

fn is_known(sm: &Sm, guid: Guid) -> bool {
    let subnet = sm.subnet.borrow().clone().expect("a subnet");
    subnet.fabric.node_by_guid(guid).is_some()
}

/// Waits until `holds`, and returns the time it took.
async fn until(limit: u64, holds: impl Fn() -> bool) -> Duration {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(limit), "not within {limit} s");
        sleep(Duration::from_millis(10)).await;
    }
    start.elapsed()
}

/// Takes all links of a node down, as a switch without power does.
fn power_off(cluster: &SimCluster, guid: Guid) {
    let ports = cluster.topology.nodes.iter().find(|node| node.guid == guid).expect("a node");
    for num in (1..=ports.num_ports).map(PortNum) {
        cluster.fabric.unlink(guid, num);
    }
}

#[tokio::test(start_paused = true)]
async fn lost_mads_change_neither_the_tables_nor_the_engine() {
    for seed in 1..=2 {
        let shape = "6x5x1".parse().expect("a shape");
        let cluster = SimCluster::new(shape, Default::default(), seed);
        let sm = start(&cluster, cluster.options()).await;
        let tables = cluster.tables();
        cluster.fabric.set_loss(0.3);
        cluster.fabric.reset_counters();
        for _ in 0..15 {
            sm.tell(SmEvent::Operator(RequestId(1), OperatorAction::Resweep));
            sleep(Duration::from_secs(20)).await;
            assert_eq!(sm.engine(), "torus-2QoS", "seed {seed}");
            let subnet = sm.subnet.borrow().clone().expect("a subnet");
            assert_eq!(subnet.fabric.nodes().len(), cluster.topology.nodes.len(), "seed {seed}");
            assert_eq!(cluster.tables(), tables, "seed {seed}");
        }
        assert!(cluster.sweeps() >= 12, "{} heavy sweeps", cluster.sweeps());
        cluster.fabric.set_loss(0.0);
        sleep(Duration::from_secs(120)).await;
        assert_eq!(cluster.faults(&sm), [] as [String; 0], "seed {seed}");
        assert_eq!(cluster.tables(), tables, "seed {seed}");
        assert_eq!(unresponsive(&sm), [], "seed {seed}");
        assert_eq!(cluster.sets_of_another_sweep(&sm).await, 0, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hung_switch_keeps_its_routes_until_the_time_limit() {
    let cluster = SimCluster::healthy("6x5x1", 1);
    let sm = start(&cluster, Options { unresponsive_timeout: 300, ..cluster.options() }).await;
    let tables = cluster.tables();
    let hung = cluster.shape.switch_guid(FAR);
    cluster.fabric.reset_counters();
    assert!(cluster.fabric.silence(hung));
    until(30, || unresponsive(&sm).contains(&hung)).await;
    let since = Instant::now();
    sleep(Duration::from_secs(250)).await;
    assert_eq!((cluster.tables(), cluster.fabric.sets()), (tables, 0));
    assert!(!status(&sm).anomalies.unresponsive.is_alarm);
    // It is routed around when the limit has passed.
    until(120, || !is_known(&sm, hung)).await;
    assert!(since.elapsed() >= Duration::from_secs(300), "{:?}", since.elapsed());
    assert_eq!((sm.engine(), unresponsive(&sm)), ("torus-2QoS", vec![]));
    cluster.fabric.revive(hung);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(cluster.faults(&sm), [] as [String; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_hung_switch_that_answers_again_gets_what_it_missed() {
    let cluster = SimCluster::healthy("6x5x1", 1);
    let sm = start(&cluster, cluster.options()).await;
    let hung = cluster.shape.switch_guid(FAR);
    assert!(cluster.fabric.silence(hung));
    until(30, || unresponsive(&sm).contains(&hung)).await;
    // A cable is lost elsewhere: the others are programmed without waiting for this one.
    let generation = sm.generation();
    let start = Instant::now();
    cluster.fabric.unlink(cluster.shape.switch_guid([1, 0, 0]), PortNum(1));
    until(2, || sm.generation() > generation).await;
    assert!(start.elapsed() < Duration::from_millis(100), "{:?}", start.elapsed());
    sleep(Duration::from_secs(30)).await;
    // Directed routes do not pass the hung switch.
    assert_eq!(unresponsive(&sm), [hung, cluster.shape.host_guid(FAR, 0)]);
    cluster.fabric.revive(hung);
    until(70, || unresponsive(&sm).is_empty()).await;
    sleep(Duration::from_secs(20)).await;
    assert_eq!(cluster.faults(&sm), [] as [String; 0]);
    assert_eq!(sm.engine(), "torus-2QoS");
}

#[tokio::test(start_paused = true)]
async fn a_switch_without_power_is_routed_around_at_once() {
    let cluster = SimCluster::healthy("6x5x1", 1);
    let sm = start(&cluster, cluster.options()).await;
    let dead = cluster.shape.switch_guid(FAR);
    power_off(&cluster, dead);
    let took = until(2, || !is_known(&sm, dead)).await;
    assert!(took <= Duration::from_millis(100), "{took:?}");
    sleep(Duration::from_secs(30)).await;
    assert_eq!(unresponsive(&sm), []);
    // The host behind it is gone with it.
    assert!(!is_known(&sm, cluster.shape.host_guid(FAR, 0)));
    assert_eq!(sm.engine(), "torus-2QoS");
}

/// A torus in which the host of the switch at [`FAR`] has a second port at another switch.
fn with_two_ports() -> SimCluster {
    let shape = Shape { hosts: 1, ..Shape::torus([6, 5, 1]) };
    let mut topology = shape.build().expect("a torus");
    let index = |guid: Guid| topology.nodes.iter().position(|node| node.guid == guid);
    let host = index(shape.host_guid(FAR, 0)).expect("a host");
    let switch = index(shape.switch_guid([2, 2, 0])).expect("a switch");
    topology.nodes[host].num_ports = 2;
    topology.nodes[switch].num_ports += 1;
    let port = PortNum(topology.nodes[switch].num_ports);
    topology.cables.push([(host, PortNum(2)), (switch, port)]);
    SimCluster::wired(shape, topology, Default::default(), 1)
}

/// Whether both ports of that host are end ports of the subnet.
fn are_end_ports(cluster: &SimCluster, sm: &Sm) -> [bool; 2] {
    let subnet = sm.subnet.borrow().clone().expect("a subnet");
    let ports = [1, 2].map(|num| Guid(cluster.shape.host_guid(FAR, 0).0 + num));
    ports.map(|guid| subnet.fabric.port_by_guid(guid).is_some())
}

#[tokio::test(start_paused = true)]
async fn a_port_at_a_switch_without_power_is_gone_though_its_host_answers() {
    let cluster = with_two_ports();
    let sm = start(&cluster, cluster.options()).await;
    assert_eq!(are_end_ports(&cluster, &sm), [true, true]);
    let dead = cluster.shape.switch_guid(FAR);
    power_off(&cluster, dead);
    // Another device does not answer, so that the sweep keeps what is known of such devices.
    let hung = cluster.shape.host_guid([0, 4, 0], 0);
    assert!(cluster.fabric.silence(hung));
    sm.tell(SmEvent::Operator(RequestId(1), OperatorAction::Resweep));
    until(60, || unresponsive(&sm).contains(&hung)).await;
    assert!(!is_known(&sm, dead));
    assert_eq!(are_end_ports(&cluster, &sm), [false, true]);
}

#[tokio::test(start_paused = true)]
async fn a_hung_switch_has_no_link_where_a_cable_was_pulled() {
    let cluster = SimCluster::healthy("6x5x1", 1);
    let sm = start(&cluster, cluster.options()).await;
    let hung = cluster.shape.switch_guid(FAR);
    let pulled = PortNum(1);
    assert!(cluster.fabric.silence(hung));
    until(30, || unresponsive(&sm).contains(&hung)).await;
    let state = || {
        let subnet = sm.subnet.borrow().clone().expect("a subnet");
        let port = subnet.fabric.port_by_end((hung, pulled)).expect("the port is known");
        (subnet.fabric.port(port).state(), subnet.fabric.port(port).peer)
    };
    assert_eq!(state().0, PortState::Active);
    cluster.fabric.unlink(hung, pulled);
    until(60, || state().1.is_none()).await;
    // The next heavy sweep does not ask the port, but knows that it has no link.
    until(300, || state().0 == PortState::Down).await;
    assert!(unresponsive(&sm).contains(&hung));
}

#[tokio::test(start_paused = true)]
async fn a_hung_switch_that_loses_power_is_gone() {
    let cluster = SimCluster::healthy("6x5x1", 1);
    let sm = start(&cluster, cluster.options()).await;
    let hung = cluster.shape.switch_guid(FAR);
    assert!(cluster.fabric.silence(hung));
    until(30, || unresponsive(&sm).contains(&hung)).await;
    power_off(&cluster, hung);
    until(2, || !is_known(&sm, hung)).await;
    sleep(Duration::from_secs(30)).await;
    assert_eq!(unresponsive(&sm), []);
    assert!(!is_known(&sm, cluster.shape.host_guid(FAR, 0)));
}

#[tokio::test(start_paused = true)]
async fn a_hung_host_keeps_its_lid_and_routes() {
    let cluster = SimCluster::healthy("6x5x1", 1);
    let sm = start(&cluster, cluster.options()).await;
    let tables = cluster.tables();
    let hung = cluster.shape.host_guid(FAR, 0);
    cluster.fabric.silence(hung);
    sm.tell(SmEvent::Operator(RequestId(1), OperatorAction::Resweep));
    sleep(Duration::from_secs(60)).await;
    assert_eq!((unresponsive(&sm), cluster.tables()), (vec![hung], tables));
    cluster.fabric.revive(hung);
    until(70, || unresponsive(&sm).is_empty()).await;
    assert_eq!(cluster.faults(&sm), [] as [String; 0]);
}

#[tokio::test(start_paused = true)]
async fn half_a_fabric_that_falls_silent_raises_an_alarm_and_changes_nothing() {
    let cluster = SimCluster::healthy("6x5x1", 1);
    let sm = start(&cluster, Options { unresponsive_timeout: 60, ..cluster.options() }).await;
    let tables = cluster.tables();
    let switches = cluster.topology.nodes.iter().filter(|node| node.kind == NodeKind::Switch);
    let own = cluster.shape.switch_guid(HOME);
    let silent: Vec<Guid> =
        switches.map(|node| node.guid).filter(|&guid| guid != own).step_by(2).collect();
    cluster.fabric.reset_counters();
    assert!(silent.iter().all(|&guid| cluster.fabric.silence(guid)));
    until(60, || status(&sm).anomalies.unresponsive.is_alarm).await;
    sleep(Duration::from_secs(600)).await;
    assert_eq!((cluster.tables(), cluster.fabric.sets()), (tables.clone(), 0));
    let unresponsive_now = unresponsive(&sm);
    assert!(silent.iter().all(|guid| unresponsive_now.contains(guid)), "{unresponsive_now:?}");
    assert!(silent.iter().all(|&guid| cluster.fabric.revive(guid)));
    until(90, || unresponsive(&sm).is_empty()).await;
    assert!(!status(&sm).anomalies.unresponsive.is_alarm);
    assert_eq!(cluster.tables(), tables);
    assert_eq!(cluster.faults(&sm), [] as [String; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_device_that_never_answered_is_not_in_the_fabric() {
    let cluster = SimCluster::healthy("6x5x1", 1);
    let silent = cluster.shape.switch_guid(FAR);
    cluster.fabric.silence(silent);
    let sm = cluster.start(HOME, cluster.options());
    sleep(Duration::from_secs(30)).await;
    assert!(!is_known(&sm, silent));
    assert_eq!(unresponsive(&sm), []);
}
