//! Who gets which LIDs.
//!
//! A port keeps its LIDs for as long as anything allows it, since whoever talks to the port has
//! them cached. In this order:
//!
//! 1. The LIDs that [`Memory`] (the file guid2lid) holds for the port's GUID. LIDs of ports that
//!    are gone stay reserved, so that they find them free when they come back.
//! 2. The LID the port carries, if the whole range is free; of two ports with the same LID the
//!    SM's own port, else the first in the order of the fabric keeps it.
//! 3. The lowest free range.
//!
//! Ranges of 2^LMC LIDs start at a multiple of 2^LMC (IBA vol. 1, 7.11.1).

use super::LidTable;
use super::partitions::removed_pkeys::RemovedPkeys;
use crate::config::guid2lid::Guid2Lid;
use crate::config::options::Options;
use crate::fabric::{Fabric, PortId};
use crate::ids::{Guid, Lid};
use crate::notes::Note;
use std::sync::Arc;

/// What must outlive a plan.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Memory {
    /// First and last LID by port GUID, of ports present and gone. PagedVec as long as nothing
    /// changes.
    pub guid2lid: Arc<Guid2Lid>,
    /// Set once `reassign_lids` has been obeyed: it concerns the first sweep as master only.
    pub lids_reassigned: bool,
    /// The indexes of P_Keys that ports have no more.
    pub removed_pkeys: RemovedPkeys,
}

impl Memory {
    /// The memory of an SM that starts with what the file guid2lid held.
    pub fn new(guid2lid: Guid2Lid) -> Self {
        Self { guid2lid: Arc::new(guid2lid), ..Self::default() }
    }

    /// The memory of a standby SM that becomes master: another SM may have given out LIDs
    /// meanwhile, so that the devices are believed, unless `honor_guid2lid_file` says that the
    /// file (`guid2lid`, shared with that SM) is to be.
    pub fn after_standby(self, options: &Options, guid2lid: Arc<Guid2Lid>) -> Self {
        let guid2lid = if options.honor_guid2lid_file { guid2lid } else { Arc::default() };
        Self { guid2lid, removed_pkeys: RemovedPkeys::default(), ..self }
    }
}

/// LIDs in use.
struct Taken(Vec<bool>);

impl Taken {
    fn new() -> Self {
        Self(vec![false; Lid::UNICAST_MAX.index() + 1])
    }

    fn is_free(&self, first: u16, count: u16) -> bool {
        let first = usize::from(first);
        let range = self.0.get(first..first + usize::from(count));
        first > 0 && range.is_some_and(|range| range.iter().all(|&taken| !taken))
    }

    fn take(&mut self, first: u16, count: u16) {
        let first = usize::from(first);
        self.0[first..first + usize::from(count)].fill(true);
    }

    /// The lowest free range that starts at a multiple of `count` at or after `from`.
    fn lowest(&self, from: u16, count: u16, limit: u16) -> Option<u16> {
        let starts = (from.next_multiple_of(count)..=limit).step_by(count.into());
        starts
            .filter(|&first| first <= limit - (count - 1))
            .find(|&first| self.is_free(first, count))
    }
}

/// The LMC that an end port is to have: `lmc` on channel adapters and routers, on enhanced
/// switch ports 0 only with `lmc_esp0`, never on base switch ports 0.
pub fn lmc_of(fabric: &Fabric, port: PortId, options: &Options) -> u8 {
    let node = fabric.node_of(port);
    let takes_lmc = !node.is_switch() || (options.lmc_esp0 && node.switch_info.enhanced_port0());
    if takes_lmc { options.lmc.min(7) } else { 0 }
}

/// Gives LIDs to all end ports. The notes name ports for which none were left; they have none in
/// the table.
pub fn assign(
    fabric: &Fabric,
    options: &Options,
    memory: &Memory,
) -> (LidTable, Memory, Vec<Note>) {
    let reassign = options.reassign_lids && !memory.lids_reassigned;
    let mut work = Assignment {
        fabric,
        options,
        table: LidTable::new(fabric.ports().len()),
        taken: Taken::new(),
        guid2lid: Guid2Lid::new(),
    };
    let local = fabric.local();
    let mut ports: Vec<PortId> = fabric.end_ports().collect();
    ports.sort_by_key(|&port| port != local);
    if !reassign {
        work.remember(&memory.guid2lid);
        ports.retain(|&port| !work.take_remembered(port));
        ports.retain(|&port| !work.take_held(port));
    }
    let notes = work.take_free(&ports);
    let guid2lid = match work.guid2lid == *memory.guid2lid {
        true => memory.guid2lid.clone(),
        false => Arc::new(work.guid2lid),
    };
    let memory = Memory {
        guid2lid,
        lids_reassigned: memory.lids_reassigned || reassign,
        removed_pkeys: memory.removed_pkeys.clone(),
    };
    (work.table, memory, notes)
}

