//! The result of applying a plan.

use super::control::Stop;
use super::failures::PassFailures;
use super::phases::{PHASES, Phase};
use super::sender::CutSets;
use crate::apply::delta::SetRequest;
use crate::apply::set_failures::is_essential;
use crate::apply::set_id::SetId;
use crate::apply::transition::CommittedRoutes;
use crate::apply::transition::progress::Unapplied;
use crate::fabric::{Fabric, PortId};
use crate::ids::Guid;
use crate::plan::Plan;
use crate::transport::transactions::SmpError;
use crate::wire::attr::AttrId;
use std::time::Duration;

/// The result of applying a plan.
#[derive(Clone, Debug, Default)]
pub struct ApplyReport {
    /// Number of Sets sent and duration, by phase.
    pub sent: [(usize, Duration); PHASES.len()],
    /// Nodes of which nothing was known when programming began: new ones, and those that had lost
    /// their tables.
    pub unknown: Vec<Guid>,
    pub lfts: LftProgress,
    pub unacknowledged: UnacknowledgedSets,
    pub links_down: LinksDown,
    /// The statistics of the ordered transition; `None` if the tables were not ordered.
    pub transition: Option<TransitionReport>,
    /// The committed routes of the ordered transition.
    pub committed_routes: CommittedRoutes,
    /// Why programming ended before all Sets were sent; `None` if it did not.
    pub stop: Option<Stop>,
}

/// The linear forwarding table blocks sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct LftProgress {
    pub blocks: usize,
    /// Time from the start to the last acknowledged block.
    pub done: Option<Duration>,
}

/// The Sets whose planned data the devices did not acknowledge.
#[derive(Clone, Debug, Default)]
pub struct UnacknowledgedSets {
    /// Failed Sets, with the reason: not answered, or refused and essential (see
    /// [`crate::apply::set_failures`]).
    pub failed: Vec<(SetId, SmpError)>,
    /// Refused Sets without which the subnet is up all the same.
    pub tolerated: Vec<(SetId, SmpError)>,
    /// Rejected GUIDInfo blocks. They affect only the clients that requested them.
    pub without_aliases: Vec<(SetId, SmpError)>,
    /// Sets that were not sent, because the device did not acknowledge others.
    pub unsent: Vec<SetId>,
    /// Sets that were not sent, because the device refused them or acknowledged none before and the
    /// delay before the next attempt has not passed.
    pub delayed: Vec<SetId>,
    /// Number of those in [`Self::delayed`] without which the subnet is not up.
    pub delayed_essential: usize,
    /// Sets that were sent and have no answer, because programming ended early.
    pub abandoned: Vec<SetId>,
    /// Sets that were not sent, because programming ended early, except for those of an ordered
    /// transition that still waited for others.
    pub dropped: Vec<SetId>,
}

/// The links that programming took down.
#[derive(Clone, Debug, Default)]
pub struct LinksDown {
    /// One end of each link whose MTU or operational VLs change.
    pub reset: Vec<PortId>,
    /// PortInfo that was not sent, because the link was taken down before.
    pub(super) reset_ports: Vec<SetId>,
    /// Ports whose far end is at a node that cannot be reached.
    pub unreachable_peers: Vec<PortId>,
}

/// Statistics of an ordered transition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TransitionReport {
    /// Ordered Sets.
    pub sets: usize,
    /// Sets of intermediate versions.
    pub intermediate: usize,
    /// Sets that waited until ports were ACTIVE.
    pub deferred: usize,
    /// Sets that were sent although a Set before them failed.
    pub forced: usize,
    /// Sets that were not sent because the links they lead to are not ACTIVE.
    pub withheld: usize,
    /// Time to compute the order.
    pub ordering: Duration,
    /// True if changed entries were removed before new ones were written (`strict_transitions`).
    pub is_strict: bool,
    /// Entries that were removed before new ones were written.
    pub removed_entries: usize,
    /// Time for which no Set was sent because packets drained.
    pub drained_for: Duration,
}

impl ApplyReport {
    pub fn sets(&self) -> usize {
        self.sent.iter().map(|(sets, _)| sets).sum()
    }

