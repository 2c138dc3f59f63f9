//! The focused sweep after a trap or a light sweep: queries only the changed switches and takes all others from
//! the last snapshot. Nodes behind a new link are discovered as in a heavy sweep.
//!
//! The known directed routes may lead across the very cable that failed. So each suspect switch is queried
//! once, together with the port before it. Lost cables are removed, all routes are recomputed, and queries
//! that used such a cable or got no answer are repeated once on the new routes. A switch that still does
//! not answer keeps its last known state until the heavy sweep that follows.

use super::discovery_queries::DiscoveryQueries;
use super::discovery_state::DiscoveryState;
use super::heavy::conclude;
use super::{Observation, SweepError};
use crate::ids::{Guid, PortNum};
use crate::transport::client::SmpClient;

/// Queries the switches with the GUIDs `suspects` and updates `last`.
///
/// # Errors
/// As [`super::heavy::sweep`].
pub async fn sweep(
    client: &SmpClient,
    m_key: u64,
    last: &Observation,
    suspects: &[Guid],
) -> Result<Observation, SweepError> {
    let state = DiscoveryState::of(&last.fabric, &last.pkeys);
    let mut queries = DiscoveryQueries::new(client, m_key, state);
    let before = cables(&queries.state);
    let suspects: Vec<usize> =
        suspects.iter().filter_map(|&guid| queries.state.find(guid)).collect();
    // The parents are queried first, since lost queries occupy the window until they time out.
    suspects.iter().for_each(|&node| query_parent(&mut queries, node));
    suspects.iter().for_each(|&node| queries.query_switch(node));
    queries.run_deferring_cut_routes().await;
    query_disconnected(&mut queries, &before);
    queries.run().await;
    queries.query_pkeys();
    queries.retry().await;
    queries.query_pkeys();
    queries.run().await;
    let managers = last.managers.iter().filter_map(|&(port, info)| {
        let port = last.fabric.port(port);
        let node = queries.state.find(last.fabric.node(port.node).guid())?;
        Some(((node, port.num), info))
    });
    let managers: Vec<_> = managers.collect();
    queries.managers.extend(managers);
    conclude(queries)
}

/// Queries the last port on the route to a switch, which can tell that the cable between them is lost.
fn query_parent(queries: &mut DiscoveryQueries, node: usize) {
    let entries = queries.state.entries();
    let route = entries[node].route;
    let leads_here = |&(peer, num): &(usize, PortNum)| {
        entries[peer].route.len() + 1 == route.len() && entries[peer].route.then(num) == Some(route)
    };
    let mut peers = entries[node].ports.iter().filter_map(|slot| slot.peer);
    if let Some((parent, num)) = peers.find(leads_here) {
        queries.query_port(parent, num);
    }
}

type Cable = [(usize, PortNum); 2];

fn cables(state: &DiscoveryState) -> Vec<Cable> {
    let ends = state.entries().iter().enumerate().flat_map(|(node, entry)| {
        entry.ports.iter().enumerate().filter_map(move |(num, slot)| {
            let here = (node, PortNum(num as u8));
            slot.peer.filter(|&peer| here < peer).map(|peer| [here, peer])
        })
    });
    ends.collect()
}

/// Recomputes the routes without the lost cables, and queries the ports that lost their peer. Nodes without a
/// route are not queried, since waiting for their timeout would delay all others.
fn query_disconnected(queries: &mut DiscoveryQueries, before: &[Cable]) {
    let reached = queries.state.reroute();
    queries.drop_queries_to(|node| !reached[node]);
    for end in before.iter().flatten().filter(|end| reached[end.0]) {
        let slot = &queries.state.entries()[end.0].ports[end.1.index()];
        if slot.peer.is_none() {
            queries.query_port(end.0, end.1);
        }
    }
}
