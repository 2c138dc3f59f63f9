//! The forwarding tables.

use super::levels::Host;
use super::levels::{Bundle, Levels};
use super::numbering::Numbering;
use crate::fabric::Fabric;
use crate::fabric::SwitchId;
use crate::fabric::node_names::NodeName;
use crate::ids::Lid;
use crate::plan::routing::{Lft, RoutingInput};
use crate::wire::attr::tables::LFT_NO_PATH;
use rayon::prelude::*;
use std::sync::Arc;

/// The distance of switches that do not reach the destination up and down.
const NO_PATH: u32 = u32::MAX;

/// A LID and the output port of each switch.
struct Column {
    lid: Lid,
    ports: Vec<u8>,
}

/// A LID of the switch to which routes lead, or of a host there.
struct PqftTarget {
    lid: Lid,
    /// The number that selects parents and cables.
    number: u64,
    /// Added to the quotients: the offset of the LID to the base LID.
    offset: u64,
    /// The port of the switch that leads to the host; 0 for the switch itself.
    exit: u8,
}

/// The tables of all switches, or the leaf switches that have no common ancestor.
pub(super) fn tables(
    input: &RoutingInput<'_>,
    levels: &Levels,
    numbering: &Numbering,
) -> Result<Vec<Arc<Lft>>, String> {
    let mut by_level: Vec<SwitchId> = levels.switches().collect();
    by_level.sort_by_key(|&switch| std::cmp::Reverse(levels.of(switch)));
    let destinations: Vec<SwitchId> = levels.switches().collect();
    let columns: Result<Vec<Vec<Column>>, String> = destinations
        .into_par_iter()
        .map(|to| {
            let tree = UpDownPaths::new(levels, numbering, &by_level, to);
            if let Some(from) = tree.cut_off_leaf() {
                return Err(format!(
                    "\"{}\" and \"{}\" have hosts and no common switch above them",
                    switch_name(input.fabric, from),
                    switch_name(input.fabric, to)
                ));
            }
            let targets = targets(input, levels, numbering, to);
            Ok(targets.iter().map(|target| tree.column(target)).collect())
        })
        .collect();
    let columns = columns?;
    let count = input.fabric.switches().len();
    let entries = (0..count).into_par_iter().map(|switch| {
        let mut entries = Lft::unused_entries(input.lids.max());
        for column in columns.iter().flatten() {
            entries[column.lid.index()] = column.ports[switch];
        }
        entries
    });
    Ok(Lft::shared(entries.collect()))
}

fn switch_name(fabric: &Fabric, switch: SwitchId) -> NodeName<'_> {
    fabric.switch(switch).name()
}

/// The LIDs at a switch.
fn targets(
    input: &RoutingInput<'_>,
    levels: &Levels,
    numbering: &Numbering,
    at: SwitchId,
) -> Vec<PqftTarget> {
    let first = numbering.first[at.index()];
    let own = input.fabric.switch(at).first_port;
    let base = input.lids.base(own).into_iter();
    let mut targets: Vec<PqftTarget> =
        base.flat_map(|base| targets_of_port(base, 1 << input.lids.lmc(own), first, 0)).collect();
    for (host, slot) in levels.hosts[at.index()].iter().zip(&numbering.slots[at.index()]) {
        targets.extend(targets_of_port(host.base, host.lids, first + slot, host.switch_port));
    }
    targets
}

fn targets_of_port(
    base: Lid,
    count: u16,
    number: u64,
    exit: u8,
) -> impl Iterator<Item = PqftTarget> {
    (0..count).map(move |offset| {
        let lid = Lid(base.0 + offset);
        PqftTarget { lid, number, offset: offset.into(), exit }
    })
}

/// The paths up and down to one switch.
struct UpDownPaths<'a> {
    levels: &'a Levels,
    numbering: &'a Numbering,
    to: SwitchId,
    /// By switch: the hops to the destination.
    hops: Vec<u32>,
    /// By switch: the destination is below it.
    is_above: Vec<bool>,
}

impl<'a> UpDownPaths<'a> {
    /// `by_level` are all switches, from the highest level to the lowest.
    fn new(
        levels: &'a Levels,
        numbering: &'a Numbering,
        by_level: &[SwitchId],
        to: SwitchId,
    ) -> Self {
        let mut hops = vec![NO_PATH; levels.by_switch.len()];
        let mut is_above = vec![false; hops.len()];
        hops[to.index()] = 0;
        for &switch in by_level.iter().rev() {
            if levels.of(switch) <= levels.of(to) {
                continue;
            }
            if levels.down[switch.index()].iter().any(|bundle| reaches(&is_above, bundle, to)) {
                is_above[switch.index()] = true;
                hops[switch.index()] = levels.of(switch) - levels.of(to);
            }
        }
        for &switch in by_level.iter().filter(|&&switch| switch != to) {
            if !is_above[switch.index()] {
                let parents = levels.up[switch.index()].iter();
                let nearest = parents.map(|parent| hops[parent.to.index()]).min();
                hops[switch.index()] = nearest.map_or(NO_PATH, |hops| hops.saturating_add(1));
            }
        }
        Self { levels, numbering, to, hops, is_above }
    }

    /// A leaf switch with hosts that does not reach a leaf switch with hosts.
    fn cut_off_leaf(&self) -> Option<SwitchId> {
        let levels = self.levels;
        if levels.of(self.to) != 0 || !has_hosts(&levels.hosts, self.to) {
            return None;
        }
        let mut leaves = levels.leaves().filter(|&leaf| has_hosts(&levels.hosts, leaf));
        leaves.find(|leaf| self.hops[leaf.index()] == NO_PATH)
    }

    fn column(&self, target: &PqftTarget) -> Column {
        let ports = self.levels.switches().map(|switch| self.port(switch, target));
        Column { lid: target.lid, ports: ports.collect() }
    }

    /// The output port of a switch.
    fn port(&self, switch: SwitchId, target: &PqftTarget) -> u8 {
        if switch == self.to {
            return target.exit;
        }
        let own = self.hops[switch.index()];
        if own == NO_PATH {
            return LFT_NO_PATH;
        }
        let level = self.levels.of(switch) as usize;
        let quotient = target.number / self.numbering.divisors[level] + target.offset;
        if self.is_above[switch.index()] {
            let children = self.levels.down[switch.index()].iter();
            return select(
                quotient,
                children.filter(|child| child.to == self.to || self.is_above[child.to.index()]),
            );
        }
        let bundles = &self.levels.up[switch.index()];
        let parents = self.numbering.parents[switch.index()].iter().map(|&at| &bundles[at]);
        select(quotient, parents.filter(|bundle| self.hops[bundle.to.index()] == own - 1))
    }
}

fn has_hosts(hosts: &[Vec<Host>], switch: SwitchId) -> bool {
    !hosts[switch.index()].is_empty()
}

fn reaches(is_above: &[bool], bundle: &Bundle, to: SwitchId) -> bool {
    bundle.to == to || is_above[bundle.to.index()]
}

/// The port that a quotient selects: its remainder the bundle, the rest of it the cable.
fn select<'a>(quotient: u64, bundles: impl Iterator<Item = &'a Bundle> + Clone) -> u8 {
    let count = bundles.clone().count() as u64;
    if count == 0 {
        return LFT_NO_PATH;
    }
    let mut bundles = bundles.skip((quotient % count) as usize);
    let Some(bundle) = bundles.next() else { return LFT_NO_PATH };
    let cable = quotient / count % bundle.ports.len() as u64;
    bundle.ports[cable as usize]
}
