use super::place::{PreviousTable, place};
use super::steps::next_step;
use super::*;
use crate::config::partitions::PartitionsConfig;
use crate::notes::Severity;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;

fn table(keys: &[u16]) -> Vec<PkeyBlock> {
    let blocks = keys.chunks(PKEY_BLOCK).map(|keys| {
        let mut block = PkeyBlock::default();
        block.0.iter_mut().zip(keys).for_each(|(slot, &key)| *slot = Pkey(key));
        block
    });
    blocks.collect()
}

fn wanted(keys: &[u16]) -> WantedKeys {
    WantedKeys { keys: keys.iter().copied().map(Pkey).collect(), index0: None }
}

/// A port of which only the table is known.
fn found(table: &[PkeyBlock]) -> PreviousTable<'_> {
    PreviousTable { table, removed: &[] }
}

#[test]
fn keys_keep_their_index() {
    let options = Options::default();
    let new_index = Options { keep_pkey_indexes: false, ..Options::default() };
    let both = Options { allow_both_pkeys: true, ..Options::default() };
    type Keys<'a> = &'a [u16];
    type Case<'a> = (&'a Options, Keys<'a>, Keys<'a>, Option<u16>, Keys<'a>, Keys<'a>);
    let cases: [Case<'_>; 12] = [
        // options, old, wanted, key for index 0 -> table, left out
        (&options, &[], &[0xFFFF], None, &[0xFFFF, 0, 0, 0], &[]),
        (&options, &[0, 0x7FFF], &[0xFFFF], None, &[0xFFFF, 0, 0, 0], &[]),
        (&options, &[0xFFFF, 1, 0x8002], &[2, 0xFFFF], None, &[0xFFFF, 0, 2, 0], &[]),
        (&options, &[0xFFFF, 1], &[3, 0xFFFF], None, &[0xFFFF, 0, 3, 0], &[]),
        (&options, &[0xFFFF, 0, 0, 7], &[1, 2, 3, 7], None, &[0, 1, 2, 7], &[3]),
        (&options, &[5, 0xFFFF], &[5, 0xFFFF], None, &[0xFFFF, 5, 0, 0], &[]),
        (&options, &[0xFFFF, 5], &[5, 0xFFFF], Some(5), &[5, 0xFFFF, 0, 0], &[]),
        (&options, &[5, 6, 0xFFFF], &[5, 6, 0xFFFF], Some(5), &[5, 6, 0xFFFF, 0], &[]),
        (&new_index, &[0xFFFF, 0, 5], &[5, 0xFFFF], None, &[0xFFFF, 5, 0, 0], &[]),
        (&both, &[0x7FFF, 5, 0x8005], &[5, 0x8005, 0xFFFF], None, &[0xFFFF, 5, 0x8005, 0], &[]),
        (&both, &[0xFFFF], &[0x7FFF, 0xFFFF], None, &[0xFFFF, 0x7FFF, 0, 0], &[]),
        (&both, &[], &[0x7FFF, 5], None, &[0x7FFF, 5, 0, 0], &[]),
    ];
    let mut lookup = KeyIndex::default();
    for (options, old, keys, index0, expected, left_out) in cases {
        let index0 = index0.map(|key| (1, Some(Pkey(key))));
        let wanted = WantedKeys { index0, ..wanted(keys) };
        let placed = place(&wanted, found(&table(old)), 4, options, &mut lookup);
        assert_eq!(raw(&placed.table), expected, "{old:x?} {keys:x?}");
        assert_eq!(raw(&placed.left_out), left_out);
    }
}

fn raw(keys: &[Pkey]) -> Vec<u16> {
    keys.iter().map(|key| key.0).collect::<Vec<_>>()
}

#[test]
fn a_limited_key_beside_the_full_one_needs_no_entry_on_the_switch() {
    let held: Vec<Pkey> = [0xFFFF, 1, 0x8001, 2].map(Pkey).to_vec();
    let needed = place::without_implied(&held, &mut KeyIndex::default());
    assert_eq!(needed, [0xFFFF, 0x8001, 2].map(Pkey));
}

