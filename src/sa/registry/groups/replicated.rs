//! Groups as the SM has them that this one, a standby, follows.

use super::{Group, GroupMember, Groups};
use crate::ids::{Gid, Guid, Mlid};
use std::collections::BTreeSet;

impl Groups {
    /// Takes over a group of the SM that this one follows, in place of one with the same MGID,
    /// whose members stay.
    pub(in crate::sa::registry) fn put(&mut self, mut group: Group) {
        let mgid = group.spec.mgid;
        if let Some(old) = self.groups.get_mut(&mgid) {
            group.permanent = old.permanent;
            group.members = std::mem::take(&mut old.members);
            self.remove(&mgid);
        }
        self.mark_changed(group.mlid);
        self.changes += 1;
        self.mlids.entry(group.mlid).or_default().insert(mgid);
        self.groups.insert(mgid, group);
    }

    /// Removes a group that the SM that this one follows no longer has; of one of the
    /// configuration, the members.
    pub(in crate::sa::registry) fn remove_replica(&mut self, mgid: &Gid) {
        let Some(group) = self.groups.get_mut(mgid) else { return };
        if !group.permanent {
            return self.remove(mgid);
        }
        let members = std::mem::take(&mut group.members);
        members.values().for_each(|member| self.member_counts.removed(member));
        let mlid = group.mlid;
        self.mark_changed(mlid);
        self.changes += 1;
    }

    /// Sets or removes a membership as the SM that this one follows has it.
    pub(in crate::sa::registry) fn put_member(
        &mut self,
        mgid: &Gid,
        guid: Guid,
        member: Option<GroupMember>,
    ) {
        let Some(group) = self.groups.get_mut(mgid) else { return };
        let mlid = group.mlid;
        let since = self.generation + 1;
        let new = member.map(|member| GroupMember { since, ..member });
        let old = match new {
            Some(new) => group.members.insert(guid, new),
            None => group.members.remove(&guid),
        };
        old.iter().for_each(|old| self.member_counts.removed(old));
        new.iter().for_each(|new| self.member_counts.added(new));
        if old.is_none() && new.is_none() {
            return;
        }
        self.mark_changed(mlid);
        self.changes += 1;
    }

    /// Takes over all groups of `other`. All MLIDs of both count as changed.
    pub(in crate::sa::registry) fn replace(&mut self, other: Self) {
        let mlids: BTreeSet<Mlid> = self.mlids.keys().chain(other.mlids.keys()).copied().collect();
        self.next_mgid = self.next_mgid.max(other.next_mgid);
        (self.groups, self.mlids) = (other.groups, other.mlids);
        self.member_counts = other.member_counts;
        mlids.into_iter().for_each(|mlid| self.mark_changed(mlid));
        let since = self.generation;
        let members = self.groups.values_mut().flat_map(|group| group.members.values_mut());
        members.for_each(|member| member.since = since);
        self.changes += 1;
        self.events.clear();
    }
}
