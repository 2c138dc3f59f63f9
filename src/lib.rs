//! torus-sm: an InfiniBand subnet manager and subnet administrator for 2D/3D torus fabrics, a
//! drop-in for OpenSM.
//!
//! # One direction of flow
//!
//! ```text
//! observe ──► plan ──► verify ──► apply ──► publish ──► answer
//! (sweep)   (pure)    (pure)    (diff)    (Arc)      (SA)
//! ```
//!
//! | stage | takes | gives | may do |
//! |---|---|---|---|
//! | [`observe`] | the port, the last [`fabric::Fabric`] | a [`fabric::Fabric`]: what IS | SMP Gets |
//! | [`plan`] | fabric, configuration, memory (LIDs, MLIDs) | a [`plan::Plan`]: what SHOULD BE | nothing |
//! | [`verify`] | fabric, plan | a verified plan, or the exact fault | nothing |
//! | [`apply`] | fabric, what each device acknowledged, verified plan | the devices brought to the plan | SMP Sets of what differs |
//! | [`publish`] | fabric + plan | an `Arc<`[`publish::Subnet`]`>` snapshot, dump files | swap one pointer |
//! | answer ([`sa`]) | a snapshot, a query | the reply, without waiting for any sweep | read |
//!
//! What changes slowly and is written by clients (multicast members …) lives in one registry
//! with one owner; its changes reach the fabric as events of the daemon's loop, and reach
//! readers in the next snapshot.
//!
//! # Who may import whom
//!
//! `ids ← wire ← transport`; `ids ← fabric ← plan ← verify ← apply ← publish ← sa`. Only
//! [`daemon`] and [`cli`] see everything. [`config`] is read by every stage from `plan` on;
//! [`sim`] stands beside [`transport`] and knows nothing of the stages it serves.
//! `tests/architecture.rs` holds this line.
//!
//! # What is deliberately absent
//!
//! Nothing under [`plan`] or [`verify`] opens a file, reads a clock, draws a random number or
//! sends a MAD. No byte order above [`wire`]. No `unsafe` outside `transport::umad`. No shared
//! mutable fabric: one task owns the state, readers hold snapshots.

pub mod apply;
pub mod cli;
pub mod config;
pub mod daemon;
pub mod fabric;
pub mod ids;
pub mod notes;
pub mod observe;
pub mod offline;
pub mod plan;
pub mod publish;
pub mod sa;
pub mod sim;
pub mod sm;
pub mod transport;
pub mod verify;
pub mod wire;
