//! Pairs of end ports whose packets a switch drops, because it has no entry for the destination.
//!
//! They do no harm to other packets, so a plan with such pairs is programmed, as OpenSM does, and
//! the operator is told how many there are. [`super::full`] counts them along the routes. For a
//! plan in which each switch with an entry for a LID delivers, [`survey`] counts them in the tables
//! alone; both counts are the same.

use super::endpoints::{Endpoint, SourcePorts};
use crate::fabric::{Fabric, PortId};
use crate::ids::Lid;
use crate::notes::{Note, counted};
use crate::plan::Plan;
use crate::plan::routing::Lft;
use crate::wire::attr::tables::LFT_NO_PATH;
use rayon::prelude::*;
use std::sync::Arc;

/// The pairs of source and destination without a route. Each LID of a destination counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UnroutedPairs {
    /// Pairs of ports that are not switch ports.
    pub hosts: usize,
    /// Pairs in which at least one end is port 0 of a switch: management packets only.
    pub with_switches: usize,
    /// The first pair, by the numbers of the source's switch and of the LID; one of hosts if there
    /// is one.
    pub first: Option<UnroutedPair>,
}

/// A pair without a route. The order of the fields defines which pair is the first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct UnroutedPair {
    with_switch: bool,
    /// The switch of the source.
    switch: u32,
    pub lid: Lid,
    pub source: PortId,
}

impl UnroutedPairs {
    pub fn is_empty(&self) -> bool {
        self.hosts == 0 && self.with_switches == 0
    }

    /// Adds the pairs of the sources at `switch` and a destination.
    pub(super) fn add(
        &mut self,
        fabric: &Fabric,
        switch: usize,
        sources: &SourcePorts,
        to: &Endpoint,
    ) {
        for &source in sources.ports.iter().filter(|&&source| source != to.port) {
            let with_switch = to.is_switch() || fabric.node_of(source).is_switch();
            if with_switch {
                self.with_switches += 1
            } else {
                self.hosts += 1
            }
            let pair = UnroutedPair { with_switch, switch: switch as u32, lid: to.lid, source };
            if self.first.is_none_or(|first| pair < first) {
                self.first = Some(pair);
            }
        }
    }

    pub(super) fn append(&mut self, other: &Self) {
        self.hosts += other.hosts;
        self.with_switches += other.with_switches;
        self.first = self.first.into_iter().chain(other.first).min();
    }

    /// The numbers of pairs in words; `None` without a pair.
    pub fn counted(&self) -> Option<String> {
        let hosts = counted(self.hosts, "pair of hosts", "pairs of hosts");
        let switches = counted(self.with_switches, "pair with a switch", "pairs with a switch");
        match (self.hosts, self.with_switches) {
            (0, 0) => None,
            (0, _) => Some(switches),
            (_, 0) => Some(hosts),
            _ => Some(format!("{hosts} and {switches}")),
        }
    }

    /// The warning about these pairs. Pairs with switches are worth none if the engine omits
    /// routes of switches by design.
    pub(super) fn note(&self, fabric: &Fabric, plan: &Plan) -> Option<Note> {
        let policy = &plan.routing.policy;
        if self.hosts == 0 && policy.may_omit_switch_routes() {
            return None;
        }
        let UnroutedPair { lid, source, .. } = self.first?;
        let what = self.counted()?;
        let destination = plan.lids.port(lid).map_or_else(String::new, |to| fabric.describe(to));
        let source = fabric.describe(source);
        let engine = plan.routing.engine;
        let remedy = policy.unrouted_remedy();
        Some(Note::warning(format!(
            "routing engine {engine} leaves {what} without a route, the first from {source} to LID \
             {lid} of {destination}; their packets are dropped, and path queries for them get no \
             records; {remedy}"
        )))
    }
}

/// Counts the pairs without a route in the forwarding tables, by switch. A destination that is not
/// among `destinations` does not count.
pub(super) fn survey<'a>(
    fabric: &Fabric,
    tables: &[Arc<Lft>],
    sources: &[SourcePorts],
    destinations: impl Iterator<Item = &'a Endpoint>,
) -> UnroutedPairs {
    let mut by_lid: Vec<Option<&Endpoint>> = Vec::new();
    for to in destinations {
        if by_lid.len() <= to.lid.index() {
            by_lid.resize(to.lid.index() + 1, None);
        }
        by_lid[to.lid.index()] = Some(to);
    }
    let is_wanted: Vec<bool> = by_lid.iter().map(Option::is_some).collect();
    let counts = tables.par_iter().zip(sources).enumerate().map(|(switch, (table, here))| {
        let mut pairs = UnroutedPairs::default();
        if here.ports.is_empty() {
            return pairs;
        }
        let entries = table.entries().chain(std::iter::repeat(LFT_NO_PATH));
        for (lid, (port, &is_wanted)) in entries.zip(&is_wanted).enumerate() {
            if port == LFT_NO_PATH
                && is_wanted
                && let Some(to) = by_lid[lid]
            {
                pairs.add(fabric, switch, here, to);
            }
        }
        pairs
    });
    counts.reduce(UnroutedPairs::default, |mut all, part| {
        all.append(&part);
        all
    })
}
