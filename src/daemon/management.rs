//! Starts the management interface of a daemon.

use crate::config::options::Options;
use crate::daemon::process::logging::LogHandle;
use crate::daemon::process::priority;
use crate::daemon::start::Daemon;
use crate::manage::console::RunningConsole;
use crate::manage::server::network::NetworkConfig;
use crate::manage::server::{ManageServer, ServerConfig};
use std::path::PathBuf;
use tokio::sync::watch;
use tracing::error;

/// Called on each thread of the management interface.
pub const ON_THREAD_START: fn() = priority::lower_to_management;

/// Starts the management interface with its socket in `folder`. A daemon works without it: a
/// failure is logged, and `None` returned.
pub fn start(
    daemon: &mut Daemon,
    options: &Options,
    folder: PathBuf,
    log: LogHandle,
    shutdown: watch::Sender<bool>,
) -> Option<ManageServer> {
    if !options.management {
        return None;
    }
    let network = NetworkConfig::from_options(options).unwrap_or_else(|problem| {
        error!("{problem}");
        None
    });
    let config = ServerConfig {
        network,
        event_file: options.management_event_log.as_ref().map(PathBuf::from),
        folder,
        group: options.management_group.clone(),
        read_all: options.management_read_all,
        on_thread_start: ON_THREAD_START,
        // The file that runs, even if a package has replaced it.
        program: PathBuf::from("/proc/self/exe"),
    };
    let sources = daemon.management(Some(log), shutdown)?;
    match ManageServer::start(sources, &config) {
        Ok(server) => Some(server),
        Err(problem) => {
            error!("there is no management interface: {problem}");
            None
        }
    }
}

/// Starts OpenSM's console, if one is configured.
pub fn console(
    daemon: &Daemon,
    options: &Options,
    log: LogHandle,
    shutdown: watch::Sender<bool>,
) -> Option<RunningConsole> {
    RunningConsole::start(options, daemon.console(Some(log), shutdown, ON_THREAD_START))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::getpriority_process;

    fn nice_after(lower: fn()) -> i32 {
        let thread = std::thread::spawn(move || {
            lower();
            getpriority_process(None).expect("Linux")
        });
        thread.join().expect("no panic")
    }

    #[test]
    fn threads_of_the_interface_are_below_planning() {
        let planning = nice_after(priority::lower_thread_priority);
        // Below the highest nice value, which this process may have already, there is none.
        assert!(nice_after(ON_THREAD_START) > planning || planning == 19);
    }
}
