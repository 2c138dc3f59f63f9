use super::groups::{Join, JoinTarget, Leave};
use super::*;
use crate::fabric::NodeParts;
use crate::ids::{PortNum, Sl};
use crate::plan::partitions;
use crate::sa::status::ErrorStatus;
use crate::wire::attr::{NodeDescription, NodeInfo, SwitchInfo};
use crate::wire::record::JoinState;
use crate::wire::sa::SaStatus;
use crate::wire::smp::DirectedRoute;

fn spec(n: u8) -> GroupSpec {
    let default = partitions::default(&crate::config::options::Options::default());
    let mut spec = GroupSpec::from(&default[0].groups[0]);
    spec.mgid.0[15] = n;
    spec
}

fn new(n: u8, last: u16) -> JoinTarget {
    JoinTarget::New { spec: spec(n), mlid: None, last: Mlid(last), prefix: 0, consolidate: false }
}

fn join(group: JoinTarget, port: u64, state: JoinState) -> Join {
    let port_gid = Gid::new(0, Guid(port));
    Join { group, port_gid, port: Guid(port), requester: Guid(port), state, proxy: false }
}

fn leave(n: u8, port: u64, state: JoinState) -> Leave {
    Leave { mgid: spec(n).mgid, port_gid: Gid::new(0, Guid(port)), state }
}

#[test]
fn mlids_are_the_lowest_free_ones() {
    let mut registry = Registry::default();
    for (n, mlid) in [(1, 0xC000), (2, 0xC001)] {
        let (record, _) =
            registry.multicast.join(join(new(n, 0xC001), 1, JoinState::FULL)).unwrap();
        assert_eq!(record.mlid(), Mlid(mlid));
    }
    let full = registry.multicast.join(join(new(3, 0xC001), 1, JoinState::FULL));
    assert_eq!(full, Err(ErrorStatus(SaStatus::NO_RESOURCES)));
    registry.multicast.leave(leave(1, 1, JoinState::FULL)).unwrap();
    let (record, _) = registry.multicast.join(join(new(4, 0xC001), 1, JoinState::FULL)).unwrap();
    assert_eq!(record.mlid(), Mlid::FIRST, "the MLID of the deleted group");
}

#[test]
fn join_states_are_added_and_removed_separately() {
    let mut registry = Registry::default();
    registry.multicast.join(join(new(1, 0xC00F), 1, JoinState::FULL)).unwrap();
    let (record, _) = registry.multicast.join(join(existing(), 1, JoinState::SEND_ONLY)).unwrap();
    assert_eq!(record.join_state(), JoinState(5));
    registry.multicast.join(join(existing(), 2, JoinState::NON)).unwrap();
    let before = registry.generation();
    let record = registry.multicast.leave(leave(1, 1, JoinState::SEND_ONLY)).unwrap();
    assert_eq!(record.join_state(), JoinState::FULL);
    assert_eq!(registry.generation(), before, "the tree still includes the port");
    registry.multicast.leave(leave(1, 1, JoinState::FULL)).unwrap();
    assert!(registry.group(&spec(1).mgid).is_none(), "a non-member keeps no group");
    assert!(registry.generation() > before);
}

fn existing() -> JoinTarget {
    JoinTarget::Existing(spec(1).mgid)
}

fn fabric(faults: Vec<DiscoveryFault>) -> Fabric {
    let info = NodeInfo::default();
    let port = NodeParts {
        info,
        description: NodeDescription::default(),
        switch_info: SwitchInfo::default(),
        route: DirectedRoute::LOCAL,
        ports: vec![(Guid(1), None)],
    };
    let local = (info.node_guid(), PortNum(0));
    Fabric::assemble(vec![port], &[], local, faults).expect("the node is there")
}

fn with_lost_reply() -> Fabric {
    let what = "a switch".to_owned();
    let route = DirectedRoute::LOCAL;
    fabric(vec![DiscoveryFault::NoAnswer { attribute: "PortInfo", what, route }])
}

