//! Vendor-specific capabilities.

use super::family::MetricFamily;
use crate::manage::api::ApiContext;
use std::collections::BTreeMap;

pub(super) fn families(context: &ApiContext<'_>) -> Vec<MetricFamily> {
    let status = &context.vendor;
    let mut states: BTreeMap<&str, usize> =
        ["answered", "unsupported", "unanswered", "refused"].map(|word| (word, 0)).into();
    let mut capabilities: BTreeMap<String, usize> = BTreeMap::new();
    for answer in status.nodes.values() {
        *states.entry(answer.word()).or_default() += 1;
        for name in answer.capabilities().names() {
            *capabilities.entry(name).or_default() += 1;
        }
    }
    states.insert("waiting", status.waiting);
    let states =
        states.iter().map(|(&state, &count)| (vec![("state", state.to_owned())], count as f64));
    let capabilities = capabilities
        .iter()
        .map(|(name, &count)| (vec![("capability", name.clone())], count as f64));
    vec![
        MetricFamily::gauges(
            "torus_sm_vendor_nodes",
            "Nodes asked for vendor-specific capabilities by their answer",
            states.collect(),
        ),
        MetricFamily::gauges(
            "torus_sm_vendor_capabilities",
            "Nodes that announce a vendor-specific capability",
            capabilities.collect(),
        ),
        MetricFamily::gauges(
            "torus_sm_rate_limited_ports",
            "Adapter ports with rate limits of enhanced_qos_policy_file by their state",
            [("configured", status.rates.configured), ("failed", status.rates.failed)]
                .map(|(state, count)| (vec![("state", state.to_owned())], count as f64))
                .to_vec(),
        ),
        MetricFamily::gauges(
            "torus_sm_adaptive_switches",
            "Switches with adaptive routing or local repair by their state",
            [("configured", status.adaptive.configured), ("failed", status.adaptive.failed)]
                .map(|(state, count)| (vec![("state", state.to_owned())], count as f64))
                .to_vec(),
        ),
        MetricFamily::counter(
            "torus_sm_vendor_requests",
            "Requests for vendor-specific capabilities",
            status.gets,
        ),
    ]
}
