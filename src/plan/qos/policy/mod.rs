//! The rules of qos-policy.conf, resolved for a fabric.
//!
//! [`EffectivePolicy`] is created once per plan. It precomputes, for every value of each of the
//! five criteria of a rule (source, destination, service ID, QoS class, P_Key), the set of rules
//! that the value satisfies. A query takes one lookup per criterion and intersects the five bit
//! sets; the first rule in the intersection applies. The cost grows by 5 words per 64 rules.

mod groups;
mod rule_sets;

pub use groups::GroupPorts;

use crate::config::qos_policy::{MatchRule, PortFilter, QosLevel, QosPolicy, Ranges};
use crate::fabric::{Fabric, PortId};
use crate::ids::Pkey;
use crate::notes::Note;
use crate::paged_vec::PagedVec;
use crate::plan::partitions::{Membership, Partition};
use rule_sets::{RuleSets, RulesByPort, Segments};
use std::sync::Arc;

/// A policy, resolved for a fabric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EffectivePolicy {
    policy: Arc<QosPolicy>,
    rule_sets: RuleSets,
    sources: RulesByPort,
    destinations: RulesByPort,
    service_ids: Segments,
    qos_classes: Segments,
    pkeys: Segments,
}

/// The components of a path query that rules refer to. A component that is not in the query's
/// component mask is `None` and matches no rule that refers to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QosQuery {
    /// The source port.
    pub from: PortId,
    /// The destination port; `None` if the destination is a multicast group.
    pub to: Option<PortId>,
    pub service_id: Option<u64>,
    /// QoS class (12 bits).
    pub qos_class: Option<u16>,
    pub pkey: Option<Pkey>,
}

impl EffectivePolicy {
    /// Resolves a policy for a fabric. `keys` are the P_Keys of end ports by port slot; empty if
    /// all ports hold the default key only. `own` is the subnet manager's port. The notes name
    /// ports and partitions of the policy that do not exist in the fabric.
    pub fn new(
        policy: Arc<QosPolicy>,
        fabric: &Fabric,
        keys: &PagedVec<Arc<[Pkey]>>,
        partitions: &[Partition],
        own: Option<PortId>,
    ) -> (Self, Vec<Note>) {
        let (groups, mut notes) = GroupPorts::new(&policy, fabric, keys, partitions, own);
        notes.extend(policy.rules.iter().flat_map(|rule| partition_notes(rule, partitions)));
        let mut rule_sets = RuleSets::new(policy.rules.len());
        let sources = ends(&policy, &groups, fabric, |rule| &rule.source, &mut rule_sets);
        let destinations = ends(&policy, &groups, fabric, |rule| &rule.destination, &mut rule_sets);
        let service_ids = about(&policy, |rule| &rule.service_ids, &mut rule_sets);
        let qos_classes = about(&policy, |rule| &rule.qos_classes, &mut rule_sets);
        let pkeys = about(&policy, |rule| &rule.pkeys, &mut rule_sets);
        let made =
            Self { rule_sets, sources, destinations, service_ids, qos_classes, pkeys, policy };
        (made, notes)
    }

    /// The first rule that a query matches; `None` if there is none.
    pub fn rule(&self, query: &QosQuery) -> Option<&MatchRule> {
        let pkey = query.pkey.map(|pkey| u64::from(pkey.base()));
        let sets = [
            self.sources.of(Some(query.from.index())),
            self.destinations.of(query.to.map(PortId::index)),
            self.service_ids.of(query.service_id),
            self.qos_classes.of(query.qos_class.map(u64::from)),
            self.pkeys.of(pkey),
        ];
        self.rule_sets.first_of_all(sets).and_then(|index| self.policy.rules.get(index))
    }

    /// The QoS level of a query: that of the first matching rule, else the default level.
    pub fn level(&self, query: &QosQuery) -> Option<&QosLevel> {
        let index = self.rule(query).map_or(self.policy.default, |rule| rule.level);
        self.policy.levels.get(index)
    }

    /// The policy as written.
    pub fn policy(&self) -> &Arc<QosPolicy> {
        &self.policy
    }
}

fn about(
    policy: &QosPolicy,
    choose: fn(&MatchRule) -> &Ranges,
    rule_sets: &mut RuleSets,
) -> Segments {
    Segments::new(policy.rules.iter().map(choose), rule_sets)
}

fn ends(
    policy: &QosPolicy,
    groups: &GroupPorts,
    fabric: &Fabric,
    choose: fn(&MatchRule) -> &Option<PortFilter>,
    rule_sets: &mut RuleSets,
) -> RulesByPort {
    RulesByPort::new(fabric.ports().len(), rule_sets, |port, rule| {
        let Some(ports) = policy.rules.get(rule).and_then(|rule| choose(rule).as_ref()) else {
            return true;
        };
        let Some(port) = port.map(|port| PortId(port as u32)) else { return false };
        let guid = fabric.port(port).guid.0;
        ports.guids.contains(guid) || ports.groups.iter().any(|&group| groups.contains(group, port))
    })
}

/// Notes about partitions of a rule that do not exist or are not usable for it.
fn partition_notes(rule: &MatchRule, partitions: &[Partition]) -> Vec<Note> {
    let mut notes = Vec::new();
    for (first, last) in rule.pkeys.iter() {
        let found: Vec<&Partition> = partitions
            .iter()
            .filter(|part| (first..=last).contains(&u64::from(part.pkey.base())))
            .collect();
        let keys = if first == last {
            format!("P_Key {first:#06x}")
        } else {
            format!("a P_Key from {first:#06x} to {last:#06x}")
        };
        let line = rule.line;
        if found.is_empty() {
            let text = format!(
                "the rule in line {line} of the QoS policy has no effect: there is no partition \
                 with {keys}"
            );
            notes.push(Note::error("AC14", text));
        }
        for partition in found.iter().filter(|_| rule.is_ipoib) {
            let full = partition
                .members
                .iter()
                .any(|member| matches!(member.membership, Membership::Full | Membership::Both));
            if !full || partition.groups.is_empty() {
                let lack = if full { "broadcast group" } else { "full member" };
                let name = &partition.name;
                notes.push(Note::warning(format!(
                    "the rule in line {line} of the QoS policy is for IPoIB, but partition \
                     {name} ({}) has no {lack}",
                    partition.pkey
                )));
            }
        }
    }
    notes
}

#[cfg(test)]
mod tests;
