//! SA requests that wait for their answer, one queue for each port that asks: the ports are
//! served in turn, so that one that asks as fast as it can waits for its own requests only.
//!
//! Room is limited for all together. When it is used up, the port with the most requests gives
//! way: its latest one is to be answered with BUSY.
//!
//! A request that comes again while it waits is the repetition of a sender who hears nothing, and
//! needs no second answer: under load such copies would soon be all there is to be answered.

use crate::ids::Lid;
use crate::transport::intake::Inbound;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;
use tokio::time::Instant;

/// Who asks for what, under which transaction.
type Name = (Lid, u32, u64);

fn name_of(request: &Inbound) -> Name {
    let mut hasher = DefaultHasher::new();
    request.mad.hash(&mut hasher);
    (request.from.lid, request.from.qpn, hasher.finish())
}

/// The queues.
#[derive(Debug)]
pub struct FairQueue {
    /// By LID: a GID would be whatever a requester writes into its header. None is empty.
    by_port: BTreeMap<Lid, VecDeque<Inbound>>,
    /// The ports that have requests, the next in turn first.
    turns: VecDeque<Lid>,
    /// Of the requests.
    names: HashSet<Name>,
    count: usize,
    capacity: usize,
}

impl FairQueue {
    /// Queues of together at most `capacity` requests.
    pub fn new(capacity: usize) -> Self {
        let (by_port, turns, names) = Default::default();
        Self { by_port, turns, names, count: 0, capacity }
    }

    /// True if nothing waits.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a request, if it does not wait already. Returns the one that has no room, if there is one:
    /// this or another.
    pub fn add(&mut self, request: Inbound) -> Option<Inbound> {
        let (port, name) = (request.from.lid, name_of(&request));
        if self.names.contains(&name) {
            return None;
        }
        let turned_away = if self.count < self.capacity { None } else { self.make_room(port) };
        if self.count >= self.capacity {
            return Some(request);
        }
        let queue = self.by_port.entry(port).or_default();
        if queue.is_empty() {
            self.turns.push_back(port);
        }
        queue.push_back(request);
        self.names.insert(name);
        self.count += 1;
        turned_away
    }

    /// Takes the latest request of the port that has the most, if `port` has fewer.
    fn make_room(&mut self, port: Lid) -> Option<Inbound> {
        let own = self.by_port.get(&port).map_or(0, VecDeque::len);
        let most = self.by_port.iter_mut().max_by_key(|(_, queue)| queue.len());
        // Two more: else the ports would drive each other out by turns.
        let (_, queue) = most.filter(|(_, queue)| queue.len() > own + 1)?;
        self.count -= 1;
        queue.pop_back().inspect(|latest| {
            self.names.remove(&name_of(latest));
        })
    }

    /// The next request in turn.
    pub fn take(&mut self) -> Option<Inbound> {
        let port = self.turns.pop_front()?;
        let queue = self.by_port.get_mut(&port)?;
        let request = queue.pop_front();
        if let Some(request) = &request {
            self.names.remove(&name_of(request));
            self.count -= 1;
        }
        if queue.is_empty() {
            self.by_port.remove(&port);
        } else {
            self.turns.push_back(port);
        }
        request
    }
}

/// True if a request has waited longer than `patience` milliseconds (0 is no limit): whoever sent
/// it has given up or sent it again.
pub fn is_stale(request: &Inbound, now: Instant, patience: u32) -> bool {
    let waited = now.saturating_duration_since(request.arrived);
    patience != 0 && waited > Duration::from_millis(patience.into())
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
        let order: Vec<_> = std::iter::from_fn(|| queue.take()).map(|r| name(&r)).collect();
        assert_eq!(order, [(1, 0), (2, 0), (3, 0), (1, 1), (3, 1), (1, 2)]);
        assert!(queue.is_empty());
        assert!(queue.add(request(3, 0)).is_none() && !queue.is_empty(), "it was answered");
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
                refused.extend(queue.add(request(*port, number as u8)).as_ref().map(name));
                prop_assert!(queue.count <= capacity);
                if take {
                    out.extend(queue.take().as_ref().map(name));
                }
            }
            out.extend(std::iter::from_fn(|| queue.take()).map(|r| name(&r)));
            prop_assert!(queue.is_empty() && queue.turns.is_empty() && queue.by_port.is_empty());
            prop_assert!(queue.names.is_empty());
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
