//! Multicast: one spanning tree for the whole torus, of which each group uses a part.
//!
//! The tree runs along x from the root, from there along y, from there along z. Its turns are those
//! of unicast routing, so that both together close no cycle of channel dependencies. In a torus
//! without failures no branch crosses a dateline and the root is the centre.

use super::Lattice;
use super::grid::Grid;
use super::lattice::{Direction, Position};
use super::part_names::PartNames;
use super::repair::SpanningTree;
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::{Guid, Mlid};
use crate::notes::{Note, counted};
use crate::plan::routing::{MulticastTree, PortMask};
use std::collections::BTreeMap;

/// Maximum number of switches listed one by one.
const MAX_LISTED_SWITCHES: usize = 16;

/// Number of switches that the spanning tree does not reach: all of them if it has no root.
pub(super) fn unreached(grid: &Grid) -> usize {
    match GrowingTree::build_from_root(grid) {
        Some((root, builder)) => builder.unreached(root).count(),
        None => grid.order.len().max(1),
    }
}

/// The spanning tree of a torus.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct MasterTree {
    /// The root of all groups.
    pub root: Position,
    /// By position: direction of the step from the parent; `None` for the root and for positions
    /// without a switch.
    from: Vec<Option<Direction>>,
    /// By position: GUID of the first switch on the path from the root, itself included, that has
    /// no multicast forwarding table.
    cut: Vec<Option<Guid>>,
}

impl MasterTree {
    /// Builds the tree.
    ///
    /// # Errors
    /// Returns errors if there is no root, or if switches cannot be reached from it.
    pub(super) fn build(
        fabric: &Fabric,
        grid: &Grid,
        names: &PartNames<'_>,
    ) -> Result<Self, Vec<Note>> {
        let (root, builder) =
            GrowingTree::build_from_root(grid).ok_or_else(|| vec![no_root(grid, names)])?;
        if builder.unreached(root).next().is_none() {
            let cut = builder.cuts(fabric, root);
            return Ok(Self { root, from: builder.from, cut });
        }
        let mut notes: Vec<Note> = builder
            .unreached(root)
            .take(MAX_LISTED_SWITCHES)
            .map(|at| {
                let name = grid.describe(fabric, at);
                Note::error("4E43", format!("no multicast tree: switch {name} cannot be reached"))
            })
            .collect();
        let more = builder.unreached(root).skip(MAX_LISTED_SWITCHES).count();
        if more > 0 {
            let text = format!(
                "no multicast tree: {} cannot be reached",
                counted(more, "more switch", "more switches")
            );
            notes.push(Note::error("4E43", text));
        }
        Err(notes)
    }

    /// The tree of a repaired torus.
    pub(super) fn of_repaired(fabric: &Fabric, grid: &Grid, tree: &SpanningTree) -> Self {
        let SpanningTree { root, from, order } = tree.clone();
        let cut = GrowingTree { grid, from: from.clone(), order }.cuts(fabric, root);
        Self { root, from, cut }
    }

    /// True if the tree equals `before`, the tree of the torus `old`, cable by cable. The two
    /// toruses may differ in switches and cables at the positions `changed` only.
    pub(super) fn equals(
        &self,
        grid: &Grid,
        before: &Self,
        old: &Grid,
        changed: &[Position],
    ) -> bool {
        // If two cables of a port group were exchanged, the port numbers may differ at one end
        // only.
        self == before
            && changed.iter().all(|&at| self.has_same_cables(grid, old, at))
            && changed
                .iter()
                .flat_map(|&at| {
                    Direction::ALL.into_iter().map(move |towards| grid.lattice.step(at, towards))
                })
                .all(|at| self.has_same_cables(grid, old, at))
    }

    fn has_same_cables(&self, grid: &Grid, old: &Grid, at: Position) -> bool {
        let Some(from) = self.from[at.index()] else { return true };
        let parent = grid.lattice.step(at, from.opposite());
        groups_between(grid, parent, from, at) == groups_between(old, parent, from, at)
    }

