//! The sources that send what only defective or hostile programs send.

use super::context::ApiContext;
use crate::ids::{Guid, Lid};
use crate::manage::offenders::{Offence, of_sa_server};
use crate::manage::sa_query::SaReport;
use serde::Serialize;

/// Maximum number of offenders in the status.
const MAX_LISTED: usize = 64;

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct OffenderView {
    lid: u16,
    /// Port GUID; null if no port has the LID.
    port_guid: Option<String>,
    /// NodeDescription; null if no port has the LID.
    description: Option<String>,
    /// `trap_flood`, `impossible_trap`, `refused_sm_info`, `silent_subscriber`, `forged_gid`,
    /// `wrong_sm_key`, `busy` or `rejected_change`.
    offence: &'static str,
    /// Since the start of the daemon.
    count: u64,
}

/// All offences, the most frequent first. `sa` is missing while the SA server is busy.
pub(in crate::manage) fn counts(
    context: &ApiContext<'_>,
    sa: Option<&SaReport>,
) -> Vec<((Lid, Offence), u64)> {
    let mut counts = context.status.handles.offenders.list();
    if let Some(sa) = sa {
        counts.extend(of_sa_server(&sa.counters));
    }
    counts.retain(|&(_, count)| count > 0);
    counts.sort_by_key(|&(key, count)| (std::cmp::Reverse(count), key));
    counts
}

pub(super) fn views(context: &ApiContext<'_>, sa: Option<&SaReport>) -> Vec<OffenderView> {
    counts(context, sa)
        .into_iter()
        .take(MAX_LISTED)
        .map(|((lid, offence), count)| {
            let (guid, description) = name(context, lid).unzip();
            OffenderView {
                lid: lid.0,
                port_guid: guid.map(|guid: Guid| guid.to_string()),
                description,
                offence: offence.name(),
                count,
            }
        })
        .collect()
}

fn name(context: &ApiContext<'_>, lid: Lid) -> Option<(Guid, String)> {
    let subnet = context.status.subnet.as_ref()?;
    let port = subnet.plan.lids.port(lid)?;
    let description = subnet.fabric.node_of(port).name().to_string();
    Some((subnet.fabric.port(port).guid, description))
}
