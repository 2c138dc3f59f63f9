//! Arguments of `torus-sm completions`, the scripts that it prints, and the completions that these ask for.

use super::candidates::with_completers;
use super::{CommandFailure, ExitCode, command};
use clap::{Parser, ValueEnum};
use clap_complete::env::{CompleteEnv, Shells};

/// Print the completions of the command line for a shell.
///
/// Packages install them. Else, for example: torus-sm completions bash
/// > /etc/bash_completion.d/torus-sm
#[derive(Clone, Copy, PartialEq, Eq, Debug, Parser)]
#[command(name = "completions")]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// A shell with completions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl Shell {
    fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
        }
    }
}

/// Name of the program, for the shell that calls it.
const PROGRAM: &str = "torus-sm";

/// Environment variable with the name of the shell that asks for completions.
const VARIABLE: &str = "TORUS_SM_COMPLETE";

/// Completes a command line and ends the process, if a shell asks for it.
pub fn complete_if_asked() {
    CompleteEnv::with_factory(|| with_completers(command())).var(VARIABLE).bin(PROGRAM).complete();
}

/// The script by which a shell asks this program for completions, in the language of the shell.
///
/// # Errors
/// The generator wrote text that is not UTF-8.
pub fn script(args: CompletionsArgs) -> Result<String, CommandFailure> {
    let name = args.shell.name();
    let shells = Shells::builtins();
    let shell = shells
        .completer(name)
        .ok_or_else(|| system_error(&format!("no completions for {name}")))?;
    let mut text = Vec::new();
    let written = shell.write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut text);
    written.map_err(|error| system_error(&error))?;
    String::from_utf8(text).map_err(|error| system_error(&error))
}

fn system_error(error: &dyn std::fmt::Display) -> CommandFailure {
    CommandFailure::new(ExitCode::System, error)
}
