use super::*;
use crate::fabric::NodeParts;
use crate::ids::PortNum;
use crate::wire::attr::{NodeDescription, NodeInfo, SwitchInfo};
use crate::wire::smp::DirectedRoute;
use proptest::prelude::*;

/// A fabric of one channel adapter with port GUIDs 1, 2 and 3.
fn fabric() -> Arc<Fabric> {
    let mut info = NodeInfo::default();
    info.set_num_ports(3);
    let host = NodeParts {
        info,
        description: NodeDescription::default(),
        switch_info: SwitchInfo::default(),
        route: DirectedRoute::LOCAL,
        ports: (0..4).map(|n| (Guid(n), None)).collect(),
    };
    let local = (info.node_guid(), PortNum(1));
    Arc::new(Fabric::assemble(vec![host], &[], local, Vec::new()).expect("the node is there"))
}

fn edit(port: u64, block: u8, entries: &[(usize, u64)]) -> AliasEdit {
    let mut guids = [Guid::default(); GUID_BLOCK];
    let mut selected = 0;
    for &(index, guid) in entries {
        guids[index] = Guid(guid);
        selected |= 1 << index;
    }
    AliasEdit {
        port: Guid(port),
        lid: Lid(9),
        block,
        selected,
        guids,
        assigned_guid_byte: 0x5A,
        fabric: fabric(),
        privileged: false,
    }
}

fn block(guids: &[u64]) -> [Guid; GUID_BLOCK] {
    let mut block = [Guid::default(); GUID_BLOCK];
    block.iter_mut().zip(guids).for_each(|(slot, &guid)| *slot = Guid(guid));
    block
}

#[test]
fn the_guid_of_an_absent_port_is_no_alias() {
    let mut aliases = Aliases { known_ports: HashSet::from([Guid(77)]), ..Aliases::default() };
    aliases.add_known_ports(&fabric());
    assert!(aliases.known_ports.contains(&Guid(3)));
    let wanted = edit(1, 0, &[(1, 77), (2, 78)]);
    assert_eq!(aliases.set(&wanted), Ok(block(&[1, 0, 78])));
    aliases.clear_all();
    assert_eq!(aliases.set(&wanted), Ok(block(&[1, 0, 78])), "known all the same");
    let wanted = AliasEdit { privileged: true, ..wanted };
    assert_eq!(aliases.set(&wanted), Ok(block(&[1, 77, 78])));
}

#[test]
fn an_alias_belongs_to_one_port() {
    let mut aliases = Aliases::default();
    assert_eq!(aliases.set(&edit(1, 0, &[(1, 11), (2, 12)])), Ok(block(&[1, 11, 12])));
    let taken = edit(2, 0, &[(1, 11), (2, 22), (3, 22), (4, 3)]);
    assert_eq!(aliases.set(&taken), Ok(block(&[2, 0, 22])), "others', its own, and a port's");
    let ports = [0, 1, 11, 12, 22, 33].map(|guid| aliases.port(Guid(guid)).map(|port| port.0));
    assert_eq!(ports, [None, None, Some(1), Some(1), Some(2), None]);
    assert_eq!(aliases.set(&edit(1, 0, &[(1, 13), (3, 11)])), Ok(block(&[1, 13, 12, 11])));
    assert_eq!(aliases.set(&edit(1, 0, &[(2, 11)])), Ok(block(&[1, 13, 12, 11])), "no moves");
    assert_eq!(aliases.of_port(Guid(1)).collect::<Vec<_>>(), [13, 12, 11].map(Guid));
    assert_eq!(aliases.block(Guid(1), 0), block(&[1, 13, 12, 11]));
    assert_eq!(aliases.block(Guid(1), 1), block(&[]));
}

#[test]
fn the_number_of_aliases_of_all_ports_is_limited() {
    let others = (1000..).take(MAX_ALIASES - 1).map(|alias| (Guid(alias), Guid(2)));
    let mut aliases = Aliases { ports: others.collect(), ..Aliases::default() };
    let no_resources = Err(ErrorStatus(SaStatus::NO_RESOURCES));
    assert_eq!(aliases.set(&edit(1, 0, &[(1, 11), (2, 12)])), no_resources);
    assert_eq!(aliases.block(Guid(1), 0), block(&[1, 11]), "the first one fits");
    assert_eq!(aliases.set(&edit(3, 0, &[(1, 31)])), no_resources);
    assert_eq!(aliases.set(&edit(1, 0, &[(1, 13)])), Ok(block(&[1, 13])), "in place of another");
    aliases.clear(&edit(1, 0, &[(1, 0)]));
    assert_eq!(aliases.set(&edit(3, 0, &[(1, 31)])), Ok(block(&[3, 31])));
    let entries = (0..).take(MAX_ALIASES).map(|port| ((Guid(port), 0), Guid(port)));
    let mut aliases = Aliases { assigned: entries.collect(), ..Aliases::default() };
    assert_eq!(aliases.set(&edit(1, 1, &[(0, 0)])), no_resources);
    assert_eq!(aliases.set(&edit(1, 0, &[(0, 0)])), Ok(block(&[1])));
}

