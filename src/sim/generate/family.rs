//! Fabrics other than tori and meshes: `fattree:18x9`, `fattree:4x4x4x2`, `hypercube:5`,
//! `dragonfly:9x4`, `random:40x80` and `random:40x80:7`.

use super::wiring::Wiring;
use super::{MAX_SWITCHES, ShapeError};
use crate::notes::counted;
use crate::sim::random::Random;
use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

/// Largest number of dimensions of a hypercube: 2^15 switches.
const MAX_DIMENSIONS: u64 = 15;
/// Largest number of cables between the switches of a random fabric, before `--parallel`.
const MAX_RANDOM_CABLES: u64 = 1 << 20;
/// The seed of a random fabric without one.
const DEFAULT_SEED: u64 = 1;

/// The names of the families, each with the form of its numbers.
pub const FORMS: [(&str, &str); 4] = [
    ("fattree", "fattree:LEAVESxSPINES or fattree:PODSxLEAVESxMIDDLESxCORES"),
    ("hypercube", "hypercube:DIMENSIONS"),
    ("dragonfly", "dragonfly:GROUPSxSWITCHES"),
    ("random", "random:SWITCHESxCABLES or random:SWITCHESxCABLES:SEED"),
];

/// A fabric of one family with its size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// Every leaf switch is cabled to every spine switch.
    FatTree2 { leaves: usize, spines: usize },
    /// Pods, in which every leaf switch is cabled to every middle switch. The middle switches of
    /// the same place in all pods are cabled to the same `cores` core switches.
    FatTree3 { pods: usize, leaves: usize, middles: usize, cores: usize },
    /// 2^`dimensions` switches, cabled where their numbers differ in one bit.
    Hypercube { dimensions: u32 },
    /// Groups, in which every two switches are cabled. One cable joins every two groups; a group
    /// spreads its cables to other groups evenly over its switches.
    Dragonfly { groups: usize, switches: usize },
    /// A random tree and random further cables between switches that are not neighbours yet.
    Random { switches: usize, cables: usize, seed: u64 },
}

impl FromStr for Family {
    type Err = ShapeError;

    /// Parses the name of a family, a colon, and its numbers.
    fn from_str(text: &str) -> Result<Self, ShapeError> {
        let (name, numbers) = text.split_once(':').unwrap_or((text, ""));
        let &(name, form) = FORMS.iter().find(|(known, _)| *known == name).ok_or_else(|| {
            let names: Vec<&str> = FORMS.iter().map(|(name, _)| *name).collect();
            ShapeError::Family { name: name.to_owned(), families: names.join(", ") }
        })?;
        let wrong = |why: String| ShapeError::Numbers { text: text.to_owned(), form, why };
        let (sizes, seed) = match numbers.split_once(':') {
            Some((sizes, seed)) if name == "random" => {
                let number = seed.parse().map_err(|_| wrong(format!("\"{seed}\" is no seed")))?;
                (sizes, number)
            }
            _ => (numbers, DEFAULT_SEED),
        };
        let sizes = sizes.split('x').map(|size| number(size).map_err(wrong));
        let sizes = sizes.collect::<Result<Vec<u64>, _>>()?;
        let family = from_numbers(name, &sizes, seed).map_err(wrong)?;
        match family.switches() {
            1..=MAX_SWITCHES => Ok(family),
            count => Err(wrong(format!("{count} switches are more than {MAX_SWITCHES}"))),
        }
    }
}

fn number(text: &str) -> Result<u64, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number =
        text.parse().ok().filter(|number| is_number && (1..=MAX_RANDOM_CABLES).contains(number));
    number.ok_or_else(|| format!("\"{text}\" is not a number from 1 to {MAX_RANDOM_CABLES}"))
}

