//! LIDs that are reserved for absent ports and vports. They are assigned anew only when no other LIDs
//! are left: virtual machines come with new GUIDs again and again, and leave entries behind.

use crate::config::guid2lid::Guid2Lid;
use crate::fabric::Fabric;
use crate::ids::{Guid, Lid};

/// The reserved ranges of LIDs.
pub(super) struct AbsentRanges(Vec<(Guid, (Lid, Lid))>);

impl AbsentRanges {
    pub(super) fn new(fabric: &Fabric, guid2lid: &Guid2Lid) -> Self {
        let entries = guid2lid.iter().map(|(&guid, &range)| (guid, range));
        let absent = entries.filter(|(guid, _)| fabric.end_port_by_guid(*guid).is_none());
        let mut ranges: Vec<(Guid, (Lid, Lid))> = absent.collect();
        // Ranges are taken from the end: the lowest LIDs first, as among free ones.
        ranges.sort_unstable_by_key(|&(_, range)| std::cmp::Reverse(range));
        Self(ranges)
    }

    /// Takes the first range that begins with `count` LIDs (a power of two), aligned to `count`, up to
    /// `highest`. Returns its GUID and first LID; the rest of the range is free from the next
    /// assignment on.
    pub(super) fn take(&mut self, count: u16, highest: u16) -> Option<(Guid, u16)> {
        let at = self.0.iter().rposition(|&(_, (first, last))| {
            first.0.is_multiple_of(count) && last.0 - first.0 >= count - 1 && last.0 <= highest
        })?;
        let (guid, (first, _)) = self.0.remove(at);
        Some((guid, first.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::synthetic::SyntheticView;
    use crate::plan::tests::ring;

    #[test]
    fn reserved_lids_are_taken_in_order_if_they_fit() {
        let fabric = Fabric::from_topology(&ring(2, &[]), 0, &SyntheticView::default());
        let fabric = fabric.expect("a fabric");
        let present = fabric.port(fabric.local()).guid;
        let ranges =
            [(0x91, 20, 23), (0x92, 8, 8), (0x93, 5, 6), (present.0, 1, 1), (0x94, 60, 60)];
        let guid2lid: Guid2Lid = ranges
            .map(|(guid, first, last)| (Guid(guid), (Lid(first), Lid(last))))
            .into_iter()
            .collect();
        let mut absent = AbsentRanges::new(&fabric, &guid2lid);
        let taken = [2, 1, 1, 1].map(|count| absent.take(count, 50));
        let expected =
            [(0x91, 20), (0x93, 5), (0x92, 8)].map(|(guid, lid)| Some((Guid(guid), lid)));
        assert_eq!((&taken[..3], taken[3]), (&expected[..], None), "LID 60 is above the limit");
    }
}
