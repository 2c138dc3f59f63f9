//! The subnet administrator: answers queries about the subnet (IBA vol. 1, chapter 15).
//!
//! [`Responder`] is a core without I/O: a MAD and its sender go in, the reply comes out. Every
//! answer is computed from the published [`Subnet`] and from the [`registry`] of what clients
//! wrote (multicast members, services, subscriptions), so that it never waits for a sweep. Time
//! is an argument.
//!
//! * `responder`: header checks, the table of methods and attributes, error replies
//! * `query`: what a handler sees of a request, and how records become one reply
//! * `change`: requests that write: checked here, carried out by the registry
//! * `view`: what a snapshot says about a port: keys, PortInfo as programmed; `facts`: what is derived
//!   once per snapshot: MTU and rate of ports, cables
//! * `ports`, `tables`: records that are read off the fabric and the plan
//! * `path`: PathRecord; `multipath`: MultiPathRecord; `limits`: the order of rates, selectors
//! * `trace`: TraceRecord; `guid_info`: GUIDInfoRecord
//! * `mcmember`: MCMemberRecord; `service`: ServiceRecord; `inform`: InformInfo and
//!   InformInfoRecord; [`registry`]: what they write, and its file
//! * [`herald`]: which notices there are and who may hear of them; [`reports`]: how they get
//!   there
//! * [`counters`]: who asked what, and what became of it
//!
//! An attribute more is a handler in a file of its own and a row of the dispatch table.
//!
//! # Memory
//!
//! What waits are requests, which are small; a reply is made when its turn comes, in one piece, is
//! handed to the port and forgotten, before the same thread makes the next one. So replies take at
//! most twice the length of the longest for each thread that answers, however many clients ask:
//! the reply, and the copy that goes to the device with its header. 50,000 NodeRecords are 5.6 MB,
//! which is 11.2 MB for any number of clients that ask for all of them. No reply is longer than
//! 64 MiB (`NO_RESOURCES`). The kernel has a copy of its own of each message until the last
//! segment is acknowledged: 112 MB for twenty clients that receive 50,000 NodeRecords at once.
//!
//! # Where this departs from OpenSM
//!
//! * Unknown methods and attributes get the status of IBA vol. 1, 13.4.7; OpenSM is silent.
//! * GetTable of paths to a GID that no port has gets `INVALID_GID`; OpenSM gives no records.
//!   The prefix of a GID is the subnet's or fe80::/64; OpenSM takes all of fe80::/10.
//! * The differences that `saquery` sees are listed, with reasons, in
//!   `tests/saquery/differences.rs`.
//! * The paths of a MultiPathRecord have the SL of the routing engine, and those with the least in
//!   common along the tables come first; OpenSM takes the SL of the partition and goes by LIDs.
//! * The way back of a path has the level of the path; OpenSM looks for one of its own, and calls
//!   the path irreversible if there is none that fits. Paths of a level with P_Keys have the key
//!   that the source holds; OpenSM answers with that of a limited member.
//! * Full members of a partition join its groups with allow_both_pkeys too. `tests/policy_opensm.rs`
//!   has all that concerns partitions and policies.
//! * ProxyJoin is the top bit of its byte as IBA vol. 1, 15.2.5.17 has it; OpenSM on
//!   little-endian machines uses the lowest.
//! * A registration of a service without ServiceID or ServiceGID lacks components
//!   (`INSUFFICIENT_COMPONENTS`); OpenSM calls it invalid. The lease in answers is the time left.
//! * A subscription to all notices is none to security notices unless it is a trusted one;
//!   OpenSM looks at the trap number only. One to a single LID (the end of its range 0) hears of
//!   that LID. Notices 129 to 131 are reported as all others are. Subscriptions have numbers.
//! * A Set or Delete of alias GUIDs of a port that shares no partition with the requester gets
//!   `NO_RECORDS`, as one of a port that is not there does; OpenSM is silent. A Delete of what a
//!   port does not have is answered with its table; OpenSM sends back what it was sent.
//! * TraceRecord is answered at all.
//! * The answer to a join waits until the tree has a place for the port.

mod change;
pub mod counters;
mod facts;
mod guid_info;
pub mod herald;
mod inform;
mod limits;
mod mcmember;
mod multipath;
mod path;
mod ports;
mod query;
mod refused;
pub mod registry;
pub mod reports;
mod responder;
mod service;
mod tables;
mod trace;
mod view;

pub use counters::Counters;
pub use registry::{GroupSpec, Registry};
pub use responder::{Reply, Responder, Studied, is_about_services, only_reads, study, wants_table};

#[cfg(doc)]
use crate::publish::Subnet;
