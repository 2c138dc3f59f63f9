//! What the fuzz targets do with their bytes, one function per target: it must not panic, and
//! what was accepted must keep its promises. `cargo fuzz run TARGET` feeds them what libFuzzer
//! invents (stable toolchains need RUSTC_BOOTSTRAP=1); tests/fuzz_corpus.rs includes this file,
//! and replays `corpus/` with seeded mutations in every test run.

mod mads;
mod sweeps;
mod texts;

pub(crate) use mads::{front_desk, sa_requests, umad};
pub(crate) use sweeps::observe;
pub(crate) use texts::{
    argv, guid_lists, guid2lid, ibnetdiscover, opensm_conf, partitions, prefix_routes, qos_policy,
    sa_dump, torus_conf,
};
