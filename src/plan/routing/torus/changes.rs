//! What changed since the torus of the last success.

use super::grid::Grid;
use super::lattice::Lattice;
use crate::fabric::Fabric;
use crate::ids::Guid;
use crate::notes::Note;

/// What a later pass needs to know of the switch at a position.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry {
    guid: Guid,
    ports: u8,
    /// By port number from 1: node GUID at the other end, 0 if there is none.
    peers: Vec<Guid>,
}

/// A torus, position by position, without reference to the fabric it was found in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Census {
    lattice: Lattice,
    entries: Vec<Option<Entry>>,
}

impl Census {
    /// Takes the census of a placed torus.
    pub fn new(fabric: &Fabric, grid: &Grid) -> Self {
        let entry = |switch| {
            let node = fabric.switch(switch);
            let ports = fabric.ports_of(fabric.switches()[switch.index()]).iter().skip(1);
            let peer = |port: Option<_>| port.map_or(Guid(0), |id| fabric.node_of(id).guid());
            Entry {
                guid: node.guid(),
                ports: node.num_ports(),
                peers: ports.map(|port| peer(port.peer)).collect(),
            }
        };
        let entries = grid.switches.iter().map(|switch| switch.map(entry)).collect();
        Self { lattice: grid.lattice.clone(), entries }
    }

    /// Reports how `self` differs from the torus `before`, position by position. The report ends
    /// after the position at which it exceeds `limit` differences.
    pub fn changes_since(&self, before: &Self, limit: u32) -> Vec<Note> {
        let mut notes = Vec::new();
        let (old, new) = (before.lattice.radices(), self.lattice.radices());
        for (axis, name) in ['x', 'y', 'z'].into_iter().enumerate() {
            if old[axis] != new[axis] {
                let text = format!("torus {name} radix was {}, now {}", old[axis], new[axis]);
                notes.push(Note::info(text));
            }
        }
        let is_same_grid = old == new;
        for at in self.lattice.positions() {
            if is_same_grid && before.entries[at.index()] == self.entries[at.index()] {
                continue;
            }
            let coordinates = self.lattice.coordinates(at);
            if (0..3).any(|axis| coordinates.0[axis] >= old[axis]) {
                continue;
            }
            let then = before.lattice.position(coordinates.0.map(i64::from));
            let pair = (&before.entries[then.index()], &self.entries[at.index()]);
            let place = format!("torus switch {coordinates}");
            match pair {
                (old, new) if old == new => {}
                (None, None) => {}
                (None, Some(new)) => {
                    notes.push(Note::info(format!("new {place} GUID {}", new.guid)))
                }
                (Some(old), None) => {
                    notes.push(Note::info(format!("lost {place} GUID {}", old.guid)))
                }
                (Some(old), Some(new)) => old.compare(new, &place, &mut notes),
            }
            if notes.len() > limit as usize {
                notes.push(Note::info("too many torus changes: the report ends here"));
                break;
            }
        }
        notes
    }
}

impl Entry {
    fn compare(&self, new: &Self, place: &str, notes: &mut Vec<Note>) {
        let place = format!("{place} GUID {}", new.guid);
        if self.guid != new.guid {
            notes.push(Note::info(format!("{place}: GUID was {}", self.guid)));
        }
        if self.ports != new.ports {
            let text = format!("{place} had {} ports, now has {}", self.ports, new.ports);
            notes.push(Note::info(text));
        }
        for (index, (old, now)) in self.peers.iter().zip(&new.peers).enumerate() {
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
