//! Partitions and quality of service against OpenSM: the same generated files, right and wrong, on
//! the same fabrics. The test compares the P_Key, SL to VL and VL arbitration tables of the
//! devices, the multicast groups, and the answers to generated queries, by GUID. Every intended
//! difference has its name and reason in `differences`; any other one fails the test.
//! TORUS_POLICY_CASES is the number of fabrics, TORUS_POLICY_SEED the first seed, and
//! TORUS_POLICY_KEEP a folder for the files and logs of cases that differ. Prints SKIPPED where
//! opensm is not installed.

mod comparator;
mod differences;
mod files;
mod groups;
mod indexes;
mod memory;
mod messages;
mod partition_facts;
pub(crate) mod questions;
pub(crate) mod random_case;
pub(crate) mod site;

use comparator::Comparator;
use differences::BY_DESIGN;
use indexes::Sequence;
use memory::Memory;
use questions::Question;
use random_case::Case;
use site::{Answer, Maker, Site, TableKey};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use testkit::{in_parallel, setting};
use torus_sm::ids::{Guid, Pkey};
use torus_sm::wire::attr::NodeKind;
use torus_sm::wire::record::{McMemberRecord, PathRecord, Record};

/// Number of queries per fabric: single paths, several paths at once, and joins.
const PATHS: usize = 400;
const MULTI_PATHS: usize = 60;
const JOINS: usize = 40;

/// Seeds of cases that the first ones lack.
const CHOSEN: [u64; 14] = [27, 44, 52, 69, 72, 86, 92, 112, 129, 145, 214, 235, 362, 381];

/// Groups with flow labels, which are rare among generated ones.
fn labelled() -> Case {
    let text = "Default=0x7fff,ipoib,FlowLabel=0x12345 :\n mgid=ff15:1::abcd,scope=5\n ALL=full;\n";
    Case { partitions: Some(text.to_owned()), policy: None, ..Case::new(213) }
}

/// The result of a case.
#[derive(Default)]
struct Outcome {
    up: bool,
    tables: usize,
    answers: usize,
    records: usize,
    differences: Vec<String>,
    /// Intended differences, and the number of their occurrences.
    by_design: BTreeMap<&'static str, usize>,
}

#[test]
fn tables_groups_and_paths_equal_opensm() {
    if testkit::tool("opensm").is_none() {
        return;
    }
    let is_usual = ["TORUS_POLICY_CASES", "TORUS_POLICY_SEED"]
        .iter()
        .all(|name| std::env::var_os(name).is_none());
    let count = setting("TORUS_POLICY_CASES", 24);
    let first = setting("TORUS_POLICY_SEED", 1) as u64;
    let more = CHOSEN.into_iter().filter(|_| is_usual);
    let seeds: Vec<u64> = (first..first + count as u64).chain(more).collect();
    let mut cases: Vec<Case> = seeds.into_iter().map(Case::new).collect();
    cases.extend(is_usual.then(labelled));
    testkit::simulator::library();
    let outcomes = in_parallel(cases.len(), |index| compare(&cases[index]));
    let sum = |what: fn(&Outcome) -> usize| outcomes.iter().map(what).sum::<usize>();
    println!(
        "{} fabrics, {} of them up; {} tables, {} answers with {} records",
        cases.len(),
        sum(|outcome| usize::from(outcome.up)),
        sum(|outcome| outcome.tables),
        sum(|outcome| outcome.answers),
        sum(|outcome| outcome.records),
    );
    let differing: Vec<String> = outcomes
        .iter()
        .zip(&cases)
        .filter(|(outcome, _)| !outcome.differences.is_empty())
        .map(|(outcome, case)| format!("seed {}:\n{}", case.seed, outcome.differences.join("\n")))
        .collect();
    let mut by_design: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, times) in outcomes.iter().flat_map(|outcome| &outcome.by_design) {
        *by_design.entry(name).or_default() += times;
    }
    println!("by design: {by_design:#?}");
    assert!(differing.is_empty(), "{} differ\n{}", differing.len(), differing.join("\n"));
    for (name, reason) in BY_DESIGN.into_iter().filter(|_| is_usual) {
        assert!(by_design.contains_key(name), "{name} is no difference any more ({reason})");
    }
}

