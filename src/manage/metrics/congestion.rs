//! Congestion control.

use super::family::MetricFamily;
use crate::manage::api::ApiContext;

pub(super) fn families(context: &ApiContext<'_>) -> Vec<MetricFamily> {
    let status = &context.congestion;
    let counts = &status.devices;
    let waiting =
        counts.all - (counts.configured + counts.unsupported + counts.failed).min(counts.all);
    let states = [
        ("configured", counts.configured),
        ("unsupported", counts.unsupported),
        ("failed", counts.failed),
        ("waiting", waiting),
    ];
    let states = states.map(|(state, count)| (vec![("state", state.to_owned())], count as f64));
    let requests = [("get", status.gets), ("set", status.sets)];
    let requests = requests.map(|(method, count)| (vec![("method", method.to_owned())], count));
    let failures = [("unanswered", status.unanswered), ("refused", status.refused)];
    let failures = failures.map(|(result, count)| (vec![("result", result.to_owned())], count));
    vec![
        MetricFamily::gauge(
            "torus_sm_congestion_control_enabled",
            "1 while this SM configures congestion control",
            if status.is_enabled { 1.0 } else { 0.0 },
        ),
        MetricFamily::gauges(
            "torus_sm_congestion_control_devices",
            "Switches and ports of channel adapters by the state of their congestion control",
            states.to_vec(),
        ),
        MetricFamily::counters(
            "torus_sm_congestion_control_requests",
            "Requests of congestion control by method",
            requests.to_vec(),
        ),
        MetricFamily::counters(
            "torus_sm_congestion_control_failed_requests",
            "Requests of congestion control without an answer, or with an error status",
            failures.to_vec(),
        ),
    ]
}
