//! The latest events, numbered from 1, for clients that resume from a number.

use super::event::Event;
use super::feed::TimedEvent;
use chrono::SecondsFormat;
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Number of events that are kept.
pub const MAX_EVENTS: usize = 8192;

/// Maximum total length of the kept events, in bytes of JSON.
const MAX_BYTES: usize = 8 << 20;

/// An event as JSON.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoggedEvent {
    /// Its number, from 1 at the start of the daemon.
    pub number: u64,
    pub name: &'static str,
    /// One line of JSON.
    pub json: Arc<str>,
}

/// An event with its number and time, as JSON shows it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EventRecord<'a> {
    /// Number of the event, from 1 at the start of the daemon.
    pub number: u64,
    /// UTC, RFC 3339.
    pub time: String,
    #[serde(flatten)]
    pub event: &'a Event,
}

#[derive(Default)]
struct LoggedEvents {
    events: VecDeque<LoggedEvent>,
    bytes: usize,
}

/// The events, shared by the tasks of the server only.
pub struct EventLog {
    entries: Mutex<LoggedEvents>,
    /// Number of the last event.
    last: watch::Sender<u64>,
}

impl Default for EventLog {
    fn default() -> Self {
        Self { entries: Mutex::default(), last: watch::Sender::new(0) }
    }
}

impl EventLog {
    fn entries(&self) -> MutexGuard<'_, LoggedEvents> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event, and returns it as it was logged. The oldest ones are dropped.
    pub fn push(&self, event: &TimedEvent) -> Option<LoggedEvent> {
        let number = *self.last.borrow() + 1;
        let time = event.time.to_rfc3339_opts(SecondsFormat::Millis, true);
        let record = EventRecord { number, time, event: &event.event };
        // Events have neither maps with other keys than texts nor numbers that are not finite.
        let json = serde_json::to_string(&record).ok()?;
        let mut entries = self.entries();
        entries.bytes += json.len();
        let logged = LoggedEvent { number, name: event.event.name(), json: json.into() };
        entries.events.push_back(logged.clone());
        while entries.events.len() > MAX_EVENTS || entries.bytes > MAX_BYTES {
            let Some(oldest) = entries.events.pop_front() else { break };
            entries.bytes -= oldest.json.len();
        }
        drop(entries);
        self.last.send_replace(number);
        Some(logged)
    }

    /// Number of the last event; 0 before the first.
    pub fn last(&self) -> u64 {
        *self.last.borrow()
    }

    /// Changes of the number of the last event.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.last.subscribe()
    }

    /// At most `max` events after number `after`, oldest first, and the number of events after
    /// `after` that are no longer kept.
    pub fn after(&self, after: u64, max: usize) -> (Vec<LoggedEvent>, u64) {
        let entries = self.entries();
        let Some(first) = entries.events.front().map(|event| event.number) else {
            return (Vec::new(), 0);
        };
        let missed = first.saturating_sub(after + 1);
        let skip = (after + 1).saturating_sub(first) as usize;
        (entries.events.iter().skip(skip).take(max).cloned().collect(), missed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::Utc;

    fn push(log: &EventLog, event: Event) {
        log.push(&TimedEvent { time: Utc::now(), event });
    }

    #[test]
    fn readers_resume_and_learn_what_they_missed() {
        let log = EventLog::default();
        assert_eq!(log.after(0, 10), (Vec::new(), 0));
        for _ in 0..MAX_EVENTS + 5 {
            push(&log, Event::ConfigReloaded { problems: Vec::new() });
        }
        let last = MAX_EVENTS as u64 + 5;
        assert_eq!(log.last(), last);
        assert_eq!(numbers(&log, 0), (vec![6, 7, 8], 5));
        assert_eq!(numbers(&log, 5), (vec![6, 7, 8], 0));
        assert_eq!(numbers(&log, last - 1), (vec![last], 0));
        assert_eq!(numbers(&log, last), (vec![], 0));
        assert_eq!(
            numbers(&log, last + 100),
            (vec![], 0),
            "the number is that of an earlier daemon"
        );
    }

    fn numbers(log: &EventLog, after: u64) -> (Vec<u64>, u64) {
        let (events, missed) = log.after(after, 3);
        (events.iter().map(|event| event.number).collect::<Vec<_>>(), missed)
    }

    #[test]
    fn the_total_length_is_bounded() {
        let log = EventLog::default();
        for _ in 0..20 {
            let problem = "x".repeat(1 << 20);
            push(&log, Event::ConfigRejected { problem });
        }
        let (events, missed) = log.after(0, MAX_EVENTS);
        assert_eq!((events.len(), missed), (7, 13));
    }

    #[test]
    fn an_event_is_one_line_with_number_time_and_name() {
        let log = EventLog::default();
        push(&log, Event::RoleChanged { state: "MASTER".into() });
        let json = log.after(0, 1).0[0].json.clone();
        let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!((&value["number"], &value["event"]), (&1.into(), &"role_changed".into()));
        assert_eq!(value["state"], "MASTER");
        assert!(value["time"].as_str().is_some_and(|time| time.ends_with('Z')), "{json}");
        assert!(!json.contains('\n'));
    }
}
