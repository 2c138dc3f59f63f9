//! Swapped cables of a fat tree of two levels, from its links alone: every leaf has equally many links to
//! every spine, except the two leaves and two spines of which two cables were exchanged.

use super::fact::ExchangedCables;
use crate::fabric::{Fabric, PortId, SwitchId};
use std::collections::{BTreeMap, BTreeSet};

/// The links between the leaves, which have hosts, and the spines.
struct LeafSpineTree {
    leaves: BTreeSet<SwitchId>,
    spines: BTreeSet<SwitchId>,
    /// By leaf and spine: the ports of the leaf.
    links: BTreeMap<(SwitchId, SwitchId), Vec<PortId>>,
}

impl LeafSpineTree {
    /// The tree of a fabric; `None` if leaves or spines are cabled among themselves.
    fn of(fabric: &Fabric) -> Option<Self> {
        let (leaves, spines): (BTreeSet<SwitchId>, BTreeSet<SwitchId>) =
            fabric.switch_ids().partition(|&switch| {
                let mut peers =
                    fabric.switch(switch).slots().filter_map(|port| fabric.port(port).peer);
                peers.any(|peer| !fabric.node_of(peer).is_switch())
            });
        let mut links: BTreeMap<(SwitchId, SwitchId), Vec<PortId>> = BTreeMap::new();
        for &leaf in &leaves {
            for port in fabric.switch(leaf).slots() {
                let far = fabric.port(port).peer.and_then(|peer| fabric.node_of(peer).switch);
                let Some(spine) = far else { continue };
                if !spines.contains(&spine) {
                    return None;
                }
                links.entry((leaf, spine)).or_default().push(port);
            }
        }
        let total: usize = links.values().map(Vec::len).sum();
        let at_spines = spines.iter().flat_map(|&spine| fabric.switch(spine).slots());
        let cables = at_spines.filter(|&port| fabric.port(port).peer.is_some()).count();
        (total == cables && leaves.len() > 2 && spines.len() > 1).then_some(Self {
            leaves,
            spines,
            links,
        })
    }

    fn count(&self, leaf: SwitchId, spine: SwitchId) -> usize {
        self.links.get(&(leaf, spine)).map_or(0, Vec::len)
    }

    /// The most frequent number of links between a leaf and a spine.
    fn usual(&self) -> usize {
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        for &leaf in &self.leaves {
            for &spine in &self.spines {
                *counts.entry(self.count(leaf, spine)).or_default() += 1;
            }
        }
        counts.into_iter().max_by_key(|&(_, times)| times).map_or(0, |(count, _)| count)
    }
}

/// The two swapped cables of a fat tree of two levels; `None` if it has none, or is no such tree.
pub fn swapped(fabric: &Fabric) -> Option<ExchangedCables> {
    let tree = LeafSpineTree::of(fabric)?;
    let usual = tree.usual();
    let mut above = Vec::new();
    let mut below = BTreeSet::new();
    for &leaf in &tree.leaves {
        for &spine in &tree.spines {
            match tree.count(leaf, spine) {
                count if count == usual => {}
                count if count == usual + 1 => above.push((leaf, spine)),
                count if count + 1 == usual => drop(below.insert((leaf, spine))),
                _ => return None,
            }
        }
    }
    let [one, other] = above[..] else { return None };
    let lacking = BTreeSet::from([(one.0, other.1), (other.0, one.1)]);
    if one.0 == other.0 || one.1 == other.1 || below != lacking {
        return None;
    }
    // Parallel cables of a pair are equally good: the last one is taken.
    let [one, other] = [one, other].map(|pair| tree.links.get(&pair)?.last().copied());
    let ports = [one?, other?];
    let reason = "the exchange gives every leaf equally many links to every spine";
    ExchangedCables::of(fabric, ports, ports, reason)
}

/// True if every leaf has equally many links to every spine.
#[cfg(test)]
pub(super) fn is_regular(fabric: &Fabric) -> bool {
    LeafSpineTree::of(fabric).is_some_and(|tree| {
        let usual = tree.usual();
        let mut pairs = tree
            .leaves
            .iter()
            .flat_map(|&leaf| tree.spines.iter().map(move |&spine| (leaf, spine)));
        pairs.all(|(leaf, spine)| tree.count(leaf, spine) == usual)
    })
}
