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
use std::sync::Arc;

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
    tables: BTreeMap<EndPort, Arc<VportTable>>,
    /// The keys of physical ports with vports, without those of the vports.
    own_keys: BTreeMap<PortId, Vec<Pkey>>,
}

impl VirtualTables {
    /// The table of a vport.
    pub fn table(&self, port: PortId, index: u16) -> Option<&Arc<VportTable>> {
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
    let mut planner = VirtualTablePlanner { options, index: KeyIndex::default(), last: None };
    for (guid, port) in fabric.virtual_ports().ports() {
        let Some(physical) = fabric.port_by_guid(guid) else { continue };
        let own = memberships.own(physical);
        planned.own_keys.insert(physical, own.keys.clone());
        for vport in &port.vports {
            let end = EndPort { physical, vport: Some(vport.index) };
            let wanted = memberships.of_vport(end).unwrap_or(own);
            let placed = planner.table(vport, wanted);
            if !placed.left_out.is_empty() {
                let place = format!("vport {} of {}", vport.index, fabric.describe(physical));
                notes.push(overflow(&place, vport.partition_cap.into(), &placed.left_out));
            }
            planned.tables.insert(end, placed.table.clone());
        }
    }
    let has_unknown =
        |port: &PortId| options.virt_enabled == MANAGED && fabric.has_unknown_vports(*port);
    for port in fabric.end_ports().filter(has_unknown) {
        planned.own_keys.entry(port).or_insert_with(|| memberships.own(port).keys.clone());
    }
    (planned, notes)
}

/// A planned table, and what it was planned from.
struct PlacedTable<'a> {
    wanted: &'a WantedKeys,
    /// The blocks that the vport holds.
    held: &'a [PkeyBlock],
    cap: u16,
    table: Arc<VportTable>,
    /// The keys that it has no room for.
    left_out: Vec<Pkey>,
}

/// Plans tables of vports one after the other. Most equal the one before.
struct VirtualTablePlanner<'a> {
    options: &'a Options,
    index: KeyIndex,
    last: Option<PlacedTable<'a>>,
}

impl<'a> VirtualTablePlanner<'a> {
    fn table(&mut self, vport: &'a VirtualPort, wanted: &'a WantedKeys) -> &PlacedTable<'a> {
        let cap = vport.partition_cap;
        let held = vport.pkeys.as_slice();
        let last = self.last.take();
        let same =
            last.filter(|last| last.cap == cap && last.held == held && last.wanted == wanted);
        let placed = same.unwrap_or_else(|| self.place(vport, wanted));
        self.last.insert(placed)
    }

    fn place(&mut self, vport: &'a VirtualPort, wanted: &'a WantedKeys) -> PlacedTable<'a> {
        let cap = vport.partition_cap;
        let held = vport.pkeys.as_slice();
        let previous = PreviousTable { table: held, removed: &[] };
        let entries = usize::from(cap).max(1);
        let placed = place::place(wanted, previous, entries, self.options, &mut self.index);
        let blocks = blocks(&placed.table, held.len());
        let keys = placed.table.into_iter().filter(|key| key.base() != 0).collect();
        let table = Arc::new(VportTable { blocks, keys });
        PlacedTable { wanted, held, cap, table, left_out: placed.left_out }
    }
}
