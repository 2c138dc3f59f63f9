//! `torus-sm sim` and its subcommands `exec`, `shell` and `ctl`: command-line arguments.
//! [`crate::sim_command`] carries them out.

pub mod args;
pub mod ctl;
pub mod exec;
pub mod shape;

use super::{Command, UsageError};

/// Parses the arguments after `sim`.
pub(super) fn parse(argv: &[String]) -> Result<Command, UsageError> {
    match argv.split_first() {
        Some((word, rest)) if word == "exec" => exec::parse_exec(rest),
        Some((word, rest)) if word == "shell" => exec::parse_shell(rest),
        Some((word, rest)) if word == "ctl" => ctl::parse(rest),
        _ => args::parse(argv),
    }
}
