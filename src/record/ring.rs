//! The entries of the last minutes, in blocks of bounded size. The oldest block is dropped as a
//! whole when the bound in bytes or in time is exceeded.

use super::entry::{EventKind, RecordedMad, put_event, put_mad_entry};
use super::requests::Requests;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

/// Size of a block in bytes: large enough that the cost of a block does not matter, small enough
/// that dropping one loses little.
pub(super) const BLOCK_SIZE: usize = 1 << 16;

/// Age in microseconds of the blocks that are compressed: while the fabric comes up or is rerouted, others
/// need the processor.
const COMPRESSED_AGE: u64 = 1_000_000;

/// Space that the largest entry takes.
const MAX_ENTRY_SIZE: usize = 1200;

/// The bounds of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingLimits {
    /// Maximum size of the entries of all blocks, before they are compressed; 0 records nothing.
    pub bytes: usize,
    /// Maximum age of a block.
    pub age: Duration,
}

/// Consecutive entries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EntryBlock {
    /// Number of the first entry since the recorder was started.
    pub first: u64,
    /// Number of entries.
    pub count: u64,
    /// Time of the first entry, in microseconds since the recorder was started.
    pub start: u64,
    /// Time of the last entry.
    pub end: u64,
    entries: EncodedEntries,
}

/// The encoded entries of a block.
#[derive(Clone, PartialEq, Eq, Debug)]
enum EncodedEntries {
    Plain(Vec<u8>),
    /// Compressed by Deflate (RFC 1951).
    Deflated(Vec<u8>),
}

impl EntryBlock {
    /// The encoded entries.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match &self.entries {
            EncodedEntries::Plain(bytes) => Cow::Borrowed(bytes),
            EncodedEntries::Deflated(deflated) => {
                let mut bytes = Vec::with_capacity(BLOCK_SIZE);
                let inflated = DeflateDecoder::new(&deflated[..]).read_to_end(&mut bytes);
                debug_assert!(inflated.is_ok(), "what was compressed can be read");
                Cow::Owned(bytes)
            }
        }
    }

    /// A copy in less memory; `None` if the block is compressed. Takes about half a millisecond.
    pub(super) fn compressed(&self) -> Option<Self> {
        let EncodedEntries::Plain(bytes) = &self.entries else { return None };
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).ok()?;
        let mut deflated = encoder.finish().ok()?;
        deflated.shrink_to_fit();
        Some(Self { entries: EncodedEntries::Deflated(deflated), ..*self })
    }
}

/// The block that is being filled.
struct OpenBlock {
    first: u64,
    count: u64,
    start: u64,
    end: u64,
    bytes: Vec<u8>,
}

impl OpenBlock {
    fn new(first: u64, start: u64) -> Self {
        Self { first, count: 0, start, end: start, bytes: Vec::with_capacity(BLOCK_SIZE) }
    }

    fn close(self) -> EntryBlock {
        let Self { first, count, start, end, bytes } = self;
        EntryBlock { first, count, start, end, entries: EncodedEntries::Plain(bytes) }
    }

    /// A copy of the entries so far.
    fn copy(&self) -> EntryBlock {
        let Self { first, count, start, end, ref bytes } = *self;
        EntryBlock { first, count, start, end, entries: EncodedEntries::Plain(bytes.clone()) }
    }
}

/// The blocks.
pub(super) struct BlockRing {
    limits: RingLimits,
    /// The oldest blocks, compressed.
    compressed: VecDeque<Arc<EntryBlock>>,
    /// Full blocks that are not compressed.
    full: VecDeque<Arc<EntryBlock>>,
    open: Option<OpenBlock>,
    /// Requests in the open block.
    requests: Requests,
    /// Number of entries since the recorder was started.
    count: u64,
}

impl BlockRing {
    pub(super) fn new(limits: RingLimits) -> Self {
        Self {
            limits,
            compressed: VecDeque::new(),
            full: VecDeque::new(),
            open: None,
            requests: Requests::new(),
            count: 0,
        }
    }

