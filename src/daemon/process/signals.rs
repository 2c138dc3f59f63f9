//! Signal handling: SIGHUP and SIGCONT reload the configuration and start a heavy sweep, SIGUSR1
//! reopens the log, SIGUSR2 writes a recording, SIGINT and SIGTERM end the daemon.

use crate::daemon::messages::SmEvent;
use crate::daemon::process::recordings::Recordings;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::io;
use std::sync::Arc;
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
    recordings: Arc<Recordings>,
) -> io::Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGCONT, SIGUSR1, SIGUSR2, SIGINT, SIGTERM])?;
    thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            match signal {
                SIGHUP | SIGCONT => drop(events.send(SmEvent::Reload)),
                SIGUSR1 => reopen_log(),
                SIGUSR2 => recordings.write_and_log("SIGUSR2"),
                _ => drop(shutdown.send_replace(true)),
            }
        }
    })?;
    Ok(())
}
