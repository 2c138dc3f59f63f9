//! The focused sweep: after a trap or a light sweep, only the switches that changed are asked
//! again; everything else is taken from the last picture. What is new behind a cable that came
//! up is discovered as in a heavy sweep.
//!
//! The old directed routes may lead over the very cable that broke. So the suspects are asked
//! once, the cables they report lost are taken out, all routes are computed anew, and whoever
//! did not answer is asked once more by the new route. A switch that stays silent then keeps
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
    for &guid in suspects {
        if let Some(node) = inquiry.census.find(guid) {
            inquiry.ask_switch(node);
        }
    }
    inquiry.run().await;
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
