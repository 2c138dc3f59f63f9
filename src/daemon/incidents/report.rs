//! Log lines, events and records of incidents: one line when an incident opens, one when its kind
//! changes, one when it closes.

use crate::incidents::book::IncidentChange;
use crate::incidents::incident::{Incident, IncidentSeverity};
use crate::manage::event::Event;
use crate::manage::feed::EventSender;
use crate::notes::time_text;
use crate::record::FlightRecorder;
use crate::record::incidents::RecordedIncident;
use std::time::Duration;
use tracing::{debug, error, info, warn};

/// The incident for the flight recorder.
pub fn recorded(incident: &Incident) -> RecordedIncident {
    RecordedIncident {
        id: incident.id.clone(),
        severity: incident.severity.name().to_owned(),
        headline: incident.headline.clone(),
        repair: incident.repair.clone(),
    }
}

/// Logs a change of the incidents, sends its event, and records it.
pub fn report(change: &IncidentChange, events: &EventSender, recorder: &FlightRecorder) {
    match change {
        IncidentChange::Opened(incident)
        | IncidentChange::Changed(incident)
        | IncidentChange::Reclassified(incident) => {
            recorder.incident_open(&recorded(incident));
        }
        IncidentChange::Closed(incident) | IncidentChange::Folded { incident, .. } => {
            recorder.incident_ended(&recorded(incident));
        }
    }
    log(change, events);
}

fn log(change: &IncidentChange, events: &EventSender) {
    match change {
        IncidentChange::Opened(incident) => {
            log_open(incident);
            let Incident { id, headline, repair, .. } = &**incident;
            events.send(Event::IncidentOpened {
                id: id.clone(),
                kind: incident.kind.name().to_owned(),
                severity: incident.severity.name().to_owned(),
                headline: headline.clone(),
                repair: repair.clone(),
            });
        }
        IncidentChange::Reclassified(incident) => {
            log_open(incident);
            events.send(Event::IncidentChanged {
                id: incident.id.clone(),
                kind: incident.kind.name().to_owned(),
                severity: incident.severity.name().to_owned(),
                headline: incident.headline.clone(),
                repair: incident.repair.clone(),
            });
        }
        IncidentChange::Changed(incident) => {
            debug!("incident {}: now {}", incident.id, incident.headline)
        }
        IncidentChange::Closed(incident) => {
            let Incident { id, headline, .. } = &**incident;
            let open = duration(incident);
            info!("incident {id} has ended after {}: {headline}", time_text(open));
            events.send(Event::IncidentClosed {
                id: id.clone(),
                kind: incident.kind.name().to_owned(),
                headline: headline.clone(),
                open_seconds: open.as_secs_f64(),
                part_of: None,
            });
        }
        IncidentChange::Folded { incident, into } => {
            debug!("incident {} is part of incident {into}", incident.id);
            events.send(Event::IncidentClosed {
                id: incident.id.clone(),
                kind: incident.kind.name().to_owned(),
                headline: incident.headline.clone(),
                open_seconds: duration(incident).as_secs_f64(),
                part_of: Some(into.clone()),
            });
        }
    }
}

fn log_open(incident: &Incident) {
    let Incident { id, headline, repair, .. } = incident;
    match incident.severity {
        IncidentSeverity::Critical => error!("incident {id}: {headline}; {repair}"),
        IncidentSeverity::Warning => warn!("incident {id}: {headline}; {repair}"),
    }
}

fn duration(incident: &Incident) -> Duration {
    let closed = incident.closed.unwrap_or(incident.opened);
    Duration::from_millis(closed.saturating_sub(incident.opened))
}
