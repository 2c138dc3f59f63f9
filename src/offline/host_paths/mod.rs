//! The paths between all hosts: how many there are of each length, their SLs, and the VLs that they
//! use between switches.
//!
//! Paths to one LID form a tree towards its switch. Each tree is passed twice: outwards for the
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
use crate::verify::MAX_PATH_SWITCHES;
use crate::wire::attr::tables::{LFT_BLOCK, LFT_NO_PATH};
use links::{Links, Sources};
use rayon::prelude::*;
use transits::Transits;
use tree::Tree;

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
        let links = Links::new(fabric);
        let sources = Sources::new(fabric, plan);
        let survey = Survey { fabric, plan, links: &links, sources: &sources };
        let is_host = |port: PortId| !fabric.node_of(port).is_switch();
        let lids: Vec<(Lid, PortId)> =
            plan.lids.iter().filter(|&(_, port)| is_host(port)).collect();
        let blocks: Vec<&[(Lid, PortId)]> =
            lids.chunk_by(|one, two| block_of(one.0) == block_of(two.0)).collect();
        let empty = || Found::empty(&links);
        let add = |mut found: Found, block: &&[(Lid, PortId)]| {
            survey.add_block(block, &mut found);
            found
        };
        let mut found = blocks.par_iter().fold(empty, add).reduce(empty, Found::with);
        found.transits.add_entries(&links, &sources);
        let lengths = found.lengths.into_iter().enumerate().filter(|&(_, paths)| paths > 0);
        Self {
            lengths: lengths.map(|(switches, paths)| HopCount { switches, paths }).collect(),
            sls: found.sls,
            vls: found.transits.vls(fabric, plan, &links),
        }
    }
}

/// The numbers of a set of SLs or VLs.
pub(super) fn numbers(set: u16) -> Vec<u8> {
    (0..16).filter(|bit| set >> bit & 1 == 1).collect()
}

fn block_of(lid: Lid) -> usize {
    lid.index() / LFT_BLOCK
}

/// What the trees seen so far have.
struct Found {
    /// Number of paths by length in switches.
    lengths: Vec<u64>,
    sls: u16,
    transits: Transits,
}

impl Found {
    fn empty(links: &Links) -> Self {
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

struct Survey<'a> {
    fabric: &'a Fabric,
    plan: &'a Plan,
    links: &'a Links,
    sources: &'a Sources,
}

impl Survey<'_> {
    /// Adds the trees of LIDs in one block of the forwarding tables.
    fn add_block(&self, lids: &[(Lid, PortId)], found: &mut Found) {
        let columns = self.columns(lids);
        let mut tree = Tree::default();
        for (index, &(lid, port)) in lids.iter().enumerate() {
            let Some(target) = self.fabric.switch_behind(port) else { continue };
            tree.grow(self.links, target.index(), &columns[index]);
            if self.plan.lids.base(port) == Some(lid) {
                self.count_lengths(&tree, target.index(), &mut found.lengths);
            }
            self.collect(&mut tree, (lid, port), &columns[index], found);
        }
    }

    /// For each LID of a block, the output port of each switch.
    fn columns(&self, lids: &[(Lid, PortId)]) -> Vec<Vec<u8>> {
        let switches = self.links.switches();
        let mut columns = vec![vec![LFT_NO_PATH; switches]; lids.len()];
        for (switch, table) in self.plan.routing.lfts.iter().enumerate().take(switches) {
            for (column, &(lid, _)) in columns.iter_mut().zip(lids) {
                column[switch] = table.entry(lid);
            }
        }
        columns
    }

    fn count_lengths(&self, tree: &Tree, target: usize, lengths: &mut [u64]) {
        for &switch in tree.outwards() {
            let hosts = self.sources.hosts(switch as usize);
            let others = hosts - u64::from(switch as usize == target).min(hosts);
            lengths[tree.depth(switch as usize)] += others;
        }
    }

    /// Collects the SLs of the paths to one LID, from the farthest switches to the nearest.
    fn collect(
        &self,
        tree: &mut Tree,
        (lid, destination): (Lid, PortId),
        column: &[u8],
        found: &mut Found,
    ) {
        let policy = &*self.plan.routing.policy;
        let target = tree.target();
        for index in (0..tree.outwards().len()).rev() {
            let at = tree.outwards()[index] as usize;
            let mut passing = tree.take_passing(at);
            for source in self.sources.at(at) {
                let Some(host) = source.other_than(destination) else { continue };
                let sl = policy.path_sl_to_lid(host, destination, lid, Sl(0));
                let bit = 1 << (sl.0 & 0xF);
                passing |= bit;
                if at != target {
                    found.transits.mark(self.links, at, (source.entries[0], column[at]), bit);
                }
            }
            if at == target {
                found.sls |= passing;
                continue;
            }
            let Some(next) = self.links.behind(at, column[at]) else { continue };
            let after = next.switch as usize;
            tree.pass(after, passing);
            if after != target {
                found.transits.mark(self.links, after, (next.input, column[after]), passing);
            }
        }
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
