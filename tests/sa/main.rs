//! The subnet administrator: answers, registrations, and behaviour under load.

mod alias_guids;
mod attributes;
mod client_records;
mod hostile_clients;
mod join_load;
mod multipath;
mod partitions;
mod path_limits;
mod path_sl_vectors;
mod qos_policy;
mod queries;
mod quirks;
mod server_load;
mod tables;
mod trust;
