//! `torus-sm check`: reads what a start would read, and says what is wrong with it.

use super::args;
use super::subcommand::{split, usage_error};
use super::{Command, UsageError};
use crate::cli::DaemonArgs;
use clap::Parser;
use std::path::PathBuf;

/// Read every configuration file that a start with the same options would read, and show all
/// that is wrong with them, each with its place.
///
/// Takes the options of the daemon too (see torus-sm --help), such as -F, -P and
/// --torus_config. With a fabric it also shows what the partitions come to: members, groups, and
/// the P_Key table of every port; and with QoS which ports get the tables of which scopes of the
/// QoS policy, its levels, and the tables that ports get in the end. The exit code is 0 if there
/// is no error, else 4.
#[derive(Clone, PartialEq, Debug, Parser)]
#[command(name = "torus-sm check", disable_version_flag = true, max_term_width = 96)]
pub struct CheckArgs {
    /// Show what partitions and QoS come to on this fabric, a file in ibnetdiscover's format
    #[arg(long, value_name = "FABRIC")]
    pub file: Option<PathBuf>,
    /// Take warnings for errors
    #[arg(long)]
    pub strict: bool,
    /// What the command line says to the daemon
    #[arg(skip)]
    pub daemon: DaemonArgs,
}

/// How many words follow an option of this command.
fn arguments(name: &str) -> Option<usize> {
    match name {
        "--file" => Some(1),
        "--strict" => Some(0),
        _ => None,
    }
}

/// Understands the words after `check`.
pub(super) fn parse(argv: &[String]) -> Result<Command, UsageError> {
    let (mut own, others) = split("torus-sm check", argv, arguments);
    match args::parse_with_operands(&others)? {
        (Command::Daemon(daemon), operands) => {
            own.extend(operands);
            let check = CheckArgs::try_parse_from(own).map_err(|error| usage_error(&error))?;
            Ok(Command::Check(Box::new(CheckArgs { daemon, ..check })))
        }
        (Command::ShowHelp(_), _) => Ok(Command::ShowHelp(help())),
        (command, _) => Ok(command),
    }
}

/// What `check --help` prints.
pub fn help() -> String {
    <CheckArgs as clap::CommandFactory>::command().render_long_help().to_string()
}
