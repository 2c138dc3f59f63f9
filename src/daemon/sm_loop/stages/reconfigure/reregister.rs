//! The ports that are asked to register their groups, services and subscriptions
//! (ClientReregister).

use super::state::MasterState;
use crate::apply::ApplyReport;
use crate::config::options::Options;
use crate::fabric::{Fabric, PortId};
use crate::ids::Guid;
use crate::wire::attr::{AttrId, CapMask, PortState};
use rustc_hash::FxHashSet;
use std::collections::HashSet;

/// End ports to set ClientReregister for, of which those with the GUIDs `registered` have been asked.
pub(in crate::daemon) fn clients_to_reregister(
    fabric: &Fabric,
    options: &Options,
    registered: &FxHashSet<Guid>,
) -> HashSet<PortId> {
    if options.no_clients_rereg {
        return HashSet::new();
    }
    let ports = fabric.end_ports().filter(|&id| {
        let port = fabric.port(id);
        let is_switch = fabric.node_of(id).is_switch();
        let is_capable = port.info().is_some_and(|info| info.has(CapMask::CLIENT_REREGISTER));
        // Port 0 of a switch has no link.
        let comes_up = !is_switch && port.state() == PortState::Init;
        is_capable && (comes_up || !registered.contains(&port.guid))
    });
    ports.collect()
}

impl MasterState {
    /// End ports to set ClientReregister for: those that came up, and those that were not asked
    /// since they were found. This SM lacks their groups, services and subscriptions. The planner
    /// adds ports that name another SM.
    pub(super) fn clients_to_reregister(
        &self,
        fabric: &Fabric,
        options: &Options,
    ) -> HashSet<PortId> {
        clients_to_reregister(fabric, options, &self.registered)
    }

    /// Records the ports that were asked to register.
    pub(super) fn record_registered(&mut self, fabric: &Fabric, report: &ApplyReport) {
        let ports = fabric.end_ports().map(|id| fabric.port(id).guid);
        self.registered = ports.collect();
        let failed = report
            .unacknowledged
            .failed
            .iter()
            .map(|(set, _)| set)
            .chain(&report.unacknowledged.unsent)
            .chain(&report.unacknowledged.delayed)
            .chain(&report.unacknowledged.abandoned)
            .chain(&report.unacknowledged.dropped);
        for set in failed.filter(|set| set.attr_id == AttrId::PORT_INFO) {
            let port = fabric.port(set.slot(fabric)).guid;
            self.registered.remove(&port);
        }
    }
}
