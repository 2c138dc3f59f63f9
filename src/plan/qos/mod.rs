//! Quality of service: SL to VL mapping tables, VL arbitration tables, and the QoS policy.
//!
//! * [`QosConfig`]: the `qos_*` options;
//! * [`policy`]: the rules of qos-policy.conf, which assign a QoS level to a path query;
//! * [`setup`]: the `qos-setup` scopes of qos-policy.conf, which configure the tables of port
//!   groups;
//! * [`dropped_sls`]: warnings about SLs in use that are mapped to VL 15;
//! * [`tables()`]: the tables of a fabric; `vls`: the ports that have tables, and their operational
//!   VLs.

pub mod dropped_sls;
mod options;
pub mod policy;
pub mod setup;
mod tables;
mod vls;

pub use options::QosConfig;
pub use tables::{QosSources, QosTables, tables, update};
