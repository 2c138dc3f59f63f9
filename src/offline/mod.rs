//! Dry runs: a verified plan for a fabric file or a generated fabric, without a port.
//!
//! `torus-sm plan` answers questions before a change to a fabric: whether the configuration fits,
//! whether and how well the fabric is routed, and which failures it survives.
//!
//! * [`scenario`]: fabric and configuration from the command line;
//! * [`trial`]: one pass through planning and verification;
//! * [`json`]: the types of the report; their field names are the names in JSON output and do not
//!   change;
//! * `facts`: fills in the report from fabric and plan; `host_paths`: lengths, SLs and VLs of all paths
//!   between hosts;
//! * [`report`]: the report as text;
//! * [`adaptive`]: groups for adaptive routing, and the load of patterns of traffic;
//! * `compare`: several engines side by side;
//! * [`what_if`]: failure analysis, and the cure;
//! * `progress`: bars and texts about work that takes time;
//! * [`draw`]: the torus as an SVG drawing.
//!
//! [`check`] reads the configuration files and reports errors in them, and the effect of partitions
//! and QoS on a fabric. [`torus_config`] derives torus-2QoS.conf from the cables of a fabric.
//! [`replay`] repeats the sweeps and plans of a recording.
//!
//! The subnet manager is at the port given by `-g`, else at the first host; if that host's switch
//! fails, at the next host, as with a standby.
//!
//! The configuration comes from the command line and the file given by `-F` only, never from /etc,
//! so that plans do not depend on the machine that makes them.

pub mod adaptive;
pub mod check;
mod compare;
pub mod draw;
mod facts;
mod host_paths;
pub mod json;
mod progress;
pub mod replay;
pub mod report;
pub mod scenario;
pub mod torus_config;
pub mod trial;
pub mod what_if;

use crate::cli::color;
use crate::cli::output::print_to;
use crate::cli::{CommandFailure, ExitCode, PlanArgs};
use crate::fabric::{Fabric, ibnet};
use crate::plan::routing::torus::{Torus, TorusLayout};
use crate::publish::dump_file::StopWriting;
use crate::publish::report::link_loads;
use crate::publish::{atomic_file, dumps};
use crate::verify::adaptive::ProvenGroups;
use chrono::{DateTime, Local};
use draw::{CableLoads, Drawn};
use json::PlanReport;
use scenario::OfflineScenario;
use serde::Serialize;
use std::fs;
use std::io::Write;
use std::path::Path;
use trial::{OfflineTrial, TrialOutcome};

/// Plans the fabric given on the command line, and writes the report to `out`. Returns
/// [`ExitCode::Fatal`] if there is no verified plan of an engine that was asked for, or if it leaves
/// hosts without routes.
///
/// # Errors
/// Returns an error for unreadable files, wrong arguments and failed writes.
pub fn run(args: &PlanArgs, out: &mut dyn Write) -> Result<ExitCode, CommandFailure> {
    let mut scenario = OfflineScenario::load(&args.fabric, &args.daemon)?;
    if let Some(folder) = &args.write {
        write_input(folder, &scenario)?;
    }
    let fabric = scenario.fabric()?;
    if !args.compare.is_empty() {
        let comparison = compare::run(&mut scenario, &fabric, args)?;
        write_report(out, &comparison, compare::text, args.json)?;
        let all_routed =
            comparison.compare.iter().all(|report| report.routed && report.unreachable_hosts == 0);
        return Ok(if all_routed { ExitCode::Ok } else { ExitCode::Fatal });
    }
    let spinner = progress::spinner("routing and verifying the fabric");
    let trial = OfflineTrial::run(&scenario, &fabric, None);
    let layout = layout(&scenario, &fabric, &trial);
    spinner.set_message("surveying all paths");
    let mut report = facts::report(&scenario, &fabric, &trial, layout.as_ref().ok());
    let proven = add_adaptive(&mut report, &scenario, &fabric, &trial, args);
    spinner.finish_and_clear();
    if let TrialOutcome::Routed(verified) = &trial.outcome {
        if let Some([from, to]) = args.path.as_deref() {
            let groups = proven.as_ref().map(|proven| &proven.groups);
            report.path = Some(facts::path(&fabric, verified.plan(), groups, [from, to])?);
        }
        report.path_sl = args.path_sl.then(|| facts::path_sls(&fabric, verified.plan()));
        if let Some(folder) = &args.dump {
            dump(folder, &fabric, verified.plan())?;
        }
    }
    if let Some(file) = &args.draw {
        let layout = layout.map_err(CommandFailure::config)?;
        let loads = match &trial.outcome {
            TrialOutcome::Routed(verified) => {
                let plan = verified.plan();
                let groups = proven.as_ref().map(|proven| &proven.groups);
                let flows = args.traffic.and_then(|pattern| {
                    adaptive::mean_loads(&fabric, plan, groups, pattern, args.seed)
                });
                Some(match flows {
                    Some(flows) => CableLoads::Flows(flows),
                    None => CableLoads::Lids(link_loads(&fabric, plan)),
                })
            }
            _ => None,
        };
        let fabric = &fabric;
        let layout = &layout;
        let loads = loads.as_ref();
        let title = picture_title(args.fabric.file.as_deref());
        write_file(file, &draw::svg(&Drawn { fabric, layout, loads, title: &title }))?;
    }
    if let Some(extent) = what_if_extent(args) {
        report.what_if = Some(what_if::run(&mut scenario, &fabric, &trial, extent));
    }
    write_report(out, &report, |report| report::text(report, args.placement), args.json)?;
    let is_complete = report.routed && !report.fallback && report.unreachable_hosts == 0;
    Ok(if is_complete { ExitCode::Ok } else { ExitCode::Fatal })
}

