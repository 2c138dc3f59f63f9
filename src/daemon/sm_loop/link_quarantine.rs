//! The links that the manager treats as down; `quarantine` maintains them.

use crate::fabric::End;
use crate::fabric::quarantined::QuarantinedLink;
use crate::observe::link_health::LinkHealth;
use tokio::time::Instant;

/// The health of all links, and the links that are quarantined because of it.
#[derive(Default)]
pub(super) struct LinkQuarantine {
    pub(super) health: LinkHealth,
    /// The links that the last snapshot does not have because of their quarantine.
    pub(super) removed: Vec<QuarantinedLink>,
}

impl LinkQuarantine {
    /// Time at which a quarantine ends unless its link changes before.
    pub(super) fn next_release(&self) -> Option<Instant> {
        self.health.next_release()
    }

    /// True for an end of a link that the last snapshot does not have.
    pub(super) fn is_removed(&self, end: End) -> bool {
        self.removed.iter().any(|link| link.ends.contains(&end))
    }
}
