//! Several subnet managers on a simulated fabric: there is always exactly one master, which a third
//! port observes by SMInfo.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use testkit::{Observer, ReloadableSm, SimCluster, Sm, settle};
use tokio::time::{Instant, sleep};
use torus_sm::config::options::{Options, SaTrust};
use torus_sm::config::partitions::PartitionsConfig;
use torus_sm::daemon::messages::SmEvent;
use torus_sm::daemon::sm_loop::context::Configuration;
use torus_sm::daemon::sm_loop::run::Exit;
use torus_sm::fabric::PortId;
use torus_sm::fabric::synthetic::Hardware;
use torus_sm::ids::{Guid, Lid, PortNum, Sl, SmKey};
use torus_sm::transport::transactions::SmpError;
use torus_sm::wire::attr::SmState;
use torus_sm::wire::attr::SmState::{Discovering, Master, NotActive, Standby};

const A: [u16; 3] = [0, 0, 0];
const B: [u16; 3] = [2, 0, 0];
const C: [u16; 3] = [0, 2, 0];
/// The observer.
const EYE: [u16; 3] = [1, 1, 0];

/// The time until a standby takes over, with the polling options of [`options`].
const TAKEOVER: Duration = Duration::from_secs(5);

fn cluster() -> (SimCluster, Observer) {
    cluster_of(Hardware::default())
}

fn cluster_of(hardware: Hardware) -> (SimCluster, Observer) {
    let cluster = SimCluster::new("3x3x1".parse().expect("a shape"), hardware, 1);
    let eye = Observer::at(&cluster, EYE);
    (cluster, eye)
}

fn options(cluster: &SimCluster, sm_priority: u8) -> Options {
    Options { sm_priority, sminfo_polling_timeout: 1000, ..cluster.options() }
}

/// LIDs of all hosts.
fn lids(cluster: &SimCluster) -> Vec<Lid> {
    let lid = |guid| cluster.fabric.port_info(guid, PortNum(1)).expect("a port").lid();
    cluster.hosts().map(lid).collect()
}

async fn states<const N: usize>(
    (cluster, eye): &(SimCluster, Observer),
    positions: [[u16; 3]; N],
) -> [Option<SmState>; N] {
    eye.states(cluster, positions).await
}

#[tokio::test(start_paused = true)]
async fn a_better_newcomer_gets_the_mastership_at_once_and_a_worse_one_does_not() {
    // Devices that do not report a new SM leave that to the SM.
    for reports_capabilities in [true, false] {
        let site = cluster_of(Hardware { reports_capabilities, ..Hardware::default() });
        newcomers(&site).await;
    }
}

async fn newcomers(site: &(SimCluster, Observer)) {
    let (cluster, _) = site;
    let first = cluster.start(A, options(cluster, 5));
    settle().await;
    let before = (lids(cluster), cluster.tables());
    let worse = cluster.start(B, options(cluster, 4));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(states(site, [A, B]).await, [Some(Master), Some(Standby)]);
    let better = cluster.start(C, options(cluster, 6));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(states(site, [A, B, C]).await, [Some(Standby), Some(Standby), Some(Master)]);
    sleep(2 * TAKEOVER).await;
    assert_eq!(states(site, [A, B, C]).await, [Some(Standby), Some(Standby), Some(Master)]);
    assert_eq!(cluster.faults(&better), [""; 0]);
    assert!(before == (lids(cluster), cluster.tables()), "LIDs and tables stay");
    drop((first, worse));
}

