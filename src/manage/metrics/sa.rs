//! Subnet administration.

use super::family::MetricFamily;
use crate::manage::api::{ApiContext, offenders};
use crate::manage::sa_names::{drop_reason, method};
use crate::manage::sa_query::{SaQuery, SaReport};
use crate::wire::sa::SaAttr;

/// Maximum number of samples of offences.
const MAX_OFFENCES: usize = 256;

/// The families of the SA; none while the SA server is too busy to report.
pub(super) fn families(context: &ApiContext<'_>) -> Vec<MetricFamily> {
    let Ok(report) = context.ask_sa(SaQuery::Report) else { return Vec::new() };
    [clients(context, &report), replies(&report), refusals(&report), registrations(&report)]
        .concat()
}

/// Offences, and reports to subscribers.
fn clients(context: &ApiContext<'_>, report: &SaReport) -> Vec<MetricFamily> {
    let offences = offenders::counts(context, Some(report));
    let offences = offences.into_iter().take(MAX_OFFENCES).map(|((lid, offence), count)| {
        (vec![("lid", lid.to_string()), ("offence", offence.name().to_owned())], count)
    });
    let sent = &report.reports;
    let results =
        [("answered", sent.answered), ("unanswered", sent.unanswered), ("dropped", sent.dropped)];
    let results = results.map(|(name, count)| (vec![("result", name.to_owned())], count));
    vec![
        MetricFamily::counters(
            "torus_sm_offences",
            "Requests and traps that only defective or hostile programs send, by source LID",
            offences.collect(),
        ),
        MetricFamily::counters(
            "torus_sm_sa_reports",
            "Reports to subscribers by result; dropped ones were not sent",
            results.into(),
        ),
        MetricFamily::counter(
            "torus_sm_sa_ended_subscriptions",
            "Subscriptions that ended because their queue pairs responded to no report",
            report.ended_subscriptions,
        ),
    ]
}

fn replies(report: &SaReport) -> Vec<MetricFamily> {
    let counters = &report.counters;
    let replies = counters.replies().map(|((attribute, code, status), count)| {
        let labels = vec![
            ("attribute", SaAttr::name(attribute).to_owned()),
            ("method", method(code)),
            ("status", format!("0x{status:04x}")),
        ];
        (labels, count)
    });
    let times = [("reader", counters.inline_times()), ("queue", counters.queued_times())];
    let times = times.map(|(by, times)| (vec![("answered_by", by.to_owned())], times));
    vec![
        MetricFamily::counters(
            "torus_sm_sa_replies",
            "SA replies, without BUSY",
            replies.collect(),
        ),
        MetricFamily::histograms(
            "torus_sm_sa_response_seconds",
            "Times from the arrival of SA requests to their replies, of every 64th that a reader \
             thread of the port answered",
            times.into(),
        ),
        MetricFamily::counter("torus_sm_sa_records", "Records in SA replies", counters.records()),
    ]
}

/// Requests that were dropped, refused or ignored.
fn refusals(report: &SaReport) -> Vec<MetricFamily> {
    let counters = &report.counters;
    let drops = counters
        .drops()
        .map(|(reason, count)| (vec![("reason", drop_reason(reason).to_owned())], count));
    let refused = counters.refused_by_lid();
    let busy = refused.iter().map(|(_, [busy, _])| busy).sum();
    let rejected = refused.iter().map(|(_, [_, rejected])| rejected).sum();
    vec![
        MetricFamily::counters(
            "torus_sm_sa_dropped",
            "SA requests without a reply",
            drops.collect(),
        ),
        MetricFamily::counter("torus_sm_sa_busy", "BUSY replies of the SA", busy),
        MetricFamily::counter(
            "torus_sm_sa_rejected_changes",
            "Changes of SA records that were denied or exceeded a limit",
            rejected,
        ),
        MetricFamily::counter(
            "torus_sm_sa_ignored",
            "SA requests ignored because this SM was not master of a configured subnet",
            report.ignored,
        ),
    ]
}

/// What waits, and what clients have registered.
fn registrations(report: &SaReport) -> Vec<MetricFamily> {
    let registered = [
        ("multicast_group", report.groups),
        ("service", report.services),
        ("subscription", report.subscriptions),
    ];
    let registered =
        registered.map(|(kind, count)| (vec![("kind", kind.to_owned())], count as f64));
    vec![
        MetricFamily::gauge(
            "torus_sm_sa_queued_requests",
            "SA requests that wait",
            report.queued as f64,
        ),
        MetricFamily::gauges(
            "torus_sm_sa_registered",
            "Registrations of SA clients",
            registered.into(),
        ),
    ]
}
