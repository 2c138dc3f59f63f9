//! Sets that take effect but whose responses are lost, and whose values are then no longer wanted.

use super::ORIGIN;
use super::devices::start;
use std::time::Duration;
use testkit::tamper::{let_ignore_response, path};
use testkit::{SimCluster, settle};
use tokio::time::sleep;
use torus_sm::ids::{Guid, Lid, PortNum};
use torus_sm::sim::console;
use torus_sm::wire::attr::{AttrId, NodeKind, SwitchInfo};
use torus_sm::wire::mad::Method;

#[tokio::test(start_paused = true)]
async fn a_linear_fdb_top_that_was_not_acknowledged_is_set_again() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let (sm, tampering) = start(&cluster, cluster.options()).await;
    let lid = |&host: &Guid| cluster.fabric.port_info(host, PortNum(1)).map(|info| info.lid());
    let highest = cluster.hosts().max_by_key(lid).expect("a host");
    let last = lid(&highest).expect("a LID");
    let nodes = cluster.topology.nodes.iter().filter(|node| node.kind == NodeKind::Switch);
    let mut switches: Vec<Guid> = nodes.map(|node| node.guid).collect();
    let top =
        |&guid: &Guid| Lid(cluster.fabric.switch_info(guid).expect("a switch").linear_fdb_top());
    assert!(switches.iter().all(|switch| top(switch) == last));
    let run = |line: String| drop(console::run_line(&cluster.fabric, &line).expect("it is done"));

    // The first switch whose top becomes lower does so without an acknowledged Set.
    let mut victim = None;
    tampering.set(move |mad| {
        let is_set = (mad.method(), mad.header().attr_id()) == (Method::SET, AttrId::SWITCH_INFO);
        let info = SwitchInfo::read(mad.smp_data());
        if is_set && Lid(info.linear_fdb_top()) < last {
            let path = path(mad);
            if *victim.get_or_insert_with(|| path.clone()) == path {
                let_ignore_response(mad);
            }
        }
    });
    run(format!("link {highest}[1] down"));
    sleep(Duration::from_millis(5)).await;
    switches.retain(|switch| top(switch) < last);
    assert!(!switches.is_empty());
    // The link is back before the Set is given up: SwitchInfo as it was read is as planned again.
    run(format!("link {highest}[1] up"));
    sleep(Duration::from_secs(5)).await;
    assert!(switches.iter().all(|switch| top(switch) == last));
    assert_eq!(cluster.faults(&sm), [""; 0]);
}

/// Sets that were sent while cables were exchanged may have reached other devices, although no
/// snapshot shows the exchange.
#[tokio::test(start_paused = true)]
async fn tables_are_compared_after_cables_were_exchanged_for_a_moment() {
    let cluster = SimCluster::healthy("4x4x1", 1);
    let sm = cluster.start(ORIGIN, cluster.options());
    settle().await;
    let run = |line: &str| drop(console::run_line(&cluster.fabric, line).expect("it is done"));
    cluster.fabric.reset_counters();
    let switch = cluster.shape.switch_guid([0, 0, 0]);
    let swap = format!("swap {switch}[1] {switch}[3]");
    run("delay 1ms");
    run(&swap);
    // The focused sweep has met other devices, and the heavy sweep has not come so far.
    sleep(Duration::from_millis(16)).await;
    run(&swap);
    run("calm");
    sleep(Duration::from_secs(5)).await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    assert!(cluster.fabric.requests(AttrId::LINEAR_FT)[0] > 0, "nothing is compared");
}
