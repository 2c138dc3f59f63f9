//! `torus-sm check`: errors in the files that a start would read, and the effect of partitions and
//! QoS on a fabric.

mod config_files;
mod folders;
mod json;
mod partitions;
mod qos;
mod rates;
mod routing;
mod vl_tables;

use super::scenario;
use crate::cli::check::CheckArgs;
use crate::cli::color;
use crate::cli::output::print_to;
use crate::cli::{CommandFailure, ExitCode};
use crate::config::options::Options;
use crate::config::qos_policy::QosPolicy;
use crate::config::{Diagnostic, excerpt};
use crate::fabric::Fabric;
use crate::ids::Guid;
use crate::notes::{Note, Severity};
use crate::plan::multicast_sls;
use crate::plan::partitions as plan;
use crate::plan::qos::policy::EffectivePolicy;
use crate::plan::rate_limits;
use crate::plan::routing::torus;
use crate::verify::Verified;
use config_files::CheckedFiles;
use qos::Unrouted;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
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
        format!("{}, {}", count(self.errors, "error"), count(self.warnings, "warning"))
    }
}

fn count(number: usize, word: &str) -> String {
    match number {
        0 => format!("no {word}s"),
        1 => format!("1 {word}"),
        _ => format!("{number} {word}s"),
    }
}

