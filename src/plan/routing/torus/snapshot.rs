//! Changes since the torus of the previous successful pass.

use super::grid::Grid;
use super::lattice::{AXIS_NAMES, Lattice, Position};
use crate::fabric::difference::Difference;
use crate::fabric::{Fabric, SwitchId};
use crate::ids::{Guid, PortNum};
use crate::notes::Note;
use std::sync::Arc;

/// A switch of a snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
struct SwitchEntry {
    guid: Guid,
    ports: u8,
    /// Start of its ports in [`TorusSnapshot::peers`].
    first: u32,
}

/// A torus by position, independent of the port and switch ids of its fabric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct TorusSnapshot {
    lattice: Lattice,
    entries: Arc<Vec<Option<SwitchEntry>>>,
    /// By switch, then port number from 1: GUID of the node at the other end of the cable; 0 if
    /// there is no cable.
    peers: Vec<Guid>,
}

/// The torus of the previous successful pass: its grid, with the ids of its own fabric, and its
/// snapshot.
#[derive(Clone, Copy)]
pub(super) struct PreviousTorus<'a> {
    pub grid: &'a Grid,
    pub snapshot: &'a TorusSnapshot,
}

#[derive(Clone, Copy)]
struct SwitchRecord<'a> {
    entry: &'a SwitchEntry,
    peers: &'a [Guid],
}

impl TorusSnapshot {
    pub(super) fn new(fabric: &Fabric, grid: &Grid) -> Self {
        let mut peers = Vec::with_capacity(fabric.ports().len());
        let mut entry = |switch: SwitchId| {
            let node = fabric.switch(switch);
            let first = peers.len() as u32;
            let ports = fabric.ports_of(fabric.switches()[switch.index()]).iter().skip(1);
            let peer = |port: Option<_>| port.map_or(Guid(0), |id| fabric.node_of(id).guid());
            peers.extend(ports.map(|port| peer(port.peer)));
            SwitchEntry { guid: node.guid(), ports: node.num_ports(), first }
        };
        let entries = grid.switches.iter().map(|switch| switch.map(&mut entry)).collect();
        Self { lattice: grid.lattice.clone(), entries: Arc::new(entries), peers }
    }

    /// The snapshot of a torus with the same switches at the same positions. Also returns the
    /// positions whose cables changed, in ascending order.
    pub(super) fn updated(
        &self,
        fabric: &Fabric,
        grid: &Grid,
        difference: &Difference,
    ) -> (Self, Vec<Position>) {
        let (mut snapshot, mut changed) = (self.clone(), Vec::new());
        for port in difference.ports.iter().map(|&id| fabric.port(id)) {
            let switch = fabric.node(port.node).switch;
            let at = switch.and_then(|switch| grid.positions[switch.index()]);
            let Some(at) = at.filter(|_| port.num != PortNum::ZERO) else { continue };
            let Some(entry) = &self.entries[at.index()] else { continue };
            let peer = port.peer.map_or(Guid(0), |peer| fabric.node_of(peer).guid());
            snapshot.peers[entry.first as usize + usize::from(port.num.0) - 1] = peer;
            changed.push(at);
        }
        changed.sort_unstable();
        changed.dedup();
        (snapshot, changed)
    }

    /// Node GUID of the switch at a position.
    pub(super) fn guid(&self, at: Position) -> Option<Guid> {
        self.entries.get(at.index())?.as_ref().map(|entry| entry.guid)
    }

    fn record(&self, at: Position) -> Option<SwitchRecord<'_>> {
        let entry = self.entries[at.index()].as_ref()?;
        let first = entry.first as usize;
        Some(SwitchRecord { entry, peers: &self.peers[first..first + usize::from(entry.ports)] })
    }

    /// Reports the differences from the torus `before`, position by position. The report ends after
    /// the position at which it exceeds `limit` differences.
    pub(super) fn changes_since(&self, before: &Self, limit: u32) -> Vec<Note> {
        self.changes_at(self.lattice.positions(), before, limit)
    }

    /// Like [`Self::changes_since`], for differences at the given positions only, which must
    /// ascend.
    pub(super) fn changes_at(
        &self,
        positions: impl IntoIterator<Item = Position>,
        before: &Self,
        limit: u32,
    ) -> Vec<Note> {
        let mut notes = Vec::new();
        let (old, new) = (before.lattice.radices(), self.lattice.radices());
        for (axis, name) in AXIS_NAMES.into_iter().enumerate() {
            if old[axis] != new[axis] {
                let text = format!("torus {name} radix was {}, now {}", old[axis], new[axis]);
                notes.push(Note::info(text));
            }
        }
        for at in positions {
            let coordinates = self.lattice.coordinates(at);
            if (0..3).any(|axis| coordinates.0[axis] >= old[axis]) {
                continue;
            }
            let then = before.lattice.position(coordinates.0.map(i64::from));
            let pair = (before.record(then), self.record(at));
            let is_same = match pair {
                (Some(old), Some(new)) => old.equals(new),
                (old, new) => old.is_none() && new.is_none(),
            };
            let place = || format!("torus switch {coordinates}");
            match pair {
                _ if is_same => {}
                (None, None) => {}
                (None, Some(new)) => {
                    notes.push(Note::info(format!("new {} GUID {}", place(), new.entry.guid)))
                }
                (Some(old), None) => {
                    notes.push(Note::info(format!("lost {} GUID {}", place(), old.entry.guid)))
                }
                (Some(old), Some(new)) => old.compare(new, &place(), &mut notes),
            }
            if notes.len() > limit as usize {
                notes.push(Note::info("too many torus changes: the report ends here"));
                break;
            }
        }
        notes
    }
}

impl SwitchRecord<'_> {
    fn equals(self, other: SwitchRecord<'_>) -> bool {
        let (one, two) = (self.entry, other.entry);
        one.guid == two.guid && one.ports == two.ports && self.peers == other.peers
    }

    fn compare(self, new: SwitchRecord<'_>, place: &str, notes: &mut Vec<Note>) {
        let place = format!("{place} GUID {}", new.entry.guid);
        if self.entry.guid != new.entry.guid {
            notes.push(Note::info(format!("{place}: GUID was {}", self.entry.guid)));
        }
        if self.entry.ports != new.entry.ports {
            let text =
                format!("{place} had {} ports, now has {}", self.entry.ports, new.entry.ports);
            notes.push(Note::info(text));
        }
        for (index, (old, now)) in self.peers.iter().zip(new.peers).enumerate() {
            let port = index + 1;
            let text = match (old.0, now.0) {
                (old, now) if old == now => continue,
                (0, _) => format!("{place} port {port}: now cabled to {now}, was not cabled"),
                (_, 0) => format!("{place} port {port}: no longer cabled, was to {old}"),
                _ => format!("{place} port {port}: now cabled to {now}, was to {old}"),
            };
            notes.push(Note::info(text));
        }
    }
}
