//! Open incidents.

use super::family::MetricFamily;
use crate::manage::api::ApiContext;
use std::collections::BTreeMap;

pub(super) fn families(context: &ApiContext<'_>) -> Vec<MetricFamily> {
    let mut counts = BTreeMap::new();
    for incident in &context.incidents.open {
        *counts.entry((incident.severity, incident.kind)).or_insert(0_u32) += 1;
    }
    let samples = counts.into_iter().map(|((severity, kind), count)| {
        let labels =
            vec![("severity", severity.name().to_owned()), ("kind", kind.name().to_owned())];
        (labels, f64::from(count))
    });
    let help = "Open incidents by severity and kind; none without incidents";
    vec![MetricFamily::gauges("torus_sm_open_incidents", help, samples.collect())]
}