fn resolve(text: &str, options: &Options, before: &[Partition]) -> (Vec<Partition>, Vec<Note>) {
    let (config, findings) = PartitionsConfig::parse(Path::new("partitions.conf"), text);
    let config = config.unwrap_or_else(|| panic!("{findings:?}"));
    partitions(&config, options, before)
}

fn keys_by_name(partitions: &[Partition]) -> BTreeMap<&str, u16> {
    partitions.iter().map(|part| (part.name.as_str(), part.pkey.0)).collect()
}

#[test]
fn generated_keys_differ_from_those_of_the_file() {
    let options = Options::default();
    let text = "A: ALL; B=2: ALL; C: ALL; : ALL; A: SELF=full; Default: ALL=full; X=2: SELF;";
    let (found, notes) = resolve(text, &options, &[]);
    let names = [("0004", 4), ("A", 1), ("B", 2), ("C", 3), ("Default", 0x7FFF)];
    assert_eq!(keys_by_name(&found), BTreeMap::from(names));
    assert_eq!(found[1].members.len(), 2, "the second part of A");
    assert_eq!(found[2].members.len(), 2, "what is said of X");
    assert_eq!(found[0].members.len(), 3, "all are limited members, SELF a full one");
    let texts: Vec<_> = notes.iter().map(|note| (note.severity, note.text.as_str())).collect();
    let called = "partition 0x0002 is called B; its second name, X in line 1, is not used";
    assert_eq!(texts, [(Severity::Info, called)]);
    // With another partition before them, they keep their keys.
    let (found, _) = resolve(&format!("New: ALL; {text}"), &options, &found);
    let names = [("0005", 5), ("A", 1), ("B", 2), ("C", 3), ("Default", 0x7FFF), ("New", 4)];
    assert_eq!(keys_by_name(&found), BTreeMap::from(names));
}

#[test]
fn without_a_definition_all_are_full_members() {
    let options = Options::default();
    let (found, notes) = resolve("# nothing\n", &options, &[]);
    assert_eq!((found.as_slice(), notes), (default(&options).as_slice(), Vec::new()));
    let group = found[0].groups[0];
    assert_eq!(group.mgid.to_string(), "ff12:401b:ffff::ffff:ffff");
    assert_eq!((group.q_key, group.packet_life, group.mtu, group.rate), (0xB1B, 18, 4, 3));
}

#[test]
fn groups_have_key_scope_and_inherited_flags() {
    let options = Options { qos: true, ..Options::default() };
    let text = "P=0x123,ipoib,sl=3,mtu=5,scope=2,scope=5,TClass=9: ALL,\n\
                mgid=ff12:601b::1,sl=1\n\
                mgid=ff15::7,scope=8,FlowLabel=0x12345,Q_Key=7\n\
                mgid=ff12:401b:ffff::ffff:ffff\n;\
                Q=0x124: mgid=ff12:401b::16\nALL;\
                Q: mgid=ff1e:a01b::9,scope=0xe\nmgid=ff12:a01b::9;";
    let (found, notes) = resolve(text, &options, &[]);
    let shown: Vec<_> = found
        .iter()
        .flat_map(|part| &part.groups)
        .map(|g| (g.mgid.to_string(), g.sl.0, g.mtu, g.q_key, g.tclass, g.flow_label, g.hop_limit))
        .collect();
    let row = |mgid: &str, sl, mtu, q_key, tclass, label, hops| {
        (mgid.to_owned(), sl, mtu, q_key, tclass, label, hops)
    };
    assert_eq!(
        shown,
        [
            row("ff12:401b:8123::ffff:ffff", 3, 5, 0xB1B, 9, 0, 0),
            row("ff15:401b:8123::ffff:ffff", 3, 5, 0xB1B, 9, 0, 255),
            row("ff12:601b:8123::1", 1, 5, 0xB1B, 0, 0, 0),
            row("ff15:601b:8123::1", 1, 5, 0xB1B, 0, 0, 255),
            row("ff12::7", 3, 5, 7, 0, 0x12345, 0),
            row("ff15::7", 3, 5, 7, 0, 0x12345, 255),
            row("ff18::7", 3, 5, 7, 0, 0x12345, 255),
            row("ff1e:a01b::9", 0, 4, 0, 0, 0, 255),
        ]
    );
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].text.contains("ff12:401b:8124::16 in line 5"), "{}", notes[0].text);
    assert!(notes[1].text.contains("a01b"), "{}", notes[1].text);
    let lenient = Options { ipoib_mcgroup_creation_validation: false, ..options.clone() };
    assert_eq!(resolve(text, &lenient, &[]).1, []);
    // Without QoS, all groups have one SL, except those with an SL of their own.
    let (found, _) = resolve(text, &Options::default(), &[]);
    assert_eq!((found[1].sl, found[1].groups[0].sl, found[1].groups[2].sl), (Sl(0), Sl(0), Sl(1)));
}

