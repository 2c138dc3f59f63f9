//! Sequences of partitions.conf, each read by a running subnet manager on a SIGHUP.

use super::files::Words;
use super::random_case::Case;
use super::site::TableKey;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use testkit::torus::random::Random;
use torus_sm::ids::Guid;
use torus_sm::sim::generate::Shape;
use torus_sm::wire::attr::NodeKind;

/// Seeds of sequences with cases that the first ones lack.
pub(crate) const CHOSEN: [u64; 2] = [41, 67];

/// Two tables as keys.
pub(crate) fn both(ours: &[u16], theirs: &[u16]) -> String {
    let keys = |table: &[u16]| -> String { table.iter().map(|key| format!(" {key:x}")).collect() };
    format!("\n    ours  {}\n    theirs{}", keys(ours), keys(theirs))
}

/// The keys of each port's table.
pub(crate) fn by_port(tables: &BTreeMap<TableKey, Vec<u8>>) -> BTreeMap<(Guid, u8), Vec<u16>> {
    let mut ports: BTreeMap<_, Vec<u16>> = BTreeMap::new();
    for ((guid, port, ..), block) in tables {
        let keys = block.as_chunks().0.iter().map(|&key| u16::from_be_bytes(key));
        ports.entry((*guid, *port)).or_default().extend(keys);
    }
    ports
}

/// A fabric, and the files in the order in which they are read.
pub(crate) struct Sequence {
    /// The fabric with the first file.
    pub case: Case,
    /// The other files.
    pub later: Vec<String>,
}

/// The random state from which the files of a sequence are drawn.
struct RandomFiles {
    random: Random,
    keys: Vec<u16>,
    /// Percentage of the keys that a file has.
    share: usize,
}

impl Sequence {
    /// The sequence of a seed: of few partitions, or of more than a table can hold.
    pub(crate) fn new(seed: u64, steps: usize) -> Self {
        let mut random = Random::new(seed.wrapping_mul(6151));
        let shape = Shape { hosts: 1, ..Shape::torus([3, 1, 1]) };
        let topology = shape.build().expect("the shape fits a fabric");
        let hosts: Vec<String> = topology
            .nodes
            .iter()
            .filter(|node| node.kind == NodeKind::Ca)
            .map(|node| node.description.clone())
            .collect();
        let words = Words::new(&mut random, &topology, &hosts[0]);
        let (count, share) = [(8, 50), (12, 30), (90, 60), (75, 80)][random.below(4)];
        let keeps = if seed.is_multiple_of(4) { "FALSE" } else { "TRUE" };
        let mut options = "sweep_interval 0\nrouting_engine minhop\n".to_owned();
        let _ = writeln!(options, "keep_pkey_indexes {keeps}");
        let keys = (1..=count as u16).map(|n| (n * 0x35) & 0x7FFF).collect();
        let mut drawing = RandomFiles { random, keys, share };
        let first = drawing.file(&words);
        let later = (1..steps).map(|_| drawing.file(&words)).collect();
        let case = Case {
            seed,
            torus: shape.torus_conf(),
            topology,
            home: hosts[0].clone(),
            client: hosts[1].clone(),
            lmc: 0,
            both_keys: false,
            options,
            partitions: Some(first),
            policy: None,
            prefix_routes: String::new(),
            words,
        };
        Self { case, later }
    }

    /// True if keys keep their indexes.
    pub(crate) fn keeps(&self) -> bool {
        self.case.options.contains("keep_pkey_indexes TRUE")
    }
}

impl RandomFiles {
    fn file(&mut self, words: &Words) -> String {
        let random = &mut self.random;
        let mut text = String::new();
        let default = ["ALL=full", "ALL=limited", "ALL=full", "ALL_CAS=full"][random.below(4)];
        let _ = writeln!(text, "Default=0x7fff : {default}, SELF=full;");
        let first = random.percent(15).then(|| random.below(self.keys.len()));
        for (number, key) in self.keys.iter().enumerate() {
            if !random.percent(self.share) {
                continue;
            }
            let index0 = if first == Some(number) { ", indx0" } else { "" };
            // The members of a partition rarely change.
            let is_full = random.percent(8) != number.is_multiple_of(2);
            let membership = if is_full { "full" } else { "limited" };
            let port = words.ports[random.below(words.ports.len())].0;
            let members = match random.below(10) {
                0 => format!("{port:#x}={membership}"),
                1 => format!("ALL_CAS={membership}"),
                _ => format!("ALL={membership}"),
            };
            let _ = writeln!(text, "P{key}={key:#06x}{index0} : {members};");
        }
        text
    }
}
