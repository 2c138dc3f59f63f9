//! A copy-on-write vector in pages.
//!
//! Successive snapshots and plans of a large fabric differ in a few entries, and several are in use
//! at a time: by the servers, by the computation of the next plan, by the checks of the last one.

use std::fmt;
use std::iter::{Chain, FlatMap};
use std::ops::{Index, IndexMut, Range};
use std::slice;
use std::sync::Arc;

/// Default number of entries of a page: small enough that one changed entry copies little, large enough
/// that the table of page pointers stays short.
const DEFAULT_PAGE_LEN: usize = 128;

/// A vector in pages. A clone shares all full pages with the original; a page is copied when one of
/// its entries changes. A vector that differs from another one in a few entries costs a few pages.
#[derive(Clone)]
pub struct PagedVec<T, const PAGE_LEN: usize = DEFAULT_PAGE_LEN> {
    /// Full pages.
    pages: Vec<Arc<[T]>>,
    /// The entries after the last full page.
    tail: Vec<T>,
}

impl<T, const PAGE_LEN: usize> PagedVec<T, PAGE_LEN> {
    pub fn len(&self) -> usize {
        self.pages.len() * PAGE_LEN + self.tail.len()
    }

    pub fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.tail.is_empty()
    }

    /// The entry at `index`; `None` if out of bounds.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&T> {
        let page = self.pages.get(index / PAGE_LEN);
        match page {
            Some(page) => page.get(index % PAGE_LEN),
            None => self.tail.get(index - self.pages.len() * PAGE_LEN),
        }
    }

    /// The entries of `range`, which must be in bounds.
    #[inline]
    pub fn range(
        &self,
        range: Range<usize>,
    ) -> impl DoubleEndedIterator<Item = &T> + ExactSizeIterator + Clone {
        range.map(|index| &self[index])
    }

    pub fn iter(&self) -> Iter<'_, T> {
        self.pages.iter().flat_map(entries as _).chain(&self.tail)
    }

    /// The parts of two vectors that they do not share, each with the index of its first entry. Of
    /// vectors of different lengths, some parts are longer in one of them.
    pub fn unshared<'a>(
        &'a self,
        other: &'a Self,
    ) -> impl Iterator<Item = (usize, &'a [T], &'a [T])> {
        let common = self.pages.len().min(other.pages.len());
        let pages = self.pages.iter().zip(&other.pages).enumerate();
        let unshared = pages.filter(|(_, (one, two))| !Arc::ptr_eq(one, two));
        let unshared = unshared.map(|(number, (one, two))| (number * PAGE_LEN, &**one, &**two));
        unshared.chain([(common * PAGE_LEN, self.page_or_tail(common), other.page_or_tail(common))])
    }

    /// True if both have the same length, and `is_equal` holds for all entries that they do not share.
    pub fn is_equal_by(&self, other: &Self, is_equal: impl Fn(&T, &T) -> bool) -> bool {
        self.len() == other.len()
            && self
                .unshared(other)
                .all(|(_, own, others)| own.iter().zip(others).all(|(a, b)| is_equal(a, b)))
    }

    fn page_or_tail(&self, page: usize) -> &[T] {
        self.pages.get(page).map_or(&self.tail, |page| page)
    }

    /// Appends an entry.
    pub fn push(&mut self, entry: T) {
        if self.tail.is_empty() {
            self.tail.reserve_exact(PAGE_LEN);
        }
        self.tail.push(entry);
        if self.tail.len() == PAGE_LEN {
            self.pages.push(self.tail.drain(..).collect());
        }
    }
}

impl<T: Clone, const PAGE_LEN: usize> PagedVec<T, PAGE_LEN> {
    /// Creates a vector of `len` equal entries, whose full pages are one.
    pub fn filled(entry: T, len: usize) -> Self {
        let page: Arc<[T]> = std::iter::repeat_n(entry, len.min(PAGE_LEN)).collect();
        let tail = page[..len % PAGE_LEN].to_vec();
        Self { pages: vec![page; len / PAGE_LEN], tail }
    }

