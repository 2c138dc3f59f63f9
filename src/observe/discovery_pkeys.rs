//! The queries of P_Key tables: of all end ports, and of the switch ports that face them.

use super::discovery_state::DiscoveryState;
use super::query::DiscoveryQuery;
use crate::fabric::{Port, PortId};
use crate::ids::PortNum;
use crate::wire::attr::tables::{PKEY_BLOCK, PkeyBlock};

/// The queries for the P_Key tables that are not known: of all end ports, and of switch ports that
/// face end ports and enforce P_Keys.
pub(super) fn missing_pkeys(state: &DiscoveryState) -> Vec<DiscoveryQuery> {
    let mut wanted = Vec::new();
    for (slot, port) in (0..).map(PortId).zip(&state.ports) {
        if port.info().is_some() && state.pkeys(slot).is_empty() {
            let node = port.node.index();
            let blocks = usize::from(pkey_capacity(state, port)).div_ceil(PKEY_BLOCK) as u16;
            let blocks = 0..blocks;
            wanted.extend(blocks.map(|block| DiscoveryQuery::Pkeys {
                node,
                port: port.num,
                block,
            }));
        }
    }
    wanted
}

/// Number of P_Keys that the table of a port holds; 0 if the table is not of interest.
fn pkey_capacity(state: &DiscoveryState, port: &Port) -> u16 {
    let node = state.node(port.node.index());
    if !node.is_switch() || port.num == PortNum::ZERO {
        return node.info.partition_cap();
    }
    let peer = state.peer((port.node.index(), port.num));
    let faces_end_port = peer.is_some_and(|(peer, _)| !state.node(peer).is_switch());
    if faces_end_port { node.switch_info.partition_enforcement_cap() } else { 0 }
}

impl DiscoveryState {
    /// Replaces one block of the table of a port.
    pub(super) fn replace_pkeys(&mut self, end: (usize, PortNum), block: u16, answer: PkeyBlock) {
        let Some(slot) = self.slot(end) else { return };
        let block = usize::from(block);
        let pkeys = self.read_pkeys.entry(slot).or_default();
        if pkeys.len() <= block {
            pkeys.resize(block + 1, PkeyBlock::default());
        }
        pkeys[block] = answer;
    }
}
