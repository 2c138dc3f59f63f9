//! Groups of ports for adaptive routing: the ports among which a switch may choose for a destination.
//!
//! The port of the forwarding table, the *static port*, is always a member of the group. A group has at
//! least two ports; where there is no other, the entry stays static. [`EquivalenceRule`] says which ports are
//! equivalent, `rules` finds them, and `numbering` gives the groups of a switch numbers that later plans
//! keep.
//!
//! The groups of a switch are few: they are stored once, with a number for each port or for each
//! destination switch, never for each pair of LIDs. Whether packets may really use them is the subject of
//! [`crate::verify::adaptive`], which masks destinations ([`AdaptiveGroups::mask`]).

pub mod modes;
mod numbering;
mod rules;

use super::Plan;
use super::routing::PortMask;
use crate::fabric::{Fabric, SwitchId};
use crate::ids::Lid;
use numbering::GroupNumbering;
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The largest number of groups of a switch, group 0 included, which stays empty.
pub const MAX_GROUPS: u16 = 4_095;

/// The largest number of switches on a path by groups, as verification requires.
const MAX_PATH_SWITCHES: u8 = 64;

/// Which ports of a switch are equivalent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EquivalenceRule {
    /// All cables to the same neighbour.
    ParallelCables,
    /// All ports on shortest paths that go up, then down, as the routes do.
    UpDown,
    /// All ports on shortest paths.
    ShortestPaths,
}

impl EquivalenceRule {
    /// The rule for the routes of an engine.
    pub fn of(engine: &str) -> Self {
        match engine {
            "updn" | "ftree" => Self::UpDown,
            "minhop" => Self::ShortestPaths,
            _ => Self::ParallelCables,
        }
    }

    /// The name of the rule in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::ParallelCables => "parallel cables",
            Self::UpDown => "up-down paths",
            Self::ShortestPaths => "shortest paths",
        }
    }
}

/// How the group of an entry is found.
#[derive(Clone, PartialEq, Eq, Debug)]
enum GroupNumbers {
    /// By static port.
    ByPort(Vec<u16>),
    /// By destination switch.
    ByDestination(Vec<u16>),
}

/// The groups of a switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SwitchGroups {
    /// The ports of each group, by number. Group 0 and unused numbers are empty.
    masks: Vec<PortMask>,
    numbers: GroupNumbers,
}

impl SwitchGroups {
    /// The ports of each group, by number. Group 0 and unused numbers are empty.
    pub fn masks(&self) -> &[PortMask] {
        &self.masks
    }

    /// The numbers of the groups with ports.
    pub fn used(&self) -> impl Iterator<Item = u16> + '_ {
        let numbered = (0..).zip(&self.masks);
        numbered.filter(|(_, mask)| !mask.is_empty()).map(|(number, _)| number)
    }

    /// The ports that stand for a port whatever the destination is; the port alone if that depends on the
    /// destination.
    pub fn ports_by_port(&self, port: u8) -> PortMask {
        let number = match &self.numbers {
            GroupNumbers::ByPort(_) => self.number(NO_SWITCH, port),
            GroupNumbers::ByDestination(_) => 0,
        };
        if number > 0 { self.masks[usize::from(number)] } else { PortMask::only(port) }
    }

    /// The group of an entry, 0 if it has none.
    fn number(&self, destination: u32, port: u8) -> u16 {
        let number = match &self.numbers {
            GroupNumbers::ByPort(numbers) => numbers.get(usize::from(port)),
            GroupNumbers::ByDestination(numbers) => numbers.get(destination as usize),
        };
        let number = number.copied().unwrap_or(0);
        let is_member = self.masks.get(usize::from(number)).is_some_and(|mask| mask.contains(port));
        if is_member { number } else { 0 }
    }
}

/// The groups of all switches of a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AdaptiveGroups {
    pub rule: EquivalenceRule,
    switches: Vec<Arc<SwitchGroups>>,
    /// The switch behind each LID; [`NO_SWITCH`] for LIDs that no port has.
    destinations: Arc<Vec<u32>>,
    /// LIDs whose entries are static in all switches.
    masked: BTreeSet<Lid>,
    /// Switches with more groups than their tables hold.
    pub limited: Vec<SwitchId>,
}

/// Marks LIDs without a switch.
const NO_SWITCH: u32 = u32::MAX;

/// The input of the groups.
#[derive(Clone, Copy)]
pub struct GroupsInput<'a> {
    pub fabric: &'a Fabric,
    pub plan: &'a Plan,
    /// The groups that a switch had before, by number: equal or similar groups keep their numbers.
    pub before: &'a (dyn Fn(SwitchId) -> Vec<PortMask> + Sync),
    /// The number of groups that a switch holds, group 0 included.
    pub capacity: &'a (dyn Fn(SwitchId) -> u16 + Sync),
}

impl<'a> GroupsInput<'a> {
    /// The input for switches without earlier groups, with tables of the largest size.
    pub fn new(fabric: &'a Fabric, plan: &'a Plan) -> Self {
        Self { fabric, plan, before: &|_| Vec::new(), capacity: &|_| MAX_GROUPS }
    }