fn with_members(ports: &[u64]) -> Registry {
    let mut registry = Registry::default();
    for (n, &port) in ports.iter().enumerate() {
        let group = if n == 0 { new(1, 0xC00F) } else { JoinTarget::Existing(spec(1).mgid) };
        registry.multicast.join(join(group, port, JoinState::FULL)).unwrap();
    }
    registry
}

fn members(registry: &Registry) -> Vec<u64> {
    registry.iter().flat_map(|group| group.members.keys().map(|guid| guid.0)).collect()
}

#[test]
fn absent_ports_are_removed_with_their_groups() {
    let mut registry = with_members(&[1, 2]);
    let before = registry.generation();
    registry.remove_absent_ports(&fabric(Vec::new()), false);
    assert_eq!(members(&registry), [1]);
    assert_eq!(registry.generation(), before + 1);
    let mut lonely = with_members(&[2]);
    lonely.remove_absent_ports(&fabric(Vec::new()), false);
    assert_eq!(lonely.iter().count(), 0);
}

#[test]
fn incomplete_sweeps_remove_absent_ports_only_after_several() {
    let mut registry = with_members(&[1, 2]);
    for _ in 1..MAX_MISSED_SWEEPS {
        registry.remove_absent_ports(&with_lost_reply(), false);
        assert_eq!(members(&registry), [1, 2]);
    }
    let mut returned = registry.clone();
    registry.remove_absent_ports(&with_lost_reply(), false);
    assert_eq!(members(&registry), [1], "missed by too many sweeps");
    returned.missed.clear();
    returned.remove_absent_ports(&with_lost_reply(), false);
    assert_eq!(members(&returned), [1, 2], "the count starts again");
}

#[test]
fn a_port_is_a_member_with_each_of_its_guids() {
    let fabric = fabric(Vec::new());
    let port = fabric.port_by_guid(Guid(1)).unwrap();
    let mut registry = Registry::default();
    registry.multicast.join(alias(new(1, 0xC00F), JoinState::FULL)).unwrap();
    let existing = JoinTarget::Existing(spec(1).mgid);
    registry.multicast.join(join(existing, 1, JoinState::SEND_ONLY)).unwrap();
    assert_eq!(members(&registry), [1, 11]);
    let groups = registry.groups(&fabric);
    assert_eq!((&groups[0].members[..], &groups[0].senders[..]), (&[port][..], &[][..]));
    registry.multicast.leave(leave(1, 1, JoinState::SEND_ONLY)).unwrap();
    assert_eq!(members(&registry), [11]);
    assert!(registry.group(&spec(1).mgid).unwrap().has_port(Guid(1)));
    registry.multicast.leave(leave(1, 11, JoinState::FULL)).unwrap();
    assert!(registry.group(&spec(1).mgid).is_none());
    registry.multicast.join(alias(new(1, 0xC00F), JoinState::FULL)).unwrap();
    registry.multicast.remove_ports(&BTreeSet::from([Guid(1)]));
    assert_eq!(members(&registry), [0; 0], "removed with its port");
}

fn alias(group: JoinTarget, state: JoinState) -> Join {
    Join { port_gid: Gid::new(0, Guid(11)), ..join(group, 1, state) }
}

#[test]
fn permanent_groups_stay() {
    let mut registry = Registry::default();
    assert_eq!(registry.set_permanent(&[spec(1)], Mlid::LAST), UnmetGroups::default());
    registry.multicast.join(join(JoinTarget::Existing(spec(1).mgid), 1, JoinState::FULL)).unwrap();
    registry.multicast.leave(leave(1, 1, JoinState::FULL)).unwrap();
    assert!(registry.group(&spec(1).mgid).is_some());
    registry.set_permanent(&[], Mlid::LAST);
    assert_eq!(registry.iter().count(), 0);
    let unmet = registry.set_permanent(&[spec(1)], Mlid(0xBFFF));
    assert_eq!(unmet.without_mlid, [spec(1).mgid]);
}

