//! RMPP packets (IBA vol. 1, 13.6.2): their types, statuses and headers.

use crate::wire::mad::{Header, MAD_SIZE, Mad, Method};
use crate::wire::sa::{DATA_OFFSET, RMPP_OFFSET, RmppHeader, SA_OFFSET};
use std::ops::RangeInclusive;

/// RMPPVersion.
pub(super) const VERSION: u8 = 1;
/// Bytes of a full segment that PayloadLength counts: all behind the RMPP header.
pub(super) const SEGMENT_PAYLOAD: usize = MAD_SIZE - SA_OFFSET;

/// RMPPType values besides [`RmppHeader::DATA`].
pub(super) struct PacketType;

impl PacketType {
    pub(super) const ACK: u8 = 2;
    pub(super) const STOP: u8 = 3;
    pub(super) const ABORT: u8 = 4;
}

/// RMPPStatus values (IBA vol. 1, 13.6.2.1).
pub(super) struct RmppStatus;

impl RmppStatus {
    /// The only status of STOP.
    pub(super) const RESOURCES_EXHAUSTED: u8 = 1;
    /// The transfer took longer than its sender or receiver allows.
    pub(super) const TOTAL_TIME_TOO_LONG: u8 = 118;
    /// The segment number and the flags First and Last contradict each other.
    pub(super) const BAD_SEGMENT: u8 = 120;
    pub(super) const BAD_TYPE: u8 = 121;
    /// NewWindowLast of an acknowledgement is smaller than its segment number.
    pub(super) const WINDOW_TOO_SMALL: u8 = 122;
    /// An acknowledgement names a segment that was never sent.
    pub(super) const SEGMENT_TOO_BIG: u8 = 123;
    /// The status does not belong to the type of the packet.
    pub(super) const BAD_STATUS: u8 = 124;
    pub(super) const BAD_VERSION: u8 = 125;
    pub(super) const TOO_MANY_RETRIES: u8 = 126;
    /// All statuses of ABORT.
    pub(super) const ABORT_REASONS: RangeInclusive<u8> = 118..=127;
}

pub(super) fn rmpp_header(mad: &Mad) -> RmppHeader {
    RmppHeader::read(&mad.0[RMPP_OFFSET..])
}

/// True if the MAD has an RMPP header with the flag Active.
pub(super) fn is_active(mad: &[u8]) -> bool {
    mad.get(RMPP_OFFSET..SA_OFFSET).is_some_and(|header| RmppHeader::read(header).active())
}

/// The method of the packets that the receiver of a message with `method` sends: that of the
/// message with the response bit inverted.
pub(super) fn opposite(method: u8) -> u8 {
    method ^ 0x80
}

/// A packet without data for the other end of a transfer: `headers` with an RMPP header.
fn control_packet(
    headers: &[u8; DATA_OFFSET],
    method: u8,
    packet_type: u8,
    change: impl FnOnce(&mut RmppHeader),
) -> Mad {
    let mut mad = Mad::default();
    mad.0[..DATA_OFFSET].copy_from_slice(headers);
    let mut header = Header::read(headers);
    header.set_method(Method(method).0);
    mad.set_header(&header);
    let mut rmpp = RmppHeader::default();
    rmpp.set_version(VERSION);
    rmpp.set_packet_type(packet_type);
    rmpp.set_resp_time(RmppHeader::NO_RESP_TIME);
    rmpp.set_active(true);
    change(&mut rmpp);
    rmpp.write(&mut mad.0[RMPP_OFFSET..]);
    mad
}

/// The headers that each segment of an SA message repeats.
pub(super) fn headers_of(mad: &[u8]) -> [u8; DATA_OFFSET] {
    let mut headers = [0; DATA_OFFSET];
    headers.iter_mut().zip(mad).for_each(|(to, from)| *to = *from);
    headers
}

/// The acknowledgement of all segments up to `segment`, which permits segments up to `window_last`.
/// `mad`: a segment of the message.
pub(super) fn ack(mad: &Mad, segment: u32, window_last: u32) -> Mad {
    let method = opposite(mad.header().method());
    control_packet(&headers_of(&mad.0), method, PacketType::ACK, |rmpp| {
        rmpp.set_segment(segment);
        rmpp.set_payload_length(window_last);
    })
}

/// The packet by which the receiver of `mad` ends the transfer.
pub(super) fn abort_reply(mad: &Mad, status: u8) -> Mad {
    let method = opposite(mad.header().method());
    control_packet(&headers_of(&mad.0), method, PacketType::ABORT, |rmpp| rmpp.set_status(status))
}

/// The packet by which the receiver of `mad` refuses the message: it has no memory for it.
pub(super) fn stop_reply(mad: &Mad) -> Mad {
    let method = opposite(mad.header().method());
    control_packet(&headers_of(&mad.0), method, PacketType::STOP, |rmpp| {
        rmpp.set_status(RmppStatus::RESOURCES_EXHAUSTED);
    })
}

/// The packet by which the sender of the message with these headers ends the transfer.
pub(super) fn abort(headers: &[u8; DATA_OFFSET], status: u8) -> Mad {
    let method = Header::read(headers).method();
    control_packet(headers, method, PacketType::ABORT, |rmpp| rmpp.set_status(status))
}

/// Writes the RMPP header of a segment of a message with `records` bytes of records in `segments`
/// segments.
pub(super) fn write_data_header(mad: &mut Mad, number: u32, segments: u32, records: usize) {
    let padding = segments as usize * (MAD_SIZE - DATA_OFFSET) - records;
    let mut rmpp = RmppHeader::default();
    rmpp.set_version(VERSION);
    rmpp.set_packet_type(RmppHeader::DATA);
    rmpp.set_resp_time(RmppHeader::NO_RESP_TIME);
    rmpp.set_active(true);
    rmpp.set_first(number == 1);
    rmpp.set_last(number == segments);
    rmpp.set_segment(number);
    // Of the segment in the last one, of the whole message in the first one, else 0.
    let length = match number {
        _ if number == segments => SEGMENT_PAYLOAD - padding,
        1 => segments as usize * SEGMENT_PAYLOAD - padding,
        _ => 0,
    };
    rmpp.set_payload_length(length as u32);
    rmpp.write(&mut mad.0[RMPP_OFFSET..]);
}