    /// The groups for the routes of the plan.
    pub fn groups(&self) -> AdaptiveGroups {
        let Self { fabric, plan, .. } = *self;
        let destinations = destinations(fabric, plan);
        let candidates = rules::Candidates::find(fabric, plan);
        let rule = candidates.rule();
        let parts: Vec<(SwitchGroups, bool)> = (0..fabric.switches().len() as u32)
            .into_par_iter()
            .map(SwitchId)
            .map(|switch| self.of_switch(switch, &candidates, &destinations))
            .collect();
        let limited = fabric
            .switch_ids()
            .zip(&parts)
            .filter(|(_, (_, is_limited))| *is_limited)
            .map(|(id, _)| id);
        AdaptiveGroups {
            rule,
            limited: limited.collect(),
            switches: parts.into_iter().map(|(groups, _)| Arc::new(groups)).collect(),
            destinations: Arc::new(destinations),
            masked: BTreeSet::new(),
        }
    }

    /// The groups of a switch, and true if some of the candidates are none for lack of space.
    fn of_switch(
        &self,
        switch: SwitchId,
        candidates: &rules::Candidates<'_>,
        destinations: &[u32],
    ) -> (SwitchGroups, bool) {
        let sets = candidates.of_switch(switch);
        let capacity = usize::from((self.capacity)(switch).min(MAX_GROUPS)).saturating_sub(1);
        let is_limited = sets.masks.len() > capacity;
        let kept = if is_limited {
            let uses = self.uses(switch, &sets, destinations);
            numbering::most_used(&uses, capacity)
        } else {
            (0..sets.masks.len()).collect()
        };
        let mut numbering = GroupNumbering::new(&(self.before)(switch), capacity);
        let numbers = numbering.assign(&sets.masks, &kept);
        let mut masks = vec![PortMask::default(); 1];
        for (mask, &number) in sets.masks.iter().zip(&numbers) {
            let number = usize::from(number);
            if number > 0 {
                masks.resize(masks.len().max(number + 1), PortMask::default());
                masks[number] = *mask;
            }
        }
        let numbers = match sets.by_port {
            Some(by_port) => GroupNumbers::ByPort(renumbered(&numbers, by_port)),
            None => GroupNumbers::ByDestination(renumbered(&numbers, sets.by_destination)),
        };
        (SwitchGroups { masks, numbers }, is_limited)
    }

    /// The number of entries of a switch that would use each set of ports.
    fn uses(&self, switch: SwitchId, sets: &rules::Sets, destinations: &[u32]) -> Vec<usize> {
        let lft = self.plan.routing.lft(switch);
        let mut uses = vec![0; sets.masks.len()];
        for (lid, _) in self.plan.lids.iter() {
            let port = lft.entry(lid);
            let set = match &sets.by_port {
                Some(by_port) => by_port.get(usize::from(port)),
                None => sets.by_destination.get(destinations[lid.index()] as usize),
            };
            let set = set.copied().unwrap_or(0);
            if let Some(set) = usize::from(set).checked_sub(1)
                && sets.masks[set].contains(port)
            {
                uses[set] += 1;
            }
        }
        uses
    }
}

fn renumbered(numbers: &[u16], sets: Vec<u16>) -> Vec<u16> {
    sets.into_iter()
        .map(|set| match usize::from(set).checked_sub(1) {
            Some(set) => numbers[set],
            None => 0,
        })
        .collect()
}

fn destinations(fabric: &Fabric, plan: &Plan) -> Vec<u32> {
    let mut destinations = vec![NO_SWITCH; plan.lids.max().index() + 1];
    for (lid, port) in plan.lids.iter() {
        destinations[lid.index()] = fabric.switch_behind(port).map_or(NO_SWITCH, |switch| switch.0);
    }
    destinations
}

impl AdaptiveGroups {
    /// The groups of a switch.
    pub fn of(&self, switch: SwitchId) -> &Arc<SwitchGroups> {
        &self.switches[switch.index()]
    }

    /// The number of the group of an entry with this static port; 0 if the entry is static.
    pub fn number(&self, switch: SwitchId, lid: Lid, port: u8) -> u16 {
        if self.masked.contains(&lid) {
            return 0;
        }
        let destination = self.destinations.get(lid.index()).copied().unwrap_or(NO_SWITCH);
        self.switches[switch.index()].number(destination, port)
    }

    /// The ports of the group of an entry; the static port alone if the entry is static.
    pub fn ports(&self, switch: SwitchId, lid: Lid, port: u8) -> PortMask {
        match self.number(switch, lid, port) {
            0 => PortMask::only(port),
            number => self.switches[switch.index()].masks[usize::from(number)],
        }
    }

    /// Makes all entries for a LID static.
    pub fn mask(&mut self, lid: Lid) {
        self.masked.insert(lid);
    }

    /// The LIDs whose entries are static.
    pub fn masked(&self) -> &BTreeSet<Lid> {
        &self.masked
    }

    /// The number of groups of all switches.
    pub fn count(&self) -> usize {
        self.switches.iter().map(|groups| groups.used().count()).sum()
    }

    /// True if the group of an entry depends on its static port only.
    pub fn are_by_port(&self) -> bool {
        self.rule == EquivalenceRule::ParallelCables
    }
}
