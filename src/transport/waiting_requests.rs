//! Lists of requests that wait to be sent, all in one pool. Callers submit tens of requests for a device at a
//! time, over and over: a queue of its own for each device would grow and shrink with each of them.

use super::in_flight::{BatchId, Tag};
use super::smp_request::SmpRequest;

/// Requests in a chunk of the pool. The pool grows by chunks, so that it moves no request.
const CHUNK: usize = 256;

/// Chunks of 45 kB each that are kept while no request waits.
const MAX_IDLE_CHUNKS: usize = 16;

/// A request that waits to be sent.
#[derive(Clone, Copy)]
pub(super) struct Queued {
    pub batch: BatchId,
    pub tag: Tag,
    pub request: SmpRequest,
}

/// The number of an entry of the pool.
type Place = u32;

struct PoolEntry {
    /// A free entry keeps the last request that it had.
    queued: Queued,
    /// The next entry of the list, or the next free one.
    next: Option<Place>,
}

/// Requests of a [`RequestPool`], oldest first.
#[derive(Default)]
pub(super) struct RequestList {
    first: Option<Place>,
    last: Option<Place>,
}

impl RequestList {
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }
}

/// The memory of all lists.
#[derive(Default)]
pub(super) struct RequestPool {
    chunks: Vec<Vec<PoolEntry>>,
    free: Option<Place>,
    waiting: usize,
}

impl RequestPool {
    pub(super) fn push_back(&mut self, list: &mut RequestList, queued: Queued) {
        let place = self.place(queued);
        match list.last {
            Some(last) => self.entry(last).next = Some(place),
            None => list.first = Some(place),
        }
        list.last = Some(place);
        self.waiting += 1;
    }

    pub(super) fn pop_front(&mut self, list: &mut RequestList) -> Option<Queued> {
        let place = list.first?;
        let free = self.free.replace(place);
        let entry = self.entry(place);
        let queued = entry.queued;
        list.first = std::mem::replace(&mut entry.next, free);
        if list.first.is_none() {
            list.last = None;
        }
        debug_assert!(self.waiting > 0, "each request of a list is counted");
        self.waiting -= 1;
        if self.waiting == 0 && self.chunks.len() > MAX_IDLE_CHUNKS {
            self.chunks = Vec::new();
            self.free = None;
        }
        Some(queued)
    }

    /// An entry with this request that is in no list.
    fn place(&mut self, queued: Queued) -> Place {
        if let Some(place) = self.free {
            let entry = self.entry(place);
            entry.queued = queued;
            self.free = entry.next.take();
            return place;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let at = self.chunks.len() - 1;
        let chunk = &mut self.chunks[at];
        chunk.push(PoolEntry { queued, next: None });
        // At most as many entries as requests that fit into memory.
        (at * CHUNK + chunk.len() - 1) as Place
    }

    fn entry(&mut self, place: Place) -> &mut PoolEntry {
        &mut self.chunks[place as usize / CHUNK][place as usize % CHUNK]
    }

    /// Chunks in memory.
    #[cfg(test)]
    pub(super) fn chunks(&self) -> usize {
        self.chunks.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Lid;
    use crate::wire::smp::SmpRoute;

    fn queued(tag: u64) -> Queued {
        let request = SmpRequest::get(SmpRoute::Lid(Lid(1)), 0x0011, 0);
        Queued { batch: BatchId(0), tag, request }
    }

    #[test]
    fn lists_keep_their_order_and_share_their_memory() {
        let mut pool = RequestPool::default();
        let mut lists = [RequestList::default(), RequestList::default()];
        for round in 0..100 {
            for tag in 0..CHUNK as u64 {
                pool.push_back(&mut lists[tag as usize % 2], queued(tag));
            }
            for tag in 0..CHUNK as u64 {
                let popped = pool.pop_front(&mut lists[tag as usize % 2]);
                assert_eq!(popped.map(|queued| queued.tag), Some(tag), "round {round}");
            }
            assert!(lists.iter().all(RequestList::is_empty));
        }
        assert!(pool.pop_front(&mut lists[0]).is_none());
        assert_eq!(pool.chunks(), 1);
    }

    #[test]
    fn a_large_pool_is_given_back_when_no_request_waits() {
        let mut pool = RequestPool::default();
        let mut list = RequestList::default();
        let count = (CHUNK * MAX_IDLE_CHUNKS) as u64 + 1;
        (0..count).for_each(|tag| pool.push_back(&mut list, queued(tag)));
        for tag in 0..count {
            assert_eq!(pool.chunks(), MAX_IDLE_CHUNKS + 1);
            assert_eq!(pool.pop_front(&mut list).map(|queued| queued.tag), Some(tag));
        }
        assert_eq!(pool.chunks(), 0);
        pool.push_back(&mut list, queued(7));
        assert_eq!(pool.pop_front(&mut list).map(|queued| queued.tag), Some(7));
    }
}
