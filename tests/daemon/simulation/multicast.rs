//! Multicast forwarding tables of switches and hosts that leave and return.

use super::*;
use testkit::sa_client::joins;

/// Lets hosts, each with its port GUID, join a group.
async fn join(cluster: &SimCluster, hosts: &[Guid]) {
    let hosts: Vec<_> = hosts.iter().map(|&host| (host, Guid(host.0 + 1))).collect();
    let stats = joins::all(&cluster.fabric, &hosts, Method::SET, 1, 1).await;
    assert_eq!(stats.granted, hosts.len());
    settle().await;
}

fn differences(cluster: &SimCluster, sm: &Sm) -> Vec<String> {
    let mut differences = Vec::new();
    let subnet = sm.subnet.borrow().clone().expect("it is up");
    cluster.compare_multicast_tables(&subnet, &mut differences);
    differences
}

#[tokio::test(start_paused = true)]
async fn returned_switches_lose_the_entries_of_groups_that_ended() {
    let cluster = SimCluster::healthy("6x1x1", 1);
    let sm = cluster.start(ORIGIN, cluster.options());
    settle().await;
    let switches = [0, 1, 2, 3, 4, 5].map(|x| cluster.shape.switch_guid([x, 0, 0]));
    let hosts = [3, 5].map(|x| cluster.shape.host_guid([x, 0, 0], 0));
    join(&cluster, &hosts).await;
    assert_ne!(cluster.fabric.mft(switches[4], 0).expect("a table")[1..4], [0; 3]);
    cluster.fabric.split(&switches[3..]);
    sleep(Duration::from_secs(30)).await;
    cluster.fabric.heal();
    sleep(Duration::from_secs(30)).await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    assert_eq!(differences(&cluster, &sm), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn withheld_multicast_blocks_are_written_when_their_entries_are_gone() {
    // The moved host and others: with each choice, other switches have entries before and after.
    for others in 1..32 {
        let cluster = SimCluster::healthy("2x4x1m", 3);
        let sm = up(&cluster).await;
        let places = [[0, 2, 0], [0, 0, 0], [1, 2, 0], [1, 3, 0], [1, 1, 0]];
        let is_member = |(index, _): &(usize, _)| others >> index & 1 == 1;
        let chosen = places.into_iter().enumerate().filter(is_member);
        let mut hosts: Vec<_> = chosen.map(|(_, at)| cluster.shape.host_guid(at, 0)).collect();
        hosts.push(cluster.shape.host_guid([0, 3, 0], 1));
        join(&cluster, &hosts).await;
        let [from, to] = [[0, 3, 0], [1, 1, 0]].map(|at| cluster.shape.switch_guid(at));
        let line = format!("move {from}[8] {to}[5]");
        torus_sm::sim::console::run_line(&cluster.fabric, &line).expect("the ports exist");
        sleep(Duration::from_secs(30)).await;
        assert_eq!(cluster.faults(&sm), [""; 0]);
        assert_eq!(differences(&cluster, &sm), [""; 0], "{others}");
    }
}
