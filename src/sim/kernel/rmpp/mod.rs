//! The reliable multi-packet protocol (IBA vol. 1, 13.6.2) without I/O and without a clock: a
//! [`sender`] cuts a message into segments and a [`receiver`] puts it together again.
//!
//! The rules are those of Linux: windows of 64 segments, an acknowledgement for the last segment
//! of each window and for every segment that comes twice, response times unused.

pub(super) mod receiver;
pub(super) mod sender;

use super::classes;
use crate::wire::mad::{MAD_SIZE, Mad};
use crate::wire::sa::{RMPP_OFFSET, RmppHeader, SA_OFFSET};

/// Segments that may be under way: an eighth of the kernel's receive queue.
pub(super) const WINDOW: u32 = 64;
/// Bytes of a segment that its payload length counts: everything behind the RMPP header.
const PAYLOAD: usize = MAD_SIZE - SA_OFFSET;
/// Version of the protocol.
pub(super) const VERSION: u8 = 1;

/// Packet types besides [`RmppHeader::DATA`].
pub(super) struct PacketType;

impl PacketType {
    pub(super) const ACK: u8 = 2;
    pub(super) const STOP: u8 = 3;
    pub(super) const ABORT: u8 = 4;
}

/// Why a transfer ends before its time.
pub(super) struct Reason;

impl Reason {
    /// STOP: resources exhausted.
    pub(super) const RESOURCES: u8 = 1;
    /// Total time too long. The first of the reasons for ABORT.
    pub(super) const TOO_LONG: u8 = 118;
    /// Segment number invalid.
    pub(super) const BAD_SEGMENT: u8 = 120;
    /// Type of packet unknown.
    pub(super) const BAD_TYPE: u8 = 121;
    /// New window last smaller than the segment number.
    pub(super) const WINDOW_TOO_SMALL: u8 = 122;
    /// Segment number of an acknowledgement too big.
    pub(super) const SEGMENT_TOO_BIG: u8 = 123;
    /// Status that does not fit the type.
    pub(super) const BAD_STATUS: u8 = 124;
    /// Version of the protocol unknown.
    pub(super) const BAD_VERSION: u8 = 125;
    /// The last of the reasons for ABORT: unspecified.
    pub(super) const LAST: u8 = 127;
}

/// The RMPP header of a MAD.
pub(super) fn header(mad: &Mad) -> RmppHeader {
    RmppHeader::read(&mad.0[RMPP_OFFSET..])
}

/// True if the MAD belongs to a transfer.
pub(super) fn is_active(mad: &[u8]) -> bool {
    mad.get(RMPP_OFFSET..).is_some_and(|rest| RmppHeader::read(rest).active())
}

/// The headers of `mad`, turned round: an answer of the protocol to one of its packets.
fn answer(mad: &Mad, packet_type: u8, status: u8, segment: u32, window: u32) -> Mad {
    let mut answer = Mad::default();
    let headers = classes::data_offset(mad.header().class());
    answer.0[..headers].copy_from_slice(&mad.0[..headers]);
    answer.0[3] ^= 0x80;
    let mut rmpp = header(mad);
    rmpp.set_version(VERSION);
    rmpp.set_packet_type(packet_type);
    rmpp.set_active(true);
    rmpp.set_first(false);
    rmpp.set_last(false);
    rmpp.set_status(status);
    rmpp.set_segment(segment);
    rmpp.set_payload_length(window);
    rmpp.write(&mut answer.0[RMPP_OFFSET..]);
    answer
}

/// Acknowledges all segments up to `segment` of the transfer that `mad` belongs to, and lets
/// those up to `window` come.
pub(super) fn ack(mad: &Mad, segment: u32, window: u32) -> Mad {
    answer(mad, PacketType::ACK, 0, segment, window)
}

/// Ends the transfer that `mad` belongs to.
pub(super) fn abort(mad: &Mad, reason: u8) -> Mad {
    answer(mad, PacketType::ABORT, reason, 0, 0)
}

#[cfg(test)]
mod tests;
