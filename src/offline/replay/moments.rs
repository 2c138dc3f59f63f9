//! The moments of a recording at which the fabric may have changed.

use crate::record::Recording;
use crate::record::devices::RecordedDevices;
use crate::record::entry::{EntryBody, EventKind};

/// Indices of the entries after which the fabric, the plan in force, the incidents or the role of the SM
/// may be others than after the one before, ascending.
pub(super) fn moments(recording: &Recording) -> Vec<usize> {
    let snapshot = recording.header.devices.as_ref();
    let position = snapshot.map_or(0, |snapshot| snapshot.position);
    let mut devices = RecordedDevices::new(snapshot);
    let mut last = None;
    let mut moments = Vec::new();
    for ((index, entry), number) in recording.entries.iter().enumerate().zip(recording.first..) {
        if number >= position {
            devices.apply(entry);
        }
        let EntryBody::Event(kind, _) = &entry.body else { continue };
        let is_changed = last != Some(devices.revision());
        if changes_more_than_devices(*kind) || ends_a_step(*kind) && is_changed {
            last = Some(devices.revision());
            moments.push(index);
        }
    }
    let end = recording.entries.len().saturating_sub(1);
    if last.is_some_and(|last| last != devices.revision()) && moments.last() != Some(&end) {
        moments.push(end);
    }
    moments
}

fn changes_more_than_devices(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::PlanAccepted
            | EventKind::PlanRejected
            | EventKind::Applied
            | EventKind::Role
            | EventKind::Incident
    )
}

fn ends_a_step(kind: EventKind) -> bool {
    matches!(kind, EventKind::SweepEnded | EventKind::Failed)
}

/// At most `max` of the moments, evenly spread, the last one among them.
pub(super) fn spread(moments: &[usize], max: usize) -> Vec<usize> {
    let count = moments.len().min(max);
    (1..=count).map(|at| moments[at * moments.len() / count - 1]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_moments_are_in_order_and_keep_the_last_one() {
        let moments: Vec<usize> = (0..1000).map(|at| 3 * at).collect();
        assert_eq!(spread(&moments, 2000), moments);
        let some = spread(&moments, 7);
        assert_eq!((some.len(), some.last()), (7, moments.last()));
        assert!(some.is_sorted_by(|a, b| a < b), "{some:?}");
        assert_eq!(spread(&[], 7), [0; 0]);
    }
}
