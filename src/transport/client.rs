//! Client of subnet management: [`SmpClient`] sends requests, one at a time or as a [`SmpBatch`] of
//! any size. All requests share one window.
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
use super::pacing::{Pace, PacedQueue};
use super::transactions::{
    BatchId, BatchSettings, Results, SmpCounters, SmpError, SmpLimits, SmpRequest, SmpResult, Tag,
};
use super::{Address, Agent, MadPort, Outgoing, SendError};
use crate::ids::Lid;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use tokio::time::{Instant, Sleep, sleep_until};

/// Sends SMPs through a port. Clones share the port and the window.
#[derive(Clone)]
pub struct SmpClient {
    port: Arc<dyn MadPort>,
    demux: Arc<MadDemux>,
    /// Limits of background work, in addition to the window.
    pace: Option<Arc<Pace>>,
    batches: BatchSettings,
}

impl SmpClient {
    /// `port` must have been opened with `demux` as its sink.
    pub fn new(port: Arc<dyn MadPort>, demux: &Arc<MadDemux>, limits: SmpLimits) -> Self {
        demux.attach(&port);
        let batches = BatchSettings::default();
        let client = Self { port, demux: Arc::clone(demux), pace: None, batches };
        client.set_limits(limits);
        client
    }

    /// A client for background work: it and its clones have at most `window` requests in flight in
    /// each batch, and send at most `per_second` requests in each second.
    #[must_use]
    pub fn paced(&self, window: usize, per_second: u32) -> Self {
        Self { pace: Some(Arc::new(Pace::new(window, per_second))), ..self.clone() }
    }

    /// A client whose requests are sent again at most `max_retries` times.
    #[must_use]
    pub fn with_retries(&self, max_retries: u32) -> Self {
        let batches = BatchSettings { max_retries: Some(max_retries), ..self.batches };
        Self { batches, ..self.clone() }
    }

    /// A client whose batches wake their task when all requests have ended, or when one has failed or
    /// stalled. For those that need all results before they go on: each wake-up costs more than a
    /// request.
    #[must_use]
    pub fn woken_at_end(&self) -> Self {
        let batches = BatchSettings { wakes_at_end: true, ..self.batches };
        Self { batches, ..self.clone() }
    }

    pub fn port(&self) -> &Arc<dyn MadPort> {
        &self.port
    }

    /// Sets the limits of future transmissions.
    pub fn set_limits(&self, limits: SmpLimits) {
        self.demux.transactions().set_limits(limits);
        self.demux.pump();
    }

    /// Maximum number of requests in flight, those of other clients of the port included.
    pub fn window(&self) -> usize {
        self.demux.transactions().window()
    }

    /// Sends one request and waits for its response.
    ///
    /// # Errors
    /// [`SmpError`] without a response of status 0.
    pub async fn call(&self, request: &SmpRequest) -> SmpResult {
        let mut batch = self.batch();
        batch.submit(0, *request);
        match batch.next().await {
            Some((_, result)) => result,
            None => Err(SmpError::Unanswered),
        }
    }

    pub fn batch(&self) -> SmpBatch {
        let id = self.demux.transactions().open_batch(self.batches);
        SmpBatch {
            demux: Arc::clone(&self.demux),
            id,
            paced: self.pace.clone().map(PacedQueue::new),
            ready: Results::new(),
            stalls: VecDeque::new(),
            outstanding: 0,
            timer: None,
        }
    }

    /// Sends a MAD without a response: TrapRepress, or the response to a received request. It does
    /// not count towards the window.
    ///
    /// # Errors
    /// [`SendError`] if the port cannot send it.
    pub fn post_only(&self, agent: Agent, to: Address, mad: &[u8]) -> Result<(), SendError> {
        self.port.post(&Outgoing { agent, to, timeout: None, retries: 0, mad })?;
        self.demux.transactions().counters.posted += 1;
        Ok(())
    }

    pub fn counters(&self) -> SmpCounters {
        counters(&self.demux)
    }

    /// Shows the counters to others, as long as the port is open.
    pub fn meter(&self) -> SmpMeter {
        SmpMeter(Arc::downgrade(&self.demux))
    }

    /// The number of unsolicited SMPs above the limits since the last call, by the LID of their
    /// sender.
    pub fn take_omitted_smps(&self) -> Vec<(Lid, u64)> {
        self.demux.smp_intake().take_omitted()
    }

    /// Number of SMPs sent, responses to received requests included.
    pub fn sent(&self) -> u64 {
        let counters = &self.demux.transactions().counters;
        counters.gets() + counters.sets() + counters.posted
    }
}

/// The present counters of a port. It does not keep the port open.
#[derive(Clone, Debug)]
pub struct SmpMeter(Weak<MadDemux>);

impl SmpMeter {
    /// The counters; zeros if the port was closed.
    pub fn counters(&self) -> SmpCounters {
        self.0.upgrade().map(|demux| counters(&demux)).unwrap_or_default()
    }
}

fn counters(demux: &MadDemux) -> SmpCounters {
    let transactions = demux.transactions();
    let counters = transactions.counters.clone();
    let window = transactions.window();
    drop(transactions);
    SmpCounters { dropped: demux.overflowed(), window, ..counters }
}

/// An event of an [`SmpBatch`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BatchEvent {
    /// The result of a request.
    Result(Tag, SmpResult),
    /// A request is unanswered while others are answered (see
    /// [`STALL_TIME`](super::transactions::STALL_TIME)). Its result follows later.
    Stalled(Tag),
}

