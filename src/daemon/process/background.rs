//! Running in the background (`-B`).
//!
//! The program starts itself again in a new session, and waits until that process has opened its
//! port, log and pidfile. Errors during the start therefore appear on standard error and in the
//! exit code, and the daemon is running when the command ends, as systemd's `Type=forking`
//! requires. Because the second process is executed, not forked, the two share no thread, port or
//! simulator connection. It keeps the name and the first argument of the command, so that
//! `pkill -x opensm` and `pgrep -f /usr/sbin/opensm` find the daemon that `/usr/sbin/opensm -B`
//! started.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus, Stdio};

/// Environment variable that marks the background process. Its value is the name of the process that
/// started it.
const BACKGROUND_VARIABLE: &str = "TORUS_SM_BACKGROUND";
/// Written to standard output by the background process when it is ready.
const READY_LINE: &str = "ready\n";
/// Name of the process, by which `pkill -x` and `killall` find it. Writes act on the main thread,
/// whichever thread makes them.
const PROCESS_NAME: &str = "/proc/self/comm";

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
    let executable = env::current_exe()?;
    let first_argument = env::args_os().next().unwrap_or_else(|| executable.clone().into());
    // Without /proc the background process has the name of the executable.
    let name = fs::read(PROCESS_NAME).unwrap_or_default();
    let mut child = Command::new(executable)
        .arg0(first_argument)
        .args(env::args_os().skip(1))
        .env(BACKGROUND_VARIABLE, OsStr::from_bytes(name.trim_ascii_end()))
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

/// Detaches from the terminal (setsid(2)), and takes the name of the process that started this one.
///
/// # Errors
/// The process leads a process group.
pub fn enter() -> io::Result<()> {
    nix::unistd::setsid()?;
    if let Some(name) = env::var_os(BACKGROUND_VARIABLE).filter(|name| !name.is_empty()) {
        // Without /proc the name stays that of the executable.
        let _ = fs::write(PROCESS_NAME, name.as_bytes());
    }
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
