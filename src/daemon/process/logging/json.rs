//! Log lines in JSON, one object a line (`log_format json`).

use super::event::LogEvent;
use super::flags;
use chrono::SecondsFormat;
use serde::Serialize;

#[derive(Serialize)]
struct Line<'a> {
    /// Local time with microseconds (RFC 3339).
    time: String,
    level: &'static str,
    /// The log flag that enables the line.
    flags: u8,
    thread: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    module: Option<&'a str>,
    /// Name of the event, which stays the same when the wording of the message changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix: Option<&'a str>,
    message: &'a str,
}

/// The line without its end.
pub(super) fn line(event: &LogEvent<'_>, thread: i32, prefix: Option<&str>) -> String {
    let line = Line {
        time: event.now.to_rfc3339_opts(SecondsFormat::Micros, false),
        level: level(event),
        flags: event.flags,
        thread,
        module: event.place,
        event: event.name,
        prefix,
        message: event.message,
    };
    serde_json::to_string(&line).expect("numbers and text can be serialized")
}

/// The line, with its end, of an event of the management interface; `None` if that is no object.
pub(super) fn event_line(json: &str) -> Option<String> {
    let fields = json.strip_suffix('}')?;
    Some(format!("{fields},\"level\":\"info\",\"flags\":{}}}\n", flags::INFO))
}

fn level(event: &LogEvent<'_>) -> &'static str {
    match event.flags {
        _ if event.is_warning => "warning",
        flags::ERROR => "error",
        flags::INFO => "info",
        flags::VERBOSE => "verbose",
        flags::DEBUG => "debug",
        flags::SYS => "major",
        _ => "trace",
    }
}
