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
        group.members.clear();
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
        match member {
            Some(member) => {
                let since = self.generation + 1;
                group.members.insert(guid, GroupMember { since, ..member });
            }
            None if group.members.remove(&guid).is_none() => return,
            None => {}
        }
        self.mark_changed(mlid);
        self.changes += 1;
    }

    /// Takes over all groups of `other`. All MLIDs of both count as changed.
    pub(in crate::sa::registry) fn replace(&mut self, other: Self) {
        let mlids: BTreeSet<Mlid> = self.mlids.keys().chain(other.mlids.keys()).copied().collect();
        self.next_mgid = self.next_mgid.max(other.next_mgid);
        (self.groups, self.mlids) = (other.groups, other.mlids);
        mlids.into_iter().for_each(|mlid| self.mark_changed(mlid));
        let since = self.generation;
        let members = self.groups.values_mut().flat_map(|group| group.members.values_mut());
        members.for_each(|member| member.since = since);
        self.changes += 1;
        self.events.clear();
    }
}
