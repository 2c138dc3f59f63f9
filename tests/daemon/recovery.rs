//! Recovery from faults on an idle fabric, in virtual time: how long pairs of hosts stay without a
//! path when MADs to lost devices are lost. Each switch, host and cable of a torus is lost and
//! comes back.
//!
//! A timeout of an SMP (200 ms) in the way of the repair makes a case fail; computing takes no
//! virtual time.

use crate::simulation::up;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::tamper::Tampering;
use testkit::{SimCluster, settle};
use tokio::time::{Instant, sleep};
use torus_sm::daemon::messages::SmEvent;
use torus_sm::ids::{Guid, PortNum};
use torus_sm::sim::console::run_line;
use torus_sm::wire::attr::AttrId;
use torus_sm::wire::mad::Method;

/// Maximum time from a fault to right tables.
const MAX_RECOVERY: Duration = Duration::from_millis(60);

/// Time between the losses of the cables of one device.
const BETWEEN_CABLES: Duration = Duration::from_millis(1);

/// A device or cable, by the cable ends to unplug.
struct Case {
    name: String,
    ends: Vec<(Guid, PortNum)>,
    /// The hosts that are cut off with it.
    lost: Vec<Guid>,
}

fn cases(cluster: &SimCluster, sm: Guid) -> Vec<Case> {
    let topology = &cluster.topology;
    let cables_of =
        |at: usize| topology.cables.iter().filter(move |ends| ends.iter().any(|end| end.0 == at));
    let own = topology.nodes.iter().position(|node| node.guid == sm);
    let own_cable = topology.cables.iter().find(|ends| ends.iter().any(|end| Some(end.0) == own));
    let is_own = |at: usize| own_cable.is_some_and(|ends| ends.iter().any(|end| end.0 == at));
    let mut cases = Vec::new();
    for (at, node) in topology.nodes.iter().enumerate() {
        if is_own(at) {
            continue;
        }
        let ends = cables_of(at).map(|ends| if ends[0].0 == at { ends[0] } else { ends[1] });
        let ends = ends.map(|(_, num)| (node.guid, num)).collect();
        let neighbours = cables_of(at).flatten().map(|end| topology.nodes[end.0].guid);
        let hosts: Vec<Guid> = cluster.hosts().collect();
        let is_switch = !hosts.contains(&node.guid);
        let mut lost: Vec<Guid> = if is_switch {
            neighbours.filter(|guid| hosts.contains(guid)).collect()
        } else {
            vec![node.guid]
        };
        lost.dedup();
        cases.push(Case { name: node.description.clone(), ends, lost });
    }
    for [(a, num), (b, _)] in &topology.cables {
        let [a, b] = [*a, *b].map(|at| topology.nodes[at].guid);
        if !cluster.hosts().any(|host| host == a || host == b) {
            let name = format!("cable {num} of {a}");
            cases.push(Case { name, ends: vec![(a, *num)], lost: Vec::new() });
        }
    }
    cases
}

/// True if each remaining host reaches each other one, and none is planned along lost cables. Only
/// every `step`th host is looked at.
fn is_connected(cluster: &SimCluster, lost: &[Guid], step: usize) -> bool {
    let lid = |guid| cluster.fabric.port_info(guid, PortNum(1)).expect("a port").lid();
    let hosts = cluster.hosts().step_by(step).filter(|host| !lost.contains(host));
    let hosts: Vec<_> = hosts.collect();
    let lids: Vec<_> = hosts.iter().map(|&host| lid(host)).collect();
    hosts
        .iter()
        .all(|&from| lids.iter().all(|&to| cluster.fabric.reaches(from, PortNum(1), to, true)))
}

async fn recovery_time(cluster: &SimCluster, lost: &[Guid], step: usize) -> Duration {
    let start = Instant::now();
    while !is_connected(cluster, lost, step) && start.elapsed() < Duration::from_secs(20) {
        sleep(Duration::from_millis(1)).await;
    }
    start.elapsed()
}

/// Loses and returns every `step`th device and cable.
async fn recovers(shape: &str, step: usize) {
    let cluster = SimCluster::healthy(shape, 1);
    let sm = up(&cluster).await;
    let own = cluster.shape.host_guid([0, 0, 0], 0);
    let mut slow = Vec::new();
    for case in cases(&cluster, own).into_iter().step_by(step) {
        for (what, lost) in [("lost", &case.lost[..]), ("back", &[])] {
            for &(guid, num) in &case.ends {
                let done = match what {
                    "lost" => cluster.fabric.unlink(guid, num),
                    _ => cluster.fabric.relink(guid, num),
                };
                assert!(done, "{}", case.name);
                sleep(BETWEEN_CABLES).await;
            }
            let took = recovery_time(&cluster, lost, 1).await;
            if took > MAX_RECOVERY {
                slow.push(format!("{} {what}: {took:?}", case.name));
            }
            // The confirmation and the repetition of lost traps.
            sleep(Duration::from_secs(2)).await;
        }
    }
    assert_eq!(sm.engine(), "torus-2QoS");
    assert!(slow.is_empty(), "{} of the cases are slow: {slow:#?}", slow.len());
}

#[tokio::test(start_paused = true)]
async fn each_switch_host_and_cable_of_6x5x1() {
    recovers("6x5x1", 1).await;
}

