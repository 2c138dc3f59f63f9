//! The PortInfo to set, by port.

use crate::fabric::PortId;
use crate::ids::PortNum;
use crate::paged_vec::PagedVec;
use crate::wire::attr::PortInfo;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The PortInfo to set by port slot; `None` for ports that are not programmed.
///
/// Most ports of switches have the target of the port with the same number of another switch, and share
/// its memory; copies share all.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct PortTargets {
    by_slot: PagedVec<Option<Arc<PortInfo>>>,
}

impl PortTargets {
    /// No target for any of `len` port slots.
    pub fn none(len: usize) -> Self {
        Self { by_slot: PagedVec::filled(None, len) }
    }

    /// Collects the targets of all port slots, each with the number of the port.
    pub fn collect(targets: impl Iterator<Item = (PortNum, Option<PortInfo>)>) -> Self {
        let mut known = LastTargets::default();
        let shared = targets.map(|(num, target)| target.map(|target| known.share(num, target)));
        Self { by_slot: shared.collect() }
    }

    /// The target of a port; `None` if it is not programmed or does not exist.
    #[inline]
    pub fn of(&self, port: PortId) -> Option<PortInfo> {
        self.by_slot.get(port.index()).and_then(|target| target.as_deref().copied())
    }

    /// Replaces the target of a port, which must exist.
    pub fn replace(&mut self, port: PortId, target: Option<PortInfo>) {
        if self.by_slot[port.index()].as_deref() != target.as_ref() {
            self.by_slot[port.index()] = target.map(Arc::new);
        }
    }

    /// Number of port slots.
    pub fn len(&self) -> usize {
        self.by_slot.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_slot.is_empty()
    }

    /// The ports whose targets differ from those of `other`, which must have the same ports.
    pub fn differences<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = PortId> + 'a {
        self.by_slot.differences(&other.by_slot).map(|index| PortId(index as u32))
    }

    /// Shares the memory of equal targets with `other`.
    pub fn share_pages(&mut self, other: &Self) {
        self.by_slot.share_pages(&other.by_slot);
    }
}

/// The last target of ports that probably have the same one: those with the same number, of devices
/// whose answers came through the same port (LocalPortNum).
#[derive(Default)]
struct LastTargets(FxHashMap<[PortNum; 2], Arc<PortInfo>>);

impl LastTargets {
    fn share(&mut self, num: PortNum, target: PortInfo) -> Arc<PortInfo> {
        let place = [num, target.local_port()];
        let last = self.0.entry(place).or_insert_with(|| Arc::new(target));
        if **last != target {
            *last = Arc::new(target);
        }
        last.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;

    fn target(num: u8, mtu: u8) -> Option<PortInfo> {
        let mut info = PortInfo::default();
        info.set_local_port(PortNum(num));
        info.set_neighbor_mtu(mtu);
        Some(info)
    }

    #[test]
    fn targets_are_kept_by_slot() {
        let all = [None, target(1, 4), target(2, 4), target(1, 4), target(1, 5), target(1, 4)];
        let nums = [0, 1, 2, 1, 1, 1].map(PortNum);
        let mut targets = PortTargets::collect(nums.into_iter().zip(all));
        assert!(slots().map(|port| targets.of(port)).eq(all.into_iter().chain([None])));
        assert_eq!(memory(&targets.by_slot, 1), memory(&targets.by_slot, 3));
        assert_ne!(memory(&targets.by_slot, 1), memory(&targets.by_slot, 2));

        let before = targets.clone();
        targets.replace(PortId(2), target(2, 5));
        targets.replace(PortId(3), target(1, 4));
        assert_eq!(targets.of(PortId(2)), target(2, 5));
        assert!(before.differences(&targets).eq([PortId(2)]));
        targets.replace(PortId(2), target(2, 4));
        assert_eq!((&targets, targets.len(), targets.is_empty()), (&before, 6, false));
    }

    fn memory(by_slot: &PagedVec<Option<Arc<PortInfo>>>, port: usize) -> Option<*const PortInfo> {
        by_slot[port].as_ref().map(Arc::as_ptr)
    }

    fn slots() -> std::iter::Map<Range<u32>, fn(u32) -> PortId> {
        (0..7).map(PortId)
    }
}
