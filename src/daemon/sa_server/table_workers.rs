//! Those who answer SA requests that only read. A single record is answered in less time than it
//! takes to hand the request over, so the desk does that itself; requests for tables, of which each
//! may take milliseconds, are shared among several threads. Requests that write are the desk's own.

use crate::publish::Subnet;
use crate::sa::{Reply, Responder, SaCounters, is_table_request};
use crate::transport::demux::Inbound;
use crate::transport::{Agent, MadPort, Outgoing};
use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use tracing::warn;

/// So many tables are worth waking other threads for.
const CROWD: usize = 2;

/// More clerks than this would only wait for the port.
const MOST: usize = 7;

/// The clerks, besides whoever gives them work.
#[derive(Debug, Default)]
pub struct TableWorkers(Option<ThreadPool>);

impl TableWorkers {
    /// One for each core beyond the first. They have threads of their own: those that plan are
    /// busy when a fabric is rerouted, which is when most is asked.
    ///
    /// # Errors
    /// The kernel gives no threads.
    pub fn new() -> Result<Self, ThreadPoolBuildError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::with(cores.saturating_sub(1).min(MOST))
    }

    /// So many; none is enough.
    ///
    /// # Errors
    /// The kernel gives no threads.
    pub fn with(count: usize) -> Result<Self, ThreadPoolBuildError> {
        if count == 0 {
            return Ok(Self::default());
        }
        let names = |number| format!("sa-clerk-{number}");
        let pool = ThreadPoolBuilder::new().num_threads(count).thread_name(names).build()?;
        Ok(Self(Some(pool)))
    }

    /// Answers requests that [only read](crate::sa::is_read_only) and sends the replies. The
    /// responder was [prepared](Responder::prepare) for this snapshot. Returns what was counted.
    pub fn answer(
        &self,
        responder: &Responder,
        subnet: &Subnet,
        port: &dyn MadPort,
        requests: &[Inbound],
        now: Instant,
    ) -> SaCounters {
        let tables = requests.iter().filter(|request| is_table_request(&request.mad)).collect();
        let work = Work { responder, subnet, port, tables, now, next: AtomicUsize::new(0) };
        let mut counters = SaCounters::default();
        for request in requests.iter().filter(|request| !is_table_request(&request.mad)) {
            work.answer(request, &mut counters);
        }
        let pool = self.0.as_ref().filter(|_| work.tables.len() >= CROWD);
        let Some(pool) = pool else {
            work.take_part(&mut counters);
            return counters;
        };
        let total = Mutex::new(counters);
        let part = || {
            let mut counters = SaCounters::default();
            work.take_part(&mut counters);
            total.lock().unwrap_or_else(PoisonError::into_inner).merge(counters);
        };
        pool.in_place_scope(|scope| {
            (0..pool.current_num_threads()).for_each(|_| scope.spawn(|_| part()));
            part();
        });
        total.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Requests for tables, and how many of them somebody has taken.
struct Work<'a> {
    responder: &'a Responder,
    subnet: &'a Subnet,
    port: &'a dyn MadPort,
    tables: Vec<&'a Inbound>,
    now: Instant,
    next: AtomicUsize,
}

impl Work<'_> {
    /// Answers one after the other until none is left.
    fn take_part(&self, counters: &mut SaCounters) {
        while let Some(request) = self.tables.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            self.answer(request, counters);
        }
    }

    fn answer(&self, Inbound { from, mad, .. }: &Inbound, counters: &mut SaCounters) {
        let reply = self.responder.read(counters, self.subnet, from, mad, self.now);
        if let Some(reply) = reply {
            send(self.port, &reply);
        }
    }
}

/// Sends a reply.
pub fn send(port: &dyn MadPort, reply: &Reply) {
    let (to, mad) = (reply.to, &reply.mad[..]);
    let out = Outgoing { agent: Agent::Sa, to, timeout: None, retries: 0, mad };
    if let Err(error) = port.post(&out) {
        warn!("answering LID {}: {error}", to.lid);
    }
}
