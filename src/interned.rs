//! Equal lists, stored once: most ports of a fabric have one of a few tables.

use rustc_hash::FxHashSet;
use std::hash::Hash;
use std::sync::Arc;

/// The different lists so far.
pub struct Interned<T>(FxHashSet<Arc<[T]>>);

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Self(FxHashSet::default())
    }
}

impl<T: Eq + Hash> Interned<T> {
    /// The list equal to this one.
    pub fn share(&mut self, list: impl AsRef<[T]> + Into<Arc<[T]>>) -> Arc<[T]> {
        if let Some(known) = self.0.get(list.as_ref()) {
            return known.clone();
        }
        let list: Arc<[T]> = list.into();
        self.0.insert(list.clone());
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lists_are_one() {
        let mut lists = Interned::default();
        let first = lists.share(vec![1, 2]);
        assert!(Arc::ptr_eq(&first, &lists.share(vec![1, 2])));
        let other = lists.share(vec![1]);
        assert_eq!((&first[..], &other[..]), (&[1, 2][..], &[1][..]));
    }
}
