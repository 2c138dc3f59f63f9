//! Cables that no direction of the routed torus explains.

use super::fact::{Cable, ExchangedCables};
use crate::fabric::{Fabric, SwitchId};
use crate::plan::Plan;
use crate::plan::routing::torus::{Direction, Torus};

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
    let mut cables = Vec::new();
    for switch in fabric.switch_ids() {
        let used = used_ports(torus, switch);
        for port in fabric.switch(switch).slots() {
            let Some(peer) = fabric.port(port).peer.filter(|&peer| peer > port) else { continue };
            let is_used = used[usize::from(fabric.port(port).num.0)];
            if !is_used && fabric.node_of(peer).is_switch() {
                cables.extend(Cable::of(fabric, port));
            }
        }
    }
    Some(cables)
}

/// By port: whether it has a cable along a direction of the torus.
fn used_ports(torus: &Torus, switch: SwitchId) -> [bool; 256] {
    let mut used = [false; 256];
    for port in Direction::ALL.into_iter().flat_map(|way| torus.cables(switch, way)) {
        used[usize::from(*port)] = true;
    }
    used
}