    /// Records the Sets without a result when programming ended early, and those that were still
    /// `to_send`.
    pub(super) fn cut(&mut self, cut: CutSets, to_send: impl Iterator<Item = SetRequest>) {
        self.unacknowledged.abandoned.extend(cut.abandoned);
        self.unacknowledged
            .dropped
            .extend(cut.dropped.into_iter().chain(to_send.map(|(set, _)| set)));
    }

    /// Number of Sets that left the subnet incomplete in this reconfiguration.
    pub fn failures(&self) -> usize {
        self.unacknowledged.failed.len() + self.unacknowledged.unsent.len()
    }

    /// Separates the refused Sets that the subnet can do without, given the state of its ports.
    pub(super) fn conclude(&mut self, fabric: &Fabric, plan: &Plan, failures: &mut PassFailures) {
        let tolerated = self.unacknowledged.failed.extract_if(.., |(set, error)| {
            matches!(error, SmpError::Status(_)) && !is_essential(fabric, plan, *set)
        });
        self.unacknowledged.tolerated = tolerated.collect();
        self.unacknowledged.unsent = std::mem::take(&mut failures.unsent);
        self.unacknowledged.delayed = std::mem::take(&mut failures.delayed);
        let essential =
            self.unacknowledged.delayed.iter().filter(|set| is_essential(fabric, plan, **set));
        self.unacknowledged.delayed_essential = essential.count();
    }

    /// The Sets whose planned version was not acknowledged. Without the forwarding table blocks
    /// that an ordered transition dropped: their devices hold what they held before.
    pub(super) fn unapplied(&self) -> Unapplied {
        let failed = self
            .unacknowledged
            .failed
            .iter()
            .chain(&self.unacknowledged.tolerated)
            .map(|(set, _)| *set);
        let is_ordered = self.transition.is_some();
        let dropped = self
            .unacknowledged
            .dropped
            .iter()
            .filter(|set| !(is_ordered && set.attr_id == AttrId::LINEAR_FT));
        let unsent = self
            .unacknowledged
            .unsent
            .iter()
            .chain(&self.unacknowledged.delayed)
            .chain(&self.unacknowledged.abandoned)
            .chain(&self.links_down.reset_ports)
            .chain(dropped);
        Unapplied { failed: failed.chain(unsent.copied()).collect(), withheld_blocks: Vec::new() }
    }

    /// The Sets that may be in effect or not, because they have no answer.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = SetId> + '_ {
        let failed = self
            .unacknowledged
            .failed
            .iter()
            .filter(|(_, error)| !matches!(error, SmpError::Status(_)));
        failed.map(|(set, _)| *set).chain(self.unacknowledged.abandoned.iter().copied())
    }

    /// The Sets that were not sent although they differ.
    pub(super) fn not_sent(&self) -> impl Iterator<Item = SetId> + '_ {
        self.unacknowledged
            .unsent
            .iter()
            .chain(&self.unacknowledged.delayed)
            .chain(&self.unacknowledged.dropped)
            .copied()
    }

    /// Number of Sets of SwitchInfo and tables.
    pub fn table_sets(&self) -> usize {
        [Phase::Tables, Phase::Moves].into_iter().map(|phase| self.sent[phase as usize].0).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::NodeId;
    use crate::ids::PortNum;

    #[test]
    fn blocks_that_were_not_sent_stay_known_in_an_ordered_transition() {
        let block = set(AttrId::LINEAR_FT);
        let mapping = set(AttrId::SL_TO_VL);
        let mut report = ApplyReport::default();
        let cut = CutSets { abandoned: vec![], dropped: vec![block, mapping] };
        report.cut(cut, std::iter::empty());
        assert_eq!(report.unapplied().failed, [block, mapping]);
        report.transition = Some(TransitionReport::default());
        assert_eq!(report.unapplied().failed, [mapping]);
        assert_eq!(report.unanswered().count(), 0);
        // One that was sent may be in effect.
        let cut = CutSets { abandoned: vec![block], dropped: vec![] };
        report.cut(cut, std::iter::empty());
        assert_eq!(report.unapplied().failed, [block, mapping]);
        assert_eq!(report.unanswered().collect::<Vec<_>>(), [block]);
    }

    fn set(attr_id: u16) -> SetId {
        SetId { node: NodeId(3), port: PortNum::ZERO, attr_id, attr_mod: 1 }
    }
}
