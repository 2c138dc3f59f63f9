//! Admits requests to the queue, refuses excess ones, and answers them in batches.

use super::SaServer;
use super::refused_changes::{RefusedChange, is_power_of_4};
use crate::contained;
use crate::daemon::sa_server::joins::Disposition;
use crate::daemon::sa_server::open_replies::Admission;
use crate::daemon::sa_server::request_key::{RequestKey, changes_membership};
use crate::daemon::sa_server::request_queue::{self, QueuedRequest};
use crate::manage::event::Event;
use crate::notes::counted;
use crate::publish::Subnet;
use crate::sa::counters::DropReason;
use crate::sa::{Reply, is_read_only, is_service_request, is_table_request};
use crate::transport::demux::Inbound;
use crate::transport::{Address, GSI_QKEY};
use crate::wire::sa::busy;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{debug, warn};

/// Requests per batch; other inputs are handled between batches.
const MAX_REQUESTS_PER_BATCH: usize = 512;

/// Replies to writing requests per batch: each may take as long as the port takes to send a
/// packet. Requests whose reply is held do not count, because their retransmissions, if left in
/// the queue until the reply is sent, would be answered again.
const MAX_WRITES_PER_BATCH: usize = 64;

/// Time after which no further request that writes is begun in a batch: each may cause reports to
/// hundreds of subscribers, while requests of other ports wait for the next batch.
const MAX_WRITE_TIME: Duration = Duration::from_millis(5);

/// BUSY replies per batch. A BUSY reply costs as much as an answer; further requests are dropped,
/// and their senders retransmit them.
const MAX_BUSY_PER_BATCH: usize = MAX_WRITES_PER_BATCH;

/// Interval at which ports with waiting requests are checked, in case they have stopped to
/// acknowledge their replies. The end of a reply is reported at once.
const PAUSE_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// A port's BUSY replies are logged from this number on, at each power of 4: when all hosts send
/// requests at once, each is refused now and then.
const MIN_LOGGED_BUSY: u64 = 16;

/// Reasons for BUSY, for the log.
const QUEUE_IS_FULL: &str =
    "SA request queue is full, and most of its requests are from the same port";
const MANY_OPEN_REPLIES: &str = "too many tables requested that are not acknowledged";

impl SaServer {
    /// Queues a request, or refuses the one that the queue drops for it.
    pub(super) fn admit(&mut self, inbound: Inbound) {
        if let Some(refused) = self.requests.queue.add(inbound) {
            self.refuse(&refused, QUEUE_IS_FULL);
        }
    }

    /// Answers a request with BUSY.
    fn refuse(&mut self, refused: &Inbound, reason: &str) {
        let is_up = self.snapshots.subnet.is_some() || self.snapshots.indexing.is_some();
        let is_ours = is_up && self.is_master();
        let Some(mad) = busy(&refused.mad).filter(|_| is_ours) else { return };
        let lid = refused.from.lid;
        let count = self.responder.get().counters_mut().count_busy(lid);
        if is_logged(count) {
            let node = self.snapshots.node_description(lid);
            warn!("{reason}: LID {lid} ({node}) got BUSY {count} times");
            self.outputs.feed.send(Event::SaOverload { lid: lid.0, description: node, count });
        }
        let to = Address { qkey: GSI_QKEY, ..refused.from };
        self.send(&Reply { to, mad, required_generation: 0 });
    }

    /// Queues all requests received so far, so that each port gets its turn however many requests
    /// other ports sent before, and answers a batch.
    pub(super) fn answer_some(&mut self, requests: &mut mpsc::Receiver<Inbound>) {
        // Update the snapshot first, to answer requests that arrive with the first one.
        if self.snapshots.published.has_changed().unwrap_or(false) {
            self.snapshot_changed();
        }
        if !self.is_ready() {
            return;
        }
        let mut refusals = 0;
        for _ in 0..requests.len() {
            let Ok(inbound) = requests.try_recv() else { break };
            if let Some(refused) = self.requests.queue.add(inbound) {
                refusals += 1;
                if refusals <= MAX_BUSY_PER_BATCH {
                    self.refuse(&refused, QUEUE_IS_FULL)
                } else {
                    self.responder.get().counters_mut().count_drop(DropReason::QueueFull)
                }
            }
        }
        if !self.requests.queue.has_turns() {
            return;
        }
        match self.own_subnet() {
            Some(subnet) => self.answer_batch(&subnet),
            None => self.ignore_batch(),
        }
    }

    /// False while the first snapshot is being indexed: requests wait for it.
    pub(super) fn is_ready(&self) -> bool {
        self.snapshots.subnet.is_some() || self.snapshots.indexing.is_none()
    }

    /// True if replies or requests in the queues can be handled now.
    pub(super) fn has_work(&self) -> bool {
        self.joins.has_released() || (self.requests.queue.has_turns() && self.is_ready())
    }

    /// Sends held replies whose groups are programmed, a batch at a time.
    pub(super) fn send_held_replies(&mut self) {
        for reply in self.joins.take_released(MAX_WRITES_PER_BATCH) {
            self.send(&reply);
        }
    }

    /// Drops requests while this SM is not master of a configured subnet.
    fn ignore_batch(&mut self) {
        for next in std::iter::from_fn(|| self.requests.queue.take()).take(MAX_REQUESTS_PER_BATCH) {
            debug!("SA request from LID {} is ignored: the subnet is not up", next.key.port());
            self.misuse.ignored_requests += 1;
        }
    }

