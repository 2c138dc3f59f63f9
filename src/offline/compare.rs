//! `torus-sm plan --compare`: one fabric routed by several engines, side by side.

use super::facts;
use super::json::{EngineComparison, PlanReport};
use super::report;
use super::scenario::OfflineScenario;
use super::trial::OfflineTrial;
use super::{add_adaptive, what_if, what_if_extent};
use crate::cli::{CommandFailure, PlanArgs};
use crate::config::options::adaptive;
use crate::fabric::Fabric;
use crate::notes::Severity;
use std::fmt::Write as _;

/// Plans `fabric` with each engine that `--compare` names, without fallback to another one.
///
/// # Errors
/// Returns an error if a name is not that of an engine.
pub(super) fn run(
    scenario: &mut OfflineScenario,
    fabric: &Fabric,
    args: &PlanArgs,
) -> Result<EngineComparison, CommandFailure> {
    let mut reports = Vec::new();
    for engine in &args.compare {
        scenario.use_engine(engine)?;
        let trial = OfflineTrial::run(scenario, fabric, None);
        let mut report = facts::report(scenario, fabric, &trial, None);
        // With groups, an engine has the routes of another one.
        let adaptive = adaptive::NAMES.into_iter().find(|name| name == engine);
        report.engines.iter_mut().take(1).for_each(|first| *first = adaptive.unwrap_or(first));
        add_adaptive(&mut report, scenario, fabric, &trial, args);
        if let Some(extent) = what_if_extent(args) {
            report.what_if = Some(what_if::run(scenario, fabric, &trial, extent));
        }
        reports.push(report);
    }
    Ok(EngineComparison { fabric: facts::fabric_facts(fabric), compare: reports })
}

/// Formats the comparison as a table with a column for each engine. Reasons of engines that do not
/// route the fabric, and credit loops, follow the table.
pub(super) fn text(comparison: &EngineComparison) -> String {
    let reports = &comparison.compare;
    let mut out = report::fabric_line(&comparison.fabric);
    let columns: Vec<Vec<String>> = reports.iter().map(column).collect();
    let titles = ROWS.map(str::len).into_iter().max().unwrap_or(0);
    let widths: Vec<usize> =
        columns.iter().map(|column| column.iter().map(String::len).max().unwrap_or(0)).collect();
    for (index, title) in ROWS.iter().enumerate() {
        if index > 0 && columns.iter().all(|column| column[index] == ABSENT) {
            continue;
        }
        let mut line = format!("{title:<titles$}");
        for (column, width) in columns.iter().zip(&widths) {
            let _ = write!(line, "  {:<width$}", column[index]);
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
    for report in reports {
        put_reasons(&mut out, report);
    }
    out
}

/// The rows of the table.
const ROWS: [&str; 16] = [
    "engine",
    "routed",
    "credit loops",
    "longest path",
    "mean path",
    "worst link",
    "mean link",
    "SLs",
    "VLs",
    "ranks",
    "roots",
    "layers",
    "groups",
    "busiest link",
    "what if: routed",
    "what if: not routed",
];

const ABSENT: &str = "-";

/// The entries of an engine, one for each of [`ROWS`].
fn column(report: &PlanReport) -> Vec<String> {
    let checks = report.checks.as_ref();
    let structure = report.structure.as_ref();
    let loops = checks.map(|checks| if checks.credit_loop.is_some() { "FOUND" } else { "none" });
    let entries = [
        Some(report.engines.first().copied().unwrap_or("").to_owned()),
        Some(if report.routed { "yes" } else { "no" }.to_owned()),
        loops.map(str::to_owned),
        checks.map(|checks| checks.longest_path.to_string()),
        mean_path(report).map(|mean| format!("{mean:.2}")),
        report.worst_link.as_ref().map(|worst| worst.lids.to_string()),
        report.mean_link.map(|mean| format!("{mean:.1}")),
        report.routed.then(|| report::list(&report.sls)),
        report.routed.then(|| report::list(&report.vls)).filter(|vls| !vls.is_empty()),
        structure.and_then(|structure| counted(structure.ranks.len())),
        structure.and_then(|structure| counted(structure.roots.len())),
        structure.and_then(|structure| structure.layers).map(|layers| layers.to_string()),
        report.adaptive.as_ref().map(|adaptive| adaptive.groups.to_string()),
        report.traffic.as_ref().map(|traffic| {
            let busiest = traffic.busiest_adaptive.as_ref().unwrap_or(&traffic.busiest_static);
            format!("{:.1}", busiest.median)
        }),
        report.what_if.as_ref().map(|what_if| what_if.routed.to_string()),
        report.what_if.as_ref().map(|what_if| what_if.unrouted.to_string()),
    ];
    entries.map(|entry| entry.unwrap_or_else(|| ABSENT.to_owned())).into()
}

fn counted(count: usize) -> Option<String> {
    (count > 0).then(|| count.to_string())
}

/// The mean number of switches on the paths between hosts.
fn mean_path(report: &PlanReport) -> Option<f64> {
    let paths: u64 = report.hops.iter().map(|count| count.paths).sum();
    let switches: u64 = report.hops.iter().map(|count| count.switches as u64 * count.paths).sum();
    (paths > 0).then(|| switches as f64 / paths as f64)
}

fn put_reasons(out: &mut String, report: &PlanReport) {
    let engine = report.engines.first().copied().unwrap_or("");
    let reasons = report.engine_errors.iter().flat_map(|errors| {
        let serious = errors.notes.iter().filter(|note| note.severity >= Severity::Warning);
        serious.map(ToString::to_string).collect::<Vec<_>>()
    });
    for reason in reasons.chain(report.faults.iter().cloned()) {
        let _ = writeln!(out, "{engine}: {reason}");
    }
    let cycle = report.checks.as_ref().and_then(|checks| checks.credit_loop.as_ref());
    if let Some(cycle) = cycle {
        let _ = writeln!(out, "{engine}: credit loop: {cycle}");
    }
}
