//! A cause of trouble, from which an incident follows.

use super::incident::{IncidentSeverity, Kind, Losses, MAX_LINES};
use crate::fabric::End;
use crate::ids::Guid;
use std::collections::BTreeSet;

/// What an incident is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Subject {
    Node(Guid),
    Cable([End; 2]),
    /// A part of the fabric, by its switch with the lowest GUID.
    Part(Guid),
    /// Two cables, by their lowest end.
    Exchange(End),
    Duplicate(Guid),
    Manager(Guid),
    Routing,
    MassSilence,
    /// Devices that never answered.
    Unanswered,
    Full(&'static str),
    Client(u16, &'static str),
    Own(&'static str),
}

impl Subject {
    /// The identifier of its incidents.
    pub fn id(&self) -> String {
        match self {
            Self::Node(guid) => format!("node-{guid}"),
            Self::Cable([(guid, port), _]) => format!("cable-{guid}-{port}"),
            Self::Part(guid) => format!("part-{guid}"),
            Self::Exchange((guid, port)) => format!("exchange-{guid}-{port}"),
            Self::Duplicate(guid) => format!("duplicate-{guid}"),
            Self::Manager(guid) => format!("manager-{guid}"),
            Self::Routing => "routing".to_owned(),
            Self::MassSilence => "silence".to_owned(),
            Self::Unanswered => "unanswered".to_owned(),
            Self::Full(space) => format!("full-{space}"),
            Self::Client(lid, offence) => format!("client-{lid}-{offence}"),
            Self::Own(resource) => format!("own-{resource}"),
        }
    }
}

/// A cause with its symptoms.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IncidentCause {
    pub subject: Subject,
    pub kind: Kind,
    pub severity: IncidentSeverity,
    pub headline: String,
    pub evidence: Vec<String>,
    pub takes: Losses,
    pub risks: Vec<String>,
    pub repair: String,
    /// Identifiers of incidents that this cause explains, its own included.
    pub covers: BTreeSet<String>,
    /// It is over, and may come again: it keeps an incident open, and opens none.
    pub is_over: bool,
}

impl IncidentCause {
    pub(super) fn new(
        subject: Subject,
        kind: Kind,
        severity: IncidentSeverity,
        headline: String,
    ) -> Self {
        Self {
            kind,
            severity,
            headline,
            evidence: Vec::new(),
            takes: Losses::default(),
            risks: Vec::new(),
            repair: String::new(),
            covers: BTreeSet::from([subject.id()]),
            is_over: false,
            subject,
        }
    }

    pub(super) fn because(self, evidence: impl Into<String>) -> Self {
        let mut evidence_lines = self.evidence;
        evidence_lines.push(evidence.into());
        Self { evidence: evidence_lines, ..self }
    }

    pub(super) fn repaired_by(self, repair: impl Into<String>) -> Self {
        Self { repair: repair.into(), ..self }
    }
}

/// The first lines, and the number of the others.
pub(super) fn listed(lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = lines.collect();
    let more = lines.len().saturating_sub(MAX_LINES);
    if more > 0 {
        lines.truncate(MAX_LINES);
        lines.push(format!("and {more} more"));
    }
    lines
}
