//! The commands as processes: configuration, port, output and exit code.

use super::dry_start::DryStart;
use super::first_start::FirstStart;
use super::port::ShadowPort;
use crate::cli::output::{complain, print};
use crate::cli::{DaemonArgs, ExitCode, Failure};
use crate::config::options::Options;
use crate::daemon::launch::{choose_port, configure, read_files};
use crate::daemon::sm_loop::files::StateFiles;
use crate::transport::MadPort;
use crate::transport::sysfs::LocalPort;
use crate::transport::umad::{OpenError, UmadPort};
use std::sync::Arc;
use tokio::runtime::Runtime;

/// Opens a port of this host for requests only: requests of others go to the subnet manager.
fn open_local(options: &Options, local: &LocalPort) -> Result<ShadowPort, Failure> {
    let opened = ShadowPort::open(options, |sink| {
        let port = UmadPort::open_requester(local, sink)?;
        Ok::<Arc<dyn MadPort>, OpenError>(Arc::new(port))
    });
    opened.map_err(|error| Failure::new(ExitCode::NoPort, error))
}

/// Prints the Sets that the first sweep would send (`--dry-start`).
///
/// # Errors
/// The configuration or the port cannot be used, or the sweep fails.
pub fn dry_start(args: &DaemonArgs, as_json: bool) -> Result<ExitCode, Failure> {
    let configured = configure(args)?;
    configured.mistakes.iter().for_each(|text| complain(text));
    let options = configured.options;
    let files = read_files(&options)?;
    for note in configured.notes.iter().chain(&files.notes) {
        complain(&note.to_string());
    }
    let Some(local) = choose_port(args, &options)? else { return Ok(ExitCode::Ok) };
    let report = runtime()?.block_on(async {
        let port = open_local(&options, &local)?;
        let state = StateFiles::from_environment(&options);
        let start = FirstStart::new(options, files, &state);
        let report = DryStart::run(&port.client, &port.rehearsal, start).await;
        report.map_err(|error| Failure::new(ExitCode::NoPort, error))
    })?;
    let text = if as_json { json(&report)? } else { report.text() };
    print(&text)?;
    Ok(report.exit_code())
}

pub(super) fn runtime() -> Result<Runtime, Failure> {
    Runtime::new().map_err(|error| {
        Failure::new(ExitCode::System, format!("cannot start the threads of the command: {error}"))
    })
}

pub(super) fn json(report: &impl serde::Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(report);
    text.map(|text| text + "\n").map_err(|error| Failure::new(ExitCode::System, error))
}
