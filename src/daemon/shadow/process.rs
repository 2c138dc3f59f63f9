//! The commands as processes: configuration, port, output and exit code.

use super::dry_start::DryStart;
use super::dump_files;
use super::first_start::FirstStart;
use super::html;
use super::port::ShadowPort;
use super::report::ShadowReport;
use super::watch::{Shadow, pause};
use crate::cli::output::{complain, print};
use crate::cli::{CommandFailure, DaemonArgs, ExitCode, ShadowArgs};
use crate::config::options::Options;
use crate::daemon::launch::{choose_port, configure, read_files};
use crate::daemon::sm_loop::files::StateFiles;
use crate::publish::atomic_file;
use crate::transport::MadPort;
use crate::transport::sysfs::LocalPort;
use crate::transport::umad::{OpenError, UmadPort};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::time::{Instant, sleep};

/// Opens a port of this host for requests only: requests of others go to the subnet manager.
fn open_local(options: &Options, local: &LocalPort) -> Result<ShadowPort, CommandFailure> {
    let opened = ShadowPort::open(options, |sink| {
        let port = UmadPort::open_requester(local, sink)?;
        Ok::<Arc<dyn MadPort>, OpenError>(Arc::new(port))
    });
    opened.map_err(|error| CommandFailure::new(ExitCode::NoPort, error))
}

/// Prints the Sets that the first sweep would send (`--dry-start`).
///
/// # Errors
/// The configuration or the port cannot be used, or the sweep fails.
pub fn dry_start(args: &DaemonArgs, as_json: bool) -> Result<ExitCode, CommandFailure> {
    let configured = configure(args)?;
    configured.mistakes.iter().for_each(|text| complain(text));
    let options = configured.options;
    let files = read_files(&options)?;
    for note in configured.notes.iter().chain(&files.findings.notes) {
        complain(&note.to_string());
    }
    let Some(local) = choose_port(args, &options)? else { return Ok(ExitCode::Ok) };
    let report = runtime()?.block_on(async {
        let port = open_local(&options, &local)?;
        let state = StateFiles::from_environment(&options);
        let start = FirstStart::new(options, files, &state);
        let report = DryStart::run(&port.client, &port.rehearsal, start).await;
        report.map_err(|error| CommandFailure::new(ExitCode::NoPort, error))
    })?;
    let text = if as_json { json(&report)? } else { report.text() };
    print(&text)?;
    Ok(report.exit_code())
}

/// The file of the report of a shadow.
const STATE_FILE: &str = "torus-sm.shadow";

/// Maximum number of Gets in flight of a shadow.
const WINDOW: usize = 2;

/// Watches the fabric, or prints the report (`torus-sm shadow`).
///
/// # Errors
/// The configuration, the port or the file of the report cannot be used.
pub fn shadow(args: &ShadowArgs) -> Result<ExitCode, CommandFailure> {
    let state = args.state.clone().unwrap_or_else(|| {
        let folder = std::env::var_os("OSM_CACHE_DIR").unwrap_or("/var/cache/opensm".into());
        PathBuf::from(folder).join(STATE_FILE)
    });
    if let Some(folder) = &args.dumps {
        return shown(args, &dump_files::compare(folder, &args.daemon)?);
    }
    if args.report { print_report(args, &state) } else { watch(args, &state) }
}

fn print_report(args: &ShadowArgs, state: &Path) -> Result<ExitCode, CommandFailure> {
    let text = std::fs::read_to_string(state).map_err(|error| unusable(state, &error))?;
    let report: ShadowReport =
        serde_json::from_str(&text).map_err(|error| unusable(state, &error))?;
    shown(args, &report)
}

fn unusable(state: &Path, problem: &dyn std::fmt::Display) -> CommandFailure {
    let text = format!("{}: {problem}; torus-sm shadow writes it", state.display());
    CommandFailure::new(ExitCode::System, text)
}

/// Prints a report as the arguments request.
fn shown(args: &ShadowArgs, report: &ShadowReport) -> Result<ExitCode, CommandFailure> {
    let shown = match (args.json, args.html) {
        (true, _) => json(&ReportJson::of(report))?,
        (false, true) => html::page(report),
        (false, false) => report.text(),
    };
    print(&shown)?;
    Ok(report.exit_code())
}

fn watch(args: &ShadowArgs, state: &Path) -> Result<ExitCode, CommandFailure> {
    let configured = configure(&args.daemon)?;
    configured.mistakes.iter().for_each(|text| complain(text));
    let options = configured.options;
    let files = read_files(&options)?;
    for note in configured.notes.iter().chain(&files.findings.notes) {
        complain(&note.to_string());
    }
    let chosen = choose_port(&args.daemon, &options)?;
    let Some(local) = chosen else { return Ok(ExitCode::Ok) };
    let earlier = earlier_report(state);
    runtime()?.block_on(async {
        let port = open_local(&options, &local)?;
        let port = ShadowPort { client: port.client.paced(WINDOW, args.rate), ..port };
        let state_files = StateFiles::from_environment(&options);
        let start = FirstStart::new(options.clone(), files, &state_files);
        let mut shadow = Shadow::new(port, start, args.ignore.clone(), earlier);
        if let Some(text) = shadow.configure(&options) {
            complain(&text);
        }
        pass_again_and_again(shadow, args, state).await
    })
}

/// The report of an earlier run. One that cannot be read is replaced, with a message.
fn earlier_report(state: &Path) -> Option<ShadowReport> {
    let text = match std::fs::read_to_string(state) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => {
            complain(&format!("{}: {error}; the report begins anew", state.display()));
            return None;
        }
    };
    let parsed = serde_json::from_str(&text);
    parsed
        .inspect_err(|error| {
            complain(&format!("{}: {error}; the report begins anew", state.display()));
        })
        .ok()
}

/// Passes over the fabric, and stores the report after each pass.
async fn pass_again_and_again(
    mut shadow: Shadow,
    args: &ShadowArgs,
    state: &Path,
) -> Result<ExitCode, CommandFailure> {
    let interval = Duration::from_secs(args.interval);
    for pass in 1.. {
        let start = Instant::now();
        shadow.pass().await;
        let report = shadow.report();
        atomic_file::replace(state, &json(report)?, false)
            .map_err(|error| CommandFailure::new(ExitCode::System, error))?;
        if let Some(reason) = shadow.port_loss() {
            return Err(CommandFailure::new(ExitCode::NoPort, reason));
        }
        if args.passes.is_some_and(|passes| pass >= passes) {
            return Ok(report.exit_code());
        }
        sleep(pause(interval, start)).await;
    }
    Ok(ExitCode::Ok)
}

/// The report with its verdict.
#[derive(Serialize)]
struct ReportJson<'a> {
    /// No difference is known.
    safe_to_switch: bool,
    /// Why not; empty if it is safe.
    reasons: Vec<String>,
    #[serde(flatten)]
    report: &'a ShadowReport,
}

impl<'a> ReportJson<'a> {
    fn of(report: &'a ShadowReport) -> Self {
        let reasons = report.reasons();
        Self { safe_to_switch: reasons.is_empty(), reasons, report }
    }
}

pub(super) fn runtime() -> Result<Runtime, CommandFailure> {
    Runtime::new().map_err(|error| {
        CommandFailure::new(
            ExitCode::System,
            format!("cannot start the threads of the command: {error}"),
        )
    })
}

pub(super) fn json(report: &impl serde::Serialize) -> Result<String, CommandFailure> {
    let text = serde_json::to_string_pretty(report);
    text.map(|text| text + "\n").map_err(|error| CommandFailure::new(ExitCode::System, error))
}