/// Requests whose results are awaited together, in the order of arrival.
///
/// Dropping a batch cancels its queued requests; responses to requests in flight are ignored.
pub struct SmpBatch {
    demux: Arc<MadDemux>,
    id: BatchId,
    /// The queue of a client for background work.
    paced: Option<PacedQueue>,
    /// Results taken from the transactions but not returned yet.
    ready: Results,
    /// Stalls taken from the transactions but not returned yet.
    stalls: VecDeque<Tag>,
    outstanding: usize,
    /// Runs while waiting, in case the port loses a response.
    timer: Option<Pin<Box<Sleep>>>,
}

impl SmpBatch {
    /// Queues a request. It is sent as soon as the window permits.
    pub fn submit(&mut self, tag: Tag, request: SmpRequest) {
        self.outstanding += 1;
        if let Some(paced) = &mut self.paced {
            return paced.push(tag, request);
        }
        let next = {
            let mut transactions = self.demux.transactions();
            transactions.submit(self.id, tag, request);
            transactions.transmit(Instant::now())
        };
        // No other request can be sent because of this one: those that the window and the devices admit have been.
        if let Some(transmit) = next {
            self.demux.send(&transmit);
        }
    }

    /// Queues several requests with the tags of `requests`. They are sent as soon as the window permits.
    pub fn submit_all(&mut self, requests: impl Iterator<Item = (Tag, SmpRequest)>) {
        if let Some(paced) = &mut self.paced {
            for (tag, request) in requests {
                self.outstanding += 1;
                paced.push(tag, request);
            }
            return;
        }
        {
            let mut transactions = self.demux.transactions();
            transactions.expect_results(self.id, requests.size_hint().0);
            for (tag, request) in requests {
                self.outstanding += 1;
                transactions.submit(self.id, tag, request);
            }
        }
        self.demux.pump();
    }

    /// Cancels requests that can no longer be answered, which frees their slots of the window.
    /// Returns the tags of cancelled requests.
    pub fn cancel(&mut self, is_cancelled: impl Fn(Tag) -> bool) -> Vec<Tag> {
        let mut cancelled = self.demux.transactions().cancel(self.id, &is_cancelled);
        cancelled.extend(self.paced.as_mut().into_iter().flat_map(|p| p.cancel(&is_cancelled)));
        self.outstanding -= cancelled.len();
        self.demux.pump();
        cancelled
    }

    /// Cancels queued requests; those in flight stay. Returns the tags of cancelled requests.
    pub fn cancel_queued(&mut self, is_cancelled: impl Fn(Tag) -> bool) -> Vec<Tag> {
        let mut cancelled = self.demux.transactions().cancel_queued(self.id, &is_cancelled);
        cancelled.extend(self.paced.as_mut().into_iter().flat_map(|p| p.cancel(&is_cancelled)));
        self.outstanding -= cancelled.len();
        cancelled
    }

    /// Number of requests whose result has not been returned.
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Waits for the next result; `None` if no request is outstanding. Cancel safe.
    pub async fn next(&mut self) -> Option<(Tag, SmpResult)> {
        loop {
            if let BatchEvent::Result(tag, result) = self.next_event().await? {
                return Some((tag, result));
            }
        }
    }

    /// Waits for the next result or stall; `None` if no request is outstanding. Cancel safe.
    pub async fn next_event(&mut self) -> Option<BatchEvent> {
        if self.outstanding == 0 {
            return None;
        }
        if self.ready.is_empty() && self.stalls.is_empty() {
            poll_fn(|context| self.poll_events(context)).await;
        }
        // Results first: a request that stalled and is answered by now is no suspicion.
        if let Some((tag, result)) = self.ready.pop_front() {
            self.outstanding -= 1;
            self.stalls.retain(|&stalled| stalled != tag);
            return Some(BatchEvent::Result(tag, result));
        }
        self.stalls.pop_front().map(BatchEvent::Stalled)
    }

    /// True if a result is at hand, so that [`Self::next_event`] returns at once.
    pub fn has_result(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Moves events to `self`. Ready if there are any.
    fn poll_events(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            {
                let mut transactions = self.demux.transactions();
                transactions.take_results(self.id, &mut self.ready);
                self.stalls.extend(transactions.take_stalls(self.id));
                if !self.ready.is_empty() || !self.stalls.is_empty() {
                    return Poll::Ready(());
                }
                transactions.set_waker(self.id, context.waker());
            }
            if self.send_paced(context) {
                continue;
            }
            ready!(self.poll_timer(context));
            self.demux.transactions().expire(Instant::now());
            self.demux.wake();
            self.demux.pump();
        }
    }

    /// Sends the requests of background work whose turn has come. True if there were any.
    fn send_paced(&mut self, context: &mut Context<'_>) -> bool {
        let Some(paced) = &mut self.paced else { return false };
        let mut is_sent = false;
        loop {
            let in_flight = self.outstanding - self.ready.len() - paced.len();
            let Poll::Ready((tag, request)) = paced.poll_next(in_flight, context) else {
                return is_sent;
            };
            self.demux.transactions().submit(self.id, tag, request);
            self.demux.pump();
            is_sent = true;
        }
    }

    /// Ready when a request may have stalled or expired. The timer may fire early but never late.
    fn poll_timer(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(check) = self.demux.transactions().next_check() else { return Poll::Pending };
        let timer = match &mut self.timer {
            Some(timer) if !timer.is_elapsed() => timer,
            elapsed => elapsed.insert(Box::pin(sleep_until(check))),
        };
        if timer.deadline() > check {
            timer.as_mut().reset(check);
        }
        timer.as_mut().poll(context)
    }
}

impl Drop for SmpBatch {
    fn drop(&mut self) {
        self.demux.transactions().close_batch(self.id);
        self.demux.pump();
    }
}