/// The P_Key tables of end ports through sequences of partitions.conf: equal to OpenSM's index for
/// index, and keys that stay keep their index.
#[test]
fn pkeys_keep_their_indexes_as_with_opensm() {
    if testkit::tool("opensm").is_none() {
        return;
    }
    let is_usual = ["TORUS_INDEX_CASES", "TORUS_POLICY_SEED"]
        .iter()
        .all(|name| std::env::var_os(name).is_none());
    let count = setting("TORUS_INDEX_CASES", 6) as u64;
    let first = setting("TORUS_POLICY_SEED", 1) as u64;
    let more = indexes::CHOSEN.into_iter().filter(|_| is_usual);
    let seeds: Vec<u64> = (first..first + count).chain(more).collect();
    testkit::simulator::library();
    let results = in_parallel(seeds.len(), |index| compare_reloads(seeds[index], 10));
    let tables: usize = results.iter().map(|result| result.tables).sum();
    println!("{} sequences, {tables} tables", seeds.len());
    for reason in memory::BY_DESIGN {
        let times = results.iter().filter(|result| result.by_design.contains(reason)).count();
        println!("by design in {times}: {reason}");
        assert!(times > 0 || !is_usual, "no difference any more: {reason}");
    }
    let differing: Vec<String> =
        results.into_iter().flat_map(|result| result.differences).collect();
    assert!(differing.is_empty(), "{} differ\n{}", differing.len(), differing.join("\n"));
}

/// The result of a sequence.
#[derive(Default)]
struct ReloadOutcome {
    tables: usize,
    differences: Vec<String>,
    /// Reasons of [`memory::BY_DESIGN`] for which it ended early.
    by_design: BTreeSet<&'static str>,
}

/// Compares the tables after each file of a sequence.
fn compare_reloads(seed: u64, steps: usize) -> ReloadOutcome {
    let sequence = Sequence::new(seed, steps);
    let case = &sequence.case;
    let [ours, theirs] = [Maker::TorusSm, Maker::OpenSm].map(|maker| {
        Site::start(maker, case).unwrap_or_else(|error| panic!("{maker:?}, seed {seed}: {error}"))
    });
    let switches: Vec<_> = case.topology.nodes.iter().map(|node| (node.guid, node.kind)).collect();
    let tables = |site: &Site| -> BTreeMap<TableKey, Vec<u8>> {
        let mut tables = site.tables(&case.topology);
        tables.retain(|(guid, port, name, _), _| {
            let is_switch = switches.contains(&(*guid, NodeKind::Switch));
            *name == "P_Key table" && (*port == 0 || !is_switch)
        });
        tables
    };
    let mut outcome = ReloadOutcome::default();
    let mut before = BTreeMap::new();
    let mut memories: BTreeMap<(Guid, u8), Memory> = BTreeMap::new();
    for step in 0..steps {
        if let Some(file) = step.checked_sub(1).map(|step| &sequence.later[step]) {
            [&ours, &theirs].into_iter().for_each(|site| site.reload(file));
        }
        let our = tables(&ours);
        let their = tables(&theirs);
        outcome.tables += our.len();
        let place = format!("seed {seed}, file {step}");
        let theirs_by_port = indexes::by_port(&their);
        for (port, table) in indexes::by_port(&our) {
            let other = &theirs_by_port[&port];
            let memory = memories.entry(port).or_default();
            let reasons = memory.reasons(&table, other);
            if table != *other && reasons.is_empty() {
                let both = indexes::both(&table, other);
                outcome.differences.push(format!("{place}, {port:x?}: {both}"));
            }
            outcome.by_design.extend(reasons);
            if sequence.keeps() {
                memory.note(other);
            }
        }
        if sequence.keeps() {
            outcome.differences.extend(moved(&before, &our).map(|text| format!("{place}, {text}")));
        }
        before = our;
        if !outcome.differences.is_empty() {
            keep(seed, &[("torus-sm", &ours), ("opensm", &theirs)]);
        }
        if !outcome.by_design.is_empty() || !outcome.differences.is_empty() {
            break;
        }
    }
    outcome
}

