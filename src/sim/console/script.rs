//! Scripts: files of console commands, with pauses.

use super::{ConsoleError, pause, run_line};
use crate::sim::SimFabric;
use std::fmt;

/// The line of a script that failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct ScriptError {
    pub name: String,
    /// Line number from 1.
    pub line: usize,
    #[source]
    pub error: ConsoleError,
}

impl fmt::Display for ScriptError {
    /// `file:line:column: text`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, line, error } = self;
        write!(f, "{name}:{line}:{}: {}", error.column, error.text)
    }
}

/// Executes the lines of a script on tokio's clock until one fails.
///
/// `progress` is called after each command with the line number, the line and its output, and at
/// the beginning of each pause.
///
/// # Errors
/// The line that failed; the lines before it have been executed.
pub async fn run(
    fabric: &SimFabric,
    name: &str,
    text: &str,
    mut progress: impl FnMut(usize, &str, &str),
) -> Result<(), ScriptError> {
    for (line, number) in text.lines().zip(1..) {
        if let Some(duration) = pause(line) {
            progress(number, line, "");
            tokio::time::sleep(duration).await;
            continue;
        }
        let output = run_line(fabric, line).map_err(|error| ScriptError {
            name: name.to_owned(),
            line: number,
            error,
        })?;
        if is_command(line) {
            progress(number, line, &output);
        }
    }
    Ok(())
}

/// False if the line is empty or a comment.
pub fn is_command(line: &str) -> bool {
    let line = line.trim_start();
    !line.is_empty() && !line.starts_with('#')
}
