//! The fuzz targets in the ordinary test run: every seed of fuzz/corpus, seeded mutations of the
//! seeds, and noise. A failing input is printed so that it can become a seed.

#[path = "../../fuzz/src/lib.rs"]
#[allow(unreachable_pub, reason = "the fuzz targets are crates that call these functions")]
mod targets;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Mutations per seed.
const MUTATIONS: u64 = 60;

/// Pseudo-random numbers (SplitMix64): the same inputs in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// Changes, removes, repeats or inserts a few bytes of `input`.
    fn mutate(&mut self, input: &mut Vec<u8>, other: &[u8]) {
        for _ in 0..=self.below(6) {
            let at = self.below(input.len() + 1);
            let end = (at + self.below(16)).min(input.len());
            match self.below(5) {
                0 if at < input.len() => input[at] = self.next() as u8,
                1 if at < input.len() => input[at] ^= 1 << self.below(8),
                2 => drop(input.drain(at..end)),
                3 => {
                    let piece = input[at..end].to_vec();
                    let to = self.below(input.len() + 1);
                    input.splice(to..to, piece);
                }
                _ => {
                    let from = self.below(other.len() + 1);
                    let piece = &other[from..(from + self.below(32)).min(other.len())];
                    input.splice(at..at, piece.iter().copied());
                }
            }
        }
    }
}

/// Runs a target with its seeds, `rounds` mutations of each, and noise.
fn replay(name: &str, rounds: u64, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let entries = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} has no seeds", folder.display());
    let seeds: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    let mut random = Random(name.len() as u64);
    for (file, seed) in files.iter().zip(&seeds) {
        run(&file.display().to_string(), target, seed);
        for round in 0..rounds {
            let mut input = seed.clone();
            let other = random.below(seeds.len());
            random.mutate(&mut input, &seeds[other]);
            run(&format!("{name}: mutation {round} of {}", file.display()), target, &input);
        }
    }
    for round in 0..rounds {
        let noise: Vec<u8> = (0..random.below(600)).map(|_| random.next() as u8).collect();
        run(&format!("{name}: noise {round}"), target, &noise);
    }
}

fn run(what: &str, target: fn(&[u8]), input: &[u8]) {
    if catch_unwind(AssertUnwindSafe(|| target(input))).is_err() {
        panic!("{what} fails; the input is {:?}", String::from_utf8_lossy(input));
    }
}

macro_rules! replays {
    ($($target:ident: $rounds:expr;)+) => {
        $(#[test]
        fn $target() {
            replay(stringify!($target), $rounds, targets::$target);
        })+

        /// The targets here, in fuzz/Cargo.toml and in fuzz/fuzz_targets must be the same.
        #[test]
        fn every_target_is_replayed() {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
            let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
            let names = [$(stringify!($target)),+];
            for name in names {
                assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
                assert!(root.join(format!("fuzz_targets/{name}.rs")).is_file(), "{name}");
            }
            let programs = fs::read_dir(root.join("fuzz_targets")).unwrap().count();
            assert_eq!(programs, names.len());
        }
    };
}

replays! {
    opensm_conf: MUTATIONS;
    torus_conf: MUTATIONS * 5;
    guid2lid: MUTATIONS * 5;
    guid2mkey: MUTATIONS * 5;
    neighbors: MUTATIONS * 5;
    guid_lists: MUTATIONS * 5;
    node_name_map: MUTATIONS * 5;
    prefix_routes: MUTATIONS * 5;
    partitions: MUTATIONS * 5;
    qos_policy: MUTATIONS * 5;
    enhanced_qos: MUTATIONS * 5;
    pqft_structure: MUTATIONS * 5;
    routing_chain: MUTATIONS * 5;
    ibnetdiscover: MUTATIONS * 2;
    argv: MUTATIONS * 5;
    sa_dump: MUTATIONS * 5;
    sa_requests: MUTATIONS * 5;
    front_desk: MUTATIONS * 5;
    umad: MUTATIONS * 5;
    observe: MUTATIONS;
    recording: MUTATIONS / 2;
    reports: MUTATIONS * 5;
    rmpp_receive: MUTATIONS * 5;
    rmpp_transfers: MUTATIONS * 5;
    trap_intake: MUTATIONS * 5;
    congestion: MUTATIONS * 5;
    vendor: MUTATIONS * 5;
}

/// The targets are crates of their own, which no other check compiles.
#[test]
fn targets_can_call_their_functions() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let exports = fs::read_to_string(root.join("src/lib.rs")).unwrap();
    let exports: String = exports.lines().skip_while(|line| !line.starts_with("pub use")).collect();
    assert!(!exports.contains("pub(crate)"), "{exports}");
    for target in fs::read_dir(root.join("fuzz_targets")).unwrap() {
        let text = fs::read_to_string(target.unwrap().path()).unwrap();
        let (_, call) = text.split_once("torus_sm_fuzz::").expect("a call of the library");
        let name = call.split('(').next().unwrap_or_default();
        let mut words = exports.split(|c: char| !c.is_alphanumeric() && c != '_');
        assert!(words.any(|word| word == name), "{name}");
    }
}
