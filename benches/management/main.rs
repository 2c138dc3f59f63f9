//! The management interface and the performance manager beside a simulated fabric, with the threads
//! of the daemon's process.
//!
//! ```text
//! cargo bench --bench management [-- scale [SHAPE [HOSTS]]]
//! cargo bench --bench management -- LOAD|all [SHAPE [HOSTS [ROUNDS]]]
//! ```
//!
//! * `scale`: duration and memory of sweeps of the port counters, time and size of full scrapes
//! * `scrape`: `/metrics` once a second; `scrapes`: `/metrics` again and again
//! * `connections`: 200 connections that send nothing, or send or read too slowly
//! * `garbage`: giant bodies and malformed requests, again and again
//! * `counters`: sweeps of the port counters, one after the other
//!
//! For each load, rounds without it and with it alternate. A round measures the time from the loss of
//! a cable until its reroute is published, and the rate of PathRecord Gets, 64 at a time. Prints the
//! medians of both, and their ratios. Simulator and clients run in the same process; clients of the
//! management interface have the lowest priority.

mod daemon;
mod loads;
mod rounds;
mod scale;

use loads::LOADS;
use testkit::bench_argument;

fn main() {
    let number =
        |index, default| bench_argument(index, default).parse::<usize>().expect("a number");
    let wanted = bench_argument(0, "scale");
    let is_scale = wanted == "scale";
    let shape = bench_argument(1, if is_scale { "16x16x16" } else { "8x8x8" });
    let hosts = number(2, "2") as u8;
    let daemon = daemon::BenchDaemon::start(&shape, hosts);
    if is_scale {
        scale::measure(&daemon);
    } else {
        // The loads read counters of all ports.
        daemon.sweep_counters();
        for load in LOADS.iter().filter(|load| wanted == "all" || wanted == load.name) {
            rounds::compare(&daemon, load, number(3, "15"));
        }
    }
    daemon.stop();
}
