//! The RMPP header of a response that is sent with one write(2) (IBA vol. 1, 13.6.2).
//!
//! The kernel divides the message and writes the header of every segment; it requires the Active
//! flag only. The other fields are set as for the first segment, so that a simulator that sends the
//! first 256 bytes unchanged sends a valid segment.

use crate::wire::bits::put;
use crate::wire::mad::MAD_SIZE;

/// Length of the common and the RMPP header in bytes.
const HEADERS: usize = 36;
/// Length of the common, the RMPP and the SA header in bytes, which every segment repeats.
const SA_HEADERS: usize = 56;
/// Bytes of records in one segment.
const SEGMENT_DATA: usize = MAD_SIZE - SA_HEADERS;

const VERSION: usize = 24;
const TYPE: usize = 25;
const FLAGS: usize = 26;
const STATUS: usize = 27;
const SEGMENT_NUMBER: usize = 28;
const PAYLOAD_LENGTH: usize = 32;

const TYPE_DATA: u8 = 1;
const ACTIVE: u8 = 0x01;
const FIRST: u8 = 0x02;
const LAST: u8 = 0x04;
/// RRespTime 14 in the upper five bits.
const RESPONSE_TIME: u8 = 0x70;

/// True if an SA message must be sent with RMPP: its Active flag is set, or it exceeds one MAD.
pub fn is_needed(mad: &[u8]) -> bool {
    let active = mad.get(FLAGS).is_some_and(|flags| flags & ACTIVE != 0);
    mad.len() >= SA_HEADERS && (active || mad.len() > MAD_SIZE)
}

/// Writes the RMPP header of a whole SA message, which must contain its headers.
pub fn prepare(mad: &mut [u8]) {
    let records = mad.len().saturating_sub(SA_HEADERS);
    let segments = records.div_ceil(SEGMENT_DATA).max(1);
    let last = if segments == 1 { LAST } else { 0 };
    // PayloadLength counts the SA header of every segment, but not the padding of the last one.
    let payload = records + segments * (SA_HEADERS - HEADERS);
    mad[VERSION] = 1;
    mad[TYPE] = TYPE_DATA;
    mad[FLAGS] = RESPONSE_TIME | ACTIVE | FIRST | last;
    mad[STATUS] = 0;
    put(mad, SEGMENT_NUMBER * 8, 32, 1);
    put(mad, PAYLOAD_LENGTH * 8, 32, payload as u64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::bits::get;

    fn prepared(len: usize) -> (u8, u32) {
        let mut mad = vec![0; len];
        prepare(&mut mad);
        (mad[FLAGS] & 0x07, get(&mad, PAYLOAD_LENGTH * 8, 32) as u32)
    }

    #[test]
    fn payload_length_counts_the_header_of_every_segment() {
        assert_eq!(prepared(56), (ACTIVE | FIRST | LAST, 20));
        assert_eq!(prepared(56 + 200), (ACTIVE | FIRST | LAST, 220));
        assert_eq!(prepared(56 + 201), (ACTIVE | FIRST, 241));
        assert_eq!(prepared(56 + 1000), (ACTIVE | FIRST, 1100));
    }

    #[test]
    fn short_responses_are_sent_without_rmpp_unless_active() {
        let mut mad = [0; 256];
        assert!(!is_needed(&mad));
        mad[FLAGS] = ACTIVE;
        assert!(is_needed(&mad));
        assert!(is_needed(&[0; 257]));
    }
}
