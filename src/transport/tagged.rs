//! A batch of SMPs, each with a note of its sender's that comes back with the answer.

use super::client::{SmpBatch, SmpClient};
use super::transactions::{SmpError, SmpReply, SmpRequest};

/// An [`SmpBatch`] whose tags are values of the sender.
pub struct Tagged<T> {
    batch: SmpBatch,
    slots: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Tagged<T> {
    /// An empty batch of this client.
    pub fn new(client: &SmpClient) -> Self {
        Self { batch: client.batch(), slots: Vec::new(), free: Vec::new() }
    }

    /// Queues a request; `note` comes back with its answer.
    pub fn submit(&mut self, note: T, request: SmpRequest) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(note);
        self.batch.submit(slot as u64, request);
    }

    /// Forgets requests that cannot be answered any more. Returns their notes.
    pub fn forget(&mut self, is_one: impl Fn(&T) -> bool) -> Vec<T> {
        let slots = &self.slots;
        let is_such = |tag| slots.get(tag as usize).and_then(Option::as_ref).is_some_and(&is_one);
        let tags = self.batch.forget(is_such);
        let taken = tags.into_iter().map(|tag| tag as usize);
        taken
            .filter_map(|slot| {
                self.free.push(slot);
                self.slots.get_mut(slot)?.take()
            })
            .collect()
    }

    /// Requests that were submitted and not answered yet.
    pub fn outstanding(&self) -> usize {
        self.batch.outstanding()
    }

    /// The next answer; `None` when nothing is outstanding.
    pub async fn next(&mut self) -> Option<(T, Result<SmpReply, SmpError>)> {
        loop {
            let (tag, answer) = self.batch.next().await?;
            let slot = tag as usize;
            if let Some(note) = self.slots.get_mut(slot).and_then(Option::take) {
                self.free.push(slot);
                return Some((note, answer));
            }
        }
    }
}