    /// The tree of a group: the paths from the root to all members. `attachment` returns the
    /// position and port of a member that is part of the torus, `guid` its port GUID for messages.
    pub(super) fn group(
        &self,
        grid: &Grid,
        mlid: Mlid,
        members: &[PortId],
        attachment: impl Fn(PortId) -> Option<(Position, u8)>,
        guid: impl Fn(PortId) -> Guid,
    ) -> MulticastTree {
        let mut masks: BTreeMap<SwitchId, PortMask> = BTreeMap::new();
        let mut notes = Vec::new();
        for &member in members {
            let Some((at, port)) = attachment(member) else {
                notes.push(member_outside(mlid, guid(member)));
                continue;
            };
            if let Some(switch) = self.cut[at.index()] {
                notes.push(member_cut_off(mlid, guid(member), switch));
                continue;
            }
            self.add_path(grid, mlid, at, port, &mut masks);
        }
        MulticastTree { switches: masks.into_iter().collect(), notes }
    }

    /// Adds the path from the root to `port` of the switch at `at`.
    fn add_path(
        &self,
        grid: &Grid,
        mlid: Mlid,
        mut at: Position,
        mut port: u8,
        masks: &mut BTreeMap<SwitchId, PortMask>,
    ) {
        while let Some(switch) = grid.switch(at) {
            let mask = masks.entry(switch).or_default();
            let is_new = mask.is_empty();
            mask.insert(port);
            let (true, Some(from)) = (is_new, self.from[at.index()]) else { return };
            let parent = grid.lattice.step(at, from.opposite());
            let down = grid.port_group(parent, from);
            let up = grid.port_group(at, from.opposite());
            let cable = usize::from(mlid.0) % down.len();
            mask.insert(up[cable]);
            (at, port) = (parent, down[cable]);
        }
    }
}

fn groups_between(grid: &Grid, parent: Position, from: Direction, at: Position) -> [Vec<u8>; 2] {
    let ends = [grid.port_group(parent, from), grid.port_group(at, from.opposite())];
    ends.map(<[u8]>::to_vec)
}

/// A spanning tree under construction.
struct GrowingTree<'a> {
    grid: &'a Grid,
    from: Vec<Option<Direction>>,
    /// Positions in the order of joining the tree.
    order: Vec<Position>,
}

impl<'a> GrowingTree<'a> {
    /// Builds the tree from its root; `None` if there is no root.
    fn build_from_root(grid: &'a Grid) -> Option<(Position, Self)> {
        let root = root(grid)?;
        let mut builder = Self { grid, from: vec![None; grid.lattice.len()], order: vec![root] };
        builder.add_branch(root, root, 0);
        for on_x in grid.lattice.line(grid.lattice.with(root, 0, 0), 0) {
            if !builder.is_reached(on_x, root) {
                continue;
            }
            builder.add_branch(root, on_x, 1);
            for on_y in grid.lattice.line(grid.lattice.with(on_x, 1, 0), 1) {
                if grid.is_present(on_y) && builder.is_reached(on_y, root) {
                    builder.add_branch(root, on_y, 2);
                }
            }
        }
        Some((root, builder))
    }

    /// Placed switches that are not in the tree.
    fn unreached(&self, root: Position) -> impl Iterator<Item = Position> + '_ {
        self.grid.placed().map(|(at, _)| at).filter(move |&at| !self.is_reached(at, root))
    }

    fn is_reached(&self, at: Position, root: Position) -> bool {
        at == root || self.from[at.index()].is_some()
    }

    /// Extends the tree both ways along `axis`: first to the dateline or edge, then, if one side
    /// is interrupted, from the other side across the dateline.
    fn add_branch(&mut self, root: Position, start: Position, axis: usize) {
        let lattice = &self.grid.lattice;
        let at = lattice.coordinate(start, axis);
        let radix = lattice.radix(axis);
        let down = Direction::minus(axis);
        let up = Direction::plus(axis);
        let mut lower = self.extend(root, Some(start), down, at);
        let mut upper = self.extend(root, Some(start), up, radix - 1 - at);
        if lower.is_some() && upper.is_some() {
            return;
        }
        for _ in 0..radix {
            lower = self.extend(root, lower, down, 1);
            upper = self.extend(root, upper, up, 1);
        }
    }

    /// Extends the tree by up to `steps` steps from `tip`; `None` if a step is not possible.
    fn extend(
        &mut self,
        root: Position,
        tip: Option<Position>,
        direction: Direction,
        steps: u32,
    ) -> Option<Position> {
        let mut tip = tip?;
        for _ in 0..steps {
            let next = self.grid.lattice.step(tip, direction);
            if !self.grid.has_cable(tip, direction) || self.is_reached(next, root) {
                return None;
            }
            self.from[next.index()] = Some(direction);
            self.order.push(next);
            tip = next;
        }
        Some(tip)
    }

    /// See [`MasterTree::cut`].
    fn cuts(&self, fabric: &Fabric, root: Position) -> Vec<Option<Guid>> {
        let mut cut: Vec<Option<Guid>> = vec![None; self.from.len()];
        for &at in &self.order {
            let inherited = match self.from[at.index()] {
                Some(from) if at != root => {
                    cut[self.grid.lattice.step(at, from.opposite()).index()]
                }
                _ => None,
            };
            cut[at.index()] = inherited.or_else(|| {
                self.grid.switch(at).and_then(|switch| incapable_switch(fabric, switch))
            });
        }
        cut
    }
}

