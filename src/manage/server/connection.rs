//! One connection: a single request, within time and size limits.

use super::access::{self, Access};
use super::connections::Place;
use super::progress::Progress;
use super::{State, respond};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use nix::unistd::{Gid, Uid};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::task::spawn_blocking;
use tokio::time::interval;
use tracing::debug;

/// Time for the header of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);

/// Size of the buffers for the header and for the body on its way, in bytes.
const BUFFER_SIZE: usize = 16 << 10;

/// Maximum number of header lines.
const MAX_HEADERS: usize = 64;

/// Serves a connection to its end.
pub(super) async fn serve(stream: UnixStream, state: Arc<State>, peer: (Uid, Gid), _place: Place) {
    let access = access_of(&state, peer).await;
    let progress = Arc::new(Progress::new());
    let service = service_fn(|request| {
        let (state, progress) = (state.clone(), progress.clone());
        async move { Ok::<_, Infallible>(respond::respond(request, state, access, progress).await) }
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
                debug!("management interface: connection of user {}: {error}", access.uid);
            }
        }
        () = overdue(&progress) => {
            debug!("management interface: connection of user {} is too slow", access.uid);
        }
    }
}

/// Ends when the client is too slow.
async fn overdue(progress: &Progress) {
    let mut checks = interval(Duration::from_secs(1));
    while !progress.is_overdue() {
        checks.tick().await;
    }
}

/// The permissions of the process at the other end. The group database may be slow.
async fn access_of(state: &Arc<State>, (uid, gid): (Uid, Gid)) -> Access {
    let policy = state.policy;
    let access = spawn_blocking(move || policy.access(uid, gid, access::is_member)).await;
    access.unwrap_or(Access { uid: uid.as_raw(), may_read: false, may_act: false })
}
