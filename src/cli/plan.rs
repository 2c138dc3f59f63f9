//! `torus-sm plan`: everything but touching the fabric.

use super::args;
use super::sim::args::{FABRIC_OPTIONS, SimArgs};
use super::subcommand::{split, usage_error};
use super::{Command, UsageError};
use clap::Parser;
use std::path::PathBuf;

/// Place, route and verify a fabric without any port, and report.
///
/// Takes the options of the daemon too (see torus-sm --help), such as -R, -Q and --torus_config.
/// A generated fabric comes with the torus-2QoS.conf that describes it, and is routed by
/// torus-2QoS unless an engine is named. The exit code is 0 if the fabric can be routed.
#[derive(Clone, PartialEq, Debug, Parser)]
#[command(name = "torus-sm plan", disable_version_flag = true, max_term_width = 96)]
pub struct PlanArgs {
    /// The fabric, and what the command line says to the daemon, as for `sim`
    #[command(flatten)]
    pub sim: SimArgs,
    /// Show the path from A to B, which are port or node GUIDs, LIDs or node descriptions, hop
    /// by hop
    #[arg(long, num_args = 2, value_names = ["A", "B"])]
    pub path: Option<Vec<String>>,
    /// Show the service level of every path between hosts
    #[arg(long)]
    pub path_sl: bool,
    /// Take out every switch and every cable between switches in turn, and tell what that does
    #[arg(long)]
    pub what_if: bool,
    /// The same with every pair of them
    #[arg(long)]
    pub what_if_pairs: bool,
    /// Draw the torus plane by plane, with what is missing
    #[arg(long, value_name = "FILE.svg")]
    pub draw: Option<PathBuf>,
    /// Write OpenSM's dump files to this folder
    #[arg(long, value_name = "DIR")]
    pub dump: Option<PathBuf>,
    /// Write the fabric as ibsim and --file read it, and the torus-2QoS.conf used, to this folder
    #[arg(long, value_name = "DIR")]
    pub write: Option<PathBuf>,
    /// Report in JSON
    #[arg(long)]
    pub json: bool,
}

/// How many words follow an option of this command.
fn arguments(name: &str) -> Option<usize> {
    match name {
        "--path" => Some(2),
        "--draw" | "--dump" | "--write" => Some(1),
        "--path-sl" | "--what-if" | "--what-if-pairs" | "--json" => Some(0),
        _ => FABRIC_OPTIONS.contains(&name).then_some(1),
    }
}

/// Understands the words after `plan`.
pub(super) fn parse(argv: &[String]) -> Result<Command, UsageError> {
    let (mut own, others) = split("torus-sm plan", argv, arguments);
    match args::parse_with_operands(&others)? {
        (Command::Daemon(daemon), operands) => {
            own.extend(operands);
            let mut plan = PlanArgs::try_parse_from(own).map_err(|error| usage_error(&error))?;
            plan.sim.daemon = daemon;
            Ok(Command::Plan(Box::new(plan)))
        }
        (Command::ShowHelp(_), _) => Ok(Command::ShowHelp(help())),
        (command, _) => Ok(command),
    }
}

/// What `plan --help` prints.
pub fn help() -> String {
    <PlanArgs as clap::CommandFactory>::command().render_long_help().to_string()
}
