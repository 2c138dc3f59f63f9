//! A MAD on its way through the fabric.

use crate::transport::Address;
use crate::wire::mad::Mad;

#[derive(Clone)]
pub(super) struct Packet {
    /// Slot of the port that sent it.
    pub(super) from: u32,
    pub(super) to: Address,
    pub(super) mad: Mad,
}
