//! P_Key tables of all ports, and P_Key enforcement on switch ports.
//!
//! Input: the partitions, the tables read from the devices, and the indexes of removed keys.
//! Result: the blocks to write. Invariant: a key that a port holds and keeps stays at its table
//! index, because clients address keys by index; with `keep_pkey_indexes`, [`place`] moves a key
//! only to or from index 0.
//!
//! * [`resolve`]: [`Partition`]s from partitions.conf; without the file, the [`default`] partition,
//!   of which every port is a full member;
//! * [`members`]: the keys of each end port;
//! * [`virtual_tables`]: the tables of vports;
//! * [`place`]: the table index of each key. The default key belongs at index 0 (IBA vol. 1,
//!   10.9.1.2) unless the configuration assigns index 0 to another key;
//! * [`removed_pkeys`]: the former indexes of removed keys, for their return;
//! * [`steps`]: the order in which blocks are written, so that no port temporarily loses a key it
//!   keeps.

pub mod members;
pub mod place;
pub mod removed_pkeys;
pub mod resolve;
pub mod steps;
pub mod virtual_tables;

use crate::config::options::{Options, PartEnforce};
pub use crate::config::partitions::{Membership, PortSelector};
use crate::fabric::difference::Difference;
use crate::fabric::virtual_ports::EndPort;
use crate::fabric::{Fabric, PortId};
use crate::ids::{Gid, Pkey, PortNum, Sl};
use crate::interned::Interned;
use crate::notes::{Note, counted};
use crate::paged_vec::PagedVec;
use crate::wire::attr::tables::{PKEY_BLOCK, PkeyBlock, PkeyTable};
use members::{Memberships, WantedKeys};
use place::{KeyIndex, PlacedKeys, PreviousTable};
use rayon::prelude::*;
use removed_pkeys::RemovedPkeys;
use std::collections::HashSet;
use std::sync::Arc;
use virtual_tables::VirtualTables;

pub use resolve::{default, partitions};

/// Maximum number of omitted keys that a message lists; the others are only counted.
const MAX_LISTED_KEYS: usize = 8;
/// `virt_enabled`: vports are managed.
const MANAGED: u8 = 2;

/// The P_Key tables of a fabric.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PartitionTables {
    /// The planned blocks (block number, block), by port slot; empty for ports without a table.
    pub blocks: PagedVec<Arc<[(u16, PkeyBlock)]>>,
    /// The keys of each end port, by port slot, for path and group checks.
    pub keys: PagedVec<Arc<[Pkey]>>,
    /// The tables of vports, and the keys of their physical ports without those of the vports.
    pub virtual_tables: Arc<VirtualTables>,
    /// P_Key enforcement (inbound, outbound) of switch ports, by port slot; `None` keeps the
    /// observed bits.
    pub enforcement: PagedVec<Option<(bool, bool)>>,
    /// The service levels of the partitions, by partition number, ascending.
    pub service_levels: Vec<(u16, Sl)>,
    /// The names of the partitions, by partition number, ascending.
    pub names: Vec<(u16, String)>,
}

impl PartitionTables {
    /// The planned blocks of a port (block number, block); none for ports without a table.
    pub fn blocks_of(&self, port: PortId) -> &[(u16, PkeyBlock)] {
        self.blocks.get(port.index()).map_or(&[], |blocks| blocks)
    }

    /// The keys of an end port; none for other ports.
    pub fn keys_of(&self, port: PortId) -> &[Pkey] {
        self.keys.get(port.index()).map_or(&[], |keys| keys)
    }

    /// The keys of an end port or vport, without those that a physical port holds for its vports only.
    pub fn own_keys(&self, end: EndPort) -> &[Pkey] {
        let own = self.virtual_tables.keys(end);
        own.unwrap_or_else(|| if end.is_virtual() { &[] } else { self.keys_of(end.physical) })
    }

