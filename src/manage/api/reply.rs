//! A reply.

use super::error::ApiError;
use crate::manage::action::RequestId;
use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;

pub(super) const JSON: &str = "application/json";

/// A time as RFC 3339 in UTC, with milliseconds.
pub(super) fn time(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// A reply that is complete.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HttpReply {
    /// HTTP status.
    pub status: u16,
    pub content_type: &'static str,
    pub body: Vec<u8>,
    /// The body is compressed, with `Content-Encoding: gzip`.
    pub is_gzip: bool,
}

/// Reply to an action.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Accepted<'a> {
    /// Name of the action.
    accepted: &'a str,
    /// Number of the last event before the action: its results are events with higher numbers.
    after_event: u64,
    /// Number of the action, which the events action_done and action_failed have.
    request: u64,
}

/// Reply to a request that failed.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Problem<'a> {
    /// The problem and its object.
    error: &'a str,
}

impl HttpReply {
    /// A value as JSON, with a newline at its end.
    ///
    /// # Errors
    /// The value has no JSON form.
    pub fn json(value: &impl Serialize) -> Result<Self, ApiError> {
        let body = serde_json::to_vec(value);
        let mut body = body.map_err(|error| ApiError::new(500, format!("no JSON: {error}")))?;
        body.push(b'\n');
        Ok(Self { status: 200, content_type: JSON, body, is_gzip: false })
    }

    pub fn text(content_type: &'static str, text: String) -> Self {
        Self { status: 200, content_type, body: text.into_bytes(), is_gzip: false }
    }

    /// The action of this name was started; `after_event` is the number of the last event before
    /// it.
    pub fn accepted(name: &str, after_event: u64, request: RequestId) -> Self {
        let reply = Self::json(&Accepted { accepted: name, after_event, request: request.0 });
        reply.map_or_else(|error| Self::error(&error), |reply| Self { status: 202, ..reply })
    }

    pub fn error(error: &ApiError) -> Self {
        let problem = Problem { error: &error.text };
        let mut body = serde_json::to_vec(&problem).expect("text can be serialized");
        body.push(b'\n');
        Self { status: error.status, content_type: JSON, body, is_gzip: false }
    }
}
