//! The console of a simulated fabric: lines that pull cables, silence nodes, lose and damage
//! MADs, set counters and show what is there.
//!
//! ```text
//! line ──scan──► words ──parse──► Verb ──execute (resolve: names → nodes, ports)──► text
//! ```
//!
//! [`run_line`] is all of it for one line; [`script`] runs many with pauses between them. The
//! verbs are those of [`help::VERBS`], among them ibsim's where they mean the same. What is
//! wrong is said with the column where it is.

pub mod help;
pub mod script;

mod execute;
mod parse;
mod resolve;
mod scan;
mod show;
mod verb;

#[cfg(test)]
mod tests;

use super::SimFabric;
use std::time::Duration;
use verb::Verb;

/// Why a line was not carried out.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("column {column}: {text}")]
pub struct ConsoleError {
    /// Where in the line, in characters from 1.
    pub column: usize,
    /// What is wrong.
    pub text: String,
}

impl ConsoleError {
    fn new(column: usize, text: impl Into<String>) -> Self {
        Self { column, text: text.into() }
    }
}

/// Carries a line out and gives the answer, which may be empty. An empty line does nothing.
/// Does not block: `wait` is for those who run scripts, see [`pause`].
///
/// # Errors
/// What is wrong with the line; then nothing was done.
pub fn run_line(fabric: &SimFabric, line: &str) -> Result<String, ConsoleError> {
    match parse::parse(line)? {
        Some(Verb::Wait(_)) => Err(ConsoleError::new(1, "there is nothing to wait for here")),
        Some(verb) => execute::execute(fabric, verb),
        None => Ok(String::new()),
    }
}

/// How long a line asks to wait; `None` for all others, wrong ones too.
pub fn pause(line: &str) -> Option<Duration> {
    match parse::parse(line) {
        Ok(Some(Verb::Wait(duration))) => Some(duration),
        _ => None,
    }
}
