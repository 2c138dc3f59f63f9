//! Tests of the tables: each member receives each packet once.

use super::*;
use crate::fabric::synthetic::{Hardware, SyntheticView};
use crate::fabric::topology::Topology;
use crate::ids::PortNum;
use crate::plan::routing::balancing::tests::{number, picture, wiring};
use crate::plan::routing::minhop::MinHop;
use crate::plan::routing::{Engine, RoutingInput};
use proptest::prelude::*;

/// Tables and notes for these groups, routed by Min Hop.
fn group_of(mlid: u16, members: Vec<PortId>) -> GroupMembers {
    GroupMembers { mlid: Mlid(mlid), sl: Sl(0), members, senders: Vec::new() }
}

fn with_sl(sl: u8, members: &[PortId]) -> GroupMembers {
    GroupMembers { sl: Sl(sl), ..group_of(0xC003, members.to_vec()) }
}

fn tables(fabric: &Fabric, groups: &[GroupMembers]) -> (MulticastTables, Vec<Note>) {
    let lids = number(fabric, 0);
    let options = Options::default();
    let torus_config = &Err(Vec::new());
    let input = RoutingInput {
        fabric,
        lids: &lids,
        options: &options,
        torus_config,
        previous: None,
        previous_fabric: None,
    };
    let routing = MinHop::default().route(&input).expect("Min Hop never refuses");
    let tables = plan(fabric, &lids, &routing, groups, &options);
    let notes = tables.notes.iter().map(|(_, note)| note.clone()).collect();
    (tables, notes)
}

fn mask(tables: &MulticastTables, switch: SwitchId, mlid: Mlid) -> PortMask {
    let entries = &tables.by_switch[switch.index()];
    entries.iter().find(|(other, _)| *other == mlid).map_or_else(PortMask::default, |e| e.1)
}

/// The end ports at which a packet from `source` to `mlid` arrives, with repetitions; an error if
/// it reaches a switch twice.
fn send(
    fabric: &Fabric,
    tables: &MulticastTables,
    mlid: Mlid,
    source: PortId,
) -> Result<Vec<PortId>, String> {
    let entry = if fabric.node_of(source).is_switch() {
        source
    } else {
        fabric.port(source).peer.expect("a cable")
    };
    let mut waiting = vec![entry];
    let mut heard = Vec::new();
    let mut passed = BTreeSet::new();
    while let Some(entry) = waiting.pop() {
        let Some(switch) = fabric.node_of(entry).switch else {
            heard.push(entry);
            continue;
        };
        if !passed.insert(switch) {
            return Err(format!("{} twice", fabric.describe(entry)));
        }
        for out in mask(tables, switch, mlid).iter() {
            let port = fabric.switch_port(switch, PortNum(out)).expect("a port");
            if port == entry {
                continue;
            }
            match out {
                0 => heard.push(port),
                _ => waiting.push(fabric.port(port).peer.expect("a cable")),
            }
        }
    }
    heard.sort();
    Ok(heard)
}

/// Selects members among the end ports.
fn choose(fabric: &Fabric, picks: &[bool]) -> Vec<PortId> {
    let ends = fabric.end_ports().zip(picks.iter().cycle());
    ends.filter(|(_, pick)| **pick).map(|(port, _)| port).collect()
}

proptest! {
    #[test]
    fn each_member_receives_each_packet_once(
        topology in wiring(),
        picks in prop::collection::vec(prop::collection::vec(any::<bool>(), 1..20), 1..5),
    ) {
        let fabric = picture(&topology);
        let groups: Vec<_> = (0xC000..)
            .zip(&picks)
            .map(|(mlid, picks)| group_of(mlid, choose(&fabric, picks)))
            .collect();
        let (tables, notes) = tables(&fabric, &groups);
        prop_assert!(notes.is_empty(), "{:?}", notes);
        for group in groups.iter().filter(|group| group.members.len() > 1) {
            for &source in &group.members {
                let heard = send(&fabric, &tables, group.mlid, source);
                let others = group.members.iter().copied().filter(|&port| port != source);
                prop_assert_eq!(heard, Ok(others.collect::<Vec<_>>()));
            }
        }
        let used: BTreeSet<_> = groups.iter().filter(|g| g.members.len() > 1).map(|g| g.mlid).collect();
        let entries = tables.by_switch.iter().flatten().map(|(mlid, _)| *mlid);
        prop_assert_eq!(entries.collect::<BTreeSet<_>>(), used);
    }

    #[test]
    fn groups_of_an_mlid_share_their_tree(topology in wiring(), cut in 1usize..4) {
        let fabric = picture(&topology);
        let all = choose(&fabric, &[true]);
        let (one, notes) = tables(&fabric, &[with_sl(3, &all)]);
        let parts = tables(&fabric, &[with_sl(3, &all[cut..]), with_sl(9, &all[..cut + 1])]);
        prop_assert_eq!(&one.by_switch, &parts.0.by_switch);
        prop_assert_eq!(notes, parts.1);
        prop_assert_eq!(one.sls_of(Mlid(0xC003)), 1 << 3);
        prop_assert_eq!(parts.0.sls_of(Mlid(0xC003)), 1 << 3 | 1 << 9);
    }
}

fn with_cap(topology: &Topology, multicast_fdb_cap: u16) -> Fabric {
    let hardware = Hardware { multicast_fdb_cap, ..Hardware::default() };
    let view = SyntheticView { hardware, ..SyntheticView::default() };
    Fabric::from_topology(topology, 0, &view).expect("a first node")
}

#[test]
fn mlids_beyond_the_table_are_reported() {
    let text = "Switch 4 \"s\"\n[1] \"a\"[1]\n[2] \"b\"[1]\n\n\
                Hca 1 \"a\"\n[1] \"s\"[1]\n\nHca 1 \"b\"\n[1] \"s\"[2]\n";
    let topology = crate::fabric::ibnet::parse("net".as_ref(), text).expect("a fabric");
    let cases = [
        (0, 0xC000, 4, "does not support"),
        (4, 0xC004, 4, "4 multicast entries"),
        (4, 0x10, 1, "not a multicast LID"),
    ];
    for (cap, mlid, count, text) in cases {
        let fabric = with_cap(&topology, cap);
        let (tables, notes) = tables(&fabric, &[group(&fabric, mlid)]);
        assert_eq!(tables.by_switch, [Vec::new()]);
        assert_eq!(notes.len(), count, "{notes:?}");
        assert!(notes[0].text.contains(text), "{notes:?}");
    }
    let fabric = with_cap(&topology, 4);
    let (tables, notes) = tables(&fabric, &[group(&fabric, 0xC003)]);
    let ports: Vec<_> = mask(&tables, SwitchId(0), Mlid(0xC003)).iter().collect();
    assert_eq!((ports, notes), (vec![1, 2], Vec::new()));
}

fn group(fabric: &Fabric, mlid: u16) -> GroupMembers {
    group_of(mlid, fabric.end_ports().filter(|&port| !fabric.node_of(port).is_switch()).collect())
}
