//! `torus-sm sim exec` and `torus-sm sim shell`: programs on a simulated fabric.

use super::sim::complaint;
use super::{Command, UsageError};
use clap::{Args, CommandFactory, Parser};
use std::ffi::OsString;
use std::path::PathBuf;

/// Run a program, unmodified, on a node of a fabric that torus-sm sim simulates.
///
/// The program finds the node's port under /dev/infiniband and /sys/class/infiniband, as
/// on a machine with an InfiniBand adapter.
#[derive(Clone, PartialEq, Eq, Debug, Parser)]
#[command(name = "torus-sm sim exec", disable_version_flag = true, max_term_width = 96)]
pub struct ExecArgs {
    /// Which simulator, and where in it
    #[command(flatten)]
    pub attach: AttachArgs,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
}

/// Start a shell whose programs run on a node of a fabric that torus-sm sim simulates.
#[derive(Clone, PartialEq, Eq, Debug, Parser)]
#[command(name = "torus-sm sim shell", disable_version_flag = true, max_term_width = 96)]
pub struct ShellArgs {
    /// Which simulator, and where in it
    #[command(flatten)]
    pub attach: AttachArgs,
}

/// Which simulator, and where in it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Args)]
pub struct AttachArgs {
    /// The node, and its only port to be seen: a GUID, a node description or its beginning
    /// [default: the node of the subnet manager in torus-sm sim]
    #[arg(long, value_name = "NODE[/PORT]")]
    pub at: Option<String>,
    /// The socket of the simulator [default: $TORUS_SM_SIM_SOCKET, else as of torus-sm sim]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
}

/// Understands the words after `sim exec`.
pub(super) fn parse_exec(argv: &[String]) -> Result<Command, UsageError> {
    parse(argv, |args: ExecArgs| Command::SimExec(args.attach, args.command))
}

/// Understands the words after `sim shell`.
pub(super) fn parse_shell(argv: &[String]) -> Result<Command, UsageError> {
    parse(argv, |args: ShellArgs| Command::SimShell(args.attach))
}

fn parse<A: Parser>(argv: &[String], understood: fn(A) -> Command) -> Result<Command, UsageError> {
    let name = A::command().get_name().to_owned();
    let words = std::iter::once(&name).chain(argv);
    match A::try_parse_from(words) {
        Ok(args) => Ok(understood(args)),
        Err(error) if error.kind() == clap::error::ErrorKind::DisplayHelp => {
            Ok(Command::ShowHelp(<A as CommandFactory>::command().render_long_help().to_string()))
        }
        Err(error) => Err(complaint(error)),
    }
}
