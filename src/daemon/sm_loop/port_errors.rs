//! Ports that report errors of their link (traps 129 to 131): as in OpenSM, a port that sends too
//! many is unhealthy, and `babbling_port_policy` disables it if it sends many more.

use super::agenda::LinkErrors;
use super::env::LoopEnv;
use super::quarantine::LinkQuarantine;
use crate::apply::link_down;
use crate::fabric::quarantined::{QuarantineCause, QuarantinedLink};
use crate::fabric::{Fabric, PortId};
use crate::ids::{Lid, PortNum};
use crate::observe::link_health::cable_of;
use crate::observe::m_keys::MKeys;
use crate::observe::traps::{BABBLING_TRAPS, UNHEALTHY_TRAPS};
use crate::observe::{Observation, quarantine};
use tracing::{error, warn};

/// Handles ports that report errors of their link. The link of the SM is always used. True if a port
/// has become unhealthy, so that its link is to be quarantined.
pub(super) async fn handle(
    env: &LoopEnv,
    keys: &MKeys,
    observation: &Observation,
    links: &mut LinkQuarantine,
    errors: &LinkErrors,
) -> bool {
    let fabric = &observation.fabric;
    let mut is_changed = false;
    for (&(lid, num), &count) in errors.iter().filter(|(_, count)| **count > UNHEALTHY_TRAPS) {
        let Some(port) = port_by_lid(fabric, lid, num) else { continue };
        if link_down::is_own_link(fabric, port) || fabric.port(port).peer.is_none() {
            continue;
        }
        let is_babbling = env.options.babbling_port_policy && count > BABBLING_TRAPS;
        if !is_babbling || !disable(env, keys, observation, port, count).await {
            is_changed |= links.record_errors(fabric, port, count);
        }
    }
    is_changed
}

/// Disables a port that floods the SM with traps, at the end of its link that is nearer to the SM,
/// unless a switch would be cut off. True if it is disabled.
async fn disable(
    env: &LoopEnv,
    keys: &MKeys,
    observation: &Observation,
    port: PortId,
    count: u32,
) -> bool {
    let fabric = &observation.fabric;
    let near = link_down::near_end(fabric, port);
    let babbling = fabric.describe(port);
    let disabled = fabric.describe(near);
    let Some(ends) = cable_of(fabric, port) else { return false };
    let link = QuarantinedLink { ends, cause: QuarantineCause::Flaps, calm: None };
    if !quarantine::without_links(observation.clone(), &[link]).1.is_empty() {
        return false;
    }
    match link_down::disable(&env.context.client, fabric, near, keys).await {
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

/// The port that a trap names: port `num` of a switch, or the end port with the LID.
fn port_by_lid(fabric: &Fabric, lid: Lid, num: PortNum) -> Option<PortId> {
    let mut owners = fabric.end_ports();
    let owner = owners.find(|&id| fabric.port(id).info().is_some_and(|info| info.lid() == lid))?;
    if fabric.node_of(owner).is_switch() {
        fabric.port_of(fabric.port(owner).node, num)
    } else {
        Some(owner)
    }
}
