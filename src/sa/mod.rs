//! The subnet administrator: answers queries about the subnet (IBA vol. 1, chapter 15).
//!
//! [`Responder`] is a core without I/O: a MAD and its sender go in, the reply comes out. Every
//! answer is computed from the published [`Subnet`] and from the [`registry`] of what clients
//! wrote (multicast members so far), so that it never waits for a sweep. Time is an argument.
//!
//! * `responder`: header checks, the table of methods and attributes, error replies
//! * `query`: what a handler sees of a request, and how records become one reply
//! * `view`: what a snapshot says about a port: keys, MTU, rate, PortInfo as programmed
//! * `ports`, `tables`: records that are read off the fabric and the plan
//! * `path`: PathRecord; `limits`: the order of rates, selectors
//! * `mcmember`: MCMemberRecord; [`registry`]: the groups
//! * [`counters`]: who asked what, and what became of it
//!
//! An attribute more is a handler in a file of its own and a row of the dispatch table.
//!
//! # Where this departs from OpenSM
//!
//! * Unknown methods and attributes get the status of IBA vol. 1, 13.4.7; OpenSM is silent.
//! * A path query whose GID and LID name different ports gets `NO_RECORDS`.
//! * ProxyJoin is the top bit of its byte as IBA vol. 1, 15.2.5.17 has it; OpenSM on
//!   little-endian machines uses the lowest.

pub mod counters;
mod limits;
mod mcmember;
mod path;
mod ports;
mod query;
pub mod registry;
mod responder;
mod tables;
mod view;

pub use counters::Counters;
pub use registry::{GroupSpec, Registry};
pub use responder::{Reply, Responder};

#[cfg(doc)]
use crate::publish::Subnet;
