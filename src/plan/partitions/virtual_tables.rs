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
    by_port: BTreeMap<PortId, VportTables>,
}

/// The P_Key tables of the vports of a physical port.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct VportTables {
    /// The keys of the physical port, without those of its vports.
    own_keys: Vec<Pkey>,
    /// With the indexes of the vports, ascending.
    tables: Vec<(u16, Arc<VportTable>)>,
}

impl VportTables {
    fn table(&self, index: u16) -> Option<&Arc<VportTable>> {
        let found = self.tables.binary_search_by_key(&index, |&(index, _)| index);
        found.ok().and_then(|at| self.tables.get(at)).map(|(_, table)| table)
    }
}

impl VirtualTables {
    /// The table of a vport.
    pub fn table(&self, port: PortId, index: u16) -> Option<&Arc<VportTable>> {
        self.by_port.get(&port)?.table(index)
    }

    /// The keys of a vport, or of the physical port of vports.
    pub(super) fn keys(&self, end: EndPort) -> Option<&[Pkey]> {
        let port = self.by_port.get(&end.physical)?;
        match end.vport {
            Some(index) => port.table(index).map(|table| &*table.keys),
            None => Some(&port.own_keys),
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
        let of_vports = memberships.of_vports(physical);
        let mut tables = Vec::with_capacity(port.vports.len());
        for vport in &port.vports {
            let end = EndPort { physical, vport: Some(vport.index) };
            let found = of_vports.binary_search_by_key(&end, |&(end, _)| end);
            let wanted = found.map_or(own, |at| &of_vports[at].1);
            let placed = planner.table(vport, wanted);
            if !placed.left_out.is_empty() {
                let place = format!("vport {} of {}", vport.index, fabric.describe(physical));
                notes.push(overflow(&place, vport.partition_cap.into(), &placed.left_out));
            }
            tables.push((vport.index, placed.table.clone()));
        }
        planned.by_port.insert(physical, VportTables { own_keys: own.keys.clone(), tables });
    }
    let has_unknown =
        |port: &PortId| options.virt_enabled == MANAGED && fabric.has_unknown_vports(*port);
    for port in fabric.end_ports().filter(has_unknown) {
        planned.by_port.entry(port).or_insert_with(|| VportTables {
            own_keys: memberships.own(port).keys.clone(),
            tables: Vec::new(),
        });
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
        let held = &*vport.pkeys;
        let last = self.last.take();
        let same =
            last.filter(|last| last.cap == cap && last.held == held && last.wanted == wanted);
        let placed = same.unwrap_or_else(|| self.place(vport, wanted));
        self.last.insert(placed)
    }

    fn place(&mut self, vport: &'a VirtualPort, wanted: &'a WantedKeys) -> PlacedTable<'a> {
        let cap = vport.partition_cap;
        let held = &*vport.pkeys;
        let previous = PreviousTable { table: held, removed: &[] };
        let entries = usize::from(cap).max(1);
        let placed = place::place(wanted, previous, entries, self.options, &mut self.index);
        let blocks = blocks(&placed.table, held.len());
        let keys = placed.table.into_iter().filter(|key| key.base() != 0).collect();
        let table = Arc::new(VportTable { blocks, keys });
        PlacedTable { wanted, held, cap, table, left_out: placed.left_out }
    }
}