    /// The service level of the partition of `key`; SL 0 if there is no such partition.
    pub fn service_level(&self, key: Pkey) -> Sl {
        let found = self.service_levels.binary_search_by_key(&key.base(), |(base, _)| *base);
        found.ok().and_then(|index| self.service_levels.get(index)).map_or(Sl(0), |(_, sl)| *sl)
    }
}

/// A partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partition {
    pub name: String,
    /// The P_Key without the membership bit.
    pub pkey: Pkey,
    /// The members; of several entries for a port, the last one applies.
    pub members: Vec<PartitionMember>,
    /// The default service level of paths in the partition.
    pub sl: Sl,
    /// The permanent multicast groups: the IPoIB broadcast group and configured ones.
    pub groups: Vec<PermanentGroup>,
}

/// A set of ports with the same membership of a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartitionMember {
    pub ports: PortSelector,
    pub membership: Membership,
    /// `Some` assigns index 0 of the ports' tables to this key. If several keys claim index 0, the
    /// greatest number wins.
    pub index0: Option<u32>,
}

impl PartitionMember {
    /// Creates an entry whose keys may be at any index.
    pub fn new(ports: PortSelector, membership: Membership) -> Self {
        Self { ports, membership, index0: None }
    }
}

/// A multicast group of partitions.conf, in the encoding of MCMemberRecord (IBA vol. 1, 15.2.5.17;
/// RFC 4391).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PermanentGroup {
    /// The position in the configuration, from 0. Groups get their MLIDs in this order.
    pub order: usize,
    pub mgid: Gid,
    /// The P_Key with the full membership bit.
    pub pkey: Pkey,
    pub q_key: u32,
    /// MTU code; members must support exactly this MTU.
    pub mtu: u8,
    /// Rate code; members must support exactly this rate.
    pub rate: u8,
    pub sl: Sl,
    /// Scope; 2 is link-local.
    pub scope: u8,
    pub tclass: u8,
    pub flow_label: u32,
    pub hop_limit: u8,
    /// Packet lifetime code: 4.096 us * 2^code.
    pub packet_life: u8,
}

/// End ports whose tables are planned before equal ones are shared: each takes some 200 bytes until then.
const PORTS_AT_A_TIME: usize = 1024;

/// Plans the tables of `partitions`. `observed` holds the blocks read from each port, by port slot;
/// blocks that were not read are written only if they hold a key. `removed` are the removed keys of
/// the previous plan; the updated ones are returned. The notes name ports whose table is too small.
pub fn tables(
    fabric: &Fabric,
    partitions: &[Partition],
    observed: &[PkeyTable],
    removed: &RemovedPkeys,
    options: &Options,
) -> (PartitionTables, RemovedPkeys, Vec<Note>) {
    let slots = fabric.ports().len();
    let memberships = Memberships::of(fabric, partitions, options);
    let numbers: HashSet<u16> = partitions.iter().map(|part| part.pkey.base()).collect();
    let planner = TablePlanner {
        fabric,
        observed,
        removed,
        options,
        memberships: &memberships,
        partitions: &numbers,
    };
    let end_ports: Vec<PortId> = fabric.end_ports().collect();
    let mut all = PartitionTables {
        blocks: PagedVec::filled(Arc::default(), slots),
        keys: PagedVec::filled(Arc::default(), slots),
        virtual_tables: Arc::default(),
        enforcement: PagedVec::filled(None, slots),
        service_levels: partitions.iter().map(|part| (part.pkey.base(), part.sl)).collect(),
        names: partitions.iter().map(|part| (part.pkey.base(), part.name.clone())).collect(),
    };
    all.service_levels.sort_unstable();
    all.names.sort_unstable();
    let mut notes = Vec::new();
    let mut all_removed = Vec::new();
    let mut known_blocks = Interned::default();
    let mut known_keys = Interned::default();
    for ports in end_ports.chunks(PORTS_AT_A_TIME) {
        let tables: Vec<LinkTables> = ports
            .par_iter()
            .map_init(KeyIndex::default, |index, &port| planner.port(port, index))
            .collect();
        for (&port, table) in ports.iter().zip(tables) {
            if !table.removed.is_empty() {
                all_removed.push((fabric.port(port).guid, table.removed));
            }
            all.blocks[port.index()] = known_blocks.share(table.blocks);
            all.keys[port.index()] = known_keys.share(table.held);
            if let Some((peer, enforcement)) = table.peer_enforcement {
                all.enforcement[peer.index()] = Some(enforcement.bits);
                all.blocks[peer.index()] = known_blocks.share(enforcement.blocks);
            }
            notes.extend(table.notes);
        }
    }
    disable_on_switch_links(fabric, &mut all);
    let (virtual_tables, virtual_notes) = virtual_tables::plan(fabric, &memberships, options);
    all.virtual_tables = Arc::new(virtual_tables);
    notes.extend(virtual_notes);
    (all, RemovedPkeys::new(all_removed), notes)
}

