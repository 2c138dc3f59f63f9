//! Time from the loss of a link in a simulated fabric until the whole daemon has written the last
//! block of a forwarding table: trap, sweep, plan, verification, transition. Links along x, y and z
//! are lost and repaired in turn, each when the daemon is idle; then pairs of links, the second of
//! each as soon as the daemon writes the first block for the first; then whole switches.
//!
//! ```text
//! cargo bench --bench outage [-- SHAPE [HOSTS [ROUNDS]]]
//! ```
//!
//! Prints the minimum, the median and the maximum for each dimension, and the number of blocks written.

use std::time::Duration;
use testkit::{SimCluster, bench_argument};
use tokio::time::{Instant, sleep};
use torus_sm::ids::{Guid, PortNum};
use torus_sm::sim::SimFabric;
use torus_sm::sim::console::run_line;
use torus_sm::wire::attr::AttrId;

/// Time without a write after which the daemon is idle and has prepared the baseline of its next
/// plan.
const QUIET: Duration = Duration::from_millis(700);
/// Interval between readings of the counters.
const GLANCE: Duration = Duration::from_micros(50);

fn main() {
    let shape = bench_argument(0, "8x8x8");
    let hosts = number(1, "2") as u8;
    let rounds = number(2, "20");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("a runtime").block_on(run(&shape, hosts, rounds));
}

fn number(index: usize, default: &str) -> u32 {
    bench_argument(index, default).parse::<u32>().expect("a number")
}

async fn run(shape: &str, hosts: u8, rounds: u32) {
    let cluster = SimCluster::healthy(shape, hosts);
    let sm = cluster.start([0, 0, 0], cluster.options());
    while sm.generation() == 0 {
        sleep(GLANCE).await;
    }
    let middle = cluster.shape.radix.map(|radix| radix / 2);
    let guid = cluster.shape.switch_guid(middle);
    for (axis, name) in ["x", "y", "z"].into_iter().enumerate() {
        // The first link in the positive direction: a switch has its links in the order +x, -x, +y,
        // -y, +z, -z.
        let port = PortNum(1 + 2 * axis as u8);
        let mut lost = Vec::new();
        let mut back = Vec::new();
        for _ in 0..rounds {
            lost.push(written(&cluster, || cluster.fabric.unlink(guid, port)).await);
            assert_eq!(cluster.faults(&sm), [""; 0]);
            back.push(written(&cluster, || cluster.fabric.relink(guid, port)).await);
        }
        assert!(guid != Guid(0) && sm.engine() == "torus-2QoS");
        report(&format!("{name} cable lost"), lost);
        report(&format!("{name} cable back"), back);
    }
    let far = cluster.shape.switch_guid(middle.map(|at| at - 1));
    let mut second = Vec::new();
    for _ in 0..rounds {
        let [x, y] = [PortNum(1), PortNum(3)];
        second.push(
            written_second(
                &cluster,
                || cluster.fabric.unlink(guid, x),
                || cluster.fabric.unlink(far, y),
            )
            .await,
        );
        written(&cluster, || cluster.fabric.relink(guid, x)).await;
        written(&cluster, || cluster.fabric.relink(far, y)).await;
        assert_eq!(cluster.faults(&sm), [""; 0]);
    }
    report("second cable lost", second);
    let mut lost = Vec::new();
    let mut back = Vec::new();
    for round in 0..rounds {
        // Another switch each time, never that of the daemon.
        let guid = cluster.shape.switch_guid(
            cluster
                .shape
                .radix
                .map(|radix| if radix == 1 { 0 } else { 1 + round as u16 % (radix - 1) }),
        );
        lost.push(written(&cluster, || command(&cluster.fabric, "unlink", guid)).await);
        assert_eq!(cluster.faults_beside(&sm, guid), [""; 0]);
        back.push(written(&cluster, || command(&cluster.fabric, "relink", guid)).await);
        assert_eq!(cluster.faults(&sm), [""; 0]);
    }
    report("switch lost", lost);
    report("switch back", back);
    sm.stop().await;
}

fn command(fabric: &SimFabric, name: &str, guid: Guid) -> bool {
    run_line(fabric, &format!("{name} {guid}")).is_ok()
}

/// [`written`] for an event `second`, which happens as soon as the daemon writes the first block
/// for the event `first`.
async fn written_second(
    cluster: &SimCluster,
    first: impl FnOnce() -> bool,
    second: impl FnOnce() -> bool,
) -> (Duration, u64) {
    sleep(QUIET).await;
    cluster.fabric.reset_counters();
    assert!(first());
    while cluster.fabric.requests(AttrId::LINEAR_FT)[1] == 0 {
        sleep(GLANCE).await;
    }
    let start = Instant::now();
    let before = cluster.fabric.requests(AttrId::LINEAR_FT)[1];
    assert!(second());
    let mut blocks = before;
    let mut last = start;
    while blocks == before || last.elapsed() < QUIET {
        sleep(GLANCE).await;
        let [_, now] = cluster.fabric.requests(AttrId::LINEAR_FT);
        if now != blocks {
            (blocks, last) = (now, Instant::now());
        }
    }
    (last - start, blocks - before)
}

/// The time from an event to the last forwarding table block that is written because of it, and the
/// number of blocks.
async fn written(cluster: &SimCluster, happen: impl FnOnce() -> bool) -> (Duration, u64) {
    sleep(QUIET).await;
    cluster.fabric.reset_counters();
    let start = Instant::now();
    assert!(happen());
    let mut blocks = 0;
    let mut last = start;
    while blocks == 0 || last.elapsed() < QUIET {
        sleep(GLANCE).await;
        let [_, now] = cluster.fabric.requests(AttrId::LINEAR_FT);
        if now != blocks {
            (blocks, last) = (now, Instant::now());
        }
    }
    (last - start, blocks)
}

fn report(what: &str, mut times: Vec<(Duration, u64)>) {
    times.sort();
    let [least, median, most] = [0, times.len() / 2, times.len() - 1].map(|index| times[index].0);
    let blocks = times[0].1;
    println!("{what}: {blocks} blocks, least {least:.1?}, median {median:.1?}, most {most:.1?}");
}
