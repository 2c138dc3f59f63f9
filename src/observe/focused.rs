//! The focused sweep: after a trap or a light sweep, only the switches that changed are asked
//! again; everything else is taken from the last picture. What is new behind a cable that came
//! up is discovered as in a heavy sweep.
//!
//! The old directed routes may lead over the very cable that broke. So the suspects are asked
//! once, and so is the port before each of them; the cables that are reported lost are taken out, all
//! routes are computed anew, and who was asked along such a cable, or did not answer, is asked once
//! more by the new route. A switch that stays silent then keeps
//! its last known state until the heavy sweep that follows.

use super::discovery_queries::DiscoveryQueries;
use super::discovery_state::DiscoveryState;
use super::heavy::conclude;
use super::{Observation, SweepError};
use crate::ids::{Guid, PortNum};
use crate::transport::client::SmpClient;

/// Asks the switches with the GUIDs `suspects` and updates `last`.
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
    // First: only so many questions may be under way, and those that are lost stay so for long.
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

/// Asks for the port through which a switch is asked: if the cable between them is lost, that one can say
/// so.
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

/// Computes routes without the cables that are gone, and asks the ports that lost their peer.
/// What no cable leads to any more is not asked: to wait for its answer would hold up all others.
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
