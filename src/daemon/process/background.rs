//! Running in the background (`-B`).
//!
//! The program starts itself again in a new session, and waits until that process has opened its
//! port, log and pidfile. Errors during the start therefore appear on standard error and in the
//! exit code, and the daemon is running when the command ends, as systemd's `Type=forking`
//! requires. Because the second process is executed, not forked, the two share no thread, port or
//! simulator connection.

use std::env;
use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::process::{Command, ExitStatus, Stdio};

/// Environment variable that marks the background process.
const BACKGROUND_VARIABLE: &str = "TORUS_SM_BACKGROUND";
/// Written to standard output by the background process when it is ready.
const READY_LINE: &str = "ready\n";

/// True in the background process.
pub fn is_here() -> bool {
    env::var_os(BACKGROUND_VARIABLE).is_some()
}

/// Starts this program again in the background and waits until it is ready (`None`) or has
/// failed (its exit status).
///
/// # Errors
/// The process cannot be started.
pub fn start() -> io::Result<Option<ExitStatus>> {
    let mut child = Command::new(env::current_exe()?)
        .args(env::args_os().skip(1))
        .env(BACKGROUND_VARIABLE, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut output = Vec::new();
    if let Some(mut out) = child.stdout.take() {
        out.read_to_end(&mut output)?;
    }
    if output.ends_with(READY_LINE.as_bytes()) {
        return Ok(None);
    }
    child.wait().map(Some)
}

/// Detaches from the terminal (setsid(2)).
///
/// # Errors
/// The process leads a process group.
pub fn enter() -> io::Result<()> {
    nix::unistd::setsid()?;
    Ok(())
}

/// Reports to the starting process that this one is ready, and redirects output to /dev/null.
///
/// # Errors
/// /dev/null cannot be opened, or the starting process has ended.
pub fn ready() -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(READY_LINE.as_bytes())?;
    out.flush()?;
    let null = OpenOptions::new().write(true).open("/dev/null")?;
    nix::unistd::dup2_stderr(&null)?;
    nix::unistd::dup2_stdout(&null)?;
    Ok(())
}
