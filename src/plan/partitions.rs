//! P_Key tables: which keys the ports hold, and what switches enforce for them.
//!
//! The input is a list of [`Partition`]s; without a configuration that is the [`default`] one,
//! of which every port is a full member. A key stays at the table index where it was found, for
//! clients address keys by index; the default key belongs at index 0 (IBA vol. 1, 10.9.1.2).

use crate::config::options::{Options, PartEnforce};
use crate::fabric::{Fabric, PortId};
use crate::ids::{Gid, Guid, Pkey, PortNum, Sl};
use crate::notes::Note;
use crate::wire::attr::NodeKind;
use crate::wire::attr::tables::{PKEY_BLOCK, PkeyBlock};

/// The P_Key tables of a fabric.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PartitionTables {
    /// By port slot: the blocks to be written (block number, block); empty where none.
    pub blocks: Vec<Vec<(u16, PkeyBlock)>>,
    /// By port slot: the keys an end port holds, for path and group checks.
    pub keys: Vec<Vec<Pkey>>,
    /// By port slot: P_Key enforcement (arriving, leaving) of switch ports; `None` where it is
    /// to stay as it is.
    pub enforcement: Vec<Option<(bool, bool)>>,
}

/// A partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partition {
    /// Its name.
    pub name: String,
    /// Its key without the membership bit.
    pub pkey: Pkey,
    /// Who belongs to it; of two entries for a port the later counts, unless
    /// `allow_both_pkeys` lets them add up.
    pub members: Vec<Member>,
    /// Its IPoIB broadcast group, if it has one.
    pub ipoib: Option<BroadcastGroup>,
}

/// Ports that belong to a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// Which ports.
    pub who: Who,
    /// Full members talk to all, limited ones to full ones only.
    pub full: bool,
}

/// A choice of end ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Who {
    /// All.
    All,
    /// Those of nodes of a kind.
    Kind(NodeKind),
    /// The SM's own port.
    Own,
    /// The one with this GUID.
    Port(Guid),
}

/// Parameters of a broadcast group, as codes of the wire (IBA vol. 1, 15.2.5.17; RFC 4391).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BroadcastGroup {
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

impl BroadcastGroup {
    /// The IPv4 broadcast group of a partition: Q_Key 0xb1b, MTU 2048, 10 Gb/s, SL 0.
    pub fn ipv4(pkey: Pkey, options: &Options) -> Self {
        let full = pkey.0 | 0x8000;
        let [high, low] = full.to_be_bytes();
        let mgid = [0xFF, 0x12, 0x40, 0x1B, high, low, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF];
        Self {
            mgid: Gid(mgid),
            pkey: Pkey(full),
            q_key: 0xB1B,
            mtu: 4,
            rate: 3,
            sl: Sl(0),
            scope: 2,
            tclass: 0,
            flow_label: 0,
            hop_limit: 0,
            packet_life: options.subnet_timeout,
        }
    }
}

/// The partitions of a subnet without partitions.conf: the default one, with all ports as full
/// members and a broadcast group.
pub fn default(options: &Options) -> Vec<Partition> {
    let pkey = Pkey::DEFAULT_LIMITED;
    vec![Partition {
        name: "Default".into(),
        pkey,
        members: vec![Member { who: Who::All, full: true }, Member { who: Who::Own, full: true }],
        ipoib: Some(BroadcastGroup::ipv4(pkey, options)),
    }]
}

