//! Warnings of groups of partitions.conf that cannot be as they are configured.

use crate::ids::{Gid, Mlid};
use crate::notes::counted;
use crate::sa::registry::UnmetGroups;
use tracing::warn;

/// Number of groups that a warning names.
const MAX_NAMED_GROUPS: usize = 3;

/// Warns of groups of partitions.conf that do not exist, and of members that use old parameters.
pub(super) fn log_unmet(unmet: &UnmetGroups, last: Mlid) {
    let missing = unmet.without_mlid.len();
    if missing > 0 {
        let entries = last.0 - Mlid::FIRST.0 + 1;
        warn!(
            "{} of partitions.conf {} not created, such as {}: the switches have room for {entries} \
             multicast LIDs, all of which are in use. Joins to them are refused; \
             configure fewer groups",
            counted(missing, "group", "groups"),
            if missing == 1 { "is" } else { "are" },
            group_names(&mut unmet.without_mlid.iter().copied())
        );
    }
    let members: usize = unmet.changed.iter().map(|(_, members)| members).sum();
    if members > 0 {
        warn!(
            "{} of partitions.conf with new parameters, such as {}, {} {}, which have joined with the \
             old ones and use these until they join again",
            counted(unmet.changed.len(), "group", "groups"),
            group_names(&mut unmet.changed.iter().map(|(mgid, _)| *mgid)),
            if unmet.changed.len() == 1 { "has" } else { "have" },
            counted(members, "member", "members"),
        );
    }
}

fn group_names(mgids: &mut dyn Iterator<Item = Gid>) -> String {
    let named: Vec<String> = mgids.take(MAX_NAMED_GROUPS).map(|mgid| mgid.to_string()).collect();
    named.join(", ")
}
