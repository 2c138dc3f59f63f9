//! `/healthz` and `/readyz`: whether the daemon runs, and whether it does its part, for supervisors.

use super::context::ApiContext;
use super::error::ApiError;
use super::incidents::counts;
use super::query::ApiQuery;
use super::reply::HttpReply;
use crate::wire::attr::SmState;
use serde::Serialize;

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct HealthView {
    /// State of the SM, such as `MASTER`.
    state: String,
    subnet_up: bool,
    /// Open incidents.
    critical: usize,
    warning: usize,
}

fn view(context: &ApiContext<'_>) -> HealthView {
    let status = &context.status;
    let [(_, critical), (_, warning)] = counts(&context.incidents);
    HealthView {
        state: status.managers.own.state.to_string(),
        subnet_up: status.subnet.is_some(),
        critical,
        warning,
    }
}

/// The daemon runs: it answers.
pub(super) fn healthz(context: &ApiContext<'_>, _: &ApiQuery) -> Result<HttpReply, ApiError> {
    HttpReply::json(&view(context))
}

/// The SM is master of a configured subnet, or stands by for another one.
pub(super) fn readyz(context: &ApiContext<'_>, _: &ApiQuery) -> Result<HttpReply, ApiError> {
    let status = &context.status;
    let is_ready = match status.managers.own.state {
        SmState::Master => status.subnet.is_some(),
        state => state == SmState::Standby,
    };
    let reply = HttpReply::json(&view(context))?;
    Ok(if is_ready { reply } else { HttpReply { status: 503, ..reply } })
}
