//! Subnet managers that hang: their ports answer what concerns the device, and show IsSM, but nobody
//! answers SMInfo. No other manager waits longer for them than the polling time.

use std::time::Duration;
use testkit::{Observer, SimCluster, Sm, settle};
use tokio::time::{Instant, sleep};
use torus_sm::config::options::Options;
use torus_sm::daemon::sm_loop::run::Exit;
use torus_sm::ids::PortNum;
use torus_sm::wire::attr::SmState::{Master, Standby};

const A: [u16; 3] = [0, 0, 0];
const B: [u16; 3] = [2, 0, 0];
const C: [u16; 3] = [0, 2, 0];
/// The observer.
const EYE: [u16; 3] = [1, 1, 0];

const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Five polls.
const POLLING_TIME: Duration = Duration::from_secs(5);

/// Interval between readings of the state.
const GLANCE: Duration = Duration::from_millis(1);

fn cluster() -> (SimCluster, Observer) {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let eye = Observer::at(&cluster, EYE);
    (cluster, eye)
}

fn options(cluster: &SimCluster, sm_priority: u8) -> Options {
    Options { sm_priority, sminfo_polling_timeout: 1000, ..cluster.options() }
}

/// Waits until this manager is master of a configured subnet, and returns the time it took.
async fn until_master(sm: &Sm) -> Duration {
    let start = Instant::now();
    while sm.state() != Master || sm.generation() == 0 {
        assert!(start.elapsed() < 4 * POLLING_TIME, "{}", sm.state());
        sleep(GLANCE).await;
    }
    start.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_standby_takes_over_from_a_hung_master_in_the_polling_time() {
    let (cluster, eye) = cluster();
    let (first, silence) = cluster.start_that_may_hang(A, options(&cluster, 9));
    settle().await;
    let second = cluster.start(B, options(&cluster, 5));
    sleep(Duration::from_secs(10)).await;
    assert_eq!((first.state(), second.state()), (Master, Standby));
    let tables = cluster.tables();
    silence.set(true);
    let start = Instant::now();
    while second.state() == Standby {
        sleep(GLANCE).await;
    }
    let detection = start.elapsed();
    assert!(detection < POLLING_TIME + POLL_INTERVAL + GLANCE, "{detection:?}");
    // The sweep asks the hung master again, but does not wait for the timeout of a query.
    let took = until_master(&second).await;
    assert!(took < Duration::from_millis(120), "{took:?}");
    assert_eq!(cluster.faults(&second), [""; 0]);
    silence.set(false);
    sleep(4 * POLLING_TIME).await;
    assert_eq!(eye.states(&cluster, [A, B]).await, [Some(Master), Some(Standby)]);
    assert_eq!(cluster.faults(&first), [""; 0]);
    assert!(tables == cluster.tables(), "tables stay");
}

/// The polls were lost on the way, and the master answers the sweep.
#[tokio::test(start_paused = true)]
async fn a_master_that_answers_again_keeps_its_role() {
    let (cluster, eye) = cluster();
    let (first, silence) = cluster.start_that_may_hang(A, options(&cluster, 9));
    settle().await;
    let second = cluster.start(B, options(&cluster, 5));
    sleep(Duration::from_secs(10)).await;
    silence.set(true);
    while second.state() == Standby {
        sleep(GLANCE / 10).await;
    }
    silence.set(false);
    for _ in 0..200 {
        assert_ne!(second.state(), Master);
        sleep(GLANCE).await;
    }
    assert_eq!(eye.states(&cluster, [A, B]).await, [Some(Master), Some(Standby)]);
    assert_eq!(cluster.faults(&first), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_master_that_ends_hands_over_to_a_standby_that_answers() {
    let (cluster, eye) = cluster();
    let first = cluster.start(A, options(&cluster, 9));
    settle().await;
    let (best, silence) = cluster.start_that_may_hang(B, options(&cluster, 5));
    let worst = cluster.start(C, options(&cluster, 3));
    sleep(Duration::from_secs(15)).await;
    assert_eq!((best.state(), worst.state()), (Standby, Standby));
    silence.set(true);
    let start = Instant::now();
    assert_eq!(first.stop().await, Exit::Clean);
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(eye.states(&cluster, [A, C]).await, [None, Some(Master)]);
    sleep(2 * POLLING_TIME).await;
    assert_eq!(cluster.faults(&worst), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_start_beside_a_hung_manager_takes_less_than_a_second() {
    let (cluster, _) = cluster();
    let (_hung, silence) = cluster.start_that_may_hang(A, options(&cluster, 9));
    silence.set(true);
    settle().await;
    let second = cluster.start(B, options(&cluster, 5));
    let took = until_master(&second).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(cluster.faults(&second), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_hung_standby_does_not_delay_the_repair_of_routes() {
    let (cluster, _) = cluster();
    let first = cluster.start(A, Options { sweep_interval: 100, ..options(&cluster, 9) });
    settle().await;
    let (hung, silence) = cluster.start_that_may_hang(B, options(&cluster, 5));
    sleep(Duration::from_secs(15)).await;
    assert_eq!((first.state(), hung.state()), (Master, Standby));
    silence.set(true);
    // Trap 144 of the newcomer lets the master ask the others, 200 ms later.
    let newcomer = cluster.start(C, options(&cluster, 3));
    sleep(Duration::from_millis(250)).await;
    let before = first.generation();
    assert!(cluster.fabric.unlink(cluster.shape.switch_guid(EYE), PortNum(1)));
    let start = Instant::now();
    while first.generation() == before {
        assert!(start.elapsed() < Duration::from_secs(5), "no new routes");
        sleep(GLANCE).await;
    }
    assert!(start.elapsed() < Duration::from_millis(100), "{:?}", start.elapsed());
    assert_eq!(cluster.faults(&first), [""; 0]);
    assert_eq!(first.state(), Master);
    drop(newcomer);
}
