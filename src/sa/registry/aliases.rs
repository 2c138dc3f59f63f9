//! Alias GUIDs: additional GUIDs of a port, usually one for each virtual function (IBA vol. 1,
//! 14.2.5.5 and 15.2.5.18).
//!
//! A port that leaves the fabric loses its aliases. A GUID is the alias of one port, in one entry
//! of its table. GUIDs that the subnet manager assigns on request are kept until it exits: a port
//! that asks for the same entry again gets the same GUID.

use crate::fabric::Fabric;
use crate::fabric::virtual_ports::EndPort;
use crate::ids::{Guid, Lid};
use crate::plan::aliases::AliasBlock;
use crate::sa::registry::change_log::{ChangedKeys, EntryKey};
use crate::sa::status::ErrorStatus;
use crate::wire::attr::tables::{GUID_BLOCK, GuidBlock};
use crate::wire::sa::SaStatus;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// OUI of assigned GUIDs, the same as OpenSM's.
const ASSIGNED_GUID_OUI: u64 = 0x00_1405;

/// Maximum number of GUIDs tried for an assignment, so that a request takes bounded time.
const MAX_ASSIGN_ATTEMPTS: usize = 1000;

/// Maximum number of aliases of all ports, and of GUIDs that are reserved for them: 8,192 ports with
/// 127 virtual functions each. The number of a port is limited by its GUIDCap.
const MAX_ALIASES: usize = 1 << 20;

/// Blocks of alias GUIDs by port GUID and block number.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Aliases {
    blocks: BTreeMap<(Guid, u8), (Lid, [Guid; GUID_BLOCK])>,
    /// Ports by alias.
    ports: BTreeMap<Guid, Guid>,
    /// Assigned GUIDs by port and entry of its table.
    assigned: BTreeMap<(Guid, u16), Guid>,
    /// The low 32 bits of the last assigned GUID.
    last_assigned: u32,
    generation: u64,
    /// Number of blocks removed with their ports.
    removals: u64,
    /// GUIDs of all ports since the start, which cannot be aliases while the port is absent either.
    known_ports: HashSet<Guid>,
    /// For replication.
    pub(super) changed: ChangedKeys,
}

/// A checked request to change entries of a block.
#[derive(Clone, Debug)]
pub(crate) struct AliasEdit {
    /// GUID of the port.
    pub port: Guid,
    /// LID of the request.
    pub lid: Lid,
    /// Block number.
    pub block: u8,
    /// Entries to change: bit n for entry n. All are within GUIDCap, and none is the port's own
    /// GUID.
    pub selected: u8,
    /// New values of the entries; 0 to have a GUID assigned.
    pub guids: [Guid; GUID_BLOCK],
    /// The fourth byte of assigned GUIDs (option `sm_assigned_guid`).
    pub assigned_guid_byte: u8,
    /// GUIDs of ports of this fabric cannot be aliases.
    pub fabric: Arc<Fabric>,
    /// The request carries the SM_Key: GUIDs of absent ports can be aliases.
    pub privileged: bool,
}

impl AliasEdit {
    /// Indices of the entries to change.
    fn entries(&self) -> impl Iterator<Item = usize> + use<> {
        let selected = self.selected;
        (0..GUID_BLOCK).filter(move |index| selected >> index & 1 == 1)
    }
}

impl Aliases {
    /// Number of changes to be programmed. The plan is up to date while it equals that of the last
    /// plan.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Number of all changes.
    pub(super) fn changes(&self) -> u64 {
        self.generation + self.removals
    }

    /// All blocks: port GUID, block number, LID of the last request, entries.
    pub fn iter(&self) -> impl Iterator<Item = (Guid, u8, Lid, &[Guid; GUID_BLOCK])> {
        self.blocks.iter().map(|(&(port, block), (lid, guids))| (port, block, *lid, guids))
    }

    /// A block of a port; zeros without aliases.
    pub fn block(&self, port: Guid, block: u8) -> [Guid; GUID_BLOCK] {
        self.blocks.get(&(port, block)).map_or_else(Default::default, |(_, guids)| *guids)
    }

