//! Worker threads for SA requests that return tables, each of which may take milliseconds.
//!
//! Requests for single records are answered by the calling thread, because handing one to another
//! thread takes longer than the answer.

use super::open_replies::OpenReplies;
use super::refused_paths::{self, AnsweredQuery};
use crate::contained;
use crate::manage::offenders::is_logged;
use crate::notes::counted;
use crate::publish::Subnet;
use crate::sa::{Reply, Responder, SaCounters, is_table_request};
use crate::transport::demux::Inbound;
use crate::transport::{Agent, MadPort, Outgoing};
use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tracing::warn;

/// Minimum number of table requests in a batch that are answered in parallel.
const MIN_PARALLEL_TABLES: usize = 2;

/// Maximum number of workers: more threads would only wait for the port.
const MAX_WORKERS: usize = 7;

/// Requests for tables (of any length) per batch and thread. The requests of other ports wait for
/// the batch.
const TABLES_PER_THREAD: usize = 2;

/// The worker threads. The calling thread takes part in the work as well.
#[derive(Debug, Default)]
pub struct TableWorkers {
    pool: Option<ThreadPool>,
    open_replies: Arc<OpenReplies>,
}

impl TableWorkers {
    /// One worker for each core beyond the first. They do not share the planner's threads, which
    /// are busy while the fabric is rerouted, when clients send most requests.
    ///
    /// # Errors
    /// The kernel refuses to create a thread.
    pub fn new() -> Result<Self, ThreadPoolBuildError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::with(cores.saturating_sub(1).min(MAX_WORKERS))
    }

    /// `count` workers; with 0, the calling thread answers everything.
    ///
    /// # Errors
    /// The kernel refuses to create a thread.
    pub fn with(count: usize) -> Result<Self, ThreadPoolBuildError> {
        if count == 0 {
            return Ok(Self::default());
        }
        let pool = ThreadPoolBuilder::new()
            .num_threads(count)
            .thread_name(|number| format!("sa-table-{number}"))
            .build()?;
        Ok(Self { pool: Some(pool), ..Self::default() })
    }

    /// Maximum number of requests for tables in a batch.
    pub fn max_batch(&self) -> usize {
        let workers = self.pool.as_ref().map_or(0, ThreadPool::current_num_threads);
        (workers + 1) * TABLES_PER_THREAD
    }

    /// The replies in segments that are under way.
    pub fn open_replies(&self) -> &Arc<OpenReplies> {
        &self.open_replies
    }

    /// Answers requests that [only read](crate::sa::is_read_only) and sends the replies. The
    /// responder must be [prepared](Responder::prepare) for `subnet`. Returns the counts of these
    /// answers.
    pub fn answer(
        &self,
        responder: &Responder,
        subnet: &Subnet,
        port: &dyn MadPort,
        requests: &[Inbound],
        now: Instant,
    ) -> SaCounters {
        let tables = requests.iter().filter(|request| is_table_request(&request.mad)).collect();
        let next = AtomicUsize::new(0);
        let batch = TableBatch { responder, subnet, port, tables, now, next };
        let mut counters = SaCounters::default();
        for request in requests.iter().filter(|request| !is_table_request(&request.mad)) {
            batch.answer(request, &mut counters);
        }
        let pool = self.pool.as_ref().filter(|_| batch.tables.len() >= MIN_PARALLEL_TABLES);
        let Some(pool) = pool else {
            batch.answer_tables(&mut counters);
            return counters;
        };
        let total = Mutex::new(counters);
        pool.in_place_scope(|scope| {
            (0..pool.current_num_threads())
                .for_each(|_| scope.spawn(|_| work_on_part(&batch, &total)));
            work_on_part(&batch, &total);
        });
        total.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

fn work_on_part(batch: &TableBatch<'_>, total: &Mutex<SaCounters>) {
    let mut counters = SaCounters::default();
    batch.answer_tables(&mut counters);
    total.lock().unwrap_or_else(PoisonError::into_inner).merge(counters);
}

/// Requests for tables, which several threads take from.
struct TableBatch<'a> {
    responder: &'a Responder,
    subnet: &'a Subnet,
    port: &'a dyn MadPort,
    tables: Vec<&'a Inbound>,
    now: Instant,
    /// Index into `tables` of the next request to answer.
    next: AtomicUsize,
}

impl TableBatch<'_> {
    /// Answers requests until none is left.
    fn answer_tables(&self, counters: &mut SaCounters) {
        while let Some(request) = self.tables.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            self.answer(request, counters);
        }
    }

    fn answer(&self, Inbound { from, mad, arrived, .. }: &Inbound, counters: &mut SaCounters) {
        let reply =
            contained::request(|| self.responder.read(counters, self.subnet, from, mad, self.now));
        if let Some(reply) = reply {
            let query = AnsweredQuery { from, request: mad, reply: &reply.mad };
            refused_paths::log(self.responder, self.subnet, &query, self.now);
            send(self.port, &reply);
            counters.observe_queued(arrived.elapsed());
        }
    }
}

pub fn send(port: &dyn MadPort, reply: &Reply) {
    let to = reply.to;
    let mad = &reply.mad[..];
    let out = Outgoing { agent: Agent::Sa, to, timeout: None, retries: 0, mad };
    if let Err(error) = port.post(&out) {
        static FAILURES: AtomicU64 = AtomicU64::new(0);
        let count = FAILURES.fetch_add(1, Ordering::Relaxed) + 1;
        if is_logged(count) {
            let replies = counted(count as usize, "SA reply", "SA replies");
            warn!("{replies} could not be sent, the last to LID {}: {error}", to.lid);
        }
    }
}
