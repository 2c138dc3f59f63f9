//! Subnet management requests.

use super::family::{Labels, MetricFamily};
use crate::manage::api::ApiContext;
use crate::transport::transactions::AttributeCount;
use crate::wire::attr::AttrId;
use std::collections::BTreeMap;
use std::time::Duration;

/// Samples of a counter.
type Counts = Vec<(Labels, u64)>;

pub(super) fn families(context: &ApiContext<'_>) -> Vec<MetricFamily> {
    let counters = &context.status.handles.smps.counters();
    let (sent, results) = by_attribute(&counters.attributes);
    let times = [("get", counters.get_times), ("set", counters.set_times)];
    let times = times.map(|(method, times)| (method_label(method), times.histogram()));
    vec![
        MetricFamily::counters(
            "torus_sm_smp_requests",
            "SubnGet and SubnSet requests, without retransmissions",
            sent,
        ),
        MetricFamily::counters(
            "torus_sm_smp_results",
            "Results of SubnGet and SubnSet requests by attribute and method",
            results,
        ),
        MetricFamily::histograms(
            "torus_sm_smp_response_seconds",
            "Times from the first transmission of a SubnGet or SubnSet to its response",
            times.into(),
        ),
        MetricFamily::counter(
            "torus_sm_smp_retransmissions",
            "Retransmissions of SubnGet and SubnSet requests",
            counters.retransmissions,
        ),
        MetricFamily::gauge(
            "torus_sm_smp_window",
            "SubnGet and SubnSet requests that may be in flight",
            counters.window as f64,
        ),
        MetricFamily::gauge(
            "torus_sm_smp_round_trip_seconds",
            "Moving average of the time from a request to its response",
            counters.round_trip.unwrap_or(Duration::ZERO).as_secs_f64(),
        ),
        MetricFamily::counter(
            "torus_sm_smps_posted",
            "SMPs without a response: TrapRepress, and responses to received requests",
            counters.posted,
        ),
        MetricFamily::counter(
            "torus_sm_smps_unmatched",
            "Responses without a pending request",
            counters.unmatched,
        ),
        MetricFamily::counter(
            "torus_sm_unsolicited_mads_dropped",
            "Traps, SMInfo and SA requests dropped because their queue was full, or their sender \
             had sent too many",
            counters.dropped,
        ),
    ]
}

fn method_label(method: &str) -> Labels {
    vec![("method", method.to_owned())]
}

/// Requests, and results that occurred, by attribute and method. Unknown attributes share a name.
fn by_attribute(attributes: &[AttributeCount]) -> (Counts, Counts) {
    let mut sent = BTreeMap::new();
    let mut results = BTreeMap::new();
    for attribute in attributes {
        let name = AttrId::name(attribute.attr_id);
        for (method, count) in [("get", attribute.gets), ("set", attribute.sets)] {
            *sent.entry((name, method)).or_insert(0) += count.sent;
            for (result, count) in count.results() {
                *results.entry((name, method, result.name())).or_insert(0) += count;
            }
        }
    }
    let sent = sent.into_iter().filter(|&(_, count)| count > 0);
    let results = results.into_iter().filter(|&(_, count)| count > 0);
    (
        sent.map(|((attribute, method), count)| (labels(attribute, method), count)).collect(),
        results
            .map(|((attribute, method, result), count)| {
                ([labels(attribute, method), vec![("result", result.to_owned())]].concat(), count)
            })
            .collect(),
    )
}

fn labels(attribute: &str, method: &str) -> Labels {
    vec![("attribute", attribute.to_owned()), ("method", method.to_owned())]
}
