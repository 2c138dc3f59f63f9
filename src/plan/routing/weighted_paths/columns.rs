//! Forwarding tables that are filled LID by LID. The entries of a LID lie in as many tables as there
//! are switches, so they are collected for many LIDs before the tables are written, in parallel.

use crate::ids::Lid;
use crate::wire::attr::tables::LFT_NO_PATH;
use rayon::prelude::*;

/// LIDs that are collected. Their entries for a few hundred switches fit a processor's cache.
const MAX_LIDS: usize = 512;

/// Tables that one task writes.
const TABLES_PER_TASK: usize = 64;

/// The entries of all switches for LIDs that are not in the tables yet.
#[derive(Clone, Debug)]
pub(in crate::plan::routing) struct Columns {
    switches: usize,
    lids: Vec<Lid>,
    /// The entries of each LID in turn, by switch.
    ports: Vec<u8>,
}

impl Columns {
    pub(in crate::plan::routing) fn new(switches: usize) -> Self {
        Self { switches, lids: Vec::new(), ports: Vec::new() }
    }

    /// The entries of another LID, by switch, without paths yet. They replace those in `tables` at
    /// the next [`Self::flush`], which is called here when many are collected.
    pub(in crate::plan::routing) fn add(&mut self, lid: Lid, tables: &mut [Vec<u8>]) -> &mut [u8] {
        if self.lids.len() == MAX_LIDS {
            self.flush(tables);
        }
        let start = self.ports.len();
        self.lids.push(lid);
        self.ports.resize(start + self.switches, LFT_NO_PATH);
        &mut self.ports[start..]
    }

    /// Writes the collected entries into the tables of the switches.
    pub(in crate::plan::routing) fn flush(&mut self, tables: &mut [Vec<u8>]) {
        let Self { switches, lids, ports } = self;
        let rows = || lids.iter().zip(ports.chunks((*switches).max(1)));
        tables.par_chunks_mut(TABLES_PER_TASK).enumerate().for_each(|(task, tables)| {
            for (lid, row) in rows() {
                let own = &row[task * TABLES_PER_TASK..];
                for (table, &port) in tables.iter_mut().zip(own) {
                    table[lid.index()] = port;
                }
            }
        });
        lids.clear();
        ports.clear();
    }
}
