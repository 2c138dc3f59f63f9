//! RMPP messages in segments.

use torus_sm::sim::kernel::reassemble;
use torus_sm::wire::mad::{Class, MAD_SIZE, Mad};
use torus_sm::wire::sa::{DATA_OFFSET, RMPP_OFFSET, RmppHeader, SA_OFFSET};

/// Data of a segment of an SA message.
const SEGMENT_DATA: usize = MAD_SIZE - DATA_OFFSET;
/// Segments of the longest message, beyond one window of 64.
const MAX_SEGMENTS: usize = 100;

/// A message whose segments arrive twice, late or never. The first byte selects what happens:
/// arbitrary headers, or the segments of a message of the input, each at its turn and, before that,
/// at turns that the input names.
pub fn rmpp_receive(data: &[u8]) {
    let Some((&kind, rest)) = data.split_first() else { return };
    if kind % 2 == 0 { arbitrary(rest) } else { repeated(rest) }
}

/// Segments with headers from the input: number, flags and payload length.
fn arbitrary(data: &[u8]) {
    let segments: Vec<Mad> = data
        .chunks_exact(5)
        .map(|chunk| {
            let number = u32::from_be_bytes([0, chunk[0] & 1, 0, chunk[1]]);
            let length = u32::from(u16::from_be_bytes([chunk[2], chunk[3]]));
            segment(number, chunk[4] & 1 == 1, chunk[4] & 2 == 2, length, &[chunk[4]])
        })
        .collect();
    if let Some(message) = reassemble(Class::SUBN_ADM, &segments) {
        assert!(message.len() <= DATA_OFFSET + segments.len() * SEGMENT_DATA);
    }
}

/// A message, with segments repeated early; the receiver must not be confused.
fn repeated(data: &[u8]) {
    let content = &data[..data.len().min(MAX_SEGMENTS * SEGMENT_DATA)];
    let parts: Vec<&[u8]> = content.chunks(SEGMENT_DATA).collect();
    let last = parts.len();
    let sent: Vec<Mad> = (1..)
        .zip(&parts)
        .map(|(number, part)| {
            // PayloadLength of the last segment counts the SA header, too.
            let length = part.len() as u32 + (DATA_OFFSET - SA_OFFSET) as u32;
            segment(number, number == 1, number as usize == last, length, part)
        })
        .collect();
    let mut arriving = Vec::new();
    for (turn, own) in sent.iter().enumerate() {
        let early = usize::from(data[turn * 7 % data.len()]) % sent.len();
        if turn > 0 {
            arriving.push(sent[early]);
        }
        arriving.push(*own);
    }
    let Some(message) = reassemble(Class::SUBN_ADM, &arriving) else {
        assert!(sent.is_empty(), "all segments arrived in sequence");
        return;
    };
    assert_eq!(&message[DATA_OFFSET..], content, "the content is unchanged");
}

fn segment(number: u32, is_first: bool, is_last: bool, length: u32, data: &[u8]) -> Mad {
    let mut mad = Mad::default();
    mad.0[..4].copy_from_slice(&[1, Class::SUBN_ADM, 2, 0x92]);
    let mut rmpp = RmppHeader::message(0);
    rmpp.set_segment(number);
    rmpp.set_first(is_first);
    rmpp.set_last(is_last);
    rmpp.set_payload_length(length);
    rmpp.write(&mut mad.0[RMPP_OFFSET..]);
    mad.0[DATA_OFFSET..DATA_OFFSET + data.len()].copy_from_slice(data);
    mad
}
