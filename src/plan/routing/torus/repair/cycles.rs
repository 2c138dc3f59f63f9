//! Cycles that dependencies would close: the path of each is kept with the dependency that was refused.
//!
//! A search that finds a cycle looks at thousands of nodes; whether all dependencies of a known path are still
//! there is seen from its few dozen. Successive passes over a damaged torus refuse nearly the same
//! dependencies.

use super::nodes::Dependency;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Maximum number of cycles that are kept, which bounds the memory.
const MAX_CYCLES: usize = 1 << 14;

/// The nodes from the end of a dependency to its start, by dependency.
pub(super) type CyclePaths = FxHashMap<Dependency, Box<[u32]>>;

/// Known cycles.
#[derive(Clone, Default)]
pub(super) struct Cycles {
    /// Those of an earlier pass.
    before: Arc<CyclePaths>,
    /// Those of this pass.
    now: CyclePaths,
}

impl Cycles {
    pub(super) fn of_pass_before(before: Arc<CyclePaths>) -> Self {
        Self { before, now: CyclePaths::default() }
    }

    /// Those that this pass has met, for the next one.
    pub(super) fn met(&self) -> Arc<CyclePaths> {
        Arc::new(self.now.clone())
    }

    /// True if a cycle of the dependency is known and the graph still has the others of it.
    pub(super) fn has(
        &mut self,
        dependency: Dependency,
        is_present: impl Fn(u32, u32) -> bool,
    ) -> bool {
        if self.now.get(&dependency).is_some_and(|path| is_whole(path, &is_present)) {
            return true;
        }
        match self.before.get(&dependency) {
            Some(path) if is_whole(path, &is_present) => {
                let path = path.clone();
                self.add(dependency, path);
                true
            }
            _ => false,
        }
    }

    pub(super) fn add(&mut self, dependency: Dependency, path: Box<[u32]>) {
        if self.now.len() < MAX_CYCLES || self.now.contains_key(&dependency) {
            self.now.insert(dependency, path);
        }
    }
}

fn is_whole(path: &[u32], is_present: impl Fn(u32, u32) -> bool) -> bool {
    path.windows(2).all(|pair| is_present(pair[0], pair[1]))
}
