//! The answers to queries of the management interface.

use crate::ids::Gid;
use crate::manage::sa_query::{GroupInfo, GroupPage, MAX_GROUPS_PER_PAGE, MAX_MEMBERS_PER_PAGE};
use crate::sa::Registry;
use crate::sa::registry::Group;

/// The numbers of groups, services and subscriptions.
pub(super) fn record_counts(registry: &Registry) -> (usize, usize, usize) {
    let groups = registry.iter().count();
    let services = registry.services().iter().count();
    (groups, services, registry.subscriptions().iter().count())
}

/// The groups after an MGID, at most as many as fit on a page.
pub(super) fn page(registry: &Registry, after: Option<Gid>) -> GroupPage {
    let mut groups =
        registry.iter().skip_while(|group| after.is_some_and(|gid| group.spec.mgid <= gid));
    let mut page = GroupPage { groups: Vec::new(), is_last: false };
    let mut members = 0;
    while page.groups.len() < MAX_GROUPS_PER_PAGE && members < MAX_MEMBERS_PER_PAGE {
        let Some(group) = groups.next() else {
            page.is_last = true;
            break;
        };
        members += group.members.len();
        page.groups.push(info(group));
    }
    page
}

fn info(group: &Group) -> GroupInfo {
    GroupInfo {
        mgid: group.spec.mgid,
        mlid: group.mlid,
        pkey: group.spec.pkey,
        is_permanent: group.permanent,
        members: group.members.values().map(|member| (member.port, member.state.0)).collect(),
    }
}
