//! A copy-on-write vector in pages.

use std::fmt;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

/// Number of entries of a page: small enough that one changed entry copies little, large enough
/// that the table of page pointers stays short.
const PAGE_LEN: usize = 128;

/// A vector in pages. A clone shares all pages with the original; a page is copied when one of its
/// entries changes. A plan that differs from the previous one in a few entries costs a few pages.
#[derive(Clone)]
pub struct PagedVec<T> {
    pages: Vec<Arc<Vec<T>>>,
}

impl<T> PagedVec<T> {
    pub fn len(&self) -> usize {
        let last = self.pages.last().map_or(0, |page| page.len());
        self.pages.len().saturating_sub(1) * PAGE_LEN + last
    }

    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// The entry at `index`; `None` if out of bounds.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&T> {
        self.pages.get(index / PAGE_LEN)?.get(index % PAGE_LEN)
    }

    pub fn iter(&self) -> Iter<'_, T> {
        self.pages.iter().flat_map(page)
    }
}

impl<T: Clone> PagedVec<T> {
    /// Creates a vector of `len` equal entries.
    pub fn filled(entry: T, len: usize) -> Self {
        std::iter::repeat_n(entry, len).collect()
    }

    /// Iterates over all entries mutably. Copies every shared page.
    pub fn iter_mut(&mut self) -> IterMut<'_, T> {
        self.pages.iter_mut().flat_map(page_mut)
    }
}

impl<T: Clone + PartialEq> PagedVec<T> {
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
        let pages = self.pages.iter().zip(&other.pages).enumerate();
        let differing = pages.filter(|(_, (one, two))| !Arc::ptr_eq(one, two));
        differing.flat_map(|(number, (one, two))| {
            let pairs = one.iter().zip(two.iter()).enumerate();
            let unequal = pairs.filter(|(_, (one, two))| one != two);
            unequal.map(move |(index, _)| number * PAGE_LEN + index)
        })
    }
}

/// Iterator of [`PagedVec::iter`].
pub type Iter<'a, T> = std::iter::FlatMap<
    std::slice::Iter<'a, Arc<Vec<T>>>,
    std::slice::Iter<'a, T>,
    fn(&'a Arc<Vec<T>>) -> std::slice::Iter<'a, T>,
>;

fn page<T>(page: &Arc<Vec<T>>) -> std::slice::Iter<'_, T> {
    page.iter()
}

impl<T> Default for PagedVec<T> {
    fn default() -> Self {
        Self { pages: Vec::new() }
    }
}

impl<T> Index<usize> for PagedVec<T> {
    type Output = T;

    fn index(&self, index: usize) -> &T {
        &self.pages[index / PAGE_LEN][index % PAGE_LEN]
    }
}

impl<T: Clone> IndexMut<usize> for PagedVec<T> {
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut Arc::make_mut(&mut self.pages[index / PAGE_LEN])[index % PAGE_LEN]
    }
}

impl<T> FromIterator<T> for PagedVec<T> {
    fn from_iter<I: IntoIterator<Item = T>>(entries: I) -> Self {
        let mut entries = entries.into_iter().peekable();
        let mut pages = Vec::new();
        while entries.peek().is_some() {
            pages.push(Arc::new(entries.by_ref().take(PAGE_LEN).collect()));
        }
        Self { pages }
    }
}

impl<T> From<Vec<T>> for PagedVec<T> {
    fn from(entries: Vec<T>) -> Self {
        entries.into_iter().collect()
    }
}

impl<'a, T> IntoIterator for &'a PagedVec<T> {
    type Item = &'a T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

/// Iterator of [`PagedVec::iter_mut`].
pub type IterMut<'a, T> = std::iter::FlatMap<
    std::slice::IterMut<'a, Arc<Vec<T>>>,
    std::slice::IterMut<'a, T>,
    fn(&'a mut Arc<Vec<T>>) -> std::slice::IterMut<'a, T>,
>;

fn page_mut<T: Clone>(page: &mut Arc<Vec<T>>) -> std::slice::IterMut<'_, T> {
    Arc::make_mut(page).iter_mut()
}

impl<'a, T: Clone> IntoIterator for &'a mut PagedVec<T> {
    type Item = &'a mut T;
    type IntoIter = IterMut<'a, T>;

    fn into_iter(self) -> IterMut<'a, T> {
        self.iter_mut()
    }
}

impl<T: PartialEq> PartialEq for PagedVec<T> {
    fn eq(&self, other: &Self) -> bool {
        let same = |(one, two): (&Arc<Vec<T>>, &Arc<Vec<T>>)| Arc::ptr_eq(one, two) || one == two;
        self.pages.len() == other.pages.len() && self.pages.iter().zip(&other.pages).all(same)
    }
}

impl<T: Eq> Eq for PagedVec<T> {}

impl<T: fmt::Debug> fmt::Debug for PagedVec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
            prop_assert!(before.iter().all(|&entry| entry == 0));
            let differing: Vec<usize> = (0..len).filter(|&index| model[index] != 0).collect();
            prop_assert_eq!(before.differences(&table).collect::<Vec<_>>(), differing.clone());
            prop_assert_eq!(before == table, differing.is_empty());
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
        let shared = |(own, other): (&Arc<Vec<usize>>, &Arc<Vec<usize>>)| Arc::ptr_eq(own, other);
        let shared: Vec<bool> = two.pages.iter().zip(&one.pages).map(shared).collect();
        let expected: Vec<bool> = (0..shared.len()).map(|page| page != 300 / PAGE_LEN).collect();
        assert_eq!(shared, expected);
    }
}
