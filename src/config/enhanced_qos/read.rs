//! Reads the policy file that opensm.conf names, with the port groups of its rules.

use super::{EnhancedQos, parse};
use crate::config::excerpt;
use crate::config::files::TextSource;
use crate::config::options::Options;
use crate::config::routing_chain::port_groups::{self, ChainPortGroup};
use crate::notes::{Note, Severity};
use std::path::Path;

/// Effect of a missing or invalid policy at the start; a reload keeps the one in force.
const NO_LIMITS: &str = "no rate limits are configured";

/// The path of the policy file; `None` if it is switched off, for which the manual has the word null.
pub fn policy_path(options: &Options) -> Option<&str> {
    options.enhanced_qos_policy_file.as_deref().filter(|path| *path != "null")
}

/// Reads the policy. The notes are warnings; without QoS the policy is not used.
///
/// # Errors
/// The file cannot be read, or has errors: each is shown with its line and a caret.
pub fn read_from(
    source: &dyn TextSource,
    options: &Options,
) -> Result<(Option<EnhancedQos>, Vec<Note>), Vec<Note>> {
    let Some(file) = policy_path(options) else { return Ok((None, Vec::new())) };
    if !options.qos {
        let text = format!("enhanced_qos_policy_file {file} has no effect: qos is FALSE");
        return Ok((None, vec![Note::warning(text)]));
    }
    let path = Path::new(file);
    let text = source.read(path).map_err(|problem| failed(problem.to_string()))?;
    let groups = port_groups(source, options);
    let (policy, found) = parse(path, &text, &groups);
    match policy {
        Some(policy) => Ok((Some(policy), found.iter().map(Note::from).collect())),
        None => {
            let excerpts = excerpt::render_all(&found, &text).into_iter();
            let found = found.iter().zip(excerpts);
            let notes = found.map(|(found, excerpt)| Note::new(found.severity, None, excerpt));
            Err(notes.chain(failed(format!("{file} has errors"))).collect())
        }
    }
}

fn failed(problem: String) -> Vec<Note> {
    vec![error(format!("{problem}: {NO_LIMITS}"))]
}

fn error(text: String) -> Note {
    Note::new(Severity::Error, None, text)
}

/// The groups of pgrp_policy_file; none if it has errors, so that rules that name one are errors.
fn port_groups(source: &dyn TextSource, options: &Options) -> Vec<ChainPortGroup> {
    let Some(path) = options.pgrp_policy_file.as_deref().map(Path::new) else { return Vec::new() };
    let Ok(text) = source.read(path) else { return Vec::new() };
    let (groups, found) = port_groups::parse(path, &text);
    let is_wrong = found.iter().any(|found| found.severity == Severity::Error);
    if is_wrong { Vec::new() } else { groups }
}
