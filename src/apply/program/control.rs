//! When programming ends early.
//!
//! Programming a fabric takes milliseconds to seconds. If a link changes meanwhile, the plan is out
//! of date, and the rest of it would delay the next one. If only silent devices are left to wait
//! for, a link is probably lost whose trap was lost too, and a focused sweep finds it sooner than
//! timeouts do.

use crate::fabric::NodeId;
use std::future::Future;
use std::pin::Pin;

/// Reason why programming ended early.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// An event that makes the plan out of date.
    Event,
    /// Only these nodes are left to wait for, and they do not answer.
    Silence(Vec<NodeId>),
}

/// Decides when programming ends early.
pub struct ApplyControl<'a> {
    event: Option<Pin<Box<dyn Future<Output = ()> + Send + 'a>>>,
    /// Wait for silent devices until their requests time out.
    is_patient: bool,
    stop: Option<Stop>,
}

impl<'a> ApplyControl<'a> {
    /// Programs until all Sets are acknowledged or have timed out.
    pub fn to_the_end() -> Self {
        Self { event: None, is_patient: true, stop: None }
    }

    /// Ends when `event` completes and, unless `is_patient`, when only silent devices are left.
    pub fn until(event: impl Future<Output = ()> + Send + 'a, is_patient: bool) -> Self {
        Self { event: Some(Box::pin(event)), is_patient, stop: None }
    }

    /// Why programming ends early; `None` if it does not.
    pub fn stop(&self) -> Option<&Stop> {
        self.stop.as_ref()
    }

    pub(super) fn is_patient(&self) -> bool {
        self.is_patient
    }

    /// Ends programming because only `silent` nodes are left to wait for.
    pub(super) fn stop_for_silence(&mut self, silent: Vec<NodeId>) {
        self.stop.get_or_insert(Stop::Silence(silent));
    }

    /// Waits for `work`. Returns `None` if the event completed first, which ends programming.
    pub(super) async fn unless_stopped<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let Some(event) = self.event.as_mut().filter(|_| self.stop.is_none()) else {
            return Some(work.await);
        };
        tokio::select! {
            biased;
            () = event => {
                self.stop = Some(Stop::Event);
                None
            }
            output = work => Some(output),
        }
    }
}