    /// Iterates over all entries mutably. Copies every shared page.
    pub fn iter_mut(&mut self) -> IterMut<'_, T> {
        self.pages.iter_mut().flat_map(entries_mut as _).chain(&mut self.tail)
    }
}

impl<T: Clone + PartialEq, const PAGE_LEN: usize> PagedVec<T, PAGE_LEN> {
    /// Replaces an entry, which must exist. An equal entry copies no page.
    pub fn replace(&mut self, index: usize, entry: T) {
        if self[index] != entry {
            self[index] = entry;
        }
    }

    /// Replaces pages by equal ones of `other`, which both share then.
    pub fn share_pages(&mut self, other: &Self) {
        for (own, other) in self.pages.iter_mut().zip(&other.pages) {
            if !Arc::ptr_eq(own, other) && own == other {
                *own = other.clone();
            }
        }
    }

    /// Indexes at which two vectors of the same length differ. Shared pages are skipped.
    pub fn differences<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = usize> + 'a {
        self.unshared(other).flat_map(|(start, one, two)| {
            let pairs = one.iter().zip(two).enumerate();
            let unequal = pairs.filter(|(_, (one, two))| one != two);
            unequal.map(move |(index, _)| start + index)
        })
    }
}

/// Iterator of [`PagedVec::iter`].
pub type Iter<'a, T> = Chain<
    FlatMap<slice::Iter<'a, Arc<[T]>>, slice::Iter<'a, T>, fn(&'a Arc<[T]>) -> slice::Iter<'a, T>>,
    slice::Iter<'a, T>,
>;

fn entries<T>(page: &Arc<[T]>) -> slice::Iter<'_, T> {
    page.iter()
}

impl<T, const PAGE_LEN: usize> Default for PagedVec<T, PAGE_LEN> {
    fn default() -> Self {
        Self { pages: Vec::new(), tail: Vec::new() }
    }
}

impl<T, const PAGE_LEN: usize> Index<usize> for PagedVec<T, PAGE_LEN> {
    type Output = T;

    #[inline]
    fn index(&self, index: usize) -> &T {
        match self.pages.get(index / PAGE_LEN) {
            Some(page) => &page[index % PAGE_LEN],
            None => &self.tail[index - self.pages.len() * PAGE_LEN],
        }
    }
}

impl<T: Clone, const PAGE_LEN: usize> IndexMut<usize> for PagedVec<T, PAGE_LEN> {
    fn index_mut(&mut self, index: usize) -> &mut T {
        let full = self.pages.len() * PAGE_LEN;
        match self.pages.get_mut(index / PAGE_LEN) {
            Some(page) => &mut Arc::make_mut(page)[index % PAGE_LEN],
            None => &mut self.tail[index - full],
        }
    }
}

impl<T, const PAGE_LEN: usize> Extend<T> for PagedVec<T, PAGE_LEN> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, entries: I) {
        for entry in entries {
            self.push(entry);
        }
    }
}

impl<T, const PAGE_LEN: usize> FromIterator<T> for PagedVec<T, PAGE_LEN> {
    fn from_iter<I: IntoIterator<Item = T>>(entries: I) -> Self {
        let mut all = Self::default();
        all.extend(entries);
        all.tail.shrink_to_fit();
        all
    }
}

impl<T, const PAGE_LEN: usize> From<Vec<T>> for PagedVec<T, PAGE_LEN> {
    fn from(entries: Vec<T>) -> Self {
        entries.into_iter().collect()
    }
}

impl<'a, T, const PAGE_LEN: usize> IntoIterator for &'a PagedVec<T, PAGE_LEN> {
    type Item = &'a T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

/// Iterator of [`PagedVec::iter_mut`].
pub type IterMut<'a, T> = Chain<
    FlatMap<
        slice::IterMut<'a, Arc<[T]>>,
        slice::IterMut<'a, T>,
        fn(&'a mut Arc<[T]>) -> slice::IterMut<'a, T>,
    >,
    slice::IterMut<'a, T>,
>;

fn entries_mut<T: Clone>(page: &mut Arc<[T]>) -> slice::IterMut<'_, T> {
    Arc::make_mut(page).iter_mut()
}

impl<'a, T: Clone, const PAGE_LEN: usize> IntoIterator for &'a mut PagedVec<T, PAGE_LEN> {
    type Item = &'a mut T;
    type IntoIter = IterMut<'a, T>;

