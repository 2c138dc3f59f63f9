//! Throughput, latency and memory of the SA server.
//!
//! ```text
//! cargo bench --bench sa_server [-- rate|pace|tables|reroute]
//! ```
//!
//! * `rate`: PathRecord Gets by GID on an 8x8x8 torus with 1,024 hosts, with a limited number under
//!   way, delivered by a reader thread as a port has one: with all threads on one core, and on all
//!   cores
//! * `pace`: latency at half of 400,000 requests per second
//! * `tables`: 49,896 NodeRecords to each of twenty clients at once, with no table worker and with
//!   one
//! * `reroute`: the whole daemon while a 16x16x16 torus loses links and gets them back

mod rate;
mod reroute;
mod server;
mod tables;

use std::time::Duration;

fn main() {
    // Cargo passes --bench.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|w| !w.starts_with("--")).collect();
    let parts: [(&str, fn()); 4] = [
        ("rate", rate::rate),
        ("pace", rate::pace),
        ("tables", tables::tables),
        ("reroute", reroute::reroute),
    ];
    for (name, run) in parts {
        if wanted.is_empty() || wanted.iter().any(|word| word == name) {
            println!("== {name}");
            run();
        }
    }
}

/// Quantiles of the latencies, as text.
fn spread(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let [half, p99, p999, most] =
        [0.5, 0.99, 0.999, 1.0].map(|share| times[((times.len() - 1) as f64 * share) as usize]);
    format!(
        "{} answers: median {half:?}, p99 {p99:?}, p99.9 {p999:?}, longest {most:?}",
        times.len()
    )
}
