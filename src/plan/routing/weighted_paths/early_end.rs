//! The end of a search for shortest paths before its last switches are followed.

/// Tells when no switch that is still to be followed can shorten a path.
#[derive(Default)]
pub(in crate::plan::routing) struct EarlyEnd {
    /// No link is shorter than this.
    shortest_link: u64,
    /// The distance from which on no switch shortens a path, once it is known.
    last_useful: u64,
}

impl EarlyEnd {
    /// For links of at least this length.
    pub(in crate::plan::routing) fn new(shortest_link: u64) -> Self {
        Self { shortest_link, last_useful: 0 }
    }

    /// Begins another search.
    pub(in crate::plan::routing) fn begin(&mut self) {
        self.last_useful = 0;
    }

    /// True if no switch at this distance or farther away shortens a path, so that the order of the
    /// others does not matter. `found` of the switches with these distances have a path.
    pub(in crate::plan::routing) fn is_reached(
        &mut self,
        distance: u64,
        distances: &[u64],
        found: usize,
    ) -> bool {
        if found < distances.len() || distance < self.last_useful {
            return false;
        }
        let farthest = distances.iter().copied().max().unwrap_or(0);
        self.last_useful = farthest.saturating_sub(self.shortest_link);
        distance >= self.last_useful
    }
}
