//! Arguments of `torus-sm sim ctl`: commands for the console of a simulated fabric.

use super::exec::DEFAULT_WAIT;
use crate::cli::number::natural;
use crate::sim::console::help;
use clap::{CommandFactory, Parser};
use std::path::PathBuf;

/// Inject faults into the fabric of a running torus-sm sim, and show its state.
///
/// The console command is given as arguments, or with --script as lines of a file, which may
/// contain pauses. torus-sm sim ctl help lists the commands.
#[derive(Clone, PartialEq, Eq, Debug, Parser)]
#[command(name = "ctl")]
pub struct CtlArgs {
    /// Socket of the simulator [default: $TORUS_SM_SIM_SOCKET, else the default of torus-sm sim]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Wait so long for a simulator that is starting
    #[arg(long, value_name = "SECONDS", default_value_t = DEFAULT_WAIT,
          value_parser = natural::<u32>)]
    pub wait: u32,
    /// Run the commands in this file (- for standard input) until one fails
    #[arg(long, value_name = "FILE", conflicts_with = "line")]
    pub script: Option<PathBuf>,
    /// The console command and its arguments
    #[arg(
        required_unless_present = "script",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    pub line: Vec<String>,
}

impl CtlArgs {
    /// The arguments as one line of the console, with the quotes that the shell has removed. A
    /// single argument is the whole line, since ports such as `1,0,0[1]` are patterns to a shell.
    pub fn as_line(&self) -> String {
        if let [line] = &self.line[..] {
            return line.clone();
        }
        let words: Vec<String> = self.line.iter().map(|word| quoted(word)).collect();
        words.join(" ")
    }
}

/// Quotes a word that contains blanks; a port number at its end stays outside the quotes.
fn quoted(word: &str) -> String {
    if word.contains('"') || !(word.is_empty() || word.contains([' ', '\t', '#'])) {
        return word.to_owned();
    }
    let cut = if word.ends_with(']') { word.rfind('[') } else { word.rfind('/') };
    match cut.map(|at| word.split_at(at)) {
        Some((name, port)) if is_port(port) => format!("\"{name}\"{port}"),
        _ => format!("\"{word}\""),
    }
}

fn is_port(suffix: &str) -> bool {
    let digits = suffix.trim_matches(['[', ']', '/']);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// `ctl` as a clap command whose help lists the console commands.
pub(super) fn command() -> clap::Command {
    CtlArgs::command().after_long_help(format!("Commands:\n{}", help::help(None)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_argument_is_a_whole_line() {
        assert_eq!(line(&["link 1,0,0[1] down"]), "link 1,0,0[1] down");
        assert_eq!(line(&["unlink", "sw 1,0,0"]), "unlink \"sw 1,0,0\"");
    }

    fn line(words: &[&str]) -> String {
        let line = words.iter().map(|&word| word.to_owned()).collect();
        CtlArgs { socket: None, wait: 0, script: None, line }.as_line()
    }

    #[test]
    fn words_with_blanks_are_quoted_without_their_port() {
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