    fn into_iter(self) -> IterMut<'a, T> {
        self.iter_mut()
    }
}

impl<T: PartialEq, const PAGE_LEN: usize> PartialEq for PagedVec<T, PAGE_LEN> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && self
                .pages
                .iter()
                .zip(&other.pages)
                .all(|(one, two)| Arc::ptr_eq(one, two) || one == two)
            && self.tail == other.tail
    }
}

impl<T: Eq, const PAGE_LEN: usize> Eq for PagedVec<T, PAGE_LEN> {}

impl<T: fmt::Debug, const PAGE_LEN: usize> fmt::Debug for PagedVec<T, PAGE_LEN> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Indexes at which two tables differ, as far as both reach.
    fn unequal(one: &PagedVec<u8>, two: &PagedVec<u8>) -> Vec<usize> {
        let parts = one.unshared(two);
        let pairs = parts.flat_map(|(first, one, two)| (first..).zip(one.iter().zip(two)));
        pairs.filter(|(_, (one, two))| one != two).map(|(index, _)| index).collect()
    }

    proptest! {
        #[test]
        fn behaves_like_a_vec_and_shares_pages(
            len in 0usize..700,
            changes in prop::collection::vec((any::<usize>(), 0u8..3), 0..9),
        ) {
            let mut model = vec![0u8; len];
            let before: PagedVec<u8> = model.clone().into();
            let mut table = before.clone();
            for &(index, value) in changes.iter().filter(|_| len > 0) {
                model[index % len] = value;
                table.replace(index % len, value);
            }
            prop_assert!(table.iter().eq(&model));
            prop_assert_eq!((table.len(), table.is_empty()), (len, len == 0));
            prop_assert!((0..len + 3).all(|index| table.get(index) == model.get(index)));
            prop_assert!(table.range(len / 3..len).rev().eq(model[len / 3..].iter().rev()));
            prop_assert!(before.iter().all(|&entry| entry == 0));
            prop_assert_eq!(&before, &PagedVec::filled(0, len));
            let mut longer = before.clone();
            longer.extend(model.iter().copied());
            let doubled = before.iter().chain(&model);
            prop_assert!(longer.iter().eq(doubled) && longer.len() == 2 * len);
            longer.iter_mut().for_each(|entry| *entry = 9);
            prop_assert!(longer.iter().all(|&entry| entry == 9));
            let differing: Vec<usize> = (0..len).filter(|&index| model[index] != 0).collect();
            prop_assert_eq!(before.differences(&table).collect::<Vec<_>>(), differing.clone());
            prop_assert_eq!(before == table, differing.is_empty());
            let shorter: PagedVec<u8> = model[..len / 2].to_vec().into();
            let expected: Vec<usize> =
                differing.iter().copied().filter(|&index| index < len / 2).collect();
            prop_assert_eq!(unequal(&shorter, &before), expected.clone());
            prop_assert_eq!(unequal(&before, &shorter), expected);
            let pages = before.pages.iter().zip(&table.pages);
            let own = pages.filter(|(one, two)| !Arc::ptr_eq(one, two)).count();
            prop_assert!(own <= changes.len());
        }
    }

    #[test]
    fn equal_pages_are_shared() {
        let one: PagedVec<usize> = (0..1000).collect();
        let mut two: PagedVec<usize> = (0..1000).collect();
        two[300] = 0;
        let before = two.clone();
        two.share_pages(&one);
        assert!(two.iter().eq(before.iter()), "no entry changes");
        let shared: Vec<bool> =
            two.pages.iter().zip(&one.pages).map(|(own, other)| Arc::ptr_eq(own, other)).collect();
        let expected: Vec<bool> =
            (0..1000 / DEFAULT_PAGE_LEN).map(|page| page != 300 / DEFAULT_PAGE_LEN).collect();
        assert_eq!(shared, expected);
    }
}
