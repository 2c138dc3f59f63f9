//! Formats `tracing` events as log lines.

use super::event::LogEvent;
use super::{LogShared, flags};
use crate::transport::frames;
use chrono::{DateTime, Local};
use std::fmt::{self, Write as _};
use std::sync::Arc;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

/// A layer that writes events to the log in OpenSM's format.
pub struct LogLayer(Arc<LogShared>);

impl LogLayer {
    pub(super) fn new(shared: Arc<LogShared>) -> Self {
        Self(shared)
    }

    /// Events with a `flags` field are always of interest; the field is checked when they occur.
    fn interest(&self, metadata: &Metadata<'_>) -> Interest {
        let has_flags = metadata.fields().field("flags").is_some();
        let wanted = flag_of(metadata);
        // A finding has the name of the module that found it.
        let has_place = metadata.fields().field("place").is_some();
        let in_any_module = wanted & self.0.module_flags(|_| true) != 0;
        let place = place(metadata.target());
        if has_flags || self.0.enabled_in(wanted, place) || (has_place && in_any_module) {
            Interest::always()
        } else {
            Interest::never()
        }
    }
}

/// The log flag that corresponds to the level of an event, or to its target.
fn flag_of(metadata: &Metadata<'_>) -> u8 {
    match *metadata.level() {
        Level::TRACE if is_frame(metadata) => flags::FRAMES,
        Level::ERROR | Level::WARN => flags::ERROR,
        Level::INFO => flags::INFO,
        Level::DEBUG => flags::VERBOSE,
        Level::TRACE => flags::DEBUG,
    }
}

/// True for events that show a MAD.
fn is_frame(metadata: &Metadata<'_>) -> bool {
    metadata.target().starts_with(frames::TARGET)
}

impl<S: Subscriber> Layer<S> for LogLayer {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if metadata.is_span() { Interest::never() } else { self.interest(metadata) }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        !metadata.is_span() && self.interest(metadata).is_always()
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(if self.is_enabled(flags::DEBUG) || self.is_enabled(flags::FRAMES) {
            LevelFilter::TRACE
        } else if self.is_enabled(flags::VERBOSE) {
            LevelFilter::DEBUG
        } else {
            // Major events, which are always enabled, have this level.
            LevelFilter::INFO
        })
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let mut fields = EventFields { flags: flag_of(metadata), ..EventFields::default() };
        event.record(&mut fields);
        let place = fields.place.as_deref().unwrap_or_else(|| place(metadata.target()));
        if !self.0.enabled_in(fields.flags, place) {
            return;
        }
        let text = format!("{}{}", fields.message, fields.others);
        self.0.sink().write(&LogEvent {
            now: Local::now(),
            flags: fields.flags,
            is_warning: *metadata.level() == Level::WARN,
            place: (!fields.is_bare && !is_frame(metadata)).then_some(place),
            name: fields.name.as_deref(),
            message: &text,
        });
    }
}

impl LogLayer {
    fn is_enabled(&self, flag: u8) -> bool {
        let of_all = self.0.flags.load(std::sync::atomic::Ordering::Relaxed);
        (of_all | self.0.module_flags(|_| true)) & flag != 0
    }
}

/// The module path without the name of the crate.
fn place(target: &str) -> &str {
    target.strip_prefix("torus_sm::").unwrap_or(target)
}

/// The fields of an event.
#[derive(Default)]
struct EventFields {
    flags: u8,
    /// The line has no module name.
    is_bare: bool,
    /// A module name that replaces the event's own.
    place: Option<String>,
    /// The stable name of the event (`event`).
    name: Option<String>,
    message: String,
    /// All other fields, as ` name=value`.
    others: String,
}

impl Visit for EventFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a String cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.others, " {name}={value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message.push_str(value),
            "place" => self.place = Some(value.to_owned()),
            "event" => self.name = Some(value.to_owned()),
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
            "bare" => self.is_bare = value,
            _ => self.record_debug(field, &value),
        }
    }
}

/// The beginning of a line, up to the module name.
pub(super) fn head(now: &DateTime<Local>, thread: i32, flags: u8) -> String {
    let micros = now.timestamp_subsec_micros().min(999_999);
    format!("{} {micros:06} [{thread:04X}] 0x{flags:02x} -> ", now.format("%b %d %H:%M:%S"))
}
