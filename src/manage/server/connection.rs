//! One connection: a single request, within time and size limits.

use super::access::{self, Access, ClientOrigin};
use super::connections::ConnectionPlace;
use super::progress::ReplyProgress;
use super::{ServerState, respond};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use nix::unistd::{Gid, Uid};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::spawn_blocking;
use tokio::time::{interval, timeout};
use tracing::debug;

/// Time for the header of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);

/// Time for the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Size of the buffers for the header and for the body on its way, in bytes.
const BUFFER_SIZE: usize = 16 << 10;

/// Maximum number of header lines.
const MAX_HEADERS: usize = 64;

/// Serves a connection of the Unix socket to its end.
pub(super) async fn serve_local(
    stream: UnixStream,
    state: Arc<ServerState>,
    peer: (Uid, Gid),
    place: ConnectionPlace,
) {
    let access = access_of(&state, peer.0, peer.1).await;
    serve(stream, state, ClientOrigin::Local(access), place).await;
}

/// Serves a connection of the TCP address to its end.
pub(super) async fn serve_network(
    stream: TcpStream,
    state: Arc<ServerState>,
    place: ConnectionPlace,
) {
    let tls = state.network.as_ref().and_then(|network| network.tls.clone());
    let Some(tls) = tls else { return serve(stream, state, ClientOrigin::Network, place).await };
    match timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await {
        Ok(Ok(stream)) => serve(stream, state, ClientOrigin::Network, place).await,
        Ok(Err(error)) => debug!("management interface: TLS: {error}"),
        Err(_) => debug!("management interface: the TLS handshake is too slow"),
    }
}

/// Serves a connection to its end.
async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    state: Arc<ServerState>,
    client: ClientOrigin,
    _place: ConnectionPlace,
) {
    let progress = Arc::new(ReplyProgress::new());
    let service = service_fn(|request| {
        let state = state.clone();
        let progress = progress.clone();
        async move { Ok::<_, Infallible>(respond::respond(request, state, client, progress).await) }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .keep_alive(false)
        .max_headers(MAX_HEADERS)
        .max_buf_size(BUFFER_SIZE);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        ended = connection => {
            if let Err(error) = ended {
                debug!("management interface: connection of {client}: {error}");
            }
        }
        () = overdue(&progress) => {
            debug!("management interface: connection of {client} is too slow");
        }
    }
}

/// Ends when the client is too slow.
async fn overdue(progress: &ReplyProgress) {
    let mut checks = interval(Duration::from_secs(1));
    while !progress.is_overdue() {
        checks.tick().await;
    }
}

/// The permissions of the process at the other end. The group database may be slow.
async fn access_of(state: &Arc<ServerState>, uid: Uid, gid: Gid) -> Access {
    let policy = state.policy;
    let access = spawn_blocking(move || policy.access(uid, gid, access::is_member)).await;
    access.unwrap_or(Access { uid: Some(uid.as_raw()), may_read: false, may_act: false })
}
