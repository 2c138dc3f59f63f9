//! A batch of SMPs with a value of the caller for each request.

use super::client::{SmpBatch, SmpClient};
use super::transactions::{SmpError, SmpReply, SmpRequest};

/// An [`SmpBatch`] whose tags are values of any type.
pub struct Tagged<T> {
    batch: SmpBatch,
    slots: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Tagged<T> {
    pub fn new(client: &SmpClient) -> Self {
        Self { batch: client.batch(), slots: Vec::new(), free: Vec::new() }
    }

    /// Queues a request. `tag` is returned with its result.
    pub fn submit(&mut self, tag: T, request: SmpRequest) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(tag);
        self.batch.submit(slot as u64, request);
    }

    /// Cancels requests that can no longer be answered. Returns their tags.
    pub fn cancel(&mut self, is_cancelled: impl Fn(&T) -> bool) -> Vec<T> {
        let slots = &self.slots;
        let selected =
            |slot| slots.get(slot as usize).and_then(Option::as_ref).is_some_and(&is_cancelled);
        let cancelled = self.batch.cancel(selected);
        let cancelled = cancelled.into_iter().map(|slot| slot as usize);
        cancelled
            .filter_map(|slot| {
                self.free.push(slot);
                self.slots.get_mut(slot)?.take()
            })
            .collect()
    }

    /// Number of requests without a result.
    pub fn outstanding(&self) -> usize {
        self.batch.outstanding()
    }

    /// Waits for the next result; `None` if no request is outstanding.
    pub async fn next(&mut self) -> Option<(T, Result<SmpReply, SmpError>)> {
        loop {
            let (slot, result) = self.batch.next().await?;
            let slot = slot as usize;
            if let Some(tag) = self.slots.get_mut(slot).and_then(Option::take) {
                self.free.push(slot);
                return Some((tag, result));
            }
        }
    }
}
