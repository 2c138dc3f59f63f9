//! Asking the fabric: [`SmpClient`] sends subnet management requests, one at a time or as a
//! [`SmpBatch`] of any size, all through one window.
//!
//! ```no_run
//! # use torus_sm::transport::client::SmpClient;
//! # use torus_sm::transport::transactions::SmpRequest;
//! # use torus_sm::wire::smp::SmpRoute;
//! # async fn sweep(client: SmpClient, routes: &[SmpRoute]) {
//! let mut batch = client.batch();
//! for (tag, route) in routes.iter().enumerate() {
//!     batch.submit(tag as u64, SmpRequest::get(*route, 0x0011, 0));
//! }
//! while let Some((tag, result)) = batch.next().await {
//!     println!("{}: {result:?}", routes[tag as usize]);
//! }
//! # }
//! ```

use super::demux::MadDemux;
use super::transactions::{
    BatchId, Results, SmpCounters, SmpError, SmpLimits, SmpRequest, SmpResult, Tag,
};
use super::{Address, Agent, MadPort, Outgoing, SendError};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::time::{Instant, Sleep, sleep_until};

/// Sends subnet management packets through a port. Clones share the port and the window.
#[derive(Clone)]
pub struct SmpClient {
    port: Arc<dyn MadPort>,
    demux: Arc<MadDemux>,
}

impl SmpClient {
    /// A client of `port`, which was opened with `intake` as its sink.
    pub fn new(port: Arc<dyn MadPort>, demux: &Arc<MadDemux>, limits: SmpLimits) -> Self {
        demux.attach(&port);
        let client = Self { port, demux: Arc::clone(demux) };
        client.set_limits(limits);
        client
    }

    /// The port.
    pub fn port(&self) -> &Arc<dyn MadPort> {
        &self.port
    }

    /// Replaces the limits for what is sent from now on.
    pub fn set_limits(&self, limits: SmpLimits) {
        self.demux.transactions().set_limits(limits);
        self.demux.pump();
    }

    /// Sends one request and waits for what comes of it.
    ///
    /// # Errors
    /// [`SmpError`] if there is no answer, or none of use.
    pub async fn call(&self, request: &SmpRequest) -> SmpResult {
        let mut batch = self.batch();
        batch.submit(0, *request);
        match batch.next().await {
            Some((_, result)) => result,
            None => Err(SmpError::Unanswered),
        }
    }

    /// An empty batch.
    pub fn batch(&self) -> SmpBatch {
        let id = self.demux.transactions().open_batch();
        SmpBatch {
            demux: Arc::clone(&self.demux),
            id,
            ready: Results::new(),
            outstanding: 0,
            timer: None,
        }
    }

    /// Sends a MAD that has no answer: TrapRepress, or the answer to a request of somebody
    /// else. It does not count towards the window.
    ///
    /// # Errors
    /// [`SendError`] if the port does not send it.
    pub fn post_only(&self, agent: Agent, to: Address, mad: &[u8]) -> Result<(), SendError> {
        self.port.post(&Outgoing { agent, to, timeout: None, retries: 0, mad })?;
        self.demux.transactions().counters.posted += 1;
        Ok(())
    }

    /// What was sent so far and what came of it.
    pub fn counters(&self) -> SmpCounters {
        self.demux.transactions().counters.clone()
    }

    /// How many SMPs were sent so far, answers to others included.
    pub fn sent(&self) -> u64 {
        let counters = &self.demux.transactions().counters;
        counters.gets + counters.sets + counters.posted
    }
}

/// Requests whose results are awaited together, in the order in which they come in.
///
/// Dropping a batch takes back what was not sent yet; answers to the rest are ignored.
pub struct SmpBatch {
    demux: Arc<MadDemux>,
    id: BatchId,
    /// Results fetched from the transactions, not handed out yet.
    ready: Results,
    outstanding: usize,
    /// Armed while waiting, against answers that the port loses.
    timer: Option<Pin<Box<Sleep>>>,
}

impl SmpBatch {
    /// Queues a request under `tag`, and sends it at once if the window has room; else it is
    /// sent by itself as soon as there is.
    pub fn submit(&mut self, tag: Tag, request: SmpRequest) {
        self.outstanding += 1;
        self.demux.transactions().submit(self.id, tag, request);
        self.demux.pump();
    }

    /// Forgets requests that cannot be answered any more: they are not sent, or their places are given
    /// to others. Returns the tags of those without a result.
    pub fn forget(&mut self, is_one: impl Fn(Tag) -> bool) -> Vec<Tag> {
        let forgotten = self.demux.transactions().forget(self.id, is_one);
        self.outstanding -= forgotten.len();
        self.demux.pump();
        forgotten
    }

    /// Requests whose result [`Self::next`] did not return yet.
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// The next result with its tag; `None` when nothing is outstanding. Cancel safe.
    pub async fn next(&mut self) -> Option<(Tag, SmpResult)> {
        if self.outstanding == 0 {
            return None;
        }
        if self.ready.is_empty() {
            poll_fn(|context| self.poll_results(context)).await;
        }
        let result = self.ready.pop_front()?;
        self.outstanding -= 1;
        Some(result)
    }

    /// A result that is there already, without waiting.
    pub fn try_next(&mut self) -> Option<(Tag, SmpResult)> {
        if self.ready.is_empty() {
            self.demux.transactions().take_results(self.id, &mut self.ready);
        }
        let result = self.ready.pop_front()?;
        self.outstanding -= 1;
        Some(result)
    }

    /// Fetches results into `self.ready`; ready when there are some.
    fn poll_results(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            {
                let mut transactions = self.demux.transactions();
                transactions.take_results(self.id, &mut self.ready);
                if !self.ready.is_empty() {
                    return Poll::Ready(());
                }
                transactions.park(self.id, context.waker());
            }
            ready!(self.poll_timer(context));
            self.demux.transactions().expire(Instant::now());
            self.demux.wake();
            self.demux.pump();
        }
    }

    /// Ready when something may have expired. The timer may go off early, as it is left alone
    /// while answers come in; it is never late, because deadlines only move away.
    fn poll_timer(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let timer = match &mut self.timer {
            Some(timer) if !timer.is_elapsed() => timer,
            elapsed => {
                let Some(deadline) = self.demux.transactions().next_deadline() else {
                    return Poll::Pending;
                };
                elapsed.insert(Box::pin(sleep_until(deadline)))
            }
        };
        timer.as_mut().poll(context)
    }
}

impl Drop for SmpBatch {
    fn drop(&mut self) {
        self.demux.transactions().close_batch(self.id);
        self.demux.pump();
    }
}
