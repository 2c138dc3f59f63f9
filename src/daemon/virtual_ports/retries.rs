//! When ports and vports that refused something are tried again.

use crate::config::options::Options;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Time until they are tried again.
const PAUSE: Duration = Duration::from_secs(300);

/// The next attempt.
pub(super) struct Retries {
    next: Instant,
    /// The options of the last subnet. Those of a reload are others.
    options: Option<Arc<Options>>,
}

impl Retries {
    pub(super) fn new() -> Self {
        Self { next: Instant::now() + PAUSE, options: None }
    }

    /// True after [`PAUSE`], and if the options were read again since the last call.
    pub(super) fn are_due(&mut self, options: &Arc<Options>) -> bool {
        let before = self.options.replace(options.clone());
        let is_reloaded = before.is_some_and(|before| !Arc::ptr_eq(&before, options));
        let now = Instant::now();
        let are_due = is_reloaded || now >= self.next;
        if are_due {
            self.next = now + PAUSE;
        }
        are_due
    }
}
