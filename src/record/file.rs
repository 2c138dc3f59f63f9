//! A recording as a file. See the module's documentation for the format.

use super::bytes::{ByteReader, DecodeError, put_number};
use super::entry::{RecordEntry, read_entry};
use super::json::{ConfigurationJson, DevicesJson, HeaderJson, PlanJson};
use super::plans::PlanRecord;
use super::recorder::RecorderSnapshot;
use super::requests::Requests;
use super::ring::{BLOCK_SIZE, EntryBlock};
use crate::config::files::ConfigTexts;
use crate::config::options::Options;
use crate::notes::counted;
use std::sync::Arc;

/// The first bytes of a recording: text, and the version of the format as one byte.
const MAGIC: &[u8] = b"torus-sm recording\n\x02";

/// The first version of the format, which has no responses as differences and is otherwise the same.
const FIRST_VERSION: u8 = 1;

/// Maximum size of a section in bytes.
const MAX_SECTION: usize = 1 << 30;

/// Kinds of sections.
const HEADER: u8 = b'H';
const ENTRIES: u8 = b'E';
const END: u8 = b'Z';

/// The circumstances of writing.
pub struct Occasion {
    pub reason: String,
    /// Time of day, RFC 3339.
    pub written: String,
    /// The port of the subnet manager.
    pub port: String,
}

/// A recording that was read.
#[derive(Clone, PartialEq, Debug)]
pub struct Recording {
    pub header: HeaderJson,
    /// Number of the first entry.
    pub first: u64,
    pub entries: Vec<RecordEntry>,
}

/// Encodes the contents of a recorder.
pub fn encode(snapshot: &RecorderSnapshot, occasion: Occasion) -> Vec<u8> {
    let header = header(snapshot, occasion);
    let json = serde_json::to_vec(&header).expect("the keys of all maps in it are strings");
    let size: usize = snapshot.blocks.len() * (BLOCK_SIZE + 64);
    let mut out = Vec::with_capacity(MAGIC.len() + json.len() + size + 64);
    out.extend(MAGIC);
    put_section(&mut out, HEADER, &json);
    for block in &snapshot.blocks {
        put_block(&mut out, block);
    }
    let mut count = Vec::new();
    put_number(&mut count, snapshot.blocks.len() as u64);
    put_section(&mut out, END, &count);
    out
}

fn put_section(out: &mut Vec<u8>, kind: u8, payload: &[u8]) {
    let mut head = vec![kind];
    head.extend(big_endian(payload.len() as u32));
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&head);
    hasher.update(payload);
    out.extend(head);
    out.extend(big_endian(hasher.finalize()));
    out.extend(payload);
}

fn big_endian(value: u32) -> [u8; 4] {
    [24, 16, 8, 0].map(|shift| (value >> shift) as u8)
}

fn put_block(out: &mut Vec<u8>, block: &EntryBlock) {
    let bytes = block.bytes();
    let mut payload = Vec::with_capacity(bytes.len() + 32);
    put_number(&mut payload, block.first);
    put_number(&mut payload, block.count);
    put_number(&mut payload, block.start);
    payload.extend_from_slice(&bytes);
    put_section(out, ENTRIES, &payload);
}

fn header(snapshot: &RecorderSnapshot, occasion: Occasion) -> HeaderJson {
    let first = snapshot.blocks.first().map_or(u64::MAX, |block| block.first);
    let (base, plans) = base_and_plans(snapshot, first);
    let mut known: Vec<(&Arc<Options>, &Arc<ConfigTexts>)> = Vec::new();
    let mut configurations = Vec::new();
    let mut plan_json = Vec::new();
    for plan in plans {
        let key = (&plan.inputs.options, &plan.inputs.files);
        let index = known
            .iter()
            .position(|other| Arc::ptr_eq(other.0, key.0) && Arc::ptr_eq(other.1, key.1))
            .unwrap_or_else(|| {
                known.push(key);
                configurations.push(ConfigurationJson::new(&plan.inputs));
                known.len() - 1
            });
        plan_json.push(PlanJson::new(plan, index));
    }
    HeaderJson {
        program: format!("torus-sm {}", env!("CARGO_PKG_VERSION")),
        reason: occasion.reason,
        written: occasion.written,
        written_at: snapshot.now,
        port: occasion.port,
        configurations,
        plans: plan_json,
        devices: base.map(DevicesJson::new),
        incidents: snapshot.incidents.clone(),
    }
}