struct Assignment<'a> {
    fabric: &'a Fabric,
    options: &'a Options,
    table: LidTable,
    taken: Taken,
    guid2lid: Guid2Lid,
}

impl Assignment<'_> {
    fn count(&self, port: PortId) -> u16 {
        1 << lmc_of(self.fabric, port, self.options)
    }

    /// Takes over the usable entries and reserves their LIDs. An entry whose port now needs more
    /// LIDs or another alignment is forgotten.
    fn remember(&mut self, guid2lid: &Guid2Lid) {
        for (&guid, &(first, last)) in guid2lid {
            if !first.is_unicast() || !last.is_unicast() || first > last {
                continue;
            }
            let width = last.0 - first.0 + 1;
            let count = match self.fabric.port_by_guid(guid) {
                Some(port) => self.count(port),
                None => width,
            };
            let fits = count <= width && (count == 1 || !self.is_end(guid) || first.0 % count == 0);
            if fits && self.taken.is_free(first.0, count) {
                self.taken.take(first.0, count);
                self.guid2lid.insert(guid, (first, Lid(first.0 + count - 1)));
            }
        }
    }

    fn is_end(&self, guid: Guid) -> bool {
        self.fabric.port_by_guid(guid).is_some()
    }

    fn take_remembered(&mut self, port: PortId) -> bool {
        let Some(guid) = self.key(port) else { return false };
        let Some(&(first, _)) = self.guid2lid.get(&guid) else { return false };
        self.table.assign(port, first, lmc_of(self.fabric, port, self.options));
        true
    }

    fn take_held(&mut self, port: PortId) -> bool {
        let count = self.count(port);
        let own = self.fabric.observed_lid(port).map_or(0, |lid| lid.0);
        let keeps = own.is_multiple_of(count) && self.taken.is_free(own, count);
        if keeps {
            self.give(port, own, count);
        }
        keeps
    }

    fn take_free(&mut self, ports: &[PortId]) -> Vec<Note> {
        let limit = self.highest_lid();
        // The lowest LID that may be free, for single LIDs and for ranges.
        let mut from = [1u16, 1];
        let mut notes = Vec::new();
        for &port in ports {
            let count = self.count(port);
            let from = &mut from[usize::from(count > 1)];
            match self.taken.lowest((*from).max(1), count, limit) {
                Some(first) => {
                    *from = first + count;
                    self.give(port, first, count);
                }
                None => {
                    *from = limit;
                    let text = self.fabric.describe(port);
                    notes.push(Note::error("0307", format!("out of LIDs: no {count} for {text}")));
                }
            }
        }
        notes
    }

    /// The highest LID that all forwarding tables have an entry for.
    fn highest_lid(&self) -> u16 {
        let caps = self.fabric.switch_ids().map(|id| self.fabric.switch(id).switch_info);
        let tops = caps.map(|info| info.linear_fdb_cap()).filter(|&cap| cap > 1);
        tops.map(|cap| cap - 1).min().unwrap_or(u16::MAX).min(Lid::UNICAST_MAX.0)
    }

    fn give(&mut self, port: PortId, first: u16, count: u16) {
        self.taken.take(first, count);
        self.table.assign(port, Lid(first), lmc_of(self.fabric, port, self.options));
        if let Some(guid) = self.key(port) {
            self.guid2lid.insert(guid, (Lid(first), Lid(first + count - 1)));
        }
    }

    /// The GUID under which the port is remembered; `None` for ports that share it with another
    /// one or have none.
    fn key(&self, port: PortId) -> Option<Guid> {
        let guid = self.fabric.port(port).guid;
        (self.fabric.port_by_guid(guid) == Some(port)).then_some(guid)
    }
}
