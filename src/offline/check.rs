//! `torus-sm check`: errors in the files that a start would read, and the effect of partitions and
//! QoS on a fabric.

mod config_files;
mod folders;
mod json;
mod partitions;
mod qos;
mod routing;
mod vl_tables;

use super::scenario;
use crate::cli::check::CheckArgs;
use crate::cli::{ExitCode, Failure};
use crate::config::options::Options;
use crate::config::qos_policy::QosPolicy;
use crate::config::{Diagnostic, excerpt};
use crate::fabric::Fabric;
use crate::notes::{Note, Severity};
use crate::plan::partitions as plan;
use crate::plan::qos::policy::EffectivePolicy;
use crate::plan::routing::torus;
use config_files::ConfigFiles;
use std::io::Write;
use std::sync::Arc;

/// Numbers of errors and warnings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct FindingCounts {
    errors: usize,
    warnings: usize,
}

impl FindingCounts {
    fn add(&mut self, severity: Severity) {
        match severity {
            Severity::Error => self.errors += 1,
            Severity::Warning => self.warnings += 1,
            Severity::Info => {}
        }
    }

    fn summary(self) -> String {
        let count = |number: usize, word: &str| match number {
            0 => format!("no {word}s"),
            1 => format!("1 {word}"),
            _ => format!("{number} {word}s"),
        };
        format!("{}, {}", count(self.errors, "error"), count(self.warnings, "warning"))
    }
}

/// Checks the files named on the command line and writes the findings to `out`. Returns
/// [`ExitCode::Config`] if there are errors, or warnings with `--strict`.
///
/// # Errors
/// Returns an error if the fabric cannot be read or `out` cannot be written.
pub fn run(args: &CheckArgs, out: &mut dyn Write) -> Result<ExitCode, Failure> {
    let files = ConfigFiles::read(&args.daemon);
    let mut counts = FindingCounts::default();
    let mut text = String::new();
    for file in &files.all {
        text += &file.text();
        file.findings.iter().for_each(|found| counts.add(found.severity));
    }
    for note in &files.notes {
        text += &format!("{}: {note}\n", word(note.severity));
        counts.add(note.severity);
    }
    let mut notes = Vec::new();
    match &args.file {
        Some(file) => text += &effect(file, &files, &mut counts, &mut notes)?,
        None => text += &scopes_rejected_by_engine(&files, &mut counts),
    }
    text += &format!("{}\n", counts.summary());
    if args.json {
        text = json::text(&files, &notes, counts);
    }
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // The reader closed the pipe, as `| head` does.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
        written => written.map_err(|error| Failure::new(ExitCode::System, error))?,
    }
    let is_wrong = counts.errors > 0 || args.strict && counts.warnings > 0;
    Ok(if is_wrong { ExitCode::Config } else { ExitCode::Ok })
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "note",
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

/// The part of the QoS policy that the first engine rejects on any fabric.
fn scopes_rejected_by_engine(files: &ConfigFiles, counts: &mut FindingCounts) -> String {
    let engines = files.options.routing_engine.as_deref().unwrap_or_default();
    let first = engines.split(',').next().unwrap_or_default().trim();
    let policy = files.qos_policy.as_ref().filter(|_| first == torus::NAME);
    let scope = policy.and_then(|policy| Some((policy, policy.sl_to_vl.first()?)));
    let Some((policy, scope)) = scope else { return String::new() };
    let found = Diagnostic {
        file: policy.file.clone(),
        line: scope.at.line,
        column: scope.at.column,
        severity: Severity::Error,
        message: format!(
            "all sl2vl-scopes are rejected: {first} computes all SL to VL tables itself"
        ),
    };
    counts.add(found.severity);
    excerpt::render(&found, files.content(&policy.file).unwrap_or_default()) + "\n"
}

/// Effect of partitions and QoS on the fabric in `file`; `shown` gets the findings.
fn effect(
    file: &std::path::Path,
    files: &ConfigFiles,
    counts: &mut FindingCounts,
    shown: &mut Vec<Note>,
) -> Result<String, Failure> {
    let config = |text: String| Failure::new(ExitCode::Config, text);
    let options: &Options = &files.options;
    let topology = scenario::read_fabric(file).map_err(config)?;
    let sm_location = scenario::sm_location(&topology, options).map_err(config)?;
    let fabric = scenario::snapshot(&topology, sm_location)
        .ok_or_else(|| config(format!("{}: the fabric has no nodes", file.display())))?;
    let Some(partitions) = &files.partitions else {
        return Ok("partitions are not shown, because their file has errors\n".to_owned());
    };
    let (partitions, mut notes) = plan::partitions(partitions, options, &[]);
    let (tables, _, found) = plan::tables(&fabric, &partitions, &[], &Default::default(), options);
    notes.extend(found);
    let policy = files.qos_policy.clone().map(Arc::new);
    if let Some(policy) = policy.clone() {
        let own = Some(fabric.local());
        let (_, found) = EffectivePolicy::new(policy, &fabric, &tables.keys, &partitions, own);
        notes.extend(found);
    }
    let mut text = String::new();
    notes.extend(routing::findings(&fabric, options, &partitions, policy.as_ref()));
    for note in &notes {
        text += &format!("{}: {note}\n", word(note.severity));
        counts.add(note.severity);
    }
    shown.clone_from(&notes);
    text += &partitions::shown(&fabric, &partitions, &tables);
    if files.is_policy_wrong() {
        text += "the effect of QoS is not shown, because the policy file has errors\n";
    } else if options.qos {
        text += &qos_effect(&fabric, files, &partitions, policy.as_ref(), counts);
    }
    Ok(text)
}

/// Effect of QoS on a fabric.
fn qos_effect(
    fabric: &Fabric,
    files: &ConfigFiles,
    partitions: &[plan::Partition],
    policy: Option<&Arc<QosPolicy>>,
    counts: &mut FindingCounts,
) -> String {
    match qos::shown(fabric, &files.options, partitions, policy) {
        Ok(shown) => {
            let content = policy.and_then(|policy| files.content(&policy.file));
            let mut text = String::new();
            for found in &shown.findings {
                text += &(excerpt::render(found, content.unwrap_or_default()) + "\n");
                counts.add(found.severity);
            }
            text + &shown.text
        }
        Err(problem) => {
            counts.add(Severity::Warning);
            let what = word(Severity::Warning);
            format!(
                "{what}: the effect of QoS is not shown, because the fabric cannot be routed: {problem}\n"
            )
        }
    }
}
