//! The permanent groups of partitions.conf.

use super::{Group, GroupSpec, Groups};
use crate::fabric::Fabric;
use crate::ids::{Gid, Mlid};
use crate::sa::registry::change_log::EntryKey;
use std::collections::BTreeMap;

/// The highest MLID that fits in the multicast forwarding tables of all switches.
pub fn last_mlid(fabric: &Fabric) -> Mlid {
    let caps = fabric.switch_ids().map(|id| fabric.switch(id).switch_info.multicast_fdb_cap());
    let entries = caps.filter(|&cap| cap > 0).min().unwrap_or(u16::MAX);
    Mlid(Mlid::FIRST.0.saturating_add(entries - 1).min(Mlid::LAST.0))
}

/// Groups that could not be configured as partitions.conf wants them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UnmetGroups {
    /// Groups without an MLID, which do not exist.
    pub without_mlid: Vec<Gid>,
    /// Groups with new parameters, and their number of members, which joined with the old ones.
    pub changed: Vec<(Gid, usize)>,
}

impl Groups {
    /// See [`Registry::set_permanent`](crate::sa::registry::Registry::set_permanent).
    pub(in crate::sa::registry) fn set_permanent(
        &mut self,
        specs: &[GroupSpec],
        last: Mlid,
    ) -> UnmetGroups {
        let wanted: BTreeMap<Gid, &GroupSpec> =
            specs.iter().map(|spec| (spec.mgid, spec)).collect();
        for group in self.groups.values_mut() {
            group.permanent =
                wanted.contains_key(&group.spec.mgid) && !is_out_of_reach(group, last);
        }
        self.remove_unused();
        let mut unmet = UnmetGroups::default();
        for spec in specs {
            if self.groups.contains_key(&spec.mgid) {
                let members = self.configure(spec);
                unmet.changed.extend(members.map(|members| (spec.mgid, members)));
                continue;
            }
            match self.create(spec.clone(), None, last, false) {
                Some(group) => group.permanent = true,
                None => unmet.without_mlid.push(spec.mgid),
            }
        }
        unmet
    }

    /// Sets the parameters of an existing group. Returns its number of members if these joined with
    /// others.
    fn configure(&mut self, spec: &GroupSpec) -> Option<usize> {
        let group = self.groups.get_mut(&spec.mgid)?;
        if group.spec == *spec {
            return None;
        }
        group.spec = spec.clone();
        let members = group.members.len();
        let mlid = group.mlid;
        self.changed.add(EntryKey::Group(spec.mgid));
        self.changes += 1;
        // The SL decides which tree carries the group.
        self.mark_changed(mlid);
        (members > 0).then_some(members)
    }
}

fn is_out_of_reach(group: &Group, last: Mlid) -> bool {
    group.mlid > last && group.members.is_empty()
}
