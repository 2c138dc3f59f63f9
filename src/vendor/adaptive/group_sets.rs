//! The groups of a running switch between two tables.

use crate::wire::vendor::adaptive::GroupPorts;

/// The ports of two sets.
pub(super) fn common(a: &GroupPorts, b: &GroupPorts) -> GroupPorts {
    std::array::from_fn(|word| a[word] & b[word])
}

/// The groups between two tables: those that the first one lacks are there, and those of both have the
/// ports in common.
pub(super) fn merged(held: &[GroupPorts], wanted: &[GroupPorts]) -> Vec<GroupPorts> {
    let at = |table: &[GroupPorts], number: usize| table.get(number).copied().unwrap_or_default();
    let is_empty = |ports: &GroupPorts| ports.iter().all(|&word| word == 0);
    (0..held.len().max(wanted.len()))
        .map(|number| {
            let held = at(held, number);
            let wanted = at(wanted, number);
            let both = common(&held, &wanted);
            if is_empty(&held) {
                wanted
            } else if is_empty(&both) {
                held
            } else {
                both
            }
        })
        .collect()
}
