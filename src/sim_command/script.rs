//! Console scripts: the file of `--script`, for the simulator and for `sim ctl`.

use crate::cli::output::print_or_end;
use crate::cli::{CommandFailure, ExitCode, SimArgs};
use crate::config::text_file::read_text;
use crate::sim::SimFabric;
use crate::sim::console::script;
use std::io;
use std::path::Path;

/// Name and text of the script that the simulator runs, if any.
pub(super) struct ConsoleScript(Option<(String, String)>);

impl ConsoleScript {
    pub(super) fn from_args(args: &SimArgs) -> Result<Self, CommandFailure> {
        if args.script.is_some() && args.daemon.once {
            let text = "--script cannot be combined with -o, which ends when the subnet is up";
            return Err(CommandFailure::new(ExitCode::Usage, text));
        }
        Ok(Self(args.script.as_deref().map(read).transpose()?))
    }

    /// Runs the script and prints each line with its output.
    pub(super) async fn run(&self, fabric: &SimFabric) -> Result<(), CommandFailure> {
        let Some((name, text)) = &self.0 else { return Ok(()) };
        let mut printed = Ok(());
        let result = script::run(fabric, name, text, |number, line, output| {
            print(name, number, line, output, &mut printed)
        })
        .await;
        result.map_err(|error| CommandFailure::new(ExitCode::Fatal, error))?;
        printed?;
        print_or_end(&format!("{name}: script finished\n"))
    }
}

fn print(
    name: &str,
    number: usize,
    line: &str,
    output: &str,
    printed: &mut Result<(), CommandFailure>,
) {
    if printed.is_ok() {
        *printed = print_or_end(&format!("{name}:{number}: {line}\n{output}"));
    }
}

/// Reads a script; returns its name for messages and its text. `-` is standard input.
pub(super) fn read(path: &Path) -> Result<(String, String), CommandFailure> {
    let is_stdin = path == Path::new("-");
    let name = if is_stdin { "standard input".into() } else { path.display().to_string() };
    let text = if is_stdin {
        io::read_to_string(io::stdin()).map_err(|error| format!("{name}: {error}"))
    } else {
        read_text(path).map_err(|error| error.to_string())
    };
    Ok((name, text.map_err(CommandFailure::config)?))
}