/// The plan whose snapshot of the devices the recording begins with, and the plans from that one
/// on. There is no such plan if the entries begin with the start of the daemon.
fn base_and_plans(snapshot: &RecorderSnapshot, first: u64) -> (Option<&PlanRecord>, &[PlanRecord]) {
    let plans = &snapshot.plans[..];
    if !snapshot.is_truncated {
        return (None, plans);
    }
    // If all entries since the last plan were dropped in part, its snapshot is the latest there is.
    let contained = plans.iter().position(|plan| plan.position >= first);
    let at = contained.unwrap_or(plans.len().saturating_sub(1));
    (plans.get(at), &plans[at..])
}

impl Recording {
    /// Reads a recording.
    ///
    /// # Errors
    /// [`DecodeError`] with the place of the first byte that is damaged, missing or unknown.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes, 0);
        check_magic(&mut reader)?;
        let mut header = None;
        let mut first = None;
        let mut entries = Vec::new();
        let mut blocks = 0;
        loop {
            let place = reader.clone();
            let (kind, mut payload) = read_section(&mut reader)?;
            match (kind, &header) {
                (HEADER, None) => header = Some(read_header(&payload, &place)?),
                (ENTRIES, Some(_)) => {
                    let next = first.map(|first| first + entries.len() as u64);
                    let number = read_block(&mut payload, next, &mut entries)?;
                    first.get_or_insert(number);
                    blocks += 1;
                }
                (END, Some(_)) => {
                    check_end(&mut payload, blocks)?;
                    break;
                }
                _ => {
                    let kind = char::from(kind).escape_default();
                    return Err(place.error(format!("unexpected section '{kind}'")));
                }
            }
        }
        match (header, reader.is_empty()) {
            (Some(header), true) => Ok(Self { header, first: first.unwrap_or(0), entries }),
            _ => Err(reader.error("surplus bytes after the end of the recording")),
        }
    }
}

fn check_magic(reader: &mut ByteReader<'_>) -> Result<(), DecodeError> {
    let text = MAGIC.len() - 1;
    let start = reader.clone();
    let found = reader
        .take(text, "the first line")
        .map_err(|_| start.error("this is not a recording of torus-sm"))?;
    if found != &MAGIC[..text] {
        return Err(start.error("this is not a recording of torus-sm"));
    }
    let place = reader.clone();
    let version = reader.byte("the version of the format")?;
    if !(FIRST_VERSION..=MAGIC[text]).contains(&version) {
        return Err(place.error(format!(
            "the format has version {version}; this program reads versions {FIRST_VERSION} to {}",
            MAGIC[text]
        )));
    }
    Ok(())
}

/// Reads a section and checks its checksum.
fn read_section<'a>(reader: &mut ByteReader<'a>) -> Result<(u8, ByteReader<'a>), DecodeError> {
    let start = reader.clone();
    if reader.is_empty() {
        return Err(start.error("the recording is cut off: it has no end"));
    }
    let kind = reader.byte("the kind of a section")?;
    let size = reader.u32("the size of a section")? as usize;
    if size > MAX_SECTION {
        return Err(start.error(format!("a section of {size} bytes, the maximum is {MAX_SECTION}")));
    }
    let checksum = reader.u32("the checksum of a section")?;
    let offset = reader.offset();
    let payload = reader.take(size, "a section").map_err(|error| start.error(error.problem))?;
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[kind]);
    hasher.update(&big_endian(size as u32));
    hasher.update(payload);
    let found = hasher.finalize();
    if found != checksum {
        return Err(start.error(format!(
            "the section of {} from here on is damaged: its checksum is 0x{found:08x} instead of \
             0x{checksum:08x}",
            counted(size, "byte", "bytes")
        )));
    }
    Ok((kind, ByteReader::new(payload, offset)))
}

fn read_header(
    payload: &ByteReader<'_>,
    place: &ByteReader<'_>,
) -> Result<HeaderJson, DecodeError> {
    let mut payload = payload.clone();
    let size = payload.len();
    let bytes = payload.take(size, "the header")?;
    let header: HeaderJson = serde_json::from_slice(bytes)
        .map_err(|error| place.error(format!("the header is invalid: {error}")))?;
    let unknown =
        header.plans.iter().position(|plan| plan.configuration >= header.configurations.len());
    match unknown {
        Some(plan) => Err(place.error(format!("plan {plan} has no configuration"))),
        None => Ok(header),
    }
}

