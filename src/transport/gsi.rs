//! Client of the general services classes other than subnet administration, such as performance
//! management.
//!
//! Requests are matched here and not with those of subnet management, so that they take no place in
//! that window: a batch limits nothing itself, its user submits as many requests as may be in
//! flight. The port retransmits requests and reports those without a response.

use super::demux::MadDemux;
use super::gsi_requests::Pending;
use super::{Address, Agent, MadPort, Outgoing};
use crate::wire::mad::Mad;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;

pub use super::gsi_requests::{GsiError, GsiResult, GsiTag};

/// Time after the last retransmission of all requests in flight after which they count as
/// unanswered although the port did not report them.
const GRACE_TIME: Duration = Duration::from_secs(5);

/// Timeout of each transmission, and the number of retransmissions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GsiTimeouts {
    pub timeout: Duration,
    pub retries: u32,
}

/// Sends requests through a port.
#[derive(Clone)]
pub struct GsiClient {
    port: Arc<dyn MadPort>,
    demux: Arc<MadDemux>,
}

impl GsiClient {
    /// `port` must have been opened with `demux` as its sink.
    pub fn new(port: Arc<dyn MadPort>, demux: &Arc<MadDemux>) -> Self {
        Self { port, demux: Arc::clone(demux) }
    }

    pub fn batch(&self, timeouts: GsiTimeouts) -> GsiBatch {
        let (results, received) = mpsc::unbounded_channel();
        let id = self.demux.gsi().open_batch();
        GsiBatch { client: self.clone(), id, timeouts, results, received, outstanding: 0 }
    }
}

/// Requests whose results are awaited together, in the order of arrival. Dropping a batch forgets
/// those in flight.
pub struct GsiBatch {
    client: GsiClient,
    id: u32,
    timeouts: GsiTimeouts,
    results: mpsc::UnboundedSender<(GsiTag, GsiResult)>,
    received: mpsc::UnboundedReceiver<(GsiTag, GsiResult)>,
    outstanding: usize,
}

impl GsiBatch {
    /// Sends a request at once. Its transaction ID is replaced. Failures to send are results, too.
    pub fn submit(&mut self, tag: GsiTag, agent: Agent, to: Address, mut mad: Mad) {
        let requests = self.client.demux.gsi();
        let tid = requests.next_tid();
        let mut header = mad.header();
        header.set_tid(u64::from(tid));
        mad.set_header(&header);
        let results = self.results.clone();
        let pending = Pending { batch: self.id, tag, agent, attr_id: header.attr_id(), results };
        requests.pending().insert(tid, pending);
        self.outstanding += 1;
        let GsiTimeouts { timeout, retries } = self.timeouts;
        let out = Outgoing { agent, to, timeout: Some(timeout), retries, mad: &mad.0 };
        if let Err(error) = self.client.port.post(&out)
            && requests.pending().remove(&tid).is_some()
        {
            let _ = self.results.send((tag, Err(GsiError::Send(error.to_string()))));
        }
    }

    /// Number of requests whose result has not been returned.
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Waits for the next result; `None` if no request is outstanding, or if the port reports
    /// nothing about those that are. Cancel safe.
    pub async fn next(&mut self) -> Option<(GsiTag, GsiResult)> {
        if self.outstanding == 0 {
            return None;
        }
        let limit = self.timeouts.timeout * (self.timeouts.retries + 1) + GRACE_TIME;
        match timeout(limit, self.received.recv()).await {
            Ok(result) => {
                self.outstanding -= 1;
                result
            }
            Err(_) => {
                self.outstanding = 0;
                self.forget();
                None
            }
        }
    }

    fn forget(&self) {
        self.client.demux.gsi().pending().retain(|_, request| request.batch != self.id);
    }
}

impl Drop for GsiBatch {
    fn drop(&mut self) {
        if self.outstanding > 0 {
            self.forget();
        }
    }
}
