//! Changes of groups and members, for the activity report.

use crate::ids::{Gid, Guid, Mlid};

/// Changes that are kept until they are taken; further ones are counted.
const MAX_ACTIVITIES: usize = 65_536;

/// A change of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupChange {
    Created,
    Deleted,
    /// A member with this GUID, which may be an alias, joined.
    Joined(Guid),
    Left(Guid),
}

/// A change of a group, with its address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupActivity {
    pub mlid: Mlid,
    pub mgid: Gid,
    pub change: GroupChange,
}

/// The changes since they were taken last.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupActivities {
    is_recording: bool,
    list: Vec<GroupActivity>,
    lost: u64,
}

impl GroupActivities {
    /// Records changes from now on, or no longer.
    pub(super) fn record(&mut self, is_recording: bool) {
        self.is_recording = is_recording;
    }

    pub(super) fn add(&mut self, mlid: Mlid, mgid: Gid, change: GroupChange) {
        if !self.is_recording {
            return;
        }
        if self.list.len() < MAX_ACTIVITIES {
            self.list.push(GroupActivity { mlid, mgid, change });
        } else {
            self.lost += 1;
        }
    }

    /// The changes since the last call, and the number of those that were not kept.
    pub(super) fn take(&mut self) -> (Vec<GroupActivity>, u64) {
        (std::mem::take(&mut self.list), std::mem::take(&mut self.lost))
    }
}
