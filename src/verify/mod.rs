//! Verification, before anything is written, that a plan delivers every packet and cannot deadlock.
//!
//! [`full`] examines a complete plan. [`incremental`] examines where a plan differs from one that
//! passed, and falls back to the full check if that is inconclusive; both verdicts are the same.
//! [`kept_routes`] examines the rest of a plan whose routes are in force already, and [`idle_ports`] a plan
//! without routes.
//! Each of the two modules opens with its invariant and the argument for it. [`transition`] checks
//! what packets may meet while a fabric is brought from one plan to the next. [`adaptive`] proves
//! groups of ports for adaptive routing.
//!
//! The files beside them are shared:
//!
//! | file | contents |
//! |---|---|
//! | `verdict` | the question and the answer: checks, faults, summary |
//! | `network` | the fabric reduced to switches and the channels between them, densely numbered |
//! | `endpoints` | sources and destinations of packets |
//! | `sl_to_vl` | the VL of a packet on each channel |
//! | [`held_mappings`] | SL to VL mappings that the switches hold and the plan does not write |
//! | `unrouted` | the pairs of end ports without a route |
//! | `triples` | the SLs of packets by input, channel and next channel |
//! | `dependency_graph` | the channel dependency graph and its cycles |
//! | `multicast_tree` | the tree of one multicast group |
//! | `limits` | capacities of the devices |
//! | `proof` | what is retained of a plan that passed |
//! | [`walk`] | one path hop by hop, for faults and reports |

pub mod adaptive;
pub mod full;
mod group_sources;
pub mod held_mappings;
pub mod idle_ports;
pub mod incremental;
pub mod kept_routes;
pub mod transition;
pub mod walk;

mod dependency_graph;
mod endpoints;
mod limits;
mod multicast_tree;
mod network;
mod proof;
mod sl_to_vl;
mod triples;
mod unrouted;
mod verdict;

pub use full::{verify, verify_shared};
pub use incremental::{baseline, multicast_delta};
pub use incremental::{prove, verify_changes};
pub use proof::Proof;
pub use unrouted::{UnroutedPair, UnroutedPairs};
pub use verdict::{ChannelRef, Checks, Cycle, Extent, Fault, Summary, Verified, VerifyFailure};

/// Maximum number of switches on a path; a longer one is a fault. Directed routes reach no further
/// either (IBA vol. 1, 14.2.1.2).
pub const MAX_PATH_SWITCHES: u32 = 64;
