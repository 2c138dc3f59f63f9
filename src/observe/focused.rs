//! The focused sweep after a trap or a light sweep: queries only the changed switches and takes all
//! others from the last snapshot. Nodes behind a new link are discovered as in a heavy sweep.
//!
//! The known directed routes may lead across the very cable that failed. So the ports along the
//! route of each suspect are queried with it. Lost cables are removed, all routes are recomputed,
//! and queries that used such a cable are repeated on the new routes. If a switch lost one cable,
//! all its neighbours are queried, because it may be lost as a whole: the first trap about a dead
//! switch then suffices.
//!
//! The sweep does not wait for silent devices. They keep their last known state, and the
//! observation is marked as unresolved.

use super::discovery_queries::{DiscoveryQueries, SweepScope};
use super::discovery_state::DiscoveryState;
use super::heavy::conclude;
use super::m_keys::MKeys;
use super::{Observation, SweepError, SweepSettings, extended_ports};
use crate::fabric::{DiscoveryFault, End};
use crate::ids::Guid;
use crate::transport::client::SmpClient;
use crate::wire::smp::DirectedRoute;
use std::collections::HashSet;

/// What a focused sweep queries.
#[derive(Clone, Copy, Debug)]
pub struct Focus<'a> {
    /// GUIDs of the switches that are queried.
    pub suspects: &'a [Guid],
    /// Links with an end here that the last snapshot does not have are not crossed.
    pub avoided: &'a [End],
    /// GUIDs of channel adapters and routers that were configured after a restart by the last
    /// reconfiguration. They may have restarted again, with other port GUIDs, and have been brought
    /// up by Sets that were on their way, which hides it: so their NodeInfo is read again if their
    /// switch is a suspect.
    pub restarted: &'a HashSet<Guid>,
}

/// Queries the switches of `focus` and updates `last`. `state` represents `last`: to copy a large
/// snapshot takes longer than the queries.
///
/// # Errors
/// As [`super::heavy::sweep`], and [`SweepError::RoutesOutdated`].
pub async fn sweep(
    client: &SmpClient,
    keys: &MKeys,
    settings: &SweepSettings,
    last: &Observation,
    mut state: DiscoveryState,
    focus: Focus<'_>,
) -> Result<Observation, SweepError> {
    state.names = settings.names.clone();
    let mut queries = DiscoveryQueries::new(client, keys, state);
    let known = &queries.state;
    let avoided = focus.avoided.iter().filter_map(|(guid, num)| Some((known.find(*guid)?, *num)));
    let restarted = focus.restarted.iter().filter_map(|guid| known.find(*guid));
    let suspects: Vec<usize> = focus.suspects.iter().filter_map(|guid| known.find(*guid)).collect();
    queries.scope = SweepScope {
        avoided: avoided.collect(),
        restarted: restarted.collect(),
        ..SweepScope::default()
    };
    queries.query_local_peer();
    suspects.iter().for_each(|&node| queries.probe_route(node));
    suspects.iter().for_each(|&node| queries.query_suspect(node));
    queries.run().await;
    queries.retry(false).await;
    queries.query_pkeys();
    queries.run().await;
    if let Some(route) = queries.found.misrouted {
        return Err(SweepError::RoutesOutdated(route));
    }
    // Contradictions to the last snapshot, such as a node with another number of ports, are left to
    // a heavy sweep, which starts without it.
    let has_new_faults = queries.state.faults.len() > last.fabric.faults().len();
    drop_old_faults(&mut queries.state);
    let managers = last.managers.iter().filter_map(|&(port, info)| {
        let port = last.fabric.port(port);
        let node = queries.state.find(last.fabric.node(port.node).guid())?;
        Some(((node, port.num), info))
    });
    let managers: Vec<_> = managers.collect();
    queries.found.managers.extend(managers);
    let mut observation = conclude(queries)?;
    if settings.reads_extended_ports {
        extended_ports::read(client, keys, &mut observation, Some(&last.fabric)).await;
    }
    let is_unresolved = observation.is_unresolved || has_new_faults;
    Ok(Observation { unconfirmed: last.to_confirm(), is_unresolved, ..observation })
}

/// Removes the faults of earlier sweeps that were found again or are about devices that are cut off
/// now.
fn drop_old_faults(state: &mut DiscoveryState) {
    let mut kept: Vec<DiscoveryFault> = Vec::new();
    for fault in std::mem::take(&mut state.faults) {
        let may_answer = match &fault {
            DiscoveryFault::NoAnswer { route, .. } => may_answer(state, route),
            _ => true,
        };
        if may_answer && !kept.contains(&fault) {
            kept.push(fault);
        }
    }
    state.faults = kept;
}

/// True if a route leads to a trained link. The device behind it may be unknown.
fn may_answer(state: &DiscoveryState, route: &DirectedRoute) -> bool {
    let hops = state.hops(route);
    hops.len() == route.len()
        && hops.last().is_none_or(|&(node, exit)| {
            let info = state.port((node, exit)).and_then(|port| port.info());
            info.as_ref().is_some_and(DiscoveryState::has_trained_link)
        })
}
