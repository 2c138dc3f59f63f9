//! `tracing` events → lines of the log.

use super::{Shared, flags};
use chrono::{DateTime, Local};
use std::fmt::{self, Write as _};
use std::sync::Arc;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

/// The layer that writes OpenSM's lines.
pub struct LogLayer(Arc<Shared>);

impl LogLayer {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// Events with a flag of their own are judged when the flag is known.
    fn interest(&self, metadata: &Metadata<'_>) -> Interest {
        let special = metadata.fields().field("flags").is_some();
        if special || self.0.enabled(flag_of(metadata.level())) {
            Interest::always()
        } else {
            Interest::never()
        }
    }
}

/// The flag a level belongs to.
fn flag_of(level: &Level) -> u8 {
    match *level {
        Level::ERROR | Level::WARN => flags::ERROR,
        Level::INFO => flags::INFO,
        Level::DEBUG => flags::VERBOSE,
        Level::TRACE => flags::DEBUG,
    }
}

impl<S: Subscriber> Layer<S> for LogLayer {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if metadata.is_span() { Interest::never() } else { self.interest(metadata) }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        metadata.is_event() && self.interest(metadata).is_always()
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(if self.shows(flags::DEBUG) {
            LevelFilter::TRACE
        } else if self.shows(flags::VERBOSE) {
            LevelFilter::DEBUG
        } else {
            // Major events are INFO events, and those are always shown.
            LevelFilter::INFO
        })
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let mut line = Line { flags: flag_of(metadata.level()), ..Line::default() };
        event.record(&mut line);
        if !self.0.enabled(line.flags) {
            return;
        }
        let mut text = String::with_capacity(128);
        if *metadata.level() == Level::WARN {
            text.push_str("WARNING: ");
        }
        text.push_str(&line.message);
        text.push_str(&line.fields);
        let place = line.place.as_deref().unwrap_or_else(|| place(metadata.target()));
        let now = Local::now();
        self.0.sink().write(&now, line.flags, (!line.bare).then_some(place), &text);
    }
}

impl LogLayer {
    fn shows(&self, flag: u8) -> bool {
        self.0.flags.load(std::sync::atomic::Ordering::Relaxed) & flag != 0
    }
}

/// The place in the program: the path without the crate's name.
fn place(target: &str) -> &str {
    target.strip_prefix("torus_sm::").unwrap_or(target)
}

/// What an event says.
#[derive(Default)]
struct Line {
    flags: u8,
    bare: bool,
    /// The place the event names in stead of its own.
    place: Option<String>,
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a String cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message.push_str(value),
            "place" => self.place = Some(value.to_owned()),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match (field.name(), u8::try_from(value)) {
            ("flags", Ok(flags)) => self.flags = flags,
            _ => self.record_debug(field, &value),
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        match field.name() {
            "bare" => self.bare = value,
            _ => self.record_debug(field, &value),
        }
    }
}

/// The head of a line, up to the message.
pub(super) fn head(now: &DateTime<Local>, thread: i32, flags: u8) -> String {
    let micros = now.timestamp_subsec_micros().min(999_999);
    format!("{} {micros:06} [{thread:04X}] 0x{flags:02x} -> ", now.format("%b %d %H:%M:%S"))
}
