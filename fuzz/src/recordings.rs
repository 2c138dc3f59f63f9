//! Recordings of the flight recorder.

use torus_sm::offline::replay;
use torus_sm::record::Recording;

/// Length of the first line with the version of the format.
const START: usize = 20;
/// Length of kind, size and checksum of a section.
const HEAD: usize = 9;

/// A recording, as it is and with the checksums made right, so that changes reach the decoder of
/// the contents. What is accepted is repeated.
pub fn recording(data: &[u8]) {
    let decoded = Recording::decode(data);
    if let Err(error) = &decoded {
        assert!(error.offset <= data.len(), "{error}");
    }
    let repaired = with_checksums(data);
    match Recording::decode(&repaired) {
        Ok(recording) if recording.entries.len() < 10_000 => {
            // A configuration that is invalid is an error, not a panic.
            let _ = replay::replay(&recording);
        }
        Ok(_) => {}
        Err(error) => assert!(error.offset <= repaired.len(), "{error}"),
    }
}

/// The recording with right checksums, as far as its sections can be found.
fn with_checksums(data: &[u8]) -> Vec<u8> {
    let mut bytes = data.to_vec();
    let mut at = START;
    while let Some(head) = bytes.get(at..at + HEAD) {
        let size = head[1..5].iter().fold(0, |size, &byte| size << 8 | usize::from(byte));
        let Some(payload) = bytes.get(at + HEAD..at + HEAD + size) else { break };
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&head[..5]);
        hasher.update(payload);
        let checksum = hasher.finalize().to_be_bytes();
        bytes[at + 5..at + HEAD].copy_from_slice(&checksum);
        at += HEAD + size;
    }
    bytes
}
