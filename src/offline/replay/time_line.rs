//! The entries of a recording as text, one a line.

use crate::record::entry::{EntryBody, RecordEntry, RecordedMad};
use crate::record::json::HeaderJson;
use crate::transport::Agent;
use crate::transport::recorded::MadFate;
use crate::wire::attr::AttrId;
use crate::wire::congestion::CongestionAttr;
use crate::wire::mad::Status;
use crate::wire::perf::CounterAttribute;
use crate::wire::sa::SaAttr;
use chrono::{DateTime, TimeDelta, Utc};
use std::fmt::Write as _;

/// The clock of the entries.
pub(super) struct EntryClock {
    /// Time of day and clock of the recorder at the time of writing.
    written: Option<DateTime<Utc>>,
    written_at: u64,
}

impl EntryClock {
    pub(super) fn new(header: &HeaderJson) -> Self {
        let written = DateTime::parse_from_rfc3339(&header.written);
        let written = written.ok().map(|time| time.to_utc());
        Self { written, written_at: header.written_at }
    }

    /// The time of day of an entry: `at` is in microseconds since the start of the recorder. `None` if
    /// the recording does not tell.
    pub(super) fn time_of_day(&self, at: u64) -> Option<DateTime<Utc>> {
        let before = i64::try_from(self.written_at.saturating_sub(at)).unwrap_or(i64::MAX);
        self.written?.checked_sub_signed(TimeDelta::microseconds(before))
    }
}

/// How the entries are shown.
pub(super) struct TimeLine {
    clock: EntryClock,
    with_mads: bool,
}

impl TimeLine {
    pub(super) fn new(header: &HeaderJson, with_mads: bool) -> Self {
        Self { clock: EntryClock::new(header), with_mads }
    }

    pub(super) fn text(&self, entries: &[RecordEntry]) -> String {
        let mut text = String::from("time line:\n");
        for entry in entries {
            // Writing to a `String` cannot fail.
            let _ = match &entry.body {
                EntryBody::Event(kind, event) => {
                    let event = event.escape_debug();
                    writeln!(text, "  {} {:<13} {event}", self.time(entry.at), kind.name())
                }
                EntryBody::Mad(mad) if self.with_mads => {
                    writeln!(text, "  {} {}", self.time(entry.at), describe(mad))
                }
                EntryBody::Mad(_) => Ok(()),
            };
        }
        text
    }

    /// Seconds since the start of the recorder, and the time of day.
    fn time(&self, at: u64) -> String {
        let seconds = format!("{:>6}.{:06}", at / 1_000_000, at % 1_000_000);
        match self.clock.time_of_day(at) {
            Some(time) => format!("{seconds} {}", time.format("%H:%M:%S%.6f")),
            None => seconds,
        }
    }
}

/// Direction, method, attribute, route and status of a MAD.
fn describe(recorded: &RecordedMad) -> String {
    let RecordedMad { fate, agent, lid, mad, .. } = recorded;
    let fate = match fate {
        MadFate::Sent => "sent",
        MadFate::NotSent => "not sent",
        MadFate::Received => "received",
        MadFate::Unanswered => "unanswered",
    };
    let header = mad.header();
    let attribute = match agent {
        Agent::Sa => SaAttr::name(header.attr_id()),
        Agent::SmiDirected | Agent::SmiLid => AttrId::name(header.attr_id()),
        Agent::Congestion => CongestionAttr::name(header.attr_id()),
        Agent::Perf => {
            CounterAttribute::by_id(header.attr_id()).map_or("ClassPortInfo", |group| group.name)
        }
    };
    let place = match (agent, mad.smp().route()) {
        (Agent::SmiDirected, Some(route)) => format!("path {route}"),
        _ => format!("LID {lid}"),
    };
    let status = match (agent, mad.method().is_response()) {
        (_, false) => String::new(),
        (Agent::SmiDirected, true) => status(mad.smp().status()),
        (_, true) => status(header.status()),
    };
    format!(
        "{fate:<13} {} {attribute} 0x{:x}, {place}{status}, tid 0x{:x}",
        mad.method(),
        header.attr_mod(),
        header.tid()
    )
}

fn status(status: u16) -> String {
    match status {
        0 => String::new(),
        status => format!(", status 0x{status:04x} ({})", Status::name(status)),
    }
}
