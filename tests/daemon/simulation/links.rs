//! Links that change their MTU or number of VLs, or lead to a silent node.

use super::ORIGIN;
use super::devices::start;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::tamper::{Tampering, begins_heavy_sweep, let_refuse, path};
use testkit::{SimCluster, Sm, settle};
use tokio::time::{Instant, sleep};
use torus_sm::config::options::Options;
use torus_sm::daemon::messages::SmEvent;
use torus_sm::ids::PortNum;
use torus_sm::sim::console;
use torus_sm::wire::attr::{AttrId, PortInfo, PortState};
use torus_sm::wire::mad::{Mad, Method};

const MS: Duration = Duration::from_millis(1);

fn takes_link_down(mad: &Mad) -> bool {
    let is_set = (mad.method(), mad.header().attr_id()) == (Method::SET, AttrId::PORT_INFO);
    is_set && PortInfo::read(mad.smp_data()).port_state() == PortState::Down
}

/// Counts the requests for which `is_counted` is true.
pub(super) fn count(
    tampering: &Tampering,
    is_counted: impl Fn(&Mad) -> bool + Send + 'static,
) -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = count.clone();
    tampering.set(move |mad| {
        counter.fetch_add(usize::from(is_counted(mad)), Ordering::Relaxed);
    });
    count
}

/// A daemon whose requests can be changed, and its options, which a reload reads.
fn start_reloading(cluster: &SimCluster) -> (Sm, Tampering, Arc<Mutex<Options>>) {
    let options = Arc::new(Mutex::new(cluster.options()));
    let tampering = Tampering::default();
    let read = options.clone();
    let port = tampering.clone();
    let reload = move || Ok(read.lock().unwrap().clone().into());
    let wrap = move |inner| port.wrap(inner);
    let sm = cluster.start_behind(ORIGIN, cluster.options(), Box::new(reload), wrap);
    (sm, tampering, options)
}

fn has_vls(cluster: &SimCluster, vls: u8) -> bool {
    cluster.topology.cables.iter().flatten().all(|&(node, num)| {
        let guid = cluster.topology.nodes[node].guid;
        cluster.fabric.port_info(guid, num).expect("a port").operational_vls() == vls
    })
}

async fn links_pass_through_init(training: Duration) {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let (sm, tampering, options) = start_reloading(&cluster);
    settle().await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    for &(node, num) in cluster.topology.cables.iter().flatten() {
        let guid = cluster.topology.nodes[node].guid;
        assert!(cluster.fabric.set_training_time(guid, num, training));
    }
    let downs = count(&tampering, takes_link_down);
    options.lock().unwrap().max_op_vls = 3;
    let start = Instant::now();
    sm.tell(SmEvent::Reload);
    while !has_vls(&cluster, 3) || !cluster.faults(&sm).is_empty() {
        assert!(start.elapsed() < training + Duration::from_secs(1), "{:?}", cluster.faults(&sm));
        sleep(20 * MS).await;
    }
    assert_eq!(downs.load(Ordering::Relaxed), cluster.topology.cables.len());
    sleep(Duration::from_secs(30)).await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    assert_eq!(cluster.sets_of_another_sweep(&sm).await, 0);
    assert_eq!(downs.load(Ordering::Relaxed), cluster.topology.cables.len());
}

