//! The paths between all hosts: how many there are of each length, their SLs, and the VLs that they
//! use between switches.
//!
//! Paths to one LID form a tree towards its switch, which LIDs at one switch mostly share. Each tree is passed twice: outwards for the
//! distances, inwards for the SLs that meet at each switch. An SL that passes from one port of a
//! switch to another is only marked; the VLs are looked up once, at the end ([`transits`]). The LIDs
//! of one block of the forwarding tables are handled together, since their entries lie side by side.

mod links;
mod transits;
mod tree;

use super::json::HopCount;
use crate::fabric::{Fabric, PortId};
use crate::ids::{Lid, Sl};
use crate::plan::Plan;
use crate::plan::routing::LftColumns;
use crate::verify::MAX_PATH_SWITCHES;
use crate::wire::attr::tables::LFT_BLOCK;
use links::{HostPathLinks, HostSources};
use rayon::prelude::*;
use transits::Transits;
use tree::PathTree;

/// The paths between all hosts, as far as they are delivered.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct HostPaths {
    /// Paths from each host to the base LIDs of all others, by the number of switches on them.
    pub(super) lengths: Vec<HopCount>,
    /// SLs of the paths to all LIDs, bit n for SL n. A requested SL is not considered.
    pub(super) sls: u16,
    /// VLs of these paths on links between switches, bit n for VL n.
    pub(super) vls: u16,
}

impl HostPaths {
    pub(super) fn new(fabric: &Fabric, plan: &Plan) -> Self {
        let links = HostPathLinks::new(fabric);
        let sources = HostSources::new(fabric, plan);
        let survey = PathSurvey { fabric, plan, links: &links, sources: &sources };
        let lids: Vec<(Lid, PortId)> =
            plan.lids.iter().filter(|&(_, port)| is_host(fabric, port)).collect();
        let blocks: Vec<&[(Lid, PortId)]> =
            lids.chunk_by(|one, two| block_of(one.0) == block_of(two.0)).collect();
        let parts = blocks.par_iter().fold(
            || FoundPaths::empty(&links),
            |mut found, block| {
                survey.add_block(block, &mut found);
                found
            },
        );
        let mut found = parts.reduce(|| FoundPaths::empty(&links), FoundPaths::with);
        found.transits.add_entries(&links, &sources);
        let lengths = found.lengths.into_iter().enumerate().filter(|&(_, paths)| paths > 0);
        Self {
            lengths: lengths.map(|(switches, paths)| HopCount { switches, paths }).collect(),
            sls: found.sls,
            vls: found.transits.vls(fabric, plan, &links),
        }
    }
}

fn is_host(fabric: &Fabric, port: PortId) -> bool {
    !fabric.node_of(port).is_switch()
}

/// The numbers of a set of SLs or VLs.
pub(super) fn numbers(set: u16) -> Vec<u8> {
    (0..16).filter(|bit| set >> bit & 1 == 1).collect()
}

fn block_of(lid: Lid) -> usize {
    lid.index() / LFT_BLOCK
}

/// What the trees seen so far have.
struct FoundPaths {
    /// Number of paths by length in switches.
    lengths: Vec<u64>,
    sls: u16,
    transits: Transits,
}

impl FoundPaths {
    fn empty(links: &HostPathLinks) -> Self {
        let lengths = vec![0; MAX_PATH_SWITCHES as usize + 1];
        Self { lengths, sls: 0, transits: Transits::empty(links) }
    }

    fn with(mut self, other: Self) -> Self {
        for (here, there) in self.lengths.iter_mut().zip(other.lengths) {
            *here += there;
        }
        self.sls |= other.sls;
        self.transits.add(&other.transits);
        self
    }
}

struct PathSurvey<'a> {
    fabric: &'a Fabric,
    plan: &'a Plan,
    links: &'a HostPathLinks,
    sources: &'a HostSources,
}