/// As in OpenSM, which reads the file repeatedly, a rejected group is retried after all others and
/// gets a later MLID.
#[test]
fn the_broadcast_group_may_be_defined_later() {
    let text = "P=1: mgid=ff12:601b::16,TClass=3\nmgid=ff12:401b::5,scope=2,scope=5,TClass=4\n;\
                Q=2: ALL, mgid=ff12:401b::16\n; P,ipoib: ALL, mgid=ff12::7\nmgid=ff12:601b::16;\
                Q: mgid=ff12:401b:ffff::ffff:ffff,scope=5; Q: mgid=ff12:401b::16,scope=5;";
    let (found, notes) = resolve(text, &Options::default(), &[]);
    let mut groups: Vec<_> = found.iter().flat_map(|part| &part.groups).collect();
    groups.sort_by_key(|group| group.order);
    let shown: Vec<_> =
        groups.iter().map(|group| (group.order, group.mgid.to_string(), group.tclass)).collect();
    let rows = [
        (0, "ff12:401b:8001::ffff:ffff", 0),
        (1, "ff12::7", 0),
        (2, "ff12:601b:8001::16", 0),
        (3, "ff15:401b:8002::ffff:ffff", 0),
        (4, "ff15:401b:8002::16", 0),
        (5, "ff12:401b:8001::5", 4),
    ];
    assert_eq!(shown, rows.map(|(order, mgid, tclass)| (order, mgid.to_owned(), tclass)));
    let left_out: Vec<_> = notes.iter().map(|note| &note.text[..39]).collect();
    let expected =
        ["group ff15:401b:8001::5 in line 2 of pa", "group ff12:401b:8002::16 in line 3 of p"];
    assert_eq!(left_out, expected);
}

#[test]
fn the_last_definition_with_an_sl_applies() {
    let options = Options { qos: true, ..Options::default() };
    let (found, _) = resolve("P=1,sl=3: ALL; P=1: SELF; Q=2: ALL; Q=2,sl=1: ;", &options, &[]);
    assert_eq!((found[1].sl, found[2].sl), (Sl(3), Sl(1)));
    let (found, _) = resolve("P=1: ; Q=2: NONE;", &options, &[]);
    assert_eq!(keys_by_name(&found).len(), 1, "nobody is in the others");
}

#[test]
fn a_single_block_is_written_at_once() {
    let old = table(&[0xFFFF, 1, 2]);
    let new: Vec<_> = (0..).zip(table(&[0xFFFF, 2, 1])).collect();
    assert_eq!(next_step(&old, &new, 96), new);
    let same: Vec<_> = (0..).zip(old.clone()).collect();
    assert_eq!(next_step(&old, &same, 96), []);
    assert_eq!(next_step(&[], &new, 96), new, "nothing was read");
}

/// The successive states of a table, with the blocks of each step written in the given order.
fn walk(
    mut held: Vec<PkeyBlock>,
    wanted: &[(u16, PkeyBlock)],
    backwards: bool,
    mut look: impl FnMut(&[PkeyBlock]),
) -> (Vec<PkeyBlock>, usize) {
    for steps in 0.. {
        let mut step = next_step(&held, wanted, 200);
        if step.is_empty() || steps > steps::MAX_ROUNDS {
            return (held, steps);
        }
        if backwards {
            step.reverse();
        }
        for (number, block) in step {
            let index = usize::from(number);
            held.resize(held.len().max(index + 1), PkeyBlock::default());
            held[index] = block;
            look(&held);
        }
    }
    unreachable!("a step too many ends the walk")
}

