//! The incidents of this instance: shown to readers, reported, stored, and given to a standby.

use super::IncidentConnections;
use super::report;
use crate::incidents::book::{Book, IncidentList};
use crate::incidents::fact::Facts;
use crate::incidents::losses::Register;
use crate::incidents::store;
use crate::notes::counted;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tracing::{info, warn};

/// Time after a restart or takeover for which incidents stay whose evidence takes time: a bit more than
/// two readings of the counters are apart by default.
const HOLD_TIME: Duration = Duration::from_secs(240);

#[derive(Default)]
pub struct Journal {
    pub book: Book,
    /// The incidents of an SM that is not master.
    waiting: Book,
    /// The time at which held incidents are released.
    held_until: Option<Instant>,
    /// The register and the text that were stored last.
    stored: Option<(Register, String)>,
}

impl Journal {
    /// Uses stored incidents, and returns the losses among them. `origin` is where they come from, in
    /// words.
    pub fn restore(&mut self, text: String, origin: &str) -> Option<Register> {
        if text.is_empty() {
            return None;
        }
        match store::parse(&text) {
            Ok((book, losses)) => {
                let open = book.list().open.len();
                if open > 0 {
                    info!("{origin} has left {}", counted(open, "open incident", "open incidents"));
                }
                self.book = book;
                self.book.hold();
                self.held_until = None;
                self.stored = Some((losses.clone(), text));
                Some(losses)
            }
            Err(problem) => {
                warn!(
                    "the incidents of {origin} cannot be read, they are detected again: {problem}"
                );
                None
            }
        }
    }

    /// Enters the facts of an SM that is not master. `now`: milliseconds since 1970.
    pub fn wait(&mut self, facts: &Facts, now: u64, connections: &IncidentConnections) {
        let changes = self.waiting.observe(facts, now);
        changes
            .iter()
            .for_each(|change| report::report(change, &connections.events, &connections.recorder));
        show(self.waiting.list(), connections);
    }

    /// Ends the incidents of an SM that has become master.
    pub fn end_waiting(&mut self, now: u64, connections: &IncidentConnections) {
        let ended = self.waiting.observe(&Facts::default(), now);
        ended
            .iter()
            .for_each(|change| report::report(change, &connections.events, &connections.recorder));
    }

    /// Releases the incidents of an earlier run when it is time.
    pub fn release(&mut self, instant: Instant) {
        if instant >= *self.held_until.get_or_insert(instant + HOLD_TIME) {
            self.book.release();
        }
    }

    /// Enters the facts of a master. `now`: milliseconds since 1970.
    pub fn enter(&mut self, facts: &Facts, now: u64, connections: &IncidentConnections) -> bool {
        let changes = self.book.observe(facts, now);
        changes
            .iter()
            .for_each(|change| report::report(change, &connections.events, &connections.recorder));
        show(self.book.list(), connections);
        !changes.is_empty()
    }

    /// Stores the incidents, and gives them to a standby, if they or the losses are others than before.
    pub fn keep(&mut self, losses: &Register, is_changed: bool, connections: &IncidentConnections) {
        if !is_changed && self.stored.as_ref().is_some_and(|(stored, _)| stored == losses) {
            return;
        }
        let text = store::emit(&self.book, losses);
        if let Some((stored, before)) = &mut self.stored
            && *before == text
        {
            stored.clone_from(losses);
            return;
        }
        if let Err(problem) = connections.files.write_incidents(&text) {
            warn!("{problem}; incidents do not survive a restart");
        }
        connections.shared.provide(&text);
        self.stored = Some((losses.clone(), text));
    }
}

/// Shows these incidents to readers.
fn show(list: IncidentList, connections: &IncidentConnections) {
    connections.incidents.send_if_modified(|shown| {
        let is_new = **shown != list;
        *shown = Arc::new(list);
        is_new
    });
}
