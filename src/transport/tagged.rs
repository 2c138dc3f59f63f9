//! A batch of SMPs with a value of the caller for each request.

use super::client::{BatchEvent, SmpBatch, SmpClient};
use super::transactions::{SmpError, SmpReply, SmpRequest};

/// An [`SmpBatch`] whose tags are values of any type.
pub struct Tagged<T> {
    batch: SmpBatch,
    slots: Vec<TaggedSlot<T>>,
    free: Vec<usize>,
    /// Number of outstanding requests that are stalled.
    stalled: usize,
}

struct TaggedSlot<T> {
    tag: Option<T>,
    is_stalled: bool,
}

/// An event of a [`Tagged`] batch, see [`BatchEvent`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TaggedEvent<T> {
    Result(T, Result<SmpReply, SmpError>),
    Stalled(T),
}

impl<T: Copy> Tagged<T> {
    pub fn new(client: &SmpClient) -> Self {
        Self { batch: client.batch(), slots: Vec::new(), free: Vec::new(), stalled: 0 }
    }

    /// Queues a request. `tag` is returned with its result.
    pub fn submit(&mut self, tag: T, request: SmpRequest) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(TaggedSlot { tag: None, is_stalled: false });
            self.slots.len() - 1
        });
        self.slots[slot].tag = Some(tag);
        self.batch.submit(slot as u64, request);
    }

    /// Cancels requests that can no longer be answered. Returns their tags.
    pub fn cancel(&mut self, is_cancelled: impl Fn(&T) -> bool) -> Vec<T> {
        let slots = &self.slots;
        let cancelled = self.batch.cancel(|slot| is_selected(slots, slot, &is_cancelled));
        cancelled.into_iter().filter_map(|slot| self.free(slot as usize)).collect()
    }

    /// Cancels requests that were not sent yet. Returns their tags.
    pub fn cancel_queued(&mut self, is_cancelled: impl Fn(&T) -> bool) -> Vec<T> {
        let slots = &self.slots;
        let cancelled = self.batch.cancel_queued(|slot| is_selected(slots, slot, &is_cancelled));
        cancelled.into_iter().filter_map(|slot| self.free(slot as usize)).collect()
    }

    /// Number of requests without a result.
    pub fn outstanding(&self) -> usize {
        self.batch.outstanding()
    }

    /// Number of requests without a result that are not stalled.
    pub fn waiting(&self) -> usize {
        self.batch.outstanding().saturating_sub(self.stalled)
    }

    /// True if a request without a result is not stalled.
    pub fn is_waiting(&self) -> bool {
        self.waiting() > 0
    }

    /// True if a result is at hand, so that [`Self::next_event`] returns at once.
    pub fn has_result(&self) -> bool {
        self.batch.has_result()
    }

    /// Waits for the next result; `None` if no request is outstanding.
    pub async fn next(&mut self) -> Option<(T, Result<SmpReply, SmpError>)> {
        loop {
            if let TaggedEvent::Result(tag, result) = self.next_event().await? {
                return Some((tag, result));
            }
        }
    }

    /// Waits for the next result or stall; `None` if no request is outstanding. Cancel safe.
    pub async fn next_event(&mut self) -> Option<TaggedEvent<T>> {
        loop {
            match self.batch.next_event().await? {
                BatchEvent::Result(slot, result) => {
                    if let Some(tag) = self.free(slot as usize) {
                        return Some(TaggedEvent::Result(tag, result));
                    }
                }
                BatchEvent::Stalled(slot) => {
                    if let Some(slot) = self.slots.get_mut(slot as usize)
                        && let Some(tag) = slot.tag
                    {
                        self.stalled += usize::from(!std::mem::replace(&mut slot.is_stalled, true));
                        return Some(TaggedEvent::Stalled(tag));
                    }
                }
            }
        }
    }

    /// Frees a slot and returns its tag.
    fn free(&mut self, index: usize) -> Option<T> {
        let slot = self.slots.get_mut(index)?;
        let tag = slot.tag.take()?;
        self.stalled -= usize::from(std::mem::take(&mut slot.is_stalled));
        self.free.push(index);
        Some(tag)
    }
}

fn is_selected<T>(slots: &[TaggedSlot<T>], slot: u64, is_cancelled: impl Fn(&T) -> bool) -> bool {
    slots.get(slot as usize).and_then(|slot| slot.tag.as_ref()).is_some_and(is_cancelled)
}