#[test]
fn permanent_groups_follow_the_configuration() {
    let mut registry = Registry::default();
    registry.set_permanent(&[spec(1), spec(2)], Mlid::LAST);
    registry.multicast.join(join(JoinTarget::Existing(spec(1).mgid), 1, JoinState::FULL)).unwrap();
    let generation = registry.generation();
    let next = [1, 2].map(|n| GroupSpec { mtu: 5, rate: 7, sl: Sl(3), ..spec(n) });
    let unmet = registry.set_permanent(&next, Mlid::LAST);
    assert_eq!(unmet, UnmetGroups { changed: vec![(spec(1).mgid, 1)], ..UnmetGroups::default() });
    for spec in &next {
        assert_eq!(&registry.group(&spec.mgid).expect("a group").spec, spec);
    }
    assert_eq!(members(&registry), [1], "the members stay");
    assert!(registry.generation() > generation, "the SL is planned");
    assert_eq!(registry.set_permanent(&next, Mlid::LAST), UnmetGroups::default());
}

#[test]
fn groups_beyond_the_capacity_of_the_switches_end() {
    let mut registry = Registry::default();
    let specs = [1, 2, 3].map(spec);
    registry.set_permanent(&specs, Mlid::LAST);
    assert_eq!(mlid(&registry, 3), Some(Mlid(0xC002)));
    let unmet = registry.set_permanent(&specs, Mlid(0xC001));
    assert_eq!(unmet.without_mlid, [spec(3).mgid]);
    assert_eq!(mlid(&registry, 3), None);
    let unmet = registry.set_permanent(&specs[1..], Mlid(0xC001));
    assert_eq!((unmet, mlid(&registry, 3)), (UnmetGroups::default(), Some(Mlid(0xC000))));
}

fn mlid(registry: &Registry, n: u8) -> Option<Mlid> {
    registry.group(&spec(n).mgid).map(|group| group.mlid)
}

fn solicited(scope: u8, pkey: u8, last: u8) -> JoinTarget {
    let mut spec = spec(0);
    spec.mgid =
        Gid([0xFF, 0x10 | scope, 0x60, 0x1B, 0xFF, pkey, 0, 0, 0, 0, 0, 1, 0xFF, 1, 2, last]);
    JoinTarget::New { spec, mlid: None, last: Mlid(0xC00F), prefix: 0, consolidate: true }
}

#[test]
fn solicited_node_groups_share_an_mlid_if_configured() {
    let mut registry = Registry::default();
    let mut mlid = |target: JoinTarget| {
        registry.multicast.join(join(target, 1, JoinState::FULL)).unwrap().0.mlid()
    };
    let shared = mlid(solicited(2, 0xFF, 1));
    assert_eq!(mlid(solicited(2, 0xFF, 9)), shared);
    assert_ne!(mlid(solicited(2, 0xFE, 1)), shared, "another partition");
    assert_ne!(mlid(solicited(5, 0xFF, 1)), shared, "another scope");
    let ordinary = JoinTarget::New {
        spec: spec(1),
        mlid: None,
        last: Mlid(0xC00F),
        prefix: 0,
        consolidate: true,
    };
    assert_ne!(mlid(ordinary), shared);
    let JoinTarget::New { spec, .. } = solicited(2, 0xFF, 1) else { unreachable!() };
    let port_gid = Gid::new(0, Guid(1));
    let gone = Leave { mgid: spec.mgid, port_gid, state: JoinState::FULL };
    registry.multicast.leave(gone).unwrap();
    let next = registry.multicast.join(join(new(7, 0xC00F), 1, JoinState::FULL)).unwrap().0.mlid();
    assert_ne!(next, shared, "a second group still uses it");
}

