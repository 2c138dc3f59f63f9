//! Connects to all peers, and accepts their connections.

use super::local::Local;
use super::network::{Incoming, InstanceNetwork};
use super::session::{self, SessionError};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tracing::{debug, warn};

/// Bounds of the pause between two attempts to connect, which doubles with each failure.
const MIN_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Connections of peers at a time, more than there are SMs on a subnet.
const MAX_INCOMING: usize = 32;

/// Runs for ever.
pub async fn run(local: Local, network: Arc<dyn InstanceNetwork>, peers: Vec<String>) {
    let mut connections = JoinSet::new();
    let first_incoming = peers.len() as u64;
    for (number, peer) in (0..).zip(peers) {
        connections.spawn(connect(local.clone(), network.clone(), number, peer));
    }
    accept(&local, &*network, first_incoming).await;
}

/// Keeps a connection to a peer; returns if the peer is this instance itself.
async fn connect(local: Local, network: Arc<dyn InstanceNetwork>, number: u64, peer: String) {
    local.status.update(number, |status| {
        status.address.clone_from(&peer);
        status.is_outgoing = true;
    });
    let mut pause = MIN_PAUSE;
    let mut logged = None;
    loop {
        let start = Instant::now();
        let error = match network.connect(&peer).await {
            Ok(stream) => session::run(local.clone(), number, stream).await,
            Err(error) => error.into(),
        };
        if matches!(error, SessionError::Itself) {
            return local.status.remove(number);
        }
        if start.elapsed() > MAX_PAUSE {
            (pause, logged) = (MIN_PAUSE, None);
        }
        let problem = error.to_string();
        if logged.as_ref() != Some(&problem) {
            warn!("no shared state with {peer}: {problem}; it is tried again");
            logged = Some(problem.clone());
        }
        local.status.update(number, |status| status.problem = Some(problem.clone()));
        sleep(pause).await;
        pause = (pause * 2).min(MAX_PAUSE);
    }
}

/// Accepts connections for ever.
async fn accept(local: &Local, network: &dyn InstanceNetwork, first_number: u64) {
    let mut sessions = JoinSet::new();
    let mut number = first_number;
    let mut logged = None;
    loop {
        tokio::select! {
            incoming = network.accept(), if sessions.len() < MAX_INCOMING => match incoming {
                Ok(incoming) => {
                    sessions.spawn(serve(local.clone(), number, incoming));
                    number += 1;
                }
                Err(error) => {
                    debug!("cannot accept a connection: {error}");
                    sleep(MIN_PAUSE).await;
                }
            },
            Some(ended) = sessions.join_next() => {
                // The same peer fails again and again.
                let problem: Option<String> = ended.unwrap_or_else(|panic| Some(panic.to_string()));
                if problem.is_some() && logged != problem {
                    warn!("shared state: {}", problem.as_deref().unwrap_or(""));
                    logged = problem;
                }
            }
        }
    }
}

/// Serves a connection of a peer. Returns why it was refused.
async fn serve(local: Local, number: u64, incoming: Incoming) -> Option<String> {
    let Incoming { from, handshake } = incoming;
    let stream = match handshake.await {
        Ok(stream) => stream,
        // The port of the peer is another one each time.
        Err(error) => {
            let host = from.rsplit_once(':').map_or(&*from, |(host, _)| host);
            return Some(format!("a connection from {host} is refused: {error}"));
        }
    };
    local.status.update(number, |status| status.address.clone_from(&from));
    let error = session::run(local.clone(), number, stream).await;
    debug!("shared state: the connection from {from} has ended: {error}");
    local.status.remove(number);
    None
}
