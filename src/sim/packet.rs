//! A MAD on its way through the fabric, and at its destination.

use crate::transport::Address;
use crate::wire::mad::Mad;

#[derive(Clone)]
pub(super) struct Packet {
    /// Slot of the port that sent it.
    pub(super) from: u32,
    pub(super) to: Address,
    pub(super) mad: Mad,
}

/// A MAD that has crossed all its links.
#[derive(Clone)]
pub(super) struct Arrival {
    /// Slot of the port that receives it.
    pub(super) slot: u32,
    /// The queue pair that it is sent to.
    pub(super) qpn: u32,
    pub(super) from: Address,
    pub(super) mad: Mad,
}
