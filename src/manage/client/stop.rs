//! `torus-sm stop`: ends the daemon, and waits until its process has ended.

use super::http::HttpClient;
use crate::cli::manage::ActionArgs;
use crate::cli::output::print;
use crate::cli::{CommandFailure, ExitCode};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::OwnedFd;
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Time for the end of the daemon, which may hand over and write its files.
const END_TIMEOUT: Duration = Duration::from_secs(120);

/// Ends the daemon.
///
/// # Errors
/// There is no daemon, it refuses, or it does not end in time.
pub(super) async fn run(client: &HttpClient, args: &ActionArgs) -> Result<(), CommandFailure> {
    let process = client.process().await?.and_then(Pid::from_raw);
    let process = process.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    client.post("/v1/actions/exit", "{}".to_owned()).await?;
    if args.no_wait {
        return print("stop: requested\n").map(drop);
    }
    let has_ended = match process {
        Some(process) => spawn_blocking(move || ends(&process)).await.unwrap_or(false),
        // The daemon is in another PID namespace. The end of its connections is the only sign.
        None => timeout(END_TIMEOUT, client.stream("/v1/events", |_| Ok(true))).await.is_ok(),
    };
    if has_ended {
        return print("stopped\n").map(drop);
    }
    let text = format!("the daemon has not ended within {} s", END_TIMEOUT.as_secs());
    Err(CommandFailure::new(ExitCode::Fatal, text))
}

/// Waits until a process ends; false if it does not within [`END_TIMEOUT`].
fn ends(process: &OwnedFd) -> bool {
    let limit = Timespec::try_from(END_TIMEOUT).ok();
    let mut ends = [PollFd::new(process, PollFlags::IN)];
    poll(&mut ends, limit.as_ref()).is_ok_and(|ready| ready > 0)
}