/// Without `keep_pkey_indexes`, keys are compacted block by block from the front.
#[test]
fn compaction_loses_no_key() {
    let keys: Vec<u16> = (1..=100).collect();
    let wanted: Vec<_> = (0..).zip(table(&[&keys[1..], &[0]].concat())).collect();
    for backwards in [false, true] {
        let (end, steps) = walk(table(&keys), &wanted, backwards, |held| {
            assert!(keys[1..].iter().all(|&key| has(held, key)));
        });
        assert_eq!((end, steps), (wanted.iter().map(|(_, block)| *block).collect(), 4));
    }
}

fn has(held: &[PkeyBlock], key: u16) -> bool {
    held.iter().flat_map(|block| block.0).any(|other| other.0 == key)
}

#[test]
fn moving_the_default_key_loses_no_key() {
    let mut keys: Vec<u16> = (1..=60).collect();
    keys[40] = 0xFFFF;
    let old = table(&keys);
    let options = Options::default();
    let placed = place(&wanted(&keys), found(&old), 64, &options, &mut KeyIndex::default());
    assert!(placed.left_out.is_empty());
    let raw: Vec<u16> = placed.table.iter().map(|key| key.0).collect();
    assert_eq!((raw[0], raw[40], raw[60]), (0xFFFF, 0, 1));
    let wanted: Vec<_> = (0..).zip(table(&raw)).collect();
    let (end, steps) = walk(old, &wanted, false, |held| {
        assert!(keys.iter().all(|&key| has(held, key)));
    });
    assert_eq!((end, steps), (table(&raw), 3));
}

/// The key that leaves index 0 gets the index of the key that moves there.
#[test]
fn keys_exchange_indexes_via_a_free_index() {
    let mut old: Vec<u16> = (1..=42).map(|key| 0x8000 + key).collect();
    old[40] = 0xFFFF;
    let wanted: Vec<_> = {
        old.swap(0, 40);
        let wanted = (0..).zip(table(&old)).collect();
        old.swap(0, 40);
        wanted
    };
    for backwards in [false, true] {
        let (end, steps) = walk(table(&old), &wanted, backwards, |held| {
            assert!(old.iter().all(|&key| has(held, key)));
        });
        assert_eq!((end, steps), (wanted.iter().map(|(_, block)| *block).collect(), 3));
    }
}

fn a_table(entries: usize) -> impl Strategy<Value = Vec<u16>> {
    let key = prop_oneof![3 => Just(0_u16), 5 => 1..=90_u16, 2 => 0x8001..=0x805A_u16];
    prop::collection::vec(key, entries)
}

/// The partition numbers of a table, without repetition.
fn partitions_of(keys: &[u16]) -> Vec<u16> {
    let mut bases: Vec<u16> =
        keys.iter().map(|key| key & 0x7FFF).filter(|&base| base > 0).collect();
    bases.sort_unstable();
    bases.dedup();
    bases
}