    /// The GUID of the port with this alias.
    pub fn port(&self, alias: Guid) -> Option<Guid> {
        self.ports.get(&alias).copied()
    }

    /// The aliases of a port, in the order of its table.
    pub fn of_port(&self, port: Guid) -> impl Iterator<Item = Guid> + '_ {
        let blocks = self.blocks.range((port, 0)..=(port, u8::MAX));
        let guids = blocks.flat_map(|(_, (_, guids))| guids).copied();
        guids.filter(move |guid| self.ports.get(guid) == Some(&port))
    }

    /// The ports with blocks of aliases.
    pub(super) fn ports(&self) -> BTreeSet<Guid> {
        self.blocks.keys().map(|&(port, _)| port).collect()
    }

    /// The blocks of ports of `fabric`, as input of a plan.
    pub(super) fn planned_blocks(&self, fabric: &Fabric) -> Vec<AliasBlock> {
        let blocks = self.iter().filter_map(|(guid, block, _, guids)| {
            let EndPort { physical: port, vport } = fabric.end_port_by_guid(guid)?;
            Some(AliasBlock { port, vport, block, guids: GuidBlock(*guids) })
        });
        blocks.collect()
    }

    /// A block of a port, with the LID of its last request.
    pub(super) fn content(&self, port: Guid, block: u8) -> Option<(Lid, [Guid; GUID_BLOCK])> {
        self.blocks.get(&(port, block)).copied()
    }

    /// Removes a block that the SM no longer has that this one follows.
    pub(super) fn remove_block(&mut self, port: Guid, block: u8) {
        let Some((_, guids)) = self.blocks.remove(&(port, block)) else { return };
        for alias in guids {
            if self.ports.get(&alias) == Some(&port) {
                self.ports.remove(&alias);
            }
        }
        self.removals += 1;
    }

    /// Takes over all blocks of `other`. Assigned GUIDs stay reserved.
    pub(super) fn replace(&mut self, other: Self) {
        (self.blocks, self.ports) = (other.blocks, other.ports);
        self.generation += other.generation + 1;
    }

    /// Restores a block of the dump file. Entries that are aliases of another port are omitted.
    pub(super) fn restore(&mut self, port: Guid, block: u8, lid: Lid, guids: [Guid; GUID_BLOCK]) {
        for old in self.blocks.remove(&(port, block)).iter().flat_map(|(_, guids)| guids) {
            if self.ports.get(old) == Some(&port) {
                self.ports.remove(old);
            }
        }
        let mut kept = Self::empty(port, block);
        // Entry 0 of block 0 is the port's own GUID.
        let own = usize::from(block == 0);
        for (slot, alias) in kept.iter_mut().zip(guids).skip(own) {
            let is_alias = alias != Guid::default() && alias != port;
            if is_alias && !self.ports.contains_key(&alias) {
                self.ports.insert(alias, port);
                *slot = alias;
            }
        }
        self.blocks.insert((port, block), (lid, kept));
        self.generation += 1;
        self.changed.add(EntryKey::Aliases(port, block));
    }

    /// A block of a port without aliases.
    fn empty(port: Guid, block: u8) -> [Guid; GUID_BLOCK] {
        let mut guids = [Guid::default(); GUID_BLOCK];
        if block == 0 {
            guids[0] = port;
        }
        guids
    }

    /// Sets entries and returns the resulting block. An entry does not change if the requested GUID
    /// belongs to another port, present or absent, or another entry, or if an assignment is
    /// requested for an entry that has a GUID.
    ///
    /// # Errors
    /// `NO_RESOURCES` if no GUID can be assigned, or all ports together have the maximum number of
    /// aliases. Preceding entries are set.
    pub(crate) fn set(&mut self, edit: &AliasEdit) -> Result<[Guid; GUID_BLOCK], ErrorStatus> {
        let key = (edit.port, edit.block);
        let (_, mut guids) = self
            .blocks
            .get(&key)
            .copied()
            .unwrap_or_else(|| (edit.lid, Self::empty(edit.port, edit.block)));
        let before = self.generation;
        let mut outcome = Ok(());
        for index in edit.entries() {
            let old = guids[index];
            let requested = edit.guids[index];
            let wanted = if requested != Guid::default() {
                requested
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
            if wanted != old && self.is_free(edit, wanted) {
                if old == Guid::default() && self.ports.len() >= MAX_ALIASES {
                    outcome = Err(ErrorStatus(SaStatus::NO_RESOURCES));
                    break;
                }
                self.ports.remove(&old);
                self.ports.insert(wanted, edit.port);
                guids[index] = wanted;
                self.generation += 1;
            }
        }
        if self.generation != before {
            self.blocks.insert(key, (edit.lid, guids));
            self.changed.add(EntryKey::Aliases(edit.port, edit.block));
        }
        outcome.map(|()| guids)
    }

    /// Clears entries and returns the resulting block. An empty block is kept, so that it is
    /// programmed.
    pub(crate) fn clear(&mut self, edit: &AliasEdit) -> [Guid; GUID_BLOCK] {
        let Some((lid, guids)) = self.blocks.get_mut(&(edit.port, edit.block)) else {
            return Self::empty(edit.port, edit.block);
        };
        *lid = edit.lid;
        self.changed.add(EntryKey::Aliases(edit.port, edit.block));
        for index in edit.entries() {
            let old = std::mem::take(&mut guids[index]);
            if old != Guid::default() {
                self.ports.remove(&old);
                self.generation += 1;
            }
        }
        *guids
    }

    fn is_free(&self, edit: &AliasEdit, guid: Guid) -> bool {
        !self.ports.contains_key(&guid)
            && edit.fabric.end_port_by_guid(guid).is_none()
            && (edit.privileged || !self.known_ports.contains(&guid))
    }

    /// Records the ports of a fabric.
    pub(super) fn add_known_ports(&mut self, fabric: &Fabric) {
        let guids = fabric.ports().iter().map(|port| port.guid);
        self.known_ports.extend(guids.filter(|&guid| guid != Guid::default()));
    }

    /// Assigns a GUID to an entry: the previously assigned one, or a new one.
    fn assign(&mut self, edit: &AliasEdit, index: usize) -> Option<Guid> {
        let entry = (edit.port, u16::from(edit.block) * GUID_BLOCK as u16 + index as u16);
        if let Some(&guid) = self.assigned.get(&entry) {
            return Some(guid);
        }
        if self.assigned.len() >= MAX_ALIASES {
            return None;
        }
        for _ in 0..MAX_ASSIGN_ATTEMPTS {
            self.last_assigned = self.last_assigned.checked_add(1)?;
            let number = u64::from(self.last_assigned);
            let guid =
                Guid(ASSIGNED_GUID_OUI << 40 | u64::from(edit.assigned_guid_byte) << 32 | number);
            if self.is_free(edit, guid) {
                self.assigned.insert(entry, guid);
                return Some(guid);
            }
        }
        None
    }

    /// Removes the aliases of these ports. Their assigned GUIDs stay reserved for them.
    pub(super) fn remove_ports(&mut self, ports: &BTreeSet<Guid>) {
        let before = self.blocks.len();
        let changed = &mut self.changed;
        self.blocks.retain(|&(port, block), _| {
            let is_kept = !ports.contains(&port);
            if !is_kept {
                changed.add(EntryKey::Aliases(port, block));
            }
            is_kept
        });
        self.ports.retain(|_, port| !ports.contains(port));
        self.removals += (before - self.blocks.len()) as u64;
    }

    /// Removes all aliases and assignments.
    pub(super) fn clear_all(&mut self) {
        let generation = self.generation;
        let last_assigned = self.last_assigned;
        let removals = self.removals + u64::from(!self.blocks.is_empty());
        let blocks = self.blocks.keys().map(|&(port, block)| EntryKey::Aliases(port, block));
        blocks.for_each(|key| self.changed.add(key));
        let known_ports = std::mem::take(&mut self.known_ports);
        let changed = std::mem::take(&mut self.changed);
        *self =
            Self { generation, removals, last_assigned, known_ports, changed, ..Self::default() };
    }
}

#[cfg(test)]
mod tests;
