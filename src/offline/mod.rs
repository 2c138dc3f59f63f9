//! A dry run: from a fabric file or a generated fabric to a verified plan, without any port.
//!
//! `torus-sm plan` answers what an operator wants to know before a fabric is touched: does the
//! description fit, will it be routed, how well, and which failures will it survive?
//!
//! * [`scenario`]: command line → fabric, options, engines: the [`scenario::Scenario`];
//! * [`trial`]: one pass through plan and verify for a fabric;
//! * [`json`]: what is reported, as types; their field names are the names in JSON and stay;
//! * `facts`: fills them in from fabric and plan; `hops`: the histogram of path lengths;
//! * [`report`]: the same as text;
//! * [`what_if`]: takes out components in turn, a trial for each, in parallel; `progress`: its
//!   bar;
//! * [`draw`]: the torus as a snapshot.
//!
//! [`check`] reads the configuration files and says what is wrong with them, and what partitions and
//! QoS come to on a fabric.
//! [`torus_config`] is the way back: it writes torus-2QoS.conf from the cables of a fabric.
//!
//! The subnet manager sits where `-g` says, else at the first host; if the switch of that host
//! is taken out, at the next one, as a standby would.
//!
//! Configuration comes from the command line and the file of `-F` alone: what is planned at a
//! desk must not depend on what the desk's machine has in /etc.

pub mod check;
pub mod draw;
mod facts;
mod hops;
pub mod json;
mod progress;
pub mod report;
pub mod scenario;
pub mod torus_config;
pub mod trial;
pub mod what_if;

use crate::cli::{ExitCode, Failure, PlanArgs};
use crate::fabric::{Fabric, ibnet};
use crate::plan::routing::torus::{Torus, TorusLayout};
use crate::publish::{atomic_file, dumps};
use json::Report;
use scenario::Scenario;
use std::fs;
use std::io::Write;
use std::path::Path;
use trial::{Outcome, Trial};

/// Does what the command line asks for, and writes the report to `out`. The exit code is
/// [`ExitCode::Fatal`] if there is no plan that could be put into force.
///
/// # Errors
/// What kept it from getting that far: files, arguments.
pub fn run(args: &PlanArgs, out: &mut dyn Write) -> Result<ExitCode, Failure> {
    let scenario = Scenario::load(&args.fabric, &args.daemon)?;
    if let Some(folder) = &args.write {
        write_input(folder, &scenario)?;
    }
    let fabric = scenario.fabric()?;
    let trial = Trial::run(&scenario, &fabric, None);
    let layout = layout(&scenario, &fabric, &trial);
    let mut report = facts::report(&scenario, &fabric, &trial, layout.as_ref().ok());
    if let Outcome::Routed(verified) = &trial.outcome {
        if let Some([from, to]) = args.path.as_deref() {
            report.path = Some(facts::path(&fabric, verified.plan(), from, to)?);
        }
        report.path_sl = args.path_sl.then(|| facts::path_sls(&fabric, verified.plan()));
        if let Some(folder) = &args.dump {
            dump(folder, &fabric, verified.plan())?;
        }
    }
    if let Some(file) = &args.draw {
        let layout = layout.map_err(|text| Failure::new(ExitCode::Config, text))?;
        write_file(file, &draw::svg(&fabric, &layout))?;
    }
    if args.what_if || args.what_if_pairs {
        report.what_if = Some(what_if::run(&scenario, &fabric, &trial, args.what_if_pairs));
    }
    write_report(out, &report, args.json)?;
    Ok(if report.routed { ExitCode::Ok } else { ExitCode::Fatal })
}

/// The torus, routed or refused; the error says why there is none to be shown.
fn layout(scenario: &Scenario, fabric: &Fabric, trial: &Trial) -> Result<TorusLayout, String> {
    if let Outcome::Routed(verified) = &trial.outcome
        && let Some(torus) = Torus::of(&verified.plan().routing)
    {
        return Ok(TorusLayout::of(torus));
    }
    TorusLayout::place(&scenario.routing_input(fabric, &trial.lids)).map_err(|notes| {
        let why: Vec<String> = notes.iter().map(ToString::to_string).collect();
        format!("no torus can be placed: {}", why.join("; "))
    })
}

/// Writes what is planned for, so that simulators and other subnet managers can be given the same.
fn write_input(folder: &Path, scenario: &Scenario) -> Result<(), Failure> {
    let system = |text: String| Failure::new(ExitCode::System, text);
    fs::create_dir_all(folder).map_err(|error| system(format!("{}: {error}", folder.display())))?;
    write_file(&folder.join("fabric.net"), &ibnet::write(&scenario.topology))?;
    match &scenario.torus_config {
        Ok(config) => write_file(&folder.join("torus-2QoS.conf"), &config.to_string()),
        Err(_) => Ok(()),
    }
}

fn dump(folder: &Path, fabric: &Fabric, plan: &crate::plan::Plan) -> Result<(), Failure> {
    let system = |text: String| Failure::new(ExitCode::System, text);
    fs::create_dir_all(folder).map_err(|error| system(format!("{}: {error}", folder.display())))?;
    let dumped = |error: atomic_file::FileWriteError| system(error.to_string());
    dumps::write_subnet(folder, fabric, plan).map_err(dumped)?;
    dumps::write_routing(folder, fabric, plan).map_err(dumped)?;
    match Torus::of(&plan.routing) {
        Some(torus) => write_file(&folder.join("opensm-torus.dump"), &torus.dump(fabric)),
        None => Ok(()),
    }
}

fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text)
        .map_err(|error| Failure::new(ExitCode::System, format!("{}: {error}", path.display())))
}

fn write_report(out: &mut dyn Write, report: &Report, as_json: bool) -> Result<(), Failure> {
    let text = if as_json {
        let text = serde_json::to_string_pretty(report);
        text.map_err(|error| Failure::new(ExitCode::System, error))? + "\n"
    } else {
        report::text(report)
    };
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // Whoever reads has seen enough, as with `| head`.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| Failure::new(ExitCode::System, error)),
    }
}
