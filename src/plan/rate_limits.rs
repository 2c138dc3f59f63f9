//! Rate limits of the SLs of channel adapter ports, by `enhanced_qos_policy_file`.

use super::routing::unicast_steps::port_sets::PortSets;
use crate::config::enhanced_qos::{self, EnhancedQos, RateLimits, RateRule, RateSubject};
use crate::fabric::{Fabric, PortId};
use crate::notes::Note;
use crate::wire::attr::NodeKind;

/// Ports that a note names; the others are counted.
const MAX_NAMED: usize = 8;

/// The limits of all ports of channel adapters, in the order of the ports, with findings about the
/// rules in this fabric.
pub fn port_limits(
    policy: &EnhancedQos,
    fabric: &Fabric,
) -> (Vec<(PortId, RateLimits)>, Vec<Note>) {
    let sets = PortSets::new(&policy.groups, fabric);
    let default = enhanced_qos::default_rule(&policy.ports);
    let by_group: Vec<_> = policy
        .ports
        .iter()
        .filter_map(|rule| match rule.subject {
            RateSubject::Group(group) => Some((rule, sets.group(group))),
            _ => None,
        })
        .collect();
    let mut notes = absent_guids(policy, fabric);
    let mut ambiguous = Vec::new();
    let adapters = fabric.end_ports().filter(|&port| fabric.node_of(port).kind() == NodeKind::Ca);
    let mut limits = Vec::new();
    for port in adapters {
        let subject = RateSubject::Guid(fabric.port(port).guid);
        let own: Option<&RateRule> = policy.ports.iter().find(|rule| rule.subject == subject);
        let mut groups = by_group.iter().filter(|(_, ports)| ports.contains(port));
        let first = groups.next().map(|(rule, _)| *rule);
        if own.is_none() && groups.next().is_some() {
            ambiguous.push(fabric.describe(port));
        }
        limits.push((port, enhanced_qos::limits(own.or(first), default)));
    }
    if !ambiguous.is_empty() {
        let named = ambiguous.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join(", ");
        let others = match ambiguous.len().saturating_sub(MAX_NAMED) {
            0 => String::new(),
            others => format!(" and {others} others"),
        };
        notes.push(Note::warning(format!(
            "BW_RULES name several groups with {named}{others}: the first rule applies"
        )));
    }
    (limits, notes)
}

/// A warning for each GUID of a rule that no port of the fabric has. The rule stays.
fn absent_guids(policy: &EnhancedQos, fabric: &Fabric) -> Vec<Note> {
    let absent = policy.ports.iter().filter_map(|rule| match rule.subject {
        RateSubject::Guid(guid) if fabric.port_by_guid(guid).is_none() => Some((guid, rule.line)),
        _ => None,
    });
    absent
        .map(|(guid, line)| {
            Note::warning(format!(
                "BW_RULES, line {line}: no port of the fabric has the GUID {guid}"
            ))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::routing_chain::port_groups;
    use crate::fabric::synthetic::SyntheticView;
    use crate::sim::generate::Shape;
    use std::path::Path;

    /// A row of three switches with a host each.
    fn fabric() -> Fabric {
        let shape: Shape = "3x1m".parse().expect("a shape");
        let topology = shape.build().expect("a fabric");
        let host = topology.nodes.iter().position(|node| node.kind == NodeKind::Ca);
        let host = host.expect("a host");
        Fabric::from_topology(&topology, host, &SyntheticView::default()).expect("a local port")
    }

    #[test]
    fn the_rule_of_a_guid_precedes_those_of_groups_and_the_default() {
        let fabric = fabric();
        let ports: Vec<PortId> = fabric
            .end_ports()
            .filter(|&port| fabric.node_of(port).kind() == NodeKind::Ca)
            .collect();
        let [a, b, c] = [0, 1, 2].map(|index| fabric.port(ports[index]).guid);
        let text = format!(
            "port-group name: one port-guid: {a}, {b} end-port-group\n\
             port-group name: two port-guid: {b} end-port-group\n"
        );
        let (groups, found) = port_groups::parse(Path::new("groups"), &text);
        assert_eq!(found, []);
        let text = format!(
            "BW_NAMES\nw=1\nx=2\ny=3\nz=4\nBW_RULES\ndefault=all:z\ntwo=1:x\none=1:y\n{a}=2:w\n0x99=1:w\n"
        );
        let (policy, found) = enhanced_qos::parse(Path::new("rates"), &text, &groups);
        assert_eq!(found, []);
        let (limits, notes) = port_limits(&policy.expect("no error"), &fabric);
        let default = [4; enhanced_qos::SLS];
        assert_eq!(limits, [(ports[0], with(2, 1)), (ports[1], with(1, 2)), (ports[2], default)]);
        let texts: Vec<&str> = notes.iter().map(|note| note.text.as_str()).collect();
        assert!(texts[0].contains("line 11") && texts[0].contains("99"), "{texts:?}");
        assert!(texts[1].contains("several groups") && texts.len() == 2, "{texts:?}");
        assert_ne!(b, c);
    }

    fn with(sl: usize, rate: u32) -> [u32; 16] {
        let mut all = [4; enhanced_qos::SLS];
        all[sl] = rate;
        all
    }
}
