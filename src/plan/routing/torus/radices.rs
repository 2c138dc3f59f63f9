//! Radices of the configuration that are not those of the fabric.
//!
//! A radix above that of the fabric leaves whole layers of the lattice without a switch, and the
//! cables that close the rings outside the torus. One below it leaves layers of switches outside the
//! torus, with cables to both sides of the same gap of all rings.

use super::cabling::Cabling;
use super::grid::Grid;
use super::lattice::{AXIS_NAMES, Direction, Position};
use crate::config::torus::TorusSize;
use crate::fabric::{Fabric, SwitchId};
use std::collections::{BTreeMap, BTreeSet};

/// A radix that does not fit the fabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct WrongRadix {
    axis: usize,
    configured: u32,
    /// The radix of the fabric.
    wired: u32,
    /// True if the switches of the fabric form rings along the axis.
    closes: bool,
    /// False if failed switches could look the same.
    is_certain: bool,
}

/// The radices that do not fit the fabric.
pub(super) struct WrongRadices {
    size: TorusSize,
    found: Vec<WrongRadix>,
}

impl WrongRadices {
    /// Compares the radices with the fabric. `leftover` are the cables outside the torus, as indices
    /// into [`Cabling::cables`].
    pub(super) fn find(
        fabric: &Fabric,
        grid: &Grid,
        cabling: &Cabling,
        leftover: &[usize],
    ) -> Self {
        let lattice = &grid.lattice;
        let size = lattice.size();
        let is_complete = grid.order.len() == lattice.len();
        if is_complete && grid.order.len() == cabling.switch_count() {
            return Self { size, found: Vec::new() };
        }
        let mut free: BTreeMap<SwitchId, Vec<SwitchId>> = BTreeMap::new();
        for &cable in leftover {
            let [a, b] = cabling.cables[cable].map(|port| fabric.node_of(port).switch);
            let (Some(a), Some(b)) = (a, b) else { continue };
            free.entry(a).or_default().push(b);
            free.entry(b).or_default().push(a);
        }
        let outside = OutsideTorus { grid, free };
        let axes = (0..3).filter(|&axis| lattice.is_active(axis));
        let mut found: Vec<WrongRadix> = axes
            .filter_map(|axis| outside.too_large(axis).or_else(|| outside.too_small(axis)))
            .collect();
        // Layers without a switch mean nothing if switches could not be placed.
        let are_all_placed = grid.order.len() == cabling.switch_count();
        found.retain(|wrong| wrong.is_certain || are_all_placed);
        Self { size, found }
    }

    /// The radices that are certainly wrong, with the remedy.
    pub(super) fn fault(&self) -> Option<String> {
        let certain: Vec<_> = self.found.iter().filter(|wrong| wrong.is_certain).collect();
        (!certain.is_empty()).then(|| {
            let what: Vec<String> = certain.iter().map(|wrong| wrong.text()).collect();
            format!(
                "{}: write `{}` in torus-2QoS.conf",
                what.join("; "),
                self.wired(certain.iter().copied())
            )
        })
    }

    /// A radix that may be wrong, if none is for certain.
    pub(super) fn doubt(&self) -> Option<String> {
        let wrong = self.found.first().filter(|_| self.fault().is_none())?;
        let name = AXIS_NAMES[wrong.axis];
        Some(format!(
            "the lattice has layers along {name} without any switch: if the fabric has only {} \
             switches along {name}, write `{}` in torus-2QoS.conf",
            wrong.wired,
            self.wired([wrong].into_iter())
        ))
    }

    /// The size with the radices of the fabric.
    fn wired<'a>(&self, wrong: impl Iterator<Item = &'a WrongRadix>) -> TorusSize {
        let mut size = self.size;
        for wrong in wrong {
            size.radix[wrong.axis] = wrong.wired;
            size.looped[wrong.axis] = wrong.closes && wrong.wired > 2;
        }
        size
    }
}

impl WrongRadix {
    fn text(&self) -> String {
        let Self { axis, configured, wired, .. } = *self;
        let name = AXIS_NAMES[axis];
        if self.closes {
            return format!(
                "the {name} radix is configured as {configured}, but the {name} rings of the fabric \
                 close after {wired} switches"
            );
        }
        format!(
            "the {name} radix is configured as {configured}, but the {name} lines of the fabric have \
             {wired} switches"
        )
    }
}

