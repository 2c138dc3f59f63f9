//! Sets of rules, and how a value finds the one that it allows.

use crate::config::qos_policy::Ranges;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Which set of a [`Pool`].
type SetId = u32;

/// Sets of rules, each kept once: bits, 64 to a word.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    rules: usize,
    words: usize,
    sets: Vec<u64>,
    known: HashMap<Vec<u64>, SetId>,
}

impl PartialEq for Pool {
    fn eq(&self, other: &Self) -> bool {
        (self.rules, &self.sets) == (other.rules, &other.sets)
    }
}

impl Eq for Pool {}

impl Pool {
    /// A pool for sets of this many rules.
    pub(super) fn new(rules: usize) -> Self {
        Self { rules, words: rules.div_ceil(64), sets: Vec::new(), known: HashMap::new() }
    }

    fn keep(&mut self, set: &[u64]) -> SetId {
        if let Some(&id) = self.known.get(set) {
            return id;
        }
        let id = self.known.len() as SetId;
        self.sets.extend_from_slice(set);
        self.known.insert(set.to_vec(), id);
        id
    }

    fn set_of(&mut self, has: impl Fn(usize) -> bool) -> SetId {
        let mut set = vec![0; self.words];
        (0..self.rules).filter(|&rule| has(rule)).for_each(|rule| flip(&mut set, rule));
        self.keep(&set)
    }

    fn words_of(&self, id: SetId) -> &[u64] {
        let start = id as usize * self.words;
        self.sets.get(start..start + self.words).unwrap_or_default()
    }

    /// The first rule that is in all of the sets.
    pub(super) fn first_of_all(&self, sets: [SetId; 5]) -> Option<usize> {
        let [a, b, c, d, e] = sets.map(|id| self.words_of(id));
        let both = a.iter().zip(b).zip(c).zip(d).zip(e);
        let all = both.map(|((((a, b), c), d), e)| a & b & c & d & e);
        let (word, bits) = all.enumerate().find(|(_, bits)| *bits != 0)?;
        Some(word * 64 + bits.trailing_zeros() as usize)
    }
}

fn flip(set: &mut [u64], rule: usize) {
    if let Some(word) = set.get_mut(rule / 64) {
        *word ^= 1 << (rule % 64);
    }
}

/// By port slot: the rules that allow the port at one end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct PortSets {
    sets: Vec<SetId>,
    /// The rules that are not about this end.
    unsaid: SetId,
}

impl PortSets {
    /// The sets of `ports` ports; `allows` tells whether a port, or no port, is allowed by a rule.
    pub(super) fn new(
        ports: usize,
        pool: &mut Pool,
        allows: impl Fn(Option<usize>, usize) -> bool,
    ) -> Self {
        let mut set_of = |port| pool.set_of(|rule| allows(port, rule));
        Self { unsaid: set_of(None), sets: (0..ports).map(|port| set_of(Some(port))).collect() }
    }

    /// The set of a port, or of none.
    pub(super) fn of(&self, port: Option<usize>) -> SetId {
        let Some(port) = port else { return self.unsaid };
        self.sets.get(port).copied().unwrap_or(SetId::MAX)
    }
}

/// By value: the rules that allow it. Between two bounds it is the same set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Segments {
    /// The first value of each segment, ascending from 0.
    bounds: Vec<u64>,
    sets: Vec<SetId>,
    /// The rules that are not about this at all: those for queries that do not say it.
    unsaid: SetId,
}

impl Segments {
    /// The segments of rules that are about these values, or, with an empty set, about any.
    pub(super) fn new<'a>(rules: impl Iterator<Item = &'a Ranges>, pool: &mut Pool) -> Self {
        let rules: Vec<&Ranges> = rules.collect();
        let unsaid = pool.set_of(|rule| rules[rule].is_empty());
        // At each bound, the rules that begin or cease to allow values.
        let mut turns: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
        for (rule, ranges) in rules.iter().enumerate() {
            for (first, last) in ranges.iter() {
                turns.entry(first).or_default().insert(rule);
                if let Some(after) = last.checked_add(1) {
                    turns.entry(after).or_default().insert(rule);
                }
            }
        }
        let mut current = pool.words_of(unsaid).to_vec();
        let (mut bounds, mut sets) = (vec![0], vec![unsaid]);
        for (bound, rules) in turns {
            rules.into_iter().for_each(|rule| flip(&mut current, rule));
            let set = pool.keep(&current);
            if bound == 0 {
                sets[0] = set;
            } else {
                bounds.push(bound);
                sets.push(set);
            }
        }
        Self { bounds, sets, unsaid }
    }

    /// The set of a value, or of none.
    pub(super) fn of(&self, value: Option<u64>) -> SetId {
        let Some(value) = value else { return self.unsaid };
        let after = self.bounds.partition_point(|bound| *bound <= value);
        self.sets.get(after.wrapping_sub(1)).copied().unwrap_or(self.unsaid)
    }
}
