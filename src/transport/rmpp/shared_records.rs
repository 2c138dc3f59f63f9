//! The records of messages in transit, each table once however many ports receive it.

use rustc_hash::{FxHashMap, FxHasher};
use std::hash::Hasher;
use std::sync::{Arc, Weak};

/// Tables in transit, by the hash of their bytes.
#[derive(Debug, Default)]
pub(super) struct SharedRecords {
    /// A table whose hash is that of another one is not shared.
    by_hash: FxHashMap<u64, Weak<[u8]>>,
    /// Bytes of all tables.
    bytes: usize,
}

fn hash(records: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(records);
    hasher.finish()
}

impl SharedRecords {
    /// The table with these bytes: that of another transfer, or a copy.
    pub(super) fn share(&mut self, records: &[u8]) -> Arc<[u8]> {
        let hash = hash(records);
        let known = self.by_hash.get(&hash).and_then(Weak::upgrade);
        if let Some(known) = known.filter(|known| **known == *records) {
            return known;
        }
        let copy: Arc<[u8]> = Arc::from(records);
        self.by_hash.entry(hash).or_insert_with(|| Arc::downgrade(&copy));
        self.bytes += records.len();
        copy
    }

    /// Bytes of all tables in transit.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Ends the use of a table by a transfer. Returns the bytes of memory that this frees.
    pub(super) fn release(&mut self, records: Arc<[u8]>) -> usize {
        if Arc::strong_count(&records) > 1 {
            return 0;
        }
        let hash = hash(&records);
        let is_shareable =
            |known: &Weak<[u8]>| std::ptr::addr_eq(known.as_ptr(), &raw const *records);
        if self.by_hash.get(&hash).is_some_and(is_shareable) {
            self.by_hash.remove(&hash);
        }
        self.bytes -= records.len();
        records.len()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_hash.len()
    }
}
