use super::*;
use crate::fabric::synthetic::SyntheticView;
use crate::ids::Sl;
use crate::plan::partitions::{self, PartitionMember, PortSelector};
use crate::plan::tests::ring;
use proptest::prelude::*;

fn fabric() -> Fabric {
    let topology = ring(4, &[]);
    Fabric::from_topology(&topology, 0, &SyntheticView::default()).expect("node 0")
}

fn policy(text: &str) -> Arc<QosPolicy> {
    let text = format!("{text}\nqos-ulps\ndefault : 0\nend-qos-ulps\n");
    let (policy, findings) = QosPolicy::parse(std::path::Path::new("q"), &text);
    Arc::new(policy.unwrap_or_else(|| panic!("{findings:?}")))
}

fn made(text: &str) -> (EffectivePolicy, Vec<Note>) {
    let partitions = partitions::default(&Default::default());
    let fabric = fabric();
    let own = fabric.end_ports().next();
    EffectivePolicy::new(policy(text), &fabric, &Vec::new().into(), &partitions, own)
}

fn asked(from: PortId, to: PortId) -> QosQuery {
    QosQuery { from, to: Some(to), service_id: None, qos_class: None, pkey: None }
}

#[test]
fn the_first_matching_rule_applies() {
    let fabric = fabric();
    let hosts: Vec<PortId> =
        fabric.end_ports().filter(|&port| !fabric.node_of(port).is_switch()).collect();
    let guid = fabric.port(hosts[1]).guid;
    let (policy, notes) = made(&format!(
        "port-groups\nport-group\nname: a\nport-guid: {guid}\nend-port-group\nport-group\n\
         name: switches\nnode-type: SWITCH\nend-port-group\nend-port-groups\nqos-levels\n\
         qos-level\nname: one\nsl: 1\nend-qos-level\nqos-level\nname: two\nsl: 2\nend-qos-level\n\
         end-qos-levels\nqos-match-rules\nqos-match-rule\ndestination: a\nqos-class: 7-9\n\
         qos-level-name: one\nend-qos-match-rule\nqos-match-rule\ndestination: a, switches\n\
         qos-level-name: two\nend-qos-match-rule\nend-qos-match-rules\nqos-ulps\nsdp : 3\n\
         any, pkey 0x8005 : 4\nend-qos-ulps"
    ));
    let texts: Vec<_> = notes.iter().map(|note| note.to_string()).collect();
    assert_eq!(texts.len(), 1, "{texts:?}");
    assert!(texts[0].contains("0x0005"), "{texts:?}");
    let base = asked(hosts[0], hosts[1]);
    assert_eq!(sl(&policy, base), Some(Sl(2)), "no class is said, so rule 1 does not match");
    assert_eq!(sl(&policy, QosQuery { qos_class: Some(8), ..base }), Some(Sl(1)));
    assert_eq!(sl(&policy, QosQuery { qos_class: Some(10), ..base }), Some(Sl(2)));
    let other = asked(hosts[1], hosts[0]);
    assert_eq!(sl(&policy, other), Some(Sl(0)));
    assert_eq!(sl(&policy, QosQuery { service_id: Some(0x1_1234), ..other }), Some(Sl(3)));
    assert_eq!(
        sl(&policy, QosQuery { pkey: Some(Pkey(5)), ..other }),
        Some(Sl(4)),
        "the top bit is no matter"
    );
    let switch = fabric.node_of(fabric.port(hosts[0]).peer.unwrap()).first_port;
    assert_eq!(sl(&policy, asked(hosts[1], switch)), Some(Sl(2)));
}

fn sl(policy: &EffectivePolicy, asked: QosQuery) -> Option<Sl> {
    policy.level(&asked).map(|level| level.sl)
}

#[test]
fn names_absent_from_the_fabric_are_noted() {
    let (_, notes) = made(
        "port-groups\nport-group\nname: a\nport-name: nobody/P1\npartition: Part1\n\
         end-port-group\nport-group\nname: routers\nnode-type: ROUTER\nend-port-group\n\
         end-port-groups\nqos-ulps\nipoib, pkey 0x1-0x3 : 1\nipoib : 1\nend-qos-ulps",
    );
    let texts: Vec<_> = notes.iter().map(|note| note.to_string()).collect();
    let wanted = ["no partition Part1", "matches nobody/P1", "routers", "0x0001 to 0x0003"];
    assert_eq!(texts.len(), wanted.len(), "{texts:?}");
    for (text, wanted) in texts.iter().zip(wanted) {
        assert!(text.contains(wanted), "{text} {wanted}");
    }
}

