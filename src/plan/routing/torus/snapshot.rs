//! Changes since the torus of the previous successful pass, with OpenSM's wording.

use super::grid::Grid;
use super::lattice::{AXIS_NAMES, Coordinates, Lattice, Position};
use crate::fabric::difference::Difference;
use crate::fabric::{Fabric, Port};
use crate::ids::{Guid, PortNum};
use crate::notes::Note;
use std::fmt;
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
    /// By switch, then port number from 1: the other end of the cable; `None` if there is no cable.
    peers: Vec<Option<PeerPort>>,
}

/// The other end of a cable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct PeerPort {
    guid: Guid,
    port: PortNum,
    is_switch: bool,
}

impl PeerPort {
    fn of(fabric: &Fabric, port: &Port) -> Option<Self> {
        let peer = port.peer?;
        let node = fabric.node_of(peer);
        let guid = node.guid();
        let port = fabric.port(peer).num;
        Some(Self { guid, port, is_switch: node.switch.is_some() })
    }
}

impl fmt::Display for PeerPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_switch { "sw" } else { "node" };
        write!(f, "{kind} GUID 0x{:04x}[{}]", self.guid.0, self.port)
    }
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
    peers: &'a [Option<PeerPort>],
}

impl TorusSnapshot {
    pub(super) fn new(fabric: &Fabric, grid: &Grid) -> Self {
        let mut peers = Vec::with_capacity(fabric.ports().len());
        let entries = grid.switches.iter().map(|switch| {
            let switch = (*switch)?;
            let node = fabric.switch(switch);
            let first = peers.len() as u32;
            let ports = fabric.ports_of(fabric.switches()[switch.index()]).skip(1);
            peers.extend(ports.map(|port| PeerPort::of(fabric, port)));
            Some(SwitchEntry { guid: node.guid(), ports: node.num_ports(), first })
        });
        let entries = Arc::new(entries.collect());
        Self { lattice: grid.lattice.clone(), entries, peers }
    }

    /// The snapshot of a torus with the same switches at the same positions. Also returns the
    /// positions whose cables changed, in ascending order.
    pub(super) fn updated(
        &self,
        fabric: &Fabric,
        grid: &Grid,
        difference: &Difference,
    ) -> (Self, Vec<Position>) {
        let mut snapshot = self.clone();
        let mut changed = Vec::new();
        for port in difference.ports.iter().map(|&id| fabric.port(id)) {
            let switch = fabric.node(port.node).switch;
            let at = switch.and_then(|switch| grid.positions[switch.index()]);
            let Some(at) = at.filter(|_| port.num != PortNum::ZERO) else { continue };
            let Some(entry) = &self.entries[at.index()] else { continue };
            let index = entry.first as usize + usize::from(port.num.0) - 1;
            snapshot.peers[index] = PeerPort::of(fabric, port);
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
        let old = before.lattice.radices();
        let new = self.lattice.radices();
        for (axis, name) in AXIS_NAMES.into_iter().enumerate() {
            if old[axis] != new[axis] {
                let text = format!("Torus {name} radix was {} now {}", old[axis], new[axis]);
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
            match pair {
                _ if is_same => {}
                (None, None) => {}
                (None, Some(new)) => notes.push(Note::info(format!(
                    "New torus switch {coordinates} GUID 0x{:04x}",
                    new.entry.guid.0
                ))),
                (Some(old), None) => notes.push(Note::info(format!(
                    "Lost torus switch {coordinates} GUID 0x{:04x}",
                    old.entry.guid.0
                ))),
                (Some(old), Some(new)) => old.compare(new, coordinates, &mut notes),
            }
            if notes.len() > limit as usize {
                notes.push(Note::info("Too many torus changes; stopping reporting early"));
                break;
            }
        }
        notes
    }
}

impl SwitchRecord<'_> {
    fn equals(self, other: SwitchRecord<'_>) -> bool {
        let one = self.entry;
        let two = other.entry;
        one.guid == two.guid && one.ports == two.ports && self.peers == other.peers
    }

    fn compare(self, new: SwitchRecord<'_>, at: Coordinates, notes: &mut Vec<Note>) {
        let old_guid = self.entry.guid.0;
        let guid = new.entry.guid.0;
        if old_guid != guid {
            let text = format!("Torus switch {at} GUID was 0x{old_guid:04x}, now 0x{guid:04x}");
            notes.push(Note::info(text));
        }
        let place = format!("Torus switch {at} GUID 0x{guid:04x}");
        if self.entry.ports != new.entry.ports {
            let text =
                format!("{place} had {} ports, now has {}", self.entry.ports, new.entry.ports);
            notes.push(Note::info(text));
        }
        for (index, (old, now)) in self.peers.iter().zip(new.peers).enumerate() {
            let place = format!("{place}[{}] remote now", index + 1);
            let text = match (old, now) {
                (Some(old), Some(now)) if old != now => format!("{place} {now}, was {old}"),
                (None, Some(now)) => format!("{place} {now}, was missing"),
                (Some(old), None) => format!("{place} missing, was {old}"),
                _ => continue,
            };
            notes.push(Note::info(text));
        }
    }
}
