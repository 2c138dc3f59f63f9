//! Sweeps of the port counters, and full scrapes.

use crate::daemon::BenchDaemon;
use crate::loads::{METRICS, request};
use std::time::{Duration, Instant};
use torus_sm::daemon::process::memory;

const SWEEPS: usize = 4;
const SCRAPES: usize = 5;
/// Time after which the baseline of the next plan is prepared.
const IDLE: Duration = Duration::from_secs(5);

pub(crate) fn measure(daemon: &BenchDaemon) {
    std::thread::sleep(IDLE);
    println!("resident memory before the first sweep: {} MiB", resident());
    for number in 1..=SWEEPS {
        let sweep = daemon.sweep_counters();
        println!(
            "sweep {number} of the counters: {:.2?}, {} ports, {} queries, {} failed; memory {} MiB",
            sweep.duration,
            sweep.ports,
            sweep.queries,
            sweep.failed,
            resident()
        );
    }
    std::thread::sleep(IDLE);
    println!("resident memory when idle: {} MiB", resident());
    for number in 1..=SCRAPES {
        let start = Instant::now();
        let reply = request(daemon.socket(), METRICS).expect("a reply");
        let took = start.elapsed();
        let lines = reply.iter().filter(|&&byte| byte == b'\n').count();
        let size = reply.len() as f64 / 1e6;
        drop(reply);
        println!(
            "scrape {number}: {took:.1?}, {size:.1} MB, {lines} lines; memory {} MiB",
            resident()
        );
    }
    println!("peak memory: {} MiB", peak());
}

fn resident() -> u64 {
    memory::resident().unwrap_or(0) >> 20
}

/// The maximum of the resident memory so far, in MiB.
fn peak() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) >> 10
}
