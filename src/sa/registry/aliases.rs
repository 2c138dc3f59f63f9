//! Alias GUIDs: names that clients give to ports beside those they were made with, one for each
//! virtual function as a rule (IBA vol. 1, 14.2.5.5 and 15.2.5.18).
//!
//! Blocks belong to ports and outlive sweeps; a port that leaves the fabric loses them. No GUID is
//! that of two ports, nor at two places of one. GUIDs that the subnet manager made up on request
//! are remembered as long as it runs: a port that asks for one at the same place again gets the
//! same one.

use crate::fabric::Fabric;
use crate::ids::{Guid, Lid};
use crate::plan::aliases::AliasBlock;
use crate::sa::status::ErrorStatus;
use crate::wire::attr::tables::{GUID_BLOCK, GuidBlock};
use crate::wire::sa::SaStatus;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Entries of one block of a port's GUID table.
pub const BLOCK: usize = GUID_BLOCK;

/// The company identifier in GUIDs that the subnet manager makes up, as in OpenSM's.
const ASSIGNED_GUID_OUI: u64 = 0x00_1405;

/// GUIDs that are tried before the subnet manager gives up to make one.
const MAX_ASSIGN_ATTEMPTS: usize = 1000;

/// Blocks of alias GUIDs by port GUID and block number.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Aliases {
    blocks: BTreeMap<(Guid, u8), (Lid, [Guid; BLOCK])>,
    /// Ports by their aliases.
    ports: BTreeMap<Guid, Guid>,
    /// What was made up, by port and place in its table.
    assigned: BTreeMap<(Guid, u16), Guid>,
    /// The number of the last one that was.
    last_assigned: u32,
    generation: u64,
    forgotten: u64,
}

/// A checked request to change entries of a block.
#[derive(Clone, Debug)]
pub(crate) struct AliasEdit {
    /// The port.
    pub port: Guid,
    /// Its LID as it stood in the request.
    pub lid: Lid,
    /// Number of the block.
    pub block: u8,
    /// Which entries: bit n stands for entry n. The port has them all, and none is its own GUID.
    pub selected: u8,
    /// What they are to be; 0 is for the subnet manager to choose.
    pub guids: [Guid; BLOCK],
    /// The byte of GUIDs that the subnet manager makes up (`sm_assigned_guid`).
    pub byte: u8,
    /// The fabric: GUIDs of its ports are nobody's alias.
    pub fabric: Arc<Fabric>,
}

impl AliasEdit {
    fn entries(&self) -> impl Iterator<Item = usize> + use<> {
        let selected = self.selected;
        (0..BLOCK).filter(move |index| selected >> index & 1 == 1)
    }
}

impl Aliases {
    /// Counts the changes that matter to devices: when it is another one than at the last plan,
    /// there is something to plan.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Counts all changes.
    pub(super) fn changes(&self) -> u64 {
        self.generation + self.forgotten
    }

    /// All blocks: port GUID, block number, LID when it was written, entries.
    pub fn iter(&self) -> impl Iterator<Item = (Guid, u8, Lid, &[Guid; BLOCK])> {
        self.blocks.iter().map(|(&(port, block), (lid, guids))| (port, block, *lid, guids))
    }

    /// A block of a port's, if there is one.
    pub fn block(&self, port: Guid, block: u8) -> Option<&[Guid; BLOCK]> {
        self.blocks.get(&(port, block)).map(|(_, guids)| guids)
    }

    /// The GUID of the port that has `alias`.
    pub fn port(&self, alias: Guid) -> Option<Guid> {
        self.ports.get(&alias).copied()
    }

