//! Queries to the SA server, which owns its counters and the registry.

use crate::ids::{Gid, Guid, Mlid, Pkey};
use crate::sa::SaCounters;
use crate::sa::reports::ReportCounters;
use tokio::sync::oneshot;

/// Maximum number of groups in a [`GroupPage`].
pub const MAX_GROUPS_PER_PAGE: usize = 256;

/// Maximum number of members in a [`GroupPage`], unless a single group has more.
pub const MAX_MEMBERS_PER_PAGE: usize = 4096;

/// A query, with the channel for its reply.
#[derive(Debug)]
pub enum SaQuery {
    Report(oneshot::Sender<SaReport>),
    /// Multicast groups in the order of their MGIDs.
    Groups {
        /// The last MGID of the previous page.
        after: Option<Gid>,
        reply: oneshot::Sender<GroupPage>,
    },
}

/// State of the SA server.
#[derive(Clone, Debug, Default)]
pub struct SaReport {
    pub counters: SaCounters,
    /// Requests in the queues.
    pub queued: usize,
    /// Requests ignored because this SM was not master of a configured subnet.
    pub ignored: u64,
    pub groups: usize,
    pub services: usize,
    pub subscriptions: usize,
    /// Reports to subscribers.
    pub reports: ReportCounters,
    /// Subscriptions that ended because their queue pairs did not respond.
    pub ended_subscriptions: u64,
}

/// Some multicast groups.
#[derive(Clone, Debug, Default)]
pub struct GroupPage {
    pub groups: Vec<GroupInfo>,
    /// False if more groups follow the last one.
    pub is_last: bool,
}

/// A multicast group of the registry.
#[derive(Clone, Debug)]
pub struct GroupInfo {
    pub mgid: Gid,
    pub mlid: Mlid,
    pub pkey: Pkey,
    /// Defined by the configuration.
    pub is_permanent: bool,
    /// Port GUIDs with JoinState (IBA vol. 1, 15.2.5.17): 1 full member, 2 non-member, 4 send-only.
    pub members: Vec<(Guid, u8)>,
}
