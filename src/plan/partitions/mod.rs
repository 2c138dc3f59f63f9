//! P_Key tables: which keys the ports hold, and what switches enforce for them.
//!
//! * [`resolve`]: partitions.conf → [`Partition`]s with their keys, members and groups; without
//!   a configuration there is the [`default`] one, of which every port is a full member;
//! * [`members`]: which end port holds which keys; * [`place`]: keys → table. A key stays at the
//!   index where it was found, for clients address keys by index; the default key belongs at
//!   index 0 (IBA vol. 1, 10.9.1.2) unless the configuration wants another one there;
//! * [`removed_pkeys`]: where keys stood that a port has no more, for the day they come back;
//! * [`steps`]: the order in which blocks are written, so that no port is without a key that it
//!   had and is to keep.

pub mod members;
pub mod place;
pub mod removed_pkeys;
pub mod resolve;
pub mod steps;

use super::paged_vec::PagedVec;
use crate::config::options::{Options, PartEnforce};
pub use crate::config::partitions::{Membership, Who};
use crate::fabric::difference::Difference;
use crate::fabric::{Fabric, PortId};
use crate::ids::{Gid, Pkey, PortNum, Sl};
use crate::notes::Note;
use crate::wire::attr::tables::{PKEY_BLOCK, PkeyBlock};
use members::{Memberships, Wanted};
use place::{Before, Lookup, Placed};
use rayon::prelude::*;
use removed_pkeys::RemovedPkeys;

pub use resolve::{default, partitions};

/// Keys of a port that found no room and are named one by one.
const NAMED_KEYS: usize = 8;

/// The P_Key tables of a fabric.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PartitionTables {
    /// By port slot: the blocks the table is to have (block number, block); empty where none.
    pub blocks: PagedVec<Vec<(u16, PkeyBlock)>>,
    /// By port slot: the keys an end port holds, for path and group checks.
    pub keys: PagedVec<Vec<Pkey>>,
    /// By port slot: P_Key enforcement (arriving, leaving) of switch ports; `None` where it is
    /// to stay as it is.
    pub enforcement: PagedVec<Option<(bool, bool)>>,
    /// The service levels of the partitions, by partition number, ascending.
    pub service_levels: Vec<(u16, Sl)>,
}

impl PartitionTables {
    /// The service level of the partition of `key`: 0 if there is no such partition.
    pub fn service_level(&self, key: Pkey) -> Sl {
        let found = self.service_levels.binary_search_by_key(&key.base(), |(base, _)| *base);
        found.ok().and_then(|index| self.service_levels.get(index)).map_or(Sl(0), |(_, sl)| *sl)
    }
}

/// A partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partition {
    /// Its name.
    pub name: String,
    /// Its key without the membership bit.
    pub pkey: Pkey,
    /// Who belongs to it; of two entries for a port the later counts.
    pub members: Vec<Member>,
    /// The service level of its paths, unless a query or the routing wants another one.
    pub sl: Sl,
    /// The multicast groups that are always there: IPoIB's and others.
    pub groups: Vec<PermanentGroup>,
}

/// Ports that belong to a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// Which ports.
    pub who: Who,
    /// How.
    pub membership: Membership,
    /// `Some` if the key is to stand at index 0 of their tables; of several keys that of the
    /// greatest number does.
    pub index0: Option<u32>,
}

impl Member {
    /// An entry whose keys stand wherever there is room.
    pub fn new(who: Who, membership: Membership) -> Self {
        Self { who, membership, index0: None }
    }
}

/// A multicast group of the configuration, as codes of the wire (IBA vol. 1, 15.2.5.17; RFC
/// 4391).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PermanentGroup {
    /// Its place in the configuration, from 0: groups get their MLIDs in this order.
    pub order: usize,
    /// Its MGID.
    pub mgid: Gid,
    /// Its P_Key, as of full members.
    pub pkey: Pkey,
    /// Queue key.
    pub q_key: u32,
    /// MTU code, exactly.
    pub mtu: u8,
    /// Rate code, exactly.
    pub rate: u8,
    /// Service level.
    pub sl: Sl,
    /// Scope; 2 is link-local.
    pub scope: u8,
    /// Traffic class.
    pub tclass: u8,
    /// Flow label.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Packet lifetime: 4.096 us * 2^code.
    pub packet_life: u8,
}

