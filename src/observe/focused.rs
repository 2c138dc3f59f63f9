//! The focused sweep: after a trap or a light sweep, only the switches that changed are asked
//! again; everything else is taken from the last picture. What is new behind a cable that came
//! up is discovered as in a heavy sweep.
//!
//! The old directed routes may lead over the very cable that broke. So the suspects are asked
//! once, and so is the port before each of them; the cables that are reported lost are taken out, all
//! routes are computed anew, and who was asked along such a cable, or did not answer, is asked once
//! more by the new route. A switch that stays silent then keeps
//! its last known state until the heavy sweep that follows.

use super::census::Census;
use super::heavy::conclude;
use super::inquiry::Inquiry;
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
    let census = Census::of(&last.fabric, &last.pkeys);
    let mut inquiry = Inquiry::new(client, m_key, census);
    let before = cables(&inquiry.census);
    let suspects: Vec<usize> =
        suspects.iter().filter_map(|&guid| inquiry.census.find(guid)).collect();
    // First: only so many questions may be under way, and those that are lost stay so for long.
    suspects.iter().for_each(|&node| ask_parent(&mut inquiry, node));
    suspects.iter().for_each(|&node| inquiry.ask_switch(node));
    inquiry.run_past_losses().await;
    ask_widowed(&mut inquiry, &before);
    inquiry.run().await;
    inquiry.ask_pkeys();
    inquiry.retry().await;
    inquiry.ask_pkeys();
    inquiry.run().await;
    let managers = last.managers.iter().filter_map(|&(port, info)| {
        let port = last.fabric.port(port);
        let node = inquiry.census.find(last.fabric.node(port.node).guid())?;
        Some(((node, port.num), info))
    });
    let managers: Vec<_> = managers.collect();
    inquiry.managers.extend(managers);
    conclude(inquiry)
}

/// Asks for the port through which a switch is asked: if the cable between them is lost, that one can say
/// so.
fn ask_parent(inquiry: &mut Inquiry, node: usize) {
    let entries = inquiry.census.entries();
    let route = entries[node].route;
    let leads_here = |&(peer, num): &(usize, PortNum)| {
        entries[peer].route.len() + 1 == route.len() && entries[peer].route.then(num) == Some(route)
    };
    let mut peers = entries[node].ports.iter().filter_map(|slot| slot.peer);
    if let Some((parent, num)) = peers.find(leads_here) {
        inquiry.ask_port(parent, num);
    }
}

type Cable = [(usize, PortNum); 2];

fn cables(census: &Census) -> Vec<Cable> {
    let ends = census.entries().iter().enumerate().flat_map(|(node, entry)| {
        entry.ports.iter().enumerate().filter_map(move |(num, slot)| {
            let here = (node, PortNum(num as u8));
            slot.peer.filter(|&peer| here < peer).map(|peer| [here, peer])
        })
    });
    ends.collect()
}

/// Computes routes without the cables that are gone, and asks the ports that lost their peer.
/// What no cable leads to any more is not asked: to wait for its answer would hold up all others.
fn ask_widowed(inquiry: &mut Inquiry, before: &[Cable]) {
    let reached = inquiry.census.reroute();
    inquiry.give_up_on(|node| !reached[node]);
    for end in before.iter().flatten().filter(|end| reached[end.0]) {
        let slot = &inquiry.census.entries()[end.0].ports[end.1.index()];
        if slot.peer.is_none() {
            inquiry.ask_port(end.0, end.1);
        }
    }
}
