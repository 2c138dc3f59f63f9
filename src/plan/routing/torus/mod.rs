//! torus-2QoS: routes 2D and 3D tori and meshes without credit loops and with two QoS levels.
//!
//! # The routing algorithm
//!
//! * **Lattice.** Each switch has coordinates (x, y, z). The configuration file gives the radix of
//!   each dimension and whether it is looped (torus) or open (mesh). A dimension of radix 1 is
//!   unused; one of radix 2 is always open.
//! * **Seed.** The file names one switch by GUID as the origin, and its neighbours. From there the
//!   discovery finds the coordinates of all other switches: two switches diagonal in a face of the
//!   lattice have exactly two common neighbours, the other corners of that face. Further seeds
//!   serve as backups when a switch of the first is not in the fabric.
//! * **Rings and datelines.** All switches that differ in one coordinate only form a ring, or a
//!   line in an open dimension. The dateline of a ring lies between coordinates radix - 1 and 0;
//!   the seed's `x_dateline` etc. shift the coordinates, and with them the datelines.
//! * **Unicast.** Dimension order routing: along x, then y, then z, each the shorter way round; of
//!   two equally long ways the one that does not cross the dateline.
//! * **SLs.** Bit d (0 to 2) of a path's SL is set if the shorter way along dimension d crosses the
//!   dateline. Bit 3 selects the QoS level. The SL depends on coordinates only, so that established
//!   connections survive failures and repairs.
//! * **VLs.** Between switches, VL bit 0 is the SL's dateline bit of the output dimension, which
//!   breaks the credit loop within each ring; VL bit 1 is set for turns back to an earlier
//!   dimension (y to x, z to x, z to y), which only packets routed around a failed switch make; VL
//!   bit 2 is the QoS level. Ports towards hosts use VL 0 and VL 1 for the two levels. With fewer
//!   than 8, 4 or 2 data VLs these bits are dropped in the order 2, 1, 0.
//! * **Multicast.** One spanning tree for all groups: from the root in the centre along x, from
//!   there along y, from there along z, so that multicast turns are those of unicast.
//! * **Failures.** Each ring may be interrupted once; its traffic then goes the other way round.
//!   An open dimension counts as interrupted at its edge. If the switch where a packet would turn
//!   is missing, the packet turns early into the next dimension and covers the remaining
//!   distance behind the missing switch. Several switches may be missing only if they form one
//!   contiguous run along z. Other damage cannot be routed by these rules without the risk of credit
//!   loops: a torus with it is repaired ([`repair`], `torus_repair TRUE`), or rejected.
//!
//! # Stages of a routing pass
//!
//! | stage | module |
//! |---|---|
//! | sequence of the stages | [`route`] |
//! | checks of the configuration against the fabric | [`checks`], [`seeds`] |
//! | cables and end ports of the fabric | [`cabling`] |
//! | discovery: coordinates of each switch | [`discovery`], [`placement`], [`search`], [`cube`] |
//! | result of the discovery: switches and port groups on the lattice | [`grid`], [`lattice`] |
//! | differences from the previous routing, missing parts | [`snapshot`], [`report`] |
//! | conditions for routing without credit loops | [`rings`] |
//! | radices and port group sizes that do not fit the fabric | [`radices`], [`port_group_limit`] |
//! | switches without the cables that tell their position | [`cut_off`] |
//! | routes around damage that these conditions exclude | [`repair`] |
//! | names of missing parts, suggested repairs | [`part_names`], [`repairs`], [`failure_model`] |
//! | forwarding tables | [`unicast`], [`ring_directions`], [`destinations`] |
//! | forwarding tables of a repaired torus | [`repaired_tables`] |
//! | spanning tree, multicast groups | [`multicast`] |
//! | path SLs, SL to VL mappings, VL arbitration | [`path_sl`], [`sl2vl`], [`vlarb`] |
//! | interface to other modules: routed torus, layout for reports | [`routed`], [`layout`] |
//! | trial discovery from a seed, for `torus-sm torus-config` | [`trial`] |
//!
//! The routes depend on fabric, LIDs and configuration files alone. The torus of the previous
//! successful pass serves to report changes and to reuse forwarding tables that stay the same.
//!
//! # Incremental passes
//!
//! If nodes and LIDs are those of the previous pass and the changed ports are known
//! ([`super::PreviousFabric`]), then cabling, VL counts, snapshot, port classes, ring directions
//! and forwarding tables are updated where cables changed, and only rings through changed positions
//! are checked. The discovery always runs in full, because nearly every cable has an influence on
//! the order of placement; the discovered grid is then compared with the previous one position by
//! position.
//!
//! # Differences from OpenSM
//!
//! Forwarding tables, path SLs, SL to VL tables and multicast trees equal OpenSM's for every fabric
//! that OpenSM routes. This engine also refuses a torus of 1 x 1 x 1, seeds whose y and z links have
//! different origins, and `port_order` values above 254, which OpenSM accepts and mishandles.

mod cabling;
mod checks;
mod cube;
mod cut_off;
mod destinations;
mod discovery;
mod failure_model;
mod grid;
mod lattice;
mod layout;
mod multicast;
mod part_names;
mod path_sl;
mod placement;
mod port_group_limit;
mod radices;
mod repair;
mod repaired_tables;
mod repairs;
mod report;
mod ring_directions;
mod rings;
mod route;
mod routed;
mod search;
mod seeds;
mod sl2vl;
mod snapshot;
mod trial;
mod unicast;
mod vlarb;

use crate::ids::Sl;

pub(crate) use cabling::Cabling;
pub(crate) use checks::{config_findings, without_qos};
pub(crate) use lattice::Lattice;
pub use lattice::{AXIS_NAMES, Coordinates, Direction, Position};
pub use layout::{Ring, TorusLayout};
pub use repair::{DetourStats, LostPart, UnroutedPair};
pub use route::Torus2Qos;
pub use routed::{Torus, TorusRepair};
pub use sl2vl::{PortClass, VlCounts};
pub(crate) use trial::SeedTrial;
pub(crate) use vlarb::option_notes;

/// The reason why an SL does not suit multicast groups, if there is one.
pub(crate) fn multicast_sl_problem(sl: Sl) -> Option<&'static str> {
    (!matches!(sl.0, 0 | 8)).then_some(
        "with torus-2QoS such a group can close a credit loop with unicast routes; use SL 0 or 8",
    )
}

/// Name of the engine in `-R` and `routing_engine`.
pub const NAME: &str = crate::config::torus::ENGINE;
/// File name of the dump that lists the coordinates of each switch.
pub const DUMP_FILE: &str = "opensm-torus.dump";
