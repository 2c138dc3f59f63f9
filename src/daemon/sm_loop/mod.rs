//! The manager loop.

pub mod baseline_cache;
pub mod context;
pub mod file_writer;
pub mod files;
pub mod manager;
pub mod partitions;
pub mod pending;
pub mod planning;
pub mod qos_policy;
pub mod reconfigure;
pub mod smp_server;
pub mod transitions;
