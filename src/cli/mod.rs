//! The command line.
//!
//! Without a subcommand the command line is that of opensm(8), so that existing start scripts work:
//! [`daemon`] has its options, and `long_only` accepts long options with a single dash, as
//! getopt_long_only(3) does. A subcommand is the first word: [`sim`], [`plan`], [`check`],
//! [`torus_config`], [`replay`], [`shadow`], [`completions`], [`help`], and those of [`manage`] for a running
//! daemon. A command behind an option is an error (`misplaced_command`). clap parses all of them.
//! [`configuration`] combines the configuration file with the command line; [`exit`] has the exit
//! codes; `candidates` complete arguments; [`output`] prints, with the colours of [`color`].

mod candidates;
pub mod check;
pub mod color;
pub mod completions;
pub mod configuration;
pub mod daemon;
pub mod exit;
mod help;
mod long_only;
pub mod manage;
mod misplaced_command;
mod number;
pub mod output;
pub mod plan;
pub mod replay;
pub mod shadow;
pub mod sim;
pub mod torus_config;

pub use check::CheckArgs;
pub use completions::CompletionsArgs;
pub use daemon::DaemonArgs;
pub use exit::{CommandFailure, ExitCode};
pub use manage::ManageCommand;
pub use plan::PlanArgs;
pub use replay::ReplayArgs;
pub use shadow::ShadowArgs;
pub use sim::args::SimArgs;
pub use sim::ctl::CtlArgs;
pub use sim::exec::AttachArgs;
pub use sim::fabric::FabricArgs;
pub use torus_config::TorusConfigArgs;

use crate::notes::{Note, OPENSM_VERSION};
use clap::error::{ContextKind, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Args, CommandFactory, FromArgMatches, Subcommand as _};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The program's task according to the command line.
#[derive(Clone, PartialEq, Debug)]
pub enum Command {
    /// Run the daemon on a port of this machine.
    Daemon(DaemonArgs),
    /// Run the daemon on an embedded simulated fabric.
    Sim(Box<SimArgs>),
    /// Run a program, with arguments, on the simulated fabric of another process.
    SimExec(AttachArgs, Vec<OsString>),
    /// Start a shell for such programs.
    SimShell(AttachArgs),
    /// Send commands to the console of the simulated fabric of another process.
    SimCtl(CtlArgs),
    /// Plan a fabric offline.
    Plan(Box<PlanArgs>),
    /// Check the configuration files.
    Check(Box<CheckArgs>),
    /// Show and repeat a recording.
    Replay(ReplayArgs),
    /// Watch the fabric of another subnet manager.
    Shadow(Box<ShadowArgs>),
    /// Derive torus-2QoS.conf from a fabric.
    TorusConfig(Box<TorusConfigArgs>),
    /// Talk to a running daemon.
    Manage(ManageCommand),
    /// Print the completions for a shell.
    Completions(CompletionsArgs),
    /// Write the configuration, with the options of the command line applied, to a file.
    CreateConfig(PathBuf, DaemonArgs),
    /// Print this text and exit with code 0.
    ShowHelp(String),
    /// Print the version and exit with code 0.
    ShowVersion,
}

/// An invalid command line; exit code 2.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(String);

impl From<clap::Error> for UsageError {
    /// Takes the message without clap's prefix and final hint, and without the usage line unless
    /// an argument is missing.
    fn from(mut error: clap::Error) -> Self {
        // clap suggests `--` before a word that looks like an option. The word would then be an
        // operand, which the daemon ignores like OpenSM.
        error.remove(ContextKind::Suggested);
        let text = error.to_string();
        let text = text.split("\n\nFor more information").next().unwrap_or("");
        let text = match error.kind() {
            ErrorKind::MissingRequiredArgument => text,
            _ => text.split("\n\nUsage:").next().unwrap_or(""),
        };
        Self(text.strip_prefix("error: ").unwrap_or(text).trim_end().to_owned())
    }
}

/// Id of the operands of the daemon, which OpenSM ignores.
const OPERANDS: &str = "operands";

/// Widest help text, in columns.
const MAX_HELP_WIDTH: usize = 100;

