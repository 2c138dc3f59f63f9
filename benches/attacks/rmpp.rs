//! Packets that break the rules of RMPP (IBA vol. 1, 13.6).

use super::floods::all_nodes;
use testkit::sa_client::request;
use testkit::torus::random::Random;
use torus_sm::wire::mad::{Mad, Method};
use torus_sm::wire::record::MultiPathRecord;
use torus_sm::wire::sa::{RMPP_OFFSET, RmppHeader, SaAttr};

const ACK: u8 = 2;
const STOP: u8 = 3;
const ABORT: u8 = 4;

/// Transaction IDs of requests in segments: enough for as many messages in the making at a time.
const MAX_REQUESTS: usize = 4096;

/// Segments of a request, more than a window.
const MAX_SEGMENT: usize = 70;

/// One request for a table in so many packets; the others are about its response.
const PACKETS_PER_REQUEST: u64 = 4;

/// Requests before the current one whose responses may still be on their way.
const MAX_AGE: usize = 200;

/// Payload lengths: too short for the SA header, full, too long for a segment, of a long message.
const LENGTHS: [u32; 6] = [0, 19, 220, 221, 15_000, u32::MAX];

fn pick<T: Copy>(values: &[T], random: &mut Random) -> T {
    values[random.below(values.len())]
}

fn with_rmpp(mut mad: Mad, tid: u64, change: impl FnOnce(&mut RmppHeader)) -> Mad {
    let mut header = mad.header();
    header.set_tid(tid);
    mad.set_header(&header);
    let mut rmpp = RmppHeader::default();
    rmpp.set_version(1);
    rmpp.set_resp_time(RmppHeader::NO_RESP_TIME);
    rmpp.set_active(true);
    change(&mut rmpp);
    rmpp.write(&mut mad.0[RMPP_OFFSET..]);
    mad
}

/// Part of a request for paths among many ports: a segment at any place, with any length and flags,
/// or a control packet that fits no transfer.
pub(super) fn request_part(random: &mut Random) -> Mad {
    let multi_path = MultiPathRecord::default();
    let mad = request(SaAttr::MULTI_PATH_RECORD, Method::GET_MULTI, 0, &multi_path);
    let tid = random.below(MAX_REQUESTS) as u64;
    let is_control = random.below(8) == 0;
    with_rmpp(mad, tid, |rmpp| {
        let segment = if random.below(2) == 0 { 1 } else { random.below(MAX_SEGMENT) as u32 };
        rmpp.set_packet_type(RmppHeader::DATA);
        rmpp.set_segment(segment);
        rmpp.set_first((segment == 1) != (random.below(16) == 0));
        rmpp.set_last(random.below(8) == 0);
        rmpp.set_payload_length(pick(&LENGTHS, random));
        if is_control {
            break_control(rmpp, random);
        }
        if random.below(64) == 0 {
            rmpp.set_version(random.below(256) as u8);
        }
    })
}

/// Turns a header into one of an ACK, STOP or ABORT.
fn break_control(rmpp: &mut RmppHeader, random: &mut Random) {
    let packet_type = pick(&[ACK, ACK, ACK, STOP, ABORT, 5], random);
    rmpp.set_packet_type(packet_type);
    rmpp.set_first(false);
    rmpp.set_last(false);
    let status = match packet_type {
        ACK => 0,
        STOP => 1,
        _ => pick(&[0, 1, 118, 127, 255], random),
    };
    rmpp.set_status(status);
    // The last segment received, and the last one that may be sent.
    rmpp.set_segment(pick(&[0, 1, 1, 2, 64, u32::MAX], random));
    rmpp.set_payload_length(pick(&[0, 0, 1, 2, 65, u32::MAX], random));
}

/// A query for a long table, or a packet about the response to one of the last queries: an
/// acknowledgement that closes the window, claims too much or repeats, a STOP or an ABORT.
pub(super) fn transfer_packet(serial: u64, random: &mut Random) -> Mad {
    let current = serial / PACKETS_PER_REQUEST;
    if serial.is_multiple_of(PACKETS_PER_REQUEST) {
        let mut mad = all_nodes();
        let mut header = mad.header();
        header.set_tid(current);
        mad.set_header(&header);
        return mad;
    }
    let tid = current.saturating_sub(random.below(MAX_AGE) as u64);
    with_rmpp(all_nodes(), tid, |rmpp| break_control(rmpp, random))
}