#[tokio::test(start_paused = true)]
async fn among_equals_the_lowest_guid_becomes_master() {
    let site = cluster();
    let (cluster, _) = &site;
    let mut managers = Vec::new();
    for at in [B, C, A] {
        managers.push(cluster.start(at, options(cluster, 3)));
    }
    sleep(TAKEOVER).await;
    assert_eq!(states(&site, [A, B, C]).await, [Some(Master), Some(Standby), Some(Standby)]);
    assert_eq!(cluster.faults(&managers[2]), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_master_that_ends_hands_over_to_the_best_standby() {
    let site = cluster();
    let (cluster, _) = &site;
    let best = cluster.start(A, options(cluster, 9));
    settle().await;
    let worst = cluster.start(B, options(cluster, 1));
    let middle = cluster.start(C, options(cluster, 5));
    sleep(Duration::from_secs(11)).await;
    assert_eq!(states(&site, [A, B, C]).await, [Some(Master), Some(Standby), Some(Standby)]);
    let before = (lids(cluster), cluster.tables());
    for (leaving, next, sm) in [(A, C, best), (C, B, middle)] {
        let start = Instant::now();
        assert_eq!(sm.stop().await, Exit::Clean);
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        assert_eq!(states(&site, [leaving, next]).await, [None, Some(Master)]);
        sleep(2 * TAKEOVER).await;
        assert_eq!(states(&site, [leaving, next]).await, [None, Some(Master)]);
    }
    assert_eq!(cluster.faults(&worst), [""; 0]);
    assert!(before == (lids(cluster), cluster.tables()), "LIDs and tables stay");
}

#[tokio::test(start_paused = true)]
async fn a_killed_master_is_replaced_after_the_configured_polls() {
    let site = cluster();
    let (cluster, _) = &site;
    let master = cluster.start(A, options(cluster, 9));
    settle().await;
    let standbys = [cluster.start(B, options(cluster, 1)), cluster.start(C, options(cluster, 5))];
    sleep(Duration::from_secs(11)).await;
    let tables = cluster.tables();
    master.kill().await;
    let start = Instant::now();
    while states(&site, [B, C]).await != [Some(Standby), Some(Master)] {
        assert!(start.elapsed() <= TAKEOVER, "{:?}", states(&site, [A, B, C]).await);
        sleep(Duration::from_millis(50)).await;
    }
    // Four polls a second apart go unanswered.
    assert!(start.elapsed() > Duration::from_secs(3), "{:?}", start.elapsed());
    sleep(4 * TAKEOVER).await;
    assert_eq!(states(&site, [A, B, C]).await, [None, Some(Standby), Some(Master)]);
    assert_eq!(cluster.faults(&standbys[1]), [""; 0]);
    assert!(tables == cluster.tables(), "tables stay");
}

#[tokio::test(start_paused = true)]
async fn a_priority_changed_at_run_time_moves_the_mastership() {
    let site = cluster();
    let (cluster, _) = &site;
    let first = ReloadableSm::start(cluster, A, options(cluster, 5));
    settle().await;
    let second = ReloadableSm::start(cluster, B, options(cluster, 5));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(states(&site, [A, B]).await, [Some(Master), Some(Standby)]);
    // A standby with a raised priority tells the master by trap 144.
    second.reload(|options| options.sm_priority = 6);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(states(&site, [A, B]).await, [Some(Standby), Some(Master)]);
    assert_eq!(cluster.faults(&second.sm), [""; 0]);
    // A master with a lowered priority hands over.
    second.reload(|options| options.sm_priority = 4);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(states(&site, [A, B]).await, [Some(Master), Some(Standby)]);
    assert_eq!(cluster.faults(&first.sm), [""; 0]);
    // The port is as the other master has left it, and nobody else has changed it.
    let status = first.sm.management.as_ref().expect("not taken").live.status.load();
    assert_eq!(status.anomalies.own_port.last, None);
}

#[tokio::test(start_paused = true)]
async fn with_a_master_priority_a_master_that_returns_stays_standby() {
    let site = cluster();
    let (cluster, _) = &site;
    let kept = |priority| Options { master_sm_priority: 14, ..options(cluster, priority) };
    let first = cluster.start(A, kept(9));
    settle().await;
    let second = cluster.start(B, kept(3));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(states(&site, [A, B]).await, [Some(Master), Some(Standby)]);
    assert_eq!(first.stop().await, Exit::Clean);
    let first = cluster.start(A, kept(9));
    sleep(4 * TAKEOVER).await;
    assert_eq!(states(&site, [A, B]).await, [Some(Standby), Some(Master)]);
    assert_eq!(cluster.faults(&second), [""; 0]);
    drop(first);
}

#[tokio::test(start_paused = true)]
async fn a_handover_back_does_not_trust_the_old_tables() {
    let site = cluster();
    let (cluster, _) = &site;
    let first = ReloadableSm::start(cluster, A, options(cluster, 5));
    settle().await;
    let before = cluster.tables();
    let minhop = Options { routing_engine: Some("minhop".into()), ..options(cluster, 6) };
    let second = ReloadableSm::start(cluster, B, minhop);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(states(&site, [A, B]).await, [Some(Standby), Some(Master)]);
    assert!(before != cluster.tables(), "the other master writes other tables");
    assert_eq!(cluster.faults(&second.sm), [""; 0]);
    second.reload(|options| options.sm_priority = 4);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(states(&site, [A, B]).await, [Some(Master), Some(Standby)]);
    assert_eq!(cluster.faults(&first.sm), [""; 0]);
    assert!(before == cluster.tables(), "the first tables are back");
}

#[tokio::test(start_paused = true)]
async fn a_manager_with_another_key_does_not_stop_a_starting_one() {
    let site = cluster();
    let (cluster, eye) = &site;
    let stranger = cluster.start(A, Options { sm_key: SmKey(0x1234), ..options(cluster, 15) });
    settle().await;
    assert_eq!(eye.sm_info(cluster, A).await.expect("an answer").sm_key(), SmKey(0x1234));
    let own = cluster.start(B, options(cluster, 3));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(states(&site, [A, B]).await, [Some(Master), Some(Master)]);
    drop((stranger, own));
}

/// A newcomer with a key of its own, whatever the key of the master and its priority.
#[tokio::test(start_paused = true)]
async fn a_newcomer_with_another_key_does_not_become_a_second_master() {
    for (key, shown) in [(SmKey(0x1234), SmKey(0x1234)), (SmKey(1), SmKey(1)), (SmKey(9), SmKey(0))]
    {
        let site = cluster();
        let (cluster, eye) = &site;
        let hides = if shown.is_set() { SaTrust::Compatible } else { SaTrust::Strict };
        let master = Options { sm_key: key, sa_trust: hides, ..options(cluster, 3) };
        let master = cluster.start(A, master);
        settle().await;
        assert_eq!(eye.sm_info(cluster, A).await.expect("an answer").sm_key(), shown);
        cluster.fabric.reset_counters();
        let newcomer = Options { sm_key: SmKey(0x5678), ..options(cluster, 15) };
        let own = cluster.start(B, newcomer);
        for _ in 0..6 {
            sleep(Duration::from_secs(10)).await;
            assert_eq!(states(&site, [A, B]).await, [Some(Master), Some(Discovering)]);
        }
        assert_eq!(cluster.fabric.sets(), 0, "{key:?}");
        let status = own.management.as_ref().expect("not taken").live.status.load();
        let blocking = status.managers.foreign_master.as_ref().expect("a reason");
        assert_eq!(blocking.guid, status.managers.others[0].guid);
        // It becomes master when the other one is gone.
        master.stop().await;
        sleep(Duration::from_secs(25)).await;
        assert_eq!(states(&site, [B]).await, [Some(Master)]);
        assert_eq!(cluster.faults(&own), [""; 0]);
        assert_eq!(
            own.management.as_ref().expect("it").live.status.load().managers.foreign_master,
            None
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_newcomer_that_ignores_other_managers_becomes_master() {
    let site = cluster();
    let (cluster, _) = &site;
    let _master = cluster.start(A, Options { sm_key: SmKey(0x1234), ..options(cluster, 3) });
    settle().await;
    let own = Options { sm_key: SmKey(0x5678), ignore_other_sm: true, ..options(cluster, 3) };
    let _own = cluster.start(B, own);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(states(&site, [A, B]).await, [Some(Master), Some(Master)]);
}

/// A host that claims to be master with another key cannot stop a takeover.
#[tokio::test(start_paused = true)]
async fn a_standby_takes_over_beside_a_master_with_another_key() {
    let site = cluster();
    let (cluster, _) = &site;
    let keyed = |priority| Options { sm_key: SmKey(0x5678), ..options(cluster, priority) };
    let first = cluster.start(A, keyed(9));
    settle().await;
    let second = cluster.start(B, keyed(3));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(states(&site, [A, B]).await, [Some(Master), Some(Standby)]);
    let stranger = Options { sm_key: SmKey(0x99), ignore_other_sm: true, ..options(cluster, 15) };
    let _stranger = cluster.start([0, 2, 0], stranger);
    sleep(Duration::from_secs(1)).await;
    first.kill().await;
    sleep(2 * TAKEOVER).await;
    assert_eq!(second.state(), Master);
}

#[tokio::test(start_paused = true)]
async fn an_inactive_manager_waits_for_standby_and_then_polls() {
    let site = cluster();
    let (cluster, eye) = &site;
    let inactive = cluster.start(B, Options { sm_inactive: true, ..options(cluster, 9) });
    sleep(TAKEOVER).await;
    assert_eq!(states(&site, [B]).await, [Some(NotActive)]);
    let master = cluster.start(A, options(cluster, 3));
    sleep(TAKEOVER).await;
    assert_eq!(states(&site, [A, B]).await, [Some(Master), Some(NotActive)]);
    let standby = 4;
    for sender in [(Standby, 1), (Master, 2)] {
        let refused = eye.set(cluster, B, standby, sender).await;
        assert!(matches!(refused, Err(SmpError::Status(_))), "{sender:?}: {refused:?}");
    }
    assert!(eye.set(cluster, B, standby, (Master, 1)).await.is_ok());
    settle().await;
    assert_eq!(states(&site, [B]).await, [Some(Standby)]);
    // The observer that sent STANDBY does not answer polls as a master would.
    sleep(TAKEOVER + Duration::from_secs(1)).await;
    assert_eq!(states(&site, [A, B]).await, [Some(Standby), Some(Master)]);
    assert_eq!(cluster.faults(&inactive), [""; 0]);
    drop(master);
}

#[tokio::test(start_paused = true)]
async fn disable_and_discover_are_obeyed_by_a_standby_if_a_master_asks() {
    let site = cluster();
    let (cluster, eye) = &site;
    let master = cluster.start(A, options(cluster, 9));
    settle().await;
    let other = cluster.start(B, options(cluster, 3));
    sleep(Duration::from_secs(1)).await;
    let disable = 3;
    let standby = 4;
    let discover = 5;
    for modifier in [disable, standby, discover] {
        assert!(eye.set(cluster, A, modifier, (Master, 1)).await.is_err(), "to the master");
    }
    for modifier in [disable, discover] {
        assert!(eye.set(cluster, B, modifier, (Standby, 1)).await.is_err(), "from a standby");
    }
    assert!(eye.set(cluster, B, discover, (Master, 1)).await.is_ok());
    sleep(Duration::from_secs(1)).await;
    assert_eq!(states(&site, [A, B]).await, [Some(Master), Some(Standby)]);
    assert!(eye.set(cluster, B, disable, (Master, 1)).await.is_ok());
    sleep(TAKEOVER).await;
    assert_eq!(states(&site, [A, B]).await, [Some(Master), Some(NotActive)]);
    // A manager that is not active gets no mastership.
    assert_eq!(master.stop().await, Exit::Clean);
    sleep(2 * TAKEOVER).await;
    assert_eq!(states(&site, [A, B]).await, [None, Some(NotActive)]);
    drop(other);
}

#[tokio::test(start_paused = true)]
async fn a_handover_is_accepted_at_any_time_of_the_first_sweep() {
    let site = cluster();
    let (cluster, eye) = &site;
    // Configures the fabric, and leaves a higher master that does not poll.
    let higher = cluster.start(A, options(cluster, 9));
    settle().await;
    for delay in [0, 100, 200, 400, 800, 1600, 3200] {
        let sm = cluster.start(B, options(cluster, 3));
        sleep(Duration::from_micros(delay)).await;
        let accepted = eye.set(cluster, B, 1, (Master, 1)).await;
        assert!(accepted.is_ok(), "after {delay} µs: {accepted:?}");
        settle().await;
        // This SM was master, and handed over to the higher master as soon as it had swept.
        assert_eq!(states(&site, [A, B]).await, [Some(Master), Some(Standby)], "{delay}");
        assert_eq!(sm.stop().await, Exit::Clean);
    }
    assert_eq!(cluster.faults(&higher), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_master_without_a_link_gives_up_its_role_and_resumes_it() {
    let site = cluster();
    let (cluster, _) = &site;
    let host = cluster.shape.host_guid(A, 0);
    let first = cluster.start(A, options(cluster, 9));
    settle().await;
    let second = cluster.start(B, options(cluster, 3));
    sleep(Duration::from_secs(1)).await;
    assert!(cluster.fabric.unlink(host, PortNum(1)));
    sleep(Duration::from_secs(2)).await;
    assert_eq!(first.state(), Discovering);
    sleep(TAKEOVER).await;
    assert_eq!(states(&site, [A, B]).await, [None, Some(Master)]);
    assert!(cluster.fabric.relink(host, PortNum(1)));
    sleep(Duration::from_secs(2)).await;
    assert_eq!(states(&site, [A, B]).await, [Some(Master), Some(Standby)]);
    assert_eq!(cluster.faults(&first), [""; 0]);
    drop(second);
}

#[tokio::test(start_paused = true)]
async fn the_only_manager_resumes_after_its_link_was_down() {
    let site = cluster();
    let (cluster, _) = &site;
    let host = cluster.shape.host_guid(A, 0);
    let sm = cluster.start(A, options(cluster, 9));
    settle().await;
    let before = (lids(cluster), cluster.tables());
    assert!(cluster.fabric.unlink(host, PortNum(1)));
    sleep(Duration::from_secs(60)).await;
    assert_eq!(sm.state(), Discovering);
    assert!(cluster.fabric.relink(host, PortNum(1)));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(states(&site, [A]).await, [Some(Master)]);
    assert_eq!(cluster.faults(&sm), [""; 0]);
    assert!(before == (lids(cluster), cluster.tables()), "LIDs and tables stay");
}

#[tokio::test(start_paused = true)]
async fn two_subnets_that_are_merged_have_one_master() {
    for (first, second) in [(9, 3), (3, 9)] {
        let cluster = SimCluster::healthy("4x1x1", 1);
        let eye = Observer::at(&cluster, [1, 0, 0]);
        let cables: Vec<_> = [[0, 0, 0], [2, 0, 0]]
            .iter()
            .flat_map(|&at| cables_to_the_left(&cluster, at))
            .collect();
        assert_eq!(cables.len(), 2);
        let cut = |(guid, port)| assert!(cluster.fabric.unlink(guid, port));
        cables.iter().copied().for_each(cut);
        let left = cluster.start([0, 0, 0], options(&cluster, first));
        let right = cluster.start([3, 0, 0], options(&cluster, second));
        sleep(Duration::from_secs(1)).await;
        assert_eq!((left.state(), right.state()), (Master, Master), "one in each half");
        for (guid, port) in cables {
            assert!(cluster.fabric.relink(guid, port));
        }
        sleep(TAKEOVER).await;
        let states = eye.states(&cluster, [[0, 0, 0], [3, 0, 0]]).await;
        let (master, expected) = if first > second {
            (&left, [Some(Master), Some(Standby)])
        } else {
            (&right, [Some(Standby), Some(Master)])
        };
        assert_eq!(states, expected);
        assert_eq!(cluster.faults(master), [""; 0]);
    }
}

/// The cables between the switch at `at` and the one before it on the first axis.
fn cables_to_the_left(cluster: &SimCluster, at: [u16; 3]) -> Vec<(Guid, PortNum)> {
    let radix = 4;
    let here = cluster.shape.switch_guid(at);
    let there = cluster.shape.switch_guid([(at[0] + radix - 1) % radix, at[1], at[2]]);
    let guid = |node: usize| cluster.topology.nodes[node].guid;
    let ends = cluster.topology.cables.iter().filter_map(|&[(a, port_a), (b, port_b)]| {
        match (guid(a), guid(b)) {
            (a, b) if (a, b) == (here, there) => Some((a, port_a)),
            (a, b) if (a, b) == (there, here) => Some((b, port_b)),
            _ => None,
        }
    });
    ends.collect()
}

/// partitions.conf with these P_Keys, of which all ports are full members, besides the default
/// partition.
fn partitions(pkeys: &[u16]) -> Arc<PartitionsConfig> {
    let lines = pkeys.iter().map(|pkey| format!("=0x{pkey:x}: ALL=full;\n"));
    let text = format!("Default=0x7fff: ALL=full;\n{}", lines.collect::<String>());
    let (config, diagnostics) = PartitionsConfig::parse(Path::new("partitions.conf"), &text);
    assert_eq!(diagnostics, []);
    Arc::new(config.expect("no error"))
}

/// Starts a manager that reads these partitions, one after the other, at each SIGHUP; then the
/// last.
fn start_with_partitions(
    cluster: &SimCluster,
    at: [u16; 3],
    options: Options,
    mut configs: Vec<Arc<PartitionsConfig>>,
) -> Sm {
    configs.reverse();
    let same = options.clone();
    let reload = move || {
        let partitions = configs.last().expect("one").clone();
        if configs.len() > 1 {
            configs.pop();
        }
        Ok(Configuration::with_partitions(same.clone(), partitions))
    };
    cluster.start_with(at, options, Box::new(reload))
}

/// The P_Key tables of all hosts, with the indexes of the P_Keys.
fn pkey_tables(cluster: &SimCluster) -> Vec<[u8; 64]> {
    let table = |host| cluster.fabric.pkeys(host, PortNum(1), 0).expect("a P_Key table");
    cluster.hosts().map(table).collect()
}

/// The SLs of the paths between all hosts, by port GUID.
fn path_sls(sm: &Sm) -> BTreeMap<(Guid, Guid), Sl> {
    let subnet = sm.subnet.borrow().clone().expect("SUBNET UP");
    let fabric = &subnet.fabric;
    let hosts: Vec<PortId> =
        fabric.end_ports().filter(|&port| !fabric.node_of(port).is_switch()).collect();
    let pairs = hosts.iter().flat_map(|&from| hosts.iter().map(move |&to| (from, to)));
    let guid = |port: PortId| fabric.port(port).guid;
    let policy = &subnet.plan.routing.policy;
    pairs.map(|(from, to)| ((guid(from), guid(to)), policy.path_sl(from, to, Sl(0)))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_takeover_keeps_lids_pkey_indexes_and_path_sls() {
    let site = cluster();
    let (cluster, _) = &site;
    let before = partitions(&[1, 2, 3]);
    let after = partitions(&[2, 3, 4]);
    let configs = vec![before, after.clone()];
    let master = start_with_partitions(cluster, A, options(cluster, 9), configs);
    settle().await;
    let fresh = pkey_tables(cluster);
    for _ in 0..2 {
        master.tell(SmEvent::Reload);
        settle().await;
    }
    assert_eq!(cluster.faults(&master), [""; 0]);
    let held = (lids(cluster), pkey_tables(cluster), cluster.tables());
    assert!(held.1 != fresh);
    let paths = path_sls(&master);
    assert!(paths.values().any(|sl| *sl != Sl(0)), "the torus needs several SLs");
    let standby = start_with_partitions(cluster, B, options(cluster, 3), vec![after]);
    standby.tell(SmEvent::Reload);
    sleep(Duration::from_secs(11)).await;
    assert_eq!(states(&site, [A, B]).await, [Some(Master), Some(Standby)]);
    master.kill().await;
    sleep(2 * TAKEOVER).await;
    assert_eq!(states(&site, [A, B]).await, [None, Some(Master)]);
    assert_eq!(cluster.faults(&standby), [""; 0]);
    assert!(held == (lids(cluster), pkey_tables(cluster), cluster.tables()));
    assert_eq!(path_sls(&standby), paths);
    // A first start would have put the P_Keys at the indexes 1 to 3.
    let table: Vec<u16> =
        held.1[0].chunks(2).map(|pkey| u16::from_be_bytes([pkey[0], pkey[1]])).collect();
    assert_eq!(table[..5], [0xFFFF, 0, 0x8002, 0x8003, 0x8004]);
}

#[tokio::test(start_paused = true)]
async fn a_manager_that_ignores_others_neither_yields_nor_hands_over() {
    let site = cluster();
    let (cluster, _) = &site;
    let ignoring = |priority| Options { ignore_other_sm: true, ..options(cluster, priority) };
    let first = cluster.start(A, ignoring(3));
    settle().await;
    // A better one that looks at others waits for the HANDOVER.
    let better = cluster.start(B, options(cluster, 9));
    sleep(4 * TAKEOVER).await;
    assert_eq!(states(&site, [A, B]).await, [Some(Master), Some(Standby)]);
    assert_eq!(cluster.faults(&first), [""; 0]);
    // An SM that ignores others becomes master beside it.
    let second = cluster.start(C, ignoring(1));
    sleep(TAKEOVER).await;
    assert_eq!(states(&site, [A, C]).await, [Some(Master), Some(Master)]);
    assert_eq!(first.stop().await, Exit::Clean);
    assert_eq!(second.stop().await, Exit::Clean);
    // No SM handed over to the standby, which polls until it takes over.
    assert_eq!(states(&site, [A, B, C]).await, [None, Some(Standby), None]);
    sleep(2 * TAKEOVER).await;
    assert_eq!(states(&site, [B]).await, [Some(Master)]);
    assert_eq!(cluster.faults(&better), [""; 0]);
}
