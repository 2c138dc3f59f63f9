//! SL to VL mapping and VL arbitration tables.

use crate::wire::attr::tables::{SlToVl, VlArbBlock};

/// The QoS tables of a fabric; empty when QoS is off.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QosTables {
    /// By node: SL to VL mappings as (input port, output port, mapping), outputs outermost, in
    /// the order in which they are written; (0, 0) alone for channel adapters and routers.
    pub sl_to_vl: Vec<Vec<(u8, u8, SlToVl)>>,
    /// By port slot: VL arbitration blocks (block number 1..=4, block).
    pub vl_arbitration: Vec<Vec<(u8, VlArbBlock)>>,
}
