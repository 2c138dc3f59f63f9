//! The state that OpenSM keeps of P_Key tables, as far as it makes later tables differ from ours.

use std::collections::{BTreeMap, BTreeSet};

/// Reasons why the tables of a sequence differ from some file on, although ours are right.
pub(crate) const BY_DESIGN: [&str; 3] = [DEFAULT_LEFT_OUT, REMEMBERED_TWICE, FROM_INDEX_0];

pub(crate) const DEFAULT_LEFT_OUT: &str = "If the last index is or was in use and another P_Key is \
    meant for index 0, OpenSM omits the default P_Key although the table has gaps; a port without \
    it cannot query the SA.";
pub(crate) const REMEMBERED_TWICE: &str = "OpenSM stores the index of each P_Key of a partition, and \
    when another partition takes that index, it forgets one of the two P_Keys only. The other one \
    later returns to an index that another P_Key has or had: it replaces that P_Key, and is \
    replaced by it in the next sweep. In torus-sm a returning P_Key gets its old index if no other \
    P_Key had it meanwhile.";
pub(crate) const FROM_INDEX_0: &str = "torus-sm treats a returning P_Key that was at index 0 as a new \
    one; OpenSM places it behind all others.";

/// The history of a port's table.
#[derive(Default)]
pub(crate) struct Memory {
    /// The last index of each key.
    last: BTreeMap<u16, usize>,
    /// All indexes that each key ever had.
    past: BTreeSet<(usize, u16)>,
    /// Indexes that both keys of a partition had, one after the other.
    doubled: BTreeSet<usize>,
}

impl Memory {
    /// Adds a table to the history.
    pub(crate) fn note(&mut self, table: &[u16]) {
        for (index, &key) in table.iter().enumerate().filter(|(_, key)| **key != 0) {
            self.last.insert(key, index);
            self.past.insert((index, key));
            if self.past.contains(&(index, key ^ 0x8000)) {
                self.doubled.insert(index);
            }
        }
    }

    /// The reasons of [`BY_DESIGN`] that explain the difference between two tables; none if they do
    /// not explain all of it.
    pub(crate) fn reasons(&self, ours: &[u16], theirs: &[u16]) -> Vec<&'static str> {
        let differing: Vec<usize> =
            (0..ours.len().max(theirs.len())).filter(|&n| ours.get(n) != theirs.get(n)).collect();
        let keys = |table: &[u16]| -> Vec<u16> {
            let keys = differing.iter().filter_map(|&index| table.get(index).copied());
            keys.filter(|key| *key != 0).collect()
        };
        let our = keys(ours);
        let their = keys(theirs);
        let lost: Vec<u16> = our.iter().copied().filter(|key| !theirs.contains(key)).collect();
        let is_full = theirs.last().is_some_and(|key| *key != 0)
            || self.last.values().any(|index| index + 1 == theirs.len());
        let is_explained = |&key: &u16| match self.last.get(&key) {
            _ if is_default(key) => is_full && !is_default(theirs[0]),
            Some(at) => self.doubled.contains(at) && theirs[*at] != 0,
            None => false,
        };
        // All other keys are new and fill gaps one after the other.
        let is_new = |key: &u16| {
            let is_old = |&at: &usize| at == 0 || ours[at] == *key || theirs[at] == *key;
            !lost.contains(key) && !self.last.get(key).is_some_and(is_old)
        };
        let new_keys = |keys: &[u16]| keys.iter().copied().filter(is_new).collect::<Vec<u16>>();
        let opensm_has_more = their.iter().any(|key| !ours.contains(key));
        if opensm_has_more || !lost.iter().all(is_explained) || new_keys(&our) != new_keys(&their) {
            return Vec::new();
        }
        let came_back = |index: &&usize| self.last.get(&theirs[**index]) == Some(*index);
        let mut back = differing.iter().filter(came_back);
        let is_default_lost = lost.iter().any(|key| is_default(*key));
        let is_doubled = lost.iter().any(|key| !is_default(*key))
            || back.any(|index| self.doubled.contains(index));
        let was_at_0 = their.iter().any(|key| self.last.get(key) == Some(&0));
        let others = is_doubled || was_at_0;
        let applies = [is_default_lost && (others || differing.len() == 1), is_doubled, was_at_0];
        let reasons = BY_DESIGN.into_iter().zip(applies);
        reasons.filter(|(_, applies)| *applies).map(|(reason, _)| reason).collect()
    }
}

fn is_default(key: u16) -> bool {
    key & 0x7FFF == 0x7FFF
}
