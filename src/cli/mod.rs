//! argv → what to do.
//!
//! Without a subcommand the command line is opensm(8)'s, so that start scripts go on working:
//! [`flags`] is the table of its options, [`getopt`] the way getopt_long_only finds them in
//! argv, [`args`] what they mean. Subcommands are the first word: [`sim`], [`plan`], [`check`],
//! [`torus_config`]. [`help`] prints the table, [`configuration`] puts file and command line
//! together, [`exit`] has the exit codes.

pub mod args;
pub mod check;
pub mod configuration;
pub mod exit;
pub mod flags;
pub mod getopt;
pub mod help;
pub mod plan;
pub mod sim;
mod subcommand;
pub mod torus_config;

pub use args::DaemonArgs;
pub use check::CheckArgs;
pub use exit::{ExitCode, Failure};
pub use plan::PlanArgs;
pub use sim::args::SimArgs;
pub use sim::ctl::CtlArgs;
pub use sim::exec::AttachArgs;
pub use torus_config::TorusConfigArgs;

use crate::config::suggest;
use std::ffi::OsString;
use std::path::PathBuf;

/// What the command line asks for.
#[derive(Clone, PartialEq, Debug)]
pub enum Command {
    /// Run the daemon on a port of this machine.
    Daemon(DaemonArgs),
    /// Run the daemon on an embedded simulated fabric.
    Sim(SimArgs),
    /// Run a program, with arguments, on the embedded simulator of another process.
    SimExec(AttachArgs, Vec<OsString>),
    /// Start a shell for such programs.
    SimShell(AttachArgs),
    /// Lines for the console of the embedded simulator of another process.
    SimCtl(CtlArgs),
    /// Plan a fabric without touching any.
    Plan(Box<PlanArgs>),
    /// Read the configuration and say what is wrong with it.
    Check(Box<CheckArgs>),
    /// Derive torus-2QoS.conf from a fabric.
    TorusConfig(Box<TorusConfigArgs>),
    /// Write the configuration, with the options of the command line applied, to a file.
    CreateConfig(PathBuf, DaemonArgs),
    /// Print this text and exit with code 0.
    ShowHelp(String),
    /// Print the version and exit with code 0.
    ShowVersion,
}

/// A command line that makes no sense; exit code 2.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UsageError {
    /// No such option.
    #[error("unknown option '{option}'{}", did_you_mean(.suggestion.as_ref()))]
    UnknownOption {
        /// As given.
        option: String,
        /// The one that may have been meant.
        suggestion: Option<String>,
    },
    /// The beginning of several options.
    #[error("option '{option}' is ambiguous: it may be {}", .candidates.join(", "))]
    AmbiguousOption {
        /// As given.
        option: String,
        /// What it may stand for.
        candidates: Vec<String>,
    },
    /// An option without the argument it needs.
    #[error("option '{option}' needs an argument: {metavar}")]
    MissingArgument {
        /// As given.
        option: String,
        /// What is needed.
        metavar: &'static str,
    },
    /// An argument to an option that takes none.
    #[error("option '{option}' takes no argument")]
    SurplusArgument {
        /// As given.
        option: String,
    },
    /// A wrong argument.
    #[error("option '{option}': {message}")]
    BadValue {
        /// As given.
        option: String,
        /// What is wrong, and what would be right.
        message: String,
    },
    /// The first word is not a subcommand.
    #[error("unknown command '{word}'{}", did_you_mean(.suggestion.as_ref()))]
    UnknownCommand {
        /// As given.
        word: String,
        /// The one that may have been meant.
        suggestion: Option<String>,
    },
    /// A subcommand's own complaint.
    #[error("{0}")]
    Subcommand(String),
}

fn did_you_mean(suggestion: Option<&String>) -> String {
    suggestion.map(|name| format!("; did you mean '{name}'?")).unwrap_or_default()
}

/// The subcommands.
const COMMANDS: [&str; 4] = ["sim", "plan", "check", "torus-config"];

/// Understands the arguments after the program's name.
///
/// # Errors
/// What is wrong with them. Say it, point to `--help`, and exit with [`ExitCode::Usage`].
pub fn parse<I>(argv: I) -> Result<Command, UsageError>
where
    I: IntoIterator,
    I::Item: Into<String>,
{
    let argv: Vec<String> = argv.into_iter().map(Into::into).collect();
    match argv.split_first() {
        Some((word, rest)) if word == "sim" => sim::parse(rest),
        Some((word, rest)) if word == "plan" => plan::parse(rest),
        Some((word, rest)) if word == "check" => check::parse(rest),
        Some((word, rest)) if word == "torus-config" => torus_config::parse(rest),
        Some((word, _)) if !word.starts_with('-') => Err(UsageError::UnknownCommand {
            word: word.clone(),
            suggestion: suggest::closest(word, COMMANDS).map(str::to_owned),
        }),
        _ => args::parse(&argv),
    }
}

/// What `--version` prints.
pub fn version() -> String {
    format!("torus-sm {}", env!("CARGO_PKG_VERSION"))
}
