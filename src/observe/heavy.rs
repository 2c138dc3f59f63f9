//! The heavy sweep: queries every node, port and switch of the fabric, with many queries in flight.

use super::discovery_queries::{DiscoveryQueries, SweepFindings};
use super::discovery_state::DiscoveryState;
use super::duplicates::has_moved_ports;
use super::m_keys::MKeys;
use super::unanswered::{find_own_twin, record_faults};
use super::unresponsive::retain_unresponsive;
use super::{Observation, SweepError, SweepSettings, extended_ports};
use crate::fabric::{End, Fabric};
use crate::ids::PortNum;
use crate::transport::client::SmpClient;
use crate::wire::attr::{PortInfo, PortState, SmInfo};
use std::sync::Arc;
use tracing::debug;

/// Number of repetitions of a sweep during which ports were moved.
const MAX_REPETITIONS: u32 = 2;

/// Sweeps the fabric from the port of `client`, with the M_Keys that ports are known to hold.
///
/// # Errors
/// [`SweepError`] if the local port fails. All other failures are faults of the snapshot.
pub async fn sweep(
    client: &SmpClient,
    keys: &MKeys,
    settings: &SweepSettings,
) -> Result<Observation, SweepError> {
    let mut queries = discover(client, keys, settings).await;
    let mut repetitions = 0;
    while has_moved_ports(client, &queries.keys, &queries.state.faults).await
        && repetitions < MAX_REPETITIONS
    {
        repetitions += 1;
        debug!("a port was moved during the sweep, which is repeated");
        queries = discover(client, keys, settings).await;
    }
    let mut observation = conclude(queries)?;
    if let Some(known) = &settings.known {
        extended_ports::retain(&mut observation, &known.fabric);
    }
    if settings.reads_extended_ports {
        extended_ports::read(client, keys, &mut observation, None).await;
    }
    Ok(observation)
}

/// Asks all devices once.
async fn discover(client: &SmpClient, keys: &MKeys, settings: &SweepSettings) -> DiscoveryQueries {
    let state = DiscoveryState { names: settings.names.clone(), ..DiscoveryState::default() };
    let mut queries = DiscoveryQueries::new(client, keys, state);
    queries.scope.silent_manager = settings.silent_manager;
    queries.query_node(None);
    queries.run().await;
    queries.query_pkeys();
    queries.run().await;
    queries.retry(true).await;
    queries.query_pkeys();
    // Devices that were silent until now get the full timeout, all at the same time.
    queries.run_to_the_end().await;
    queries.retry(true).await;
    queries.query_pkeys();
    queries.run_to_the_end().await;
    queries.run_last_pass().await;
    if let Some(known) = &settings.known {
        retain_unresponsive(&mut queries.state, &mut queries.evidence, known);
    }
    record_faults(&mut queries.state, &queries.evidence);
    find_own_twin(&mut queries.state);
    queries
}

/// Makes the snapshot from the answers.
pub(super) fn conclude(queries: DiscoveryQueries) -> Result<Observation, SweepError> {
    let DiscoveryQueries { state, found, evidence, .. } = queries;
    if let Some(reason) = evidence.send_failure() {
        return Err(SweepError::LocalLost(reason));
    }
    if let Some(error) = evidence.local_failure() {
        return Err(SweepError::LocalUnresponsive(error.to_string()));
    }
    let is_unresolved = evidence.has_unanswered();
    let SweepFindings { managers, changed_switches, .. } = found;
    let managers: Vec<(End, SmInfo)> = managers
        .into_iter()
        .map(|((node, port), info)| ((state.node(node).guid(), port), info))
        .collect();
    let faults = state.faults.clone();
    let Some((fabric, pkeys)) = state.finish() else {
        let problem = faults.first().map_or_else(|| "no usable data".into(), ToString::to_string);
        return Err(SweepError::LocalInvalidAnswer(problem));
    };
    match fabric.port(fabric.local()).info() {
        None => return Err(SweepError::LocalUnresponsive("no answer to PortInfo".into())),
        Some(info) if is_down(&fabric, &info) => return Err(SweepError::LocalDown),
        Some(_) => {}
    }
    let managers = managers
        .into_iter()
        .filter_map(|(end, info)| Some((fabric.port_by_end(end)?, info)))
        .collect();
    let fabric = Arc::new(fabric);
    let unconfirmed = Vec::new();
    Ok(Observation { fabric, pkeys, managers, changed_switches, unconfirmed, is_unresolved })
}

/// True if the local port has no link. Port 0 of a switch has no cable and is never down.
fn is_down(fabric: &Fabric, info: &PortInfo) -> bool {
    let is_port_0 = fabric.port(fabric.local()).num == PortNum::ZERO;
    !is_port_0 && info.port_state() == PortState::Down
}