#[test]
fn groups_resolve_partitions_names_and_the_own_port() {
    let fabric = fabric();
    let ends: Vec<PortId> = fabric.end_ports().collect();
    let mut keys = vec![Vec::new(); fabric.ports().len()];
    keys[ends[2].index()] = vec![Pkey(0x8010)];
    let mut partitions = partitions::default(&Default::default());
    let mut storage = partitions[0].clone();
    storage.name = "Storage".to_owned();
    storage.pkey = Pkey(0x10);
    storage.members = vec![PartitionMember::new(PortSelector::All, Membership::Full)];
    partitions.push(storage);
    let description = fabric.node_of(ends[3]).description.to_string();
    let text = format!(
        "port-groups\nport-group\nname: p\npartition: storage\nend-port-group\nport-group\n\
         name: k\npkey: 0x10-0x20\nend-port-group\nport-group\nname: s\nnode-type: SELF\n\
         end-port-group\nport-group\nname: n\nport-name: \"{description}/*\"\nend-port-group\n\
         end-port-groups"
    );
    let keys = keys.into_iter().map(Arc::from).collect();
    let (groups, notes) =
        GroupPorts::new(&policy(&text), &fabric, &keys, &partitions, Some(ends[0]));
    assert_eq!(notes, []);
    for (group, port) in [(0, ends[2]), (1, ends[2]), (2, ends[0]), (3, ends[3])] {
        let members: Vec<_> =
            ends.iter().copied().filter(|&end| groups.contains(group, end)).collect();
        assert!(members.contains(&port), "{group}");
        assert!(group == 3 || members.len() == 1, "{group} {members:?}");
    }
}

/// The first matching rule, found by a linear scan.
fn scan<'p>(policy: &'p QosPolicy, fabric: &Fabric, asked: &QosQuery) -> Option<&'p MatchRule> {
    policy.rules.iter().find(|rule| {
        end(fabric, &rule.source, asked.from)
            && end(fabric, &rule.destination, asked.to.expect("a port"))
            && value(&rule.service_ids, asked.service_id)
            && value(&rule.qos_classes, asked.qos_class.map(u64::from))
            && value(&rule.pkeys, asked.pkey.map(|key| u64::from(key.base())))
    })
}

fn value(ranges: &Ranges, value: Option<u64>) -> bool {
    ranges.is_empty() || value.is_some_and(|value| ranges.contains(value))
}

fn end(fabric: &Fabric, ports: &Option<PortFilter>, port: PortId) -> bool {
    ports.as_ref().is_none_or(|ports| ports.guids.contains(fabric.port(port).guid.0))
}

fn ranges(most: u64) -> impl Strategy<Value = Ranges> {
    let range = (0..most, 0..most / 2).prop_map(|(first, more)| (first, first + more));
    prop_oneof![
        Just(Ranges::default()),
        proptest::collection::vec(range, 1..3).prop_map(Ranges::new)
    ]
}

fn rule(guids: Vec<u64>) -> impl Strategy<Value = MatchRule> {
    let some = proptest::sample::subsequence(guids.clone(), 0..=guids.len());
    let ports = proptest::option::of(some.prop_map(|guids| PortFilter {
        groups: Vec::new(),
        guids: Ranges::new(guids.into_iter().map(|guid| (guid, guid))),
    }));
    (ports.clone(), ports, ranges(40), ranges(10), ranges(10)).prop_map(
        |(source, destination, service_ids, qos_classes, pkeys)| MatchRule {
            source,
            destination,
            service_ids,
            qos_classes,
            pkeys,
            ..MatchRule::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn bit_sets_and_scan_find_the_same_rule(
        rules in {
            let fabric = fabric();
            let guids = fabric.end_ports().map(|port| fabric.port(port).guid.0).collect::<Vec<_>>();
            proptest::collection::vec(rule(guids), 0..150)
        },
        queries in proptest::collection::vec(
            (
                any::<prop::sample::Index>(),
                any::<prop::sample::Index>(),
                proptest::option::of(0_u64..70),
                proptest::option::of(0_u16..18),
                proptest::option::of(0_u16..18),
            ),
            20,
        ),
    ) {
        let fabric = fabric();
        let ends: Vec<PortId> = fabric.end_ports().collect();
        let policy = QosPolicy { rules, ..QosPolicy::default() };
        let policy = Arc::new(policy);
        let (made, _) = EffectivePolicy::new(policy.clone(), &fabric, &Vec::new().into(), &[], None);
        for (from, to, service_id, qos_class, pkey) in queries {
            let from = *from.get(&ends);
            let to = *to.get(&ends);
            let asked = QosQuery { from, to: Some(to), service_id, qos_class, pkey: pkey.map(Pkey) };
            prop_assert_eq!(made.rule(&asked), scan(&policy, &fabric, &asked));
        }
    }
}
