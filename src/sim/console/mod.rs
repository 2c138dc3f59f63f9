//! Console of a simulated fabric: text commands that unplug cables, inject faults, set counters and
//! show the state of the fabric.
//!
//! ```text
//! line ──scan──► words ──parse──► ConsoleCommand ──execute (resolve: names → ports)──► text
//! ```
//!
//! [`run_line`] does this for one line; [`script`] runs a file of lines, with pauses.
//! [`help::COMMANDS`] lists the commands, which include those of ibsim. Errors have a column.

pub mod help;
pub mod script;

mod args;
mod cables;
mod command;
mod congestion;
mod execute;
mod parse;
mod parse_faults;
mod paths;
mod random_faults;
mod resolve;
mod scan;
mod show;
mod show_faults;
mod show_sma;
mod traffic;
mod vendor;
mod vports;

#[cfg(test)]
mod tests;

use super::SimFabric;
use command::ConsoleCommand;
use std::time::Duration;

/// Error in a line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("column {column}: {text}")]
pub struct ConsoleError {
    /// Position in the line, in characters from 1.
    pub column: usize,
    pub text: String,
}

impl ConsoleError {
    fn new(column: usize, text: impl Into<String>) -> Self {
        Self { column, text: text.into() }
    }
}

/// Executes a line; returns its output, which may be empty. Never blocks: the callers that run
/// scripts handle `wait` themselves, see [`pause`].
///
/// # Errors
/// The line is invalid; nothing was changed.
pub fn run_line(fabric: &SimFabric, line: &str) -> Result<String, ConsoleError> {
    match parse::parse(line)? {
        Some(ConsoleCommand::Wait(_)) => {
            Err(ConsoleError::new(1, "'wait' is allowed in scripts only"))
        }
        Some(verb) => execute::execute(fabric, verb),
        None => Ok(String::new()),
    }
}

/// Parses a duration as the commands do, such as `50us`; without a unit in seconds.
///
/// # Errors
/// It is none, or longer than one day.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    args::duration(text).ok_or_else(|| format!("'{text}' is not a duration such as 50us or 1.5ms"))
}

/// Duration of a `wait` line; `None` for all other lines.
pub fn pause(line: &str) -> Option<Duration> {
    match parse::parse(line) {
        Ok(Some(ConsoleCommand::Wait(duration))) => Some(duration),
        _ => None,
    }
}
