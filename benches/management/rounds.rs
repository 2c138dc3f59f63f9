//! Paired rounds without and with a load.

use crate::daemon::BenchDaemon;
use crate::loads::Load;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};
use testkit::sa_client::{Client, DEFAULT_PREFIX, path_query, with_tid};
use tokio::time::timeout;
use torus_sm::ids::PortNum;

/// Time of a load before the first measurement of a round.
const RAMP: Duration = Duration::from_millis(300);
/// Time of the measurement of the query rate in a round.
const QUERY_TIME: Duration = Duration::from_millis(500);
/// Queries under way.
const WINDOW: usize = 64;
/// Time after which a query or a reroute counts as lost.
const LOST: Duration = Duration::from_secs(10);

#[derive(Clone, Copy)]
struct Figures {
    reroute: Duration,
    /// PathRecords per second.
    rate: f64,
}

/// Measures `rounds` rounds, and prints the medians.
pub(crate) fn compare(daemon: &BenchDaemon, load: &Load, rounds: usize) {
    let client = {
        let _clients = daemon.clients.enter();
        Client::at(&daemon.cluster, [1, 1, 0], true)
    };
    let client = Arc::new(client);
    let mut calm = Vec::new();
    let mut loaded = Vec::new();
    let done = Arc::new(AtomicU64::new(0));
    let mut loaded_time = Duration::ZERO;
    let mut cables = 0..;
    for number in 0..rounds {
        // Either comes first in turn.
        for is_loaded in [number % 2 == 0, number % 2 != 0] {
            let start = Instant::now();
            let running = is_loaded.then(|| load.start(daemon.socket(), &done));
            std::thread::sleep(RAMP);
            let figures = Figures {
                reroute: reroute(daemon, cables.next().expect("there are enough")),
                rate: rate(daemon, &client),
            };
            drop(running);
            if is_loaded {
                loaded.push(figures);
                loaded_time += start.elapsed();
            } else {
                calm.push(figures)
            }
        }
    }
    let done = done.load(std::sync::atomic::Ordering::Relaxed) as f64 / loaded_time.as_secs_f64();
    println!("{} ({done:.1}/s), {rounds} rounds:", load.name);
    print_ratio("reroute in ms", &calm, &loaded, |figures| figures.reroute.as_secs_f64() * 1e3);
    print_ratio("PathRecords/s", &calm, &loaded, |figures| figures.rate);
}

fn print_ratio(name: &str, calm: &[Figures], loaded: &[Figures], value: fn(&Figures) -> f64) {
    let [calm, loaded] = [calm, loaded].map(|figures| {
        let mut values: Vec<f64> = figures.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        (at(&values, 50), at(&values, 10), at(&values, 90))
    });
    let ratio = loaded.0 / calm.0;
    println!(
        "  {name}: {:.1} ({:.1} to {:.1}) calm, {:.1} ({:.1} to {:.1}) under load: {ratio:.3}",
        calm.0, calm.1, calm.2, loaded.0, loaded.1, loaded.2
    );
}

fn at(values: &[f64], share: usize) -> f64 {
    values[(values.len() - 1) * share / 100]
}

/// The time from the loss of an x cable until its reroute is published. The cable is restored. Each
/// round has another `number`: a cable that is lost again and again would be quarantined.
fn reroute(daemon: &BenchDaemon, number: u16) -> Duration {
    let [x, y, z] = daemon.cluster.shape.radix;
    let at = [number % x, number / x % y, (z / 2 + number / x / y) % z];
    let switch = daemon.cluster.shape.switch_guid(at);
    let fabric = &daemon.cluster.fabric;
    std::thread::sleep(idle_time(daemon));
    let lost = changed(daemon, || fabric.unlink(switch, PortNum(1)));
    std::thread::sleep(idle_time(daemon));
    changed(daemon, || fabric.relink(switch, PortNum(1)));
    lost
}

/// Time in which the daemon prepares the baseline of the next plan.
fn idle_time(daemon: &BenchDaemon) -> Duration {
    let switches: u64 = daemon.cluster.shape.radix.iter().map(|&radix| u64::from(radix)).product();
    Duration::from_millis(if switches > 1000 { 2000 } else { 500 })
}

/// The time from an event until the next subnet is published.
fn changed(daemon: &BenchDaemon, event: impl FnOnce() -> bool) -> Duration {
    let mut subnet = daemon.subnet.clone();
    let before = subnet.borrow().as_ref().map_or(0, |subnet| subnet.generation);
    let start = Instant::now();
    assert!(event(), "the link is in that state");
    let published = async {
        timeout(
            LOST,
            subnet.wait_for(|subnet| {
                subnet.as_ref().is_some_and(|subnet| subnet.generation > before)
            }),
        )
        .await
        .is_ok()
    };
    assert!(daemon.clients.block_on(published), "nothing was published");
    start.elapsed()
}

/// PathRecord Gets per second of a client that has [`WINDOW`] under way.
fn rate(daemon: &BenchDaemon, client: &Arc<Client>) -> f64 {
    let client = client.clone();
    let asked = daemon.clients.spawn(async move {
        let query = path_query(DEFAULT_PREFIX, [client.guid, client.guid]);
        let mut tid = 0;
        let mut send = || {
            tid += 1;
            client.send(&with_tid(query, tid), LOST, 0);
        };
        (0..WINDOW).for_each(|_| send());
        let start = Instant::now();
        let mut replies = 0;
        while start.elapsed() < QUERY_TIME {
            let (_, reply) = client.reply().await;
            assert!(reply.is_some(), "a query was lost");
            replies += 1;
            send();
        }
        let rate = f64::from(replies) / start.elapsed().as_secs_f64();
        for _ in 0..WINDOW {
            client.reply().await;
        }
        rate
    });
    daemon.clients.block_on(asked).expect("no panic")
}
