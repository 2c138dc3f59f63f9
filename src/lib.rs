#![doc = include_str!("../ARCHITECTURE.md")]
#![warn(clippy::disallowed_methods)]
#![warn(clippy::disallowed_macros)]

pub mod apply;
pub mod cli;
pub mod config;
pub mod congestion;
pub mod contained;
pub mod daemon;
pub mod fabric;
pub mod histogram;
pub mod ids;
pub mod incidents;
pub mod interned;
pub mod local_socket;
pub mod manage;
pub mod notes;
pub mod observe;
pub mod offline;
pub mod paged_vec;
pub mod perfmgr;
pub mod plan;
pub mod publish;
pub mod record;
pub mod replication;
pub mod sa;
#[cfg(test)]
pub mod scenario_files;
pub mod sim;
pub mod sim_command;
pub mod sm;
pub mod torus_config;
pub mod transport;
pub mod vendor;
pub mod verify;
pub mod wire;
