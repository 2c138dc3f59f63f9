//! `torus-sm sim` and its subcommands `exec`, `shell` and `ctl`: command-line arguments.
//! [`crate::sim_command`] carries them out.

pub mod args;
pub mod ctl;
pub mod exec;
pub mod fabric;
pub mod shape;

use super::{Command, daemon, help_arg};
use args::SimArgs;
use clap::{ArgMatches, CommandFactory, Error, FromArgMatches};
use ctl::CtlArgs;
use exec::{ExecArgs, ShellArgs};

/// `sim` with its subcommands as a clap command.
pub(super) fn command() -> clap::Command {
    daemon::hide_options(SimArgs::command())
        .args_conflicts_with_subcommands(true)
        .subcommand_negates_reqs(true)
        .subcommand(ExecArgs::command().arg(help_arg()))
        .subcommand(ShellArgs::command().arg(help_arg()))
        .subcommand(ctl::command().arg(help_arg()))
}

/// Converts the arguments that clap has found after `sim`.
pub(super) fn from_matches(matches: &ArgMatches) -> Result<Command, Error> {
    Ok(match matches.subcommand() {
        Some(("exec", matches)) => {
            let args = ExecArgs::from_arg_matches(matches)?;
            Command::SimExec(args.attach, args.command)
        }
        Some(("shell", matches)) => Command::SimShell(ShellArgs::from_arg_matches(matches)?.attach),
        Some((_, matches)) => Command::SimCtl(CtlArgs::from_arg_matches(matches)?),
        None => Command::Sim(Box::new(SimArgs::from_arg_matches(matches)?)),
    })
}
