//! `-B`: the daemon in the background.
//!
//! The program starts itself again in a session of its own, and waits until that process holds
//! its port, log and pidfile. So whoever started it sees errors on standard error and in the
//! exit code, and knows that the daemon is there once the command has ended, as systemd's
//! `Type=forking` wants it. Nothing is forked in mid-life: no thread, port or simulator
//! connection is shared between the two.

use std::env;
use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::process::{Command, ExitStatus, Stdio};

/// In the environment of the process in the background.
const MARK: &str = "TORUS_SM_BACKGROUND";
/// What it writes to standard output when it is ready.
const READY: &str = "ready\n";

/// True in the process in the background.
pub fn is_here() -> bool {
    env::var_os(MARK).is_some()
}

/// Starts this program again in the background and waits until it is ready (`None`) or has
/// failed.
///
/// # Errors
/// The kernel refuses to start it.
pub fn start() -> io::Result<Option<ExitStatus>> {
    let mut child = Command::new(env::current_exe()?)
        .args(env::args_os().skip(1))
        .env(MARK, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut said = Vec::new();
    if let Some(mut out) = child.stdout.take() {
        out.read_to_end(&mut said)?;
    }
    if said.ends_with(READY.as_bytes()) {
        return Ok(None);
    }
    child.wait().map(Some)
}

/// Leaves the session of the terminal.
///
/// # Errors
/// The kernel refuses it.
pub fn enter() -> io::Result<()> {
    nix::unistd::setsid()?;
    Ok(())
}

/// Lets the process that started this one end; from now on nothing is printed.
///
/// # Errors
/// /dev/null is not to be had, or nobody waits any more.
pub fn ready() -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(READY.as_bytes())?;
    out.flush()?;
    let null = OpenOptions::new().write(true).open("/dev/null")?;
    nix::unistd::dup2_stderr(&null)?;
    nix::unistd::dup2_stdout(&null)?;
    Ok(())
}
