//! A subnet manager that becomes master of a fabric that another one, or an earlier run of itself,
//! has configured: it reads the tables that the devices hold, and writes the differences only.

use std::time::Duration;
use testkit::multicast::MulticastTrees;
use testkit::sa_client::joins;
use testkit::{Observer, SimCluster, Sm, settle};
use tokio::time::sleep;
use torus_sm::config::options::Options;
use torus_sm::ids::{Guid, PortNum};
use torus_sm::transport::transactions::SmpRequest;
use torus_sm::wire::attr::{AttrId, SmState};
use torus_sm::wire::mad::Method;

const A: [u16; 3] = [0, 0, 0];
const B: [u16; 3] = [2, 0, 0];
/// The observer, which also writes to tables.
const EYE: [u16; 3] = [1, 1, 0];

/// The attributes with tables.
const TABLES: [u16; 5] = [
    AttrId::LINEAR_FT,
    AttrId::MULTICAST_FT,
    AttrId::SL_TO_VL,
    AttrId::VL_ARBITRATION,
    AttrId::PKEY_TABLE,
];

fn options(cluster: &SimCluster, sm_priority: u8) -> Options {
    Options { sm_priority, sminfo_polling_timeout: 1000, ..cluster.options() }
}

/// The Sets of tables since the counters were reset.
fn table_sets(cluster: &SimCluster) -> Vec<(&'static str, u64)> {
    let sets = |id| (AttrId::name(id), cluster.fabric.requests(id)[1]);
    TABLES.into_iter().map(sets).filter(|&(_, sets)| sets > 0).collect()
}

