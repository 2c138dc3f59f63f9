//! Number of memberships by the port that sent the join.

use super::GroupMember;
use crate::ids::Guid;
use std::collections::BTreeMap;

/// Counts without those that are 0.
#[derive(Clone, Debug, Default)]
pub(super) struct MemberCounts(BTreeMap<Guid, usize>);

impl MemberCounts {
    pub(super) fn of(&self, requester: Guid) -> usize {
        self.0.get(&requester).copied().unwrap_or(0)
    }

    pub(super) fn added(&mut self, member: &GroupMember) {
        *self.0.entry(member.requester).or_default() += 1;
    }

    pub(super) fn removed(&mut self, member: &GroupMember) {
        let Some(count) = self.0.get_mut(&member.requester) else { return };
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.0.remove(&member.requester);
        }
    }
}
