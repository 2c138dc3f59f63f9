//! `/metrics`: counters, gauges and histograms in the text formats of OpenMetrics 1.0 and of
//! Prometheus.
//!
//! * [`family`]: a metric with its samples; `encode`: the text
//! * `sm`: role, sweeps and reconfigurations; `smps`: subnet management requests; `sa`: subnet
//!   administration; `fabric`: nodes, links, device faults; `perfmgr`: port counters;
//!   `congestion`: congestion control; `process`: memory and time of the process
//!
//! Metrics are made from the published snapshot when they are read. A new group of metrics is a
//! function from [`ApiContext`] to families, with a row in [`GROUPS`].

pub mod family;

mod congestion;
mod encode;
mod fabric;
mod perfmgr;
mod process;
mod sa;
mod sm;
mod smps;

use crate::manage::api::{ApiContext, ApiError, Query, Reply};
use family::Family;

/// A group of metrics.
type Group = fn(&ApiContext<'_>) -> Vec<Family>;

/// The groups of metrics.
const GROUPS: &[Group] = &[
    sm::families,
    smps::families,
    sa::families,
    fabric::families,
    perfmgr::families,
    congestion::families,
    process::families,
];

/// All metrics, in the format that the client accepts.
///
/// # Errors
/// The text cannot be written.
pub fn metrics(context: &ApiContext<'_>, _: &Query) -> Result<Reply, ApiError> {
    let families = GROUPS.iter().flat_map(|group| group(context)).collect();
    let text = encode::openmetrics(families);
    let text = text.map_err(|error| ApiError::new(500, format!("no metrics: {error}")))?;
    Ok(match context.accept.contains("application/openmetrics-text") {
        true => Reply::text(encode::OPENMETRICS, text),
        false => Reply::text(encode::PROMETHEUS, encode::as_prometheus(&text)),
    })
}
