//! Queues of SA requests, one for each source port, served in turn: a port that sends requests as
//! fast as it can waits only for its own.
//!
//! The total length is limited. When the limit is reached, the port with the longest queue loses
//! its latest request, which is answered with BUSY.
//!
//! Each [`DedupKey`] is queued once: a retransmission replaces the queued request and keeps its
//! position. The reply then carries the transaction ID that the sender still waits for, and
//! retransmissions do not make the queue longer; otherwise, under load, most replies would be to
//! requests whose senders have given up.

use super::request_key::{DedupKey, RequestKey};
use crate::config::options::reconcile::MAX_REQUEST_AGE_MS;
use crate::ids::Lid;
use crate::transport::demux::Inbound;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

#[derive(Debug)]
pub struct QueuedRequest {
    pub key: RequestKey,
    pub request: Inbound,
}

/// The queue of a source port.
#[derive(Debug, Default)]
struct PortQueue {
    /// Number of the first request; requests are numbered consecutively.
    first: u64,
    requests: VecDeque<QueuedRequest>,
}

impl PortQueue {
    fn get_mut(&mut self, number: u64) -> Option<&mut QueuedRequest> {
        self.requests.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }
}

/// The queues of all source ports.
#[derive(Debug)]
pub struct FairQueue {
    /// Key: LID of the source, because the sender chooses the GID in its header freely. No queue
    /// is empty.
    by_port: HashMap<Lid, PortQueue>,
    /// Ports with requests that are not paused, in the order in which they are served.
    turns: VecDeque<Lid>,
    /// Ports whose requests wait.
    paused: Vec<Lid>,
    /// The earliest time up to which one of them waits.
    paused_until: Option<Instant>,
    /// Number of each request in its port's queue.
    numbers: HashMap<DedupKey, u64>,
    /// Lengths of the queues, to find the longest one. Empty until the capacity is reached; then
    /// contains each queue with at least its present length, and outdated entries.
    lengths: BinaryHeap<(usize, Lid)>,
    count: usize,
    capacity: usize,
}

