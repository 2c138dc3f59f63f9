//! The HTTP server: its thread, the socket, and the connections.
//!
//! * `accept`: accepts connections, at most at the rate of `accept_rate`; [`access`]: permissions by peer credentials; `connections`:
//!   their number
//! * `connection`: one connection; `respond`: one request; `stream`: the stream of events;
//!   `progress`: limits of time and memory
//! * [`network`]: the optional TCP address, its token; [`tls`]
//! * `replay`: recordings for the page, in a process of their own
//! * `event_intake`: numbers the events of the daemon; `event_file`: appends them to a file
//!
//! The server runs on a single thread with the lowest priority, and computes replies on at most
//! [`MAX_WORKERS`] further ones. Each client has one request per connection; the limits below bound
//! what clients can make it hold.

mod accept;
mod accept_rate;
pub mod access;
mod compress;
mod connection;
mod connections;
mod event_file;
mod event_intake;
pub mod network;
mod progress;
mod replay;
mod respond;
mod stream;
pub mod tls;

use super::event_log::EventLog;
use super::feed::TimedEvent;
use super::socket;
use super::sources::{LiveSources, ManageSources};
use crate::local_socket::{Clients, ListenError, Listener};
use crate::manage::missing::MissingParts;
use access::Policy;
use arc_swap::ArcSwap;
use connections::Connections;
use event_file::EventFile;
use network::{NetworkConfig, NetworkListener};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tracing::{debug, error, info};

/// Threads that compute replies.
const MAX_WORKERS: usize = 2;

/// Total length in KiB of the replies that are being sent; further requests get status 503.
const MAX_REPLY_KIB: u32 = 128 << 10;

/// Time that the end of the daemon gives to connections.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(200);

/// How the server is reached and started.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Folder of the socket.
    pub folder: PathBuf,
    /// Name or number of the group whose members may do everything.
    pub group: Option<String>,
    /// All local users may read.
    pub read_all: bool,
    /// The file of events, if there is one.
    pub event_file: Option<PathBuf>,
    /// The TCP address, if there is one.
    pub network: Option<NetworkConfig>,
    /// Called on each thread of the server, to lower its priority.
    pub on_thread_start: fn(),
    /// This program, whose command `replay` reads recordings.
    pub program: PathBuf,
}

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("{0}")]
    Group(String),
    #[error("threads of the management interface: {0}")]
    Thread(#[from] io::Error),
}

/// State that all connections share.
struct ServerState {
    live: LiveSources,
    events: EventLog,
    event_file: Option<EventFile>,
    policy: Policy,
    network: Option<NetworkListener>,
    limits: ReplyLimits,
    program: PathBuf,
    missing: ArcSwap<MissingParts>,
    /// Requests answered so far.
    requests: AtomicU64,
    connections: Arc<Connections>,
    /// True when the daemon ends.
    closing: watch::Receiver<bool>,
}

/// Bounds of the replies that are made or sent at the same time.
struct ReplyLimits {
    workers: Arc<Semaphore>,
    kib: Arc<Semaphore>,
    /// One recording is replayed at a time.
    replays: Arc<Semaphore>,
}

impl Default for ReplyLimits {
    fn default() -> Self {
        Self {
            workers: Arc::new(Semaphore::new(MAX_WORKERS)),
            kib: Arc::new(Semaphore::new(MAX_REPLY_KIB as usize)),
            replays: Arc::new(Semaphore::new(1)),
        }
    }
}

impl ServerState {
    /// Logs an event.
    fn push(&self, event: &TimedEvent) {
        let Some(logged) = self.events.push(event) else { return };
        self.live.control.log_event(&logged.json);
        if let Some(file) = &self.event_file {
            file.write(&logged);
        }
    }
}

/// A running server. Dropping it ends the server and removes the socket.
#[derive(Debug)]
pub struct ManageServer {
    path: PathBuf,
    url: Option<String>,
    closing: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl ManageServer {
    /// Starts a server on its own threads.
    ///
    /// # Errors
    /// The socket is in use or cannot be created, or there is no such group.
    pub fn start(sources: ManageSources, config: &ServerConfig) -> Result<Self, StartError> {
        let group = config.group.as_deref().map(access::group).transpose();
        let group = group.map_err(StartError::Group)?;
        let clients = match (config.read_all, group) {
            (true, _) => Clients::All,
            (false, Some(group)) => Clients::Group(group),
            (false, None) => Clients::Owner,
        };
        let path = socket::path(&config.folder, sources.port_guid);
        let listener = Listener::bind(&path, clients)?;
        let policy = Policy { owner: nix::unistd::geteuid(), group, read_all: config.read_all };
        let network = config.network.as_ref().and_then(open_network);
        let event_file = config.event_file.as_deref().and_then(open_event_file);
        let url = network.as_ref().and_then(NetworkListener::url);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(MAX_WORKERS)
            .thread_name("manage-worker")
            .on_thread_start(config.on_thread_start)
            .build()?;
        let closing = watch::Sender::new(false);
        let asked = closing.subscribe();
        let on_start = config.on_thread_start;
        let settings =
            ServerSettings { network, event_file, policy, program: config.program.clone() };
        let thread = std::thread::Builder::new().name("manage".into()).spawn(move || {
            on_start();
            runtime.block_on(serve(listener, settings, sources, asked));
            runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        })?;
        info!("management interface: {}", path.display());
        if let Some(url) = &url {
            info!("management interface: {url}");
        }
        Ok(Self { path, url, closing, thread: Some(thread) })
    }

    /// Path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Address of the page, if there is a TCP address.
    pub fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }
}

impl Drop for ManageServer {
    fn drop(&mut self) {
        self.closing.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // A panic was reported on standard error.
            let _ = thread.join();
        }
    }
}

/// Opens the file of events. The socket serves without it.
fn open_event_file(path: &Path) -> Option<EventFile> {
    EventFile::open(path)
        .inspect_err(|problem| error!("management_event_log {}: {problem}", path.display()))
        .ok()
}

/// Opens the TCP address. The socket serves without it.
fn open_network(config: &NetworkConfig) -> Option<NetworkListener> {
    NetworkListener::open(config).inspect_err(|problem| error!("{problem}")).ok()
}

/// The server besides its socket and sources.
struct ServerSettings {
    network: Option<NetworkListener>,
    event_file: Option<EventFile>,
    policy: Policy,
    program: PathBuf,
}

/// Accepts connections until the daemon ends.
async fn serve(
    listener: Listener,
    settings: ServerSettings,
    sources: ManageSources,
    mut closing: watch::Receiver<bool>,
) {
    let ManageSources { live, events, earlier, .. } = sources;
    let ServerSettings { network, event_file, policy, program } = settings;
    let state = Arc::new(ServerState {
        live,
        events: EventLog::default(),
        event_file,
        policy,
        network,
        limits: ReplyLimits::default(),
        program,
        missing: ArcSwap::from_pointee(MissingParts { earlier, ..MissingParts::default() }),
        requests: AtomicU64::new(0),
        connections: Arc::default(),
        closing: closing.clone(),
    });
    let accepting = accept::accept(&listener, &state);
    let network = accept::accept_network(&state);
    let intake = event_intake::run(events, &state);
    tokio::select! {
        problem = accepting => debug!("the management interface has ended: {problem}"),
        problem = network => debug!("the TCP address has ended: {problem}"),
        () = intake => {}
        _ = closing.wait_for(|&ends| ends) => {}
    }
    let connections = state.connections.clone();
    drop(state);
    let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, connections.all_closed()).await;
}