#[tokio::test(start_paused = true)]
async fn switches_hosts_and_cables_of_4x4x4() {
    let step = std::env::var("TORUS_SM_RECOVERY_STEP").ok().and_then(|step| step.parse().ok());
    recovers("4x4x4", step.unwrap_or(8)).await;
}

/// Switches die while the daemon sweeps the whole fabric, and while it programs the routes around a
/// lost cable.
#[tokio::test(start_paused = true)]
async fn switches_that_die_during_a_heavy_sweep_or_programming() {
    const MAX: Duration = Duration::from_millis(100);
    /// Hosts of all parts of the fabric.
    const STEP: usize = 37;
    let cluster = SimCluster::healthy("8x8x8", 2);
    let sm = cluster.start([0; 3], cluster.options());
    settle().await;
    let own = cluster.shape.host_guid([0; 3], 0);
    let all = cases(&cluster, own);
    for (at, during) in [([3, 4, 5], "sweep"), ([6, 1, 2], "programming"), ([2, 2, 7], "sweep")] {
        let dies = cluster.shape.switch_guid(at);
        let case = all.iter().find(|case| case.ends.len() > 1 && case.ends[0].0 == dies);
        let case = case.expect("a switch");
        let beside = cluster.shape.switch_guid([5, 6, 4]);
        cluster.fabric.reset_counters();
        // So that sweep and programming take time until the switch dies.
        cluster.fabric.set_delay(Duration::from_micros(100));
        match during {
            "sweep" => {
                sm.tell(SmEvent::Reload);
                while cluster.fabric.requests(AttrId::NODE_INFO)[0] < 500 {
                    sleep(Duration::from_micros(100)).await;
                }
            }
            _ => {
                assert!(cluster.fabric.unlink(beside, PortNum(1)));
                while cluster.fabric.requests(AttrId::LINEAR_FT)[1] == 0 {
                    sleep(Duration::from_micros(100)).await;
                }
            }
        }
        cluster.fabric.set_delay(Duration::ZERO);
        for &(guid, num) in &case.ends {
            assert!(cluster.fabric.unlink(guid, num));
        }
        let took = recovery_time(&cluster, &case.lost, STEP).await;
        assert!(took <= MAX, "{} during {during}: {took:?}", case.name);
        sleep(Duration::from_secs(2)).await;
        for &(guid, num) in &case.ends {
            assert!(cluster.fabric.relink(guid, num));
        }
        let took = recovery_time(&cluster, &[], STEP).await;
        assert!(took <= MAX, "{} back after {during}: {took:?}", case.name);
        cluster.fabric.relink(beside, PortNum(1));
        sleep(Duration::from_secs(20)).await;
        assert_eq!(sm.engine(), "torus-2QoS");
    }
}

/// Without a switch of the seed, torus-2QoS gives way to another engine, with other SL to VL mappings.
#[tokio::test(start_paused = true)]
async fn forwarding_tables_are_written_before_most_sl_to_vl_mappings() {
    let cluster = SimCluster::healthy("6x5x1", 1);
    let tampering = Tampering::default();
    let options = cluster.options();
    let same = options.clone();
    let reload = Box::new(move || Ok(same.clone().into()));
    let sm = cluster.start_behind([0; 3], options, reload, |port| tampering.wrap(port));
    settle().await;
    let sets = Arc::new(Mutex::new(Vec::new()));
    let record = sets.clone();
    tampering.set(move |mad| {
        if mad.method() == Method::SET {
            record.lock().expect("no panic").push(mad.header().attr_id());
        }
    });
    let seed = cluster.shape.switch_guid([0, 1, 0]);
    let own = cases(&cluster, cluster.shape.host_guid([0; 3], 0));
    let own = own.into_iter().flat_map(|case| case.ends).filter(|end| end.0 == seed);
    for (guid, num) in own {
        cluster.fabric.unlink(guid, num);
    }
    settle().await;
    assert_eq!(sm.engine(), "minhop");
    let sets = sets.lock().expect("no panic");
    let last = sets.iter().rposition(|&id| id == AttrId::LINEAR_FT).expect("routes change");
    let mappings = |sets: &[u16]| sets.iter().filter(|&&id| id == AttrId::SL_TO_VL).count();
    let all = mappings(&sets);
    let before = mappings(&sets[..last]);
    assert!(all > 500 && before < all / 4, "{before} of {all}");
}

/// `show paths` of the simulator's console tells when the routes are right again.
#[tokio::test(start_paused = true)]
async fn console_shows_connected_pairs_and_the_time_of_the_last_change() {
    let cluster = SimCluster::healthy("6x5x1", 1);
    let _sm = up(&cluster).await;
    let run = |line: &str| run_line(&cluster.fabric, line).expect("a valid command");
    assert_eq!(run("show paths"), "870 of 870 pairs of hosts are connected\n");
    run("link 2,2,0[1] down");
    let text = run("show paths");
    assert!(
        text.contains("no path: ") && text.contains("no change of a forwarding table"),
        "{text}"
    );
    sleep(Duration::from_secs(1)).await;
    let text = run("show paths");
    assert!(text.starts_with("870 of 870 pairs of hosts are connected\nlast change"), "{text}");
}
