//! The RMPP header of a response that goes out in one write (IBA vol. 1, 13.6.2).
//!
//! The kernel cuts the message, and writes the header of every segment; from us it wants the
//! ACTIVE flag. The fields are filled in as for the first segment all the same: a simulator
//! that sends the first 256 bytes as they are then sends a valid segment.

use crate::wire::mad::MAD_SIZE;

/// Length of the common and the RMPP header.
const HEADERS: usize = 36;
/// Length of the common, the RMPP and the SA header: what each segment repeats.
const SA_HEADERS: usize = 56;
/// Records in one segment, bytes.
const SEGMENT: usize = MAD_SIZE - SA_HEADERS;

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
/// Response time 14, in the upper five bits: unknown.
const RESPONSE_TIME: u8 = 0x70;

/// True if the SA message `mad` must go out under RMPP: it is marked active, or too long.
pub fn is_needed(mad: &[u8]) -> bool {
    let active = mad.get(FLAGS).is_some_and(|flags| flags & ACTIVE != 0);
    mad.len() >= SA_HEADERS && (active || mad.len() > MAD_SIZE)
}

/// Writes the RMPP header of the whole SA message `mad`, which has at least its headers.
pub fn prepare(mad: &mut [u8]) {
    let records = mad.len().saturating_sub(SA_HEADERS);
    let segments = records.div_ceil(SEGMENT).max(1);
    let last = if segments == 1 { LAST } else { 0 };
    // Every segment's payload begins with the SA header; the padding of the last one is not
    // counted.
    let payload = records + segments * (SA_HEADERS - HEADERS);
    mad[VERSION] = 1;
    mad[TYPE] = TYPE_DATA;
    mad[FLAGS] = RESPONSE_TIME | ACTIVE | FIRST | last;
    mad[STATUS] = 0;
    mad[SEGMENT_NUMBER..SEGMENT_NUMBER + 4].copy_from_slice(&1_u32.to_be_bytes());
    mad[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 4].copy_from_slice(&(payload as u32).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(len: usize) -> (u8, u32) {
        let mut mad = vec![0; len];
        prepare(&mut mad);
        (mad[FLAGS] & 0x07, u32::from_be_bytes([mad[32], mad[33], mad[34], mad[35]]))
    }

    #[test]
    fn payload_counts_the_header_of_every_segment() {
        assert_eq!(prepared(56), (ACTIVE | FIRST | LAST, 20));
        assert_eq!(prepared(56 + 200), (ACTIVE | FIRST | LAST, 220));
        assert_eq!(prepared(56 + 201), (ACTIVE | FIRST, 241));
        assert_eq!(prepared(56 + 1000), (ACTIVE | FIRST, 1100));
    }

    #[test]
    fn short_answers_go_out_plain_unless_marked() {
        let mut mad = [0; 256];
        assert!(!is_needed(&mad));
        mad[FLAGS] = ACTIVE;
        assert!(is_needed(&mad));
        assert!(is_needed(&[0; 257]));
    }
}
