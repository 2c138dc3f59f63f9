//! Arguments of `torus-sm sim`: the fabric to simulate, and the daemon's options.

use super::fabric::FabricArgs;
use crate::cli::DaemonArgs;
use clap::Parser;
use std::path::PathBuf;

/// Simulate a fabric, run the subnet manager on it, and print a short report.
///
/// The subnet manager and the fabric stay up until interrupted (Ctrl-C), or until the first sweep
/// with -o. All options of the daemon are accepted; see torus-sm --help.
///
/// While they are up, torus-sm sim exec and torus-sm sim shell run InfiniBand programs on the
/// simulated fabric, and torus-sm sim ctl injects faults.
#[derive(Clone, PartialEq, Debug, Parser)]
#[command(name = "sim")]
pub struct SimArgs {
    #[command(flatten)]
    pub fabric: FabricArgs,
    /// Simulate the fabric without a subnet manager; start one with torus-sm sim exec
    #[arg(long)]
    pub no_sm: bool,
    /// Unix socket that torus-sm sim exec, shell and ctl connect to [default:
    /// torus-sm/sim.sock in $XDG_RUNTIME_DIR; /run/torus-sm/sim.sock for root;
    /// /tmp/torus-sm-UID/sim.sock]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Run the console commands in this file once the subnet is up; torus-sm sim ctl help lists
    /// the commands
    #[arg(long, value_name = "FILE")]
    pub script: Option<PathBuf>,
    #[command(flatten)]
    pub daemon: DaemonArgs,
}