/// The whole command line as a clap command.
pub fn command() -> clap::Command {
    let command = ManageCommand::augment_subcommands(clap::Command::new("torus-sm"));
    let names: Vec<String> =
        command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let command = names.iter().fold(command, |command, name| {
        command.mut_subcommand(name, |command| command.arg(color::option()).arg(help_arg()))
    });
    DaemonArgs::augment_args(command)
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .about("InfiniBand subnet manager for torus fabrics")
        .help_template(
            "{name} {version}: {about}\n\n{usage-heading} {usage}\n\n{all-args}{after-help}",
        )
        .after_help(after_help())
        .max_term_width(MAX_HELP_WIDTH)
        .infer_long_args(true)
        .args_conflicts_with_subcommands(true)
        .disable_help_subcommand(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .arg(Arg::new(OPERANDS).num_args(0..).hide(true))
        .subcommand(sim::command())
        .subcommand(daemon::hide_options(PlanArgs::command().arg(color::option())))
        .subcommand(daemon::hide_options(CheckArgs::command().arg(color::option())))
        .subcommand(TorusConfigArgs::command().arg(help_arg()))
        .subcommand(ReplayArgs::command().arg(help_arg()))
        .subcommand(daemon::hide_options(ShadowArgs::command()))
        .subcommand(CompletionsArgs::command().arg(help_arg()))
        .subcommand(help::command().arg(help_arg()))
}

/// `--help` of a subcommand without the daemon's options.
fn help_arg() -> Arg {
    Arg::new("help")
        .short('h')
        .long("help")
        .action(ArgAction::Help)
        .help("Print this help and exit")
}

fn after_help() -> String {
    let codes = ExitCode::ALL.map(|(code, meaning)| format!("  {} {meaning}\n", code as u8));
    format!(
        "Exit codes:\n{}\nLong options may be abbreviated while the abbreviation is unambiguous, \
         and may start with a single dash.\nThe command line overrides the configuration file. \
         Manual: torus-sm(8).",
        codes.concat()
    )
}

/// Parses the arguments after the program's name.
///
/// # Errors
/// The arguments are invalid. Print the error, point to `--help`, and exit with
/// [`ExitCode::Usage`].
pub fn parse<I>(argv: I) -> Result<Command, UsageError>
where
    I: IntoIterator,
    I::Item: Into<OsString>,
{
    let argv = argv.into_iter().map(|word| utf8(word.into())).collect::<Result<Vec<_>, _>>()?;
    let mut command = command();
    command.build();
    let normalized = long_only::normalize(&command, &argv)?;
    let name = command.get_name().to_owned();
    let parsed = command
        .try_get_matches_from_mut(std::iter::once(name).chain(normalized))
        .and_then(|matches| from_matches(&mut command, &matches, &argv));
    match parsed {
        Ok(command) => Ok(command),
        Err(error) if error.kind() == ErrorKind::DisplayHelp => {
            Ok(Command::ShowHelp(help::grouped(&error.to_string())))
        }
        Err(error) if error.kind() == ErrorKind::DisplayVersion => Ok(Command::ShowVersion),
        Err(error) => Err(error.into()),
    }
}

/// The words that select the command of these arguments, for messages: `torus-sm sim exec`.
pub fn command_line_of(argv: &[OsString]) -> String {
    let mut words = String::from("torus-sm");
    let mut command = command();
    for word in argv.iter().map_while(|word| word.to_str()) {
        let Some(next) = command.find_subcommand(word).cloned() else { break };
        words = format!("{words} {word}");
        command = next;
    }
    words
}

fn utf8(word: OsString) -> Result<String, UsageError> {
    word.into_string().map_err(|word| UsageError(format!("argument {word:?} is not valid UTF-8")))
}

fn from_matches(
    command: &mut clap::Command,
    matches: &ArgMatches,
    argv: &[String],
) -> Result<Command, clap::Error> {
    let parsed = match matches.subcommand() {
        Some(("sim", matches)) => sim::from_matches(matches)?,
        Some(("plan", matches)) => {
            color::choose(matches);
            Command::Plan(Box::new(PlanArgs::from_arg_matches(matches)?))
        }
        Some(("check", matches)) => {
            color::choose(matches);
            Command::Check(Box::new(CheckArgs::from_arg_matches(matches)?))
        }
        Some(("replay", matches)) => Command::Replay(ReplayArgs::from_arg_matches(matches)?),
        Some(("shadow", matches)) => {
            Command::Shadow(Box::new(ShadowArgs::from_arg_matches(matches)?))
        }
        Some(("torus-config", matches)) => {
            Command::TorusConfig(Box::new(TorusConfigArgs::from_arg_matches(matches)?))
        }
        Some(("completions", matches)) => {
            Command::Completions(CompletionsArgs::from_arg_matches(matches)?)
        }
        Some(("help", matches)) => help::show(command, matches)?,
        Some((_, of_command)) => {
            color::choose(of_command);
            Command::Manage(ManageCommand::from_arg_matches(matches)?)
        }
        None => daemon_from_matches(command, matches, argv)?,
    };
    Ok(create_config(parsed))
}

fn daemon_from_matches(
    command: &mut clap::Command,
    matches: &ArgMatches,
    argv: &[String],
) -> Result<Command, clap::Error> {
    if let Some(word) = argv.first().filter(|word| !word.starts_with('-')) {
        return Err(unknown_command(command, word));
    }
    let mut args = DaemonArgs::from_arg_matches(matches)?;
    let operands = matches.get_many::<String>(OPERANDS).into_iter().flatten();
    misplaced_command::check(command, operands.clone(), argv)
        .map_err(|text| command.error(ErrorKind::InvalidSubcommand, text))?;
    for operand in operands {
        args.notes.push(Note::warning(format!("argument '{operand}' is ignored")));
    }
    Ok(Command::Daemon(args))
}

fn unknown_command(command: &mut clap::Command, word: &str) -> clap::Error {
    let text = help::unknown(command, word);
    command.error(ErrorKind::InvalidSubcommand, text)
}

/// `-c` writes the configuration in place of any other task.
fn create_config(command: Command) -> Command {
    let mut args = match &command {
        Command::Daemon(args) => args.clone(),
        Command::Sim(sim) => sim.daemon.clone(),
        Command::Plan(plan) => plan.daemon.clone(),
        Command::Check(check) => check.daemon.clone(),
        _ => return command,
    };
    match args.create_config.take() {
        Some(path) => Command::CreateConfig(path, args),
        None => command,
    }
}

/// The text of `--version`, by the first argument of the command line: scripts that call `opensm`
/// expect OpenSM's version first.
pub fn version(program: Option<&OsStr>) -> String {
    if program.map(Path::new).and_then(Path::file_name) == Some(OsStr::new("opensm")) {
        return OPENSM_VERSION.to_owned();
    }
    format!("torus-sm {}", env!("CARGO_PKG_VERSION"))
}
