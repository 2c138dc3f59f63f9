//! A 4-ary heap of keys whose order of extraction among equal keys is that of OpenSM's, because it
//! decides between paths of the same length.
//!
//! Of equal children the last one is moved up, and an element never passes one with its own key.

/// Children of an element.
const ARITY: usize = 4;

/// The place of an element that is not in the heap.
const ABSENT: u32 = u32::MAX;

/// Elements 0 to n - 1, each with a key, of which the smallest is extracted first.
#[derive(Default)]
pub(in crate::plan::routing) struct Heap {
    entries: Vec<(u64, u32)>,
    /// By element: its place among the entries.
    places: Vec<u32>,
}

impl Heap {
    /// Fills the heap with `count` elements, in their order, with the key [`u64::MAX`].
    pub(in crate::plan::routing) fn fill(&mut self, count: u32) {
        self.entries.clear();
        self.entries.extend((0..count).map(|element| (u64::MAX, element)));
        self.places.clear();
        self.places.extend(0..count);
    }

    /// Empties the heap, for elements below `count`.
    pub(in crate::plan::routing) fn clear(&mut self, count: usize) {
        self.entries.clear();
        // Much faster than to resize an empty vector.
        self.places.resize(count, ABSENT);
        self.places.fill(ABSENT);
    }

    /// Adds an element that is not in the heap.
    pub(in crate::plan::routing) fn insert(&mut self, element: u32, key: u64) {
        self.entries.push((key, element));
        self.rise(self.entries.len() - 1, (key, element));
    }

    /// Removes an element, if it is in the heap.
    pub(in crate::plan::routing) fn remove(&mut self, element: u32) {
        let place = std::mem::replace(&mut self.places[element as usize], ABSENT) as usize;
        if place == ABSENT as usize {
            return;
        }
        let Some(last) = self.entries.pop() else { return };
        if place == self.entries.len() {
            return;
        }
        if place > 0 && self.entries[(place - 1) / ARITY].0 > last.0 {
            self.rise(place, last);
        } else {
            self.sink(place, last);
        }
    }

    /// Lowers the key of an element that is in the heap.
    pub(in crate::plan::routing) fn lower(&mut self, element: u32, key: u64) {
        self.rise(self.places[element as usize] as usize, (key, element));
    }

    /// Puts an entry into a place or above it.
    fn rise(&mut self, mut place: usize, entry: (u64, u32)) {
        while place > 0 {
            let parent = (place - 1) / ARITY;
            if entry.0 >= self.entries[parent].0 {
                break;
            }
            self.put(place, self.entries[parent]);
            place = parent;
        }
        self.put(place, entry);
    }

    /// Removes an element with the smallest key, and returns the key and the element.
    pub(in crate::plan::routing) fn extract(&mut self) -> Option<(u64, u32)> {
        let last = self.entries.pop()?;
        let Some(&smallest) = self.entries.first() else {
            self.places[last.1 as usize] = ABSENT;
            return Some(last);
        };
        self.places[smallest.1 as usize] = ABSENT;
        self.sink(0, last);
        Some(smallest)
    }

    /// Removes all elements with their keys, in no order that matters.
    pub(in crate::plan::routing) fn drain(&mut self) -> impl Iterator<Item = (u64, u32)> {
        for &(_, element) in &self.entries {
            self.places[element as usize] = ABSENT;
        }
        self.entries.drain(..)
    }

    /// Puts an entry into a place or below it: first at the bottom, where most come from, and then up
    /// again, because the end of the other way could not be predicted.
    fn sink(&mut self, top: usize, entry: (u64, u32)) {
        let mut place = top;
        while let Some(child) = self.smallest_child(place) {
            self.put(place, self.entries[child]);
            place = child;
        }
        while place > top {
            let parent = (place - 1) / ARITY;
            if self.entries[parent].0 < entry.0 {
                break;
            }
            self.put(place, self.entries[parent]);
            place = parent;
        }
        self.put(place, entry);
    }

    /// The last of the children with the smallest key.
    fn smallest_child(&self, place: usize) -> Option<usize> {
        let first = place * ARITY + 1;
        let all = self.entries.get(first..).and_then(|entries| entries.first_chunk::<ARITY>());
        if let Some(&[a, b, c, d]) = all {
            // Without branches, which could not be predicted.
            let left = if b.0 <= a.0 { (b.0, 1) } else { (a.0, 0) };
            let right = if d.0 <= c.0 { (d.0, 3) } else { (c.0, 2) };
            return Some(first + if right.0 <= left.0 { right.1 } else { left.1 });
        }
        let children = first..(first + ARITY).min(self.entries.len());
        children.rev().min_by_key(|&child| self.entries[child].0)
    }

    fn put(&mut self, place: usize, entry: (u64, u32)) {
        self.entries[place] = entry;
        self.places[entry.1 as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A heap whose first element has children with these keys.
    fn children(keys: &[u64]) -> Heap {
        let mut heap = Heap::default();
        heap.clear(keys.len() + 1);
        heap.entries.push((0, 0));
        heap.entries.extend(keys.iter().zip(1..).map(|(&key, element)| (key, element)));
        heap
    }

    proptest! {
        #[test]
        fn the_last_of_the_smallest_children_moves_up(
            keys in prop::collection::vec(0u64..3, 0..=ARITY),
        ) {
            let least = keys.iter().min();
            let last = keys.iter().rposition(|key| Some(key) == least);
            prop_assert_eq!(children(&keys).smallest_child(0), last.map(|place| place + 1));
        }

        #[test]
        fn an_entry_sinks_above_the_first_child_that_is_not_smaller(
            keys in prop::collection::vec(0u64..12, 1..60),
            key in 0u64..12,
        ) {
            let mut heap = Heap::default();
            heap.clear(keys.len() + 1);
            keys.iter().zip(0..).for_each(|(&key, element)| heap.insert(element, key));
            let entry = (key, keys.len() as u32);
            let mut place = 0;
            let mut expected = heap.entries.clone();
            while let Some(child) = heap.smallest_child(place) {
                if heap.entries[child].0 >= key {
                    break;
                }
                expected[place] = heap.entries[child];
                place = child;
            }
            expected[place] = entry;
            heap.sink(0, entry);
            prop_assert_eq!(heap.entries, expected);
        }

        #[test]
        fn elements_are_extracted_by_key(
            keys in prop::collection::vec((0u32..40, 0u64..20, 0u8..4), 0..200),
        ) {
            let mut heap = Heap::default();
            heap.clear(40);
            let mut known = [None; 40];
            for (element, key, action) in keys {
                let slot: &mut Option<u64> = &mut known[element as usize];
                match (*slot, action) {
                    (Some(_), 0) => {
                        heap.remove(element);
                        *slot = None;
                    }
                    (Some(before), _) if key < before => {
                        heap.lower(element, key);
                        *slot = Some(key);
                    }
                    (Some(_), _) => {}
                    (None, _) => {
                        heap.insert(element, key);
                        *slot = Some(key);
                    }
                }
            }
            let mut found = Vec::new();
            while let Some((key, element)) = heap.extract() {
                prop_assert_eq!(known[element as usize], Some(key));
                found.push(key);
            }
            let mut expected: Vec<u64> = known.into_iter().flatten().collect();
            expected.sort_unstable();
            prop_assert_eq!(found, expected);
        }
    }
}