/// The tables for `partitions`. `observed` holds, by port slot, the blocks that were read (fewer
/// or none where nothing was); blocks beyond those are written only if they hold a key. `gone` is
/// what the plan before left to remember; what this one leaves comes back. The notes name ports
/// whose table is too small.
pub fn tables(
    fabric: &Fabric,
    partitions: &[Partition],
    observed: &[Vec<PkeyBlock>],
    gone: &RemovedPkeys,
    options: &Options,
) -> (PartitionTables, RemovedPkeys, Vec<Note>) {
    let slots = fabric.ports().len();
    let memberships = Memberships::of(fabric, partitions, options);
    let work = Work { fabric, observed, gone, options, memberships: &memberships };
    let end_ports: Vec<PortId> = fabric.end_ports().collect();
    let tables: Vec<PortTables> = end_ports
        .par_iter()
        .map_init(Lookup::default, |lookup, &port| work.port(port, lookup))
        .collect();
    let mut all = PartitionTables {
        blocks: PagedVec::filled(Vec::new(), slots),
        keys: PagedVec::filled(Vec::new(), slots),
        enforcement: PagedVec::filled(None, slots),
        service_levels: partitions.iter().map(|part| (part.pkey.base(), part.sl)).collect(),
    };
    all.service_levels.sort_unstable();
    let (mut notes, mut left) = (Vec::new(), Vec::new());
    for (&port, table) in end_ports.iter().zip(tables) {
        if !table.gone.is_empty() {
            left.push((fabric.port(port).guid, table.gone));
        }
        all.blocks[port.index()] = table.blocks;
        all.keys[port.index()] = table.held;
        if let Some((peer, gate)) = table.gate {
            all.enforcement[peer.index()] = Some(gate.bits);
            all.blocks[peer.index()] = gate.blocks;
        }
        notes.extend(table.notes);
    }
    free_switch_links(fabric, &mut all);
    (all, RemovedPkeys::new(left), notes)
}

/// What belongs to an end port.
struct PortTables {
    blocks: Vec<(u16, PkeyBlock)>,
    held: Vec<Pkey>,
    gone: Vec<(Pkey, u16)>,
    /// The switch port it is cabled to, and what that is to do.
    gate: Option<(PortId, Gate)>,
    notes: Vec<Note>,
}

/// The table and the enforcement bits of a switch port.
#[derive(Default)]
struct Gate {
    bits: (bool, bool),
    blocks: Vec<(u16, PkeyBlock)>,
}

#[derive(Clone, Copy)]
struct Work<'a> {
    fabric: &'a Fabric,
    observed: &'a [Vec<PkeyBlock>],
    gone: &'a RemovedPkeys,
    options: &'a Options,
    memberships: &'a Memberships,
}

impl Work<'_> {
    fn observed(&self, port: PortId) -> &[PkeyBlock] {
        self.observed.get(port.index()).map_or(&[], Vec::as_slice)
    }

    fn port(&self, port: PortId, lookup: &mut Lookup) -> PortTables {
        let fabric = self.fabric;
        let cap = usize::from(fabric.node_of(port).info.partition_cap()).max(1);
        let old = self.observed(port);
        let wanted = self.memberships.of_port(port);
        let before = Before { table: old, gone: self.gone.of(fabric.port(port).guid) };
        let placed = place::place(wanted, before, cap, self.options, lookup);
        let Placed { table, left_out, gone } = placed;
        let mut notes = Vec::new();
        if !left_out.is_empty() {
            notes.push(overflow(fabric, port, cap, &left_out));
        }
        let blocks = blocks(&table, old.len());
        let held: Vec<_> = table.into_iter().filter(|key| key.base() != 0).collect();
        let gate = switch_port_at(fabric, port)
            .and_then(|peer| Some((peer, self.gate(peer, &held, lookup, &mut notes)?)));
        PortTables { blocks, held, gone, gate, notes }
    }

    /// What the switch port `peer` is to do, which faces a port that holds `held`; `None` if its
    /// switch enforces nothing.
    fn gate(
        &self,
        peer: PortId,
        held: &[Pkey],
        lookup: &mut Lookup,
        notes: &mut Vec<Note>,
    ) -> Option<Gate> {
        let switch = self.fabric.node_of(peer).switch_info;
        let cap = usize::from(switch.partition_enforcement_cap());
        if cap == 0 {
            return None;
        }
        let (arriving, leaving) = match self.options.part_enforce {
            _ if self.options.no_partition_enforcement => (false, false),
            PartEnforce::Both => (true, true),
            PartEnforce::In => (true, false),
            PartEnforce::Out => (false, true),
            PartEnforce::Off => (false, false),
        };
        if !arriving && !leaving {
            return Some(Gate::default());
        }
        // As OpenSM, a table is written even where the switch says that it would not heed it.
        let bits = (
            arriving && switch.inbound_enforcement_cap(),
            leaving && switch.outbound_enforcement_cap(),
        );
        let keys = place::without_implied(held, lookup);
        if keys.len() > cap {
            let (place, count) = (self.fabric.describe(peer), keys.len());
            let text = format!("{place} has {cap} entries for {count} P_Keys: not enforced");
            notes.push(Note::error("0507", text));
            return Some(Gate::default());
        }
        // On a switch port the index means nothing to anybody, but keys that stay where they are
        // are never missing while the table changes.
        let index0 = keys.first().map(|&key| (0, Some(key)));
        let old = self.observed(peer);
        let (wanted, before) = (Wanted { keys, index0 }, Before { table: old, gone: &[] });
        let placed = place::place(&wanted, before, cap, self.options, lookup);
        Some(Gate { bits, blocks: blocks(&placed.table, old.len()) })
    }
}

