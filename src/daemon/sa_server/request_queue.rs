//! SA requests that wait for their answer, one line for each port that asks: the ports are
//! served in turn, so that one that asks as fast as it can waits for its own requests only.
//!
//! Room is limited for all together. When it is used up, the port with the most requests gives
//! way: its latest one is to be answered with BUSY.
//!
//! A question ([`DedupKey`]) waits once: a request that comes again takes the place of the one before.
//! So the newest is answered, whose sender still waits, in the turn of the first; and however often
//! senders repeat what they ask, the lines are no longer than what they want to know. Else all that is
//! answered under load would soon be what nobody waits for any more.

use crate::daemon::sa_server::request_key::{DedupKey, RequestKey};
use crate::ids::Lid;
use crate::transport::demux::Inbound;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// Who has not been heard for so long does not wait any more, milliseconds: Linux gives a join up
/// after 3 s and repeats it every 300 ms until then; and the answer may have to wait for its plan.
const LONGEST_PATIENCE: u32 = 2000;

/// A request that waits.
#[derive(Debug)]
pub struct QueuedRequest {
    /// Its name.
    pub name: RequestKey,
    /// It.
    pub request: Inbound,
}

/// The requests of a port.
#[derive(Debug, Default)]
struct Line {
    /// The number of the first; they are numbered one after the other.
    first: u64,
    waiting: VecDeque<QueuedRequest>,
}

impl Line {
    fn at(&mut self, number: u64) -> Option<&mut QueuedRequest> {
        self.waiting.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }
}

/// The queues.
#[derive(Debug)]
pub struct FairQueue {
    /// By LID: a GID would be whatever a requester writes into its header. None is empty.
    by_port: HashMap<Lid, Line>,
    /// The ports that have requests, the next in turn first.
    turns: VecDeque<Lid>,
    /// The number of each question in its port's line.
    places: HashMap<DedupKey, u64>,
    /// Lengths of the lines, or what they once were. While it is in use, every line is in it with no
    /// less than its length. Not in use, and empty, until there is no room.
    lengths: BinaryHeap<(usize, Lid)>,
    count: usize,
    capacity: usize,
}

impl FairQueue {
    /// Queues of together at most `capacity` requests.
    pub fn new(capacity: usize) -> Self {
        let (by_port, turns, places, lengths) = Default::default();
        Self { by_port, turns, places, lengths, count: 0, capacity }
    }

    /// True if nothing waits.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a request, in the place of the same question if that waits already. Returns the one that
    /// has no room, if there is one: this or another.
    pub fn add(&mut self, request: Inbound) -> Option<Inbound> {
        let (port, name) = (request.from.lid, RequestKey::of(&request));
        if let Some(place) = self.place_of(&name) {
            *place = QueuedRequest { name, request };
            return None;
        }
        let turned_away = if self.count < self.capacity { None } else { self.make_room(port) };
        if self.count >= self.capacity {
            return Some(request);
        }
        let line = self.by_port.entry(port).or_default();
        if line.waiting.is_empty() {
            self.turns.push_back(port);
        }
        self.places.insert(name.question(), line.first + line.waiting.len() as u64);
        line.waiting.push_back(QueuedRequest { name, request });
        self.count += 1;
        let length = line.waiting.len();
        self.grew(port, length);
        turned_away
    }

    /// Where the question of this name waits.
    fn place_of(&mut self, name: &RequestKey) -> Option<&mut QueuedRequest> {
        let number = *self.places.get(&name.question())?;
        self.by_port.get_mut(&name.port())?.at(number)
    }

    /// Keeps [`Self::lengths`] true, and short: it is made anew from `capacity` lines at most, after
    /// more changes than that.
    fn grew(&mut self, port: Lid, length: usize) {
        if self.lengths.is_empty() {
            return;
        }
        self.lengths.push((length, port));
        if self.lengths.len() > 3 * self.capacity {
            self.lengths.clear();
        }
    }

    /// Takes the latest request of the port that has the most, if `port` has fewer.
    fn make_room(&mut self, port: Lid) -> Option<Inbound> {
        let own = self.by_port.get(&port).map_or(0, |line| line.waiting.len());
        let (length, greediest) = self.longest()?;
        // Two more: else the ports would drive each other out by turns.
        if length <= own + 1 {
            return None;
        }
        let latest = self.by_port.get_mut(&greediest)?.waiting.pop_back()?;
        self.count -= 1;
        self.places.remove(&latest.name.question());
        Some(latest.request)
    }

    /// The longest line and its length.
    fn longest(&mut self) -> Option<(usize, Lid)> {
        if self.lengths.is_empty() {
            let lines = self.by_port.iter();
            self.lengths = lines.map(|(&port, line)| (line.waiting.len(), port)).collect();
        }
        loop {
            let mut top = self.lengths.peek_mut()?;
            let length = self.by_port.get(&top.1).map_or(0, |line| line.waiting.len());
            if length == 0 {
                PeekMut::pop(top);
            } else if length == top.0 {
                return Some(*top);
            } else {
                top.0 = length;
            }
        }
    }

