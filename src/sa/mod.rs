//! The subnet administrator (SA): answers queries about the subnet (IBA vol. 1, chapter 15).
//!
//! [`Responder`] is a core without I/O and without a clock: it turns a MAD and the address of its
//! sender into a reply. Replies are computed from the published [`Subnet`] and from the
//! [`registry`] of client registrations (multicast members, services, subscriptions), so that no
//! reply waits for a sweep.
//!
//! * `responder`: header checks, dispatch by method and attribute, error replies; `status`
//! * `requester`: the port that sent a request; [`trust`]: permissions; `untrusted`: requests that
//!   need no SM_Key
//! * `query`: a checked request, and the assembly of a reply from records
//! * `change`: requests that modify the registry
//! * `vport_records`: vports in NodeRecord and PortInfoRecord; `view`: port attributes as published; `path_index`: link capabilities, computed once per
//!   snapshot
//! * `ports`, `tables`: records that are read from the fabric and the plan
//! * `path`: PathRecord; `multipath`: MultiPathRecord; `rates`: order of rate codes; `selector`:
//!   the comparison of MTU, rate and packet lifetime
//! * `trace`: TraceRecord; `guid_info`: GUIDInfoRecord
//! * `mcmember`: MCMemberRecord; `service`: ServiceRecord; `inform`: InformInfo and
//!   InformInfoRecord; [`registry`]: the state they modify, and its dump file
//! * [`trap_origin`]: traps that their sender cannot have;
//! * [`notices`]: selects the subscribers of a notice; [`reports`]: delivers reports to them
//! * [`counters`]: statistics of requests and replies
//!
//! A new attribute needs a handler and a row of the dispatch table in `responder`.
//!
//! # Memory
//!
//! Queues hold requests, which are small. A thread assembles one reply at a time and frees it
//! before the next. A table in transit is kept by [`crate::transport::rmpp`] until its last segment
//! is acknowledged, once however many clients receive it: 5.6 MB for 50,000 NodeRecords. The server
//! limits the tables in transit to a port. Replies above 64 MiB are refused with `NO_RESOURCES`.
//!
//! # Differences from OpenSM
//!
//! * Unknown methods and attributes get the status of IBA vol. 1, 13.4.7; OpenSM does not reply.
//! * SubnAdmGetTable(PathRecord) with an unknown GID gets `INVALID_GID`; OpenSM returns an empty
//!   table. The only valid prefixes are the subnet's and fe80::/64; OpenSM accepts fe80::/10.
//! * The tests that compare `saquery` output list every visible difference, with reasons.
//! * MultiPathRecord paths have the SL of the routing engine and are ordered by the number of links
//!   and switches they share; OpenSM uses the SL of the partition and orders by LID.
//! * The reverse direction of a path has the QoS level of the path. OpenSM looks up a level for the
//!   reverse direction and marks the path irreversible if none matches. Paths of a level with
//!   P_Keys have the P_Key of the source; OpenSM returns that of a limited member.
//! * Full members of a partition may join its groups with allow_both_pkeys as well.
//! * ProxyJoin is the most significant bit of its byte, as IBA vol. 1, 15.2.5.17 defines it; OpenSM
//!   on little-endian machines uses the least significant one.
//! * A service registration without ServiceID or ServiceGID gets `INSUFFICIENT_COMPONENTS`; OpenSM
//!   returns `REQ_INVALID`. ServiceLease in replies is the remaining time.
//! * Services are registered for GIDs of the requester and changed with their ServiceKey, alias
//!   GUIDs are set by their port, and traps are reported if their sender can be their origin;
//!   OpenSM checks none of these. Services, groups and subscriptions of a port are limited in
//!   number.
//! * The requester is the owner of the source LID. A request with a GID of another port in its
//!   global route header gets no reply; OpenSM takes the GID for the requester.
//! * A subscription to all trap numbers includes security traps only if it is trusted; OpenSM
//!   checks the trap number only. A LID range with an end of 0 selects the single LID at its
//!   beginning. Notices 129 to 131 are reported like all others. Subscriptions are numbered.
//! * Set or Delete of alias GUIDs of a port without a common partition gets `NO_RECORDS`, like that
//!   of an absent port; OpenSM does not reply. Delete of entries that are not set returns the
//!   table; OpenSM echoes the request.
//! * TraceRecord is implemented.
//! * The reply to a join is sent once the multicast tree includes the port.

mod change;
pub mod counters;
mod guid_info;
mod inform;
mod mcmember;
mod multipath;
pub mod notices;
mod path;
mod path_index;
mod ports;
mod query;
mod rates;
pub mod registry;
pub mod reports;
mod requester;
mod responder;
mod selector;
mod service;
mod status;
mod tables;
mod trace;
pub mod trap_origin;
pub mod trust;
mod untrusted;
mod view;
mod vport_records;

pub use counters::SaCounters;
pub use path_index::PathIndex;
pub use registry::{GroupSpec, Registry};
pub use responder::{Reply, Responder, is_read_only, is_service_request, is_table_request};

#[cfg(doc)]
use crate::publish::Subnet;
