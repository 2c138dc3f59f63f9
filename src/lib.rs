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
//! | [`plan`] | fabric, configuration, memory (LIDs, P_Key indexes, MLIDs) | a [`plan::Plan`]: what SHOULD BE | nothing |
//! | [`verify`] | fabric, plan | a verified plan, or the exact fault | nothing |
//! | [`apply`] | fabric, what each device acknowledged, verified plan | the devices brought to the plan, in an order that is safe for packets under way | SMP Sets of what differs |
//! | [`publish`] | fabric + plan | an `Arc<`[`publish::Subnet`]`>` snapshot, dump files | swap one pointer |
//! | answer ([`sa`]) | a snapshot, a query | the reply, without waiting for any sweep | read |
//!
//! [`offline`] walks the same road without a port, up to verify, for `torus-sm plan`.
//!
//! What changes slowly and is written by clients (multicast members, services, subscriptions)
//! lives in one registry with one owner; its changes reach the fabric as events of the daemon's
//! loop, and reach readers in the next snapshot.
//!
//! Beside the stages stand [`ids`] (numbers of the standard as types), [`notes`] (what the
//! operator is to hear), [`wire`] (bytes), [`transport`] (the port), [`config`] (what the
//! administrator writes), [`sm`] (roles and election), [`sim`] (a simulated fabric),
//! [`torus_config`] (derives torus-2QoS.conf from cables), [`cli`] (the command line),
//! [`daemon`] (the loop, the process) and [`sim_command`] (`torus-sm sim`).
//!
//! # Who may import whom
//!
//! The room, and what it may import. `tests/architecture.rs` reads this table and holds the
//! line.
//!
//! ```text
//! ids        wire (the trait by which its types are bit fields)
//! notes
//! wire       ids
//! transport  ids wire notes
//! fabric     ids wire notes
//! config     ids notes
//! sim        ids wire notes fabric transport
//! observe    ids wire notes fabric transport config
//! plan       ids wire notes fabric config
//! verify     ids wire notes fabric config plan
//! apply      ids wire notes fabric config plan verify transport observe (what a sweep read is what devices have)
//! publish    ids wire notes fabric config plan verify apply
//! sa         ids wire notes fabric config plan verify apply publish transport
//! sm         ids wire notes fabric config transport
//! offline    ids wire notes fabric config sim plan verify apply publish torus_config cli (a dry run has no port)
//! torus_config ids fabric config plan (torus-2QoS.conf derived from cables)
//! cli        everything
//! daemon     everything
//! sim_command everything
//! ```
//!
//! # What is deliberately absent
//!
//! Nothing under [`plan`] or [`verify`] opens a file, reads a clock, draws a random number, logs
//! or sends a MAD. No byte order above [`wire`]. No `unsafe` outside `transport::umad` (and the
//! workspace member `preload`, which stands between a program and its C library). No shared
//! mutable fabric: one task owns the state, readers hold snapshots. No clock but tokio's, so that
//! tests of the whole daemon run on a paused one.

#![warn(clippy::disallowed_methods)]

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
pub mod sim_command;
pub mod sm;
pub mod torus_config;
pub mod transport;
pub mod verify;
pub mod wire;