    pub(super) fn set_limits(&mut self, limits: RingLimits) {
        self.limits = limits;
        if limits.bytes == 0 {
            self.compressed.clear();
            self.full.clear();
            self.open = None;
            self.requests.clear();
        }
        self.drop_old(0);
    }

    /// Number of entries since the recorder was started, which is the number of the next one.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Number of the first entry that is kept.
    pub(super) fn first(&self) -> u64 {
        let oldest = self.closed().next().map(|block| block.first);
        let oldest = oldest.or(self.open.as_ref().map(|block| block.first));
        oldest.unwrap_or(self.count)
    }

    pub(super) fn push_mad(&mut self, now: u64, mad: &RecordedMad) {
        self.push(now, |out, delta, requests| put_mad_entry(out, delta, mad, requests));
    }

    pub(super) fn push_event(&mut self, now: u64, kind: EventKind, text: &str) {
        self.push(now, |out, delta, _| put_event(out, delta, kind, text));
    }

    fn push(&mut self, now: u64, put: impl FnOnce(&mut Vec<u8>, u64, &mut Requests)) {
        if self.limits.bytes == 0 {
            return;
        }
        let block = self.open.get_or_insert_with(|| OpenBlock::new(self.count, now));
        // Threads may take the lock in another order than they read the clock.
        let now = now.max(block.end);
        put(&mut block.bytes, now - block.end, &mut self.requests);
        block.end = now;
        block.count += 1;
        self.count += 1;
        if block.bytes.len() + MAX_ENTRY_SIZE > BLOCK_SIZE {
            self.full.extend(self.open.take().map(|block| Arc::new(block.close())));
            self.requests.clear();
            self.drop_old(now);
        }
    }

    /// Drops blocks beyond the limits; space for an open block is kept free.
    fn drop_old(&mut self, now: u64) {
        let max_blocks = (self.limits.bytes / BLOCK_SIZE).saturating_sub(1);
        let age = u64::try_from(self.limits.age.as_micros()).unwrap_or(u64::MAX);
        let oldest = now.saturating_sub(age);
        while self.closed().len() > max_blocks
            || self.closed().next().is_some_and(|block| block.end < oldest)
        {
            if self.compressed.pop_front().is_none() {
                self.full.pop_front();
            }
        }
        debug_assert!(
            self.closed().len() * BLOCK_SIZE <= self.limits.bytes,
            "the size has a bound"
        );
    }

    /// The blocks that are full, oldest first.
    fn closed(&self) -> impl ExactSizeIterator<Item = &Arc<EntryBlock>> {
        let compressed = self.compressed.len();
        (0..compressed + self.full.len()).map(move |index| match index.checked_sub(compressed) {
            Some(index) => &self.full[index],
            None => &self.compressed[index],
        })
    }

    /// The oldest block that is to be compressed: it is full, and its last entry is a second old.
    pub(super) fn to_compress(&self, now: u64) -> Option<Arc<EntryBlock>> {
        let oldest = self.full.front().filter(|block| block.end + COMPRESSED_AGE <= now);
        oldest.cloned()
    }

    /// Replaces the block that [`Self::to_compress`] returned by a compressed copy, if it is still kept.
    pub(super) fn replace(&mut self, block: &Arc<EntryBlock>, compressed: EntryBlock) {
        if self.full.front().is_some_and(|oldest| Arc::ptr_eq(oldest, block)) {
            debug_assert_eq!(compressed.first, block.first, "a copy of the same entries");
            self.full.pop_front();
            self.compressed.push_back(Arc::new(compressed));
        }
    }

