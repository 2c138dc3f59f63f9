//! Whether the routing engines route a fabric, and what the plan for it warns of.

use super::qos::{self, Unrouted};
use crate::config::options::{Options, engine_names};
use crate::fabric::Fabric;
use crate::notes::{Note, Severity};
use crate::plan::Plan;
use crate::plan::routing::{RoutingError, torus};
use crate::verify::Verified;
use std::sync::Arc;

/// Findings about the engines: an error if none of those that were asked for routes the fabric, or if
/// torus-2QoS does not, since the rest of the configuration is made for it; a warning for any other
/// engine that leaves the fabric to a later one of the list. The reasons of the engines follow, then
/// the warnings and errors of plan and verification, as `plan` and the daemon report them.
pub(super) fn findings(
    fabric: &Fabric,
    options: &Options,
    planned: &Result<Verified, Unrouted>,
) -> Vec<Note> {
    let verified = match planned {
        Ok(verified) => verified,
        Err(unrouted) => {
            let head = Note::new(Severity::Error, None, unrouted.text.clone());
            return std::iter::once(head).chain(unrouted.errors.iter().flat_map(reasons)).collect();
        }
    };
    let plan = verified.plan();
    let used = plan.routing.engine;
    let asked = options.engines();
    let is_fallback = engine_names(asked).all(|name| name != used);
    let mut notes = Vec::new();
    for error in &plan.routing.routing_errors {
        let severity = match error.engine {
            _ if is_fallback => Severity::Error,
            torus::NAME => Severity::Error,
            _ => Severity::Warning,
        };
        let used = if is_fallback { format!("only the fallback {used}") } else { used.to_owned() };
        let text = format!("{} does not route the fabric; {used} does", error.engine);
        notes.push(Note::new(severity, None, text));
        notes.extend(reasons(error));
    }
    // Shown with their lines.
    let scopes: Vec<Note> = qos::scope_findings(fabric, plan).iter().map(Note::from).collect();
    let warnings = plan.notes.iter().chain(&verified.summary().notes);
    let warnings =
        warnings.filter(|note| note.severity > Severity::Info && !is_told(&scopes, plan, note));
    notes.extend(warnings.cloned());
    notes
}

fn is_told(scopes: &[Note], plan: &Arc<Plan>, note: &Note) -> bool {
    scopes.contains(note)
        || plan.routing.routing_errors.iter().any(|error| {
            let fallback = format!("{} cannot route this fabric", error.engine);
            error.notes.contains(note) || note.text.starts_with(&fallback)
        })
}

/// The messages of an engine, as information.
fn reasons(error: &RoutingError) -> impl Iterator<Item = Note> {
    let name = error.engine;
    error.notes.iter().map(move |note| Note::info(format!("{name}: {}", note.text)))
}
