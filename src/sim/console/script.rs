//! Many lines, one after the other, with pauses.

use super::{ConsoleError, pause, run_line};
use crate::sim::SimFabric;
use std::fmt;

/// The line of a script that failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct ScriptError {
    /// Name of the script.
    pub name: String,
    /// Number of the line, from 1.
    pub line: usize,
    /// What is wrong with it.
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

/// Runs the lines of a script in the fabric's time, up to the first that fails. `progress` hears
/// of every line that did something: its number, its text, the answer; of a pause when it begins.
///
/// # Errors
/// The line that failed. Those before it were carried out.
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
        let answer = run_line(fabric, line).map_err(|error| ScriptError {
            name: name.to_owned(),
            line: number,
            error,
        })?;
        if is_something(line) {
            progress(number, line, &answer);
        }
    }
    Ok(())
}

/// True if there is more in the line than a comment.
pub fn is_something(line: &str) -> bool {
    let line = line.trim_start();
    !line.is_empty() && !line.starts_with('#')
}