#[test]
fn assigned_guids_are_reused_for_the_same_entry() {
    let mut aliases = Aliases::default();
    assert_eq!(aliases.set(&edit(1, 1, &[(0, made_up(1))])), Ok(block(&[made_up(1)])));
    let chosen = aliases.set(&edit(2, 1, &[(0, 0), (7, 0)]));
    let whole = [made_up(2), 0, 0, 0, 0, 0, 0, made_up(3)];
    assert_eq!(chosen, Ok(block(&whole)), "number 1 is taken");
    assert_eq!(aliases.set(&edit(2, 1, &[(0, 0)])), Ok(block(&whole)), "it has one");
    let rest = [0, 0, 0, 0, 0, 0, 0, made_up(3)];
    assert_eq!(aliases.clear(&edit(2, 1, &[(0, 0)])), block(&rest));
    assert_eq!(aliases.port(Guid(made_up(2))), None);
    assert_eq!(aliases.set(&edit(2, 1, &[(0, 0)])), Ok(block(&whole)), "the same again");
    aliases.remove_ports(&BTreeSet::from([Guid(2)]));
    assert_eq!(aliases.block(Guid(2), 1), block(&[]));
    assert_eq!(aliases.set(&edit(2, 1, &[(0, 0)])), Ok(block(&[made_up(2)])), "also then");
    aliases.last_assigned = u32::MAX;
    assert_eq!(aliases.set(&edit(3, 1, &[(0, 0)])), Err(ErrorStatus(SaStatus::NO_RESOURCES)));
    aliases.clear_all();
    assert_eq!((aliases.iter().count(), aliases.port(Guid(made_up(1)))), (0, None));
}

fn made_up(n: u64) -> u64 {
    0x14_055A_0000_0000 + n
}

#[test]
fn restored_aliases_of_other_ports_are_omitted() {
    let mut aliases = Aliases::default();
    aliases.restore(Guid(1), 0, Lid(1), block(&[7, 11, 12]));
    aliases.restore(Guid(2), 0, Lid(2), block(&[2, 11, 22]));
    assert_eq!(aliases.block(Guid(1), 0), block(&[1, 11, 12]));
    assert_eq!(aliases.block(Guid(2), 0), block(&[2, 0, 22]));
    aliases.restore(Guid(1), 0, Lid(1), block(&[1, 0, 12, 33]));
    let ports = [11, 12, 22, 33].map(|guid| aliases.port(Guid(guid)).map(|port| port.0));
    assert_eq!(ports, [None, Some(1), Some(2), Some(1)]);
    let wanted = aliases.planned_blocks(&fabric());
    assert_eq!(wanted.len(), 2);
    assert_eq!(wanted[0].guids, GuidBlock(block(&[1, 0, 12, 33])));
}

#[test]
fn only_changes_are_counted() {
    let mut aliases = Aliases::default();
    let mut last = 0;
    let mut changed = |aliases: &Aliases| std::mem::replace(&mut last, aliases.changes()) != last;
    aliases.set(&edit(1, 0, &[(1, 11)])).expect("a free one");
    assert!(changed(&aliases));
    aliases.set(&edit(1, 0, &[(1, 11), (2, 3)])).expect("the same, and a port's");
    assert!(!changed(&aliases));
    aliases.clear(&edit(1, 0, &[(2, 0)]));
    aliases.clear(&edit(2, 0, &[(2, 0)]));
    assert!(!changed(&aliases));
    aliases.clear(&edit(1, 0, &[(1, 0)]));
    assert!(changed(&aliases));
    aliases.remove_ports(&BTreeSet::from([Guid(2)]));
    assert!(!changed(&aliases));
    aliases.remove_ports(&BTreeSet::from([Guid(1)]));
    assert!(changed(&aliases));
}

proptest! {
    /// After any requests, a GUID has one entry, entry 0 of block 0 is the port's own GUID, and the
    /// index of ports agrees with the blocks.
    #[test]
    fn blocks_and_their_index_agree(
        steps in prop::collection::vec(
            (1u64..4, 0u8..3, 0u8..3, any::<u8>(), prop::array::uniform8(0u64..12)),
            1..40,
        ),
    ) {
        let mut aliases = Aliases::default();
        for (port, number, what, selected, guids) in steps {
            let mut edit = edit(port, number, &[]);
            edit.selected = if number == 0 { selected & !1 } else { selected };
            edit.guids = guids.map(Guid);
            match what {
                0 => drop(aliases.clear(&edit)),
                1 => aliases.restore(edit.port, number, edit.lid, edit.guids),
                _ => drop(aliases.set(&edit)),
            }
            let mut found = BTreeMap::new();
            for (owner, number, _, guids) in aliases.iter() {
                if number == 0 {
                    prop_assert_eq!(guids[0], owner);
                }
                let skipped = usize::from(number == 0);
                for &alias in guids.iter().skip(skipped).filter(|guid| guid.0 != 0) {
                    prop_assert_eq!(found.insert(alias, owner), None);
                }
            }
            prop_assert_eq!(&found, &aliases.ports);
        }
    }
}