/// Keys that stayed in a block of a table but changed their index, which is not 0.
fn moved<'a>(
    before: &'a BTreeMap<TableKey, Vec<u8>>,
    after: &'a BTreeMap<TableKey, Vec<u8>>,
) -> impl Iterator<Item = String> + 'a {
    let place =
        |table: &[u8], key: [u8; 2]| table.as_chunks().0.iter().position(|other| *other == key);
    before.iter().flat_map(move |(at, old)| {
        let keys = old.as_chunks().0.iter().copied().filter(|key| *key != [0; 2]);
        keys.filter_map(move |key| {
            let [from, to] = [old, &after[at]].map(|table| place(table, key));
            let is_first = at.3 == 0 && (from == Some(0) || to == Some(0));
            (from != to && to.is_some() && !is_first)
                .then(|| format!("{at:x?}: {key:x?} moved from {from:?} to {to:?}"))
        })
    })
}

fn compare(case: &Case) -> Outcome {
    let mut outcome = Outcome::default();
    let [ours, theirs] = [Maker::TorusSm, Maker::OpenSm].map(|maker| Site::start(maker, case));
    let (ours, theirs) = match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => (ours, theirs),
        (Err(_), Err(_)) => return outcome,
        (Err(error), Ok(theirs)) => {
            if error.contains("does not start with an invalid partitions.conf") {
                outcome.by_design("wrong partitions.conf");
            } else {
                outcome.differences.push(format!("only OpenSM manages the fabric: {error}"));
                keep(case.seed, &[("opensm", &theirs)]);
            }
            return outcome;
        }
        (Ok(ours), Err(error)) => {
            outcome.differences.push(format!("OpenSM does not manage the fabric: {error}"));
            keep(case.seed, &[("torus-sm", &ours)]);
            return outcome;
        }
    };
    outcome.up = true;
    let keys = compare_tables(case, &mut outcome, &ours, &theirs);
    if !outcome.differences.is_empty() && partition_facts::share_a_name(case) {
        outcome.differences.clear();
        outcome.by_design(differences::SHARED_NAME);
        return outcome;
    }
    match differences::policies(&ours, &theirs) {
        Ok(None) => compare_answers(case, &mut outcome, [&ours, &theirs], keys),
        Ok(Some(name)) => outcome.by_design(name),
        Err(text) => outcome.differences.push(text),
    }
    if !outcome.differences.is_empty() {
        keep(case.seed, &[("torus-sm", &ours), ("opensm", &theirs)]);
    }
    outcome
}

/// Compares the tables; returns the P_Keys of the port that sends queries.
fn compare_tables(case: &Case, outcome: &mut Outcome, ours: &Site, theirs: &Site) -> Vec<Pkey> {
    let ours = ours.tables(&case.topology);
    let theirs = theirs.tables(&case.topology);
    outcome.tables = ours.len();
    for (key, table) in &ours {
        let other = &theirs[key];
        if table == other {
            continue;
        }
        if let Some(name) = differences::tables(case, key, table, other) {
            outcome.by_design(name);
        } else {
            outcome.differences.push(format!("{key:x?}: ours {table:x?}, theirs {other:x?}"));
        }
    }
    let client = case.topology.nodes.iter().find(|node| node.description == case.client);
    let client = client.expect("the client is a node").guid;
    let is_its = |key: &TableKey| (key.0, key.2) == (client, "P_Key table");
    let tables = theirs.iter().filter(|(key, _)| is_its(key)).map(|(_, table)| table);
    let keys = tables.flat_map(|table| table.as_chunks().0.to_vec()).map(u16::from_be_bytes);
    keys.filter(|&key| key != 0).map(Pkey).collect()
}