fn from_numbers(name: &str, sizes: &[u64], seed: u64) -> Result<Family, String> {
    match (name, sizes.len()) {
        ("fattree", 2) => {
            Ok(Family::FatTree2 { leaves: size_at(sizes, 0), spines: size_at(sizes, 1) })
        }
        ("fattree", 4) => Ok(Family::FatTree3 {
            pods: size_at(sizes, 0),
            leaves: size_at(sizes, 1),
            middles: size_at(sizes, 2),
            cores: size_at(sizes, 3),
        }),
        ("hypercube", 1) if sizes[0] > MAX_DIMENSIONS => {
            Err(format!("a hypercube has at most {MAX_DIMENSIONS} dimensions"))
        }
        ("hypercube", 1) => Ok(Family::Hypercube { dimensions: sizes[0] as u32 }),
        ("dragonfly", 2) => {
            Ok(Family::Dragonfly { groups: size_at(sizes, 0), switches: size_at(sizes, 1) })
        }
        ("random", 2) => random_family(sizes[0], sizes[1], seed),
        (_, count) => Err(format!("{} given", counted(count, "number is", "numbers are"))),
    }
}

fn size_at(sizes: &[u64], index: usize) -> usize {
    sizes[index] as usize
}

fn random_family(switches: u64, cables: u64, seed: u64) -> Result<Family, String> {
    let fewest = switches - 1;
    let most = switches.saturating_mul(switches - 1) / 2;
    if !(fewest..=most).contains(&cables) {
        return Err(format!("{switches} switches need {fewest} to {most} cables"));
    }
    Ok(Family::Random { switches: switches as usize, cables: cables as usize, seed })
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FatTree2 { leaves, spines } => write!(f, "fattree:{leaves}x{spines}"),
            Self::FatTree3 { pods, leaves, middles, cores } => {
                write!(f, "fattree:{pods}x{leaves}x{middles}x{cores}")
            }
            Self::Hypercube { dimensions } => write!(f, "hypercube:{dimensions}"),
            Self::Dragonfly { groups, switches } => write!(f, "dragonfly:{groups}x{switches}"),
            Self::Random { switches, cables, seed } => {
                write!(f, "random:{switches}x{cables}:{seed}")
            }
        }
    }
}

impl Family {
    /// A routing engine of OpenSM that is made for the family, or suits it without credit loops.
    pub fn default_engine(&self) -> &'static str {
        match self {
            Self::FatTree2 { .. } | Self::FatTree3 { .. } => "ftree",
            Self::Hypercube { .. } => "dor",
            Self::Dragonfly { .. } | Self::Random { .. } => "nue",
        }
    }

    fn switches(&self) -> u64 {
        match *self {
            Self::FatTree2 { leaves, spines } => (leaves + spines) as u64,
            Self::FatTree3 { pods, leaves, middles, cores } => {
                product(&[pods, leaves + middles]).saturating_add(product(&[middles, cores]))
            }
            Self::Hypercube { dimensions } => 1 << dimensions,
            Self::Dragonfly { groups, switches } => product(&[groups, switches]),
            Self::Random { switches, .. } => switches as u64,
        }
    }

    /// The switches and cables.
    pub(super) fn wiring(&self) -> Wiring {
        match *self {
            Self::FatTree2 { leaves, spines } => fat_tree_2(leaves, spines),
            Self::FatTree3 { pods, leaves, middles, cores } => {
                fat_tree_3([pods, leaves, middles, cores])
            }
            Self::Hypercube { dimensions } => hypercube(dimensions),
            Self::Dragonfly { groups, switches } => dragonfly(groups, switches),
            Self::Random { switches, cables, seed } => random(switches, cables, seed),
        }
    }
}

fn product(numbers: &[usize]) -> u64 {
    numbers.iter().fold(1u64, |product, &number| product.saturating_mul(number as u64))
}

fn fat_tree_2(leaves: usize, spines: usize) -> Wiring {
    let mut wiring = Wiring::new();
    for leaf in 0..leaves {
        wiring.switch(format!("leaf {leaf}"), Some(format!("{leaf}")));
    }
    for spine in 0..spines {
        let spine = wiring.switch(format!("spine {spine}"), None);
        (0..leaves).for_each(|leaf| wiring.link(leaf, spine));
    }
    wiring
}

