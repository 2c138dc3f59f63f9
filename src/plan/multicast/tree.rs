//! Multicast trees of shortest paths.
//!
//! The root is the switch with the smallest distance to its farthest member. From the root a path
//! leads to the switch of every member, at each hop through the first port on a shortest path. If
//! the path to a member reaches a switch that is already in the tree, only the part of the path
//! behind the last such switch is added. Every switch except the root therefore has exactly one
//! link towards the root, and the result has no loop. (OpenSM adds both paths, which makes loops on
//! fabrics with irregular port numbering. If no paths meet, the trees are the same.)

use super::too_small;
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::{Mlid, PortNum};
use crate::notes::Note;
use crate::plan::LidTable;
use crate::plan::routing::balancing::hops::{HopRule, TargetHops};
use crate::plan::routing::port_hops::PortHops;
use crate::plan::routing::switch_graph::{Link, NO_PATH, SwitchGraph, linked_peer};
use crate::plan::routing::{MulticastTree, PortMask};
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Builds the trees of groups over a common set of switches.
pub(super) struct TreeBuilder<'a> {
    fabric: &'a Fabric,
    lids: &'a LidTable,
    /// The links between able switches.
    graph: SwitchGraph,
    /// The able switches, in the order in which they are tried as roots.
    roots: Vec<SwitchId>,
    /// True, by switch, if its multicast table holds the MLIDs.
    able: &'a [bool],
    /// The able switches with members, ascending.
    targets: Vec<SwitchId>,
    /// The hops of all switches to each target, by target.
    hops: Vec<HopsToTarget>,
}

/// No link leads to the target. A switch has at most 254 ports.
const NO_LINK: u8 = 0xFF;

/// The hops of all switches to a target.
struct HopsToTarget {
    /// Least hops, by switch.
    least: Vec<u8>,
    /// The number of the first link with the least hops, by switch.
    first_link: Vec<u8>,
}

impl HopsToTarget {
    /// The hops by the rule of an engine. Links through which the engine found longer ways come
    /// last.
    fn new(
        graph: &SwitchGraph,
        rule: &dyn HopRule,
        port_hops: Option<&PortHops>,
        target: SwitchId,
        hops: &mut TargetHops,
    ) -> Self {
        rule.hops_to(graph, target, hops);
        let first_link = graph.switches().map(|switch| {
            let links = graph.numbered_links(switch).enumerate();
            let mut best = links.filter(|(_, (index, _))| hops.is_best(switch, *index));
            let first = best.clone().next();
            // OpenSM does not route members to which every port was found longer.
            let number = best
                .find(|(_, (_, link))| {
                    !is_found_longer(&port_hops, &hops.least, link, target, switch)
                })
                .or(first);
            number.map_or(NO_LINK, |(number, _)| number as u8)
        });
        Self { least: hops.least.clone(), first_link: first_link.collect() }
    }
}

fn is_found_longer(
    port_hops: &Option<&PortHops>,
    least: &[u8],
    link: &Link,
    target: SwitchId,
    switch: SwitchId,
) -> bool {
    let found = port_hops.and_then(|hops| hops.of(target, switch, link.port));
    found.is_some_and(|found| found > least[switch.index()])
}

/// A member and the switch port that leads to it.
pub(super) struct TreeMember {
    port: PortId,
    pub(super) switch: SwitchId,
    /// The port of the switch; 0 if the switch itself is the member.
    pub(super) exit: PortNum,
}

impl<'a> TreeBuilder<'a> {
    /// Creates a builder for groups with the given members. `able` selects the switches, and
    /// `rules` say how many hops lie between them and through which ports.
    pub(super) fn new(
        fabric: &'a Fabric,
        lids: &'a LidTable,
        graph: &SwitchGraph,
        rules: (&dyn HopRule, Option<&PortHops>),
        able: &'a [bool],
        members: impl Iterator<Item = PortId>,
    ) -> Self {
        let graph = graph.filtered(|switch| able[switch.index()]);
        let switches = members.filter_map(|port| Some(member(fabric, port)?.switch));
        let targets: BTreeSet<_> = switches.filter(|switch| able[switch.index()]).collect();
        let targets: Vec<_> = targets.into_iter().collect();
        // OpenSM orders its switches by byte-swapped GUID.
        let mut roots: Vec<_> = fabric.switch_ids().filter(|switch| able[switch.index()]).collect();
        roots.sort_by_cached_key(|&switch| fabric.switch(switch).guid().opensm_order());
        let (rule, port_hops) = rules;
        let hops = targets.par_iter().map_init(TargetHops::default, |hops, &target| {
            HopsToTarget::new(&graph, rule, port_hops, target, hops)
        });
        let hops = hops.collect();
        Self { fabric, lids, graph, roots, able, targets, hops }
    }

