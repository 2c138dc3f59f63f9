//! The daemon: the SM loop, which owns the state of the subnet, and the servers beside it.
//!
//! ```text
//!                          ┌───────────── sm_loop::run (one task) ───────────────────────┐
//!  port ─► demux ─► SMPs   │ observe ─► plan ─► verify ─► apply ─► publish               │
//!    ▲       │             └──▲───────────────────────────────────────│──────────────────┘
//!    │       ├─► SMP server ──┤ SmEvent (traps, SM roles)             ▼ snapshot
//!    │       └─► SA server ───┘ SmEvent (membership)  ◄──── watch<Arc<Subnet>>, SaCommand
//!    └───────────────┘ replies, reports
//! ```
//!
//! * [`launch`]: the process, from the command line to the exit code;
//! * [`start`]: connects SM loop and servers ([`parts`]) to an open port, with the parameters in [`setup`];
//! * [`management`]: starts the management interface; [`manage_control`]: carries out its actions;
//! * [`messages`]: messages between the tasks;
//! * [`sm_loop`]: sweeps, plans and programs; the SMP server;
//! * [`sa_server`]: answers SA requests from the published snapshot, owns the registry;
//! * [`perfmgr`]: reads the port counters; [`congestion`]: configures congestion control;
//! * [`vendor`]: asks devices for vendor-specific capabilities; [`virtual_ports`]: manages vports;
//! * [`activity`]: the activity report;
//! * [`incidents`]: derives incidents from what the others publish;
//! * [`shadow`]: what this program would do on a fabric of another subnet manager;
//! * [`process`]: threads, signals, log.
//!
//! Imports go one way: messages ← process, activity ← sm_loop, sa_server, perfmgr, congestion, vendor,
//! virtual_ports, incidents ← setup ← parts ← start ← management ← launch ← shadow.

pub mod activity;
pub mod congestion;
pub mod incidents;
pub mod launch;
pub mod manage_control;
pub mod management;
pub mod messages;
mod parts;
pub mod perfmgr;
pub mod process;
pub mod replication;
pub mod sa_server;
pub mod setup;
pub mod shadow;
pub mod sm_loop;
pub mod start;
pub mod vendor;
pub mod virtual_ports;
