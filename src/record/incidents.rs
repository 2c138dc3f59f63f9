//! Incidents as events of a recording: one line of text for each change.

use std::fmt;

/// How an incident changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IncidentStep {
    Opened,
    /// Its severity, headline or repair are others.
    Changed,
    Ended,
}

impl IncidentStep {
    const ALL: [Self; 3] = [Self::Opened, Self::Changed, Self::Ended];

    fn name(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Changed => "changed",
            Self::Ended => "ended",
        }
    }
}

/// An incident as far as recordings have it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordedIncident {
    /// Its identifier, without spaces.
    pub id: String,
    /// `warning` or `critical`.
    pub severity: String,
    pub headline: String,
    /// What to repair; may be cut off in recordings.
    pub repair: String,
}

/// Stands between the headline and the repair.
const REPAIR: &str = "; repair: ";

impl fmt::Display for RecordedIncident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, severity, headline, repair } = self;
        write!(f, "{id} ({severity}): {headline}{REPAIR}{repair}")
    }
}

impl RecordedIncident {
    /// The text of an event.
    pub fn event_text(&self, step: IncidentStep) -> String {
        format!("{} {self}", step.name())
    }

    /// Reads the text of an event; `None` if it is another text.
    pub fn parse_event(text: &str) -> Option<(IncidentStep, Self)> {
        let (name, rest) = text.split_once(' ')?;
        let step = IncidentStep::ALL.into_iter().find(|step| step.name() == name)?;
        Some((step, Self::parse(rest)?))
    }

    /// Reads an incident as its `Display` writes it; `None` if the text is another one.
    pub fn parse(text: &str) -> Option<Self> {
        let (id, rest) = text.split_once(" (")?;
        let (severity, rest) = rest.split_once("): ")?;
        let (headline, repair) = rest.rsplit_once(REPAIR).unwrap_or((rest, ""));
        Some(Self {
            id: id.to_owned(),
            severity: severity.to_owned(),
            headline: headline.to_owned(),
            repair: repair.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incidents_are_read_as_written_and_other_texts_are_none() {
        for step in IncidentStep::ALL {
            let incident = RecordedIncident {
                id: "cable-0x0002c90300000001-3".to_owned(),
                severity: "warning".to_owned(),
                headline: "the cable \"a (1)\"[3] – \"b\"[4] flaps; often".to_owned(),
                repair: "reseat it".to_owned(),
            };
            let text = incident.event_text(step);
            assert_eq!(RecordedIncident::parse_event(&text), Some((step, incident.clone())));
            let cut = text.strip_suffix("pair: reseat it").expect("the end");
            let (_, read) = RecordedIncident::parse_event(cut).expect("an incident");
            assert_eq!(read.id, incident.id);
        }
        for text in ["", "opened", "closed x (critical): y", "opened x: y"] {
            assert_eq!(RecordedIncident::parse_event(text), None, "{text}");
        }
    }
}
