//! What a QoS policy means for a fabric: which ports the groups have, and which rule a query
//! matches first.
//!
//! [`EffectivePolicy`] is made once per plan. A query costs a lookup for each of the five things
//! that rules are about, each of which gives the set of rules that it allows, and the first rule
//! that is in all of them: no more with a thousand rules than with ten.

mod groups;
mod rule_sets;

pub use groups::GroupPorts;

use crate::config::qos_policy::{MatchRule, Ports, QosLevel, QosPolicy, Ranges};
use crate::fabric::{Fabric, PortId};
use crate::ids::Pkey;
use crate::notes::Note;
use crate::plan::paged_vec::PagedVec;
use crate::plan::partitions::{Membership, Partition};
use rule_sets::{Pool, PortSets, Segments};
use std::sync::Arc;

/// A policy, made for a fabric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EffectivePolicy {
    policy: Arc<QosPolicy>,
    pool: Pool,
    sources: PortSets,
    destinations: PortSets,
    service_ids: Segments,
    qos_classes: Segments,
    pkeys: Segments,
}

/// What a query says that rules may be about. A component that is not in the query's mask is
/// `None`, and matches no rule that is about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QosQuery {
    /// Where the path begins.
    pub from: PortId,
    /// Where it ends; `None` if that is no port but a multicast group.
    pub to: Option<PortId>,
    /// Service ID.
    pub service_id: Option<u64>,
    /// QoS class, 12 bits.
    pub qos_class: Option<u16>,
    /// P_Key.
    pub pkey: Option<Pkey>,
}

impl EffectivePolicy {
    /// Makes a policy for a fabric. `keys` are the P_Keys of end ports by port slot; empty if
    /// all hold the default one. `own` is the subnet manager's port. The notes say what the
    /// policy names and the fabric does not have.
    pub fn new(
        policy: Arc<QosPolicy>,
        fabric: &Fabric,
        keys: &PagedVec<Vec<Pkey>>,
        partitions: &[Partition],
        own: Option<PortId>,
    ) -> (Self, Vec<Note>) {
        let (groups, mut notes) = GroupPorts::new(&policy, fabric, keys, partitions, own);
        notes.extend(policy.rules.iter().flat_map(|rule| doubts(rule, partitions)));
        let mut pool = Pool::new(policy.rules.len());
        let ends = |choose: fn(&MatchRule) -> &Option<Ports>, pool: &mut Pool| {
            PortSets::new(fabric.ports().len(), pool, |port, rule| {
                let Some(ports) = policy.rules.get(rule).and_then(|rule| choose(rule).as_ref())
                else {
                    return true;
                };
                let Some(port) = port.map(|port| PortId(port as u32)) else { return false };
                let guid = fabric.port(port).guid.0;
                ports.guids.contains(guid)
                    || ports.groups.iter().any(|&group| groups.contains(group, port))
            })
        };
        let sources = ends(|rule| &rule.source, &mut pool);
        let destinations = ends(|rule| &rule.destination, &mut pool);
        let about = |choose: fn(&MatchRule) -> &Ranges, pool: &mut Pool| {
            Segments::new(policy.rules.iter().map(choose), pool)
        };
        let service_ids = about(|rule| &rule.service_ids, &mut pool);
        let qos_classes = about(|rule| &rule.qos_classes, &mut pool);
        let pkeys = about(|rule| &rule.pkeys, &mut pool);
        let made = Self { pool, sources, destinations, service_ids, qos_classes, pkeys, policy };
        (made, notes)
    }

    /// The rule that a query matches first; `None` if it matches none.
    pub fn rule(&self, asked: &QosQuery) -> Option<&MatchRule> {
        let pkey = asked.pkey.map(|pkey| u64::from(pkey.base()));
        let sets = [
            self.sources.of(Some(asked.from.index())),
            self.destinations.of(asked.to.map(PortId::index)),
            self.service_ids.of(asked.service_id),
            self.qos_classes.of(asked.qos_class.map(u64::from)),
            self.pkeys.of(pkey),
        ];
        self.pool.first_of_all(sets).and_then(|index| self.policy.rules.get(index))
    }

    /// The level of a query: that of the first rule it matches, else the default one.
    pub fn level(&self, asked: &QosQuery) -> Option<&QosLevel> {
        let index = self.rule(asked).map_or(self.policy.default, |rule| rule.level);
        self.policy.levels.get(index)
    }

    /// The policy as written.
    pub fn policy(&self) -> &Arc<QosPolicy> {
        &self.policy
    }
}

/// Partitions that a rule speaks of and that are not there, or cannot be what it needs.
fn doubts(rule: &MatchRule, partitions: &[Partition]) -> Vec<Note> {
    let mut notes = Vec::new();
    for (first, last) in rule.pkeys.iter() {
        let within = |part: &&Partition| (first..=last).contains(&u64::from(part.pkey.base()));
        let found: Vec<&Partition> = partitions.iter().filter(within).collect();
        let keys = match first == last {
            true => format!("P_Key {first:#06x}"),
            false => format!("a P_Key from {first:#06x} to {last:#06x}"),
        };
        let line = rule.line;
        if found.is_empty() {
            let text = format!(
                "the rule in line {line} of the QoS policy is for {keys}, and there is no such \
                 partition"
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
                    "the rule in line {line} of the QoS policy is for IPoIB, and partition \
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
