//! The SM loop: receives events, sweeps, plans and programs the fabric.
//!
//! * [`run`]: the loop, with a diagram of its channels; [`agenda`]: its work, and the order in which it
//!   is done; [`timers`]: its deadlines; `state`: its state; `env`: what all tasks use; [`context`]:
//!   the connections with the rest of the daemon; [`event_queue`]: the events that have arrived;
//!   `event_text`: descriptions of them for the flight recorder;
//! * [`stages`]: sweeps, reconfigurations, and the role of this SM among others;
//! * [`monitor`]: status and events for the management interface; `reload`: reads the configuration
//!   again; [`config_status`]: its files in the status;
//! * [`planning`]: the input of planning; [`baseline_cache`]: baselines for incremental planning;
//! * `quarantine`: links that flap, report errors, or that operators quarantine; `port_errors`: ports
//!   that report errors;
//! * `link_storm`: many links that change at the same time; [`known_changes`]: links whose change a
//!   sweep has found before the trap arrived;
//! * `unreachable_peers`: links to nodes that do not answer; `unresponsive`: devices that do not, and
//!   stay in the subnet; `unresponsive_devices`: its state;
//! * [`partitions`], [`qos_policy`]: state resolved from configuration files;
//! * [`transitions`]: checks for deadlocks while old and new routes coexist;
//!   [`vendor_gate`]: holds the vendor task while plain forwarding tables change;
//! * [`files`]: files that are read and written; [`file_writer`]: writes them on another thread;
//! * [`smp_server`]: answers SMInfo and receives traps; `sender_limits`: limits the traps of each
//!   port; `bad_m_key`: logs refused requests of others; `own_port`: the port of this SM: whether its
//!   M_Key is known, and changes by others.

pub mod agenda;
mod bad_m_key;
pub mod baseline_cache;
pub mod config_status;
pub mod context;
mod env;
pub mod event_queue;
mod event_text;
pub mod file_writer;
pub mod files;
pub mod known_changes;
mod link_storm;
pub mod monitor;
mod own_port;
pub mod partitions;
pub mod planning;
mod port_errors;
pub mod qos_policy;
mod quarantine;
pub mod reload;
pub mod run;
mod sender_limits;
mod sm_peers;
pub mod smp_server;
pub mod stages;
mod state;
pub mod timers;
pub mod transitions;
mod unreachable_peers;
mod unresponsive;
mod unresponsive_devices;
pub mod vendor_gate;
