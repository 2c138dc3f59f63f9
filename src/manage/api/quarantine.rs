//! `/v1/quarantine`: links that are treated as down although they are trained.

use super::context::ApiContext;
use super::error::ApiError;
use super::query::ApiQuery;
use super::reply::HttpReply;
use crate::fabric::quarantined::QuarantineCause;
use crate::manage::event::LinkEnd;
use crate::manage::fabric_changes::link_end;
use serde::Serialize;

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct QuarantineView {
    links: Vec<QuarantinedLinkView>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct QuarantinedLinkView {
    pub(super) ends: [LinkEnd; 2],
    /// `flaps`, `errors` if the ports report errors of the link, or `operator`.
    cause: &'static str,
    /// Time without a change after which it is used again; null if an operator has to release it.
    calm_seconds: Option<u64>,
}

/// The quarantined links of the published subnet.
pub(super) fn quarantine(context: &ApiContext<'_>, _: &ApiQuery) -> Result<HttpReply, ApiError> {
    context.subnet()?;
    HttpReply::json(&QuarantineView { links: quarantined_links(context) })
}

/// The same as a list; empty without a subnet.
pub(super) fn quarantined_links(context: &ApiContext<'_>) -> Vec<QuarantinedLinkView> {
    let Some(subnet) = context.status.subnet.as_deref() else { return Vec::new() };
    subnet
        .devices
        .quarantined
        .iter()
        .map(|link| QuarantinedLinkView {
            ends: link.ends.map(|end| link_end(&subnet.fabric, end)),
            cause: match link.cause {
                QuarantineCause::Flaps => "flaps",
                QuarantineCause::Errors(_) => "errors",
                QuarantineCause::Operator => "operator",
            },
            calm_seconds: link.calm.map(|calm| calm.as_secs()),
        })
        .collect()
}
