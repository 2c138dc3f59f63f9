//! Swapped cables of a fat tree of any number of levels, from its links alone: switches of a level with the
//! same place in their groups have equally many links to the same switches above, except the two of which
//! cables were exchanged. Groups of less than four may hide an exchange.

use super::fact::ExchangedCables;
use crate::fabric::{Fabric, PortId, SwitchId};
use std::collections::BTreeMap;

/// Numbers of links of a switch to switches of the next level.
type Above = BTreeMap<SwitchId, usize>;

/// The level of each switch: its distance from switches with hosts; `None` without a path to one.
fn levels(fabric: &Fabric) -> Vec<Option<u32>> {
    let mut levels: Vec<Option<u32>> = vec![None; fabric.switches().len()];
    let mut reached: Vec<SwitchId> = fabric
        .switch_ids()
        .filter(|&switch| far(fabric, switch).any(|(_, peer)| !fabric.node_of(peer).is_switch()))
        .collect();
    for level in 0.. {
        if reached.is_empty() {
            break;
        }
        reached.iter().for_each(|switch| levels[switch.index()] = Some(level));
        let beside = reached.iter().flat_map(|&switch| far(fabric, switch));
        let beside = beside.filter_map(|(_, peer)| fabric.node_of(peer).switch);
        let mut next: Vec<SwitchId> =
            beside.filter(|switch| levels[switch.index()].is_none()).collect();
        next.sort_unstable();
        next.dedup();
        reached = next;
    }
    levels
}

/// The cables of a switch, as its port and the far one.
fn far(fabric: &Fabric, switch: SwitchId) -> impl Iterator<Item = (PortId, PortId)> {
    fabric.switch(switch).slots().filter_map(|port| Some((port, fabric.port(port).peer?)))
}

/// The links of each switch of a level to the next one.
fn links_above(fabric: &Fabric, levels: &[Option<u32>], level: u32) -> BTreeMap<SwitchId, Above> {
    let mut links = BTreeMap::new();
    for switch in fabric.switch_ids().filter(|it| levels[it.index()] == Some(level)) {
        let mut above = Above::new();
        for (_, peer) in far(fabric, switch) {
            let Some(upper) = fabric.node_of(peer).switch else { continue };
            if levels[upper.index()] == Some(level + 1) {
                *above.entry(upper).or_default() += 1;
            }
        }
        links.insert(switch, above);
    }
    links
}

/// The links after one to `from` has become one to `to`.
fn moved(above: &Above, from: SwitchId, to: SwitchId) -> Above {
    let mut above = above.clone();
    if let Some(count) = above.get_mut(&from) {
        *count -= 1;
    }
    above.retain(|_, count| *count > 0);
    *above.entry(to).or_default() += 1;
    above
}

/// The two swapped cables between two levels; `None` if there are none.
pub fn swapped(fabric: &Fabric) -> Option<ExchangedCables> {
    let levels = levels(fabric);
    let top = levels.iter().flatten().max()?;
    (0..*top).find_map(|level| swapped_above(fabric, &links_above(fabric, &levels, level)))
}

fn swapped_above(fabric: &Fabric, links: &BTreeMap<SwitchId, Above>) -> Option<ExchangedCables> {
    let mut members: BTreeMap<&Above, Vec<SwitchId>> = BTreeMap::new();
    for (&switch, above) in links {
        members.entry(above).or_default().push(switch);
    }
    let alone: Vec<SwitchId> =
        members.values().filter(|of| of.len() == 1).map(|of| of[0]).collect();
    let [one, other] = alone[..] else { return None };
    let mut found = Vec::new();
    for &from in links[&one].keys() {
        for &to in links[&other].keys().filter(|&&to| to != from) {
            let repaired = [moved(&links[&one], from, to), moved(&links[&other], to, from)];
            if repaired.iter().all(|above| is_usual_parent(&members, above)) {
                let is_new = is_new_beside(fabric, links, one, &repaired[0])
                    && is_new_beside(fabric, links, other, &repaired[1]);
                found.push((!is_new, [(one, from), (other, to)]));
            }
        }
    }
    // Of several exchanges, one that gives a switch other links than those beside it has is better: they
    // lead to different parts of the level above. The rest are equally good.
    let (_, pairs) = found.into_iter().min_by_key(|&(is_worse, _)| is_worse)?;
    exchange(fabric, pairs)
}

fn is_usual_parent(
    members: &BTreeMap<&BTreeMap<SwitchId, usize>, Vec<SwitchId>>,
    above: &Above,
) -> bool {
    members.get(above).is_some_and(|of| of.len() > 1)
}

/// True if no other switch that shares a lower switch with this one has these links.
fn is_new_beside(
    fabric: &Fabric,
    links: &BTreeMap<SwitchId, Above>,
    switch: SwitchId,
    above: &Above,
) -> bool {
    let switches =
        |at: SwitchId| far(fabric, at).filter_map(|(_, peer)| fabric.node_of(peer).switch);
    let lower = switches(switch).filter(|far| !links[&switch].contains_key(far));
    let mut beside = lower.flat_map(switches).filter(|&it| it != switch);
    !beside.any(|it| links.get(&it) == Some(above))
}

/// The exchange of the lower plugs of two cables, each as its lower and its upper switch.
fn exchange(fabric: &Fabric, pairs: [(SwitchId, SwitchId); 2]) -> Option<ExchangedCables> {
    // Parallel cables of a pair are equally good: the last one is taken.
    let [one, other] = pairs.map(|(lower, upper)| {
        let up = far(fabric, lower).filter(|&(_, peer)| fabric.node_of(peer).switch == Some(upper));
        up.last().map(|(port, _)| port)
    });
    let ports = [one?, other?];
    let reason = "the exchange gives both lower switches the same links upwards as others have";
    ExchangedCables::of(fabric, ports, ports, reason)
}

/// True if all switches of each level have the links of at least one other.
#[cfg(test)]
pub(super) fn is_regular(fabric: &Fabric) -> bool {
    let levels = levels(fabric);
    let top = levels.iter().flatten().max().copied().unwrap_or(0);
    (0..top).all(|level| {
        let links = links_above(fabric, &levels, level);
        links.values().all(|above| links.values().filter(|it| *it == above).count() > 1)
    })
}
