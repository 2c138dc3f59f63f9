//! LID assignment.
//!
//! Input: the end ports with the LIDs they carry, and the LIDs assigned before ([`Memory`], stored
//! in the file guid2lid). Result: the [`LidTable`] and the new memory. Invariant: LID ranges of
//! different ports are disjoint, because a range is assigned only if all of it is free in the
//! allocator.
//!
//! A port keeps its LIDs whenever possible, since its peers cache them. The LIDs of a port are, in
//! this order of preference:
//!
//! 1. The LIDs recorded for the port GUID. The LIDs of absent ports and vports stay reserved for their
//!    return, until no other LIDs are left ([`absent`]).
//! 2. The LID the port carries, if its whole range is free. If two ports carry the same LID, the
//!    SM's own port keeps it, otherwise the first port in the order of assignment.
//! 3. The next LIDs of the first free range that has room ([`FreeRanges`]).
//!
//! Vports that require a LID of their own get one in the same way, after the physical ports at each
//! step, without LMC. The LID recorded for a vport that is present and requires none is free again.
//!
//! The order of assignment is that of OpenSM, so that a fabric without LIDs gets the same ones from
//! both: the SM's own port, then the others by [`Guid::opensm_order`]. Ranges of 2^LMC LIDs start at a
//! multiple of 2^LMC (IBA vol. 1, 7.11.1).

mod absent;

use super::LidTable;
use super::partitions::removed_pkeys::RemovedPkeys;
use crate::config::guid2lid::Guid2Lid;
use crate::config::options::Options;
use crate::fabric::virtual_ports::{EndPort, VirtualPort};
use crate::fabric::{Fabric, PortId};
use crate::ids::{Guid, Lid};
use crate::notes::{Note, counted};
use absent::AbsentRanges;
use std::sync::Arc;

/// Assignments that the next plan must keep.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Memory {
    /// First and last LID by port GUID, for present and absent ports. Shared between plans until an
    /// entry changes.
    pub guid2lid: Arc<Guid2Lid>,
    /// This SM has assigned LIDs. `reassign_lids` applies to the first assignment only.
    pub lids_assigned: bool,
    /// P_Keys removed from ports, with the table indexes they had.
    pub removed_pkeys: RemovedPkeys,
}

impl Memory {
    /// Creates the memory of a starting SM from the contents of the file guid2lid.
    pub fn new(guid2lid: Guid2Lid) -> Self {
        Self { guid2lid: Arc::new(guid2lid), ..Self::default() }
    }

    /// The memory of a standby SM that becomes master. The previous master may have assigned LIDs,
    /// so the LIDs that the devices carry take precedence; with `honor_guid2lid_file` the file
    /// (`guid2lid`, shared with that SM) does.
    pub fn after_standby(self, options: &Options, guid2lid: Arc<Guid2Lid>) -> Self {
        let guid2lid = if options.honor_guid2lid_file { guid2lid } else { Arc::default() };
        Self { guid2lid, removed_pkeys: RemovedPkeys::default(), ..self }
    }
}

impl Memory {
    /// The memory by which the end ports of an earlier fabric keep the LIDs of `table`, whatever
    /// was assigned since. Entries that overlap with these LIDs are dropped.
    pub fn keeping(&self, fabric: &Fabric, table: &LidTable) -> Self {
        let others = self.guid2lid.iter().filter(|(_, range)| !is_overlapped(table, range));
        let mut guid2lid: Guid2Lid = others.map(|(&guid, &range)| (guid, range)).collect();
        for port in fabric.end_ports() {
            if let Some(base) = table.base(port) {
                let last = Lid(base.0 + ((1 << table.lmc(port)) - 1));
                guid2lid.insert(fabric.port(port).guid, (base, last));
            }
        }
        for (lid, vport) in table.of_vports() {
            guid2lid.insert(fabric.end_port_guid(vport), (lid, lid));
        }
        Self { guid2lid: Arc::new(guid2lid), lids_assigned: true, ..self.clone() }
    }
}

fn is_overlapped(table: &LidTable, &(first, last): &(Lid, Lid)) -> bool {
    (first.0..=last.0).any(|lid| table.port(Lid(lid)).is_some())
}

/// The set of assigned and reserved LIDs, indexed by LID.
struct LidAllocator(Vec<bool>);

