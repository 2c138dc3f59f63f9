//! The book of incidents: those that are open, and the last ones that have ended.

use super::cause::{IncidentCause, Subject};
use super::causes::causes;
use super::fact::{Facts, Reroute};
use super::incident::Incident;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Open incidents that are kept; the most urgent ones are.
pub const MAX_OPEN: usize = 1024;
/// Closed incidents that are kept; the latest ones are.
pub const MAX_CLOSED: usize = 64;

/// A change of the book.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IncidentChange {
    Opened(Arc<Incident>),
    /// Its evidence, losses or risks are others.
    Changed(Arc<Incident>),
    /// More is known about its cause: its kind is another one.
    Reclassified(Arc<Incident>),
    Closed(Arc<Incident>),
    /// It turned out to be a symptom of another incident, and has ended as one of its own.
    Folded {
        incident: Arc<Incident>,
        /// Identifier of the other one.
        into: String,
    },
}

/// All incidents, as readers get them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IncidentList {
    /// The one to be repaired first is first.
    pub open: Vec<Arc<Incident>>,
    /// The latest one is first.
    pub closed: Vec<Arc<Incident>>,
    /// Open ones beyond [`MAX_OPEN`].
    pub left_out: usize,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Book {
    open: BTreeMap<String, Arc<Incident>>,
    closed: VecDeque<Arc<Incident>>,
    left_out: usize,
    /// Open incidents that stay although their evidence is gone.
    held: BTreeSet<String>,
}

impl Book {
    /// A book with these incidents.
    pub fn restored(open: Vec<Incident>, closed: Vec<Incident>) -> Self {
        let open = open.into_iter().take(MAX_OPEN);
        Self {
            open: open.map(|incident| (incident.id.clone(), Arc::new(incident))).collect(),
            closed: closed.into_iter().take(MAX_CLOSED).map(Arc::new).collect(),
            left_out: 0,
            held: BTreeSet::new(),
        }
    }

    /// Keeps the open incidents whose evidence takes time to be seen again after a restart, such as
    /// errors between two readings, until [`Self::release`].
    pub fn hold(&mut self) {
        let held = self.open.values().filter(|incident| incident.kind.is_seen_over_time());
        self.held = held.map(|incident| incident.id.clone()).collect();
    }

    pub fn release(&mut self) {
        self.held.clear();
    }

    /// True if there is an open incident about this.
    pub fn is_open(&self, subject: &Subject) -> bool {
        self.open.contains_key(&subject.id())
    }

    pub fn list(&self) -> IncidentList {
        let mut open: Vec<Arc<Incident>> = self.open.values().cloned().collect();
        open.sort_by(|a, b| a.urgency().cmp(&b.urgency()));
        let closed = self.closed.iter().cloned().collect();
        IncidentList { open, closed, left_out: self.left_out }
    }

    /// Opens, changes and closes incidents so that they are those of `facts`. `now`: milliseconds
    /// since 1970.
    pub fn observe(&mut self, facts: &Facts, now: u64) -> Vec<IncidentChange> {
        let mut causes = causes(facts);
        causes.retain(|cause| {
            let open = self.open.get(&cause.subject.id());
            !cause.is_over || open.is_some_and(|open| open.kind == cause.kind)
        });
        self.left_out = causes.len().saturating_sub(MAX_OPEN);
        if self.left_out > 0 {
            causes.sort_by_key(|cause| {
                let is_open = self.open.contains_key(&cause.subject.id());
                (std::cmp::Reverse(cause.severity), !is_open)
            });
            causes.truncate(MAX_OPEN);
        }
        let mut changes = self.end_others(&causes, now);
        for cause in causes {
            let id = cause.subject.id();
            let before = self.open.get(&id);
            let incident = self.incident(&id, cause, facts.losses.reroute, now);
            if before.is_some_and(|before| **before == incident) {
                continue;
            }
            let kind_before = before.map(|before| before.kind);
            let incident = Arc::new(incident);
            self.open.insert(id, incident.clone());
            changes.push(match kind_before {
                None => IncidentChange::Opened(incident),
                Some(kind) if kind != incident.kind => IncidentChange::Reclassified(incident),
                Some(_) => IncidentChange::Changed(incident),
            });
        }
        changes
    }

    fn incident(
        &self,
        id: &str,
        cause: IncidentCause,
        reroute: Option<Reroute>,
        now: u64,
    ) -> Incident {
        let before = self.open.get(id);
        let last = before.or_else(|| self.closed.iter().find(|closed| closed.id == id));
        let openings = last.map_or(0, |last| last.openings);
        let answered = before.and_then(|before| before.rerouted);
        let earlier = before.map_or_else(Vec::new, |before| before.earlier_headlines(cause.kind));
        Incident {
            id: id.to_owned(),
            kind: cause.kind,
            severity: cause.severity,
            opened: before.map_or(now, |before| before.opened),
            closed: None,
            openings: openings + u32::from(before.is_none()),
            headline: cause.headline,
            evidence: cause.evidence.into_iter().chain(earlier).collect(),
            takes: cause.takes,
            rerouted: answered.or(reroute.filter(|_| cause.kind.is_rerouted())),
            risks: cause.risks,
            repair: cause.repair,
        }
    }

    /// Ends the incidents that are not among the causes.
    fn end_others(&mut self, causes: &[IncidentCause], now: u64) -> Vec<IncidentChange> {
        let mut subjects = BTreeMap::new();
        for cause in causes {
            let owner = cause.subject.id();
            subjects.extend(cause.covers.iter().map(|id| (id.clone(), owner.clone())));
            subjects.insert(owner.clone(), owner);
        }
        let ids = self.open.keys();
        let over: Vec<String> = ids.filter(|id| subjects.get(*id) != Some(*id)).cloned().collect();
        let mut changes = Vec::new();
        for id in over {
            if self.held.contains(&id) && !subjects.contains_key(&id) {
                continue;
            }
            let Some(open) = self.open.remove(&id) else { continue };
            let incident = Arc::new(Incident { closed: Some(now), ..Incident::clone(&open) });
            if let Some(into) = subjects.get(&id) {
                changes.push(IncidentChange::Folded { incident, into: into.clone() });
                continue;
            }
            self.closed.retain(|closed| closed.id != id);
            self.closed.push_front(incident.clone());
            self.closed.truncate(MAX_CLOSED);
            changes.push(IncidentChange::Closed(incident));
        }
        changes
    }
}
