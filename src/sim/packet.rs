//! A MAD on its way through the fabric, and at its destination; messages as programs send and receive them.

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

/// A MAD, or a reassembled RMPP message.
#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "nearly all messages are MADs, kept in place")]
pub(super) enum Message {
    Mad(Mad),
    /// An RMPP message of any length: headers of the first segment, then all data.
    Rmpp(Vec<u8>),
}

impl Message {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Mad(mad) => &mad.0,
            Self::Rmpp(bytes) => bytes,
        }
    }
}
