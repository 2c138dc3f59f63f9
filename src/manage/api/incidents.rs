//! `/v1/incidents`: one object for each cause of trouble.

use super::context::ApiContext;
use super::error::ApiError;
use super::query::ApiQuery;
use super::reply::{HttpReply, time};
use crate::incidents::book::IncidentList;
use crate::incidents::fact::Reroute;
use crate::incidents::incident::{Incident, IncidentSeverity, Kind, Losses};
use chrono::DateTime;
use serde::Serialize;

/// Incidents in the status; the others are counted.
const MAX_IN_STATUS: usize = 16;

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct IncidentsView<'a> {
    /// The one to repair first is first.
    open: Vec<IncidentView<'a>>,
    /// The last ones that have ended, the latest first.
    closed: Vec<IncidentView<'a>>,
    /// Open incidents that are too many to be listed.
    left_out: usize,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct IncidentView<'a> {
    /// The same for each incident of this cause, after restarts and takeovers, too.
    id: &'a str,
    kind: Kind,
    severity: IncidentSeverity,
    opened: String,
    /// Null while it is open.
    closed: Option<String>,
    /// How often this cause has opened an incident.
    openings: u32,
    /// What happened, in one sentence.
    headline: &'a str,
    /// Why this is known.
    evidence: &'a [String],
    takes: &'a Losses,
    /// The reconfiguration that led routes around it; null if there was none.
    rerouted: Option<Reroute>,
    /// What is worse until it is repaired.
    risks: &'a [String],
    /// What to repair first.
    repair: &'a str,
}

/// The open incidents in the status.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct IncidentSummary {
    critical: usize,
    warning: usize,
    /// The first ones; the one to repair first is first.
    first: Vec<IncidentLine>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct IncidentLine {
    id: String,
    severity: IncidentSeverity,
    opened: String,
    headline: String,
    /// What to repair first.
    repair: String,
}

/// Milliseconds since 1970 as RFC 3339.
fn date(milliseconds: u64) -> String {
    let milliseconds = i64::try_from(milliseconds).unwrap_or(i64::MAX);
    DateTime::from_timestamp_millis(milliseconds).map_or_else(String::new, time)
}

fn view(incident: &Incident) -> IncidentView<'_> {
    IncidentView {
        id: &incident.id,
        kind: incident.kind,
        severity: incident.severity,
        opened: date(incident.opened),
        closed: incident.closed.map(date),
        openings: incident.openings,
        headline: &incident.headline,
        evidence: &incident.evidence,
        takes: &incident.takes,
        rerouted: incident.rerouted,
        risks: &incident.risks,
        repair: &incident.repair,
    }
}

/// All incidents, those of a severity or kind, or the one that the parameter `id` names.
pub(super) fn incidents(context: &ApiContext<'_>, query: &ApiQuery) -> Result<HttpReply, ApiError> {
    let list = &context.incidents;
    let id = query.get("id");
    let severity = query.one_of("severity", &["critical", "warning"])?;
    let kind = query.get("kind");
    if let Some(kind) = kind {
        let known: Result<Kind, _> = serde_json::from_value(kind.into());
        known.map_err(|_| ApiError::new(400, format!("there is no kind '{kind}' of incidents")))?;
    }
    let open = list.open.iter().filter(|incident| is_meant(id, severity, kind, incident));
    let open: Vec<IncidentView<'_>> = open.map(|incident| view(incident)).collect();
    let closed = list.closed.iter().filter(|incident| is_meant(id, severity, kind, incident));
    let closed: Vec<IncidentView<'_>> = closed.map(|incident| view(incident)).collect();
    if let Some(id) = id
        && open.is_empty()
        && closed.is_empty()
    {
        return Err(ApiError::new(404, format!("there is no incident {id}")));
    }
    HttpReply::json(&IncidentsView { open, closed, left_out: list.left_out })
}

fn is_meant(
    id: Option<&str>,
    severity: Option<&str>,
    kind: Option<&str>,
    incident: &Incident,
) -> bool {
    id.is_none_or(|id| incident.id == id)
        && severity.is_none_or(|severity| incident.severity.name() == severity)
        && kind.is_none_or(|kind| incident.kind.name() == kind)
}

/// Numbers of open incidents by severity.
pub(in crate::manage) fn counts(list: &IncidentList) -> [(IncidentSeverity, usize); 2] {
    [IncidentSeverity::Critical, IncidentSeverity::Warning].map(|severity| {
        let count = list.open.iter().filter(|incident| incident.severity == severity).count();
        (severity, count)
    })
}

pub(super) fn summary(list: &IncidentList) -> IncidentSummary {
    let [(_, critical), (_, warning)] = counts(list);
    let first = list
        .open
        .iter()
        .take(MAX_IN_STATUS)
        .map(|incident| IncidentLine {
            id: incident.id.clone(),
            severity: incident.severity,
            opened: date(incident.opened),
            headline: incident.headline.clone(),
            repair: incident.repair.clone(),
        })
        .collect();
    IncidentSummary { critical, warning: warning + list.left_out, first }
}
