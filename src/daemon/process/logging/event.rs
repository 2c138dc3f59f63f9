//! An event on its way to the log.

use chrono::{DateTime, Local};

/// An event to be logged.
pub(super) struct LogEvent<'a> {
    pub(super) now: DateTime<Local>,
    pub(super) flags: u8,
    pub(super) is_warning: bool,
    /// The name of its module.
    pub(super) place: Option<&'a str>,
    /// The name that stays the same when the wording of the message changes.
    pub(super) name: Option<&'a str>,
    pub(super) message: &'a str,
}