/// Waits until a standby has taken over and configured the subnet.
async fn until_up(sm: &Sm) {
    for _ in 0..1000 {
        if sm.state() == SmState::Master && sm.generation() > 0 {
            settle().await;
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("no SUBNET UP in 10 s");
}

/// Changes an entry of the first block of a switch's linear forwarding table.
async fn tamper(cluster: &SimCluster, eye: &Observer, at: [u16; 3]) -> Guid {
    let guid = cluster.shape.switch_guid(at);
    let lft = cluster.fabric.lft(guid).expect("a switch");
    let mut block: [u8; 64] = std::array::from_fn(|lid| lft[lid]);
    block[5] ^= 1;
    let request = SmpRequest::set(eye.route_to(cluster, guid), AttrId::LINEAR_FT, 0, block);
    eye.call(&request).await.expect("the switch answers");
    guid
}

#[tokio::test(start_paused = true)]
async fn a_takeover_writes_no_table() {
    let cluster = SimCluster::healthy("4x4x1", 1);
    let first = cluster.start(A, options(&cluster, 9));
    settle().await;
    let second = cluster.start(B, options(&cluster, 1));
    sleep(Duration::from_secs(60)).await;
    assert_eq!(second.state(), SmState::Standby);
    let tables = cluster.tables();
    cluster.fabric.reset_counters();
    first.kill().await;
    until_up(&second).await;
    assert_eq!(table_sets(&cluster), []);
    assert_eq!(cluster.fabric.requests(AttrId::SWITCH_INFO)[1], 0);
    // MasterSMLID and ClientReregister.
    let end_ports = 2 * cluster.hosts().count() as u64;
    assert_eq!(cluster.fabric.requests(AttrId::PORT_INFO)[1], end_ports);
    assert_eq!(cluster.fabric.sets(), end_ports);
    assert!(tables == cluster.tables(), "tables stay");
    assert_eq!(cluster.faults(&second), [""; 0]);
    for host in cluster.hosts() {
        let events = cluster.fabric.port_events(host, PortNum(1)).expect("a port");
        assert!(events.reregistrations >= 2, "{host} was asked to register: {events:?}");
    }
}

/// The new master gives the MLIDs to other groups, whose packets must not follow the old trees.
#[tokio::test(start_paused = true)]
async fn trees_of_groups_that_the_new_master_does_not_know_are_cleared() {
    /// More than the MLIDs of one block of a multicast forwarding table.
    const GROUPS: usize = 40;
    let cluster = SimCluster::healthy("4x4x1", 1);
    let first = cluster.start(A, options(&cluster, 9));
    settle().await;
    let second = cluster.start(B, options(&cluster, 1));
    let hosts = joins::hosts(&cluster.topology);
    let joined = joins::all(&cluster.fabric, &hosts[..4], Method::SET, GROUPS, 4).await;
    assert!(joined.refused.is_empty(), "{joined:?}");
    sleep(Duration::from_secs(60)).await;
    let mlids = || MulticastTrees::read(&cluster.fabric, &cluster.topology).mlids();
    assert_eq!(mlids().len(), GROUPS);
    first.kill().await;
    until_up(&second).await;
    assert!(mlids().is_empty(), "{:?}", mlids());
    // The clients, which were asked to register, join again.
    let joined = joins::all(&cluster.fabric, &hosts[..4], Method::SET, GROUPS, 4).await;
    assert!(joined.refused.is_empty(), "{joined:?}");
    settle().await;
    assert_eq!(mlids().len(), GROUPS);
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_the_only_manager_writes_no_table() {
    let cluster = SimCluster::healthy("4x4x1", 1);
    let first = cluster.start(A, options(&cluster, 9));
    settle().await;
    first.kill().await;
    let tables = cluster.tables();
    cluster.fabric.reset_counters();
    let again = cluster.start(A, options(&cluster, 9));
    until_up(&again).await;
    assert_eq!(table_sets(&cluster), []);
    assert!(tables == cluster.tables(), "tables stay");
    assert_eq!(cluster.faults(&again), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn tables_that_were_changed_meanwhile_are_repaired_one_by_one() {
    let cluster = SimCluster::healthy("4x4x1", 1);
    let eye = Observer::at(&cluster, EYE);
    let first = cluster.start(A, options(&cluster, 9));
    settle().await;
    let second = cluster.start(B, options(&cluster, 1));
    sleep(Duration::from_secs(60)).await;
    let tables = cluster.tables();
    tamper(&cluster, &eye, [3, 2, 0]).await;
    assert!(tables != cluster.tables(), "the entry is changed");
    cluster.fabric.reset_counters();
    first.kill().await;
    until_up(&second).await;
    assert_eq!(table_sets(&cluster), [("LinearForwardingTable", 1)]);
    assert!(tables == cluster.tables(), "tables are as before");
    assert_eq!(cluster.faults(&second), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn tables_of_another_engine_are_replaced_in_order() {
    let cluster = SimCluster::healthy("4x4x1", 1);
    let minhop = Options { routing_engine: Some("minhop".into()), ..options(&cluster, 9) };
    let first = cluster.start(A, minhop);
    settle().await;
    let second = cluster.start(B, options(&cluster, 1));
    sleep(Duration::from_secs(60)).await;
    let mut before = cluster.tables();
    cluster.fabric.reset_counters();
    first.kill().await;
    until_up(&second).await;
    assert_eq!(cluster.faults(&second), [""; 0]);
    let after = cluster.tables();
    before.retain(|table| !after.contains(table));
    assert!(!before.is_empty(), "the engines have other routes");
    let [_, sets] = cluster.fabric.requests(AttrId::LINEAR_FT);
    // One block holds all LIDs. Some have an intermediate version.
    assert!(sets > 0 && sets <= 2 * before.len() as u64, "{sets} Sets");
}

#[tokio::test(start_paused = true)]
async fn a_switch_that_does_not_answer_gets_all_its_tables() {
    let cluster = SimCluster::healthy("4x4x1", 1);
    let first = cluster.start(A, options(&cluster, 9));
    settle().await;
    first.kill().await;
    // The device answers no Get of a table from the start of the next run on.
    let tampering = testkit::tamper::Tampering::default();
    let lost = cluster.shape.switch_guid([2, 2, 0]);
    let route = testkit::directed_route(&cluster.topology, cluster.shape.host_guid(A, 0), lost);
    let exits: Vec<PortNum> = route.exits().collect();
    tampering.set(move |mad| {
        let is_get = mad.method() == torus_sm::wire::mad::Method::GET;
        if is_get
            && TABLES[..4].contains(&mad.header().attr_id())
            && testkit::tamper::path(mad) == exits
        {
            testkit::tamper::let_vanish(mad);
        }
    });
    cluster.fabric.reset_counters();
    let options = options(&cluster, 9);
    let same = options.clone();
    let reload = Box::new(move || Ok(same.clone().into()));
    let again = cluster.start_behind(A, options, reload, |port| tampering.wrap(port));
    until_up(&again).await;
    assert_eq!(cluster.fabric.requests(AttrId::LINEAR_FT)[1], 1);
    assert_eq!(cluster.faults(&again), [""; 0]);
}

/// Gets since the counters were reset, except those of SMInfo.
fn gets(cluster: &SimCluster) -> u64 {
    let all = [AttrId::NODE_INFO, AttrId::NODE_DESCRIPTION, AttrId::SWITCH_INFO, AttrId::PORT_INFO];
    all.iter().chain(&TABLES).map(|&id| cluster.fabric.requests(id)[0]).sum()
}

#[tokio::test(start_paused = true)]
async fn a_standby_reads_at_a_limited_rate_and_stops_when_it_is_told_to() {
    let cluster = SimCluster::healthy("4x4x1", 1);
    let eye = Observer::at(&cluster, EYE);
    // The master sends nothing of its own accord.
    let quiet = Options { sweep_interval: 0, ..options(&cluster, 9) };
    let first = cluster.start(A, quiet);
    settle().await;
    let slow = Options { standby_query_rate: 100, ..options(&cluster, 1) };
    let second = cluster.start(B, slow);
    sleep(Duration::from_secs(4)).await;
    for _ in 0..5 {
        cluster.fabric.reset_counters();
        sleep(Duration::from_secs(2)).await;
        let gets = gets(&cluster);
        // 100 in each second, a burst after a pause, and the master's two queries of its own port.
        assert!((150..=215).contains(&gets), "{gets} Gets in 2 s");
    }
    assert_eq!(cluster.fabric.sets(), 0, "a standby writes nothing");
    // DISABLE from the master.
    eye.set(&cluster, B, 3, (SmState::Master, 1)).await.expect("DISABLE is accepted");
    settle().await;
    assert_eq!(second.state(), SmState::NotActive);
    cluster.fabric.reset_counters();
    sleep(Duration::from_secs(20)).await;
    assert_eq!(gets(&cluster), 20, "only the master queries its own port");
    drop(first);
}

#[tokio::test(start_paused = true)]
async fn a_standby_without_a_query_rate_reads_nothing_and_takes_over_all_the_same() {
    let cluster = SimCluster::healthy("4x4x1", 1);
    let first = cluster.start(A, Options { sweep_interval: 0, ..options(&cluster, 9) });
    settle().await;
    let cold = Options { standby_query_rate: 0, ..options(&cluster, 1) };
    let second = cluster.start(B, cold);
    sleep(Duration::from_secs(2)).await;
    cluster.fabric.reset_counters();
    sleep(Duration::from_secs(30)).await;
    assert_eq!(gets(&cluster), 30, "only the master queries its own port");
    first.kill().await;
    until_up(&second).await;
    assert_eq!(table_sets(&cluster), []);
    assert_eq!(cluster.faults(&second), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_takeover_of_a_large_fabric_trusts_a_sample_and_compares_the_rest_later() {
    // More blocks than are compared at the takeover.
    let cluster = SimCluster::healthy("6x6x6", 1);
    let eye = Observer::at(&cluster, EYE);
    let first = cluster.start(A, Options { sweep_interval: 0, ..options(&cluster, 9) });
    settle().await;
    // It reads the fabric once, and would do so again after the takeover.
    let fast = Options { standby_query_rate: 20_000, sweep_interval: 100, ..options(&cluster, 1) };
    let second = cluster.start(B, fast);
    sleep(Duration::from_secs(15)).await;
    let tables = cluster.tables();
    cluster.fabric.reset_counters();
    first.kill().await;
    while second.generation() == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    let read: u64 = TABLES.iter().map(|&id| cluster.fabric.requests(id)[0]).sum();
    let pkeys = cluster.fabric.requests(AttrId::PKEY_TABLE)[0];
    assert!((5_000..=20_000).contains(&(read - pkeys)), "{read} blocks are compared");
    assert_eq!(table_sets(&cluster), []);
    // As if the former master had written it after this SM has read it.
    tamper(&cluster, &eye, [5, 5, 5]).await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(table_sets(&cluster), [("LinearForwardingTable", 2)], "that of the test, and ours");
    assert!(tables == cluster.tables(), "tables are as before");
    assert_eq!(cluster.faults(&second), [""; 0]);
}

/// Two switches were cut off before the manager's host failed, and a standby without its files managed the
/// rest. With `honor_guid2lid_file`, the manager that returns still has their LIDs in its guid2lid: a switch
/// does not get the LID of the other one, which is still away.
#[tokio::test(start_paused = true)]
async fn a_manager_that_returns_remembers_the_lids_of_absent_switches() {
    let cluster = SimCluster::healthy("4x4x1", 1);
    std::fs::create_dir(cluster.cache_dir(A)).expect("a folder");
    let home = Options { honor_guid2lid_file: true, ..options(&cluster, 9) };
    let first = cluster.start(A, home.clone());
    settle().await;
    let lid = |guid| cluster.fabric.port_info(guid, PortNum(0)).expect("a switch").lid();
    let mut away = [[2, 2, 0], [1, 3, 0]].map(|at| cluster.shape.switch_guid(at));
    away.sort_by_key(|&guid| lid(guid));
    let lids = away.map(lid);
    cluster.fabric.split(&away);
    sleep(Duration::from_secs(60)).await;
    let second = cluster.start(B, options(&cluster, 1));
    sleep(Duration::from_secs(60)).await;
    first.kill().await;
    until_up(&second).await;

    let first = cluster.start(A, home);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(first.state(), SmState::Master);
    second.kill().await;
    away.iter().for_each(|&guid| assert!(cluster.fabric.reboot(guid)));
    cluster.fabric.heal();
    cluster.fabric.split(&away[..1]);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(lid(away[1]), lids[1]);
    cluster.fabric.heal();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(away.map(lid), lids);
    first.stop().await;
}
