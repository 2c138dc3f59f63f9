//! The start of a simulator: how it shows that its subnet manager has not yet finished, and how
//! other commands wait for it.

use super::client::SimulatorClient;
use crate::cli::output::complain;
use crate::cli::{CommandFailure, ExitCode};
use crate::publish::Subnet;
use crate::publish::rejected::PlanRejected;
use crate::sim::serve::protocol::STARTING_FILE;
use crate::sm::sm_info::SmStatus;
use crate::wire::attr::SmState;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Interval at which a condition is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Time after which a waiting command says so.
const QUIET_TIME: Duration = Duration::from_secs(1);

/// The mark of a simulator whose subnet manager has not yet configured the subnet: a file, removed
/// when this is dropped.
pub(super) struct StartingMark(PathBuf);

impl StartingMark {
    /// Creates the file in the directory that programs see.
    ///
    /// # Errors
    /// The file cannot be created.
    pub(super) fn create(directory: &Path) -> Result<Self, CommandFailure> {
        let path = directory.join(STARTING_FILE);
        let written = fs::write(&path, "");
        written.map_err(|error| {
            CommandFailure::new(ExitCode::System, format!("{}: {error}", path.display()))
        })?;
        Ok(Self(path))
    }

    /// Removes the mark when the subnet is up, its routes are refused, or the subnet manager does
    /// not become master.
    pub(super) async fn hold(
        self,
        mut subnet: watch::Receiver<Option<Arc<Subnet>>>,
        mut refused: watch::Receiver<Option<Arc<PlanRejected>>>,
        mut status: watch::Receiver<SmStatus>,
    ) {
        let is_passive =
            |status: &SmStatus| matches!(status.state, SmState::Standby | SmState::NotActive);
        tokio::select! {
            _ = subnet.wait_for(Option::is_some) => {}
            _ = refused.wait_for(Option::is_some) => {}
            _ = status.wait_for(is_passive) => {}
        }
    }
}

impl Drop for StartingMark {
    fn drop(&mut self) {
        // The directory goes with the simulator.
        let _ = fs::remove_file(&self.0);
    }
}

/// Connects to the simulator at `path`; waits up to `limit` for one that is starting.
///
/// # Errors
/// There is none.
pub(super) fn connect(path: &Path, limit: Duration) -> Result<SimulatorClient, CommandFailure> {
    let mut client = None;
    wait(limit, &format!("a simulator at {}", path.display()), || {
        let connected = SimulatorClient::connect(path.to_owned());
        let is_there = connected.is_ok();
        client = Some(connected);
        is_there
    });
    client.unwrap_or_else(|| SimulatorClient::connect(path.to_owned()))
}

/// Waits up to `limit` until the subnet manager of the simulator has configured the subnet.
/// `directory` is that of a node.
pub(super) fn wait_for_subnet(directory: &Path, limit: Duration) {
    let mark = directory.parent().unwrap_or(directory).join(STARTING_FILE);
    if !wait(limit, "the subnet of the simulator to come up", || !mark.exists()) {
        complain("the subnet of the simulator is not up yet");
    }
}

/// Checks a condition until it is true or `limit` has passed; returns whether it is.
#[expect(clippy::disallowed_methods, reason = "this process has nothing else to do meanwhile")]
fn wait(limit: Duration, what: &str, mut is_met: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    let mut is_quiet = true;
    loop {
        if is_met() {
            return true;
        }
        let waited = start.elapsed();
        if waited >= limit {
            return false;
        }
        if is_quiet && waited >= QUIET_TIME {
            complain(&format!("waiting up to {} s for {what}", limit.as_secs()));
            is_quiet = false;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}
