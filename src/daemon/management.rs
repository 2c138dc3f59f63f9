//! Starts the management interface of a daemon.

use crate::config::options::Options;
use crate::daemon::process::logging::LogHandle;
use crate::daemon::process::priority;
use crate::daemon::start::Daemon;
use crate::manage::server::{Server, ServerConfig};
use std::path::PathBuf;
use tokio::sync::watch;
use tracing::error;

/// Starts the management interface with its socket in `folder`. A daemon works without it: a
/// failure is logged, and `None` returned.
pub fn start(
    daemon: &mut Daemon,
    options: &Options,
    folder: PathBuf,
    log: LogHandle,
    shutdown: watch::Sender<bool>,
) -> Option<Server> {
    if !options.management {
        return None;
    }
    let config = ServerConfig {
        folder,
        group: options.management_group.clone(),
        read_all: options.management_read_all,
        on_thread_start: priority::lower_thread_priority,
    };
    let sources = daemon.management(Some(log), shutdown)?;
    match Server::start(sources, &config) {
        Ok(server) => Some(server),
        Err(problem) => {
            error!("there is no management interface: {problem}");
            None
        }
    }
}