    /// The aliases of a port in the order of its table.
    pub fn of_port(&self, port: Guid) -> impl Iterator<Item = Guid> + '_ {
        let blocks = self.blocks.range((port, 0)..=(port, u8::MAX));
        let guids = blocks.flat_map(|(_, (_, guids))| guids).copied();
        guids.filter(move |guid| self.ports.get(guid) == Some(&port))
    }

    /// The ports that have blocks.
    pub(super) fn ports(&self) -> BTreeSet<Guid> {
        self.blocks.keys().map(|&(port, _)| port).collect()
    }

    /// The blocks as the plan wants them: those of ports of `fabric`.
    pub(super) fn wanted(&self, fabric: &Fabric) -> Vec<AliasBlock> {
        let blocks = self.iter().filter_map(|(guid, block, _, guids)| {
            Some(AliasBlock { port: fabric.port_by_guid(guid)?, block, guids: GuidBlock(*guids) })
        });
        blocks.collect()
    }

    /// Takes over a block of an earlier run. Entries that another port has already are left out.
    pub(super) fn restore(&mut self, port: Guid, block: u8, lid: Lid, guids: [Guid; BLOCK]) {
        for old in self.blocks.remove(&(port, block)).iter().flat_map(|(_, guids)| guids) {
            if self.ports.get(old) == Some(&port) {
                self.ports.remove(old);
            }
        }
        let mut kept = Self::empty(port, block);
        // The first entry of all is the port's own.
        let own = usize::from(block == 0);
        for (slot, alias) in kept.iter_mut().zip(guids).skip(own) {
            let is_one = alias != Guid::default() && alias != port;
            if is_one && !self.ports.contains_key(&alias) {
                self.ports.insert(alias, port);
                *slot = alias;
            }
        }
        self.blocks.insert((port, block), (lid, kept));
        self.generation += 1;
    }

    /// The block of a port without aliases.
    fn empty(port: Guid, block: u8) -> [Guid; BLOCK] {
        let mut guids = [Guid::default(); BLOCK];
        if block == 0 {
            guids[0] = port;
        }
        guids
    }

    /// Sets entries and returns the block as it then is. A GUID that is taken stays whose it is,
    /// and the entry stays as it was; so does an entry with a GUID if the subnet manager is to
    /// choose.
    ///
    /// # Errors
    /// `NO_RESOURCES` if the subnet manager cannot make up any more. Entries before that are set.
    pub(crate) fn set(&mut self, edit: &AliasEdit) -> Result<[Guid; BLOCK], ErrorStatus> {
        let name = (edit.port, edit.block);
        let fresh = || (edit.lid, Self::empty(edit.port, edit.block));
        let (_, mut guids) = self.blocks.get(&name).copied().unwrap_or_else(fresh);
        let (before, mut outcome) = (self.generation, Ok(()));
        for index in edit.entries() {
            let (old, asked) = (guids[index], edit.guids[index]);
            let wanted = if asked != Guid::default() {
                asked
            } else if old != Guid::default() {
                continue;
            } else {
                match self.assign(edit, index) {
                    Some(guid) => guid,
                    None => {
                        outcome = Err(ErrorStatus(SaStatus::NO_RESOURCES));
                        break;
                    }
                }
            };
            if wanted != old && self.is_free(&edit.fabric, wanted) {
                self.ports.remove(&old);
                self.ports.insert(wanted, edit.port);
                guids[index] = wanted;
                self.generation += 1;
            }
        }
        if self.generation != before {
            self.blocks.insert(name, (edit.lid, guids));
        }
        outcome.map(|()| guids)
    }

    /// Clears entries and returns the block as it then is. The block stays: the device is to
    /// hear that it is empty.
    pub(crate) fn clear(&mut self, edit: &AliasEdit) -> [Guid; BLOCK] {
        let Some((lid, guids)) = self.blocks.get_mut(&(edit.port, edit.block)) else {
            return Self::empty(edit.port, edit.block);
        };
        *lid = edit.lid;
        for index in edit.entries() {
            let old = std::mem::take(&mut guids[index]);
            if old != Guid::default() {
                self.ports.remove(&old);
                self.generation += 1;
            }
        }
        *guids
    }

    fn is_free(&self, fabric: &Fabric, guid: Guid) -> bool {
        !self.ports.contains_key(&guid) && fabric.port_by_guid(guid).is_none()
    }

    /// A GUID for an entry: the one it was given before, or a new one.
    fn assign(&mut self, edit: &AliasEdit, index: usize) -> Option<Guid> {
        let place = (edit.port, u16::from(edit.block) * BLOCK as u16 + index as u16);
        if let Some(&guid) = self.assigned.get(&place) {
            return Some(guid);
        }
        for _ in 0..MAX_ASSIGN_ATTEMPTS {
            self.last_assigned = self.last_assigned.checked_add(1)?;
            let number = u64::from(self.last_assigned);
            let guid = Guid(ASSIGNED_GUID_OUI << 40 | u64::from(edit.byte) << 32 | number);
            if self.is_free(&edit.fabric, guid) {
                self.assigned.insert(place, guid);
                return Some(guid);
            }
        }
        None
    }

    /// Takes all aliases of these ports. What was made up for them stays theirs.
    pub(super) fn forget(&mut self, ports: &BTreeSet<Guid>) {
        let before = self.blocks.len();
        self.blocks.retain(|(port, _), _| !ports.contains(port));
        self.ports.retain(|_, port| !ports.contains(port));
        self.forgotten += (before - self.blocks.len()) as u64;
    }

    /// Takes all aliases, and forgets what was made up.
    pub(super) fn forget_all(&mut self) {
        let (generation, last_assigned) = (self.generation, self.last_assigned);
        let forgotten = self.forgotten + u64::from(!self.blocks.is_empty());
        *self = Self { generation, forgotten, last_assigned, ..Self::default() };
    }
}

#[cfg(test)]
mod tests;
