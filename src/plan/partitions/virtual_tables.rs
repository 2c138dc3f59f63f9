//! The P_Key tables of vports.

use super::members::{Memberships, WantedKeys};
use super::place::{self, KeyIndex, PreviousTable};
use super::{MANAGED, blocks, overflow};
use crate::config::options::Options;
use crate::fabric::virtual_ports::{EndPort, VirtualPort};
use crate::fabric::{Fabric, PortId};
use crate::ids::Pkey;
use crate::notes::Note;
use crate::wire::attr::tables::PkeyBlock;
use std::collections::BTreeMap;

/// The P_Key table of a vport.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VportTable {
    /// The planned blocks (block number, block).
    pub blocks: Vec<(u16, PkeyBlock)>,
    pub keys: Vec<Pkey>,
}

/// The P_Key tables of all vports.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VirtualTables {
    tables: BTreeMap<EndPort, VportTable>,
    /// The keys of physical ports with vports, without those of the vports.
    own_keys: BTreeMap<PortId, Vec<Pkey>>,
}

impl VirtualTables {
    /// The table of a vport.
    pub fn table(&self, port: PortId, index: u16) -> Option<&VportTable> {
        self.tables.get(&EndPort { physical: port, vport: Some(index) })
    }

    /// The keys of a vport, or of the physical port of vports.
    pub(super) fn keys(&self, end: EndPort) -> Option<&[Pkey]> {
        match end.vport {
            Some(_) => self.tables.get(&end).map(|table| &*table.keys),
            None => self.own_keys.get(&end.physical).map(Vec::as_slice),
        }
    }
}

/// Plans the tables of all vports. The notes name vports whose table is too small.
pub(super) fn plan(
    fabric: &Fabric,
    memberships: &Memberships,
    options: &Options,
) -> (VirtualTables, Vec<Note>) {
    let mut planned = VirtualTables::default();
    let mut notes = Vec::new();
    let mut index = KeyIndex::default();
    for (guid, port) in fabric.virtual_ports().ports() {
        let Some(physical) = fabric.port_by_guid(guid) else { continue };
        let own = memberships.own(physical);
        planned.own_keys.insert(physical, own.keys.clone());
        for vport in &port.vports {
            let end = EndPort { physical, vport: Some(vport.index) };
            let wanted = memberships.of_vport(end).unwrap_or(own);
            let (table, left_out) = table(vport, wanted, options, &mut index);
            if !left_out.is_empty() {
                let place = format!("vport {} of {}", vport.index, fabric.describe(physical));
                notes.push(overflow(&place, vport.partition_cap.into(), &left_out));
            }
            planned.tables.insert(end, table);
        }
    }
    let has_unknown =
        |port: &PortId| options.virt_enabled == MANAGED && fabric.has_unknown_vports(*port);
    for port in fabric.end_ports().filter(has_unknown) {
        planned.own_keys.entry(port).or_insert_with(|| memberships.own(port).keys.clone());
    }
    (planned, notes)
}

/// The table of a vport, and the keys that it has no room for.
fn table(
    vport: &VirtualPort,
    wanted: &WantedKeys,
    options: &Options,
    index: &mut KeyIndex,
) -> (VportTable, Vec<Pkey>) {
    let cap = usize::from(vport.partition_cap).max(1);
    let previous = PreviousTable { table: &vport.pkeys, removed: &[] };
    let placed = place::place(wanted, previous, cap, options, index);
    let blocks = blocks(&placed.table, vport.pkeys.len());
    let keys = placed.table.into_iter().filter(|key| key.base() != 0).collect();
    (VportTable { blocks, keys }, placed.left_out)
}
