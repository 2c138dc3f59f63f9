//! Cables that no direction of the routed torus explains.

use super::fact::{Cable, ExchangedCables};
use super::switch_links::SwitchLinks;
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
    let used: Vec<[bool; 256]> =
        fabric.switch_ids().map(|switch| used_ports(torus, switch)).collect();
    let links = SwitchLinks::of(fabric).links.into_iter();
    let unused = links.filter(|link| {
        let number = fabric.port(link.ports[0]).num.0;
        !used[link.ends[0].index()][usize::from(number)]
    });
    Some(unused.filter_map(|link| Cable::of(fabric, link.ports[0])).collect())
}

/// By port: whether it has a cable along a direction of the torus.
fn used_ports(torus: &Torus, switch: SwitchId) -> [bool; 256] {
    let mut used = [false; 256];
    for port in Direction::ALL.into_iter().flat_map(|way| torus.cables(switch, way)) {
        used[usize::from(*port)] = true;
    }
    used
}