/// The tables of an end port and of the switch port it is linked to.
struct LinkTables {
    blocks: Vec<(u16, PkeyBlock)>,
    held: Vec<Pkey>,
    removed: Vec<(Pkey, u16)>,
    peer_enforcement: Option<(PortId, PortEnforcement)>,
    notes: Vec<Note>,
}

/// The table and the enforcement bits (inbound, outbound) of a switch port.
#[derive(Default)]
struct PortEnforcement {
    bits: (bool, bool),
    blocks: Vec<(u16, PkeyBlock)>,
}

#[derive(Clone, Copy)]
struct TablePlanner<'a> {
    fabric: &'a Fabric,
    observed: &'a [PkeyTable],
    removed: &'a RemovedPkeys,
    options: &'a Options,
    memberships: &'a Memberships,
    /// The numbers of the partitions.
    partitions: &'a HashSet<u16>,
}

impl TablePlanner<'_> {
    fn observed(&self, port: PortId) -> &[PkeyBlock] {
        self.observed.get(port.index()).map_or(&[], |table| &table[..])
    }

    fn port(&self, port: PortId, index: &mut KeyIndex) -> LinkTables {
        let fabric = self.fabric;
        let cap = usize::from(fabric.node_of(port).info.partition_cap()).max(1);
        let old = self.observed(port);
        let kept = self.keys_of_unknown_vports(port, old);
        let wanted = kept.as_ref().unwrap_or_else(|| self.memberships.of_port(port));
        let removed = self.removed.of(fabric.port(port).guid);
        let previous = PreviousTable { table: old, removed };
        let placed = place::place(wanted, previous, cap, self.options, index);
        let PlacedKeys { table, left_out, removed } = placed;
        let mut notes = Vec::new();
        if !left_out.is_empty() {
            notes.push(overflow(&fabric.describe(port), cap, &left_out));
        }
        let blocks = blocks(&table, old.len());
        let held: Vec<_> = table.into_iter().filter(|key| key.base() != 0).collect();
        let peer_enforcement = peer_switch_port(fabric, port)
            .and_then(|peer| Some((peer, self.enforcement(peer, &held, index, &mut notes)?)));
        LinkTables { blocks, held, removed, peer_enforcement, notes }
    }

    /// The keys of a port that may have vports which are not discovered yet, such as after a change of
    /// the master: it keeps what it holds of the partitions.
    fn keys_of_unknown_vports(&self, port: PortId, held: &[PkeyBlock]) -> Option<WantedKeys> {
        if self.options.virt_enabled != MANAGED || !self.fabric.has_unknown_vports(port) {
            return None;
        }
        let held = held.iter().flat_map(|block| block.0);
        let of_partition = held.filter(|key| self.partitions.contains(&key.base()));
        let keys = WantedKeys { keys: of_partition.collect(), index0: None };
        let mut wanted = self.memberships.of_port(port).clone();
        wanted.unite(&keys, self.options.allow_both_pkeys);
        Some(wanted)
    }

    /// The enforcement at the switch port `peer`, which is linked to a port with the keys `held`;
    /// `None` if the switch does not support enforcement.
    fn enforcement(
        &self,
        peer: PortId,
        held: &[Pkey],
        index: &mut KeyIndex,
        notes: &mut Vec<Note>,
    ) -> Option<PortEnforcement> {
        let switch = self.fabric.node_of(peer).switch_info;
        let cap = usize::from(switch.partition_enforcement_cap());
        if cap == 0 {
            return None;
        }
        let (inbound, outbound) = match self.options.part_enforce {
            _ if self.options.no_partition_enforcement => (false, false),
            PartEnforce::Both => (true, true),
            PartEnforce::In => (true, false),
            PartEnforce::Out => (false, true),
            PartEnforce::Off => (false, false),
        };
        if !inbound && !outbound {
            return Some(PortEnforcement::default());
        }
        // Like OpenSM, write the table even if the switch does not enforce in the configured
        // direction.
        let bits = (
            inbound && switch.inbound_enforcement_cap(),
            outbound && switch.outbound_enforcement_cap(),
        );
        let keys = place::without_implied(held, index);
        if keys.len() > cap {
            let place = self.fabric.describe(peer);
            let count = keys.len();
            let entries = counted(cap, "entry", "entries");
            let text = format!(
                "P_Keys are not enforced at {place}: its table has {entries}, and {count} \
                 P_Keys are needed"
            );
            notes.push(Note::error("0507", text));
            return Some(PortEnforcement::default());
        }
        // No client uses the indexes of a switch port's table, but keys that keep their index are
        // never absent while the table is rewritten.
        let index0 = keys.first().map(|&key| (0, Some(key)));
        let old = self.observed(peer);
        let wanted = WantedKeys { keys, index0 };
        let previous = PreviousTable { table: old, removed: &[] };
        let placed = place::place(&wanted, previous, cap, self.options, index);
        Some(PortEnforcement { bits, blocks: blocks(&placed.table, old.len()) })
    }
}

