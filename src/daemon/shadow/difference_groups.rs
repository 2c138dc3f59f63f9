//! Differences that many ports or switches have in the same way, as one.

use super::set_view::{SetView, line};
use crate::notes::counted;
use std::collections::BTreeMap;

/// Number of equal differences from which on they are one line.
const MIN_GROUPED: usize = 4;
/// Places that the line of a group names.
const MAX_EXAMPLES: usize = 3;

/// Differences of the same part of a table, with the same entries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct DifferenceGroup<'a> {
    /// In the order of the report; at least one.
    pub sets: Vec<&'a SetView>,
}

/// The place of a Set without the number of its port: equal ports differ in the same way.
fn part(set: &SetView) -> String {
    set.place.split(", ").filter(|part| !is_port(part)).collect::<Vec<_>>().join(", ")
}

fn is_port(part: &str) -> bool {
    part.starts_with("port ") || part.starts_with("from port ")
}

/// The groups of these differences, the largest first; all Sets are in one.
pub(super) fn groups(sets: &[SetView]) -> Vec<DifferenceGroup<'_>> {
    let mut by_key: BTreeMap<(&str, String, &[String]), Vec<&SetView>> = BTreeMap::new();
    for set in sets {
        let key = (set.attribute.as_str(), part(set), set.differences.as_slice());
        by_key.entry(key).or_default().push(set);
    }
    let mut groups = Vec::new();
    for sets in by_key.into_values() {
        if sets.len() < MIN_GROUPED {
            groups.extend(sets.into_iter().map(|set| DifferenceGroup { sets: vec![set] }));
        } else {
            groups.push(DifferenceGroup { sets });
        }
    }
    groups.sort_by_key(|group| {
        let first = group.sets[0];
        (std::cmp::Reverse(group.sets.len()), &first.guid, &first.attribute, first.modifier)
    });
    groups
}

impl DifferenceGroup<'_> {
    /// The difference in one line: of one place, or of all of them with examples.
    pub(super) fn line(&self) -> String {
        let first = self.sets[0];
        if self.sets.len() == 1 {
            return format!("{} \"{}\" {}", first.guid, first.name, line(first));
        }
        let examples: Vec<String> = self
            .sets
            .iter()
            .take(MAX_EXAMPLES)
            .map(|set| format!("\"{}\" {}", set.name, set.place).trim_end().to_owned())
            .collect();
        let common = SetView { place: part(first), ..first.clone() };
        let whose = if first.place.contains("port ") {
            counted(self.sets.len(), "port", "ports")
        } else {
            counted(self.sets.len(), "block", "blocks")
        };
        format!(
            "{whose} differ in the same way, such as {}: {}",
            examples.join(", "),
            line(&common)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::set_view::SetEffect;
    use super::*;

    fn set(guid: usize, place: &str, difference: &str) -> SetView {
        SetView {
            guid: format!("0x{guid:x}"),
            name: format!("sw {guid}"),
            attribute: "VLArbitrationTable".to_owned(),
            modifier: 0x1_0000,
            place: place.to_owned(),
            effect: SetEffect::Change,
            differences: vec![difference.to_owned()],
        }
    }

    #[test]
    fn equal_differences_are_one_line_with_examples_and_their_number() {
        let low = (0..231).map(|port| set(port, &format!("port {port}, block 1"), "entry 0"));
        let high = [set(7, "port 7, block 3", "entry 0"), set(8, "port 7, block 1", "entry 1")];
        let sets: Vec<SetView> = low.chain(high).collect();
        let lines: Vec<String> = groups(&sets).iter().map(DifferenceGroup::line).collect();
        assert_eq!(
            lines,
            [
                "231 ports differ in the same way, such as \"sw 0\" port 0, block 1, \"sw 1\" port \
                 1, block 1, \"sw 2\" port 2, block 1: VLArbitrationTable block 1: entry 0",
                "0x7 \"sw 7\" VLArbitrationTable port 7, block 3: entry 0",
                "0x8 \"sw 8\" VLArbitrationTable port 7, block 1: entry 1",
            ]
        );
    }
}
