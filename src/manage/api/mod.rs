//! The resources of the management interface, one file each, and the table of them.
//!
//! A new resource is a file with its reply as a struct that serde writes, a function that makes it
//! from an [`ApiContext`], and a row of [`ENDPOINTS`]. `openapi` has the test that keeps the
//! description etc/torus-sm-openapi.json true: add the struct to its list of schemas, and run it
//! with UPDATE_GOLDEN=1.
//!
//! GUIDs and MLIDs are texts of hexadecimal digits with `0x`, as in OpenSM's files; times are UTC,
//! RFC 3339; names of durations end with `_seconds`.

mod actions;
mod adaptive;
mod congestion;
mod context;
mod counters;
mod endpoint;
mod error;
mod fabric;
mod find_node;
mod groups;
mod health;
pub(super) mod incidents;
mod message;
pub(super) mod offenders;
mod partitions;
mod quarantine;
mod query;
pub mod recorded;
mod replication;
mod reply;
mod routes;
mod sa;
mod smps;
mod status;
mod table;
mod torus;
mod traffic;
mod unresponsive;
mod vendor;
mod virtual_ports;

#[cfg(test)]
mod openapi;

pub use context::{ApiContext, ServerFigures};
pub use endpoint::{ApiEndpoint, Handler};
pub use error::ApiError;
pub use query::{ApiQuery, Parameter};
pub use reply::HttpReply;
pub use table::{ENDPOINTS, find};

/// The OpenAPI description of the interface.
pub const OPENAPI: &str = include_str!("../../../etc/torus-sm-openapi.json");
