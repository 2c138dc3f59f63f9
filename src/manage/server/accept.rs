//! Accepts connections.

use super::accept_rate::AcceptRate;
use super::connections::NETWORK_USER;
use super::{ServerState, connection};
use crate::local_socket::Listener;
use nix::unistd::{Gid, Uid};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::warn;

/// Pause after a failure to accept, such as a lack of file descriptors.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// Reply to connections above the limits.
const TOO_MANY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n\
    content-length: 33\r\nconnection: close\r\n\r\n{\"error\":\"too many connections\"}\n";

/// Accepts connections until the socket fails; returns the failure.
pub(super) async fn accept(listener: &Listener, state: &Arc<ServerState>) -> io::Error {
    let socket = listener.socket.try_clone().and_then(UnixListener::from_std);
    let socket = match socket {
        Ok(socket) => socket,
        Err(error) => return error,
    };
    let mut was_failing = false;
    let mut rate = AcceptRate::new(Instant::now());
    loop {
        match socket.accept().await {
            Ok((stream, _)) => {
                was_failing = false;
                admit(stream, state);
                pause(&mut rate).await;
            }
            Err(error) => was_failing = failed(&error, was_failing).await,
        }
    }
}

/// Accepts connections of the TCP address; never ends without one.
pub(super) async fn accept_network(state: &Arc<ServerState>) -> io::Error {
    let Some(network) = &state.network else { return std::future::pending().await };
    let listener = match network.listener.try_clone().and_then(TcpListener::from_std) {
        Ok(listener) => listener,
        Err(error) => return error,
    };
    let mut was_failing = false;
    let mut rate = AcceptRate::new(Instant::now());
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                was_failing = false;
                // Above the limits the connection is closed: with TLS there is no reply in clear
                // text.
                if let Some(place) = state.connections.take(NETWORK_USER) {
                    tokio::spawn(connection::serve_network(stream, state.clone(), place));
                }
                pause(&mut rate).await;
            }
            Err(error) => was_failing = failed(&error, was_failing).await,
        }
    }
}

/// Counts a connection, and waits until another one may be accepted.
async fn pause(rate: &mut AcceptRate) {
    let now = Instant::now();
    let next = rate.accepted(now);
    if next > now {
        sleep_until(next).await;
    }
}

/// Reports the first of several failures, and waits.
async fn failed(error: &io::Error, was_failing: bool) -> bool {
    if !was_failing {
        warn!("management interface: cannot accept a connection: {error}");
    }
    sleep(RETRY_DELAY).await;
    true
}

fn admit(stream: UnixStream, state: &Arc<ServerState>) {
    let Ok(peer) = stream.peer_cred() else { return };
    match state.connections.take(peer.uid()) {
        Some(place) => {
            let peer = (Uid::from_raw(peer.uid()), Gid::from_raw(peer.gid()));
            tokio::spawn(connection::serve_local(stream, state.clone(), peer, place));
        }
        None => {
            // The kernel takes so short a reply at once, or the client learns nothing.
            let _ = stream.try_write(TOO_MANY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::TOO_MANY;

    #[test]
    fn the_reply_above_the_limits_has_the_length_that_it_names() {
        let text = std::str::from_utf8(TOO_MANY).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a body");
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{}", body.len());
    }
}
