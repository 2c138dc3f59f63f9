//! Runs the command that the arguments select, and returns its exit code.

#![warn(clippy::disallowed_macros)]

use std::process::ExitCode;
use torus_sm::cli::{self, Command, completions, output};
use torus_sm::daemon::launch::{self, CommandFailure};
use torus_sm::daemon::shadow::process;
use torus_sm::manage;
use torus_sm::offline::{self, check, replay, torus_config};
use torus_sm::sim_command::{ctl, exec, run};

fn main() -> ExitCode {
    completions::complete_if_asked();
    let mut args = std::env::args_os();
    let program = args.next();
    let argv: Vec<_> = args.collect();
    let command = match cli::parse(argv.iter().cloned()) {
        Ok(command) => command,
        Err(error) => {
            let text = format!("{error}\nTry '{} --help'.", cli::command_line_of(&argv));
            output::complain(&text);
            return cli::ExitCode::Usage.into();
        }
    };
    let outcome = match command {
        Command::ShowHelp(text) => print(&text),
        Command::ShowVersion => print(&cli::version(program.as_deref())),
        Command::CreateConfig(path, args) => launch::create_config(&path, &args),
        Command::Daemon(args) if args.dry_start || args.dry_start_json => {
            process::dry_start(&args, args.dry_start_json)
        }
        Command::Daemon(args) => launch::daemon(&args),
        Command::Sim(args) => run::run(&args),
        Command::SimExec(at, command) => exec::exec(&at, &command),
        Command::SimShell(at) => exec::shell(&at),
        Command::SimCtl(args) => ctl::run(&args),
        Command::Plan(args) => offline::run(&args, &mut output::standard()),
        Command::Check(args) => check::run(&args, &mut output::standard()),
        Command::Completions(args) => completions::script(args).and_then(|text| print(&text)),
        Command::Manage(command) => manage::client::run::run(&command),
        Command::Replay(args) => replay::run(&args, &mut std::io::stdout().lock()),
        Command::Shadow(args) => process::shadow(&args),
        Command::TorusConfig(args) => torus_config::run(&args, &mut std::io::stdout().lock()),
    };
    match outcome {
        Ok(code) => code.into(),
        Err(failure) => {
            // Nobody reads on: there is nothing to say.
            if !failure.text.is_empty() {
                output::complain(&failure.text);
            }
            failure.code.into()
        }
    }
}

fn print(text: &str) -> Result<cli::ExitCode, CommandFailure> {
    output::print(&format!("{}\n", text.trim_end())).map(|_| cli::ExitCode::Ok)
}