/// The tables for `partitions`. `observed` holds, by port slot, the blocks that were read (fewer
/// or none where nothing was); blocks beyond those are written only if they hold a key. The
/// notes name ports whose table is too small.
pub fn tables(
    fabric: &Fabric,
    partitions: &[Partition],
    observed: &[Vec<PkeyBlock>],
    options: &Options,
) -> (PartitionTables, Vec<Note>) {
    let slots = fabric.ports().len();
    let mut tables = PartitionTables {
        blocks: vec![Vec::new(); slots],
        keys: memberships(fabric, partitions, options),
        enforcement: vec![None; slots],
    };
    let mut notes = Vec::new();
    for port in fabric.end_ports() {
        let cap = usize::from(fabric.node_of(port).info.partition_cap()).max(1);
        let old = observed.get(port.index()).map_or(&[][..], Vec::as_slice);
        let wanted = std::mem::take(&mut tables.keys[port.index()]);
        let (table, left_out) = place(&wanted, old, cap, options);
        for key in left_out {
            let text = format!("P_Key table is full: no {key} for {}", fabric.describe(port));
            notes.push(Note::error("0512", text));
        }
        tables.blocks[port.index()] = blocks(&table, old.len());
        let held: Vec<_> = table.into_iter().filter(|key| key.base() != 0).collect();
        if let Some(peer) = switch_port_at(fabric, port) {
            enforce(fabric, peer, &held, observed, options, &mut tables, &mut notes);
        }
        tables.keys[port.index()] = held;
    }
    free_switch_links(fabric, &mut tables);
    (tables, notes)
}

/// By port slot: the keys an end port is to hold, ascending by partition.
fn memberships(fabric: &Fabric, partitions: &[Partition], options: &Options) -> Vec<Vec<Pkey>> {
    let mut keys: Vec<Vec<Pkey>> = vec![Vec::new(); fabric.ports().len()];
    let mut order: Vec<_> = partitions.iter().collect();
    order.sort_by_key(|partition| partition.pkey.base());
    for partition in order {
        for member in &partition.members {
            let key = Pkey(partition.pkey.base() | if member.full { 0x8000 } else { 0 });
            for port in chosen(fabric, member.who) {
                let held = &mut keys[port.index()];
                if !options.allow_both_pkeys {
                    held.retain(|other| other.base() != key.base());
                }
                if !held.contains(&key) {
                    held.push(key);
                }
            }
        }
    }
    keys
}

fn chosen(fabric: &Fabric, who: Who) -> Vec<PortId> {
    match who {
        Who::All => fabric.end_ports().collect(),
        Who::Kind(kind) => {
            fabric.end_ports().filter(|&port| fabric.node_of(port).kind() == kind).collect()
        }
        Who::Own => vec![fabric.local()],
        Who::Port(guid) => fabric.port_by_guid(guid).into_iter().collect(),
    }
}