    fn answer_batch(&mut self, subnet: &Arc<Subnet>) {
        let max_age = subnet.options.max_msg_fifo_timeout;
        let now = Instant::now();
        self.update_managers();
        let [mut tables, mut writes, mut refusals] = [0; 3];
        for _ in 0..MAX_REQUESTS_PER_BATCH {
            let Some(taken) = self.requests.queue.take() else { break };
            if request_queue::is_stale(&taken.request, now, max_age) {
                self.responder.get().counters_mut().count_drop(DropReason::Stale);
                continue;
            }
            let admission = self.admission(&taken.request, now);
            if admission == Admission::Wait {
                self.requests.queue.pause(taken, now + PAUSE_CHECK_INTERVAL);
                continue;
            }
            let QueuedRequest { key, request: inbound } = taken;
            if admission == Admission::Refuse {
                refusals += 1;
                if refusals <= MAX_BUSY_PER_BATCH {
                    self.refuse(&inbound, MANY_OPEN_REPLIES)
                } else {
                    self.responder.get().counters_mut().count_drop(DropReason::QueueFull)
                }
            } else if is_read_only(&inbound.mad) {
                tables += usize::from(is_table_request(&inbound.mad));
                if is_service_request(&inbound.mad) {
                    // Expired leases are removed before the responder is shared again.
                    self.responder.get();
                }
                self.requests.reads.push(inbound);
                if tables == self.requests.table_workers.max_batch() {
                    break;
                }
            } else {
                self.read(subnet, now);
                writes += usize::from(self.write(subnet, &inbound, key));
                if writes == MAX_WRITES_PER_BATCH || now.elapsed() >= MAX_WRITE_TIME {
                    break;
                }
            }
        }
        self.read(subnet, now);
    }

    /// Decides about a request by the replies that its sender has not acknowledged.
    fn admission(&self, request: &Inbound, now: Instant) -> Admission {
        if !is_table_request(&request.mad) {
            return Admission::Admit;
        }
        self.requests.table_workers.open_replies().admission(request.from.lid, now.into_std())
    }

    /// Answers the collected read requests. The responder is shared meanwhile. Otherwise,
    /// once a flood of requests reached the queue, the server would be busy without pause and never
    /// share the responder again.
    fn read(&mut self, subnet: &Arc<Subnet>, now: Instant) {
        if self.requests.reads.is_empty() {
            return;
        }
        self.share_for(subnet);
        let port = &*self.outputs.port;
        let now = now.into_std();
        self.responder.read(|responder| {
            self.requests.table_workers.answer(responder, subnet, port, &self.requests.reads, now)
        });
        self.requests.reads.clear();
    }

    /// Logs sources of forged requests, again when their number is four times as high.
    pub(super) fn log_forgeries(&mut self) {
        let Some(responder) = self.responder.exclusive() else { return };
        let logged = &self.misuse.logged_forgeries;
        let due = responder
            .counters()
            .forged_by_lid()
            .filter(|(key, count)| logged.get(key).is_none_or(|logged| *count >= 4 * logged));
        for ((lid, reason), count) in due.collect::<Vec<_>>() {
            self.misuse.logged_forgeries.insert((lid, reason), count);
            let requests = counted(count as usize, "SA request", "SA requests");
            let problem = match reason {
                DropReason::WrongKey => "a wrong SM_Key",
                _ => "the GID of another port",
            };
            warn!(
                "{requests} of LID {lid} ({}) with {problem} got no reply",
                self.snapshots.node_description(lid)
            );
        }
    }

    /// Executes a request that writes; true if its reply is sent at once.
    fn write(&mut self, subnet: &Subnet, inbound: &Inbound, key: RequestKey) -> bool {
        let now = Instant::now();
        let from = &inbound.from;
        let mad = &inbound.mad;
        let key = changes_membership(mad).then_some(key);
        match self.joins.check(now, inbound, key) {
            Disposition::New => {}
            Disposition::ReplyHeld => return false,
            Disposition::Answered(reply) => {
                self.send(&reply);
                return true;
            }
        }
        let responder = self.responder.get();
        let Some(reply) =
            contained::request(|| responder.handle(subnet, from, mad, now.into_std()))
        else {
            return false;
        };
        let responder = self.responder.get();
        let snapshots = &self.snapshots;
        let mut refused = RefusedChange { responder, snapshots, subnet, request: inbound };
        refused.log(&reply.mad);
        let generation = self.responder.get().registry().generation();
        let ready = self.joins.executed(now, inbound, key, reply, generation);
        ready.iter().for_each(|reply| self.send(reply));
        if ready.is_some() {
            self.responder.get().counters_mut().observe_queued(inbound.arrived.elapsed());
        }
        self.registry_changed();
        self.request_plan(now);
        ready.is_some()
    }
}

/// True for counts that are powers of 4, from [`MIN_LOGGED_BUSY`].
fn is_logged(count: u64) -> bool {
    is_power_of_4(count) && count >= MIN_LOGGED_BUSY
}

#[cfg(test)]
mod tests {
    use super::is_logged;

    #[test]
    fn busy_replies_are_logged_at_powers_of_4() {
        let logged: Vec<u64> = (0..5000).filter(|&count| is_logged(count)).collect();
        assert_eq!(logged, [16, 64, 256, 1024, 4096]);
    }
}
