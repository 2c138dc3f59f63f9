//! Requests: they wait their turn, are refused if there are too many, and are answered in batches.

use super::SaServer;
use crate::daemon::sa_server::joins::Disposition;
use crate::daemon::sa_server::request_key::{RequestKey, changes_membership};
use crate::daemon::sa_server::request_queue::{self, QueuedRequest};
use crate::ids::Lid;
use crate::publish::Subnet;
use crate::sa::counters::DropReason;
use crate::sa::{Reply, is_read_only, is_service_request, is_table_request};
use crate::transport::demux::Inbound;
use crate::transport::{Address, GSI_QKEY};
use crate::wire::sa::busy;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{debug, warn};

/// Requests that are answered before anything else has its turn.
const BATCH: usize = 512;

/// Answers to requests that write before anything else has its turn: each may take as long as the port
/// takes to send a packet. Requests whose answer is held do not count: repetitions that lay about until
/// it is sent would be answered once more.
const WRITES: usize = 64;

/// Requests that are refused before some are answered. The one takes as long as the other, and the time
/// is for answers: those beyond hear nothing and repeat what they ask by themselves.
const REFUSALS: usize = WRITES;

/// Requests for tables, of any length, that are answered before anything else has its turn.
const TABLES: usize = 32;

impl SaServer {
    /// Lets a request wait its turn.
    pub(super) fn admit(&mut self, inbound: Inbound) {
        if let Some(refused) = self.waiting.add(inbound) {
            self.refuse(&refused);
        }
    }

    fn refuse(&mut self, refused: &Inbound) {
        let is_up = self.subnet.is_some() || self.studying.is_some();
        let is_ours = is_up && self.is_master();
        let Some(mad) = busy(&refused.mad).filter(|_| is_ours) else { return };
        let lid = refused.from.lid;
        let count = self.responder.get().counters_mut().count_busy(lid);
        if is_telling(count) {
            let name = self.name_of(lid);
            warn!("LID {lid} ({name}) asks too much: {count} SA requests got BUSY for an answer");
        }
        let to = Address { qkey: GSI_QKEY, ..refused.from };
        self.send(&Reply { to, mad, required_generation: 0 });
    }

    /// Answers what waits, after a look at what else came: a port's turn comes however many
    /// requests of others came before.
    pub(super) fn answer_some(&mut self, requests: &mut mpsc::Receiver<Inbound>) {
        // Else the first requests could be ignored with the news already there.
        if self.published.has_changed().unwrap_or(false) {
            self.published();
        }
        if !self.is_ready() {
            return;
        }
        let mut refusals = 0;
        for _ in 0..requests.len() {
            let Ok(inbound) = requests.try_recv() else { break };
            if let Some(refused) = self.waiting.add(inbound) {
                refusals += 1;
                match refusals <= REFUSALS {
                    true => self.refuse(&refused),
                    false => self.responder.get().counters_mut().count_drop(DropReason::QueueFull),
                }
            }
        }
        if self.waiting.is_empty() {
            return;
        }
        match self.own_subnet() {
            Some(subnet) => self.answer_batch(&subnet),
            None => self.ignore_batch(),
        }
    }

    /// Requests can be dealt with now: what comes just before the first snapshot is studied is
    /// looked at when it is.
    pub(super) fn is_ready(&self) -> bool {
        self.subnet.is_some() || self.studying.is_none()
    }

    /// There is something that can be dealt with now.
    pub(super) fn has_work(&self) -> bool {
        self.joins.has_free() || (!self.waiting.is_empty() && self.is_ready())
    }

    /// Sends some of the answers that were held and may go out now.
    pub(super) fn send_free(&mut self) {
        for reply in self.joins.free(WRITES) {
            self.send(&reply);
        }
    }

    /// Requests that come before the subnet is up.
    fn ignore_batch(&mut self) {
        for next in std::iter::from_fn(|| self.waiting.take()).take(BATCH) {
            debug!("SA request from LID {} before the subnet is up", next.name.port());
            self.untimely += 1;
        }
    }

    fn answer_batch(&mut self, subnet: &Arc<Subnet>) {
        let patience = subnet.options.max_msg_fifo_timeout;
        let now = Instant::now();
        self.refresh_managers();
        let [mut tables, mut writes] = [0; 2];
        for _ in 0..BATCH {
            let Some(QueuedRequest { name, request: inbound }) = self.waiting.take() else { break };
            if request_queue::is_stale(&inbound, now, patience) {
                self.responder.get().counters_mut().count_drop(DropReason::Stale);
            } else if is_read_only(&inbound.mad) {
                tables += usize::from(is_table_request(&inbound.mad));
                if is_service_request(&inbound.mad) {
                    // Leases that are over are seen to before it is lent again.
                    self.responder.get();
                }
                self.reads.push(inbound);
                if tables == TABLES {
                    break;
                }
            } else {
                self.read(subnet, now);
                writes += usize::from(self.write(subnet, &inbound, name));
                if writes == WRITES {
                    break;
                }
            }
        }
        self.read(subnet, now);
    }

    /// Answers the requests that only read. The hatch is open in the meantime: else a crowd that has
    /// found it closed once would keep the desk busy, and it closed, for ever.
    fn read(&mut self, subnet: &Arc<Subnet>, now: Instant) {
        if self.reads.is_empty() {
            return;
        }
        self.lend(subnet);
        let (port, now) = (&*self.port, now.into_std());
        self.responder
            .read(|responder| self.table_workers.answer(responder, subnet, port, &self.reads, now));
        self.reads.clear();
    }

    /// The description of the node at a LID, for messages.
    fn name_of(&self, lid: Lid) -> String {
        let subnet = self.subnet.as_ref();
        let port = subnet.and_then(|subnet| Some((subnet, subnet.plan.lids.port(lid)?)));
        let unknown = || "unknown".to_owned();
        port.map_or_else(unknown, |(s, port)| s.fabric.node_of(port).description.to_string())
    }

    /// Carries out a request that writes; true if it is answered at once.
    fn write(&mut self, subnet: &Subnet, inbound: &Inbound, name: RequestKey) -> bool {
        let now = Instant::now();
        let (from, mad) = (&inbound.from, &inbound.mad);
        let name = changes_membership(mad).then_some(name);
        match self.joins.course(now, inbound, name) {
            Disposition::New => {}
            Disposition::Waits => return false,
            Disposition::Answered(reply) => {
                self.send(&reply);
                return true;
            }
        }
        let Some(reply) = self.responder.get().handle(subnet, from, mad, now.into_std()) else {
            return false;
        };
        let generation = self.responder.get().registry().generation();
        let free = self.joins.handled(now, (inbound, name), reply, generation);
        free.iter().for_each(|reply| self.send(reply));
        self.wrote();
        self.ask_for_plan(now);
        free.is_some()
    }
}

/// True if a port that was refused so often is worth a line in the log: when all hosts ask at once,
/// each is refused now and then.
fn is_telling(count: u64) -> bool {
    count.is_power_of_two() && count.trailing_zeros().is_multiple_of(2) && count >= 16
}

#[cfg(test)]
mod tests {
    use super::is_telling;

    #[test]
    fn refusals_are_told_ever_more_rarely() {
        let told: Vec<u64> = (0..5000).filter(|&count| is_telling(count)).collect();
        assert_eq!(told, [16, 64, 256, 1024, 4096]);
    }
}