impl LidAllocator {
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

    /// The free LIDs up to `limit`.
    fn free_ranges(&self, limit: u16) -> FreeRanges {
        let mut ranges: Vec<FreeRange> = Vec::new();
        for lid in (1..=limit).filter(|&lid| self.is_free(lid, 1)) {
            match ranges.last_mut() {
                Some(last) if last.last + 1 == lid => last.last = lid,
                _ => ranges.push(FreeRange { first: lid, last: lid }),
            }
        }
        FreeRanges(ranges)
    }
}

/// Consecutive free LIDs, both ends included.
struct FreeRange {
    first: u16,
    last: u16,
}

/// The free LIDs in ascending order. As in OpenSM, a port gets the next LIDs of the first range
/// with room for it, and the LIDs that alignment skips stay free until the next assignment.
struct FreeRanges(Vec<FreeRange>);

impl FreeRanges {
    /// Takes `count` LIDs, a power of two, from a multiple of `count` on. Returns the first one, or
    /// `None` if no range has room.
    fn take(&mut self, count: u16) -> Option<u16> {
        let (at, first) = self
            .0
            .iter()
            .enumerate()
            .find_map(|(at, range)| Some((at, aligned_start(range, count)?)))?;
        let last = first + (count - 1);
        if self.0[at].last == last {
            self.0.remove(at);
        } else {
            self.0[at].first = last + 1;
        }
        Some(first)
    }
}

fn aligned_start(range: &FreeRange, count: u16) -> Option<u16> {
    let first = range.first.checked_next_multiple_of(count)?;
    (range.last >= first && range.last - first >= count - 1).then_some(first)
}

/// The LMC of an end port: `lmc` for channel adapters and routers, for enhanced switch ports 0 only
/// with `lmc_esp0`, and 0 for base switch ports 0.
pub fn lmc_of(fabric: &Fabric, port: PortId, options: &Options) -> u8 {
    let node = fabric.node_of(port);
    let takes_lmc = !node.is_switch() || (options.lmc_esp0 && node.switch_info.enhanced_port0());
    if takes_lmc { options.lmc.min(7) } else { 0 }
}

/// Assigns LIDs to all end ports. Ports for which no LIDs are left are absent from the table and
/// named in the notes.
pub fn assign(
    fabric: &Fabric,
    options: &Options,
    memory: &Memory,
) -> (LidTable, Memory, Vec<Note>) {
    let reassign = options.reassign_lids && !memory.lids_assigned;
    let mut assignment = Assignment {
        fabric,
        options,
        table: LidTable::new(fabric.ports().len()),
        taken: LidAllocator::new(),
        guid2lid: Guid2Lid::new(),
        absent: None,
        reused: 0,
    };
    let local = fabric.local();
    let mut ports: Vec<PortId> = fabric.end_ports().collect();
    ports.sort_by_key(|&port| (port != local, fabric.port(port).guid.opensm_order()));
    let mut vports: Vec<Vport<'_>> = vports(fabric);
    if !reassign {
        assignment.reserve_recorded(&memory.guid2lid);
        ports.retain(|&port| !assignment.assign_recorded(port));
        ports.retain(|&port| !assignment.assign_carried(port));
        vports.retain(|vport| !assignment.keep_vport(vport));
    }
    let mut notes = assignment.assign_free(&ports);
    notes.extend(assignment.assign_free_to_vports(vports));
    notes.extend(assignment.reused_lids());
    let guid2lid = if assignment.guid2lid == *memory.guid2lid {
        memory.guid2lid.clone()
    } else {
        Arc::new(assignment.guid2lid)
    };
    let memory =
        Memory { guid2lid, lids_assigned: true, removed_pkeys: memory.removed_pkeys.clone() };
    (assignment.table, memory, notes)
}

/// A vport that requires a LID of its own.
struct Vport<'a> {
    end: EndPort,
    vport: &'a VirtualPort,
}

/// The vports that require a LID of their own. One that is the physical port itself has its LIDs.
fn vports(fabric: &Fabric) -> Vec<Vport<'_>> {
    let ports = fabric.virtual_ports().ports();
    let ports = ports.filter_map(|(guid, _)| fabric.port_by_guid(guid));
    let vports = ports.flat_map(|port| fabric.vports_of(port));
    let requiring = vports.filter(|(_, vport)| vport.lid_required);
    requiring.map(|(end, vport)| Vport { end, vport }).collect()
}