fn compare_answers(case: &Case, outcome: &mut Outcome, sites: [&Site; 2], keys: Vec<Pkey>) {
    let mut comparator = Comparator::new(case, sites, keys);
    let compare_groups = |when: &str, comparator: &Comparator<'_>, outcome: &mut Outcome| {
        let [ours, theirs] = sites.map(Site::groups);
        for (ours, theirs) in ours.iter().zip(&theirs) {
            let name = comparator.members(ours, theirs);
            outcome.note(|| format!("groups {when}"), ours, theirs, name);
        }
    };
    compare_groups("of the files", &comparator, outcome);
    let [[_, ours], [_, theirs]] = sites.map(Site::groups);
    let to_groups = questions::to_groups(groups::of_both([&ours, &theirs]));
    let paths = questions::paths(case, PATHS);
    let joins = questions::joins(case, JOINS);
    let several = questions::multi_paths(case, MULTI_PATHS);
    for (questions, window) in [(&to_groups, 16), (&paths, 64), (&several, 16), (&joins, 1)] {
        let [our, their] = sites.map(|site| site.ask(questions, window));
        for ((question, our), their) in questions.iter().zip(&our).zip(&their) {
            let name = comparator.between(question, our, their);
            outcome.note(|| describe(question), our, their, name);
        }
    }
    compare_groups("after the joins", &comparator, outcome);
}

impl Outcome {
    fn by_design(&mut self, name: &'static str) {
        *self.by_design.entry(name).or_default() += 1;
    }

    /// Records two answers; `name` is the intended difference between them, if any.
    fn note(
        &mut self,
        what: impl Fn() -> String,
        ours: &Answer,
        theirs: &Answer,
        name: Option<&'static str>,
    ) {
        self.answers += 1;
        self.records += theirs.records.len();
        match name {
            _ if ours == theirs => {}
            Some(name) => self.by_design(name),
            None => {
                let what = what();
                let is_group = what.starts_with("groups") || what.starts_with("join");
                let our = only(is_group, ours, theirs);
                let their = only(is_group, theirs, ours);
                self.differences.push(format!("{what}\n    ours   {our}\n    theirs {their}"));
            }
        }
    }
}

/// A short form of an answer, with the records that the other one does not have.
fn only(is_group: bool, answer: &Answer, other: &Answer) -> String {
    let only = answer.records.iter().filter(|record| !other.records.contains(record));
    let shown: Vec<String> = only.take(3).map(|bytes| show(is_group, bytes)).collect();
    format!("{:#06x}, {} records; {}", answer.status, answer.records.len(), shown.join(" "))
}

/// Copies the files that the subnet managers read and wrote into the folder of TORUS_POLICY_KEEP.
fn keep(seed: u64, sites: &[(&str, &Site)]) {
    let Some(folder) = std::env::var_os("TORUS_POLICY_KEEP").map(PathBuf::from) else { return };
    for (name, site) in sites {
        let folder = folder.join(seed.to_string()).join(name);
        fs::create_dir_all(&folder).expect("a folder");
        for entry in fs::read_dir(site.folder()).expect("a folder").flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_file()) {
                fs::copy(entry.path(), folder.join(entry.file_name())).expect("a copy");
            }
        }
    }
}

fn describe(question: &Question) -> String {
    match question {
        Question::Path { method, mask, wanted } => {
            format!("path {method:?} {} {}", names(*mask), show(false, wanted.bytes()))
        }
        Question::Multi { mask, wanted, gids } => {
            format!("paths {} {gids:?} {wanted:?}", names(*mask))
        }
        Question::Join { mask, wanted } => {
            format!("join {} {}", names(*mask), show(true, wanted.bytes()))
        }
    }
}

/// The components of a mask by their bits.
fn names(mask: u64) -> String {
    (0..64).filter(|bit| mask >> bit & 1 == 1).map(|bit| format!("{bit},")).collect()
}

/// A short form of a record, without zeros.
fn show(is_group: bool, bytes: &[u8]) -> String {
    let (ends, fields) = if is_group {
        let record = McMemberRecord::parse(bytes);
        (format!("{} {}", record.mgid(), record.port_gid()), format!("{record:?}"))
    } else {
        let record = PathRecord::parse(bytes);
        (format!("{} -> {}", record.sgid(), record.dgid()), format!("{record:?}"))
    };
    let fields = fields.split(['{', '}']).nth(1).unwrap_or_default().split(", ");
    let is_zero = |field: &&str| {
        ["0", "0x0", "Sl(0)", "Pkey(0x0000)", "Mlid(0x0000)", "false"]
            .contains(&field.trim().split(": ").last().unwrap_or_default())
    };
    let fields: Vec<&str> = fields.filter(|field| !is_zero(field)).collect();
    format!("{ends} {}", fields.join(", "))
}