fn incapable_switch(fabric: &Fabric, switch: SwitchId) -> Option<Guid> {
    let node = fabric.switch(switch);
    (node.switch_info.multicast_fdb_cap() == 0).then(|| node.guid())
}

/// The root: the crossing of a complete row and a complete column of a plane z, on the diagonal
/// through the centre and as close to the centre as possible. The plane is
/// the complete one closest to the centre, else the central one.
pub(super) fn root(grid: &Grid) -> Option<Position> {
    let lattice = &grid.lattice;
    let [rx, ry, rz] = lattice.radices().map(i64::from);
    let zm = rz / 2;
    let planes = std::iter::once(zm).chain((1..=zm).flat_map(|k| [zm - k, zm + k]));
    let mut planes = planes.map(|z| z.rem_euclid(rz));
    planes
        .find_map(|z| if is_full(grid, lattice, z, ry, rx) { middle(grid, z) } else { None })
        .or_else(|| middle(grid, zm))
}

/// The position on the diagonals of a plane that is nearest to the middle and whose lines along x and y
/// have all switches.
fn middle(grid: &Grid, z: i64) -> Option<Position> {
    let lattice = &grid.lattice;
    let [rx, ry, _] = lattice.radices().map(i64::from);
    let xm = rx / 2;
    let ym = ry / 2;
    let around = (1..=xm.min(ym)).flat_map(|k| [(xm - k, ym - k), (xm + k, ym + k)]);
    let candidates = std::iter::once((xm, ym)).chain(around);
    let mut wrapped = candidates.map(|(x, y)| (x.rem_euclid(rx), y.rem_euclid(ry)));
    let (x, y) = wrapped.find(|&(x, y)| {
        (0..rx).all(|other| is_present(grid, lattice, other, y, z))
            && (0..ry).all(|other| is_present(grid, lattice, x, other, z))
    })?;
    Some(lattice.position([x, y, z]))
}

fn is_full(grid: &Grid, lattice: &Lattice, z: i64, ry: i64, rx: i64) -> bool {
    (0..ry).all(|y| (0..rx).all(|x| is_present(grid, lattice, x, y, z)))
}

fn is_present(grid: &Grid, lattice: &Lattice, x: i64, y: i64, z: i64) -> bool {
    grid.is_present(lattice.position([x, y, z]))
}

fn no_root(grid: &Grid, names: &PartNames<'_>) -> Note {
    let [rx, ry, rz] = grid.lattice.radices();
    let missing: Vec<String> =
        grid.missing().take(MAX_LISTED_SWITCHES).map(|at| names.switch(at)).collect();
    let more = grid.missing().skip(MAX_LISTED_SWITCHES).count();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let text = format!(
        "no multicast tree: each plane z lacks a switch, and in the central plane z={} no complete \
         row and column cross on the diagonal through {},{}; missing: {}{more}",
        rz / 2,
        rx / 2,
        ry / 2,
        missing.join(", ")
    );
    Note::error("4E43", text)
}

fn member_outside(mlid: Mlid, member: Guid) -> Note {
    let text = format!(
        "multicast group {mlid}: member port {member} is not part of the torus and receives nothing"
    );
    Note::error("4E41", text)
}

fn member_cut_off(mlid: Mlid, member: Guid, switch: Guid) -> Note {
    let text = format!(
        "multicast group {mlid}: member port {member} receives nothing, because switch {switch} on \
         its path has no multicast forwarding table"
    );
    Note::error("4E3F", text)
}
