//! The routes of one LID after the other, each over the links that the ones before it left free.

use super::fewest_hops::{FewestHops, opposites};
use super::level_search::LevelSearch;
use super::order::{Destination, Destinations};
use crate::ids::Lid;
use crate::plan::routing::Lft;
use crate::plan::routing::weighted_paths::columns::Columns;
use crate::plan::routing::weighted_paths::network::Network;
use crate::plan::routing::weighted_paths::search::{Root, Search};
use crate::wire::attr::NodeKind;
use rayon::prelude::*;

/// Switches for which paths with the fewest hops are found at once, while the LIDs of those before
/// them are routed. They take 8 bytes for each link and switch.
const SWITCHES_AHEAD: usize = 32;

/// The tables and lengths of links so far, and buffers.
pub(super) struct Router<'a> {
    network: &'a Network,
    one_hop: u64,
    lids_by_switch: Vec<u32>,
    tables: Vec<Vec<u8>>,
    lengths: Vec<u64>,
    columns: Columns,
    level_search: LevelSearch,
    search: Search,
    /// Zeros by switch.
    paths: Vec<u64>,
}

impl<'a> Router<'a> {
    /// A router whose links are `one_hop` long at first.
    pub(super) fn new(
        network: &'a Network,
        one_hop: u64,
        destinations: &Destinations,
        max_lid: Lid,
    ) -> Self {
        Self {
            network,
            one_hop,
            lids_by_switch: destinations.lids_by_switch(),
            tables: vec![Lft::empty(max_lid).0; network.len()],
            lengths: vec![one_hop; network.links().len()],
            columns: Columns::new(network),
            level_search: LevelSearch::new(network.len()),
            search: Search::over_links_from(one_hop),
            paths: vec![0; network.len()],
        }
    }

    /// Routes the LIDs of all destinations, in this order.
    pub(super) fn route(&mut self, destinations: &[Destination]) {
        let network = self.network;
        let Some(opposites) = opposites(network) else {
            return destinations.iter().for_each(|to| self.route_to(to, None));
        };
        let groups: Vec<_> = destinations.chunk_by(|a, b| a.switch == b.switch).collect();
        let paths_to = |groups: &[&[Destination]]| -> Vec<FewestHops> {
            let roots = groups.par_iter().filter_map(|group| group.first());
            roots.map(|to| FewestHops::to(network, &opposites, to.switch)).collect()
        };
        let parts: Vec<_> = groups.chunks(SWITCHES_AHEAD).collect();
        let mut ahead = parts.first().map_or_else(Vec::new, |first| paths_to(first));
        for (part, next) in parts.iter().zip(parts.iter().skip(1).map(Some).chain([None])) {
            let paths = std::mem::take(&mut ahead);
            let route = || {
                for (group, paths) in part.iter().zip(&paths) {
                    group.iter().for_each(|to| self.route_to(to, Some(paths)));
                }
            };
            let prepare = || next.map_or_else(Vec::new, |next| paths_to(next));
            ((), ahead) = rayon::join(route, prepare);
        }
    }

    /// Routes the LIDs of a destination, with the paths to its switch with the fewest hops.
    fn route_to(&mut self, to: &Destination, paths: Option<&FewestHops>) {
        let is_switch = to.kind == NodeKind::Switch;
        let root = if is_switch { Root::Switch(to.switch) } else { Root::Host(to.switch) };
        for lid in to.lids() {
            let Self { level_search, search, lengths, one_hop, .. } = self;
            let is_found =
                paths.is_some_and(|paths| level_search.run(paths, lengths, *one_hop, root, search));
            if !is_found {
                search.run(self.network, lengths, root);
            }
            let end = (to.switch, to.exit);
            self.columns.add(lid, &self.search.used, end, &mut self.tables);
            self.lengthen();
        }
    }

    /// Makes links longer by the paths over them.
    fn lengthen(&mut self) {
        // Each switch is behind the next one on its path.
        for &switch in self.search.order.iter().rev() {
            let own = std::mem::take(&mut self.paths[switch as usize]);
            let link = self.search.used[switch as usize] as usize;
            if let Some(&next) = self.network.links().get(link) {
                let all = own + u64::from(self.lids_by_switch[switch as usize]);
                self.lengths[link] += all;
                self.paths[next.from as usize] += all;
            }
        }
    }

    /// The tables by number of the switch, and the lengths of links with all routes.
    pub(super) fn into_tables(mut self) -> (Vec<Vec<u8>>, Vec<u64>) {
        self.columns.flush(&mut self.tables);
        (self.tables, self.lengths)
    }
}
