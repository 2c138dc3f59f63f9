//! Whether the routing engines route a fabric.

use super::qos;
use crate::config::options::{Options, engine_names};
use crate::config::qos_policy::QosPolicy;
use crate::fabric::Fabric;
use crate::notes::{Note, Severity};
use crate::plan::partitions::Partition;
use crate::plan::routing::{RoutingError, torus};
use std::sync::Arc;

/// Findings about the engines: an error if none of those that were asked for routes the fabric, or if
/// torus-2QoS does not, since the rest of the configuration is made for it; a warning for any other
/// engine that leaves the fabric to a later one of the list. The reasons of the engines follow.
pub(super) fn findings(
    fabric: &Fabric,
    options: &Options,
    partitions: &[Partition],
    policy: Option<&Arc<QosPolicy>>,
) -> Vec<Note> {
    let plan = match qos::planned(fabric, options, partitions, policy) {
        Ok(plan) => plan,
        Err(unrouted) => {
            let head = Note::new(Severity::Error, None, unrouted.text);
            return std::iter::once(head).chain(unrouted.errors.iter().flat_map(reasons)).collect();
        }
    };
    let used = plan.routing.engine;
    let asked = options.routing_engine.as_deref().unwrap_or_default();
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
    notes
}

/// The messages of an engine, as information.
fn reasons(error: &RoutingError) -> impl Iterator<Item = Note> {
    let name = error.engine;
    error.notes.iter().map(move |note| Note::info(format!("{name}: {}", note.text)))
}
