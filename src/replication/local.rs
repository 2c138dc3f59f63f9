//! State that the daemon and the sessions share. No side waits for the other.

use crate::ids::Guid;
use crate::replication::comparison::Description;
use crate::replication::protocol::Files;
use crate::replication::status::SharedStatus;
use crate::sa::registry::replica::ReplicaRequest;
use crate::sm::sm_info::SmStatus;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{mpsc, watch};

/// Formats the files; called on the thread of the sessions.
pub type FilesFn = Arc<dyn Fn() -> Files + Send + Sync>;

/// The files of the SM that this one follows, until a takeover uses them.
#[derive(Clone, Default)]
pub struct ReceivedFiles(Arc<Mutex<Option<Files>>>);

impl ReceivedFiles {
    /// The last received files.
    pub fn get(&self) -> Option<Files> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn set(&self, files: Option<Files>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = files;
    }
}

/// The incidents: those of this SM as master, and those that the master has sent.
#[derive(Clone)]
pub struct IncidentLink {
    provided: watch::Sender<Arc<str>>,
    received: Arc<Mutex<Option<String>>>,
}

impl Default for IncidentLink {
    fn default() -> Self {
        Self { provided: watch::Sender::new("".into()), received: Arc::default() }
    }
}

impl IncidentLink {
    /// Gives a standby the incidents of this SM.
    pub fn provide(&self, text: &str) {
        self.provided.send_replace(text.into());
    }

    /// What a standby gets; empty if there is nothing.
    pub fn provided(&self) -> Arc<str> {
        self.provided.borrow().clone()
    }

    /// Keeps what the master has sent.
    pub fn receive(&self, text: String) {
        *self.received.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
    }

    /// What the former master has sent last, once.
    pub fn take_received(&self) -> Option<String> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The manager's side.
pub struct ManagerLink {
    /// The SM that this one stands by for.
    pub follows: watch::Sender<Option<Guid>>,
    /// The files of this SM as master.
    pub files: watch::Sender<Option<FilesFn>>,
    pub received: ReceivedFiles,
    pub configuration: watch::Sender<Arc<Description>>,
}

/// The sessions' side.
#[derive(Clone)]
pub struct Local {
    pub subnet_prefix: u64,
    pub sm_status: watch::Receiver<SmStatus>,
    pub follows: watch::Receiver<Option<Guid>>,
    pub files: watch::Receiver<Option<FilesFn>>,
    pub configuration: watch::Receiver<Arc<Description>>,
    pub registry: mpsc::Sender<ReplicaRequest>,
    /// Changes when registrations have changed.
    pub registry_changed: watch::Receiver<()>,
    /// Stores received files.
    pub store: Arc<dyn Fn(Files) + Send + Sync>,
    pub incidents: IncidentLink,
    pub status: SharedStatus,
}
