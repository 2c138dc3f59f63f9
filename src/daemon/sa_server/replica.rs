//! Serves the shared state: exports the registry as master, and imports that of the master as
//! standby.

use super::SaServer;
use crate::sa::registry::replica::{Page, ReplicaRequest};
use crate::wire::attr::SmState;
use tokio::time::Instant;

impl SaServer {
    pub(super) fn replicate(&mut self, request: ReplicaRequest) {
        match request {
            ReplicaRequest::Export { since, max, reply } => {
                let registry = self.responder.get().registry_mut();
                let _ = reply.send(registry.export(since, max, Instant::now().into_std()));
            }
            ReplicaRequest::Import { page, reply } => {
                let _ = reply.send(self.import(page));
            }
        }
    }

    /// False unless this SM is a standby that got all pages before this one.
    fn import(&mut self, page: Page) -> bool {
        if self.sm_status.borrow().state != SmState::Standby {
            self.registered.importer.stop();
            return false;
        }
        // A former master must have dropped its own state before it takes over another.
        if self.snapshots.published.has_changed().unwrap_or(false) {
            self.snapshot_changed();
        }
        let registry = self.responder.get().registry_mut();
        let is_imported =
            self.registered.importer.import(registry, page, Instant::now().into_std());
        // A takeover plans all groups.
        self.joins.will_be_planned(registry.generation());
        self.registry_changed();
        is_imported
    }
}
