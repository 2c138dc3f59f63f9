//! Sets of rules as bit sets, and their lookup by port or value.

use crate::config::qos_policy::Ranges;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Index of a set in [`RuleSets`].
type SetId = u32;

/// Interned sets of rules, as bits in 64-bit words.
#[derive(Clone, Debug)]
pub(super) struct RuleSets {
    rules: usize,
    words: usize,
    sets: Vec<u64>,
    known: HashMap<Vec<u64>, SetId>,
}

impl PartialEq for RuleSets {
    fn eq(&self, other: &Self) -> bool {
        (self.rules, &self.sets) == (other.rules, &other.sets)
    }
}

impl Eq for RuleSets {}

impl RuleSets {
    /// Creates an empty collection of sets over `rules` rules.
    pub(super) fn new(rules: usize) -> Self {
        Self { rules, words: rules.div_ceil(64), sets: Vec::new(), known: HashMap::new() }
    }

    fn intern(&mut self, set: &[u64]) -> SetId {
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
        self.intern(&set)
    }

    fn words_of(&self, id: SetId) -> &[u64] {
        let start = id as usize * self.words;
        self.sets.get(start..start + self.words).unwrap_or(&[])
    }

    /// The first rule in the intersection of the sets.
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

/// The rules that a port satisfies as source (or destination), by port slot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RulesByPort {
    sets: Vec<SetId>,
    /// The rules without a condition on this end.
    unconditional: SetId,
}

impl RulesByPort {
    /// Builds the sets of `ports` ports. `allows(port, rule)` tells whether a port (or `None`)
    /// satisfies a rule.
    pub(super) fn new(
        ports: usize,
        rule_sets: &mut RuleSets,
        allows: impl Fn(Option<usize>, usize) -> bool,
    ) -> Self {
        Self {
            unconditional: rule_sets.set_of(|rule| allows(None, rule)),
            sets: (0..ports)
                .map(|port| rule_sets.set_of(|rule| allows(Some(port), rule)))
                .collect(),
        }
    }

    /// The set of a port; for `None`, the rules without a condition.
    pub(super) fn of(&self, port: Option<usize>) -> SetId {
        let Some(port) = port else { return self.unconditional };
        self.sets.get(port).copied().unwrap_or(SetId::MAX)
    }
}

/// The rules that a value satisfies. The set is constant between two bounds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Segments {
    /// The first value of each segment, ascending from 0.
    bounds: Vec<u64>,
    sets: Vec<SetId>,
    /// The rules without a condition on the value, for queries without it.
    unconditional: SetId,
}

impl Segments {
    /// Builds the segments from the value ranges of each rule. Empty ranges allow any value.
    pub(super) fn new<'a>(
        rules: impl Iterator<Item = &'a Ranges>,
        rule_sets: &mut RuleSets,
    ) -> Self {
        let rules: Vec<&Ranges> = rules.collect();
        let unconditional = rule_sets.set_of(|rule| rules[rule].is_empty());
        // The rules that begin or cease to allow values, by bound.
        let mut toggles: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
        for (rule, ranges) in rules.iter().enumerate() {
            for (first, last) in ranges.iter() {
                toggles.entry(first).or_default().insert(rule);
                if let Some(after) = last.checked_add(1) {
                    toggles.entry(after).or_default().insert(rule);
                }
            }
        }
        let mut current = rule_sets.words_of(unconditional).to_vec();
        let mut bounds = vec![0];
        let mut sets = vec![unconditional];
        for (bound, rules) in toggles {
            rules.into_iter().for_each(|rule| flip(&mut current, rule));
            let set = rule_sets.intern(&current);
            if bound == 0 {
                sets[0] = set;
            } else {
                bounds.push(bound);
                sets.push(set);
            }
        }
        Self { bounds, sets, unconditional }
    }

    /// The set of a value; for `None`, the rules without a condition.
    pub(super) fn of(&self, value: Option<u64>) -> SetId {
        let Some(value) = value else { return self.unconditional };
        let after = self.bounds.partition_point(|bound| *bound <= value);
        self.sets.get(after.wrapping_sub(1)).copied().unwrap_or(self.unconditional)
    }
}