fn fat_tree_3([pods, leaves, middles, cores]: [usize; 4]) -> Wiring {
    let mut wiring = Wiring::new();
    let mut middle_switches = Vec::new();
    for pod in 0..pods {
        let first = (0..leaves).map(|leaf| {
            wiring.switch(format!("pod {pod} leaf {leaf}"), Some(format!("{pod}-{leaf}")))
        });
        let leaves: Vec<usize> = first.collect();
        for middle in 0..middles {
            let switch = wiring.switch(format!("pod {pod} middle {middle}"), None);
            leaves.iter().for_each(|&leaf| wiring.link(leaf, switch));
            middle_switches.push(switch);
        }
    }
    for middle in 0..middles {
        for core in 0..cores {
            let core = wiring.switch(format!("core {middle}.{core}"), None);
            let below = middle_switches.iter().skip(middle).step_by(middles);
            below.for_each(|&switch| wiring.link(switch, core));
        }
    }
    wiring
}

/// Ports are numbered by dimension, so that dor routes without credit loops.
fn hypercube(dimensions: u32) -> Wiring {
    let mut wiring = Wiring::new();
    let width = dimensions as usize;
    for switch in 0..1usize << dimensions {
        wiring.switch(format!("sw {switch:0width$b}"), Some(format!("{switch:0width$b}")));
    }
    for bit in 0..dimensions {
        let lower = (0..1usize << dimensions).filter(|switch| switch >> bit & 1 == 0);
        lower.for_each(|switch| wiring.link(switch, switch | 1 << bit));
    }
    wiring
}

fn dragonfly(groups: usize, switches: usize) -> Wiring {
    let mut wiring = Wiring::new();
    for group in 0..groups {
        for switch in 0..switches {
            wiring.switch(format!("group {group} sw {switch}"), Some(format!("{group}-{switch}")));
        }
    }
    for first in (0..groups).map(|group| group * switches) {
        for from in 0..switches {
            (from + 1..switches).for_each(|to| wiring.link(first + from, first + to));
        }
    }
    for group in 0..groups {
        for other in group + 1..groups {
            let distance = other - group;
            wiring.link(
                exit_of(group, distance, switches),
                exit_of(other, groups - distance, switches),
            );
        }
    }
    wiring
}

/// The distance of the other group chooses the switch.
fn exit_of(group: usize, distance: usize, switches: usize) -> usize {
    group * switches + (distance - 1) % switches
}

fn random(switches: usize, cables: usize, seed: u64) -> Wiring {
    let mut wiring = Wiring::new();
    let mut random = Random(seed);
    let mut neighbours = HashSet::new();
    for switch in 0..switches {
        wiring.switch(format!("sw {switch}"), Some(format!("{switch}")));
        if switch > 0 {
            let other = (random.next() % switch as u64) as usize;
            neighbours.insert([other, switch]);
            wiring.link(other, switch);
        }
    }
    // At most half of the pairs are drawn: of a dense fabric, the pairs to leave out.
    let pairs = switches * switches.saturating_sub(1) / 2;
    if cables > pairs / 2 {
        let open = (0..switches).flat_map(|to| (0..to).map(move |from| [from, to]));
        let mut open: Vec<_> = open.filter(|pair| !neighbours.contains(pair)).collect();
        while wiring.links().len() < cables && !open.is_empty() {
            let [from, to] = open.swap_remove((random.next() % open.len() as u64) as usize);
            wiring.link(from, to);
        }
        return wiring;
    }
    while wiring.links().len() < cables {
        let mut ends = [0; 2].map(|_| (random.next() % switches as u64) as usize);
        ends.sort_unstable();
        if ends[0] != ends[1] && neighbours.insert(ends) {
            wiring.link(ends[0], ends[1]);
        }
    }
    wiring
}

#[cfg(test)]
mod tests {
    use super::super::wiring::CablesAndHosts;
    use super::*;
    use crate::fabric::topology::Topology;
    use crate::fabric::topology::TopologyNode;
    use crate::wire::attr::NodeKind;