    /// The next request in turn.
    pub fn take(&mut self) -> Option<QueuedRequest> {
        let port = self.turns.pop_front()?;
        let line = self.by_port.get_mut(&port)?;
        let next = line.waiting.pop_front();
        if let Some(next) = &next {
            line.first += 1;
            self.places.remove(&next.name.question());
            self.count -= 1;
        }
        if line.waiting.is_empty() {
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

/// True if a request has waited longer than `patience` milliseconds (0 is no limit, and more than two
/// seconds are two): whoever sent it has given up.
pub fn is_stale(request: &Inbound, now: Instant, patience: u32) -> bool {
    let waited = now.saturating_duration_since(request.arrived);
    patience != 0 && waited > Duration::from_millis(patience.min(LONGEST_PATIENCE).into())
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

    fn name(request: &Inbound) -> (u16, u8) {
        (request.from.lid.0, request.mad[0])
    }

    fn taken(queue: &mut FairQueue) -> Option<(u16, u8)> {
        queue.take().map(|waiting| name(&waiting.request))
    }

    #[test]
    fn ports_are_served_in_turn_and_the_greediest_gives_way() {
        let mut queue = FairQueue::new(6);
        for number in 0..6 {
            assert!(queue.add(request(1, number)).is_none());
        }
        assert_eq!(queue.add(request(1, 6)).as_ref().map(name), Some((1, 6)), "its own");
        assert_eq!(queue.add(request(2, 0)).as_ref().map(name), Some((1, 5)));
        assert_eq!(queue.add(request(3, 0)).as_ref().map(name), Some((1, 4)));
        assert_eq!(queue.add(request(3, 1)).as_ref().map(name), Some((1, 3)));
        assert_eq!(queue.add(request(3, 2)).as_ref().map(name), Some((3, 2)), "as many as 1 has");
        assert!(queue.add(request(3, 0)).is_none(), "it is there already");
        let order: Vec<_> = std::iter::from_fn(|| taken(&mut queue)).collect();
        assert_eq!(order, [(1, 0), (2, 0), (3, 0), (1, 1), (3, 1), (1, 2)]);
        assert!(queue.is_empty());
        assert!(queue.add(request(3, 0)).is_none() && !queue.is_empty(), "it was answered");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_asked_again_waits_in_its_place() {
        let join = |tid: u8| {
            let mut join = request(1, 0);
            join.mad = vec![0; 80];
            (join.mad[3], join.mad[15], join.mad[17], join.mad[60]) = (2, tid, 0x38, 0xFF);
            join
        };
        let tid = |queue: &mut FairQueue| queue.take().map(|next| next.request.mad[15]);
        let mut queue = FairQueue::new(2);
        assert!(queue.add(join(7)).is_none() && queue.add(request(1, 0)).is_none());
        tokio::time::advance(Duration::from_secs(3)).await;
        assert!(queue.add(join(8)).is_none(), "it needs no room");
        assert_eq!(queue.count, 2);
        let first = queue.take().expect("it is the first still");
        assert_eq!(first.request.mad[15], 8, "who asked under 7 has given up");
        assert!(!is_stale(&first.request, Instant::now(), 1000), "it was heard just now");
        assert!(queue.add(join(9)).is_none());
        assert_eq!(queue.take().map(|next| next.request.mad.len()), Some(1));
        assert_eq!((tid(&mut queue), tid(&mut queue)), (Some(9), None));
    }

    #[tokio::test(start_paused = true)]
    async fn requests_go_stale() {
        let old = request(1, 0);
        tokio::time::advance(Duration::from_millis(11)).await;
        let now = Instant::now();
        let stale = [0, 10, 11, 12].map(|patience| is_stale(&old, now, patience));
        assert_eq!(stale, [false, true, false, false]);
    }

    proptest! {
        /// Nothing is lost, nothing is there twice, and a port's requests keep their order.
        #[test]
        fn every_request_is_answered_once(
            ports in prop::collection::vec(0u16..4, 0..60),
            takes in prop::collection::vec(any::<bool>(), 60),
            capacity in 1usize..8,
        ) {
            let mut queue = FairQueue::new(capacity);
            let mut out = Vec::new();
            let mut refused = Vec::new();
            for (number, (port, take)) in ports.iter().zip(takes).enumerate() {
                let length = |port| queue.by_port.get(&Lid(port)).map_or(0, |l| l.waiting.len());
                let lengths: Vec<usize> = (0..4).map(length).collect();
                let turned_away = queue.add(request(*port, number as u8)).as_ref().map(name);
                if let Some((victim, _)) = turned_away {
                    let (most, own) = (lengths[usize::from(victim)], lengths[usize::from(*port)]);
                    prop_assert!(lengths.iter().sum::<usize>() == capacity);
                    prop_assert!(victim == *port || most > own + 1);
                    prop_assert!(victim == *port || lengths.iter().all(|&length| length <= most));
                    prop_assert!(victim != *port || lengths.iter().all(|&length| length <= own + 1));
                }
                refused.extend(turned_away);
                prop_assert!(queue.count <= capacity);
                if take {
                    out.extend(taken(&mut queue));
                }
            }
            out.extend(std::iter::from_fn(|| taken(&mut queue)));
            prop_assert!(queue.is_empty() && queue.turns.is_empty() && queue.by_port.is_empty());
            prop_assert!(queue.places.is_empty() && queue.lengths.is_empty());
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