    /// The blocks, oldest first, as of `now`.
    pub(super) fn blocks(&mut self, now: u64) -> Vec<Arc<EntryBlock>> {
        self.drop_old(now);
        let open = self.open.as_ref().map(|block| Arc::new(block.copy()));
        self.closed().cloned().chain(open).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::bytes::ByteReader;
    use crate::record::entry::{EntryBody, read_entry};

    const SECOND: u64 = 1_000_000;

    fn texts(ring: &mut BlockRing, now: u64) -> Vec<(u64, String)> {
        let mut texts = Vec::new();
        for block in ring.blocks(now) {
            let bytes = block.bytes();
            let mut reader = ByteReader::new(&bytes, 0);
            let mut at = block.start;
            let mut requests = Requests::new();
            while !reader.is_empty() {
                let entry = read_entry(&mut reader, at, &mut requests).expect("an entry");
                at = entry.at;
                if let EntryBody::Event(_, text) = entry.body {
                    texts.push((entry.at, text));
                }
            }
        }
        texts
    }

    #[test]
    fn the_size_is_bounded() {
        let limits = RingLimits { bytes: 4 * BLOCK_SIZE, age: Duration::from_secs(3600) };
        let mut ring = BlockRing::new(limits);
        for number in 0..100_000 {
            ring.push_event(number, EventKind::Timer, &format!("event {number}"));
        }
        let size: usize = ring.blocks(100_000).iter().map(|block| block.bytes().len()).sum();
        assert!((2 * BLOCK_SIZE..=4 * BLOCK_SIZE).contains(&size), "{size}");
        let kept = texts(&mut ring, 100_000);
        let expected = (ring.first()..100_000).map(|number| (number, format!("event {number}")));
        assert!(kept.into_iter().eq(expected), "the latest ones are kept");
        ring.set_limits(RingLimits { bytes: 0, ..limits });
        ring.push_event(100_000, EventKind::Timer, "none");
        assert!(ring.blocks(100_000).is_empty());
        assert_eq!((ring.first(), ring.count()), (100_000, 100_000));
    }

    #[test]
    fn the_age_is_bounded() {
        let limits = RingLimits { bytes: 100 * BLOCK_SIZE, age: Duration::from_secs(10) };
        let mut ring = BlockRing::new(limits);
        for number in 0..100_000 {
            ring.push_event(number * SECOND / 1000, EventKind::Timer, "a text of some length");
        }
        let now = 100 * SECOND;
        let kept = texts(&mut ring, now);
        let first = kept[0].0;
        let last = kept[kept.len() - 1].0;
        // Blocks are dropped as a whole.
        assert!((86 * SECOND..=90 * SECOND).contains(&first), "{first}");
        assert_eq!(last, now - SECOND / 1000);
    }

    #[test]
    fn compressed_blocks_have_the_same_entries_in_less_memory() {
        let limits = RingLimits { bytes: 100 * BLOCK_SIZE, age: Duration::from_secs(1000) };
        let mut ring = BlockRing::new(limits);
        for number in 0..10_000 {
            ring.push_event(number, EventKind::Timer, &format!("text {number} of some length"));
        }
        let plain = texts(&mut ring, 10_000);
        let before = size(&ring);
        assert!(ring.to_compress(1000).is_none(), "the entries are new");
        let first = ring.to_compress(2 * SECOND).expect("a full block");
        while let Some(block) = ring.to_compress(2 * SECOND) {
            let compressed = block.compressed().expect("it is not compressed");
            ring.replace(&block, compressed);
        }
        assert!(size(&ring) < before / 3, "{} of {before}", size(&ring));
        assert_eq!(texts(&mut ring, 10_000), plain);
        ring.replace(&first, EntryBlock { first: 1, ..(*first).clone() });
        assert_eq!(ring.first(), 0, "a block that is not kept replaces none");
    }

    fn size(ring: &BlockRing) -> usize {
        let entries = ring.closed().map(|block| match &block.entries {
            EncodedEntries::Plain(bytes) | EncodedEntries::Deflated(bytes) => bytes.capacity(),
        });
        entries.sum()
    }
}
