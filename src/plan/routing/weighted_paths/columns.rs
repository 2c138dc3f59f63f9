//! Forwarding tables that are filled LID by LID. The entries of a LID lie in as many tables as there
//! are switches, so the paths to many LIDs are collected before the tables are written, in parallel.

use super::network::Network;
use crate::ids::Lid;
use crate::wire::attr::tables::LFT_NO_PATH;
use rayon::prelude::*;

/// LIDs that are collected. Their paths from a few hundred switches fit a processor's cache.
const MAX_LIDS: usize = 256;

/// Tables that one task writes.
const TABLES_PER_TASK: usize = 64;

/// A LID, the switch where its paths end, and the port that leads on from there.
type End = (Lid, u32, u8);

/// The paths from all switches to LIDs that are not in the tables yet.
#[derive(Clone, Debug)]
pub(in crate::plan::routing) struct Columns {
    switches: usize,
    /// By link from one switch to another: the port of the latter.
    to_ports: Vec<u8>,
    lids: Vec<End>,
    /// The ports that lead to each LID in turn, by switch.
    ports: Vec<u8>,
}

impl Columns {
    pub(in crate::plan::routing) fn new(network: &Network) -> Self {
        let to_ports = network.links().iter().map(|link| link.to_port).collect();
        Self { switches: network.len(), to_ports, lids: Vec::new(), ports: Vec::new() }
    }

    /// Adds a LID without paths, and returns the ports by switch. They replace those in `tables` at
    /// the next [`Self::flush`], which is called here when many are collected.
    pub(in crate::plan::routing) fn add(&mut self, end: End, tables: &mut [Vec<u8>]) -> &mut [u8] {
        if self.lids.len() == MAX_LIDS {
            self.flush(tables);
        }
        self.lids.push(end);
        let begin = self.ports.len();
        self.ports.resize(begin + self.switches, LFT_NO_PATH);
        &mut self.ports[begin..]
    }

    /// Adds a LID with its paths: by switch, the link that leads there from the next switch on its
    /// path; another number if there is no path.
    pub(in crate::plan::routing) fn add_links(
        &mut self,
        end: End,
        used: &[u32],
        tables: &mut [Vec<u8>],
    ) {
        self.add(end, tables);
        let ports = self.ports.iter_mut().rev().zip(used.iter().rev());
        for (port, &link) in ports {
            *port = self.to_ports.get(link as usize).copied().unwrap_or(LFT_NO_PATH);
        }
    }

    /// Writes the collected paths into the tables of the switches.
    pub(in crate::plan::routing) fn flush(&mut self, tables: &mut [Vec<u8>]) {
        let Self { switches, lids, ports, .. } = self;
        let width = (*switches).max(1);
        tables.par_chunks_mut(TABLES_PER_TASK).enumerate().for_each(|(task, tables)| {
            for (&(lid, ..), row) in lids.iter().zip(ports.chunks(width)) {
                let own = &row[task * TABLES_PER_TASK..];
                for (table, &port) in tables.iter_mut().zip(own) {
                    table[lid.index()] = port;
                }
            }
        });
        lids.iter().for_each(|&(lid, end, exit)| tables[end as usize][lid.index()] = exit);
        lids.clear();
        ports.clear();
    }
}
