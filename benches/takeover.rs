//! Time of a cold start of the daemon on a simulated fabric, and of a takeover: a second daemon
//! stands by, the first one ends without a last action, as by SIGKILL, and the second one
//! configures the subnet.
//!
//! ```text
//! cargo bench --bench takeover [-- SHAPE [HOSTS [SECONDS]]]
//! ```
//!
//! SECONDS is the time for which the second daemon stands by. Prints, for the cold start and for
//! the takeover, the time until SUBNET UP, for the takeover from the detection on, and the SMPs by
//! attribute.

use std::time::Duration;
use testkit::{SimCluster, Sm, bench_argument};
use tokio::time::{Instant, sleep};
use torus_sm::config::options::Options;
use torus_sm::wire::attr::{AttrId, SmState};

/// Interval between readings of the state.
const GLANCE: Duration = Duration::from_millis(1);

/// Interval between polls of the master. Four unanswered ones are a lost master.
const POLL_INTERVAL_MS: u32 = 500;

const ATTRIBUTES: [u16; 11] = [
    AttrId::NODE_INFO,
    AttrId::NODE_DESCRIPTION,
    AttrId::SWITCH_INFO,
    AttrId::PORT_INFO,
    AttrId::PKEY_TABLE,
    AttrId::LINEAR_FT,
    AttrId::MULTICAST_FT,
    AttrId::SL_TO_VL,
    AttrId::VL_ARBITRATION,
    AttrId::GUID_INFO,
    AttrId::SM_INFO,
];

fn main() {
    let shape = bench_argument(0, "8x8x8");
    let hosts = number(1, "1") as u8;
    let seconds = number(2, "20");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let run = run(&shape, hosts, Duration::from_secs(seconds.into()));
    runtime.expect("a runtime").block_on(run);
}

fn number(index: usize, default: &str) -> u32 {
    bench_argument(index, default).parse::<u32>().expect("a number")
}

async fn run(shape: &str, hosts: u8, standing_by: Duration) {
    let cluster = SimCluster::healthy(shape, hosts);
    let options = Options {
        sminfo_polling_timeout: POLL_INTERVAL_MS,
        max_wire_smps: 64,
        standby_query_rate: 100_000,
        ..cluster.options()
    };
    let start = Instant::now();
    let first = cluster.start([0, 0, 0], options.clone());
    until_up(&first).await;
    let cold = start.elapsed();
    report(&cluster, "cold start", cold);
    let second = cluster.start([1, 1, 0], options);
    sleep(standing_by).await;
    assert_eq!(second.state(), SmState::Standby);
    report(&cluster, "standing by", standing_by);
    let start = Instant::now();
    first.kill().await;
    while second.state() == SmState::Standby {
        sleep(GLANCE).await;
    }
    let detection = start.elapsed();
    let start = Instant::now();
    until_up(&second).await;
    let takeover = start.elapsed();
    report(&cluster, "takeover", takeover);
    println!(
        "detected after {detection:.1?}; takeover / cold start: {:.2}",
        takeover.as_secs_f64() / cold.as_secs_f64()
    );
    assert_eq!(second.engine(), "torus-2QoS");
}

async fn until_up(sm: &Sm) {
    while sm.generation() == 0 {
        sleep(GLANCE).await;
    }
}

/// Prints the SMPs since the last report.
fn report(cluster: &SimCluster, what: &str, time: Duration) {
    let counts = ATTRIBUTES.iter().filter_map(|&id| {
        let [gets, sets] = cluster.fabric.requests(id);
        (gets + sets > 0).then(|| format!("{} {gets}/{sets}", AttrId::name(id)))
    });
    let counts: Vec<String> = counts.collect();
    println!("{what}: {time:.2?}; Get/Set: {}", counts.join(", "));
    cluster.fabric.reset_counters();
}
