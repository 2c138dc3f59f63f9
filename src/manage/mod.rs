//! The management interface: HTTP/1.1 with JSON on a Unix socket, for operators and their tools.
//!
//! ```text
//! SM loop ── LoopStatus (swapped pointer) ──► api, metrics ──► server ──► clients
//! SM loop, servers ── Event (bounded queue) ──► event_log ──► server ──► clients
//! clients ──► server ──► Action ──► SM loop
//! ```
//!
//! Nothing here is waited for by a sweep or an SA answer: the loop replaces a pointer, events go to
//! a queue that drops what does not fit, and the server runs on a low-priority thread of its own.
//!
//! * [`loop_status`]: the snapshot that the SM loop publishes;
//!   [`offenders`]: counts of hostile and defective sources;
//! * [`feed`]: the side of the daemon; [`sources`]: the side of the server;
//! * [`event`]: events; [`event_log`]: the latest events, numbered; [`fabric_changes`]: events from
//!   two snapshots of the fabric;
//! * [`missing`]: nodes and links that are not found any more; `earlier_ports`: those of an earlier run;
//! * [`action`]: what a client may request of the daemon; [`sa_query`]: queries to the SA server,
//!   [`sa_names`];
//! * [`socket`]: runtime folder and sockets; [`server`]: connections, limits and permissions;
//! * [`console`]: OpenSM's console; `perf_text`: what it and a client print of the performance manager;
//! * [`page`]: the page for browsers; [`api`]: the resources under `/v1`, one file each;
//!   [`metrics`]: `/metrics`;
//! * [`client`]: `torus-sm status` and the other commands that talk to a running daemon.

pub mod action;
pub mod activity;
pub mod api;
pub mod client;
pub mod console;
pub mod earlier_ports;
pub mod event;
pub mod event_log;
pub mod fabric_changes;
pub mod feed;
pub mod loop_status;
pub mod metrics;
pub mod missing;
pub mod offenders;
pub mod page;
mod perf_text;
pub mod sa_names;
pub mod sa_query;
pub mod server;
pub mod socket;
pub mod sources;
pub mod verdict;
