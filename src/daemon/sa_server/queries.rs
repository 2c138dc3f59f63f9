//! Answers the queries of the management interface.

use super::SaServer;
use crate::ids::Gid;
use crate::manage::sa_query::{
    GroupInfo, GroupPage, MAX_GROUPS_PER_PAGE, MAX_MEMBERS_PER_PAGE, SaQuery, SaReport,
};
use crate::sa::Registry;
use crate::sa::registry::Group;

impl SaServer {
    pub(super) fn answer_query(&self, query: SaQuery) {
        // The client may have gone.
        match query {
            SaQuery::Report(reply) => drop(reply.send(self.report())),
            SaQuery::Groups { after, reply } => {
                let (page, _) = self.responder.view(|responder| page(responder.registry(), after));
                drop(reply.send(page));
            }
        }
    }

    fn report(&self) -> SaReport {
        let ((groups, services, subscriptions), counters) =
            self.responder.view(|responder| record_counts(responder.registry()));
        let queued = self.requests.queue.len();
        let ignored = self.misuse.ignored_requests;
        let reports = self.dispatcher.counters();
        let ended_subscriptions = self.misuse.ended_subscriptions;
        SaReport {
            counters,
            queued,
            ignored,
            groups,
            services,
            subscriptions,
            reports,
            ended_subscriptions,
        }
    }
}

fn record_counts(registry: &Registry) -> (usize, usize, usize) {
    let groups = registry.iter().count();
    let services = registry.services().iter().count();
    (groups, services, registry.subscriptions().iter().count())
}

/// The groups after an MGID, at most as many as fit on a page.
fn page(registry: &Registry, after: Option<Gid>) -> GroupPage {
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