/// Checks the files named on the command line and writes the findings to `out`. Returns
/// [`ExitCode::Config`] if there are errors, or warnings with `--strict`.
///
/// # Errors
/// Returns an error if the fabric cannot be read or `out` cannot be written.
pub fn run(args: &CheckArgs, out: &mut dyn Write) -> Result<ExitCode, CommandFailure> {
    let files = CheckedFiles::read(&args.daemon);
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
    let mut effect = match &args.file {
        Some(file) => effect(file, &files, args.effective_rates)?,
        None => effect_on_any_fabric(&files),
    };
    if let Some(guid) = args.effective_rates.filter(|_| args.file.is_none()) {
        effect.text += &rates::shown(&files, guid, None);
    }
    effect.located.iter().for_each(|found| counts.add(found.severity));
    effect.notes.iter().for_each(|note| counts.add(note.severity));
    text += &format!("{}{}\n", effect.text, counts.summary());
    let text = if args.json { json::text(&files, &effect, counts) } else { color::report(&text) };
    print_to(out, &text)?;
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

/// The effect of the configuration on a fabric, with the findings about it.
#[derive(Default)]
struct ConfigEffect {
    /// For people; includes the findings.
    text: String,
    /// Findings about lines of the files.
    located: Vec<Diagnostic>,
    notes: Vec<Note>,
}

impl ConfigEffect {
    /// Adds a finding about a line of a file with this content.
    fn say_at(&mut self, found: Diagnostic, content: Option<&str>) {
        self.text += &(excerpt::render(&found, content.unwrap_or("")) + "\n");
        self.located.push(found);
    }

    fn say(&mut self, note: Note) {
        self.text += &format!("{}: {note}\n", word(note.severity));
        self.notes.push(note);
    }
}

/// Findings about the first engine on any fabric: rejected parts of the QoS policy, and multicast
/// groups of partitions that do not suit it.
fn effect_on_any_fabric(files: &CheckedFiles) -> ConfigEffect {
    let mut effect = ConfigEffect::default();
    if let Some(configured) = files.partitions.as_ref().filter(|_| files.asks_for_torus()) {
        let (partitions, _) = plan::partitions(configured, &files.options, &[]);
        let found = multicast_sls::partition_note(&partitions, torus::multicast_sl_problem);
        found.into_iter().for_each(|note| effect.say(note));
    }
    let engines = files.options.engines();
    let first = engines.split(',').next().unwrap_or("").trim();
    let policy = files.qos_policy.as_ref().filter(|_| first == torus::NAME);
    let scope = policy.and_then(|policy| Some((policy, policy.sl_to_vl.first()?)));
    let Some((policy, scope)) = scope else { return effect };
    let found = Diagnostic {
        file: policy.file.clone(),
        line: scope.at.line,
        column: scope.at.column,
        severity: Severity::Error,
        message: format!(
            "all sl2vl-scopes are rejected: {first} computes all SL to VL tables itself"
        ),
        code: None,
    };
    effect.say_at(found, files.content(&policy.file));
    effect
}

/// Effect of partitions, routing and QoS on the fabric in `file`.
fn effect(
    file: &Path,
    files: &CheckedFiles,
    effective_rates: Option<Guid>,
) -> Result<ConfigEffect, CommandFailure> {
    let mut effect = ConfigEffect::default();
    let options: &Options = &files.options;
    let topology = scenario::read_fabric(file).map_err(CommandFailure::config)?;
    let sm_location = scenario::sm_location(&topology, options).map_err(CommandFailure::config)?;
    let fabric = scenario::snapshot(&topology, sm_location).ok_or_else(|| {
        CommandFailure::config(format!("{}: the fabric has no nodes", file.display()))
    })?;
    if let Some(policy) = &files.enhanced_qos {
        let (_, found) = rate_limits::port_limits(policy, &fabric);
        found.into_iter().for_each(|note| effect.say(note));
    }
    if let Some(guid) = effective_rates {
        effect.text += &rates::shown(files, guid, Some(&fabric));
    }
    let Some(configured) = &files.partitions else {
        effect.text += "partitions are not shown, because their file has errors\n";
        return Ok(effect);
    };
    if let Some(path) = options.partition_config_file.as_ref().map(Path::new) {
        for found in partitions::absent_members(path, configured, &fabric) {
            effect.say_at(found, files.content(path));
        }
    }
    let (partitions, mut notes) = plan::partitions(configured, options, &[]);
    let (tables, _, found) = plan::tables(&fabric, &partitions, &[], &Default::default(), options);
    notes.extend(found);
    let policy = files.qos_policy.clone().map(Arc::new);
    if let Some(policy) = policy.clone() {
        let own = Some(fabric.local());
        let (_, found) = EffectivePolicy::new(policy, &fabric, &tables.keys, &partitions, own);
        notes.extend(found);
    }
    let planned = qos::planned(&fabric, options, &partitions, policy.as_ref());
    notes.extend(routing::findings(&fabric, options, &planned));
    // The engines find again what is wrong in the files.
    let in_files = files.all.iter().flat_map(|file| &file.findings).map(|found| &found.message);
    let in_files = in_files.chain(files.notes.iter().map(|note| &note.text));
    let mut told: BTreeSet<String> = in_files.cloned().collect();
    for note in notes {
        if told.insert(note.text.clone()) {
            effect.say(note);
        }
    }
    effect.text += &partitions::shown(&fabric, &partitions, &tables);
    if files.is_policy_wrong() {
        effect.text += "the effect of QoS is not shown, because the policy file has errors\n";
    } else if options.qos {
        add_qos(&mut effect, &fabric, files, &planned, policy.as_ref());
    }
    Ok(effect)
}

/// Adds the effect of QoS on a fabric.
fn add_qos(
    effect: &mut ConfigEffect,
    fabric: &Fabric,
    files: &CheckedFiles,
    planned: &Result<Verified, Unrouted>,
    policy: Option<&Arc<QosPolicy>>,
) {
    match planned {
        Ok(verified) => {
            let shown = qos::shown(fabric, verified.plan(), policy);
            let content = policy.and_then(|policy| files.content(&policy.file));
            shown.findings.into_iter().for_each(|found| effect.say_at(found, content));
            effect.text += &shown.text;
        }
        Err(unrouted) => effect.say(Note::warning(format!(
            "the effect of QoS is not shown, because the fabric cannot be routed: {}",
            unrouted.text
        ))),
    }
}
