//! Cycles of dependencies, found by a depth-first search that goes on where a cycle was broken.
//!
//! The order of the search decides which cycles are found, and so the VLs of paths. It is that of
//! OpenSM: the channels before the cycle remain on the path of the search, those on the cycle are
//! forgotten, and a channel remembers from where the search came last even if that path is broken.

use super::dependencies::{Dependencies, NONE};

#[derive(Clone, Copy, PartialEq, Eq)]
enum CycleMark {
    Unknown,
    /// On the path of the search.
    OnPath,
    /// On no cycle.
    Done,
}

/// A search in the dependencies of a VL.
pub(super) struct LaneCycleSearch<'a> {
    dependencies: &'a mut Dependencies,
    marks: Vec<CycleMark>,
    /// By channel: from where the search came.
    previous: Vec<u32>,
    /// By channel: the number of dependencies that are known to lead to no cycle.
    passed: Vec<u32>,
    /// The channels in the order in which the search begins at them, and the place of each.
    order: Vec<u32>,
    places: Vec<u32>,
    /// The place of the first channel that may be unknown.
    next: usize,
}

impl<'a> LaneCycleSearch<'a> {
    pub(super) fn new(dependencies: &'a mut Dependencies) -> Self {
        let channels = dependencies.from.len();
        let order = dependencies.order();
        let mut places = vec![NONE; channels];
        for (place, &channel) in (0..).zip(&order) {
            places[channel as usize] = place;
        }
        Self {
            dependencies,
            marks: vec![CycleMark::Unknown; channels],
            previous: vec![NONE; channels],
            passed: vec![0; channels],
            order,
            places,
            next: 0,
        }
    }

    /// The channel at which the search begins; `None` if there is none.
    pub(super) fn first(&self) -> Option<u32> {
        self.order.first().copied()
    }

    /// Searches on from a channel, and returns the channel at which a cycle closes.
    pub(super) fn find(&mut self, start: u32) -> Option<u32> {
        let mut at = start;
        loop {
            self.marks[at as usize] = CycleMark::OnPath;
            match self.successor(at) {
                Some(next) if self.marks[next as usize] == CycleMark::OnPath => return Some(next),
                Some(next) => {
                    self.previous[next as usize] = at;
                    at = next;
                }
                None => {
                    self.finish(at);
                    at = match std::mem::replace(&mut self.previous[at as usize], NONE) {
                        NONE => self.next_unknown()?,
                        previous => previous,
                    };
                }
            }
        }
    }

    /// The first channel on which one depends that is not done.
    fn successor(&mut self, channel: u32) -> Option<u32> {
        let passed = &mut self.passed[channel as usize];
        let from = &self.dependencies.from[channel as usize];
        while let Some(dependency) = from.get(*passed as usize) {
            if !dependency.is_broken && self.marks[dependency.to as usize] != CycleMark::Done {
                return Some(dependency.to);
            }
            *passed += 1;
        }
        None
    }

    fn finish(&mut self, channel: u32) {
        self.marks[channel as usize] = CycleMark::Done;
        for dependency in &mut self.dependencies.from[channel as usize] {
            dependency.bundles = Vec::new();
        }
    }

    fn next_unknown(&mut self) -> Option<u32> {
        let place = self.order[self.next..]
            .iter()
            .position(|channel| self.marks[*channel as usize] == CycleMark::Unknown)?;
        self.next += place;
        Some(self.order[self.next])
    }

    /// Breaks the cycle that closes at `start` at the dependency with the fewest paths, the first
    /// one of several, and returns the bundles there.
    pub(super) fn break_cycle(&mut self, start: u32) -> Vec<u32> {
        let mut weakest: Option<(u32, u32, usize)> = None;
        let mut at = start;
        loop {
            if at != start {
                self.forget(at);
            }
            let from = &self.dependencies.from[at as usize];
            let Some(place) = from.iter().position(|dependency| {
                !dependency.is_broken && self.marks[dependency.to as usize] == CycleMark::OnPath
            }) else {
                break;
            };
            let paths = from[place].paths();
            if weakest.is_none_or(|(fewest, ..)| paths < fewest) {
                weakest = Some((paths, at, place));
            }
            at = from[place].to;
            if at == start {
                break;
            }
        }
        self.forget(start);
        let Some((_, channel, place)) = weakest else { return Vec::new() };
        let dependency = &mut self.dependencies.from[channel as usize][place];
        dependency.is_broken = true;
        std::mem::take(&mut dependency.bundles)
    }

    fn forget(&mut self, channel: u32) {
        self.marks[channel as usize] = CycleMark::Unknown;
        self.passed[channel as usize] = 0;
        self.next = self.next.min(self.places[channel as usize] as usize);
    }

    /// Removes paths from the dependencies along a path.
    pub(super) fn remove(&mut self, path: &[u32], paths: u32) {
        for pair in path.windows(2) {
            let from = self.dependencies.from[pair[0] as usize].iter_mut();
            let mut same = from.filter(|dependency| dependency.to == pair[1]);
            if let Some(dependency) = same.find(|dependency| !dependency.is_broken) {
                dependency.removed = dependency.removed.wrapping_add(paths);
            }
        }
    }
}
