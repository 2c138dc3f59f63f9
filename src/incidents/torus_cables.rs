//! Cables that no direction of the routed torus explains.

use super::fact::{Cable, ExchangedCables};
use crate::fabric::{Fabric, SwitchId};
use crate::plan::Plan;
use crate::plan::routing::torus::{Direction, Torus, TorusLayout};
use std::collections::BTreeSet;

/// The findings about the cables of a torus.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TorusCables {
    pub unexpected: Vec<Cable>,
    pub exchanged: Vec<ExchangedCables>,
}

/// The cables between switches that the torus of a plan of `fabric` does not use; `None` unless torus-2QoS
/// made the plan.
pub fn unexpected(fabric: &Fabric, plan: &Plan) -> Option<Vec<Cable>> {
    let torus = Torus::of(&plan.routing)?;
    let layout = TorusLayout::of(torus);
    let mut cables = Vec::new();
    for switch in fabric.switch_ids() {
        let used = used_ports(torus, &layout, switch);
        for port in fabric.switch(switch).slots() {
            let Some(peer) = fabric.port(port).peer.filter(|&peer| peer > port) else { continue };
            if fabric.node_of(peer).is_switch() && !used.contains(&fabric.port(port).num.0) {
                cables.extend(Cable::of(fabric, port));
            }
        }
    }
    Some(cables)
}

/// The ports of a switch with cables along the directions of the torus.
fn used_ports(torus: &Torus, layout: &TorusLayout, switch: SwitchId) -> BTreeSet<u8> {
    let Some(at) = torus.coordinates(switch) else { return BTreeSet::new() };
    let ports = Direction::ALL.into_iter().map(|way| layout.ports(at, way));
    ports.flatten().copied().collect()
}
