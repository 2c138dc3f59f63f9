//! Subnet managers that show their SM_Key to each other only (`sa_trust strict`): there is exactly
//! one master, which a third port observes by SMInfo.

use std::time::Duration;
use testkit::{Observer, SimCluster};
use tokio::time::{Instant, sleep};
use torus_sm::config::options::{Options, PortGuids, SaTrust};
use torus_sm::ids::{Guid, PortNum, SmKey};
use torus_sm::wire::attr::SmState::{self, Master, Standby};

const A: [u16; 3] = [0, 0, 0];
const B: [u16; 3] = [2, 0, 0];
const C: [u16; 3] = [0, 2, 0];
/// The observer.
const EYE: [u16; 3] = [1, 1, 0];

const KEY: SmKey = SmKey(0x5EC2E7);

/// Limit of the time until the managers have their roles.
const ELECTION: Duration = Duration::from_secs(3);

/// Options of a manager with a secret SM_Key, which SMs at `peers` may see.
fn options(cluster: &SimCluster, sm_priority: u8, peers: &[[u16; 3]]) -> Options {
    let port_guid = |&at: &[u16; 3]| {
        let node = cluster.shape.host_guid(at, 0);
        let found = cluster.topology.nodes.iter().find(|found| found.guid == node);
        found.expect("a host").port_guid(PortNum(1))
    };
    let peers: Vec<Guid> = peers.iter().map(port_guid).collect();
    Options {
        sm_priority,
        sm_key: KEY,
        sa_trust: SaTrust::Strict,
        sm_key_peers: PortGuids(Some(peers)),
        sminfo_polling_timeout: 1000,
        ..cluster.options()
    }
}

/// Asserts that these are the roles from [`ELECTION`] on, and that there were not two masters before
/// for longer than a moment.
async fn settle<const N: usize>(
    (cluster, eye): (&SimCluster, &Observer),
    places: [[u16; 3]; N],
    expected: [Option<SmState>; N],
) {
    let start = Instant::now();
    let mut doubled = Duration::ZERO;
    while start.elapsed() < ELECTION {
        let before = Instant::now();
        sleep(Duration::from_millis(5)).await;
        let states = eye.states(cluster, places).await;
        if states.iter().filter(|state| **state == Some(Master)).count() > 1 {
            doubled += before.elapsed();
        }
    }
    assert_eq!(doubled, Duration::ZERO, "two masters at a time");
    for _ in 0..20 {
        sleep(Duration::from_millis(500)).await;
        assert_eq!(eye.states(cluster, places).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn strict_managers_that_start_together_have_one_master() {
    // Offsets of the second start in milliseconds: before, during and after the first sweep.
    for (round, offset) in [0, 1, 2, 3, 5, 8, 13, 21, 50, 200].into_iter().enumerate() {
        let cluster = SimCluster::healthy("3x3x1", 1);
        let eye = Observer::at(&cluster, EYE);
        let all = [A, B, C];
        let priorities = if round % 2 == 0 { [5, 3] } else { [3, 5] };
        let first = cluster.start(A, options(&cluster, priorities[0], &all));
        sleep(Duration::from_millis(offset)).await;
        let second = cluster.start(B, options(&cluster, priorities[1], &all));
        let expected = match round % 2 {
            0 => [Some(Master), Some(Standby)],
            _ => [Some(Standby), Some(Master)],
        };
        settle((&cluster, &eye), [A, B], expected).await;
        let master = if round % 2 == 0 { &first } else { &second };
        assert_eq!(cluster.faults(master), [""; 0]);
        assert_eq!(eye.sm_info(&cluster, A).await.expect("an answer").sm_key(), SmKey(0));
    }
}

#[tokio::test(start_paused = true)]
async fn three_strict_managers_of_one_priority_have_one_master() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let eye = Observer::at(&cluster, EYE);
    let all = [A, B, C];
    let managers = all.map(|at| cluster.start(at, options(&cluster, 3, &all)));
    settle((&cluster, &eye), all, [Some(Master), Some(Standby), Some(Standby)]).await;
    assert_eq!(cluster.faults(&managers[0]), [""; 0]);
}

/// Managers that are named but absent delay no start.
#[tokio::test(start_paused = true)]
async fn a_single_strict_manager_becomes_master_at_once() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let eye = Observer::at(&cluster, EYE);
    let manager = cluster.start(A, options(&cluster, 3, &[A, B, C]));
    let start = Instant::now();
    while eye.states(&cluster, [A]).await != [Some(Master)] {
        sleep(Duration::from_millis(5)).await;
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    }
    sleep(ELECTION).await;
    assert_eq!(cluster.faults(&manager), [""; 0]);
}
