//! `torus-sm sim ctl`: sends commands to the console of a running simulator. Pauses of a script are
//! spent in this process, so that the simulator can serve other clients meanwhile.

use super::client::{SimulatorClient, socket_path};
use super::script::read;
use super::starting;
use crate::cli::output::{self, print_or_end};
use crate::cli::{CommandFailure, CtlArgs, ExitCode};
use crate::sim::console::{ConsoleError, help, pause, script};
use crate::sim::serve::protocol::{CONSOLE, read_console_reply};
use std::time::Duration;

/// Sends the command, or the commands of the script, and prints their output.
///
/// # Errors
/// There is no simulator, or a command failed.
pub fn run(args: &CtlArgs) -> Result<ExitCode, CommandFailure> {
    if let Some(text) = help_of(args) {
        output::print(&text)?;
        return Ok(ExitCode::Ok);
    }
    let mut console = SimConsole(starting::connect(
        &socket_path(args.socket.as_deref()),
        Duration::from_secs(args.wait.into()),
    )?);
    match &args.script {
        None => {
            let line = args.as_line();
            let result = console.execute(&line)?;
            let text = result.map_err(|error| {
                CommandFailure::new(ExitCode::Fatal, with_marker(&line, &error))
            })?;
            output::print(&text)?;
        }
        Some(path) => {
            let (name, text) = read(path)?;
            console.run_script(&name, &text)?;
        }
    }
    Ok(ExitCode::Ok)
}

/// Output of the command `help`, which needs no simulator; `None` for all other commands.
fn help_of(args: &CtlArgs) -> Option<String> {
    match args.line.as_slice() {
        [command] if command.eq_ignore_ascii_case("help") => Some(help::help(None)),
        [command, name] if command.eq_ignore_ascii_case("help") => Some(help::help(Some(name))),
        _ => None,
    }
}

/// The message of an error, and the line with a marker at the column of the error.
fn with_marker(line: &str, error: &ConsoleError) -> String {
    let indent = " ".repeat(error.column.saturating_sub(1));
    format!("{}\n  {line}\n  {indent}^", error.text)
}

/// Console of a running simulator.
struct SimConsole(SimulatorClient);

impl SimConsole {
    /// Executes a line, or spends the pause that it requests; returns its output.
    #[expect(clippy::disallowed_methods, reason = "this process has nothing else to do meanwhile")]
    fn execute(&mut self, line: &str) -> Result<Result<String, ConsoleError>, CommandFailure> {
        if let Some(duration) = pause(line) {
            std::thread::sleep(duration);
            return Ok(Ok(String::new()));
        }
        let (errno, body) = self.0.request(CONSOLE, line.as_bytes())?;
        let reply = read_console_reply(errno, &body).ok_or_else(|| {
            let text = format!("invalid reply from the simulator at {}", self.0.path().display());
            CommandFailure::new(ExitCode::NoPort, text)
        })?;
        Ok(reply.map_err(|(column, text)| ConsoleError { column, text }))
    }

    /// Executes the lines of a script, and prints each line with its output.
    fn run_script(&mut self, name: &str, text: &str) -> Result<(), CommandFailure> {
        for (line, number) in text.lines().zip(1..) {
            if !script::is_command(line) {
                continue;
            }
            print_or_end(&format!("{number}: {line}\n"))?;
            match self.execute(line)? {
                Ok(text) => print_or_end(&text)?,
                Err(error) => {
                    let error = script::ScriptError { name: name.to_owned(), line: number, error };
                    return Err(CommandFailure::new(ExitCode::Fatal, error));
                }
            }
        }
        Ok(())
    }
}
