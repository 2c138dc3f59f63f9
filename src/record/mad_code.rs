//! MADs as bytes of a recording: which of them it contains, and runs of zeros shortened. Most bytes
//! of a subnet management packet are 0.

use super::bytes::{ByteReader, DecodeError};
use crate::transport::Agent;
use crate::wire::mad::{MAD_SIZE, Mad, Method, method_of};

/// True for MADs that recordings contain: all of subnet management and congestion control, and the
/// changes that clients of subnet administration request. Its queries and replies are too many.
pub(super) fn is_recorded(agent: Agent, mad: &[u8]) -> bool {
    match agent {
        Agent::SmiDirected | Agent::SmiLid => true,
        Agent::Sa => matches!(
            method_of(mad),
            Some(
                Method::SET | Method::DELETE | Method::REPORT | Method::REPORT_RESP | Method::TRAP
            )
        ),
        Agent::Congestion => true,
        // A sweep of the counters of 40,960 ports takes 164,000 MADs, which would displace what changed
        // the fabric. They configure nothing.
        Agent::Perf => false,
    }
}

/// Appends a MAD as pairs of a run of zeros and other bytes: the length of each in one byte, then
/// the other bytes. A length of 0 for the other bytes ends the MAD.
pub(super) fn put_mad(out: &mut Vec<u8>, mad: &Mad) {
    let zeros = zero_bytes(&mad.0);
    let values = zeros.map(|zeros| !zeros);
    let breaks = run_breaks(&zeros);
    let mut at = 0;
    loop {
        let start = first_from(&values, at);
        // Both lengths are at most 255: a run of 256 zeros ends the MAD.
        if start == MAD_SIZE {
            break;
        }
        let limit = MAD_SIZE.min(start + 255);
        let zeros = first_from(&breaks, start);
        let end = if zeros + 2 < limit { zeros } else { limit };
        out.extend([(start - at) as u8, (end - start) as u8]);
        out.extend_from_slice(&mad.0[start..end]);
        at = end;
    }
    out.extend([0, 0]);
}

/// A bit for each byte of a MAD, the first one lowest.
type ByteMask = [u64; MAD_SIZE / 64];

/// The bytes that are 0.
fn zero_bytes(bytes: &[u8; MAD_SIZE]) -> ByteMask {
    const LOW_BITS: u64 = 0x7F7F_7F7F_7F7F_7F7F;
    // Moves the lowest bit of each byte to the highest byte.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let mut mask = ByteMask::default();
    for (number, eight) in bytes.as_chunks::<8>().0.iter().enumerate() {
        let word = u64::from_le_bytes(*eight);
        // The highest bit of each byte with others of its bits set.
        let low = (word & LOW_BITS) + LOW_BITS;
        // The highest bit of each byte that is 0.
        let zeros = !(low | word | LOW_BITS);
        mask[number / 8] |= (zeros >> 7).wrapping_mul(GATHER) >> 56 << (number % 8 * 8);
    }
    mask
}

/// The bytes that begin three zeros, which end the bytes that are stored as they are: fewer take no less as a
/// run.
fn run_breaks(zeros: &ByteMask) -> ByteMask {
    std::array::from_fn(|number| {
        let next = zeros.get(number + 1).copied().unwrap_or(0);
        let second = zeros[number] >> 1 | next << 63;
        let third = zeros[number] >> 2 | next << 62;
        zeros[number] & second & third
    })
}

/// The first byte of a mask from `at` on; the size of a MAD without one.
fn first_from(mask: &ByteMask, at: usize) -> usize {
    let mut word = mask.get(at / 64).copied().unwrap_or(0) & u64::MAX << (at % 64);
    let mut number = at / 64;
    while word == 0 {
        number += 1;
        match mask.get(number) {
            Some(&next) => word = next,
            None => return MAD_SIZE,
        }
    }
    number * 64 + word.trailing_zeros() as usize
}

/// Reads a MAD that [`put_mad`] wrote.
pub(super) fn read_mad(reader: &mut ByteReader<'_>) -> Result<Mad, DecodeError> {
    let mut mad = Mad::default();
    let mut at = 0;
    loop {
        let start = reader.clone();
        let zeros = usize::from(reader.byte("a run of zeros")?);
        let len = usize::from(reader.byte("the length of a run")?);
        if len == 0 {
            return Ok(mad);
        }
        at += zeros;
        let Some(to) = mad.0.get_mut(at..at + len) else {
            return Err(start.error(format!("a MAD of more than {MAD_SIZE} bytes")));
        };
        to.copy_from_slice(reader.take(len, "bytes of a MAD")?);
        at += len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same code, byte by byte.
    fn put_simply(out: &mut Vec<u8>, mad: &Mad) {
        let mut at = 0;
        while let Some(zeros) = mad.0[at..].iter().position(|&byte| byte != 0) {
            let start = at + zeros;
            let limit = MAD_SIZE.min(start + 255);
            let end = (start..limit).find(|&end| end + 2 < limit && mad.0[end..end + 3] == [0; 3]);
            let end = end.unwrap_or(limit);
            out.extend([zeros as u8, (end - start) as u8]);
            out.extend(&mad.0[start..end]);
            at = end;
        }
        out.extend([0, 0]);
    }

    proptest! {
        #[test]
        fn mads_are_read_as_written(
            runs in proptest::collection::vec((0..80usize, 0..5u8), 0..40)
        ) {
            let bytes: Vec<u8> =
                runs.iter().flat_map(|&(len, byte)| std::iter::repeat_n(byte, len)).collect();
            let mad = Mad::read(&bytes);
            let mut out = Vec::new();
            put_mad(&mut out, &mad);
            let mut simple = Vec::new();
            put_simply(&mut simple, &mad);
            prop_assert_eq!(&out, &simple);
            let mut reader = ByteReader::new(&out, 0);
            prop_assert!(read_mad(&mut reader) == Ok(mad));
            prop_assert!(reader.is_empty());
        }
    }
}
