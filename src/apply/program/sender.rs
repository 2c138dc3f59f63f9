//! Sends Sets so that a silent device delays none to other devices.
//!
//! A Set that stalls is sent once more, since the MAD may be lost by chance. Further Sets to the
//! device are held until it answers, and fail with it if it does not.

use super::control::ApplyControl;
use super::failures::Sent;
use crate::apply::set_id::SetId;
use crate::fabric::NodeId;
use crate::transport::client::SmpClient;
use crate::transport::tagged::{Tagged, TaggedEvent};
use crate::transport::transactions::{SmpError, SmpReply, SmpRequest};
use std::collections::{BTreeMap, HashSet, VecDeque};
use tokio::time::Instant;

/// Maximum number of Sets queued in the client, enough to keep its window of outstanding MADs full.
const MAX_OUTSTANDING_SETS: usize = 4096;

/// Sets that are queued at first. Each result makes room for one more, up to [`MAX_OUTSTANDING_SETS`]: to queue
/// them all takes milliseconds, in which a machine with few cores sends nothing.
const QUEUED_AT_FIRST: usize = 512;

/// Secondary Sets are queued only while fewer Sets than this number of windows of the client wait for
/// a response, because a Set that moves a path waits behind those that are queued when it becomes due.
const MAX_WINDOWS_QUEUED: usize = 2;

/// The result of a Set.
pub(super) type SetResult = Result<SmpReply, SmpError>;

/// Identifies a Set among those in flight.
type Step = (SetId, Option<u32>);

type Held = (Sent, SmpRequest);

/// The Sets of one phase that were submitted and have no result.
pub(super) struct SetSender<'c, 'a> {
    batch: Tagged<Held>,
    /// Maximum number of Sets queued now.
    room: usize,
    control: &'c mut ApplyControl<'a>,
    /// Sets to silent devices.
    held: BTreeMap<NodeId, Vec<Held>>,
    /// Sets in flight twice, because the first request stalled.
    doubled: HashSet<Step>,
    /// Results of held Sets.
    results: VecDeque<(Sent, SetResult)>,
    cut: CutSets,
    client: SmpClient,
}

/// The Sets that programming had no result of when it ended early.
#[derive(Default)]
pub(super) struct CutSets {
    /// Sent: the devices may have received them or not.
    pub abandoned: Vec<SetId>,
    /// Never sent.
    pub dropped: Vec<SetId>,
}

impl<'c, 'a> SetSender<'c, 'a> {
    pub(super) fn new(client: &SmpClient, control: &'c mut ApplyControl<'a>) -> Self {
        Self {
            batch: Tagged::new(client),
            room: QUEUED_AT_FIRST,
            client: client.clone(),
            control,
            held: BTreeMap::new(),
            doubled: HashSet::new(),
            results: VecDeque::new(),
            cut: CutSets::default(),
        }
    }

    /// True if another Set may be submitted.
    pub(super) fn has_room(&self) -> bool {
        !self.is_stopped() && self.batch.outstanding() < self.room
    }

    /// True if another Set may be submitted that neither moves nor restores a path.
    pub(super) fn has_room_for_secondary(&self) -> bool {
        self.has_room() && self.batch.waiting() < MAX_WINDOWS_QUEUED * self.client.window()
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.control.stop().is_some()
    }

    pub(super) fn submit(&mut self, sent: Sent, request: SmpRequest) {
        debug_assert!(self.has_room(), "more Sets are queued than the window needs");
        match self.held.get_mut(&sent.set.node) {
            Some(held) => held.push((sent, request)),
            None => self.batch.submit((sent, request), request),
        }
    }

    /// Waits until `end`, unless programming ends early.
    pub(super) async fn wait_until(&mut self, end: Instant) {
        self.control.unless_stopped(tokio::time::sleep_until(end)).await;
    }

    /// Cancels the Sets to a device.
    pub(super) fn cancel(&mut self, node: NodeId) -> Vec<Sent> {
        let mut cancelled = self.batch.cancel(|(sent, _)| sent.set.node == node);
        cancelled.extend(self.held.remove(&node).into_iter().flatten());
        let mut sets: Vec<Sent> = cancelled.into_iter().map(|(sent, _)| sent).collect();
        self.results.retain(|(sent, _)| {
            if sent.set.node == node {
                sets.push(*sent);
            }
            sent.set.node != node
        });
        sets
    }

    /// Waits for the next result. `None` if there is none to wait for, or if programming ended
    /// early. The caller must have submitted all Sets that do not depend on results.
    pub(super) async fn next(&mut self) -> Option<(Sent, SetResult)> {
        loop {
            if let Some(result) = self.results.pop_front() {
                return Some(result);
            }
            let is_waiting = self.batch.is_waiting();
            if !is_waiting && !self.control.is_patient() && !self.held.is_empty() {
                self.control.stop_for_silence(self.held.keys().copied().collect());
            }
            if self.is_stopped() {
                self.abandon_queued();
                if !is_waiting {
                    self.abandon_sent();
                    return None;
                }
            }
            let event = self.control.unless_stopped(self.batch.next_event()).await;
            match event {
                None => {}
                Some(None) => return None,
                Some(Some(TaggedEvent::Stalled((sent, request)))) => self.stalled(sent, request),
                Some(Some(TaggedEvent::Result((sent, _), result))) => {
                    self.room = MAX_OUTSTANDING_SETS.min(self.room + 1);
                    if self.doubled.remove(&step(&sent)) {
                        if is_silence(&result) {
                            continue;
                        }
                        self.batch.cancel(|(other, _)| step(other) == step(&sent));
                    }
                    self.release(sent.set.node, &result);
                    return Some((sent, result));
                }
            }
        }
    }

    /// The Sets without a result when programming ended early.
    pub(super) fn into_cut(self) -> CutSets {
        self.cut
    }

    fn stalled(&mut self, sent: Sent, request: SmpRequest) {
        let node = sent.set.node;
        let queued = self.batch.cancel_queued(|(other, _)| other.set.node == node);
        self.held.entry(node).or_default().extend(queued);
        if self.doubled.insert(step(&sent)) {
            self.batch.submit((sent, request), request);
        }
    }

    /// Sends or fails the Sets held for a device, after a result from it.
    fn release(&mut self, node: NodeId, result: &SetResult) {
        let Some(held) = self.held.remove(&node) else { return };
        for (sent, request) in held {
            match result {
                Err(error) if is_silence(result) => {
                    self.results.push_back((sent, Err(error.clone())));
                }
                _ => self.batch.submit((sent, request), request),
            }
        }
    }

    fn abandon_queued(&mut self) {
        let queued = self.batch.cancel_queued(|_| true);
        let held = std::mem::take(&mut self.held).into_values().flatten();
        for (sent, _) in queued.into_iter().chain(held) {
            // The first request of a Set in flight twice was sent.
            if self.doubled.contains(&step(&sent)) {
                self.cut.abandoned.push(sent.set);
            } else {
                self.cut.dropped.push(sent.set);
            }
        }
    }

    fn abandon_sent(&mut self) {
        let cancelled = self.batch.cancel(|_| true).into_iter();
        self.cut.abandoned.extend(cancelled.map(|(sent, _)| sent.set));
    }
}

fn step(sent: &Sent) -> Step {
    (sent.set, sent.step)
}

/// True if a device did not answer.
fn is_silence(result: &SetResult) -> bool {
    matches!(result, Err(SmpError::Unanswered | SmpError::Send(_)))
}