/// Reads a block; `next` is the number that its first entry must have. Returns the number.
fn read_block(
    payload: &mut ByteReader<'_>,
    next: Option<u64>,
    entries: &mut Vec<RecordEntry>,
) -> Result<u64, DecodeError> {
    let start = payload.clone();
    let first = payload.number("the number of an entry")?;
    if next.is_some_and(|next| next != first) {
        return Err(start.error(format!("the block begins with entry {first}, not the next one")));
    }
    let count = payload.number("the number of entries")?;
    let mut at = payload.number("the time of a block")?;
    let before = entries.len();
    let mut requests = Requests::new();
    while !payload.is_empty() {
        let entry = read_entry(payload, at, &mut requests)?;
        at = entry.at;
        entries.push(entry);
    }
    let found = (entries.len() - before) as u64;
    if found == count && first.checked_add(found).is_some() {
        Ok(first)
    } else {
        Err(start.error(format!("the block has {found} entries instead of {count}")))
    }
}

fn check_end(payload: &mut ByteReader<'_>, blocks: u64) -> Result<(), DecodeError> {
    let start = payload.clone();
    let expected = payload.number("the number of blocks")?;
    if expected == blocks && payload.is_empty() {
        Ok(())
    } else {
        Err(start.error(format!("there are {blocks} blocks instead of {expected}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::entry::tests::body;
    use crate::record::entry::{EntryBody, EventKind};
    use crate::record::ring::{BlockRing, RingLimits};
    use proptest::prelude::*;
    use std::time::Duration;

    fn occasion() -> Occasion {
        let port = "sim0 port 1".to_owned();
        Occasion { reason: "a test".into(), written: "2026-01-02T03:04:05Z".into(), port }
    }

    fn recording(bodies: &[EntryBody]) -> Vec<u8> {
        let limits = RingLimits { bytes: 1 << 24, age: Duration::from_secs(1 << 20) };
        let mut ring = BlockRing::new(limits);
        for (at, body) in bodies.iter().enumerate() {
            match body {
                EntryBody::Mad(mad) => ring.push_mad(at as u64, mad),
                EntryBody::Event(kind, text) => ring.push_event(at as u64, *kind, text),
            }
        }
        let blocks = ring.blocks(0);
        let now = bodies.len() as u64;
        let is_truncated = false;
        let plans = Vec::new();
        let incidents = Vec::new();
        encode(&RecorderSnapshot { now, blocks, is_truncated, plans, incidents }, occasion())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn recordings_are_read_as_written(bodies in proptest::collection::vec(body(), 0..60)) {
            let bytes = recording(&bodies);
            let read = Recording::decode(&bytes).expect("a recording");
            prop_assert_eq!(&read.header.reason, "a test");
            prop_assert_eq!(read.header.written_at, bodies.len() as u64);
            let expected = bodies.into_iter().enumerate();
            let expected: Vec<RecordEntry> =
                expected.map(|(at, body)| RecordEntry { at: at as u64, body }).collect();
            prop_assert_eq!(read.entries, expected);
        }

        #[test]
        fn each_changed_byte_and_each_cut_is_noticed(
            bodies in proptest::collection::vec(body(), 0..20),
            change in 1..=255u8,
            place: prop::sample::Index,
        ) {
            let bytes = recording(&bodies);
            let place = place.index(bytes.len());
            let mut changed = bytes.clone();
            changed[place] ^= change;
            let error = Recording::decode(&changed).expect_err("a damaged recording");
            prop_assert!(error.offset <= place, "{error} for byte {place}");
            let error = Recording::decode(&bytes[..place]).expect_err("a part of a recording");
            prop_assert!(error.offset <= place, "{error} at a length of {place}");
        }
    }

    #[test]
    fn errors_tell_the_place() {
        let event = EntryBody::Event(EventKind::Trap, "trap 128".into());
        let bytes = recording(&[event]);
        assert_eq!(text(b""), "byte 0: this is not a recording of torus-sm");
        assert_eq!(text(&[0; 100]), "byte 0: this is not a recording of torus-sm");
        let mut newer = bytes.clone();
        newer[19] = 9;
        let expected = "byte 19: the format has version 9; this program reads versions 1 to 2";
        assert_eq!(text(&newer), expected);
        let surplus = [&bytes[..], b"x"].concat();
        let expected =
            format!("byte {}: surplus bytes after the end of the recording", bytes.len());
        assert_eq!(text(&surplus), expected);
        let expected =
            format!("byte {}: the recording is cut off: it has no end", bytes.len() - 10);
        assert_eq!(text(&bytes[..bytes.len() - 10]), expected);
    }

    fn text(bytes: &[u8]) -> String {
        Recording::decode(bytes).expect_err("no recording").to_string()
    }
}
