//! `/v1/sa`: counters of subnet administration.

use super::context::ApiContext;
use super::error::ApiError;
use super::query::ApiQuery;
use super::reply::HttpReply;
use crate::ids::Lid;
use crate::manage::sa_names::{drop_reason, method};
use crate::manage::sa_query::SaQuery;
use crate::wire::sa::SaAttr;
use serde::Serialize;

/// Maximum number of requesters in each list.
const MAX_REQUESTERS: usize = 256;

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct SaView {
    /// Replies since the start of the daemon, without BUSY.
    replies: u64,
    /// Records in them.
    records: u64,
    /// Requests that wait.
    queued: usize,
    /// Requests ignored because this SM was not master of a configured subnet.
    ignored: u64,
    multicast_groups: usize,
    services: usize,
    subscriptions: usize,
    reports: ReportsView,
    by_attribute: Vec<AttributeView>,
    /// Requests without a reply, by reason.
    dropped: Vec<DropView>,
    /// Requesters with the most replies, in descending order.
    top_requesters: Vec<TopRequesterView>,
    /// Requesters that were refused, the most first.
    refused_requesters: Vec<RequesterView>,
}

/// Reports to subscribers since the start of the daemon.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ReportsView {
    /// Without retransmissions.
    sent: u64,
    answered: u64,
    /// Without a response after all retransmissions.
    unanswered: u64,
    /// Not sent, because a limit was reached or the subscriber does not respond.
    dropped: u64,
    /// Subscriptions that ended because their queue pairs did not respond.
    ended_subscriptions: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct AttributeView {
    attribute: &'static str,
    /// Method of the request, such as `get_table`.
    method: String,
    /// Status of the reply, 0 for success.
    status: String,
    replies: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DropView {
    reason: &'static str,
    requests: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TopRequesterView {
    lid: u16,
    /// NodeDescription; null if no port has the LID.
    description: Option<String>,
    /// Replies since the start of the daemon, without BUSY.
    replies: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RequesterView {
    lid: u16,
    /// NodeDescription; null if no port has the LID.
    description: Option<String>,
    /// BUSY replies.
    busy: u64,
    /// Changes that were denied or exceeded a limit.
    rejected: u64,
}

/// The counters of the SA.
pub(super) fn sa(context: &ApiContext<'_>, _: &ApiQuery) -> Result<HttpReply, ApiError> {
    let report = context.ask_sa(SaQuery::Report)?;
    let counters = &report.counters;
    let by_attribute =
        counters.replies().map(|((attribute, code, status), replies)| AttributeView {
            attribute: SaAttr::name(attribute),
            method: method(code),
            status: format!("0x{status:04x}"),
            replies,
        });
    let dropped = counters.drops().map(|(reason, requests)| {
        let reason = drop_reason(reason);
        DropView { reason, requests }
    });
    let mut top = counters.replies_by_lid();
    top.truncate(MAX_REQUESTERS);
    let mut requesters = counters.refused_by_lid();
    requesters.truncate(MAX_REQUESTERS);
    HttpReply::json(&SaView {
        replies: counters.total(),
        records: counters.records(),
        queued: report.queued,
        ignored: report.ignored,
        multicast_groups: report.groups,
        services: report.services,
        subscriptions: report.subscriptions,
        reports: ReportsView {
            sent: report.reports.sent,
            answered: report.reports.answered,
            unanswered: report.reports.unanswered,
            dropped: report.reports.dropped,
            ended_subscriptions: report.ended_subscriptions,
        },
        by_attribute: by_attribute.collect(),
        dropped: dropped.collect(),
        top_requesters: top
            .into_iter()
            .map(|(lid, replies)| TopRequesterView {
                lid: lid.0,
                description: description(context, lid),
                replies,
            })
            .collect(),
        refused_requesters: requesters
            .into_iter()
            .map(|(lid, [busy, rejected])| RequesterView {
                lid: lid.0,
                description: description(context, lid),
                busy,
                rejected,
            })
            .collect(),
    })
}

fn description(context: &ApiContext<'_>, lid: Lid) -> Option<String> {
    let subnet = context.status.subnet.as_ref()?;
    let port = subnet.plan.lids.port(lid)?;
    Some(subnet.fabric.node_of(port).name().to_string())
}
