//! The manager loop: receives events, sweeps, plans and programs the fabric.
//!
//! * [`manager`]: the loop; [`pending`]: work that events request; [`context`]: its connections;
//! * [`mastership`]: polls of other SMs, HANDOVER, trap 144;
//! * [`monitor`]: status and events for the management interface; [`config_status`]: the
//!   configuration files in it;
//! * [`reconfigure`]: plan, verify, apply and publish;
//! * [`planning`]: the input of planning; [`baseline_cache`]: baselines for incremental planning;
//! * `quarantine`: links that flap or report errors; `link_quarantine`: its state; `port_errors`:
//!   ports that report errors;
//! * `link_storm`: many links that change at the same time; [`known_changes`]: links whose change a
//!   sweep has found before the trap arrived;
//! * `unreachable_peers`: links to nodes that do not answer; `unresponsive`: devices that do not, and
//!   stay in the subnet; `unresponsive_devices`: its state;
//! * `local_changes`: traps that report changed attributes of a port;
//! * [`partitions`], [`qos_policy`]: state resolved from configuration files;
//! * [`transitions`]: checks for deadlocks while old and new routes coexist;
//! * [`files`]: files that are read and written; [`file_writer`]: writes them on another thread;
//! * [`smp_server`]: answers SMInfo and receives traps; `sender_limits`: limits the traps of each
//!   port; `bad_m_key`: logs refused requests of others; `own_port`: whether this SM knows the
//!   M_Key of its port.

mod bad_m_key;
pub mod baseline_cache;
pub mod config_status;
pub mod context;
pub mod event_queue;
pub mod file_writer;
pub mod files;
pub mod known_changes;
mod link_quarantine;
mod link_storm;
mod local_changes;
pub mod manager;
pub mod mastership;
pub mod monitor;
mod own_port;
pub mod partitions;
pub mod pending;
pub mod planning;
mod port_errors;
pub mod qos_policy;
mod quarantine;
pub mod reconfigure;
mod sender_limits;
mod sm_peers;
pub mod smp_server;
mod sweeps;
pub mod transitions;
mod unreachable_peers;
mod unresponsive;
mod unresponsive_devices;
