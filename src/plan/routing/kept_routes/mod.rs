//! The routes in force, for a fabric for which no plan is acceptable.
//!
//! While every plan is rejected, the switches keep the forwarding tables of the last accepted one.
//! Hosts and links that return, and multicast groups, do not have to wait for the next accepted
//! plan: the fabric is planned with these tables instead of those of an engine. Tables and the
//! engine's policy belong to the fabric that the engine routed; ids are translated
//! (`renumbering`, `policy`).
//!
//! An entry stays as it is, also if it leads over a dead cable, unless its LID now belongs to an end
//! port that it does not lead to: a new one, or one that was moved. Such an end port has no routes.

mod policy;
mod renumbering;

use super::{Lft, Routing};
use crate::fabric::{Fabric, PortId};
use crate::ids::Lid;
use crate::plan::LidTable;
use crate::wire::attr::tables::LFT_NO_PATH;
use policy::KeptPolicy;
use renumbering::Renumbering;
use std::sync::Arc;

/// A fabric with its LIDs and the routes that an engine computed for it.
#[derive(Clone, Copy)]
pub struct RoutedFabric<'a> {
    pub fabric: &'a Arc<Fabric>,
    pub lids: &'a LidTable,
    pub routing: &'a Arc<Routing>,
}

/// The routes of `routed` for the present fabric, in which the end ports of `routed` have the same
/// LIDs.
pub fn keep(fabric: &Fabric, lids: &LidTable, routed: &RoutedFabric<'_>) -> Routing {
    let map = Renumbering::between(routed.fabric, fabric);
    let without_route: Vec<Lid> = lids
        .iter()
        .filter(|&(lid, port)| !leads_to_owner(&map, fabric, routed.lids, lid, port))
        .map(|(lid, _)| lid)
        .collect();
    let empty = Arc::new(Lft::empty(lids.max()));
    let lfts = fabric
        .switch_ids()
        .map(|switch| {
            let kept = map.routed_switch(switch).and_then(|it| routed.routing.lfts.get(it.index()));
            kept.map_or_else(|| empty.clone(), |kept| adapted(kept, lids.max(), &without_route))
        })
        .collect();
    Routing {
        engine: routed.routing.engine,
        lfts,
        policy: Arc::new(KeptPolicy::new(routed, fabric, map)),
        notes: Vec::new(),
        routing_errors: routed.routing.routing_errors.clone(),
    }
}

fn leads_to_owner(
    map: &Renumbering,
    fabric: &Fabric,
    lids: &LidTable,
    lid: Lid,
    port: PortId,
) -> bool {
    let owner = map.routed_port(port).filter(|_| is_in_place(fabric, map, port));
    owner.is_some() && lids.port(lid) == owner
}

/// True if an end port is attached where it was.
fn is_in_place(fabric: &Fabric, map: &Renumbering, port: PortId) -> bool {
    fabric.node_of(port).is_switch() || map.has_same_cable(port)
}

/// The table with the size for this highest LID, and without entries for some LIDs.
fn adapted(kept: &Arc<Lft>, max: Lid, without_route: &[Lid]) -> Arc<Lft> {
    if kept.has_size_for(max) && without_route.iter().all(|&lid| kept.out(lid).is_none()) {
        return Arc::clone(kept);
    }
    let mut table = (**kept).clone();
    table.resize(max);
    for &lid in without_route {
        table.set(lid, LFT_NO_PATH);
    }
    Arc::new(table)
}

#[cfg(test)]
mod tests;
