//! Messages that programs send and receive.

use crate::wire::mad::Mad;

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