/// The note about a port whose table is too small for its keys.
fn overflow(place: &str, cap: usize, left_out: &[Pkey]) -> Note {
    let named: Vec<String> = left_out.iter().take(MAX_LISTED_KEYS).map(Pkey::to_string).collect();
    let more = match left_out.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let keys = named.join(", ");
    Note::error(
        "0512",
        format!(
            "P_Key table of {place} is full ({}): {keys}{more} left out",
            counted(cap, "entry", "entries")
        ),
    )
}

/// The blocks to plan: those that hold a key, and the first `read` ones, which were read from the
/// device and may hold keys to overwrite.
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

/// The switch port that a port of a channel adapter or router is linked to.
fn peer_switch_port(fabric: &Fabric, port: PortId) -> Option<PortId> {
    let peer = fabric.port(port).peer?;
    let is_leaf = !fabric.node_of(port).is_switch() && fabric.node_of(peer).is_switch();
    is_leaf.then_some(peer)
}

/// Disables enforcement on links between switches, which carry all partitions.
fn disable_on_switch_links(fabric: &Fabric, tables: &mut PartitionTables) {
    for (slot, port) in tables.enforcement.iter_mut().zip(fabric.port_ids()) {
        if is_switch_link(fabric, port) {
            *slot = Some((false, false));
        }
    }
}

/// True for external switch ports that are linked to switches.
fn is_switch_link(fabric: &Fabric, id: PortId) -> bool {
    let port = fabric.port(id);
    let is_switch = fabric.node(port.node).is_switch() && port.num != PortNum::ZERO;
    is_switch && port.peer.is_some_and(|peer| fabric.node_of(peer).is_switch())
}

/// Updates the tables `before` if only links between switches changed; `None` if anything else did.
/// Partitions, options and observed tables must be the same.
pub fn update_switch_links(
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

/// True for external switch ports that are not linked to an end port.
pub(super) fn concerns_switches(fabric: &Fabric, id: PortId) -> bool {
    let port = fabric.port(id);
    let is_external = fabric.node(port.node).is_switch() && port.num != PortNum::ZERO;
    is_external && port.peer.is_none_or(|peer| fabric.node_of(peer).is_switch())
}

#[cfg(test)]
mod tests;
