//! `/v1/groups`: multicast groups and their members.

use super::context::ApiContext;
use super::error::ApiError;
use super::query::ApiQuery;
use super::reply::HttpReply;
use crate::fabric::Fabric;
use crate::ids::Guid;
use crate::manage::sa_query::{GroupInfo, GroupPage, SaQuery};
use serde::Serialize;

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct GroupsView {
    groups: Vec<GroupView>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct GroupView {
    /// As an IPv6 address.
    mgid: String,
    mlid: String,
    pkey: String,
    /// Defined by the configuration: it exists without members.
    permanent: bool,
    members: Vec<MemberView>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct MemberView {
    /// Port GUID.
    port_guid: String,
    /// JoinState, a sum: 1 full member, 2 non-member, 4 send-only non-member.
    join_state: u8,
    /// NodeDescription; null if the port is not in the fabric.
    description: Option<String>,
}

/// All groups, read page by page so that the SA server answers others in between.
pub(super) fn groups(context: &ApiContext<'_>, _: &ApiQuery) -> Result<HttpReply, ApiError> {
    let mut groups = Vec::new();
    let mut after = None;
    loop {
        let page: GroupPage = context.ask_sa(|reply| SaQuery::Groups { after, reply })?;
        groups.extend(page.groups.iter().map(|group| view(context, group)));
        match page.groups.last() {
            Some(last) if !page.is_last => after = Some(last.mgid),
            _ => return HttpReply::json(&GroupsView { groups }),
        }
    }
}

fn view(context: &ApiContext<'_>, group: &GroupInfo) -> GroupView {
    let fabric = context.status.fabric.as_deref();
    GroupView {
        mgid: group.mgid.to_string(),
        mlid: group.mlid.to_string(),
        pkey: group.pkey.to_string(),
        permanent: group.is_permanent,
        members: group
            .members
            .iter()
            .map(|&(guid, join_state)| MemberView {
                port_guid: guid.to_string(),
                join_state,
                description: description(&fabric, guid),
            })
            .collect(),
    }
}

fn description(fabric: &Option<&Fabric>, guid: Guid) -> Option<String> {
    let port = fabric.and_then(|fabric| Some((fabric, fabric.port_by_guid(guid)?)));
    port.map(|(fabric, port)| fabric.node_of(port).name().to_string())
}
