//! Completion of a placement under damage: switches that the discovery leaves out, because they are on
//! no face of four switches with all its cables.
//!
//! Each cable from such a switch to a placed one restricts it to the vacant neighbours of that one. A
//! switch to which all its cables leave one position is placed there. One with several positions stays
//! out, and so do two switches with the same single position.

use super::Placement;
use crate::fabric::{Fabric, SwitchId};
use crate::notes::{Note, counted};
use crate::plan::routing::torus::Lattice;
use crate::plan::routing::torus::cabling::Cabling;
use crate::plan::routing::torus::grid::Grid;
use crate::plan::routing::torus::lattice::{Direction, Position};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of switches that are named.
const MAX_LISTED_SWITCHES: usize = 8;
/// Maximum number of positions that are named for one switch.
const MAX_LISTED_POSITIONS: usize = 6;

/// A switch of the fabric at the position that a seed gives to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::plan::routing::torus) struct NamedSwitch {
    pub at: Position,
    pub switch: SwitchId,
}

impl<'a> Placement<'a> {
    /// The placement of which `grid` is the result.
    pub(in crate::plan::routing::torus) fn resume(
        grid: &'a Grid,
        cabling: &'a Cabling,
        portgroup_max_ports: u32,
    ) -> Self {
        let mut placement = Self::new(&grid.lattice, cabling, portgroup_max_ports);
        placement.switches.clone_from(&grid.switches);
        placement.order.clone_from(&grid.order);
        placement.adopt_all();
        placement
    }
}

