//! The queries of P_Key tables: of all end ports, and of the switch ports that face them.

use super::discovery_queries::DiscoveryQueries;
use super::query::Query;
use crate::ids::PortNum;
use crate::wire::attr::tables::{PKEY_BLOCK, PkeyBlock};

impl DiscoveryQueries {
    /// Queries the P_Key tables of all end ports, and of switch ports that face end ports and
    /// enforce P_Keys.
    pub(super) fn query_pkeys(&mut self) {
        let mut wanted = Vec::new();
        for (node, entry) in self.state.entries().iter().enumerate() {
            for (num, slot) in entry.ports.iter().enumerate() {
                let port = PortNum(num as u8);
                if slot.info.is_some() && self.state.pkeys(node, port).is_empty() {
                    let keys = self.pkey_capacity(node, port);
                    let blocks = usize::from(keys).div_ceil(PKEY_BLOCK);
                    wanted.extend((0..blocks).map(|block| (node, port, block as u16)));
                }
            }
        }
        for (node, port, block) in wanted {
            self.submit(Query::Pkeys { node, port, block });
        }
    }

    /// Number of P_Keys that the table of a port holds; 0 if the table is not of interest.
    fn pkey_capacity(&self, node: usize, port: PortNum) -> u16 {
        let entry = &self.state.entries()[node];
        if !entry.is_switch() || port == PortNum::ZERO {
            return entry.info.partition_cap();
        }
        let peer = entry.ports[port.index()].peer;
        let faces_end_port = peer.is_some_and(|(peer, _)| !self.state.entries()[peer].is_switch());
        if faces_end_port { entry.switch_info.partition_enforcement_cap() } else { 0 }
    }

    /// Records one block of the table of a port.
    pub(super) fn pkeys_answered(
        &mut self,
        (node, port): (usize, PortNum),
        block: u16,
        answer: PkeyBlock,
    ) {
        let Some(slot) = self.state.entry(node).slot(port) else { return };
        let (block, pkeys) = (usize::from(block), slot.pkeys.get_or_insert_default());
        if pkeys.len() <= block {
            pkeys.resize(block + 1, PkeyBlock::default());
        }
        pkeys[block] = answer;
    }
}
