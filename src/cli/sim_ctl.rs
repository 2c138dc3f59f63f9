//! `torus-sm sim ctl`: lines for the console of a simulated fabric.

use super::{Command, UsageError};
use crate::sim::console::help;
use clap::{CommandFactory, Parser};
use std::path::PathBuf;

/// Let things go wrong on a fabric that torus-sm sim simulates, and look at it.
///
/// A line is given as words, or with --script as lines of a file, which may wait in between.
/// torus-sm sim ctl help lists the verbs.
#[derive(Clone, PartialEq, Eq, Debug, Parser)]
#[command(name = "torus-sm sim ctl", disable_version_flag = true, max_term_width = 96)]
pub struct CtlArgs {
    /// The socket of the simulator [default: $TORUS_SM_SIM_SOCKET, else as of torus-sm sim]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Run the lines of this file, - for standard input, up to the first that fails
    #[arg(long, value_name = "FILE", conflicts_with = "line")]
    pub script: Option<PathBuf>,
    /// The verb and what follows it
    #[arg(
        required_unless_present = "script",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "VERB"
    )]
    pub line: Vec<String>,
}

impl CtlArgs {
    /// The words as a line of the console: what the shell took the quotes from has them again.
    pub fn as_line(&self) -> String {
        let words: Vec<String> = self.line.iter().map(|word| quoted(word)).collect();
        words.join(" ")
    }
}

/// A word with quotes if it needs them; a port behind it stays outside.
fn quoted(word: &str) -> String {
    if word.contains('"') || !(word.is_empty() || word.contains([' ', '\t', '#'])) {
        return word.to_owned();
    }
    let cut = if word.ends_with(']') { word.rfind('[') } else { word.rfind('/') };
    let is_port = |suffix: &str| {
        let digits = suffix.trim_matches(['[', ']', '/']);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    match cut.map(|at| word.split_at(at)) {
        Some((name, port)) if is_port(port) => format!("\"{name}\"{port}"),
        _ => format!("\"{word}\""),
    }
}

/// Understands the words after `sim ctl`.
pub(super) fn parse(argv: &[String]) -> Result<Command, UsageError> {
    let name = "torus-sm sim ctl".to_owned();
    match CtlArgs::try_parse_from(std::iter::once(&name).chain(argv)) {
        Ok(args) => Ok(Command::SimCtl(args)),
        Err(error) if error.kind() == clap::error::ErrorKind::DisplayHelp => {
            let text = CtlArgs::command().render_long_help();
            Ok(Command::ShowHelp(format!("{text}\nVerbs:\n{}", help::help(None))))
        }
        Err(error) => Err(super::sim::complaint(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_the_line_that_was_meant() {
        for (word, line) in [
            ("link", "link"),
            ("1,2,3[4]", "1,2,3[4]"),
            ("sw 0,0,0", "\"sw 0,0,0\""),
            ("sw 0,0,0[3]", "\"sw 0,0,0\"[3]"),
            ("sw 0,0,0/3", "\"sw 0,0,0\"/3"),
            ("two words/x", "\"two words/x\""),
            ("\"S-1\"[2]", "\"S-1\"[2]"),
            ("", "\"\""),
        ] {
            assert_eq!(quoted(word), line);
        }
    }
}
