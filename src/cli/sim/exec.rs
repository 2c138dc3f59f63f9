//! Arguments of `torus-sm sim exec` and `torus-sm sim shell`.

use crate::cli::number::natural;
use clap::{Args, Parser};
use std::ffi::OsString;
use std::path::PathBuf;

/// Default of `--wait`, in seconds.
pub(super) const DEFAULT_WAIT: u32 = 10;

/// Run an unmodified InfiniBand program on a node of a running torus-sm sim.
///
/// The program finds the node's port under /dev/infiniband and /sys/class/infiniband, as on a
/// machine with an InfiniBand adapter.
#[derive(Clone, PartialEq, Eq, Debug, Parser)]
#[command(name = "exec")]
pub(super) struct ExecArgs {
    #[command(flatten)]
    pub attach: AttachArgs,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
}

/// Start a shell whose programs run on a node of a running torus-sm sim.
#[derive(Clone, PartialEq, Eq, Debug, Parser)]
#[command(name = "shell")]
pub(super) struct ShellArgs {
    #[command(flatten)]
    pub attach: AttachArgs,
}

/// Simulator, and node of its fabric, that programs run on.
#[derive(Clone, PartialEq, Eq, Debug, Default, Args)]
pub struct AttachArgs {
    /// Node to run on, and the only port of it to show: a GUID, a node description or the beginning
    /// of one, or the position of a switch such as 1,0,0. With VPORT, the index of a virtual port, to
    /// run on its virtual function [default: the node of the subnet manager in torus-sm sim]
    #[arg(long, value_name = "NODE[/PORT[/VPORT]]")]
    pub at: Option<String>,
    /// Wait so long for a simulator that is starting, until its subnet is up
    #[arg(long, value_name = "SECONDS", default_value_t = DEFAULT_WAIT,
          value_parser = natural::<u32>)]
    pub wait: u32,
    /// Socket of the simulator [default: $TORUS_SM_SIM_SOCKET, else the default of torus-sm sim]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
}
