//! The routes to hosts, layer after layer.
//!
//! OpenSM's rules may close a credit loop once a search has forgotten dependencies. That is noticed
//! soon, and the computation goes on with stricter rules from where it was before that search,
//! instead of from the beginning: until then both rules give the same routes.

use super::colors::Colors;
use super::policy::MulticastHops;
use super::search::NueSearch;
use super::{HostLayer, NueRoutes, Rules, Setup, escape};

/// Parts of the computation after each of which its state is stored, or checked for loops.
const PARTS: usize = 8;

/// The routes to hosts while they are computed.
#[derive(Clone)]
struct Progress {
    routes: NueRoutes,
    /// The number of targets that are routed.
    done: usize,
    /// The colors and escape paths of the present layer.
    state: Option<(Colors, Vec<u32>)>,
}

impl Progress {
    /// A copy without the tables: those of targets that are routed later are written again.
    fn stored(&mut self) -> Self {
        self.routes.columns.flush(&mut self.routes.tables);
        let tables = std::mem::take(&mut self.routes.tables);
        let stored = self.clone();
        self.routes.tables = tables;
        stored
    }

    /// Goes back to what was stored.
    fn restore(&mut self, stored: Self) {
        let tables = std::mem::take(&mut self.routes.tables);
        *self = stored;
        self.routes.tables = tables;
    }
}

impl Setup<'_> {
    /// The routes to hosts of the first `layers` layers, and to switches if they are included. Makes
    /// the rules stricter if OpenSM's close a loop.
    pub(super) fn hosts(&self, mut rules: Rules, layers: usize) -> NueRoutes {
        let count = self.layers.iter().take(layers).map(|layer| layer.targets.len()).sum();
        let mut search = NueSearch::new(self.graph, self.one_hop);
        search.backtracking.keep_dependencies = rules.keep_dependencies;
        let mut progress = Progress { routes: self.without_paths(), done: 0, state: None };
        let mut stored = (!rules.keep_dependencies).then(|| progress.stored());
        while progress.done < count {
            let end = usize::min(count, progress.done + count.div_ceil(PARTS));
            self.route_up_to(end, &mut progress, &mut search, rules);
            if stored.is_none() {
                continue;
            }
            if !search.backtracking.has_forgotten {
                stored = Some(progress.stored());
            } else if self.has_loop(&progress.routes.dependencies)
                && let Some(before) = stored.take()
            {
                progress.restore(before);
                rules.keep_dependencies = true;
                search.backtracking.keep_dependencies = true;
            }
        }
        let Progress { mut routes, .. } = progress;
        if let MulticastHops::Common(hops) = &mut routes.hops {
            hops.copy_from_slice(search.hops());
        }
        routes
    }

    /// The colors at the beginning of a layer, and the tree of its escape paths.
    pub(super) fn escape_of(&self, layer: &HostLayer, lengths: &[u64]) -> (Colors, Vec<u32>) {
        let mut colors = Colors::new(self.graph);
        let tree = escape::mark(self.graph, &mut colors, &layer.marks, layer.center, lengths);
        colors.order_channels(self.graph);
        (colors, tree)
    }

    /// Routes targets until this number of them is done.
    fn route_up_to(
        &self,
        end: usize,
        progress: &mut Progress,
        search: &mut NueSearch<'_>,
        rules: Rules,
    ) {
        let mut first = 0;
        for (number, layer) in (0..).zip(&self.layers) {
            let places = first..first + layer.targets.len();
            first = places.end;
            while progress.done < end && places.contains(&progress.done) {
                let Progress { routes, done, state } = progress;
                if *done == places.start {
                    let lengths = &routes.lengths;
                    *state = Some(match rules.center.filter(|_| number == 0) {
                        Some(root) => self.escape_from(root, &routes.dependencies[0], lengths),
                        None => self.escape_of(layer, lengths),
                    });
                }
                let Some(layer_state) = state else { return };
                let target = &layer.targets[*done - places.start];
                self.route(routes, search, layer_state, target, number);
                target.lids().for_each(|lid| routes.by_lid[lid.index()] = number);
                *done += 1;
            }
        }
    }
}
