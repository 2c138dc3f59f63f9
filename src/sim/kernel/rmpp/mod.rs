//! The Reliable Multi-Packet Protocol (IBA vol. 1, 13.6.2), without I/O and timers. A [`sender`]
//! divides a message into segments and a [`receiver`] reassembles it.
//!
//! The rules are those of Linux: windows of 64 segments; an acknowledgement for the last segment of
//! each window and for every duplicate; response times in RMPP headers are ignored.

pub(in crate::sim) mod receiver;
pub(in crate::sim) mod sender;

use super::classes;
use crate::wire::mad::{MAD_SIZE, Mad};
use crate::wire::sa::{RMPP_OFFSET, RmppHeader, SA_OFFSET};
use std::ops::RangeInclusive;

/// Segments that a receiver lets be in transit: an eighth of the kernel's receive queue of 512.
pub(super) const RECEIVE_WINDOW: u32 = 64;
/// Segments that may be sent before the first acknowledgement.
pub(in crate::sim) const INITIAL_WINDOW: u32 = 1;
/// Bytes of a full segment that PayloadLength counts: all behind the RMPP header.
const SEGMENT_PAYLOAD: usize = MAD_SIZE - SA_OFFSET;
/// RMPPVersion.
pub(in crate::sim) const VERSION: u8 = 1;

/// RMPPType values besides [`RmppHeader::DATA`].
pub(in crate::sim) struct KernelRmppType;

impl KernelRmppType {
    pub(in crate::sim) const ACK: u8 = 2;
    pub(in crate::sim) const STOP: u8 = 3;
    pub(in crate::sim) const ABORT: u8 = 4;
}

/// RMPPStatus values of STOP and ABORT packets.
pub(in crate::sim) struct KernelRmppStatus;

impl KernelRmppStatus {
    /// The only status of STOP.
    pub(in crate::sim) const RESOURCES_EXHAUSTED: u8 = 1;
    pub(in crate::sim) const TOTAL_TIME_TOO_LONG: u8 = 118;
    pub(in crate::sim) const BAD_SEGMENT: u8 = 120;
    pub(in crate::sim) const BAD_TYPE: u8 = 121;
    /// NewWindowLast of an acknowledgement is smaller than its segment number.
    pub(in crate::sim) const WINDOW_TOO_SMALL: u8 = 122;
    /// Segment number of an acknowledgement is larger than that of any segment sent.
    pub(in crate::sim) const SEGMENT_TOO_BIG: u8 = 123;
    /// Status is inconsistent with the packet type.
    pub(in crate::sim) const BAD_STATUS: u8 = 124;
    pub(in crate::sim) const BAD_VERSION: u8 = 125;
    /// All statuses of ABORT.
    pub(in crate::sim) const ABORT_REASONS: RangeInclusive<u8> = 118..=127;
}

pub(in crate::sim) fn header(mad: &Mad) -> RmppHeader {
    RmppHeader::read(&mad.0[RMPP_OFFSET..])
}

/// True if the MAD has an RMPP header with the flag Active.
pub(in crate::sim) fn is_active(mad: &[u8]) -> bool {
    mad.get(RMPP_OFFSET..).is_some_and(|rest| RmppHeader::read(rest).active())
}

/// An RMPP packet in reply to `mad`: the headers of `mad` with the response bit inverted.
fn reply(mad: &Mad, packet_type: u8, status: u8, segment: u32, window: u32) -> Mad {
    let mut reply = Mad::default();
    let headers = classes::data_offset(mad.header().class());
    reply.0[..headers].copy_from_slice(&mad.0[..headers]);
    reply.0[3] ^= 0x80;
    let mut rmpp = header(mad);
    rmpp.set_version(VERSION);
    rmpp.set_packet_type(packet_type);
    rmpp.set_active(true);
    rmpp.set_first(false);
    rmpp.set_last(false);
    rmpp.set_status(status);
    rmpp.set_segment(segment);
    rmpp.set_payload_length(window);
    rmpp.write(&mut reply.0[RMPP_OFFSET..]);
    reply
}

/// Acknowledges all segments up to `segment` of the transfer of `mad`; allows segments up to
/// `window`.
pub(in crate::sim) fn ack(mad: &Mad, segment: u32, window: u32) -> Mad {
    reply(mad, KernelRmppType::ACK, 0, segment, window)
}

/// Aborts the transfer of `mad`.
pub(in crate::sim) fn abort(mad: &Mad, status: u8) -> Mad {
    reply(mad, KernelRmppType::ABORT, status, 0, 0)
}

#[cfg(test)]
mod tests;
