//! Numbers of hosts, and the order of parents.

use super::levels::Levels;
use crate::fabric::{Fabric, SwitchId};
use crate::ids::Guid;
use std::collections::{BTreeMap, BTreeSet};

/// The numbers by which routes are chosen.
pub(super) struct Numbering {
    /// By switch: the number of the first host slot of a leaf switch. Switches of other levels have
    /// the number of their place in the level.
    pub first: Vec<u64>,
    /// By leaf switch and host, in the order of [`Levels::hosts`]: the slot of the host.
    pub slots: Vec<Vec<u64>>,
    /// By level: the product of the numbers of parents of all levels below.
    pub divisors: Vec<u64>,
    /// By switch: the positions of the bundles of [`Levels::up`] in the order of planes.
    pub parents: Vec<Vec<usize>>,
}

impl Numbering {
    pub(super) fn new(fabric: &Fabric, levels: &Levels) -> Self {
        // The subtrees up to each level, and the planes from each level on, by the first GUID.
        let depths = 0..=levels.highest;
        let subtrees: Vec<Vec<u64>> = depths
            .clone()
            .map(|top| {
                components(levels, |level| level <= top, |switch| order_of(fabric, switch).0)
            })
            .collect();
        let planes: Vec<Vec<u64>> = depths
            .map(|bottom| {
                components(levels, |level| level >= bottom, |switch| order_of(fabric, switch).0)
            })
            .collect();
        let (slots, hosts) = slots(levels);
        let mut first = leaf_numbers(levels, &subtrees, hosts);
        for level in 1..=levels.highest {
            let mut others: Vec<SwitchId> =
                levels.switches().filter(|&switch| levels.of(switch) == level).collect();
            others.sort_by_key(|&switch| order_of(fabric, switch));
            others.iter().zip(0..).for_each(|(switch, number)| first[switch.index()] = number);
        }
        let parents = levels.switches().map(|switch| {
            let bundles = &levels.up[switch.index()];
            let level = (levels.of(switch) + 1) as usize;
            let mut places: Vec<usize> = (0..bundles.len()).collect();
            places.sort_by_key(|&at| {
                let parent = bundles[at].to;
                (planes[level][parent.index()], order_of(fabric, parent))
            });
            places
        });
        let parents: Vec<Vec<usize>> = parents.collect();
        let mut divisors = vec![1_u64];
        for level in 0..levels.highest {
            let own = levels.switches().filter(|&switch| levels.of(switch) == level);
            let most = own.map(|switch| parents[switch.index()].len()).max().unwrap_or(1).max(1);
            let before = divisors.last().copied().unwrap_or(1);
            divisors.push(before.saturating_mul(most as u64));
        }
        Self { first, slots, divisors, parents }
    }
}

fn order_of(fabric: &Fabric, switch: SwitchId) -> Guid {
    fabric.switch(switch).guid()
}

/// By switch: the smallest key in its connected part of the switches whose level is `within`.
fn components(
    levels: &Levels,
    within: impl Fn(u32) -> bool,
    key: impl Fn(SwitchId) -> u64,
) -> Vec<u64> {
    let mut found: Vec<Option<u64>> = vec![None; levels.by_switch.len()];
    let mut starts: Vec<SwitchId> =
        levels.switches().filter(|&switch| within(levels.of(switch))).collect();
    starts.sort_by_key(|&switch| key(switch));
    for start in starts {
        if found[start.index()].is_some() {
            continue;
        }
        let least = key(start);
        let mut open = vec![start];
        found[start.index()] = Some(least);
        while let Some(switch) = open.pop() {
            let bundles = levels.up[switch.index()].iter().chain(&levels.down[switch.index()]);
            for bundle in bundles.filter(|bundle| within(levels.of(bundle.to))) {
                if found[bundle.to.index()].is_none() {
                    found[bundle.to.index()] = Some(least);
                    open.push(bundle.to);
                }
            }
        }
    }
    found.into_iter().map(Option::unwrap_or_default).collect()
}

/// The slots of the hosts at each switch, and the number of slots at each leaf switch. If the hosts of
/// all leaf switches are at the same ports, a missing one leaves its slot empty.
fn slots(levels: &Levels) -> (Vec<Vec<u64>>, u64) {
    let mut ports: BTreeSet<u8> = BTreeSet::new();
    let mut most = 0;
    for leaf in levels.leaves() {
        let hosts = &levels.hosts[leaf.index()];
        ports.extend(hosts.iter().map(|host| host.switch_port));
        most = most.max(hosts.len());
    }
    let is_regular = ports.len() == most;
    (
        levels
            .hosts
            .iter()
            .map(|hosts| {
                hosts
                    .iter()
                    .enumerate()
                    .map(|(at, host)| slot_of_port(&ports, at, host.switch_port, is_regular))
                    .collect()
            })
            .collect(),
        most.max(1) as u64,
    )
}

fn slot_of_port(ports: &BTreeSet<u8>, at: usize, port: u8, is_regular: bool) -> u64 {
    if is_regular { ports.range(..port).count() as u64 } else { at as u64 }
}

/// The number of the first slot of each leaf switch: its digits are the places of its subtrees in the
/// next larger ones. Each subtree has as many places as the fullest one of its level.
fn leaf_numbers(levels: &Levels, subtrees: &[Vec<u64>], hosts: u64) -> Vec<u64> {
    let mut first = vec![0; levels.by_switch.len()];
    let mut weight = hosts;
    for (inner, outer) in subtrees.iter().zip(subtrees.iter().skip(1)) {
        let mut members: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for leaf in levels.leaves() {
            members.entry(outer[leaf.index()]).or_default().insert(inner[leaf.index()]);
        }
        for leaf in levels.leaves() {
            let Some(places) = members.get(&outer[leaf.index()]) else { continue };
            let place = places.range(..inner[leaf.index()]).count() as u64;
            first[leaf.index()] += weight * place;
        }
        let most = members.values().map(BTreeSet::len).max().unwrap_or(1) as u64;
        weight = weight.saturating_mul(most);
    }
    first
}
