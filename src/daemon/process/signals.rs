//! Signals become events: HUP reads the configuration again and sweeps, USR1 reopens the log,
//! INT and TERM leave.

use crate::daemon::messages::SmEvent;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;
use std::io;
use std::thread;
use tokio::sync::{mpsc, watch};

/// Handles signals on a thread of its own until the daemon ends. `reopen_log` runs on USR1.
///
/// # Errors
/// The kernel refuses the handlers or the thread.
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
