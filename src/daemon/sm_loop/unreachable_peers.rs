//! Ports that carry data although the node at the far end does not answer. Their links are taken
//! down, as OpenSM does, so that the node cannot send data into a subnet that does not know it; but
//! not before a second sweep has found them so.

use crate::apply::link_down;
use crate::fabric::quarantined::QuarantinedLink;
use crate::fabric::{End, Fabric, PortId};
use crate::observe::backoff::Backoff;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Time from the first to the last sweep that found the node unreachable.
const MIN_UNREACHABLE: Duration = Duration::from_secs(5);
/// Delay before the link is taken down again, if that did not help; it doubles each time.
const RETRY_DELAY: Duration = Duration::from_secs(60);
/// Maximum delay between two attempts to take the same link down.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(3600);

/// Ports with unreachable peers, and the time since they are.
pub(super) struct UnreachablePeers {
    since: BTreeMap<End, Instant>,
    attempts: Backoff<End>,
}

impl Default for UnreachablePeers {
    fn default() -> Self {
        let attempts = Backoff::new(0, RETRY_DELAY, MAX_RETRY_DELAY);
        Self { since: BTreeMap::new(), attempts }
    }
}

impl UnreachablePeers {
    /// The ports of a new snapshot whose links are to be taken down now. `quarantined` links look
    /// as if their peers were unreachable, and stay as they are.
    pub(super) fn due(
        &mut self,
        fabric: &Fabric,
        quarantined: &[QuarantinedLink],
        now: Instant,
    ) -> Vec<PortId> {
        let mut ports: Vec<PortId> = link_down::unreachable_peers(fabric).collect();
        ports.retain(|&id| {
            let end = fabric.end_of(id);
            !quarantined.iter().any(|link| link.ends.contains(&end))
        });
        let before = std::mem::take(&mut self.since);
        for &id in &ports {
            let end = fabric.end_of(id);
            self.since.insert(end, before.get(&end).copied().unwrap_or(now));
        }
        // The attempts at a port are remembered while it has no peer.
        self.attempts.retain(|&(guid, num)| {
            let slot = fabric.node_by_guid(guid).and_then(|node| fabric.port_of(node, num));
            slot.is_some_and(|slot| fabric.port(slot).peer.is_none())
        });
        ports.retain(|&id| {
            let end = fabric.end_of(id);
            let is_old = now.duration_since(self.since[&end]) >= MIN_UNREACHABLE;
            is_old && !self.attempts.is_delayed(&end, now)
        });
        for &id in &ports {
            self.attempts.failed(fabric.end_of(id), now);
        }
        ports
    }

    /// True if a heavy sweep has to find out whether a port is still so.
    pub(super) fn needs_sweep(&self) -> bool {
        self.since.keys().any(|end| self.attempts.failures(end) == 0)
    }
}
