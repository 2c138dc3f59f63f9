//! The performance manager; `port_counters` has what it reads.

use super::family::MetricFamily;
use crate::manage::api::ApiContext;

pub(super) fn families(context: &ApiContext<'_>) -> Vec<MetricFamily> {
    let perf = &context.perf;
    let last = perf.last_sweep;
    let count =
        |figure: fn(&crate::perfmgr::status::PerfSweep) -> f64| last.as_ref().map_or(0.0, figure);
    vec![
        MetricFamily::counter(
            "torus_sm_perfmgr_sweeps",
            "Sweeps of the port counters",
            perf.sweeps,
        ),
        MetricFamily::gauge(
            "torus_sm_perfmgr_last_sweep_duration_seconds",
            "Duration of the last sweep of the port counters in seconds",
            count(|sweep| sweep.duration.as_secs_f64()),
        ),
        MetricFamily::gauge(
            "torus_sm_perfmgr_last_sweep_ports",
            "Ports that the last sweep of the port counters read",
            count(|sweep| sweep.ports as f64),
        ),
        MetricFamily::gauge(
            "torus_sm_perfmgr_last_sweep_failed_queries",
            "Counter queries of the last sweep without an answer, or with an error status",
            count(|sweep| sweep.failed as f64),
        ),
    ]
}