/// Adds the groups of adaptive routing and the load of a pattern, if they are asked for. Returns the groups.
fn add_adaptive(
    report: &mut PlanReport,
    scenario: &OfflineScenario,
    fabric: &Fabric,
    trial: &OfflineTrial,
    args: &PlanArgs,
) -> Option<ProvenGroups> {
    let TrialOutcome::Routed(verified) = &trial.outcome else { return None };
    let proven = adaptive::groups(scenario, fabric, trial);
    report.adaptive = proven.as_ref().map(adaptive::facts);
    report.notes.extend(proven.iter().flat_map(|proven| proven.notes.iter().cloned()));
    let groups = proven.as_ref().map(|proven| &proven.groups);
    report.traffic = args
        .traffic
        .and_then(|pattern| adaptive::traffic(fabric, verified.plan(), groups, pattern, args.seed));
    proven
}

/// The failures to try; `None` if none are asked for.
fn what_if_extent(args: &PlanArgs) -> Option<what_if::FailureExtent> {
    let pairs = args.what_if_pairs.then_some(2);
    let at_a_time = pairs.or(args.what_if)?;
    let samples = args.samples.map(|samples| if samples == 0 { usize::MAX } else { samples });
    Some(what_if::FailureExtent { at_a_time, samples, seed: args.seed })
}

/// Name and date of the fabric file; a generated fabric has the date of today.
fn picture_title(file: Option<&Path>) -> String {
    let Some(file) = file else {
        return format!("generated, {}", Local::now().format("%Y-%m-%d"));
    };
    let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
    let modified = fs::metadata(file).and_then(|file| file.modified()).map(DateTime::<Local>::from);
    match modified {
        Ok(date) => format!("{name}, {}", date.format("%Y-%m-%d")),
        Err(_) => name.into_owned(),
    }
}

/// The layout of the torus, routed or not. The error says why none was discovered.
fn layout(
    scenario: &OfflineScenario,
    fabric: &Fabric,
    trial: &OfflineTrial,
) -> Result<TorusLayout, String> {
    if let TrialOutcome::Routed(verified) = &trial.outcome
        && let Some(torus) = Torus::of(&verified.plan().routing)
    {
        return Ok(TorusLayout::of(torus));
    }
    TorusLayout::place(&scenario.routing_input(fabric, &trial.lids)).map_err(|notes| {
        let why: Vec<String> = notes.iter().map(ToString::to_string).collect();
        format!("no torus was discovered in the fabric: {}", why.join("; "))
    })
}

/// Writes fabric.net and torus-2QoS.conf for simulators and other subnet managers.
fn write_input(folder: &Path, scenario: &OfflineScenario) -> Result<(), CommandFailure> {
    fs::create_dir_all(folder)
        .map_err(|error| system_error(format!("{}: {error}", folder.display())))?;
    write_file(&folder.join("fabric.net"), &ibnet::write(&scenario.topology))?;
    match &scenario.torus_config {
        Ok(config) => write_file(&folder.join("torus-2QoS.conf"), &config.to_string()),
        Err(_) => Ok(()),
    }
}

fn system_error(text: String) -> CommandFailure {
    CommandFailure::new(ExitCode::System, text)
}

fn dump(folder: &Path, fabric: &Fabric, plan: &crate::plan::Plan) -> Result<(), CommandFailure> {
    fs::create_dir_all(folder)
        .map_err(|error| system_error(format!("{}: {error}", folder.display())))?;
    dumps::write_subnet(folder, fabric, plan).map_err(dumped)?;
    dumps::write_routing(folder, fabric, plan, &StopWriting::default()).map_err(dumped)?;
    let engine_dumps = plan.routing.policy.dumps(fabric, &plan.lids);
    engine_dumps.iter().try_for_each(|dump| write_file(&folder.join(&*dump.file), &dump.text))
}

fn dumped(error: atomic_file::FileWriteError) -> CommandFailure {
    system_error(error.to_string())
}

fn write_file(path: &Path, text: &str) -> Result<(), CommandFailure> {
    fs::write(path, text).map_err(|error| {
        CommandFailure::new(ExitCode::System, format!("{}: {error}", path.display()))
    })
}

fn write_report<T: Serialize>(
    out: &mut dyn Write,
    report: &T,
    text: impl Fn(&T) -> String,
    as_json: bool,
) -> Result<(), CommandFailure> {
    let text = if as_json {
        let text = serde_json::to_string_pretty(report);
        text.map_err(|error| CommandFailure::new(ExitCode::System, error))? + "\n"
    } else {
        color::report(&text(report))
    };
    print_to(out, &text).map(drop)
}