#[test]
fn creation_and_deletion_of_groups_are_events() {
    let mut registry = Registry::default();
    registry.multicast.join(join(new(1, 0xC00F), 1, JoinState::FULL)).unwrap();
    registry.multicast.join(join(existing(), 2, JoinState::SEND_ONLY_FULL)).unwrap();
    registry.multicast.join(join(existing(), 3, JoinState::NON)).unwrap();
    assert_eq!(created(&mut registry), [true]);
    registry.multicast.leave(leave(1, 1, JoinState::FULL)).unwrap();
    assert!(created(&mut registry).is_empty(), "a send-only full member keeps it");
    registry.multicast.leave(leave(1, 2, JoinState::SEND_ONLY_FULL)).unwrap();
    assert_eq!(created(&mut registry), [false]);
    assert!(registry.group(&spec(1).mgid).is_none());
    registry.multicast.join(join(new(1, 0xC00F), 1, JoinState::FULL)).unwrap();
    registry.remove_absent_ports(&fabric(Vec::new()), false);
    assert_eq!(created(&mut registry), [true]);
    registry.multicast.remove_ports(&BTreeSet::from([Guid(1)]));
    assert_eq!(created(&mut registry), [false]);
}

fn created(registry: &mut Registry) -> Vec<bool> {
    registry.take_group_events().iter().map(|event| event.created).collect::<Vec<_>>()
}

#[test]
fn send_only_members_receive_nothing() {
    let fabric = fabric(Vec::new());
    let port = fabric.port_by_guid(Guid(1)).unwrap();
    let mut registry = Registry::default();
    registry.multicast.join(join(new(1, 0xC00F), 1, JoinState::SEND_ONLY_FULL)).unwrap();
    let groups = registry.groups(&fabric);
    assert_eq!((&groups[0].members[..], &groups[0].senders[..]), (&[][..], &[port][..]));
    let before = registry.generation();
    let existing = JoinTarget::Existing(spec(1).mgid);
    let (_, since) = registry.multicast.join(join(existing, 1, JoinState::NON)).unwrap();
    assert!(since > before, "the port now receives");
    let groups = registry.groups(&fabric);
    assert_eq!((&groups[0].members[..], &groups[0].senders[..]), (&[port][..], &[][..]));
}

/// Applies a join, a leave, or a sweep that misses a port.
fn step(registry: &mut Registry, step: (u8, u8, u64)) {
    let (what, group, port) = step;
    let state = [JoinState::FULL, JoinState::SEND_ONLY_FULL][usize::from(what) % 2];
    match what {
        0..=3 => {
            let target = match registry.group(&spec(group).mgid) {
                Some(_) => JoinTarget::Existing(spec(group).mgid),
                // Two of the MGIDs share an MLID.
                None => match new(group, 0xC010) {
                    JoinTarget::New { mut spec, mlid, last, prefix, .. } => {
                        spec.mgid = self::spec(group).mgid;
                        JoinTarget::New { spec, mlid, last, prefix, consolidate: true }
                    }
                    existing => existing,
                },
            };
            let _ = registry.multicast.join(join(target, port, state));
        }
        4..=6 => drop(registry.multicast.leave(leave(group, port, state))),
        _ => registry.multicast.remove_ports(&BTreeSet::from([Guid(port)])),
    }
}

proptest::proptest! {
    /// Applying all deltas to an empty list produces the list of all groups.
    #[test]
    fn what_changed_leads_to_what_is(
        steps in proptest::collection::vec((0u8..8, 0u8..6, 1u64..4), 1..60),
        batch in 1usize..7,
    ) {
        let fabric = fabric(Vec::new());
        let mut registry = Registry::default();
        let (mut known, mut generation) = (BTreeMap::<Mlid, Vec<GroupMembers>>::new(), 0);
        for steps in steps.chunks(batch) {
            steps.iter().for_each(|&one| step(&mut registry, one));
            let MulticastDelta { mlids, groups } = registry.multicast_delta(generation, &fabric);
            known.retain(|mlid, _| !mlids.contains(mlid));
            for group in groups {
                proptest::prop_assert!(mlids.contains(&group.mlid));
                known.entry(group.mlid).or_default().push(group);
            }
            generation = registry.generation();
            let mut all = BTreeMap::<Mlid, Vec<GroupMembers>>::new();
            for group in registry.groups(&fabric) {
                all.entry(group.mlid).or_default().push(group);
            }
            proptest::prop_assert_eq!(&known, &all);
            proptest::prop_assert_eq!(registry.multicast_delta(generation, &fabric), MulticastDelta::default());
        }
    }
}