impl FairQueue {
    /// Empty queues with room for `capacity` requests in total.
    pub fn new(capacity: usize) -> Self {
        let (by_port, turns, numbers, lengths) = Default::default();
        let paused = Vec::new();
        let paused_until = None;
        Self { by_port, turns, paused, paused_until, numbers, lengths, count: 0, capacity }
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// True if [`Self::take`] returns a request.
    pub fn has_turns(&self) -> bool {
        !self.turns.is_empty()
    }

    /// True if requests of some port wait.
    pub fn has_paused(&self) -> bool {
        !self.paused.is_empty()
    }

    /// Puts back the request that was just taken. The requests of its port wait until
    /// [`Self::resume`], which is due at `until`.
    pub fn pause(&mut self, taken: QueuedRequest, until: Instant) {
        let port = taken.key.port();
        let queue = self.by_port.entry(port).or_default();
        if !queue.requests.is_empty() {
            let last = self.turns.pop_back();
            debug_assert_eq!(last, Some(port), "its other requests are served last");
            queue.first -= 1;
        }
        self.numbers.insert(taken.key.dedup_key(), queue.first);
        queue.requests.push_front(taken);
        debug_assert!(self.count < self.capacity, "the request was taken from the queue");
        self.count += 1;
        self.paused.push(port);
        self.paused_until = Some(self.paused_until.map_or(until, |other| other.min(until)));
        let length = queue.requests.len();
        self.record_length(port, length);
    }

    /// Time at which [`Self::resume`] is due.
    pub fn paused_until(&self) -> Option<Instant> {
        self.paused_until
    }

    /// Serves all ports again.
    pub fn resume(&mut self) {
        self.paused_until = None;
        self.turns.extend(self.paused.drain(..));
    }

    /// Number of queued requests.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Adds a request, or replaces the queued one with the same [`DedupKey`]. Returns the request
    /// that was dropped because the queues are full: this one or another.
    pub fn add(&mut self, request: Inbound) -> Option<Inbound> {
        let port = request.from.lid;
        let key = RequestKey::of(&request);
        if let Some(queued) = self.find(&key) {
            *queued = QueuedRequest { key, request };
            return None;
        }
        let dropped = if self.count < self.capacity { None } else { self.make_room(port) };
        if self.count >= self.capacity {
            return Some(request);
        }
        let queue = self.by_port.entry(port).or_default();
        if queue.requests.is_empty() {
            self.turns.push_back(port);
        }
        self.numbers.insert(key.dedup_key(), queue.first + queue.requests.len() as u64);
        queue.requests.push_back(QueuedRequest { key, request });
        self.count += 1;
        let length = queue.requests.len();
        self.record_length(port, length);
        dropped
    }

    fn find(&mut self, key: &RequestKey) -> Option<&mut QueuedRequest> {
        let number = *self.numbers.get(&key.dedup_key())?;
        self.by_port.get_mut(&key.port())?.get_mut(number)
    }

    /// Updates [`Self::lengths`]. Clears it when most of its entries are outdated; the next search
    /// builds it again.
    fn record_length(&mut self, port: Lid, length: usize) {
        if self.lengths.is_empty() {
            return;
        }
        self.lengths.push((length, port));
        if self.lengths.len() > 3 * self.capacity {
            self.lengths.clear();
        }
    }

    /// Drops the latest request of the port with the longest queue, if that of `port` is shorter.
    fn make_room(&mut self, port: Lid) -> Option<Inbound> {
        let own = self.by_port.get(&port).map_or(0, |queue| queue.requests.len());
        let (length, longest) = self.longest()?;
        // A difference of one does not suffice: two ports would drop each other's requests in turn.
        if length <= own + 1 {
            return None;
        }
        let latest = self.by_port.get_mut(&longest)?.requests.pop_back()?;
        self.count -= 1;
        self.numbers.remove(&latest.key.dedup_key());
        Some(latest.request)
    }

    /// The port with the longest queue, and the length.
    fn longest(&mut self) -> Option<(usize, Lid)> {
        if self.lengths.is_empty() {
            let queues = self.by_port.iter();
            self.lengths = queues.map(|(&port, queue)| (queue.requests.len(), port)).collect();
        }
        loop {
            let mut top = self.lengths.peek_mut()?;
            let length = self.by_port.get(&top.1).map_or(0, |queue| queue.requests.len());
            if length == 0 {
                PeekMut::pop(top);
            } else if length == top.0 {
                return Some(*top);
            } else {
                top.0 = length;
            }
        }
    }

    /// Removes the next request in turn.
    pub fn take(&mut self) -> Option<QueuedRequest> {
        let port = self.turns.pop_front()?;
        let queue = self.by_port.get_mut(&port)?;
        let next = queue.requests.pop_front();
        if let Some(next) = &next {
            queue.first += 1;
            self.numbers.remove(&next.key.dedup_key());
            self.count -= 1;
        }
        if queue.requests.is_empty() {
            self.by_port.remove(&port);
        } else {
            self.turns.push_back(port);
        }
        if self.count <= self.capacity / 2 {
            self.lengths.clear();
        }
        next
    }
}

/// True if a request is older than `max_age` milliseconds, limited to [`MAX_REQUEST_AGE_MS`]: its
/// sender has given up. 0 disables the check.
pub fn is_stale(request: &Inbound, now: Instant, max_age: u32) -> bool {
    let age = now.saturating_duration_since(request.arrived);
    max_age != 0 && age > Duration::from_millis(max_age.min(MAX_REQUEST_AGE_MS).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Sl;
    use crate::transport::{Address, Agent};
    use proptest::prelude::*;

    fn request(port: u16, number: u8) -> Inbound {
        let from = Address::gsi(Lid(port), Sl(0));
        Inbound { agent: Agent::Sa, from, mad: vec![number], arrived: Instant::now() }
    }

    fn id(request: &Inbound) -> (u16, u8) {
        (request.from.lid.0, request.mad[0])
    }

    fn taken(queue: &mut FairQueue) -> Option<(u16, u8)> {
        queue.take().map(|queued| id(&queued.request))
    }

    #[test]
    fn ports_are_served_in_turn_and_the_longest_queue_loses_requests() {
        let mut queue = FairQueue::new(6);
        for number in 0..6 {
            assert!(queue.add(request(1, number)).is_none());
        }
        assert_eq!(
            queue.add(request(1, 6)).as_ref().map(id),
            Some((1, 6)),
            "port 1 itself is longest"
        );
        assert_eq!(queue.add(request(2, 0)).as_ref().map(id), Some((1, 5)));
        assert_eq!(queue.add(request(3, 0)).as_ref().map(id), Some((1, 4)));
        assert_eq!(queue.add(request(3, 1)).as_ref().map(id), Some((1, 3)));
        assert_eq!(queue.add(request(3, 2)).as_ref().map(id), Some((3, 2)), "as many as port 1");
        assert!(queue.add(request(3, 0)).is_none(), "a retransmission");
        let order: Vec<_> = std::iter::from_fn(|| taken(&mut queue)).collect();
        assert_eq!(order, [(1, 0), (2, 0), (3, 0), (1, 1), (3, 1), (1, 2)]);
        assert!(queue.is_empty());
        assert!(queue.add(request(3, 0)).is_none() && !queue.is_empty(), "the first one was taken");
    }

    #[tokio::test(start_paused = true)]
    async fn a_retransmission_keeps_the_position_of_the_first() {
        let mut queue = FairQueue::new(2);
        assert!(queue.add(join(7)).is_none() && queue.add(request(1, 0)).is_none());
        tokio::time::advance(Duration::from_secs(3)).await;
        assert!(queue.add(join(8)).is_none(), "it replaces the first");
        assert_eq!(queue.count, 2);
        let first = queue.take().expect("two are queued");
        assert_eq!(first.request.mad[15], 8, "the sender no longer waits for transaction 7");
        assert!(
            !is_stale(&first.request, Instant::now(), 1000),
            "its age counts from the retransmission"
        );
        assert!(queue.add(join(9)).is_none());
        assert_eq!(queue.take().map(|next| next.request.mad.len()), Some(1));
        assert_eq!((tid(&mut queue), tid(&mut queue)), (Some(9), None));
    }

    fn tid(queue: &mut FairQueue) -> Option<u8> {
        queue.take().map(|next| next.request.mad[15])
    }

    fn join(tid: u8) -> Inbound {
        let mut join = request(1, 0);
        join.mad = vec![0; 80];
        (join.mad[3], join.mad[15], join.mad[17], join.mad[60]) = (2, tid, 0x38, 0xFF);
        join
    }

    #[test]
    fn requests_of_a_paused_port_wait_in_order() {
        let mut queue = FairQueue::new(8);
        let now = Instant::now();
        for (port, number) in [(1, 0), (2, 0), (1, 1), (3, 0)] {
            assert!(queue.add(request(port, number)).is_none());
        }
        let first = queue.take().expect("four are queued");
        queue.pause(first, now);
        assert_eq!((taken(&mut queue), queue.has_paused()), (Some((2, 0)), true));
        let only = queue.take().expect("that of port 3");
        queue.pause(only, now + Duration::from_secs(1));
        assert_eq!(queue.paused_until(), Some(now));
        assert!(queue.add(request(1, 0)).is_none(), "a retransmission");
        assert!(queue.add(request(1, 2)).is_none());
        assert_eq!((taken(&mut queue), queue.has_turns(), queue.len()), (None, false, 4));
        queue.resume();
        let order: Vec<_> = std::iter::from_fn(|| taken(&mut queue)).collect();
        assert_eq!(order, [(1, 0), (3, 0), (1, 1), (1, 2)]);
        assert!(queue.is_empty() && !queue.has_paused());
    }

    #[tokio::test(start_paused = true)]
    async fn requests_go_stale() {
        let old = request(1, 0);
        tokio::time::advance(Duration::from_millis(11)).await;
        let now = Instant::now();
        let stale = [0, 10, 11, 12].map(|max_age| is_stale(&old, now, max_age));
        assert_eq!(stale, [false, true, false, false]);
    }

    proptest! {
        /// No request is lost or duplicated, and the requests of a port keep their order.
        #[test]
        fn each_request_is_taken_or_dropped_once(
            ports in prop::collection::vec(0u16..4, 0..60),
            takes in prop::collection::vec(0..4, 60),
            capacity in 1usize..8,
        ) {
            let mut queue = FairQueue::new(capacity);
            let now = Instant::now();
            let mut out = Vec::new();
            let mut refused = Vec::new();
            for (number, (port, take)) in ports.iter().zip(takes).enumerate() {
                let queues = (0..4).map(|port| queue.by_port.get(&Lid(port)));
                let lengths: Vec<usize> =
                    queues.map(|queue| queue.map_or(0, |queue| queue.requests.len())).collect();
                let dropped = queue.add(request(*port, number as u8)).as_ref().map(id);
                if let Some((victim, _)) = dropped {
                    let most = lengths[usize::from(victim)];
                    let own = lengths[usize::from(*port)];
                    prop_assert!(lengths.iter().sum::<usize>() == capacity);
                    prop_assert!(victim == *port || most > own + 1);
                    prop_assert!(victim == *port || lengths.iter().all(|&length| length <= most));
                    prop_assert!(victim != *port || lengths.iter().all(|&length| length <= own + 1));
                }
                refused.extend(dropped);
                prop_assert!(queue.count <= capacity);
                match take {
                    0 => out.extend(taken(&mut queue)),
                    1 => {
                        if let Some(request) = queue.take() {
                            queue.pause(request, now);
                        }
                    }
                    2 => queue.resume(),
                    _ => {}
                }
            }
            out.extend(std::iter::from_fn(|| taken(&mut queue)));
            if queue.has_paused() {
                queue.resume();
                out.extend(std::iter::from_fn(|| taken(&mut queue)));
            }
            prop_assert!(queue.is_empty() && queue.turns.is_empty() && queue.by_port.is_empty());
            prop_assert!(queue.numbers.is_empty() && queue.lengths.is_empty());
            for port in 0..4 {
                let numbers: Vec<_> = out.iter().filter(|r| r.0 == port).collect();
                prop_assert!(numbers.is_sorted());
            }
            out.extend(refused);
            out.sort_unstable_by_key(|request| request.1);
            let all: Vec<_> = ports.iter().copied().zip(0u8..).collect();
            prop_assert_eq!(out, all);
        }
    }
}
