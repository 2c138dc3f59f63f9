//! Facts that depend on a snapshot of the fabric alone; they are derived once for each.

use super::source::{FactSource, FactView};
use crate::fabric::Fabric;
use crate::incidents::fact::{CableEnd, DuplicateGuid, Facts, KnownNode};
use crate::incidents::next_failure;
use crate::incidents::survey::{self, DegradedLinks};
use std::cell::OnceCell;
use std::sync::Arc;

#[derive(Default)]
pub struct SnapshotSource {
    last: Option<(Arc<Fabric>, SnapshotFacts)>,
}

struct SnapshotFacts {
    silent: Vec<KnownNode>,
    unanswered: Vec<CableEnd>,
    duplicates: Vec<DuplicateGuid>,
    degraded: DegradedLinks,
    /// The worst further failure, computed when something is lost.
    next_failure: OnceCell<Option<String>>,
}

impl SnapshotFacts {
    fn of(fabric: &Fabric, degraded: DegradedLinks) -> Self {
        Self {
            silent: survey::silent_nodes(fabric),
            unanswered: survey::unanswered(fabric),
            duplicates: survey::duplicates(fabric),
            degraded,
            next_failure: OnceCell::new(),
        }
    }
}

impl FactSource for SnapshotSource {
    fn add_facts(&mut self, view: &FactView<'_>, facts: &mut Facts) {
        let Some(fabric) = view.watched.map(|watched| watched.fabric) else { return };
        let of_snapshot = self.of(fabric);
        facts.losses.silent_nodes.extend_from_slice(&of_snapshot.silent);
        facts.losses.unanswered.extend_from_slice(&of_snapshot.unanswered);
        facts.duplicates.extend_from_slice(&of_snapshot.duplicates);
        facts.cables.faulty.extend(of_snapshot.degraded.values().cloned());
        if !facts.losses.nodes.is_empty() || !facts.losses.cables.is_empty() {
            let worst = of_snapshot.next_failure.get_or_init(|| next_failure::worst(fabric));
            facts.losses.next_failure.clone_from(worst);
        }
    }

    fn reset(&mut self) {
        self.last = None;
    }
}

impl SnapshotSource {
    fn of(&mut self, fabric: &Arc<Fabric>) -> &SnapshotFacts {
        let facts = match self.last.take() {
            Some((of, facts)) if Arc::ptr_eq(&of, fabric) => facts,
            Some((of, facts)) => {
                let degraded = survey::update_degraded(&facts.degraded, &of, fabric);
                let has_same_cables =
                    of.local() == fabric.local() && survey::has_same_cables(&of, fabric);
                let next_failure =
                    if has_same_cables { facts.next_failure } else { OnceCell::new() };
                SnapshotFacts { next_failure, ..SnapshotFacts::of(fabric, degraded) }
            }
            None => SnapshotFacts::of(fabric, survey::degraded_links(fabric)),
        };
        &self.last.insert((fabric.clone(), facts)).1
    }
}