    fn build(text: &str, hosts: u8, parallel: u8) -> Topology {
        let family: Family = text.parse().expect(text);
        assert_eq!(family.to_string().parse(), Ok(family));
        family.wiring().build(CablesAndHosts { hosts, parallel }).expect(text)
    }

    #[test]
    fn families_have_all_switches_hosts_and_cables() {
        // Switches; switches with hosts; pairs of neighbours.
        let cases = [
            ("fattree:6x3", 9, 6, 18),
            ("fattree:3x4x2x2", 3 * 6 + 4, 12, 3 * 8 + 4 * 3),
            ("hypercube:4", 16, 16, 32),
            ("dragonfly:5x4", 20, 20, 5 * 6 + 10),
            ("random:12x20:3", 12, 12, 20),
            ("random:6x15", 6, 6, 15),
        ];
        for (text, switches, with_hosts, links) in cases {
            let topology = build(text, 2, 3);
            assert_eq!(count(&topology.nodes, NodeKind::Switch), switches, "{text}");
            assert_eq!(count(&topology.nodes, NodeKind::Ca), 2 * with_hosts, "{text}");
            assert_eq!(topology.cables.len(), 2 * with_hosts + 3 * links, "{text}");
            let mut ends: Vec<_> = topology.cables.iter().flatten().collect();
            ends.sort_unstable();
            assert!(
                ends.windows(2).all(|pair| pair[0] != pair[1]),
                "{text}: a port has two cables"
            );
        }
    }

    fn count(nodes: &[TopologyNode], kind: NodeKind) -> usize {
        nodes.iter().filter(|node| node.kind == kind).count()
    }

    #[test]
    fn seeds_decide_random_fabrics() {
        assert_eq!(build("random:20x40:5", 1, 1), build("random:20x40:5", 1, 1));
        assert_eq!(build("random:20x40", 1, 1), build("random:20x40:1", 1, 1));
        assert_ne!(build("random:20x40:5", 1, 1), build("random:20x40:6", 1, 1));
    }

    #[test]
    fn wrong_numbers_are_explained() {
        let cases = [
            (
                "butterfly:3",
                "unknown kind of fabric \"butterfly\"; known are fattree, hypercube, dragonfly, random",
            ),
            (
                "fattree:4",
                "\"fattree:4\" is not of the form fattree:LEAVESxSPINES or fattree:PODSxLEAVESxMIDDLESxCORES: 1 number is given",
            ),
            (
                "fattree:4x0",
                "\"fattree:4x0\" is not of the form fattree:LEAVESxSPINES or fattree:PODSxLEAVESxMIDDLESxCORES: \"0\" is not a number from 1 to 1048576",
            ),
            (
                "hypercube:16",
                "\"hypercube:16\" is not of the form hypercube:DIMENSIONS: a hypercube has at most 15 dimensions",
            ),
            (
                "random:5x2",
                "\"random:5x2\" is not of the form random:SWITCHESxCABLES or random:SWITCHESxCABLES:SEED: 5 switches need 4 to 10 cables",
            ),
            (
                "random:5x5:x",
                "\"random:5x5:x\" is not of the form random:SWITCHESxCABLES or random:SWITCHESxCABLES:SEED: \"x\" is no seed",
            ),
            (
                "dragonfly:1000x1000",
                "\"dragonfly:1000x1000\" is not of the form dragonfly:GROUPSxSWITCHES: 1000000 switches are more than 49152",
            ),
        ];
        for (text, message) in cases {
            let error = text.parse::<Family>().expect_err(text);
            assert_eq!(error.to_string(), message);
        }
    }

    #[test]
    fn a_switch_with_too_many_ports_is_named() {
        let family: Family = "fattree:40x2".parse().expect("a fat tree");
        let error =
            family.wiring().build(CablesAndHosts { hosts: 1, parallel: 8 }).expect_err("too large");
        assert_eq!(
            error.to_string(),
            "switch \"spine 0\" needs 320 ports for 320 cables to switches and 0 hosts; a switch \
             has at most 254"
        );
    }
}