impl PathSurvey<'_> {
    /// Adds the trees of LIDs in one block of the forwarding tables.
    fn add_block(&self, lids: &[(Lid, PortId)], found: &mut FoundPaths) {
        let switches = self.links.switches();
        let numbers = lids.iter().map(|&(lid, _)| lid);
        let columns = LftColumns::new(&self.plan.routing.lfts, switches, numbers);
        let mut tree = PathTree::default();
        let mut sls = vec![Sl(0); self.sources.paths().ports().len()];
        let mut before: Option<Leader<'_>> = None;
        for (&(lid, port), column) in lids.iter().zip(columns.iter()) {
            let Some(target) = self.fabric.switch_behind(port) else { continue };
            let policy = &*self.plan.routing.policy;
            let route_lid = self.plan.lids.route_lid(lid);
            let group = policy.destination_group(port, route_lid);
            let leader = Leader { target: target.index(), group, column };
            let is_new = before.is_none_or(|before| !before.shares_paths(&leader));
            if is_new {
                policy.path_sls_to_lid(self.sources.paths(), port, route_lid, Sl(0), &mut sls);
                tree.grow(self.links, target.index(), column);
                self.collect(&mut tree, column, &sls, found);
                before = Some(leader);
            }
            if self.plan.lids.base(port) == Some(lid) {
                self.count_lengths(&tree, target.index(), &mut found.lengths);
            }
            found.sls |= self.sls_at_target(target.index(), lid, port);
        }
    }

    fn count_lengths(&self, tree: &PathTree, target: usize, lengths: &mut [u64]) {
        for &switch in tree.outwards() {
            let hosts = self.sources.hosts(switch as usize);
            let others = hosts - u64::from(switch as usize == target).min(hosts);
            lengths[tree.depth(switch as usize)] += others;
        }
    }

    /// Collects the SLs of the paths to one LID from other switches, from the farthest switches to the nearest.
    /// `sls` are those from each source.
    fn collect(&self, tree: &mut PathTree, column: &[u8], sls: &[Sl], found: &mut FoundPaths) {
        let target = tree.target();
        for index in (0..tree.outwards().len()).rev() {
            let at = tree.outwards()[index] as usize;
            let mut passing = tree.take_passing(at);
            if at == target {
                found.sls |= passing;
                continue;
            }
            for (source, sl) in self.sources.at(at).iter().zip(&sls[self.sources.range(at)]) {
                let bit = 1 << (sl.0 & 0xF);
                passing |= bit;
                found.transits.mark(self.links, at, source.entries[0], column[at], bit);
            }
            let Some(next) = self.links.behind(at, column[at]) else { continue };
            let after = next.switch as usize;
            tree.pass(after, passing);
            if after != target {
                found.transits.mark(self.links, after, next.input, column[after], passing);
            }
        }
    }

    /// The SLs of paths between the hosts of one switch to one LID.
    fn sls_at_target(&self, target: usize, lid: Lid, destination: PortId) -> u16 {
        let others = self.sources.at(target).iter();
        let others = others.filter_map(|source| source.other_than(destination));
        let sls = others.map(|host| self.plan.path_sl(host, destination, lid, Sl(0)));
        sls.fold(0, |set, sl| set | 1 << (sl.0 & 0xF))
    }
}

/// A LID whose paths have been passed, at a switch with this index.
#[derive(Clone, Copy)]
struct Leader<'a> {
    target: usize,
    /// The class of the SLs to it.
    group: u32,
    column: &'a [u8],
}

impl Leader<'_> {
    /// True if the paths from other switches to both are the same, with the same SLs.
    fn shares_paths(&self, other: &Leader<'_>) -> bool {
        let at = self.target;
        self.target == other.target
            && self.group == other.group
            && self.column[..at] == other.column[..at]
            && self.column[at + 1..] == other.column[at + 1..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_listed_in_ascending_order() {
        assert!(numbers(0).is_empty());
        assert_eq!(numbers(0b1000_0000_0000_0101), [0, 2, 15]);
    }
}
