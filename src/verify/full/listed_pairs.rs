//! The pairs of switches that a routing engine lists as without a route, compared with its tables. The
//! unicast pass finds pairs without a route that are not in the list.

use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::Lid;
use crate::plan::Plan;
use crate::verify::verdict::{Fault, FaultList};
use std::collections::BTreeMap;

/// Faults of pairs that the engine lists as without a route, and for which a switch has an entry.
pub(super) fn routed_against_list(fabric: &Fabric, plan: &Plan) -> FaultList {
    let mut faults = FaultList::default();
    let pairs = plan.routing.policy.unrouted_switches().unwrap_or(&[]);
    let mut ends: BTreeMap<SwitchId, Vec<PortId>> = BTreeMap::new();
    for port in fabric.end_ports().filter(|_| !pairs.is_empty()) {
        if let Some(switch) = switch_of(fabric, port) {
            ends.entry(switch).or_default().push(port);
        }
    }
    for &[from, to] in pairs {
        let table = plan.routing.lft(from);
        for &destination in ends.get(&to).into_iter().flatten() {
            let Some(base) = plan.lids.base(destination) else { continue };
            let lids = base.0..base.0 + (1 << plan.lids.lmc(destination));
            for lid in lids.map(Lid).filter(|&lid| table.out(lid).is_some()) {
                faults.add(|| Fault::ListedAsUnrouted {
                    switch: fabric.switch(from).name().to_string(),
                    lid,
                    destination: fabric.describe(destination),
                });
            }
        }
    }
    faults
}

/// The switch to which an end port is attached.
fn switch_of(fabric: &Fabric, port: PortId) -> Option<SwitchId> {
    let own = fabric.node_of(port).switch;
    own.or_else(|| fabric.node_of(fabric.port(port).peer?).switch)
}
