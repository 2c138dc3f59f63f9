//! The incremental proof: a plan is verified by its differences from a plan that was proven before.
//!
//! # Statement
//!
//! An incremental check answers "passed" or "inconclusive". It never rejects a plan: an
//! inconclusive plan goes through the full check ([`super::full`]), whose verdict stands. So the
//! incremental verdict equals the full one if "passed" is right, that is, if every plan that passes
//! here would pass there. The argument for that follows.
//!
//! In addition, the dependencies of the proven and the new plan *together* are acyclic. Packets of
//! both may be in flight at the same time, and no order of writing the tables is needed for their
//! sake. (A packet that uses old entries on one part of its way and new ones on another is the
//! subject of [`super::transition`].)
//!
//! # What the baseline provides
//!
//! A [`Proof`](super::Proof) holds, for a plan that passed and its fabric:
//!
//! * T, a superset of the triples (input, channel, next channel) with their SLs that packets of the
//!   plan take;
//! * D, a superset of the dependencies that T implies under the plan's SL to VL mappings; D is
//!   acyclic, and each dependency leads to a lower topological rank;
//! * the forwarding tables, with the longest path to each destination.
//!
//! The full check creates it ([`super::full`]), or [`advance`] derives it from an earlier proof and
//! the additions of an incremental check: the union of the triples and dependencies of both plans,
//! which is a superset as required.
//!
//! # What is compared, and what is examined
//!
//! Dependencies are a function of the triples and the SL to VL mappings; the triples are a function
//! of the inputs below, and of nothing else. Each input is compared with that of the proof, or its
//! effect is examined. There is no other way for a cycle to arise.
//!
//! | input | treatment |
//! |---|---|
//! | path SLs, SL hints | equal ([`changes`]: `RoutingPolicy::changes_since`, `same_path_sls_as`), else inconclusive |
//! | SL to VL mappings, operational VLs | compared at each changed node; equal except on channels without a cable, else inconclusive |
//! | sources, destinations | equal; new or moved LIDs are examined from every switch as in a full check ([`changed_nodes`]); new SL groups are inconclusive |
//! | cables | lost ones: no new entry may lead to them; repaired ones: no old entry led to them; a cable to another port is inconclusive |
//! | linear forwarding tables | changed entries are traced ([`route_tracer`]) |
//! | multicast tables, group SLs, senders | changed trees, and trees with a lost or repaired cable, are traced completely ([`multicast`]) |
//! | capacities | changed tables are compared with them ([`super::limits`]) |
//!
//! # Why tracing the changed entries is enough
//!
//! Consider the packets to one LID. A packet that meets no switch with a changed entry takes the
//! old path: it arrives, and its triples are in T. Any other packet takes its old path up to the
//! first changed switch X. Its new triples are those with a changed switch in them, or just behind
//! one. The tracer covers them as follows:
//!
//! * *Delivery.* From each changed switch it follows the new entries to the destination, or to a
//!   switch from which the old path is known to arrive ([`merge_point`]). A path that leaves the
//!   network, uses a lost cable or exceeds [`MAX_PATH_SWITCHES`](super::MAX_PATH_SWITCHES) switches
//!   (as each loop does) is inconclusive. So the new entries deliver from all changed switches,
//!   hence from all switches.
//! * *Dropped packets.* In a proven plan each switch that has an entry for a LID delivers, so packets
//!   are dropped only where they begin. A switch that loses its entry must get no packets for the LID
//!   from its neighbours; then the same holds for the new plan. Such a switch sends nothing, and one
//!   that had no entry received nothing: neither has old packets to redirect. A path that is cut off
//!   at a later switch is inconclusive. The pairs without a route are counted anew in all tables, by
//!   the rule of the full check ([`survey`](super::unrouted)), unless neither plan has any.
//! * *SLs.* The packets that reach X through an unchanged neighbour are among those that T sends
//!   from that neighbour through X to the old next channel. The tracer takes their SLs from T,
//!   reduced to those that T has on every triple of the old path behind X. That is a superset of
//!   the SLs of this LID. The SLs of the end ports at X itself come from the routing policy.
//! * *Triples.* Those SLs are added to every triple of the new path, beginning with the triple in
//!   which the changed channel is the next one, up to the second channel behind the merge point.
//!   Behind that, input, channel and next channel are those of the old path.
//!
//! All of these are supersets: the result may be inconclusive without need, never wrong.
//!
//! # Why no cycle is missed
//!
//! Let N be the dependencies of the new triples that D lacks. D has no cycle, so a cycle of D ∪ N
//! contains a dependency of N that does not lead to a lower rank. [`acyclicity`] searches from the
//! head of every such dependency, among nodes that are not below the lowest tail of one. The node
//! of lowest rank on a cycle is the tail of such a dependency, so the search sees the complete
//! cycle. Channels of lost cables are left out of the search, since they carry no packets any more.
//!
//! # Repairs
//!
//! The proof keeps the channels of lost cables and removed switches under their numbers, without a
//! port that leads to them, and takes them up again after the repair ([`super::network`]). Where a
//! repair closes a ring, old routes the long way round and new ones across the repaired cable often
//! form a cycle together. For this case the last proof of a fault-free fabric is retained
//! ([`fault_free`]). A plan checked against it is free of credit loops by the argument above, but
//! not necessarily together with the plan in force; [`Extent::FaultFree`](super::Extent::FaultFree)
//! marks this case.
//!
//! # Files
//!
//! [`check`] is the check for a fabric with the same nodes, [`changed_nodes`] that for other nodes,
//! [`multicast_delta`] that for plans which differ in multicast groups only. [`choose`] selects
//! among them and the full check; [`baseline`] combines planning and verification, and
//! [`engine_choice`] chooses the engine if a plan is rejected.

pub mod baseline;
pub mod multicast_delta;

mod acyclicity;
mod advance;
mod changed_nodes;
mod changed_routes;
mod changes;
mod check;
mod choose;
mod engine_choice;
mod fault_free;
mod memoised_routes;
mod merge_point;
mod multicast;
mod route_tracer;

pub use choose::{prove, verify_changes};
