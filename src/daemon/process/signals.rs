//! Signal handling: SIGHUP reloads the configuration and starts a heavy sweep, SIGUSR1 reopens the
//! log, SIGINT and SIGTERM end the daemon.

use crate::daemon::messages::SmEvent;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;
use std::io;
use std::thread;
use tokio::sync::{mpsc, watch};

/// Starts a thread that handles signals until the daemon ends.
///
/// # Errors
/// The handlers cannot be installed, or the thread not be created.
pub fn install(
    events: mpsc::UnboundedSender<SmEvent>,
    shutdown: watch::Sender<bool>,
    reopen_log: impl Fn() + Send + 'static,
) -> io::Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGUSR1, SIGINT, SIGTERM])?;
    thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            match signal {
                SIGHUP => drop(events.send(SmEvent::Reload)),
                SIGUSR1 => reopen_log(),
                _ => drop(shutdown.send_replace(true)),
            }
        }
    })?;
    Ok(())
}
