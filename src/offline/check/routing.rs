//! Whether the routing engines route a fabric.

use super::qos;
use crate::config::options::Options;
use crate::config::qos_policy::QosPolicy;
use crate::fabric::Fabric;
use crate::notes::{Note, Severity};
use crate::plan::partitions::Partition;
use crate::plan::routing::torus;
use std::sync::Arc;

/// Findings about the engines: an error if none routes the fabric, or if torus-2QoS does not, since
/// the rest of the configuration is made for it; a warning for any other engine that does not.
pub(super) fn findings(
    fabric: &Fabric,
    options: &Options,
    partitions: &[Partition],
    policy: Option<&Arc<QosPolicy>>,
) -> Vec<Note> {
    let plan = match qos::planned(fabric, options, partitions, policy) {
        Ok(plan) => plan,
        Err(problem) => return vec![Note::new(Severity::Error, None, problem)],
    };
    let used = plan.routing.engine;
    let mut notes = Vec::new();
    for error in &plan.routing.routing_errors {
        let severity = match error.engine {
            torus::NAME => Severity::Error,
            _ => Severity::Warning,
        };
        let text = format!("{} does not route the fabric; {used} does", error.engine);
        notes.push(Note::new(severity, None, text));
        let reasons = error.notes.iter().map(|note| note.text.clone());
        notes.extend(reasons.map(|text| Note::new(Severity::Info, None, text)));
    }
    notes
}
