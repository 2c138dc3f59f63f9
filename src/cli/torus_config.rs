//! `torus-sm torus-config`: writes torus-2QoS.conf from the cables of a fabric.

use super::sim::args::SimArgs;
use super::subcommand::usage_error;
use super::{Command, UsageError};
use clap::Parser;
use std::path::PathBuf;

/// Find out which torus or mesh a fabric is, and write the torus-2QoS.conf for it.
///
/// The fabric comes from a file in ibnetdiscover's format, or is generated. What is missing or
/// does not fit is told on standard error and in comments of the result. The exit code is 0 if
/// torus-2QoS routes the fabric with it.
#[derive(Clone, PartialEq, Debug, Parser)]
#[command(name = "torus-sm torus-config", disable_version_flag = true, max_term_width = 96)]
pub struct TorusConfigArgs {
    /// The fabric, as for `sim`
    #[command(flatten)]
    pub sim: SimArgs,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
}

/// Understands the words after `torus-config`.
pub(super) fn parse(argv: &[String]) -> Result<Command, UsageError> {
    let words = ["torus-sm torus-config".to_owned()].into_iter().chain(argv.iter().cloned());
    match TorusConfigArgs::try_parse_from(words) {
        Ok(args) => Ok(Command::TorusConfig(Box::new(args))),
        Err(error) if error.kind() == clap::error::ErrorKind::DisplayHelp => {
            Ok(Command::ShowHelp(error.to_string()))
        }
        Err(error) => Err(usage_error(&error)),
    }
}
