//! Connects the daemon with the shared state, and runs its sessions on a thread of their own.

use crate::config::options::Options;
use crate::daemon::messages::SaCommand;
use crate::daemon::process::priority;
use crate::daemon::sm_loop::files::StateFiles;
use crate::replication::comparison::describe;
use crate::replication::local::{IncidentLink, Local, ManagerLink, ReceivedFiles};
use crate::replication::service;
use crate::replication::status::SharedStatus;
use crate::replication::tls::{TlsNetwork, TlsSettings};
use crate::sa::registry::replica::ReplicaRequest;
use crate::sm::sm_info::SmStatus;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::{mpsc, watch};
use tracing::{error, warn};

/// Requests to the SA server that wait.
const MAX_QUEUED_REQUESTS: usize = 4;

/// The SA server's end of the shared state.
pub struct RegistryLink {
    /// Requests of the sessions.
    pub requests: mpsc::Receiver<ReplicaRequest>,
    /// Wakes the sessions when registrations have changed.
    pub changed: watch::Sender<()>,
}

/// The ends of the shared state: of the SM loop, of the sessions and of the SA server.
pub fn links(
    options: &Options,
    sm_status: watch::Receiver<SmStatus>,
    cache: &StateFiles,
    status: SharedStatus,
) -> (ManagerLink, Local, RegistryLink) {
    let (follows, followed) = watch::channel(None);
    let (files, provided) = watch::channel(None);
    let (configuration, described) = watch::channel(Arc::new(describe(options)));
    let (registry, requests) = mpsc::channel(MAX_QUEUED_REQUESTS);
    let (changed, registry_changed) = watch::channel(());
    let received = ReceivedFiles::default();
    let store = received.clone();
    let cache = cache.clone();
    let sync = options.fsync_high_avail_files;
    let store = Arc::new(move |files| {
        if let Err(problem) = cache.store_received(&files, sync) {
            warn!("{problem}; the files of the master are kept in memory");
        }
        store.set(Some(files));
    });
    let local = Local {
        subnet_prefix: options.subnet_prefix,
        sm_status,
        follows: followed,
        files: provided,
        configuration: described,
        registry,
        registry_changed,
        store,
        incidents: IncidentLink::default(),
        status,
    };
    let manager = ManagerLink { follows, files, received, configuration };
    (manager, local, RegistryLink { requests, changed })
}

/// Passes requests on to the SA server until it ends.
pub async fn forward(
    mut requests: mpsc::Receiver<ReplicaRequest>,
    sa_server: mpsc::WeakSender<SaCommand>,
) {
    while let Some(request) = requests.recv().await {
        let Some(sa_server) = sa_server.upgrade() else { return };
        if sa_server.send(SaCommand::Replica(request)).await.is_err() {
            return;
        }
    }
}

/// The thread of the sessions, which ends when this is dropped.
pub struct Replication {
    closing: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// Starts to share the state of `local` with the configured peers. The daemon works without: a
/// failure is logged.
pub fn start(local: Local, options: &Options) -> Option<Replication> {
    let settings = match TlsSettings::read(options) {
        Ok(settings) => settings?,
        Err(problem) => {
            error!("no shared state: {problem}");
            return None;
        }
    };
    let started = spawn(local, settings);
    started
        .inspect_err(|problem| error!("no shared state: cannot start its thread: {problem}"))
        .ok()
}

fn spawn(local: Local, settings: TlsSettings) -> io::Result<Replication> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (closing, mut closed) = watch::channel(false);
    let thread = std::thread::Builder::new().name("replication".into()).spawn(move || {
        priority::lower_thread_priority();
        runtime.block_on(async {
            let peers = settings.peers.clone();
            let network = Arc::new(TlsNetwork::new(settings));
            tokio::select! {
                () = service::run(local, network, peers) => {}
                _ = closed.wait_for(|&ends| ends) => {}
            }
        });
    })?;
    Ok(Replication { closing, thread: Some(thread) })
}

impl Drop for Replication {
    fn drop(&mut self) {
        self.closing.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // A panic was reported on standard error.
            let _ = thread.join();
        }
    }
}
