//! The connections with other instances, as part of `/v1/status`.

use crate::manage::loop_status::LoopStatus;
use crate::replication::status::{PeerStatus, StateTransfer, TransferDirection};
use serde::Serialize;

/// A connection with another instance of torus-sm, or the attempt to connect.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ReplicationPeer {
    /// As configured, or the address that the peer has connected from.
    address: String,
    /// `outgoing` if this instance connects, else `incoming`.
    direction: &'static str,
    connected: bool,
    /// Time since the connection was made or lost, or since the first attempt, in seconds.
    connection_age_seconds: Option<f64>,
    /// Why there is no connection, or nothing is exchanged; null if all works.
    problem: Option<String>,
    port_guid: Option<String>,
    /// State of the other SM.
    state: Option<String>,
    /// Name and version of the other program.
    software: Option<String>,
    /// Keys of opensm.conf and files in which the configurations differ.
    differences: Vec<String>,
    /// This SM gets the state of the peer, the master.
    followed: bool,
    /// It has got all of it.
    complete: bool,
    /// The peer, a standby, gets the state of this SM.
    follower: bool,
    /// The last state that was transferred; null if there was none.
    last_transfer: Option<LastTransfer>,
}

/// The last state that a connection transferred. There is none while nothing changes.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LastTransfer {
    /// `sent` or `received`.
    direction: &'static str,
    /// Number of the last change in the registry of the master.
    generation: u64,
    age_seconds: f64,
}

pub(super) fn peers(status: &LoopStatus) -> Vec<ReplicationPeer> {
    let status = status.handles.replication.load();
    status.peers.iter().map(|(_, peer)| view(peer)).collect()
}

fn view(peer: &PeerStatus) -> ReplicationPeer {
    ReplicationPeer {
        address: peer.address.clone(),
        direction: if peer.is_outgoing { "outgoing" } else { "incoming" },
        connected: peer.is_connected,
        connection_age_seconds: peer.since.map(|since| since.elapsed().as_secs_f64()),
        problem: peer.problem.clone(),
        port_guid: peer.port_guid.map(|guid| guid.to_string()),
        state: peer.state.clone(),
        software: peer.software.clone(),
        differences: peer.differences.clone(),
        followed: peer.sharing.is_followed,
        complete: peer.sharing.is_complete,
        follower: peer.sharing.is_follower,
        last_transfer: peer.last_transfer.map(transfer),
    }
}

fn transfer(transfer: StateTransfer) -> LastTransfer {
    let direction = match transfer.direction {
        TransferDirection::Sent => "sent",
        TransferDirection::Received => "received",
    };
    let age_seconds = transfer.at.elapsed().as_secs_f64();
    LastTransfer { direction, generation: transfer.generation, age_seconds }
}