proptest! {
    #[test]
    fn no_key_is_lost_between_steps(
        old in a_table(96),
        asked in a_table(70),
        default_at in prop::option::of(0..96_usize),
        keep: bool,
        backwards: bool,
    ) {
        let mut old = old;
        if let Some(index) = default_at {
            old[index] = 0xFFFF;
        }
        let mut seen = Vec::new();
        let mut keys = asked;
        keys.retain(|key| key & 0x7FFF != 0 && !seen.contains(&(key & 0x7FFF)) && {
            seen.push(key & 0x7FFF);
            true
        });
        keys.push(0xFFFF);
        let options = Options { keep_pkey_indexes: keep, ..Options::default() };
        // Capacity for the keys of both tables.
        let observed = table(&old);
        let placed =
            place(&wanted(&keys), found(&observed), 200, &options, &mut KeyIndex::default());
        prop_assert!(placed.left_out.is_empty());
        let raw: Vec<u16> = placed.table.iter().map(|key| key.0).collect();
        let blocks = super::blocks(&placed.table, observed.len());
        let kept: Vec<u16> =
            partitions_of(&old).into_iter().filter(|base| seen.contains(base)).collect();
        let mut lost = None;
        let (end, steps) = walk(observed, &blocks, backwards, |held| {
            let now: Vec<u16> = held.iter().flat_map(|block| block.0).map(|key| key.0).collect();
            let now = partitions_of(&now);
            lost = lost.or(kept.iter().copied().find(|base| !now.contains(base)));
        });
        if keep {
            prop_assert_eq!(lost, None);
            prop_assert!(steps <= 6, "{} steps", steps);
        }
        let end: Vec<u16> = end.iter().flat_map(|block| block.0).map(|key| key.0).collect();
        prop_assert_eq!(&end[..], &raw[..end.len()]);
        prop_assert!(raw[end.len()..].iter().all(|&key| key == 0));
    }

    #[test]
    fn placing_again_changes_nothing(old in a_table(64), keys in a_table(20)) {
        let mut keys = partitions_of(&keys);
        keys.push(0x7FFF);
        let options = Options::default();
        let mut lookup = KeyIndex::default();
        let first = place(&wanted(&keys), found(&table(&old)), 128, &options, &mut lookup);
        let blocks: Vec<PkeyBlock> =
            super::blocks(&first.table, 4).into_iter().map(|(_, block)| block).collect();
        let before = PreviousTable { table: &blocks, removed: &first.removed };
        let again = place(&wanted(&keys), before, 128, &options, &mut lookup);
        prop_assert_eq!(&again, &first);
        let mut placed: Vec<u16> = first.table.iter().map(|key| key.0).filter(|&k| k > 0).collect();
        placed.sort_unstable();
        prop_assert_eq!(placed, keys);
    }

    /// Over several plans, keys keep their index, returning keys get their former index if it is
    /// free, and new keys reuse a former index only if no other is free.
    #[test]
    fn returning_keys_get_their_former_index(
        cap in 3..40_usize,
        changes in prop::collection::vec(prop::collection::vec((1..30_u16, any::<bool>()), 0..24), 1..12),
        both: bool,
    ) {
        let options = Options { allow_both_pkeys: both, ..Options::default() };
        let name = |key: Pkey| if both { key.0 } else { key.base() };
        let mut held = Vec::new();
        let mut gone = Vec::new();
        let mut lookup = KeyIndex::default();
        // The last key of each index, and the last index of each key.
        let mut owners = BTreeMap::new();
        let mut homes = BTreeMap::new();
        for asked in changes {
            let mut keys = vec![Pkey::DEFAULT_FULL];
            for (base, full) in asked {
                let key = Pkey(base | if full { 0x8000 } else { 0 });
                if keys.iter().all(|other| name(*other) != name(key)) {
                    keys.push(key);
                }
            }
            let wanted = WantedKeys { keys: keys.clone(), index0: None };
            let old: Vec<Pkey> = held.iter().flat_map(|block: &PkeyBlock| block.0).collect();
            let before = PreviousTable { table: &held, removed: &gone };
            let placed = place(&wanted, before, cap, &options, &mut lookup);
            prop_assert_eq!(placed.left_out.len(), keys.len().saturating_sub(cap));
            let highest = owners.keys().last().copied().unwrap_or(0);
            for (index, &key) in placed.table.iter().enumerate().filter(|(_, key)| key.0 != 0) {
                let stood = old.iter().position(|other| name(*other) == name(key) && other.0 != 0);
                match (stood, homes.get(&key)) {
                    (Some(stood), _) => prop_assert_eq!(stood, index, "it stays"),
                    (None, Some(&home)) => prop_assert_eq!(home, index, "it comes back"),
                    (None, None) if owners.contains_key(&index) => {
                        let taken = placed.table[(highest + 1).min(cap)..].iter();
                        prop_assert!(taken.clone().all(|key| key.0 != 0), "a gap too early");
                    }
                    (None, None) => {}
                }
                owners.insert(index, name(key));
                // A key whose index was reused does not return to it.
                homes.retain(|other, at| *at != index || name(*other) == name(key));
                homes.insert(key, index);
            }
            let mut full = placed.table.clone();
            full.resize(64, Pkey(0));
            held = full.chunks(PKEY_BLOCK).map(|keys| PkeyBlock(keys.try_into().unwrap())).collect();
            gone = placed.removed;
            prop_assert!(gone.len() <= 2 * cap);
        }
    }
}
