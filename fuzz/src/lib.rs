//! The fuzz targets, one function each: it must not panic, and accepted input must have the
//! properties that the function asserts. `cargo fuzz run TARGET` feeds it with libFuzzer's inputs
//! (stable toolchains need RUSTC_BOOTSTRAP=1). `tests/repository/fuzz_corpus.rs` includes this file
//! and replays `corpus/` with seeded mutations in every test run.

mod congestion;
mod mads;
mod recordings;
mod reports;
mod rmpp;
mod sweeps;
mod texts;
mod transfers;
mod traps;
mod vendor;

pub use congestion::congestion;
pub use mads::{front_desk, sa_requests, umad};
pub use recordings::recording;
pub use reports::reports;
pub use rmpp::rmpp_receive;
pub use sweeps::observe;
pub use texts::{
    argv, enhanced_qos, guid_lists, guid2lid, guid2mkey, ibnetdiscover, neighbors, node_name_map,
    opensm_conf, partitions, pqft_structure, prefix_routes, qos_policy, routing_chain, sa_dump,
    torus_conf,
};
pub use transfers::rmpp_transfers;
pub use traps::trap_intake;
pub use vendor::vendor;
