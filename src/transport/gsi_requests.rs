//! Requests of the general services classes in flight, by transaction ID.

use super::{Agent, Delivery, Outcome};
use crate::wire::attr::AttrId;
use crate::wire::mad::{Header, MAD_SIZE, Mad, Method, Status, low_tid_of};
use crate::wire::sa::DATA_OFFSET;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;

/// Identifies a request in its batch; chosen by the submitter.
pub type GsiTag = u64;

/// Why a request has no response.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GsiError {
    /// With the lower half of its transaction ID.
    #[error("no answer (TID 0x{0:x})")]
    Unanswered(u32),
    #[error("{0}")]
    Send(String),
}

/// The response to a request, of any status.
pub type GsiResult = Result<Mad, GsiError>;

/// A request in flight.
pub(super) struct Pending {
    pub batch: u32,
    pub tag: GsiTag,
    pub agent: Agent,
    pub attr_id: u16,
    pub results: mpsc::UnboundedSender<(GsiTag, GsiResult)>,
}

impl Pending {
    /// True if a delivery is the response to the request, or says that there is none.
    fn fits(&self, delivery: &Delivery<'_>) -> bool {
        if self.agent != delivery.agent {
            return false;
        }
        if delivery.outcome == Outcome::Unanswered {
            return true;
        }
        let header = Header::read(delivery.mad);
        // A redirection is ClassPortInfo.
        let is_redirection =
            header.status() & Status::REDIRECT != 0 && header.attr_id() == AttrId::CLASS_PORT_INFO;
        // ibsim's library delivers responses of the SA without the padding behind the record.
        let length = if delivery.agent == Agent::Sa { DATA_OFFSET } else { MAD_SIZE };
        delivery.mad.len() >= length
            && header.method() == Method::GET_RESP.0
            && (header.attr_id() == self.attr_id || is_redirection)
    }
}

/// The requests in flight, by the lower half of their transaction ID.
#[derive(Default)]
pub(super) struct GsiRequests {
    pending: Mutex<FxHashMap<u32, Pending>>,
    next_tid: AtomicU32,
    next_batch: AtomicU32,
}

impl GsiRequests {
    pub(super) fn pending(&self) -> MutexGuard<'_, FxHashMap<u32, Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for a new batch.
    pub(super) fn open_batch(&self) -> u32 {
        self.next_batch.fetch_add(1, Ordering::Relaxed)
    }

    /// The lower half of the transaction ID of a new request.
    pub(super) fn next_tid(&self) -> u32 {
        self.next_tid.fetch_add(1, Ordering::Relaxed)
    }

    /// Passes a response, or the report that there is none, to the batch of its request. False if
    /// it belongs to no request.
    pub(super) fn complete(&self, delivery: &Delivery<'_>) -> bool {
        let Some(tid) = low_tid_of(delivery.mad) else { return false };
        let mut pending = self.pending();
        if !pending.get(&tid).is_some_and(|request| request.fits(delivery)) {
            return false;
        }
        let Some(request) = pending.remove(&tid) else { return false };
        drop(pending);
        let result = match delivery.outcome {
            Outcome::Arrived => Ok(Mad::read(delivery.mad)),
            Outcome::Unanswered => Err(GsiError::Unanswered(tid)),
        };
        // A batch that has ended needs no result.
        let _ = request.results.send((request.tag, result));
        true
    }

    /// Fails all requests, because the port is lost.
    pub(super) fn fail_all(&self, reason: &str) {
        let failed: Vec<Pending> = self.pending().drain().map(|(_, request)| request).collect();
        for request in failed {
            let _ = request.results.send((request.tag, Err(GsiError::Send(reason.to_owned()))));
        }
    }
}
