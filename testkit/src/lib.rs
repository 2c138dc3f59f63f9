//! The test kit of torus-sm: what its integration tests and benchmarks share.
//!
//! | module | contents |
//! |---|---|
//! | [`cluster`] | the whole daemon on a simulated fabric, in this process, on tokio's paused clock |
//! | [`reloadable`] | a daemon whose options a SIGHUP replaces |
//! | [`simulator`] | `torus-sm sim` in a process of its own, and unmodified programs attached to it |
//! | [`console`] | a client of OpenSM's console |
//! | [`ibsim`] | Debian's ibsim in a process of its own, and programs attached to it |
//! | [`process`] | installed tools, child processes, waiting for a line of a log |
//! | [`dumps`] | parsers of OpenSM's dump files, and comparison of tables |
//! | [`sa_client`] | clients of the subnet administrator |
//! | [`observer`] | the roles of subnet managers as a third port sees them by SMInfo |
//! | [`memory_network`] | connections for the shared state of daemons in this process, which can be cut |
//! | [`multicast`] | the multicast trees in the forwarding tables of a simulated fabric |
//! | [`tamper`] | a port that changes, records or loses MADs on their way to a fabric |
//! | [`snapshot`] | published subnets for tests of the responder |
//! | [`planning`] | plans by the real engines for fabrics that exist as topologies only |
//! | [`fabrics`] | random fat trees, meshes, tori, hypercubes, dragonflies and irregular fabrics |
//! | [`dice`] | pseudo-random numbers from a seed |
//! | [`dimension_order`] | plans by a simple reference engine |
//! | [`torus`] | random and damaged tori with their configuration, routed by torus-2QoS |
//! | [`transition`] | switch tables that change Set by Set, and the fate of packets meanwhile |

#![allow(clippy::disallowed_methods, reason = "waits for other processes in real time")]

pub mod cluster;
pub mod console;
pub mod dice;
pub mod dimension_order;
pub mod dumps;
pub mod fabrics;
pub mod ibsim;
pub mod memory_network;
pub mod multicast;
pub mod observer;
pub mod planning;
pub mod process;
pub mod reloadable;
pub mod sa_client;
pub mod simulator;
pub mod snapshot;
pub mod tamper;
pub mod torus;
pub mod transition;

pub use cluster::{SimCluster, Sm, settle};
pub use ibsim::{Ibsim, have};
pub use observer::{Observer, directed_route};
pub use process::{
    Running, START_TIMEOUT, own_program, test_name, tool, torus_sm, wait_for, wait_until_settled,
};
pub use reloadable::ReloadableSm;
pub use simulator::Simulator;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A number from the environment, for tests that can do more than they usually do.
pub fn setting(name: &str, default: usize) -> usize {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")),
        Err(_) => default,
    }
}

/// The argument `index` of a benchmark without criterion, to which cargo passes `--bench`.
pub fn bench_argument(index: usize, default: &str) -> String {
    let words = std::env::args().skip(1).filter(|word| !word.starts_with("--"));
    words.into_iter().nth(index).unwrap_or_else(|| default.to_owned())
}

/// Does `work` for 0..`count`, two at a time, and returns the results in order. OpenSM and ibsim
/// mostly wait for each other.
pub fn in_parallel<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    on_threads(2, count, work)
}

/// Does `work` for 0..`count` on so many threads, and returns the results in order.
pub fn on_threads<T: Send>(
    threads: usize,
    count: usize,
    work: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        return;
                    }
                    let result = work(index);
                    results.lock().unwrap().push((index, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap();
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// A range of seeds `a..b`, or a single seed `a`, from the environment.
pub fn seeds(name: &str, default: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let Ok(text) = std::env::var(name) else { return default };
    let range = match text.split_once("..") {
        Some((first, end)) => number(first).zip(number(end)).map(|(first, end)| first..end),
        None => number(&text).map(|seed| seed..seed + 1),
    };
    range.unwrap_or_else(|| panic!("{name}={text} is neither a seed nor a range of seeds a..b"))
}

fn number(text: &str) -> Option<u64> {
    text.parse::<u64>().ok()
}

/// Makes a test of each fabric in `vectors/torus-2qos/` that OpenSM routes: `$check` is called with
/// the name of its folder.
#[macro_export]
macro_rules! vector_tests {
    ($check:path) => {
        $crate::vector_tests! { $check:
            v01_2d_odd: "v01-2d-odd";
            v02_2d_radix4: "v02-2d-radix4";
            v03_3d_dateline: "v03-3d-dateline";
            v04_mesh: "v04-mesh";
            v05_parallel: "v05-parallel";
            v06_links_down: "v06-links-down";
            v07_switch_down: "v07-switch-down";
            v08_z_pair_down: "v08-z-pair-down";
            v09_second_seed: "v09-second-seed";
            v12_four_vls: "v12-four-vls";
            v13_random_a: "v13-random-a";
            v14_random_b: "v14-random-b";
            v15_overflow: "v15-overflow";
        }
    };
    ($check:path: $($test:ident: $folder:literal;)*) => {$(
        #[test]
        fn $test() {
            $check($folder);
        }
    )*};
}
