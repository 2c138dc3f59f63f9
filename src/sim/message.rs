//! What programs send and get: MADs, and the long messages that travel as segments.

use crate::wire::mad::Mad;

/// A MAD, or an RMPP message in one piece.
#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "nearly all messages are MADs, kept in place")]
pub(super) enum Message {
    Mad(Mad),
    /// Headers of the first segment, then all data; of any length.
    Long(Vec<u8>),
}

impl Message {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Mad(mad) => &mad.0,
            Self::Long(bytes) => bytes,
        }
    }
}