struct Assignment<'a> {
    fabric: &'a Fabric,
    options: &'a Options,
    table: LidTable,
    taken: LidAllocator,
    guid2lid: Guid2Lid,
    /// The LIDs of absent ports and vports, once no other LIDs are left.
    absent: Option<AbsentRanges>,
    /// Absent ports and vports whose LIDs others have got.
    reused: usize,
}

impl Assignment<'_> {
    fn count(&self, port: PortId) -> u16 {
        1 << lmc_of(self.fabric, port, self.options)
    }

    /// Reserves the LIDs of the usable entries. An entry whose port needs more LIDs or another
    /// alignment is dropped.
    fn reserve_recorded(&mut self, guid2lid: &Guid2Lid) {
        let mut doubtful = Vec::new();
        for (&guid, &(first, last)) in guid2lid {
            let Some((usable, count)) = self.usable(guid, first, last) else { continue };
            match self.carried_despite(guid, first, last) {
                Some(carried) => doubtful.push((guid, usable, carried)),
                None => self.reserve(guid, usable, count),
            }
        }
        for (guid, recorded, carried) in doubtful {
            let first = if self.taken.is_free(carried, 1) { carried } else { recorded };
            self.reserve(guid, first, 1);
        }
    }

    fn reserve(&mut self, guid: Guid, first: u16, count: u16) {
        if self.taken.is_free(first, count) {
            self.taken.take(first, count);
            self.guid2lid.insert(guid, (Lid(first), Lid(first + count - 1)));
        }
    }

    /// The first LID of an entry and the number of LIDs that its port needs; `None` if it cannot be
    /// used.
    fn usable(&self, guid: Guid, first: Lid, last: Lid) -> Option<(u16, u16)> {
        if !first.is_unicast() || !last.is_unicast() || first > last {
            return None;
        }
        let width = last.0 - first.0 + 1;
        let port = self.fabric.port_by_guid(guid);
        let vport = self.fabric.end_port_by_guid(guid).and_then(|end| self.fabric.vport(end));
        if let Some(vport) = vport {
            return vport.lid_required.then_some((first.0, 1));
        }
        let count = port.map_or(width, |port| self.count(port));
        let is_aligned = count == 1 || port.is_none() || first.0.is_multiple_of(count);
        (count <= width && is_aligned).then_some((first.0, count))
    }

    /// The LID that a switch port 0 without an LMC carries although a range of several LIDs is
    /// recorded for it: the range was assigned while its device answered with another node type,
    /// and the LID that it carries is the older one.
    fn carried_despite(&self, guid: Guid, first: Lid, last: Lid) -> Option<u16> {
        let port = self.fabric.port_by_guid(guid).filter(|_| first != last)?;
        let has_one = self.fabric.node_of(port).is_switch() && self.count(port) == 1;
        let carried = self.fabric.observed_lid(port).filter(|_| has_one)?;
        (carried != first && carried.is_unicast()).then_some(carried.0)
    }

    fn assign_recorded(&mut self, port: PortId) -> bool {
        let Some(guid) = self.key(port) else { return false };
        let Some(&(first, _)) = self.guid2lid.get(&guid) else { return false };
        self.table.assign(port, first, lmc_of(self.fabric, port, self.options));
        true
    }

    fn assign_carried(&mut self, port: PortId) -> bool {
        let count = self.count(port);
        let own = self.fabric.observed_lid(port).map_or(0, |lid| lid.0);
        let keeps = own.is_multiple_of(count) && self.taken.is_free(own, count);
        if keeps {
            self.record(port, own, count);
        }
        keeps
    }

    /// Assigns the LID that is recorded for a vport, or that it carries.
    fn keep_vport(&mut self, &Vport { end, vport }: &Vport<'_>) -> bool {
        if self.table.base(end.physical).is_none() {
            return false;
        }
        if let Some(&(lid, _)) = self.guid2lid.get(&vport.guid) {
            self.table.assign_vport(end, lid);
            return true;
        }
        let keeps = vport.lid.is_unicast() && self.taken.is_free(vport.lid.0, 1);
        if keeps {
            self.record_vport(end, vport, vport.lid.0);
        }
        keeps
    }

    /// Assigns free LIDs to vports.
    fn assign_free_to_vports(&mut self, mut vports: Vec<Vport<'_>>) -> Option<Note> {
        // Their ports have got LIDs since.
        vports.retain(|vport| !self.keep_vport(vport));
        let mut free = self.taken.free_ranges(self.highest_lid());
        vports.retain(|&Vport { end, vport }| {
            let has_port = self.table.base(end.physical).is_some();
            let lid = if has_port { free.take(1).or_else(|| self.reuse(1)) } else { None };
            lid.inspect(|&lid| self.record_vport(end, vport, lid)).is_none()
        });
        let first = vports.first()?.end;
        let port = self.fabric.describe(first.physical);
        let index = first.vport.expect("the end of a vport has its index");
        let first = format!("vport {index} of {port}");
        let text = match vports.len() {
            1 => format!("out of LIDs: {first} requires one of its own, and stays in INIT"),
            count => format!(
                "out of LIDs: {count} vports require one of their own, and stay in INIT, the first \
                 is {first}; the tables of all switches hold LIDs up to {}",
                self.highest_lid()
            ),
        };
        Some(Note::error("0307", text))
    }

    fn record_vport(&mut self, end: EndPort, vport: &VirtualPort, lid: u16) {
        self.taken.take(lid, 1);
        self.table.assign_vport(end, Lid(lid));
        self.guid2lid.insert(vport.guid, (Lid(lid), Lid(lid)));
    }

    fn assign_free(&mut self, ports: &[PortId]) -> Vec<Note> {
        let mut free = self.taken.free_ranges(self.highest_lid());
        let mut without = Vec::new();
        for &port in ports {
            let count = self.count(port);
            if let Some(first) = free.take(count).or_else(|| self.reuse(count)) {
                self.record(port, first, count);
                continue;
            }
            without.push((port, count));
        }
        self.out_of_lids(&without).into_iter().collect()
    }

    /// Ends the reservation for an absent port or vport, and returns the first of its LIDs.
    fn reuse(&mut self, count: u16) -> Option<u16> {
        let highest = self.highest_lid();
        let fabric = self.fabric;
        let guid2lid = &self.guid2lid;
        let absent = self.absent.get_or_insert_with(|| AbsentRanges::new(fabric, guid2lid));
        let (guid, first) = absent.take(count, highest)?;
        self.guid2lid.remove(&guid);
        self.reused += 1;
        Some(first)
    }

    fn reused_lids(&self) -> Option<Note> {
        let absent = counted(self.reused, "absent port or vport", "absent ports and vports");
        let text = format!("no other LIDs are left: those reserved for {absent} are assigned anew");
        (self.reused > 0).then(|| Note::warning(text))
    }

    /// The message about the ports for which no LIDs are left.
    fn out_of_lids(&self, without: &[(PortId, u16)]) -> Option<Note> {
        let &(first, count) = without.first()?;
        let first = self.fabric.describe(first);
        let lids = counted(usize::from(count), "LID", "LIDs");
        let text = match without.len() {
            1 => format!("out of LIDs: {first} gets none ({lids} needed) and is unreachable"),
            ports => format!(
                "out of LIDs: {ports} end ports get none and are unreachable, the first is {first} \
                 ({lids} needed); the tables of all switches hold LIDs up to {}",
                self.highest_lid()
            ),
        };
        Some(Note::error("0307", text))
    }

    /// The highest LID that fits into the linear forwarding tables of all switches.
    fn highest_lid(&self) -> u16 {
        let caps = self.fabric.switch_ids().map(|id| self.fabric.switch(id).switch_info);
        let tops = caps.map(|info| info.linear_fdb_cap()).filter(|&cap| cap > 1);
        tops.map(|cap| cap - 1).min().unwrap_or(u16::MAX).min(Lid::UNICAST_MAX.0)
    }

    fn record(&mut self, port: PortId, first: u16, count: u16) {
        self.taken.take(first, count);
        self.table.assign(port, Lid(first), lmc_of(self.fabric, port, self.options));
        if let Some(guid) = self.key(port) {
            self.guid2lid.insert(guid, (Lid(first), Lid(first + count - 1)));
        }
    }

    /// The GUID under which the port's LIDs are recorded; `None` if it is 0 or a duplicate.
    fn key(&self, port: PortId) -> Option<Guid> {
        let guid = self.fabric.port(port).guid;
        (self.fabric.port_by_guid(guid) == Some(port)).then_some(guid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::synthetic::{Hardware, SyntheticView};
    use crate::fabric::virtual_ports::VirtualPorts;
    use crate::plan::tests::{ring, with_vports};

    fn fabric(linear_fdb_cap: u16, lids: &[(u16, u8)]) -> Fabric {
        let hardware = Hardware { linear_fdb_cap, ..Hardware::default() };
        let view = SyntheticView { hardware, ..SyntheticView::default() };
        Fabric::from_topology(&ring(3, lids), 0, &view).expect("a fabric")
    }

    fn vport_lids(table: &LidTable) -> Vec<u16> {
        table.of_vports().map(|(lid, _)| lid.0).collect()
    }

    #[test]
    fn vports_get_lids_after_all_ports() {
        let mut fabric = fabric(99, &[]);
        with_vports(&mut fabric, 2, |vport| vport.lid_required = vport.index == 1);
        let (table, after, notes) = assign(&fabric, &Options::default(), &Memory::default());
        assert_eq!((vport_lids(&table), notes), (vec![7, 8, 9], vec![]));
        let vports =
            after.guid2lid.iter().filter(|(guid, _)| fabric.port_by_guid(**guid).is_none());
        assert_eq!(vports.count(), 3);
        let (again, remembered, _) = assign(&fabric, &Options::default(), &after);
        assert_eq!((again, &remembered), (table.clone(), &after));
        // The vport that is the port itself does not decide on the LID of an absent port.
        let mut topology = ring(3, &[]);
        topology.cables.retain(|ends| ends[0].0 != 2);
        let mut alone = Fabric::from_topology(&topology, 0, &SyntheticView::default())
            .expect("a fabric without the second host");
        alone.set_virtual_ports(fabric.virtual_ports().clone());
        let (_, remembered, _) = assign(&alone, &Options::default(), &after);
        assert_eq!(remembered.guid2lid, after.guid2lid);
        // Absent vports keep their LIDs; one that needs none any more does not.
        fabric.set_virtual_ports(Arc::new(VirtualPorts::default()));
        let (absent, remembered, _) = assign(&fabric, &Options::default(), &after);
        assert_eq!((vport_lids(&absent), remembered.guid2lid.len()), (vec![], 9));
        with_vports(&mut fabric, 2, |_| {});
        let (_, released, _) = assign(&fabric, &Options::default(), &after);
        assert_eq!(released.guid2lid.len(), 6);
    }

    /// A vport keeps the LID that it carries although another port has none yet, unless a port has it.
    #[test]
    fn carried_lids_of_vports_stay() {
        let mut fabric = fabric(99, &[(4, 0), (5, 0)]);
        with_vports(&mut fabric, 2, carried);
        let (table, ..) = assign(&fabric, &Options::default(), &Memory::default());
        assert_eq!(vport_lids(&table)[0], 1);
        assert_eq!(table.iter().count(), 9);
        with_vports(&mut fabric, 2, |vport| {
            carried(vport);
            vport.lid = Lid(4);
        });
        let (table, ..) = assign(&fabric, &Options::default(), &Memory::default());
        assert!(!vport_lids(&table).contains(&4));
        assert_eq!(table.iter().count(), 9);
    }

    fn carried(vport: &mut VirtualPort) {
        vport.lid_required = vport.index == 1;
        vport.lid = Lid(if vport.index == 1 { 1 } else { 0 });
    }

    #[test]
    fn vports_without_a_lid_are_counted() {
        let mut fabric = fabric(8, &[]);
        with_vports(&mut fabric, 3, |vport| vport.lid_required = vport.index > 0);
        let (table, _, notes) = assign(&fabric, &Options::default(), &Memory::default());
        assert_eq!(vport_lids(&table), [7]);
        let [note] = &notes[..] else { panic!("one note: {notes:?}") };
        assert!(note.text.contains("5 vports require one of their own"), "{}", note.text);
        assert!(note.text.contains("the first is vport 2 of"), "{}", note.text);
    }
}
