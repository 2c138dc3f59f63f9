//! The groups of a running switch between two tables.

use crate::wire::vendor::adaptive::GroupPorts;

/// The ports of two sets.
pub(super) fn common(a: &GroupPorts, b: &GroupPorts) -> GroupPorts {
    std::array::from_fn(|word| a[word] & b[word])
}

/// The groups between two tables: those that the first one lacks are there, and those of both have the
/// ports in common.
pub(super) fn merged(held: &[GroupPorts], wanted: &[GroupPorts]) -> Vec<GroupPorts> {
    (0..held.len().max(wanted.len()))
        .map(|number| {
            let held = ports_of(held, number);
            let wanted = ports_of(wanted, number);
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

pub(super) fn is_empty(ports: &GroupPorts) -> bool {
    ports.iter().all(|&word| word == 0)
}

/// The ports of a group; none beyond the end of the table.
pub(super) fn ports_of(table: &[GroupPorts], number: usize) -> GroupPorts {
    table.get(number).copied().unwrap_or_default()
}
