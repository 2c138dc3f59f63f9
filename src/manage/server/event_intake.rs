//! Takes the daemon's events, adds those that follow from the observed fabric, and numbers them.

use super::ServerState;
use crate::fabric::Fabric;
use crate::manage::event::Event;
use crate::manage::fabric_changes::changes;
use crate::manage::feed::{EventReceiver, TimedEvent};
use crate::manage::missing::MissingParts;
use chrono::Utc;
use std::sync::Arc;

/// Takes events until the daemon ends.
pub(super) async fn run(mut receiver: EventReceiver, state: &ServerState) {
    let mut known: Option<Arc<Fabric>> = None;
    while let Some(event) = receiver.recv().await {
        push_changes(state, &mut known);
        state.push(&event);
        let lost = receiver.take_lost();
        if lost > 0 {
            push(state, Event::EventsLost { count: lost });
        }
    }
}

fn push(state: &ServerState, event: Event) {
    state.push(&TimedEvent { time: Utc::now(), event });
}

/// Adds the nodes and links that sweeps lost or found since the last call. After the first sweep
/// there are none.
fn push_changes(state: &ServerState, known: &mut Option<Arc<Fabric>>) {
    let Some(fabric) = state.live.status.load().fabric.clone() else { return };
    let last = known.replace(fabric.clone());
    if let Some(last) = last.filter(|last| !Arc::ptr_eq(last, &fabric)) {
        let mut missing = MissingParts::clone(&state.missing.load());
        missing.update(&last, &fabric, Utc::now());
        state.missing.store(Arc::new(missing));
        changes(&last, &fabric).into_iter().for_each(|event| push(state, event));
    }
}