impl Placement<'_> {
    /// Number of switches of the fabric without a position.
    pub(in crate::plan::routing::torus) fn unplaced_count(&self) -> usize {
        self.positions().iter().filter(|at| at.is_none()).count()
    }

    /// By switch: its position.
    fn positions(&self) -> Vec<Option<Position>> {
        let mut positions = vec![None; self.cabling.switch_count()];
        for at in self.lattice.positions() {
            if let Some(switch) = self.switches[at.index()] {
                positions[switch.index()] = Some(at);
            }
        }
        positions
    }

    /// True if each switch without a position fits a vacant one, and each cable outside the torus leads to
    /// such a switch. With wrong radices, whole rows of switches fit none.
    pub(in crate::plan::routing::torus) fn fits_lattice(&self) -> bool {
        let positions = self.positions();
        let placed = self.switches.iter().flatten();
        let mut links = placed.flat_map(|&switch| self.cabling.links(switch));
        unplaced(&positions).all(|switch| !self.candidates(&positions, switch).is_empty())
            && links.all(|l| !self.free.is_free(l.cable) || positions[l.peer.index()].is_none())
    }

    /// True if a switch of another placement has no position in this one.
    pub(in crate::plan::routing::torus) fn lacks_switch_of(&self, other: &Self) -> bool {
        let positions = self.positions();
        let mut switches = other.switches.iter().flatten();
        switches.any(|switch| positions[switch.index()].is_none())
    }

    /// Takes over the switches of another placement, unless the two contradict each other. Returns true
    /// if that adds a switch.
    pub(in crate::plan::routing::torus) fn merge(&mut self, other: &Self) -> bool {
        let own = self.positions();
        let others = other.positions();
        let placed_once = others.iter().flatten().count() == other.order.len();
        let is_consistent = placed_once
            && own
                .iter()
                .zip(&others)
                .all(|(own, other)| own.is_none() || other.is_none() || own == other)
            && other.order.iter().all(|&at| {
                let [here, there] =
                    [&self.switches, &other.switches].map(|found| found[at.index()]);
                here.is_none() || here == there
            });
        if !is_consistent {
            return false;
        }
        let new: Vec<Position> =
            other.order.iter().copied().filter(|at| self.switches[at.index()].is_none()).collect();
        for &at in &new {
            if let Some(switch) = other.switches[at.index()] {
                self.place(at, switch);
            }
        }
        if !new.is_empty() {
            self.discover_again();
        }
        !new.is_empty()
    }

    /// Places switches whose cables leave them one position, until there are no more.
    pub(in crate::plan::routing::torus) fn complete(&mut self) {
        loop {
            let positions = self.positions();
            let mut claims: BTreeMap<Position, Vec<SwitchId>> = BTreeMap::new();
            for switch in unplaced(&positions) {
                if let [only] = self.candidates(&positions, switch)[..] {
                    claims.entry(only).or_default().push(switch);
                }
            }
            claims.retain(|_, switches| switches.len() == 1);
            if claims.is_empty() {
                return;
            }
            for (at, switches) in claims {
                self.place(at, switches[0]);
            }
            self.discover_again();
        }
    }

    /// Places switches that seeds name, where their cables leave several positions. A seed of which a
    /// switch is elsewhere does not count, nor do seeds that contradict each other about a switch. Returns
    /// true if that adds a switch.
    pub(in crate::plan::routing::torus) fn place_named(
        &mut self,
        seeds: &[Vec<NamedSwitch>],
    ) -> bool {
        let positions = self.positions();
        let trusted = seeds
            .iter()
            .filter(|seed| seed.iter().all(|named| agrees(&positions, &self.switches, named)))
            .flatten();
        let mut by_position: BTreeMap<Position, BTreeSet<SwitchId>> = BTreeMap::new();
        let mut by_switch: BTreeMap<SwitchId, BTreeSet<Position>> = BTreeMap::new();
        for &NamedSwitch { at, switch } in trusted {
            by_position.entry(at).or_default().insert(switch);
            by_switch.entry(switch).or_default().insert(at);
        }
        let mut new = Vec::new();
        for (switch, places) in by_switch {
            let Some(&at) = places.first().filter(|_| places.len() == 1) else { continue };
            let is_settled = positions[switch.index()].is_none() && by_position[&at].len() == 1;
            if is_settled && self.candidates(&positions, switch).contains(&at) {
                new.push(NamedSwitch { at, switch });
            }
        }
        for &NamedSwitch { at, switch } in &new {
            self.place(at, switch);
        }
        if !new.is_empty() {
            self.discover_again();
        }
        !new.is_empty()
    }

    /// Adopts the cables between all neighbours, and continues the discovery.
    fn discover_again(&mut self) {
        self.adopt_all();
        self.settled.fill(false);
        self.discover();
    }

    fn adopt_all(&mut self) {
        for at in self.lattice.positions() {
            for axis in (0..3).filter(|&axis| self.lattice.is_active(axis)) {
                let up = Direction::plus(axis);
                if !self.lattice.is_edge(at, up) {
                    self.adopt([at, self.lattice.step(at, up)], axis);
                }
            }
        }
    }

    /// The vacant positions that all cables from a switch to placed ones allow, ascending. Empty without
    /// such a cable.
    fn candidates(&self, positions: &[Option<Position>], switch: SwitchId) -> Vec<Position> {
        let links = self.cabling.links(switch).iter();
        let neighbors = links.filter_map(|link| positions[link.peer.index()]);
        let allowed = neighbors.map(|at| self.vacant_neighbors(at));
        let common = allowed.reduce(|mut common, allowed| {
            common.retain(|at| allowed.contains(at));
            common
        });
        common.unwrap_or_default()
    }

    fn vacant_neighbors(&self, at: Position) -> Vec<Position> {
        let directions = Direction::ALL.into_iter().filter(|direction| {
            self.lattice.is_active(direction.axis()) && !self.lattice.is_edge(at, *direction)
        });
        let mut vacant: Vec<Position> = directions
            .map(|direction| self.lattice.step(at, direction))
            .filter(|next| self.switches[next.index()].is_none())
            .collect();
        vacant.sort_unstable();
        vacant.dedup();
        vacant
    }

    /// Warnings about switches that stay out of the torus, with the cable or seed that would settle
    /// their position.
    pub(in crate::plan::routing::torus) fn ambiguous(&self, fabric: &Fabric) -> Vec<Note> {
        let positions = self.positions();
        let mut notes: Vec<Note> =
            unplaced(&positions).map(|switch| self.ambiguity(fabric, &positions, switch)).collect();
        let more = notes.len().saturating_sub(MAX_LISTED_SWITCHES);
        if more > 0 {
            notes.truncate(MAX_LISTED_SWITCHES);
            let others = counted(more, "more switch stays", "more switches stay");
            notes.push(Note::warning(format!("{others} out of the torus")));
        }
        notes
    }

    fn ambiguity(&self, fabric: &Fabric, positions: &[Option<Position>], switch: SwitchId) -> Note {
        let node = fabric.switch(switch);
        let candidates = self.candidates(positions, switch);
        let is_linked =
            self.cabling.links(switch).iter().any(|l| positions[l.peer.index()].is_some());
        let reason = match (&candidates[..], is_linked) {
            ([], false) => "has no cable to a switch with a position".to_owned(),
            ([], true) => "has cables that fit no vacant position: check its cables".to_owned(),
            ([only], _) => {
                format!(
                    "and another switch both fit {} only",
                    position_list(self.lattice, &[*only])
                )
            }
            (several, _) => format!("fits {}", position_list(self.lattice, several)),
        };
        let wanted = self.settling_cable(fabric, switch, &candidates);
        Note::warning(format!(
            "switch {} \"{}\" {reason}: it and {} behind it stay out of the torus and cannot be reached; \
             {wanted}name it in the links of a seed of torus-2QoS.conf",
            node.guid(),
            node.name(),
            counted(self.cabling.hosts(switch).len(), "end port", "end ports"),
        ))
    }

    /// The repair of a cable that would tell which of several positions a switch has.
    fn settling_cable(&self, fabric: &Fabric, switch: SwitchId, candidates: &[Position]) -> String {
        let &[first, second, ..] = candidates else { return String::new() };
        let around = [first, second].into_iter().flat_map(|at| self.steps_from(at));
        let peers = around.filter(|&peer| {
            self.steps_from(first).any(|next| next == peer)
                != self.steps_from(second).any(|next| next == peer)
        });
        let mut names = peers.filter_map(|at| {
            let peer = self.switches[at.index()].filter(|&peer| !is_cabled(self.cabling, peer, switch))?;
            let node = fabric.switch(peer);
            let coordinates = self.lattice.coordinates(at);
            Some(format!(
                "repair its cable to {coordinates} (GUID {} \"{}\"), if it is one of its neighbours, or ",
                node.guid(),
                node.name()
            ))
        });
        names.next().unwrap_or_default()
    }

    /// The positions one step from `at`.
    fn steps_from(&self, at: Position) -> impl Iterator<Item = Position> + '_ {
        Direction::ALL
            .into_iter()
            .filter(move |&way| {
                self.lattice.is_active(way.axis()) && !self.lattice.is_edge(at, way)
            })
            .map(move |way| self.lattice.step(at, way))
    }
}

fn is_cabled(cabling: &Cabling, peer: SwitchId, switch: SwitchId) -> bool {
    cabling.links(switch).iter().any(|link| link.peer == peer)
}

fn position_list(lattice: &Lattice, places: &[Position]) -> String {
    let shown = places.iter().take(MAX_LISTED_POSITIONS);
    let shown: Vec<String> = shown.map(|&at| lattice.coordinates(at).to_string()).collect();
    let more = if places.len() > MAX_LISTED_POSITIONS { " or others" } else { "" };
    format!("{}{more}", shown.join(" or "))
}

fn agrees(
    positions: &[Option<Position>],
    switches: &[Option<SwitchId>],
    named: &NamedSwitch,
) -> bool {
    let known = positions[named.switch.index()];
    let holder = switches[named.at.index()];
    known.map_or(holder.is_none(), |at| at == named.at)
}

fn unplaced(positions: &[Option<Position>]) -> impl Iterator<Item = SwitchId> + '_ {
    let switches = positions.iter().zip(0..).filter(|(at, _)| at.is_none());
    switches.map(|(_, index)| SwitchId(index))
}
