//! Ports that report errors of their link (traps 129 to 131): as in OpenSM, a port that sends too
//! many is unhealthy, and `babbling_port_policy` disables it if it sends many more.

use crate::apply::link_down;
use crate::daemon::sm_loop::manager::Manager;
use crate::daemon::sm_loop::pending::PendingWork;
use crate::fabric::quarantined::{QuarantineCause, QuarantinedLink};
use crate::fabric::{Fabric, PortId};
use crate::ids::{Lid, PortNum};
use crate::observe::link_health::cable_of;
use crate::observe::quarantine;
use crate::observe::traps::{BABBLING_TRAPS, UNHEALTHY_TRAPS};
use std::collections::BTreeMap;
use tokio::time::Instant;
use tracing::{error, warn};

impl Manager {
    /// Handles ports that report errors of their link, by LID and number, with the number of traps.
    /// The link of the SM is always used.
    pub(super) async fn port_errors(
        &mut self,
        errors: &BTreeMap<(Lid, PortNum), u32>,
        pending: &mut PendingWork,
    ) {
        let Some(observation) = self.observation.as_ref() else { return };
        let fabric = observation.fabric.clone();
        let mut is_changed = false;
        for (&(lid, num), &count) in errors.iter().filter(|(_, count)| **count > UNHEALTHY_TRAPS) {
            let Some(port) = port_by_lid(&fabric, lid, num) else { continue };
            if link_down::is_own_link(&fabric, port) || fabric.port(port).peer.is_none() {
                continue;
            }
            let is_babbling = self.options.babbling_port_policy && count > BABBLING_TRAPS;
            if !is_babbling || !self.disable(port, count).await {
                is_changed |= self.is_unhealthy(&fabric, port, count);
            }
        }
        if is_changed && let Some(observation) = self.observation.take() {
            self.observation = Some(self.without_quarantined(observation));
            pending.plan = true;
        }
    }

    /// Records an unhealthy port. True if it was healthy before.
    fn is_unhealthy(&mut self, fabric: &Fabric, port: PortId, count: u32) -> bool {
        let end = fabric.end_of(port);
        let Some(cable) = cable_of(fabric, port) else { return false };
        let is_new = self.links.health.errors(Instant::now(), end, cable);
        if is_new {
            let port = fabric.describe(port);
            warn!("{port} is unhealthy: it sent {count} traps about errors of its link");
        }
        is_new
    }

    /// Disables a port that floods the SM with traps, at the end of its link that is nearer to the
    /// SM, unless a switch would be cut off. True if it is disabled.
    async fn disable(&self, port: PortId, count: u32) -> bool {
        let Some(observation) = self.observation.as_ref() else { return false };
        let fabric = &observation.fabric;
        let near = link_down::near_end(fabric, port);
        let (babbling, disabled) = (fabric.describe(port), fabric.describe(near));
        let Some(ends) = cable_of(fabric, port) else { return false };
        let link =
            QuarantinedLink { ends, cause: QuarantineCause::Flaps, calm: Default::default() };
        if !quarantine::without_links(observation.clone(), &[link]).1.is_empty() {
            return false;
        }
        let (client, keys) = (&self.context.client, self.reconfigurer.m_keys());
        match link_down::disable(client, fabric, near, keys).await {
            Ok(()) => {
                warn!(
                    "{babbling} sent {count} traps: {disabled} is disabled (babbling_port_policy) \
                     until it is enabled with ibportstate"
                );
                true
            }
            Err(problem) => {
                error!("ERR 3811: {babbling} sent {count} traps; disabling {disabled}: {problem}");
                false
            }
        }
    }
}

/// The port that a trap names: port `num` of a switch, or the end port with the LID.
fn port_by_lid(fabric: &Fabric, lid: Lid, num: PortNum) -> Option<PortId> {
    let mut owners = fabric.end_ports();
    let owner = owners.find(|&id| fabric.port(id).info.is_some_and(|info| info.lid() == lid))?;
    match fabric.node_of(owner).is_switch() {
        true => fabric.port_of(fabric.port(owner).node, num),
        false => Some(owner),
    }
}
