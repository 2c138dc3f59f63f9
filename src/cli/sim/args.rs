//! Arguments of `torus-sm sim`: the fabric to simulate, and the daemon's options.

use super::shape::{Position, PositionAndDirection};
use crate::cli::args::{self, DaemonArgs};
use crate::cli::subcommand::{long_help, split, usage_error};
use crate::cli::{Command, UsageError};
use crate::sim::generate::Shape;
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
#[command(name = "torus-sm sim", disable_version_flag = true, max_term_width = 96)]
pub struct SimArgs {
    /// Switches in each dimension, such as 6x5x1 or 8x8x8; an m after a number makes that
    /// dimension a mesh (no wrap-around links), as in 6x5mx1
    #[arg(required_unless_present = "file", conflicts_with = "file", value_name = "SHAPE")]
    pub shape: Option<Shape>,
    /// Hosts (channel adapters with one port) at each switch, 0 to 200
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=200))]
    pub hosts: u8,
    /// Parallel cables between neighbouring switches, 1 to 30
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=30))]
    pub parallel: u8,
    /// Omit this switch with its hosts and cables; may be repeated
    #[arg(long, value_name = "X,Y,Z")]
    pub missing_switch: Vec<Position>,
    /// Omit the cables of this switch in this direction, as in 0,0,0:+x; may be repeated
    #[arg(long, value_name = "X,Y,Z:DIRECTION")]
    pub missing_link: Vec<PositionAndDirection>,
    /// Read the fabric from a file in the format of ibnetdiscover
    #[arg(long, value_name = "FABRIC")]
    pub file: Option<PathBuf>,
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
    /// Options of the daemon
    #[arg(skip)]
    pub daemon: DaemonArgs,
}

/// Options that describe the simulated fabric, each with one argument.
pub(in crate::cli) const FABRIC_OPTIONS: [&str; 5] =
    ["--hosts", "--parallel", "--missing-switch", "--missing-link", "--file"];

/// Number of arguments of an option of `sim`; `None` for all other words.
fn arity(name: &str) -> Option<usize> {
    match name {
        "--no-sm" => Some(0),
        "--socket" | "--script" => Some(1),
        _ => FABRIC_OPTIONS.contains(&name).then_some(1),
    }
}

impl SimArgs {
    /// Complete description of the fabric to generate; `None` if the fabric comes from a file.
    ///
    /// # Errors
    /// A switch or cable to omit is outside of the shape.
    pub fn generated(&self) -> Result<Option<Shape>, String> {
        let Some(mut shape) = self.shape.clone() else { return Ok(None) };
        shape.hosts = self.hosts;
        shape.parallel = self.parallel;
        for position in &self.missing_switch {
            let at = position.within(&shape)?;
            shape.missing_switches.push(at);
        }
        for link in &self.missing_link {
            let link = link.lower_end(&shape)?;
            shape.missing_links.push(link);
        }
        Ok(Some(shape))
    }
}

/// Parses the arguments of `sim` without a further subcommand.
pub(super) fn parse(argv: &[String]) -> Result<Command, UsageError> {
    let (mut own, others) = split("torus-sm sim", argv, arity);
    match args::parse_with_operands(&others)? {
        (Command::Daemon(daemon), operands) => {
            own.extend(operands);
            let sim = SimArgs::try_parse_from(own).map_err(|error| usage_error(&error))?;
            Ok(Command::Sim(SimArgs { daemon, ..sim }))
        }
        (Command::ShowHelp(_), _) => Ok(Command::ShowHelp(long_help::<SimArgs>())),
        (command, _) => Ok(command),
    }
}
