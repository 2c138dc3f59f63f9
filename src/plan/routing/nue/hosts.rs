//! The routes to hosts, layer after layer.
//!
//! OpenSM's rules may close a credit loop once a search has forgotten dependencies. That is noticed
//! soon, and the computation goes on with stricter rules from where it was before that search,
//! instead of from the beginning: until then both rules give the same routes.

use super::colors::Colors;
use super::policy::MulticastHops;
use super::search::Search;
use super::{Routes, Rules, Setup};
use std::sync::atomic::{AtomicBool, Ordering};

/// Parts of the computation after each of which its state is stored, or checked for loops.
const PARTS: usize = 32;

/// The routes to hosts while they are computed.
#[derive(Clone)]
struct Progress {
    routes: Routes,
    /// The number of targets that are routed.
    done: usize,
    /// The colors and escape paths of the present layer.
    state: Option<(Colors, Vec<u32>)>,
}

impl Setup<'_> {
    /// The routes to hosts, and to switches if they are included. Makes the rules stricter if
    /// OpenSM's close a loop. The routes are not complete if they are no longer wanted.
    pub(super) fn hosts(&self, rules: &mut Rules, is_wanted: &AtomicBool) -> Routes {
        let count: usize = self.layers.iter().map(|layer| layer.targets.len()).sum();
        let mut search = Search::new(self.graph, self.one_hop);
        search.keep_dependencies = rules.keep_dependencies;
        let mut progress = Progress { routes: self.without_paths(), done: 0, state: None };
        let mut stored = (!rules.keep_dependencies).then(|| progress.clone());
        while progress.done < count && is_wanted.load(Ordering::Relaxed) {
            let end = count.min(progress.done + count.div_ceil(PARTS));
            self.route_up_to(end, &mut progress, &mut search, *rules);
            if stored.is_none() {
                continue;
            }
            if !search.has_forgotten {
                stored = Some(progress.clone());
            } else if self.has_loop(&progress.routes)
                && let Some(before) = stored.take()
            {
                progress = before;
                rules.keep_dependencies = true;
                search.keep_dependencies = true;
            }
        }
        let Progress { mut routes, .. } = progress;
        rules.keep_dependencies |= self.has_loop(&routes);
        if let MulticastHops::Common(hops) = &mut routes.hops {
            hops.copy_from_slice(search.hops());
        }
        routes
    }

    /// Routes targets until this number of them is done.
    fn route_up_to(
        &self,
        end: usize,
        progress: &mut Progress,
        search: &mut Search<'_>,
        rules: Rules,
    ) {
        let mut first = 0;
        for (number, layer) in (0..).zip(&self.layers) {
            let places = first..first + layer.targets.len();
            first = places.end;
            while progress.done < end && places.contains(&progress.done) {
                let Progress { routes, done, state } = progress;
                if *done == places.start {
                    let reserve = rules.reserve_switches && number == 0;
                    *state = Some(self.first_state(layer, reserve, &routes.lengths));
                }
                let Some(layer_state) = state else { return };
                let target = &layer.targets[*done - places.start];
                self.route(routes, search, layer_state, target, number);
                target.lids().for_each(|lid| routes.by_lid[lid.index()] = number);
                *done += 1;
                if number == 0 && *done == places.end {
                    routes.first_layer = state.take();
                }
            }
        }
    }
}
