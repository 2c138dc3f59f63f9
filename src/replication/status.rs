//! Status of the other instances, for the management interface.

use crate::ids::Guid;
use arc_swap::ArcSwap;
use std::sync::Arc;
use tokio::time::Instant;

/// Direction in which state was transferred.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransferDirection {
    Sent,
    Received,
}

/// The last changes of the registry, or files, that went over a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StateTransfer {
    pub direction: TransferDirection,
    /// Number of the last change of the master's registry.
    pub generation: u64,
    pub at: Instant,
}

/// Which side gets the state of the other one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sharing {
    /// This SM gets the state of the peer, the master.
    pub is_followed: bool,
    /// This SM has got all of it, up to the last changes.
    pub is_complete: bool,
    /// The peer, a standby, gets the state of this SM.
    pub is_follower: bool,
}

/// A connection with another instance, or the attempt to connect.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PeerStatus {
    /// The address as configured, or that of the connection if the peer has made it.
    pub address: String,
    /// This instance has to connect; else the peer.
    pub is_outgoing: bool,
    pub is_connected: bool,
    /// Time at which the connection was made or lost, or of the first attempt.
    pub since: Option<Instant>,
    /// Why there is no connection, or why it is of no use.
    pub problem: Option<String>,
    /// Port of the other SM.
    pub port_guid: Option<Guid>,
    /// State of the other SM.
    pub state: Option<String>,
    /// Name and version of the other program.
    pub software: Option<String>,
    /// The keys in which the configurations differ, with their values unless these are secret.
    pub differences: Vec<String>,
    pub sharing: Sharing,
    /// Kept when the connection is lost.
    pub last_transfer: Option<StateTransfer>,
}

/// All connections, by number of the session.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReplicationStatus {
    pub peers: Vec<(u64, PeerStatus)>,
}

/// The status that sessions write and the management interface reads.
#[derive(Clone, Debug, Default)]
pub struct SharedStatus(Arc<ArcSwap<ReplicationStatus>>);

impl SharedStatus {
    pub fn load(&self) -> Arc<ReplicationStatus> {
        self.0.load_full()
    }

    /// Changes the status of a connection, which is added if it is new.
    pub fn update(&self, number: u64, change: impl Fn(&mut PeerStatus)) {
        self.0.rcu(|old| {
            let mut new = ReplicationStatus::clone(old);
            let place = new.peers.iter().position(|(known, _)| *known == number);
            let place = place.unwrap_or_else(|| {
                new.peers.push((number, PeerStatus::default()));
                new.peers.len() - 1
            });
            let peer = &mut new.peers[place].1;
            let was_connected = peer.is_connected;
            let since = peer.since;
            change(peer);
            let is_unchanged = peer.is_connected == was_connected;
            peer.since = since.filter(|_| is_unchanged).or_else(|| Some(Instant::now()));
            new
        });
    }

    /// Removes a connection.
    pub fn remove(&self, number: u64) {
        self.0.rcu(|old| {
            let mut new = ReplicationStatus::clone(old);
            new.peers.retain(|(known, _)| *known != number);
            new
        });
    }
}
