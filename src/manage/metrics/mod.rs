//! `/metrics`: counters, gauges and histograms in the text formats of OpenMetrics 1.0 and of
//! Prometheus.
//!
//! * [`family`]: a metric with its samples; `encode`: the text
//! * `sm`: role, sweeps and reconfigurations; `smps`: subnet management requests; `sa`: subnet
//!   administration; `fabric`: nodes, links, device faults; `perfmgr`: sweeps of the
//!   port counters; `congestion`: congestion control; `vendor`: vendor-specific capabilities;
//!   `virtual_ports`: vports;
//!   `incidents`: open incidents; `process`: memory and time of the process
//! * `port_counters`: the counters, written straight from the database
//!
//! Metrics are made from the published snapshot when they are read. A new group of metrics is a
//! function from [`ApiContext`] to families, with a row in [`GROUPS`].

pub mod family;

mod congestion;
mod encode;
mod fabric;
mod incidents;
mod perfmgr;
mod port_counters;
mod process;
mod sa;
mod sm;
mod smps;
mod vendor;
mod virtual_ports;

use crate::manage::api::{ApiContext, ApiError, ApiQuery, HttpReply};
use encode::{MetricsFormat, TextWriter};
use family::MetricFamily;
use port_counters::LabelledPorts;

/// A group of metrics.
type Group = fn(&ApiContext<'_>) -> Vec<MetricFamily>;

/// The groups of metrics.
const GROUPS: &[Group] = &[
    sm::families,
    smps::families,
    sa::families,
    fabric::families,
    incidents::families,
    perfmgr::families,
    congestion::families,
    vendor::families,
    virtual_ports::families,
    process::families,
];

/// Expected length of the metrics other than port counters, in bytes.
const TEXT_LENGTH: usize = 64 << 10;

/// All metrics, in the format that the client accepts.
///
/// # Errors
/// None.
pub fn metrics(context: &ApiContext<'_>, _: &ApiQuery) -> Result<HttpReply, ApiError> {
    let format = MetricsFormat::accepted(context.accept);
    let ports = LabelledPorts::new(&context.perf.database);
    let mut text = TextWriter::new(format, TEXT_LENGTH + ports.text_length());
    for family in GROUPS.iter().flat_map(|group| group(context)) {
        text.family(&family);
    }
    ports.write(&mut text);
    Ok(HttpReply::text(format.content_type(), text.finish()))
}
