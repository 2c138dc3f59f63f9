//! The routes of one LID after the other, each over the links that the ones before it left free.

use super::fewest_hops::{FewestHops, opposites};
use super::lengths::Lengths;
use super::level_search::{Found, LevelSearch};
use super::order::{SsspDestination, SsspDestinations};
use crate::ids::Lid;
use crate::plan::routing::Lft;
use crate::plan::routing::weighted_paths::columns::Columns;
use crate::plan::routing::weighted_paths::network::Network;
use crate::plan::routing::weighted_paths::search::{Root, Search};
use crate::wire::attr::NodeKind;
use rayon::prelude::*;

/// Switches for which paths with the fewest hops are found at once, while the LIDs of those before
/// them are routed. They take 9 bytes for each link and switch.
const SWITCHES_AHEAD: usize = 32;

/// The tables and lengths of links so far, and buffers.
pub(super) struct SsspRouter<'a> {
    network: &'a Network,
    tables: Vec<Vec<u8>>,
    lengths: Lengths,
    columns: Columns,
    search: Search,
    found: Found,
}

impl<'a> SsspRouter<'a> {
    /// A router whose links are `one_hop` long at first.
    pub(super) fn new(
        network: &'a Network,
        one_hop: u64,
        destinations: &SsspDestinations,
        max_lid: Lid,
    ) -> Self {
        Self {
            network,
            tables: vec![Lft::unused_entries(max_lid); network.len()],
            lengths: Lengths::new(network, one_hop, destinations.lids_by_switch()),
            columns: Columns::new(network),
            search: Search::over_links_from(one_hop),
            found: Found::default(),
        }
    }

    /// Routes the LIDs of all destinations, in this order.
    pub(super) fn route(&mut self, destinations: &[SsspDestination]) {
        let network = self.network;
        let Some(opposites) = opposites(network) else {
            return self.route_by_heap(destinations);
        };
        let groups: Vec<_> = destinations.chunk_by(|a, b| a.switch == b.switch).collect();
        let parts: Vec<_> = groups.chunks(SWITCHES_AHEAD).collect();
        let mut ahead =
            parts.first().map_or_else(Vec::new, |first| paths_to(&opposites, network, first));
        for (part, next) in parts.iter().zip(parts.iter().skip(1).map(Some).chain([None])) {
            let paths = std::mem::take(&mut ahead);
            ((), ahead) = rayon::join(
                || self.route_part(part, &paths),
                || next.map_or_else(Vec::new, |next| paths_to(&opposites, network, next)),
            );
        }
    }

    fn route_part(&mut self, part: &[&[SsspDestination]], paths: &[FewestHops]) {
        for (group, paths) in part.iter().zip(paths) {
            self.route_by_levels(group, paths);
        }
    }

    /// Routes the LIDs of destinations at one switch, to which `paths` lead.
    fn route_by_levels(&mut self, group: &[SsspDestination], paths: &FewestHops) {
        let mut found = std::mem::take(&mut self.found);
        let mut levels = LevelSearch::new(self.network, paths, &self.lengths, &mut found);
        for to in group {
            for lid in to.lids() {
                if levels.run(&self.lengths, root(to), &mut self.search) {
                    let ports = self.columns.add((lid, to.switch, to.exit), &mut self.tables);
                    levels.add_to(&mut self.lengths, ports);
                } else {
                    self.route_lid_by_heap(to, lid);
                    levels.read(&self.lengths);
                }
            }
        }
        self.found = found;
    }

    /// Routes the LIDs of destinations at any switches.
    fn route_by_heap(&mut self, destinations: &[SsspDestination]) {
        for to in destinations {
            to.lids().for_each(|lid| self.route_lid_by_heap(to, lid));
        }
    }

    fn route_lid_by_heap(&mut self, to: &SsspDestination, lid: Lid) {
        let Self { network, search, lengths, columns, tables, .. } = self;
        search.run(network, &lengths.by_link, root(to));
        lengths.add_paths(network, search);
        columns.add_links((lid, to.switch, to.exit), &search.used, tables);
    }

    /// The tables by number of the switch, and the lengths of links with all routes.
    pub(super) fn into_tables(mut self) -> (Vec<Vec<u8>>, Vec<u64>) {
        self.columns.flush(&mut self.tables);
        (self.tables, self.lengths.by_link)
    }
}

fn paths_to(
    opposites: &[u32],
    network: &Network,
    groups: &[&[SsspDestination]],
) -> Vec<FewestHops> {
    let roots = groups.par_iter().filter_map(|group| group.first());
    roots.map(|to| FewestHops::to(network, opposites, to.switch)).collect()
}

/// The end of the paths to a destination.
fn root(to: &SsspDestination) -> Root {
    if to.kind == NodeKind::Switch { Root::Switch(to.switch) } else { Root::Host(to.switch) }
}
