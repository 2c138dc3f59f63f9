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
    let mut at = 0;
    while at < MAD_SIZE {
        let start = skip_zeros(&mad.0, at);
        let end = end_of_run(&mad.0, start);
        // Both lengths are at most 255: a run of 256 zeros ends the MAD.
        if start == MAD_SIZE {
            break;
        }
        out.extend([(start - at) as u8, (end - start) as u8]);
        out.extend(&mad.0[start..end]);
        at = end;
    }
    out.extend([0, 0]);
}

fn skip_zeros(bytes: &[u8; MAD_SIZE], mut at: usize) -> usize {
    while at + 8 <= MAD_SIZE && bytes[at..at + 8] == [0; 8] {
        at += 8;
    }
    while at < MAD_SIZE && bytes[at] == 0 {
        at += 1;
    }
    at
}

/// The end of the bytes from `start` on that are stored as they are: three zeros end them, since
/// they take no less as a run.
fn end_of_run(bytes: &[u8; MAD_SIZE], start: usize) -> usize {
    let limit = MAD_SIZE.min(start + 255);
    let mut zeros = 0;
    for (at, &byte) in bytes[..limit].iter().enumerate().skip(start) {
        zeros = if byte == 0 { zeros + 1 } else { 0 };
        if zeros == 3 {
            return at - 2;
        }
    }
    limit
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
            let mut reader = ByteReader::new(&out, 0);
            prop_assert!(read_mad(&mut reader) == Ok(mad));
            prop_assert!(reader.is_empty());
        }
    }
}