#[tokio::test(start_paused = true)]
async fn links_pass_through_init_when_their_vls_change() {
    links_pass_through_init(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn links_that_train_slowly_pass_through_init() {
    links_pass_through_init(700 * MS).await;
}

#[tokio::test(start_paused = true)]
async fn a_link_that_cannot_be_taken_down_keeps_its_vls() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let (sm, tampering, options) = start_reloading(&cluster);
    settle().await;
    let switch = cluster.shape.switch_guid([1, 0, 0]);
    let port = PortNum(7);
    let route = sm.subnet.borrow().as_ref().map(|subnet| {
        let node = subnet.fabric.node_by_guid(switch).expect("a switch");
        subnet.fabric.node(node).route.exits().collect::<Vec<_>>()
    });
    let route = route.expect("it is up");
    let tries = Arc::new(AtomicUsize::new(0));
    let sweeps = Arc::new(AtomicUsize::new(0));
    let counters = (tries.clone(), sweeps.clone());
    tampering.set(move |mad| {
        if takes_link_down(mad) && path(mad) == route && mad.header().attr_mod() == 7 {
            counters.0.fetch_add(1, Ordering::Relaxed);
            let_refuse(mad);
        }
        counters.1.fetch_add(usize::from(begins_heavy_sweep(mad)), Ordering::Relaxed);
    });
    options.lock().unwrap().max_op_vls = 3;
    sm.tell(SmEvent::Reload);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    let vls = cluster.fabric.port_info(switch, port).expect("a port").operational_vls();
    assert_ne!(vls, 3, "the link carries data");
    sweeps.store(0, Ordering::Relaxed);
    sleep(Duration::from_secs(120)).await;
    assert!((2..=5).contains(&tries.load(Ordering::Relaxed)), "{tries:?}");
    assert_eq!(sweeps.load(Ordering::Relaxed), 0);
    tampering.end();
    sleep(Duration::from_secs(120)).await;
    assert!(has_vls(&cluster, 3));
    assert_eq!(cluster.faults(&sm), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_link_to_a_silent_host_is_taken_down() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let options = Options { unresponsive_timeout: 30, ..cluster.options() };
    let (sm, tampering) = start(&cluster, options).await;
    let downs = count(&tampering, takes_link_down);
    let host = cluster.shape.host_guid([2, 1, 0], 0);
    let switch = cluster.shape.switch_guid([2, 1, 0]);
    let port = PortNum(7);
    let state = || cluster.fabric.port_info(switch, port).expect("a port").port_state();
    assert!(cluster.fabric.silence(host));
    sm.tell(SmEvent::Reload);
    sleep(Duration::from_secs(30)).await;
    assert_eq!(state(), PortState::Active, "it stays in the subnet for a while");
    sleep(Duration::from_secs(60)).await;
    assert_eq!(state(), PortState::Init);
    let sweeps = count(&tampering, begins_heavy_sweep);
    sleep(Duration::from_secs(300)).await;
    assert_eq!((downs.load(Ordering::Relaxed), sweeps.load(Ordering::Relaxed)), (1, 0));
    assert!(cluster.fabric.revive(host));
    sleep(Duration::from_secs(30)).await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
}

/// The cable of the local port is moved to another switch, so that all routes change.
#[tokio::test(start_paused = true)]
async fn the_cable_of_the_local_port_may_be_moved() {
    for radix in ["3x1x1", "3x3x1"] {
        let cluster = SimCluster::healthy(radix, 1);
        let minhop = Options { routing_engine: Some("minhop".into()), ..cluster.options() };
        let (sm, _) = start(&cluster, minhop).await;
        let [near, far] = [[0, 0, 0], [1, 0, 0]].map(|at| cluster.shape.switch_guid(at));
        let line = format!("move {near}[7] {far}[5]");
        console::run_line(&cluster.fabric, &line).expect("free ports");
        sleep(Duration::from_secs(60)).await;
        let subnet = sm.subnet.borrow().clone().expect("up");
        assert_eq!(subnet.fabric.nodes().len(), cluster.topology.nodes.len(), "{radix}");
        let own = cluster.shape.host_guid([0; 3], 0);
        for host in cluster.hosts() {
            let lid = cluster.fabric.port_info(host, PortNum(1)).expect("a port").lid();
            assert!(cluster.fabric.reaches(own, PortNum(1), lid, true), "{radix}: {host}");
        }
        assert_eq!(cluster.sets_of_another_sweep(&sm).await, 0);
    }
}