/// Puts `wanted` into a table of `cap` entries; also returns the keys for which it is too small.
fn place(
    wanted: &[Pkey],
    old: &[PkeyBlock],
    cap: usize,
    options: &Options,
) -> (Vec<Pkey>, Vec<Pkey>) {
    let both = options.allow_both_pkeys;
    let same = |a: Pkey, b: Pkey| if both { a == b } else { a.base() == b.base() };
    let is_default =
        |key: Pkey| key == Pkey::DEFAULT_FULL || (!both && same(key, Pkey::DEFAULT_FULL));
    let old: Vec<Pkey> = match options.keep_pkey_indexes {
        true => old.iter().flat_map(|block| block.0).take(cap).collect(),
        false => Vec::new(),
    };
    let mut table = vec![Pkey(0); cap];
    let mut new = Vec::new();
    for &key in wanted {
        let found = old.iter().position(|&other| other.base() != 0 && same(other, key));
        match found {
            _ if is_default(key) => table[0] = key,
            Some(index) if index > 0 && table[index].0 == 0 => table[index] = key,
            _ => new.push(key),
        }
    }
    // Behind all that was ever seen, so that an index a client remembers is not reused early.
    let mut next = old.iter().rposition(|key| key.0 != 0).map_or(1, |last| last + 1).max(1);
    let mut left_out = Vec::new();
    for key in new {
        let behind = (next..cap).find(|&index| table[index].0 == 0);
        match behind.or_else(|| (1..cap).find(|&index| table[index].0 == 0)) {
            Some(index) => {
                table[index] = key;
                next = next.max(index + 1);
            }
            None => left_out.push(key),
        }
    }
    (table, left_out)
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

/// The table and the enforcement bits of the switch port `peer`, which faces a port that holds
/// `held`.
fn enforce(
    fabric: &Fabric,
    peer: PortId,
    held: &[Pkey],
    observed: &[Vec<PkeyBlock>],
    options: &Options,
    tables: &mut PartitionTables,
    notes: &mut Vec<Note>,
) {
    let switch = fabric.node_of(peer).switch_info;
    let cap = usize::from(switch.partition_enforcement_cap());
    if cap == 0 {
        return;
    }
    let (arriving, leaving) = match options.part_enforce {
        _ if options.no_partition_enforcement => (false, false),
        PartEnforce::Both => (true, true),
        PartEnforce::In => (true, false),
        PartEnforce::Out => (false, true),
        PartEnforce::Off => (false, false),
    };
    let bits = (
        arriving && switch.inbound_enforcement_cap(),
        leaving && switch.outbound_enforcement_cap(),
    );
    tables.enforcement[peer.index()] = Some(bits);
    if bits == (false, false) {
        return;
    }
    // A full member's key lets everything pass that the limited one would.
    let implied = |key: &Pkey| !key.is_full() && held.contains(&Pkey(key.0 | 0x8000));
    let mut table: Vec<_> = held.iter().copied().filter(|key| !implied(key)).collect();
    if table.len() > cap {
        let text = format!(
            "{} has {cap} entries for {} P_Keys: not enforced",
            fabric.describe(peer),
            table.len()
        );
        notes.push(Note::error("0507", text));
        tables.enforcement[peer.index()] = Some((false, false));
        return;
    }
    table.resize(cap, Pkey(0));
    let read = observed.get(peer.index()).map_or(0, Vec::len);
    tables.blocks[peer.index()] = blocks(&table, read);
}

/// Links between switches carry all partitions: nothing is enforced there.
fn free_switch_links(fabric: &Fabric, tables: &mut PartitionTables) {
    for (slot, port) in tables.enforcement.iter_mut().zip(fabric.ports()) {
        let is_switch = fabric.node(port.node).is_switch() && port.num != PortNum::ZERO;
        if is_switch && port.peer.is_some_and(|peer| fabric.node_of(peer).is_switch()) {
            *slot = Some((false, false));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(keys: &[u16]) -> Vec<PkeyBlock> {
        let mut block = PkeyBlock::default();
        for (slot, &key) in block.0.iter_mut().zip(keys) {
            *slot = Pkey(key);
        }
        vec![block]
    }

    #[test]
    fn keys_keep_their_index() {
        let options = Options::default();
        let new_index = Options { keep_pkey_indexes: false, ..Options::default() };
        type Keys<'a> = &'a [u16];
        type Case<'a> = (&'a Options, Keys<'a>, Keys<'a>, Keys<'a>, Keys<'a>);
        let cases: [Case<'_>; 6] = [
            (&options, &[], &[0xFFFF], &[0xFFFF, 0, 0, 0], &[]),
            (&options, &[0, 0x7FFF], &[0xFFFF], &[0xFFFF, 0, 0, 0], &[]),
            (&options, &[0xFFFF, 1, 0x8002], &[2, 0xFFFF], &[0xFFFF, 0, 2, 0], &[]),
            (&options, &[0xFFFF, 1], &[3, 0xFFFF], &[0xFFFF, 0, 3, 0], &[]),
            (&options, &[0xFFFF, 0, 0, 7], &[1, 2, 3, 7], &[0, 1, 2, 7], &[3]),
            (&new_index, &[0xFFFF, 0, 5], &[5, 0xFFFF], &[0xFFFF, 5, 0, 0], &[]),
        ];
        for (options, old, wanted, table, left_out) in cases {
            let wanted: Vec<_> = wanted.iter().copied().map(Pkey).collect();
            let (got, rest) = place(&wanted, &block(old), 4, options);
            assert_eq!(got.iter().map(|key| key.0).collect::<Vec<_>>(), table);
            assert_eq!(rest.iter().map(|key| key.0).collect::<Vec<_>>(), left_out);
        }
    }

    #[test]
    fn the_broadcast_group_is_that_of_rfc_4391() {
        let group = BroadcastGroup::ipv4(Pkey::DEFAULT_LIMITED, &Options::default());
        assert_eq!(group.mgid.to_string(), "ff12:401b:ffff::ffff:ffff");
        assert_eq!((group.q_key, group.packet_life), (0xB1B, 18));
    }
}
