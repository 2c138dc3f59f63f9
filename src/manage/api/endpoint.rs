//! A row of the table of resources.

use super::context::ApiContext;
use super::error::ApiError;
use super::query::{ApiQuery, Parameter};
use super::reply::HttpReply;
use crate::manage::action::OperatorAction;

/// A resource or an action.
pub struct ApiEndpoint {
    /// `GET` or `POST`.
    pub method: &'static str,
    pub path: &'static str,
    /// One sentence for the description.
    pub summary: &'static str,
    pub parameters: &'static [Parameter],
    /// Name of the schema of the reply, or of the body of an action; empty if there is none.
    pub schema: &'static str,
    pub handler: Handler,
}

/// How a request is answered.
#[derive(Clone, Copy)]
pub enum Handler {
    /// Makes the reply.
    Read(fn(&ApiContext<'_>, &ApiQuery) -> Result<HttpReply, ApiError>),
    /// Reads the action from the body.
    Act(fn(&[u8]) -> Result<OperatorAction, ApiError>),
    /// Replays the recording in the body.
    Replay,
    /// The stream of events.
    Events,
    /// A document for browsers.
    Page(&'static str),
}
