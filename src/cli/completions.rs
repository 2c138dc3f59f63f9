//! Arguments of `torus-sm completions`, and the scripts that it prints.

use super::{Failure, command};
use clap::{Parser, ValueEnum};

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

impl From<Shell> for clap_complete::Shell {
    fn from(shell: Shell) -> Self {
        match shell {
            Shell::Bash => Self::Bash,
            Shell::Zsh => Self::Zsh,
            Shell::Fish => Self::Fish,
        }
    }
}

/// The completions for a shell, as a script of its language.
///
/// # Errors
/// The generator wrote text that is not UTF-8.
pub fn script(args: CompletionsArgs) -> Result<String, Failure> {
    let mut text = Vec::new();
    let shell = clap_complete::Shell::from(args.shell);
    clap_complete::generate(shell, &mut command(), "torus-sm", &mut text);
    String::from_utf8(text).map_err(|error| Failure::new(super::ExitCode::System, error))
}