    /// The tree of a group.
    pub(super) fn build(&self, mlid: Mlid, members: &[PortId]) -> MulticastTree {
        let (members, mut notes) = self.attached(mlid, members);
        let mut switches = BTreeMap::new();
        let by_switch = by_switch(&members);
        if let Some(root) = self.root(&by_switch) {
            switches.insert(root, PortMask::default());
            for (&target, exits) in &by_switch {
                if self.extend(&mut switches, root, target) {
                    let mask: &mut PortMask = switches.entry(target).or_default();
                    exits.iter().for_each(|exit| mask.insert(exit.0));
                } else {
                    let cut_off = members.iter().filter(|member| member.switch == target);
                    notes.extend(cut_off.map(|member| self.left_out(mlid, member.port)));
                }
            }
        }
        MulticastTree { switches: switches.into_iter().collect(), notes }
    }

    /// The members linked to an able switch, and notes about the other members.
    fn attached(&self, mlid: Mlid, members: &[PortId]) -> (Vec<TreeMember>, Vec<Note>) {
        let mut attached = Vec::new();
        let mut notes = Vec::new();
        for &port in members {
            match member(self.fabric, port) {
                Some(member) if self.able[member.switch.index()] => attached.push(member),
                Some(member) => {
                    notes.push(too_small(self.fabric, member.switch, mlid));
                    notes.push(self.left_out(mlid, port));
                }
                None => notes.push(self.left_out(mlid, port)),
            }
        }
        (attached, notes)
    }

    fn left_out(&self, mlid: Mlid, port: PortId) -> Note {
        let lid = self.lids.base(port).map_or_else(String::new, |lid| format!(" (LID {lid})"));
        let port = self.fabric.describe(port);
        Note::error("0A06", format!("{mlid} is not routed to its member {port}{lid}: no path"))
    }

    /// The switch that reaches the most members and, among equals, has the fewest hops to its
    /// farthest member. A host is one hop from its switch.
    fn root(&self, members: &BTreeMap<SwitchId, Vec<PortNum>>) -> Option<SwitchId> {
        let mut unreached = vec![0u32; self.able.len()];
        let mut farthest = vec![0u16; self.able.len()];
        for (&target, exits) in members {
            let last_hop = u16::from(!exits.contains(&PortNum::ZERO));
            let row = &self.hops_to(target)?.least;
            for ((&distance, unreached), farthest) in
                row.iter().zip(&mut unreached).zip(&mut farthest)
            {
                *unreached += u32::from(distance == NO_PATH);
                *farthest = (*farthest).max(u16::from(distance) + last_hop);
            }
        }
        self.roots
            .iter()
            .copied()
            .filter(|_| !members.is_empty())
            .min_by_key(|switch| (unreached[switch.index()], farthest[switch.index()]))
    }

    /// Adds the path from the root to `target`; false if there is no path.
    fn extend(
        &self,
        tree: &mut BTreeMap<SwitchId, PortMask>,
        root: SwitchId,
        target: SwitchId,
    ) -> bool {
        let Some(path) = self.path(root, target) else { return false };
        let new = path
            .iter()
            .rposition(|(_, link)| tree.contains_key(&link.to))
            .map_or(0, |last| last + 1);
        for (switch, link) in &path[new..] {
            tree.entry(*switch).or_default().insert(link.port);
            tree.entry(link.to).or_default().insert(link.to_port);
        }
        true
    }

    /// The hops (switch and output link) from `root` to `target`.
    fn path(&self, root: SwitchId, target: SwitchId) -> Option<Vec<(SwitchId, Link)>> {
        let hops = self.hops_to(target)?;
        if hops.least[root.index()] == NO_PATH {
            return None;
        }
        let mut path = Vec::new();
        let mut here = root;
        while here != target && path.len() < self.able.len() {
            let link = self.graph.links(here).get(usize::from(hops.first_link[here.index()]))?;
            path.push((here, *link));
            here = link.to;
        }
        (here == target).then_some(path)
    }

    fn hops_to(&self, target: SwitchId) -> Option<&HopsToTarget> {
        self.hops.get(self.targets.binary_search(&target).ok()?)
    }
}

/// The switch and switch port of a member; `None` if it is not linked to a switch.
pub(super) fn member(fabric: &Fabric, port: PortId) -> Option<TreeMember> {
    if let Some(switch) = fabric.node_of(port).switch {
        return Some(TreeMember { port, switch, exit: PortNum::ZERO });
    }
    let peer = linked_peer(fabric, port)?;
    let switch = fabric.node_of(peer).switch?;
    Some(TreeMember { port, switch, exit: fabric.port(peer).num })
}

fn by_switch(members: &[TreeMember]) -> BTreeMap<SwitchId, Vec<PortNum>> {
    let mut by_switch = BTreeMap::<_, Vec<_>>::new();
    for member in members {
        by_switch.entry(member.switch).or_default().push(member.exit);
    }
    by_switch
}
