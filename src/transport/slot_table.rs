//! The slots of the requests in flight, from which their transaction IDs are derived.

use super::in_flight::InFlight;
use tokio::time::Instant;

/// A position in the window.
struct Slot {
    /// Incremented for each request; never 0 in a transaction ID.
    generation: u16,
    request: Option<InFlight>,
}

/// The requests in flight.
#[derive(Default)]
pub(super) struct SlotTable {
    slots: Vec<Slot>,
    free: Vec<u16>,
    /// Requests that count towards the window.
    in_window: usize,
    stalled: usize,
}

impl SlotTable {
    /// Number of requests that count towards the window: all but the stalled ones.
    pub(super) fn in_window(&self) -> usize {
        self.in_window
    }

    pub(super) fn is_empty(&self) -> bool {
        self.in_window + self.stalled == 0
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &InFlight> {
        self.slots.iter().filter_map(|slot| slot.request.as_ref())
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut InFlight> {
        self.slots.iter_mut().filter_map(|slot| slot.request.as_mut())
    }

    /// Puts a request into a free slot, and returns its transaction ID.
    pub(super) fn insert(&mut self, request: InFlight) -> u32 {
        debug_assert!(!request.is_stalled, "a request stalls after it was sent");
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, request: None });
            // At most MAX_WINDOW slots are in use.
            (self.slots.len() - 1) as u16
        });
        let slot = &mut self.slots[usize::from(at)];
        debug_assert!(slot.request.is_none(), "a free slot has no request");
        // Generation 0 is not used, so that no transaction has the ID 0.
        slot.generation = slot.generation.checked_add(1).unwrap_or(1);
        slot.request = Some(request);
        self.in_window += 1;
        u32::from(slot.generation) << 16 | u32::from(at)
    }

    pub(super) fn get(&self, tid: u32) -> Option<&InFlight> {
        let slot = self.slots.get(usize::from(tid as u16))?;
        slot.request.as_ref().filter(|_| u32::from(slot.generation) == tid >> 16)
    }

    pub(super) fn get_mut(&mut self, tid: u32) -> Option<&mut InFlight> {
        let slot = self.slots.get_mut(usize::from(tid as u16))?;
        slot.request.as_mut().filter(|_| u32::from(slot.generation) == tid >> 16)
    }

    /// Takes a request, whose slot gets free.
    pub(super) fn take(&mut self, tid: u32) -> Option<InFlight> {
        self.get(tid)?;
        let at = usize::from(tid as u16);
        let request = self.slots[at].request.take()?;
        self.release(at, &request);
        Some(request)
    }

    /// Takes the selected requests, in the order of their slots.
    pub(super) fn take_all(&mut self, is_selected: impl Fn(&InFlight) -> bool) -> Vec<InFlight> {
        let mut taken = Vec::new();
        for at in 0..self.slots.len() {
            let request = self.slots[at].request.take_if(|request| is_selected(request));
            if let Some(request) = request {
                self.release(at, &request);
                taken.push(request);
            }
        }
        taken
    }

    /// Marks the requests of open batches that stall now, up to `max` in all, and returns them.
    /// `latest_answered`: when the latest of the answered requests was sent.
    pub(super) fn mark_stalled(
        &mut self,
        now: Instant,
        latest_answered: Option<Instant>,
        max: usize,
    ) -> Vec<&InFlight> {
        let mut marked = Vec::new();
        for request in self.slots.iter_mut().filter_map(|slot| slot.request.as_mut()) {
            if self.stalled >= max {
                break;
            }
            if request.batch.is_some() && request.stalls(now, latest_answered) {
                request.is_stalled = true;
                self.stalled += 1;
                self.in_window -= 1;
                marked.push(&*request);
            }
        }
        marked
    }

    fn release(&mut self, at: usize, request: &InFlight) {
        if request.is_stalled {
            self.stalled -= 1;
        } else {
            debug_assert!(self.in_window > 0, "each request in the window is counted");
            self.in_window -= 1;
        }
        self.free.push(at as u16);
    }
}
