//! A torus whose damage torus-2QoS refuses, with routes around it.

use super::*;

const OTHER: [u16; 3] = [2, 0, 0];

/// Takes all cables of a switch away.
fn kill_switch(cluster: &SimCluster, at: [u16; 3]) {
    let guid = cluster.shape.switch_guid(at);
    let cables = cluster.topology.cables.iter().flatten();
    let ends = cables.filter(|&&(node, _)| cluster.topology.nodes[node].guid == guid);
    ends.for_each(|&(_, num)| assert!(cluster.fabric.unlink(guid, num)));
}

fn options(cluster: &SimCluster, sm_priority: u8) -> Options {
    Options { sm_priority, sminfo_polling_timeout: 1000, ..cluster.options() }
}

/// Differences between the plan and the tables of the switches.
fn differences(cluster: &SimCluster, sm: &Sm) -> Vec<String> {
    let mut differences = Vec::new();
    let subnet = sm.subnet.borrow().clone().expect("it is up");
    cluster.compare_tables(&subnet, &mut differences);
    differences
}

fn forwarding_sets(cluster: &SimCluster) -> [u64; 2] {
    [AttrId::LINEAR_FT, AttrId::SL_TO_VL].map(|id| cluster.fabric.requests(id)[1])
}

/// A fabric with two dead switches in different rings, which this manager has routed around.
async fn damaged() -> (SimCluster, Sm) {
    let cluster = SimCluster::healthy("6x6x1", 1);
    let sm = cluster.start(ORIGIN, options(&cluster, 9));
    settle().await;
    for at in [[1, 2, 0], [4, 4, 0]] {
        kill_switch(&cluster, at);
        sleep(Duration::from_secs(20)).await;
        assert_eq!(differences(&cluster, &sm), [""; 0]);
    }
    assert_eq!((*sm.refused.borrow()).clone(), None);
    assert_eq!(sm.engine(), "torus-2QoS");
    (cluster, sm)
}

#[tokio::test(start_paused = true)]
async fn a_second_dead_switch_is_routed_around_and_comes_back() {
    let (cluster, sm) = damaged().await;
    let hosts: Vec<_> = cluster.hosts().collect();
    let gone = [[1, 2, 0], [4, 4, 0]].map(|at| cluster.shape.host_guid(at, 0));
    let left = || hosts.iter().filter(|host| !gone.contains(host));
    for (&from, &to) in left().flat_map(|from| left().map(move |to| (from, to))) {
        let lid = cluster.fabric.port_info(to, PortNum(1)).expect("a port").lid();
        assert!(from == to || cluster.fabric.reaches(from, PortNum(1), lid, true), "{from} {to}");
    }
    let healthy = SimCluster::healthy("6x6x1", 1);
    let undamaged = up(&healthy).await;
    for at in [[1, 2, 0], [4, 4, 0]] {
        let guid = cluster.shape.switch_guid(at);
        for num in (1..=36).map(PortNum) {
            cluster.fabric.relink(guid, num);
        }
        sleep(Duration::from_secs(20)).await;
    }
    assert_eq!(cluster.faults(&sm), [""; 0]);
    assert!(cluster.tables() == healthy.tables(), "the tables of the undamaged torus");
    drop(undamaged);
}

#[tokio::test(start_paused = true)]
async fn a_restart_and_a_takeover_keep_the_routes_around_the_damage() {
    let (cluster, sm) = damaged().await;
    let tables = cluster.tables();
    sm.kill().await;
    cluster.fabric.reset_counters();
    let again = cluster.start(ORIGIN, options(&cluster, 9));
    sleep(Duration::from_secs(20)).await;
    assert_eq!(differences(&cluster, &again), [""; 0]);
    assert_eq!(forwarding_sets(&cluster), [0, 0]);
    let standby = cluster.start(OTHER, options(&cluster, 1));
    sleep(Duration::from_secs(60)).await;
    assert_eq!(standby.state(), SmState::Standby);
    cluster.fabric.reset_counters();
    again.kill().await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(standby.state(), SmState::Master);
    assert_eq!(differences(&cluster, &standby), [""; 0]);
    assert_eq!(forwarding_sets(&cluster), [0, 0]);
    assert!(cluster.tables() == tables, "tables stay");
}
