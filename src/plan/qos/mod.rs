//! Quality of service: SL to VL mapping tables, VL arbitration tables, and the QoS policy.
//!
//! * [`QosConfig`]: the `qos_*` options;
//! * [`policy`]: the rules of qos-policy.conf, which assign a QoS level to a path query;
//! * [`setup`]: the `qos-setup` scopes of qos-policy.conf, which configure the tables of port
//!   groups;
//! * [`tables()`]: the tables of a fabric; `vls`: the ports that have tables, and their operational
//!   VLs.

mod options;
pub mod policy;
pub mod setup;
mod tables;
mod vls;

pub use options::QosConfig;
pub use tables::{QosSources, QosTables, tables, update};