/// The table of `port` has no room for all keys it is to hold.
fn overflow(fabric: &Fabric, port: PortId, cap: usize, left_out: &[Pkey]) -> Note {
    let named: Vec<String> = left_out.iter().take(NAMED_KEYS).map(Pkey::to_string).collect();
    let more = match left_out.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (keys, place) = (named.join(", "), fabric.describe(port));
    Note::error(
        "0512",
        format!("P_Key table with {cap} entries is full: no {keys}{more} for {place}"),
    )
}

/// The blocks of a table: those that hold a key, and those among the first `read` that were
/// read and so may hold something to be overwritten.
fn blocks(table: &[Pkey], read: usize) -> Vec<(u16, PkeyBlock)> {
    let chunks = table.chunks(PKEY_BLOCK).enumerate();
    let written = chunks.filter(|(index, keys)| *index < read || keys.iter().any(|key| key.0 != 0));
    written
        .map(|(index, keys)| {
            let mut block = PkeyBlock::default();
            block.0[..keys.len()].copy_from_slice(keys);
            (index as u16, block)
        })
        .collect()
}

/// The switch port that an end port of a channel adapter or router is cabled to.
fn switch_port_at(fabric: &Fabric, port: PortId) -> Option<PortId> {
    let peer = fabric.port(port).peer?;
    let is_leaf = !fabric.node_of(port).is_switch() && fabric.node_of(peer).is_switch();
    is_leaf.then_some(peer)
}

/// Links between switches carry all partitions: nothing is enforced there.
fn free_switch_links(fabric: &Fabric, tables: &mut PartitionTables) {
    for (slot, port) in tables.enforcement.iter_mut().zip(fabric.port_ids()) {
        if is_switch_link(fabric, port) {
            *slot = Some((false, false));
        }
    }
}

/// True for external ports of switches that are cabled to switches.
fn is_switch_link(fabric: &Fabric, id: PortId) -> bool {
    let port = fabric.port(id);
    let is_switch = fabric.node(port.node).is_switch() && port.num != PortNum::ZERO;
    is_switch && port.peer.is_some_and(|peer| fabric.node_of(peer).is_switch())
}

/// The tables of a picture that differs from the one of `before` in nothing but cables between
/// switches; `None` if it differs in more. Partitions, options and observed tables must be the
/// same.
pub fn with_other_links(
    old: &Fabric,
    new: &Fabric,
    difference: &Difference,
    before: &PartitionTables,
) -> Option<PartitionTables> {
    let mut ports = difference.ports.iter();
    let only_links = ports.all(|&id| concerns_switches(old, id) && concerns_switches(new, id));
    if !only_links || !difference.nodes.is_empty() {
        return None;
    }
    let mut tables = before.clone();
    for &id in &difference.ports {
        let bits = is_switch_link(new, id).then_some((false, false));
        tables.enforcement.replace(id.index(), bits);
    }
    Some(tables)
}

/// True for external switch ports that have no end port behind them.
pub(super) fn concerns_switches(fabric: &Fabric, id: PortId) -> bool {
    let port = fabric.port(id);
    let is_external = fabric.node(port.node).is_switch() && port.num != PortNum::ZERO;
    is_external && port.peer.is_none_or(|peer| fabric.node_of(peer).is_switch())
}

#[cfg(test)]
mod tests;