/// The parts of the fabric outside the torus.
struct OutsideTorus<'a> {
    grid: &'a Grid,
    /// By switch: switches at the far ends of its cables outside the torus.
    free: BTreeMap<SwitchId, Vec<SwitchId>>,
}

impl OutsideTorus<'_> {
    fn neighbors(&self, switch: SwitchId) -> impl Iterator<Item = SwitchId> + '_ {
        self.free.get(&switch).into_iter().flatten().copied()
    }

    fn is_placed(&self, switch: SwitchId) -> bool {
        self.grid.positions[switch.index()].is_some()
    }

    /// Positions with a switch whose coordinate along `axis` is `coordinate`.
    fn layer(&self, axis: usize, coordinate: u32) -> impl Iterator<Item = (Position, SwitchId)> {
        let lattice = &self.grid.lattice;
        let lines = lattice.lines(axis).map(move |first| lattice.with(first, axis, coordinate));
        lines.filter_map(|at| Some((at, self.grid.switch(at)?)))
    }

    /// A radix with layers that have no switch, if these follow each other.
    fn too_large(&self, axis: usize) -> Option<WrongRadix> {
        let lattice = &self.grid.lattice;
        let configured = lattice.radix(axis);
        let is_looped = lattice.is_looped(axis);
        // In an open dimension the layers begin anew behind its end.
        let firsts: Vec<u32> = (0..configured)
            .filter(|&c| {
                !self.is_empty(c, axis) && self.is_empty((c + configured - 1) % configured, axis)
            })
            .collect();
        let [first] = firsts[..] else { return None };
        let wired = (0..configured).filter(|&c| !self.is_empty(c, axis)).count() as u32;
        let last = (first + wired - 1) % configured;
        if !is_looped && last < first {
            return None;
        }
        let ends = self.layer(axis, last).filter_map(|(at, upper)| {
            Some([upper, self.grid.switch(lattice.with(at, axis, first))?])
        });
        let [mut lines, mut closed] = [0; 2];
        for [upper, lower] in ends {
            lines += 1;
            closed += usize::from(self.neighbors(upper).any(|far| far == lower));
        }
        let closes = wired > 2 && 2 * closed > lines;
        if wired < 2 {
            return None;
        }
        Some(WrongRadix { axis, configured, wired, closes, is_certain: closes })
    }

    /// A radix for which switches outside the torus lie between the two sides of the same gap of most
    /// rings, or behind the same end of most lines.
    fn too_small(&self, axis: usize) -> Option<WrongRadix> {
        let lattice = &self.grid.lattice;
        let configured = lattice.radix(axis);
        let gap = (0..configured).find(|&coordinate| {
            let [mut lines, mut open] = [0; 2];
            for (at, switch) in self.layer(axis, coordinate) {
                lines += 1;
                let is_gap = !self.grid.has_cable(at, Direction::plus(axis));
                open += usize::from(is_gap && self.leads_outside(switch));
            }
            2 * open > lines
        })?;
        let beyond = (gap + 1) % configured;
        let lower: BTreeSet<SwitchId> =
            self.layer(axis, beyond).map(|(_, switch)| switch).collect();
        let mut seen: BTreeSet<SwitchId> = BTreeSet::new();
        let mut layer: BTreeSet<SwitchId> =
            self.layer(axis, gap).map(|(_, switch)| switch).collect();
        let mut added = 0;
        loop {
            let reached: BTreeSet<SwitchId> =
                layer.iter().flat_map(|&switch| self.neighbors(switch)).collect();
            let closes = added > 0 && reached.iter().any(|far| lower.contains(far));
            let next = reached.into_iter();
            let next: BTreeSet<SwitchId> =
                next.filter(|far| !self.is_placed(*far) && !seen.contains(far)).collect();
            if closes || next.is_empty() {
                let is_looped = lattice.is_looped(axis);
                // A ring continues as one; otherwise the switches are stray.
                return (closes || !is_looped && beyond == 0).then_some(WrongRadix {
                    axis,
                    configured,
                    wired: configured + added,
                    closes,
                    is_certain: true,
                });
            }
            seen.extend(&next);
            layer = next;
            added += 1;
        }
    }

    fn is_empty(&self, coordinate: u32, axis: usize) -> bool {
        self.layer(axis, coordinate).next().is_none()
    }

    fn leads_outside(&self, switch: SwitchId) -> bool {
        self.neighbors(switch).any(|far| !self.is_placed(far))
    }
}
