//! MADs as bytes of a recording: without keys, and with runs of zeros shortened. Most bytes of a
//! subnet management packet are 0.

use super::bytes::{DecodeError, Reader};
use crate::transport::Agent;
use crate::wire::attr::AttrId;
use crate::wire::congestion::CC_KEY;
use crate::wire::mad::{MAD_SIZE, Mad, Method, attr_id_of, method_of};
use crate::wire::smp::DATA_OFFSET;
use std::ops::Range;

/// M_Key of a subnet management packet.
const M_KEY: Range<usize> = 24..32;
/// M_Key in PortInfo.
const PORT_INFO_M_KEY: Range<usize> = DATA_OFFSET..DATA_OFFSET + 8;
/// SM_Key in SMInfo.
const SM_INFO_SM_KEY: Range<usize> = DATA_OFFSET + 8..DATA_OFFSET + 16;
/// SM_Key of a MAD of subnet administration.
const SA_SM_KEY: Range<usize> = 36..44;
/// ServiceKey in ServiceRecord.
const SERVICE_KEY: Range<usize> = 88..104;
/// Attribute ID of ServiceRecord.
const SERVICE_RECORD: u16 = 0x0031;

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

/// The first 256 bytes of a MAD, with 0 in place of keys.
pub(super) fn without_keys(agent: Agent, bytes: &[u8]) -> Mad {
    let mut mad = Mad::read(bytes);
    let attribute = attr_id_of(bytes);
    match agent {
        Agent::SmiDirected | Agent::SmiLid => {
            mad.0[M_KEY].fill(0);
            match attribute {
                Some(AttrId::PORT_INFO) => mad.0[PORT_INFO_M_KEY].fill(0),
                Some(AttrId::SM_INFO) => mad.0[SM_INFO_SM_KEY].fill(0),
                _ => {}
            }
        }
        Agent::Sa => {
            mad.0[SA_SM_KEY].fill(0);
            if attribute == Some(SERVICE_RECORD) {
                mad.0[SERVICE_KEY].fill(0);
            }
        }
        Agent::Congestion => mad.0[CC_KEY].fill(0),
        Agent::Perf => {}
    }
    mad
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
    let mut end = start;
    while end < limit && !bytes[end..].starts_with(&[0, 0, 0]) {
        end += 1;
    }
    end
}

/// Reads a MAD that [`put_mad`] wrote.
pub(super) fn read_mad(reader: &mut Reader<'_>) -> Result<Mad, DecodeError> {
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
            let mut reader = Reader::new(&out, 0);
            prop_assert!(read_mad(&mut reader) == Ok(mad));
            prop_assert!(reader.is_empty());
        }
    }

    #[test]
    fn keys_are_not_recorded() {
        let full = [0xAA; MAD_SIZE];
        let of = |agent, attribute: u16| {
            let mut mad = Mad(full);
            mad.0[16..18].copy_from_slice(&attribute.to_be_bytes());
            let kept = without_keys(agent, &mad.0);
            (0..MAD_SIZE).filter(|&at| kept.0[at] != mad.0[at]).collect::<Vec<_>>()
        };
        let ranges = |one: Range<usize>, two: Range<usize>| one.chain(two).collect::<Vec<_>>();
        assert_eq!(of(Agent::SmiDirected, AttrId::NODE_INFO), ranges(24..32, 0..0));
        assert_eq!(of(Agent::SmiLid, AttrId::PORT_INFO), ranges(24..32, 64..72));
        assert_eq!(of(Agent::SmiDirected, AttrId::SM_INFO), ranges(24..32, 72..80));
        assert_eq!(of(Agent::Congestion, 0x0014), ranges(24..32, 0..0));
        assert_eq!(of(Agent::Sa, 0x0038), ranges(36..44, 0..0));
        assert_eq!(of(Agent::Sa, SERVICE_RECORD), ranges(36..44, 88..104));
    }
}
