//! Those who answer SA requests that only read: one at a time where few wait, on several threads
//! where many do. Requests that write are the desk's own.

use crate::ids::Lid;
use crate::publish::Subnet;
use crate::sa::{Counters, Reply, Responder};
use crate::transport::intake::Inbound;
use crate::transport::{Agent, MadPort, Outgoing};
use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use tracing::warn;

/// So many requests are worth waking other threads for.
const CROWD: usize = 128;

/// Requests that a clerk takes at once: few, so that all end at about the same time.
const HANDFUL: usize = 16;

/// More clerks than this would only wait for the port.
const MOST: usize = 7;

/// The clerks, besides whoever gives them work.
#[derive(Debug, Default)]
pub struct Clerks(Option<ThreadPool>);

impl Clerks {
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

    /// Answers requests that [only read](crate::sa::only_reads) and sends the replies. The
    /// responder was [prepared](Responder::prepare) for this snapshot. Returns what was counted.
    pub fn answer(
        &self,
        responder: &Responder,
        subnet: &Subnet,
        port: &dyn MadPort,
        requests: &[Inbound],
        now: Instant,
    ) -> Counters {
        let work = Work { responder, subnet, port, requests, now, next: AtomicUsize::new(0) };
        let pool = self.0.as_ref().filter(|_| requests.len() >= CROWD);
        let Some(pool) = pool else { return work.take_part() };
        let total = Mutex::new(Counters::default());
        let part = || {
            let counters = work.take_part();
            total.lock().unwrap_or_else(PoisonError::into_inner).absorb(counters);
        };
        pool.in_place_scope(|scope| {
            (0..pool.current_num_threads()).for_each(|_| scope.spawn(|_| part()));
            part();
        });
        total.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Requests, and how far they are answered.
struct Work<'a> {
    responder: &'a Responder,
    subnet: &'a Subnet,
    port: &'a dyn MadPort,
    requests: &'a [Inbound],
    now: Instant,
    next: AtomicUsize,
}

impl Work<'_> {
    /// Answers a handful after the other until none is left.
    fn take_part(&self) -> Counters {
        let mut counters = Counters::default();
        loop {
            let start = self.next.fetch_add(HANDFUL, Ordering::Relaxed);
            let Some(rest) = self.requests.get(start..).filter(|rest| !rest.is_empty()) else {
                return counters;
            };
            for Inbound { from, mad, .. } in &rest[..rest.len().min(HANDFUL)] {
                let reply = self.responder.read(&mut counters, self.subnet, from, mad, self.now);
                if let Some(reply) = reply {
                    send(self.port, &reply);
                }
            }
        }
    }
}

/// Sends a reply.
pub fn send(port: &dyn MadPort, reply: &Reply) {
    let (to, mad) = (reply.to, &reply.mad[..]);
    let out = Outgoing { agent: Agent::Sa, to, timeout: None, retries: 0, mad };
    if let Err(error) = port.post(&out) {
        let Lid(lid) = to.lid;
        warn!("answering LID {lid}: {error}");
    }
}
