//! SSSP and DFSSSP: shortest paths that avoid links with many routes (single source shortest path),
//! and the same routes without credit loops (deadlock-free SSSP).
//!
//! # The routing algorithm
//!
//! * **Routes.** For each LID in turn ([`order`]), the shortest paths from all switches to it are
//!   searched ([`super::weighted_paths`]). A link is as long as the square of the number of all
//!   LIDs, which makes paths with few hops the shortest ones, and longer by one for each path over
//!   it so far, counted by the LIDs of the switches where paths begin.
//! * **Lanes.** DFSSSP assigns VLs to paths so that the dependencies of no VL have a cycle
//!   ([`lanes`]). The SL of a path is the number of its VL; the SL to VL mappings are those of the
//!   configuration, whose default maps each SL to the VL of the same number. Routes that need more
//!   VLs than all links have are refused.
//! * **Multicast.** The tree of a group consists of the shortest paths from the switch with the
//!   smallest distance to its farthest member, over links as long as all unicast routes made them.
//!
//! Each LID depends on the routes of those before it, so routes are computed one by one. Time grows
//! with the number of LIDs times that of links, for DFSSSP also with the length of paths. DFSSSP
//! needs a byte for each LID and switch, another one if the switch has hosts, and four for each
//! dependency of the paths of hosts.
//!
//! # Differences from OpenSM
//!
//! Forwarding tables, VLs and multicast trees equal OpenSM's engines of the same names, by GUID.
//! The paths of a VL that is split among several SLs use them in turn, and at random in OpenSM.
//! OpenSM finds no routes if the square of the number of LIDs times the hops reaches 2^31, and does
//! not route to routers. Its DFSSSP leaves packets of switches, and of ports that do not map SLs to
//! VLs, on VL 0 even if they close a cycle there, and refuses fabrics in which only packets to switches
//! need more VLs.

mod fewest_hops;
mod lanes;
mod lengths;
mod level_search;
mod order;
mod policy;
mod router;
#[cfg(test)]
mod tests;

use super::virtual_lanes::data_vls;
use super::weighted_paths::network::Network;
use super::weighted_paths::search::Search;
use super::weighted_paths::{check_connected, one_hop};
use super::{Engine, Lft, Routing, RoutingError, RoutingInput};
use crate::config::guid_lists::GuidLists;
use crate::fabric::Fabric;
use crate::notes::{Note, counted};
use lanes::{PathLanes, VlSupply};
use order::{SsspDestination, SsspDestinations};
pub use policy::SsspPolicy;
use router::SsspRouter;
use std::sync::Arc;

/// The engine SSSP, with the contents of its GUID list files.
#[derive(Clone, Debug, Default)]
pub struct Sssp {
    lists: Arc<GuidLists>,
}

impl Sssp {
    /// The name of the engine.
    pub const NAME: &'static str = "sssp";

    pub fn new(lists: Arc<GuidLists>) -> Self {
        Self { lists }
    }
}

impl Engine for Sssp {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn route(&self, input: &RoutingInput<'_>) -> Result<Routing, RoutingError> {
        let routes =
            Routes::find(input, &self.lists).map_err(|note| RoutingError::new(Self::NAME, note))?;
        Ok(routes.into_routing(Self::NAME, input.fabric, None, Vec::new()))
    }
}

/// The engine DFSSSP, with the contents of its GUID list files.
#[derive(Clone, Debug, Default)]
pub struct DfSssp {
    lists: Arc<GuidLists>,
}

impl DfSssp {
    /// The name of the engine.
    pub const NAME: &'static str = "dfsssp";

    pub fn new(lists: Arc<GuidLists>) -> Self {
        Self { lists }
    }
}

impl Engine for DfSssp {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn route(&self, input: &RoutingInput<'_>) -> Result<Routing, RoutingError> {
        let routes =
            Routes::find(input, &self.lists).map_err(|note| RoutingError::new(Self::NAME, note))?;
        let vls = data_vls(input.fabric, input.options.max_op_vls);
        let supply = VlSupply { vls, is_strict: input.options.refuse_faulty_routes };
        let lanes = routes
            .lanes(input.fabric, supply)
            .map_err(|_| RoutingError::new(Self::NAME, too_few_vls(vls)))?;
        let paths: Vec<_> = lanes.paths().iter().map(u64::to_string).collect();
        let count = counted(paths.len(), "VL is", "VLs are");
        let note = Note::info(format!(
            "{count} needed of {vls}, with {} paths before they are balanced",
            paths.join(", ")
        ));
        Ok(routes.into_routing(Self::NAME, input.fabric, Some(lanes), vec![note]))
    }
}

fn too_few_vls(vls: u8) -> Note {
    let vls = counted(vls.into(), "VL", "VLs");
    let text = format!("routes without credit loops need more than the {vls} that all links have");
    Note::error("AD25", text)
}

/// The routes of all LIDs.
struct Routes {
    network: Network,
    destinations: Vec<SsspDestination>,
    lfts: Vec<Arc<Lft>>,
    /// The lengths of links with all routes.
    lengths: Vec<u64>,
}

impl Routes {
    /// Routes all LIDs.
    ///
    /// # Errors
    /// Returns the reason if a switch has no path to the subnet manager.
    fn find(input: &RoutingInput<'_>, lists: &GuidLists) -> Result<Self, Note> {
        let fabric = input.fabric;
        let lids = input.lids;
        let network = Network::new(fabric, input.options.avoid_throttled_links, |switch| {
            fabric.switch(switch).guid().opensm_order()
        });
        check_connected(fabric, &network, &mut Search::default(), "AD0C")?;
        let all = SsspDestinations::new(fabric, lids, &network);
        let destinations = all.ordered(fabric, lists);
        let mut router = SsspRouter::new(&network, one_hop(fabric, lids), &all, lids.max());
        router.route(&destinations);
        let (tables, lengths) = router.into_tables();
        let mut lfts = vec![Arc::default(); network.len()];
        for (switch, table) in network.switches.iter().zip(Lft::shared(tables)) {
            lfts[switch.index()] = table;
        }
        Ok(Self { network, destinations, lfts, lengths })
    }

    fn lanes(&self, fabric: &Fabric, supply: VlSupply) -> Result<PathLanes, lanes::TooFewLanes> {
        PathLanes::assign(fabric, &self.network, &self.destinations, &self.lfts, supply)
    }

    fn into_routing(
        self,
        engine: &'static str,
        fabric: &Fabric,
        lanes: Option<PathLanes>,
        notes: Vec<Note>,
    ) -> Routing {
        let Self { network, destinations, lfts, lengths } = self;
        let policy = SsspPolicy::new(fabric, network, lengths, &lfts, &destinations, lanes);
        Routing { engine, lfts, policy: Arc::new(policy), notes, routing_errors: Vec::new() }
    }
}
