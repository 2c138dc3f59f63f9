//! A daemon whose options a SIGHUP replaces.

use crate::cluster::{SimCluster, Sm};
use std::sync::{Arc, Mutex, PoisonError};
use torus_sm::config::options::Options;
use torus_sm::daemon::messages::SmEvent;

/// A daemon whose options a SIGHUP replaces.
pub struct ReloadableSm {
    pub sm: Sm,
    options: Arc<Mutex<Options>>,
}

impl ReloadableSm {
    /// Starts the daemon at host 0 of the switch `at`.
    pub fn start(cluster: &SimCluster, at: [u16; 3], options: Options) -> Self {
        let shared = Arc::new(Mutex::new(options.clone()));
        let source = shared.clone();
        let reload = Box::new(move || {
            let options = source.lock().unwrap_or_else(PoisonError::into_inner).clone();
            Ok(options.into())
        });
        Self { sm: cluster.start_with(at, options, reload), options: shared }
    }

    /// Changes the options and sends SIGHUP.
    pub fn reload(&self, change: impl FnOnce(&mut Options)) {
        change(&mut self.options.lock().unwrap_or_else(PoisonError::into_inner));
        self.sm.tell(SmEvent::Reload);
    }
}
