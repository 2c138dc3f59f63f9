//! The routes to switches, which are no destinations of data traffic, after those to hosts.
//!
//! OpenSM takes shortest paths, whatever they depend on. If these close a loop with the routes to
//! hosts on layer 0, the route to a switch is that to one of its hosts on layer 0, which adds no
//! dependency. The routes to switches without such hosts are the shortest ones that add no
//! dependencies to those of the routes to hosts and of a tree of escape paths to all switches. Such
//! a tree must close no cycle with the routes to hosts, which is often so if its root is a switch
//! with hosts. If no such tree is found, the hosts of layer 0 are routed again, with escape paths to
//! all switches from the beginning.

use super::colors::Colors;
use super::search::NueSearch;
use super::targets::NueTarget;
use super::{NueRoutes, Rules, Setup, escape};
use crate::ids::Lid;
use crate::plan::routing::weighted_paths::search::{NONE, Root, Search as SimpleSearch};
use std::sync::atomic::{AtomicBool, Ordering};

/// Trees of escape paths that are tried.
const MAX_TREES: usize = 16;

/// Switches after which the routes are checked for loops the first time; later after twice as many.
const FIRST_SWITCHES: usize = 8;

impl Setup<'_> {
    /// Adds OpenSM's routes to switches, or others if these close a loop.
    pub(super) fn with_switches(&self, mut routes: NueRoutes) -> NueRoutes {
        routes.columns.flush(&mut routes.tables);
        let is_wanted = AtomicBool::new(true);
        let mut protected = routes.clone();
        let switches = self.switches_in_order();
        let (before_loop, is_protected) = rayon::join(
            || {
                let before_loop = self.add_until_loop(&mut routes, &switches);
                is_wanted.store(before_loop.is_some(), Ordering::Relaxed);
                before_loop
            },
            || self.protect_switches(&mut protected, &is_wanted),
        );
        match (before_loop, is_protected) {
            (None, _) => routes,
            (Some(_), true) => protected,
            (Some(added), false) => {
                self.add_switches(&mut routes, &switches[added..]);
                self.with_reserve(routes)
            }
        }
    }

    /// Adds shortest paths to switches. If the routes have a loop, it ends soon after the one that
    /// closes it, and returns the number of switches that were added.
    fn add_until_loop(&self, routes: &mut NueRoutes, switches: &[NueTarget]) -> Option<usize> {
        let mut added = 0;
        let mut end = FIRST_SWITCHES;
        if self.has_loop(&routes.dependencies[1..]) {
            return Some(added);
        }
        while added < switches.len() {
            let all = end.min(switches.len());
            self.add_switches(routes, &switches[added..all]);
            (added, end) = (all, 2 * end);
            if self.has_loop(&routes.dependencies[..1]) {
                return Some(added);
            }
        }
        None
    }

    /// Adds shortest paths to switches, on layer 0.
    fn add_switches(&self, routes: &mut NueRoutes, switches: &[NueTarget]) {
        let mut search = SimpleSearch::over_links_from(self.one_hop);
        for target in switches {
            for lid in target.lids() {
                search.run(self.graph.network, &routes.lengths, Root::Switch(target.switch));
                self.mark_dependencies(&mut routes.dependencies[0], &search.used);
                self.enter(routes, &search.used, target, lid);
                let inwards = search.order.iter().rev().copied();
                self.lengthen_inwards(&mut routes.lengths, &search.used, inwards);
            }
        }
    }

    /// Marks the edges on which paths depend.
    fn mark_dependencies(&self, dependencies: &mut [bool], used: &[u32]) {
        let graph = self.graph;
        let starts = self.graph.network.starts();
        for &link in used {
            let Some(before) = starts.get(link as usize).map(|&start| used[start as usize]) else {
                continue;
            };
            if before != NONE
                && let Some(edge) = graph.edge(graph.of_link(before), graph.of_link(link))
            {
                dependencies[edge as usize] = true;
            }
        }
    }

    /// Adds paths to all switches that close no cycle with others of layer 0. Returns false, and may
    /// leave switches without paths, if there are none or if they are no longer wanted.
    pub(super) fn protect_switches(&self, routes: &mut NueRoutes, is_wanted: &AtomicBool) -> bool {
        let others = self.route_like_hosts(routes);
        if !others.is_empty() {
            let Some(state) = self.escape_beside(routes) else { return false };
            if !self.search_switches(routes, &others, state, is_wanted) {
                return false;
            }
        }
        !self.has_loop(&routes.dependencies)
    }

    /// Adds the paths to one host of layer 0 at each switch as those to the switch. Returns the
    /// switches without such hosts.
    fn route_like_hosts(&self, routes: &mut NueRoutes) -> Vec<NueTarget> {
        routes.columns.flush(&mut routes.tables);
        let mut hosts = vec![None; self.graph.network.len()];
        for host in self.layers[0].targets.iter().filter(|target| !target.is_switch()) {
            hosts[host.switch as usize] = hosts[host.switch as usize].or(host.lids().next());
        }
        let mut others = Vec::new();
        for target in self.switches_in_order() {
            match hosts[target.switch as usize] {
                Some(host) => self.route_like_host(routes, &target, host),
                None => others.push(target),
            }
        }
        others
    }

    /// Adds the paths to the LID of a host at a switch as those to the switch. Links get no longer by
    /// them.
    fn route_like_host(&self, routes: &mut NueRoutes, switch: &NueTarget, host: Lid) {
        let outputs: Vec<u8> = routes.tables.iter().map(|table| table[host.index()]).collect();
        for lid in switch.lids() {
            let ports = routes.columns.add((lid, switch.switch, switch.exit), &mut routes.tables);
            ports.copy_from_slice(&outputs);
        }
    }

    /// Escape paths to all switches that close no cycle with the routes to hosts of layer 0.
    fn escape_beside(&self, routes: &NueRoutes) -> Option<(Colors, Vec<u32>)> {
        let layer = &self.layers[0];
        let with_hosts = (0..).zip(&layer.marks.hosts).filter(|(_, hosts)| **hosts > 0);
        let others = with_hosts.map(|(switch, _)| switch).filter(|&root| root != layer.center);
        // The tree that was reserved for the hosts leads to all switches if all have hosts.
        let mut roots = std::iter::once(layer.center).chain(others).take(MAX_TREES);
        let lengths = self.first_lengths();
        roots.find_map(|root| {
            let state = self.escape_from(root, &routes.dependencies[0], &lengths);
            state.0.has_order().then_some(state)
        })
    }

    /// The colors of layer 0 with these dependencies in use, and with escape paths to all switches
    /// over a tree with this root.
    pub(super) fn escape_from(
        &self,
        root: u32,
        used: &[bool],
        lengths: &[u64],
    ) -> (Colors, Vec<u32>) {
        let marks = self.marks_of_all();
        let mut colors = Colors::reserved(self.graph, used);
        let tree = escape::mark(self.graph, &mut colors, &marks, root, lengths);
        colors.order_channels(self.graph);
        (colors, tree)
    }

    /// Adds paths to these switches on layer 0, from its state, over dependencies that are in use or
    /// reserved. Returns false, and leaves switches without paths, if they are no longer wanted.
    fn search_switches(
        &self,
        routes: &mut NueRoutes,
        switches: &[NueTarget],
        mut state: (Colors, Vec<u32>),
        is_wanted: &AtomicBool,
    ) -> bool {
        state.0.block_unused(self.graph);
        let mut search = NueSearch::new(self.graph, self.one_hop);
        search.backtracking.keep_dependencies = true;
        switches.iter().all(|target| {
            self.route(routes, &mut search, &mut state, target, 0);
            is_wanted.load(Ordering::Relaxed)
        })
    }

    /// Replaces the routes to switches and to the hosts of layer 0, or all routes if other layers
    /// have a loop, by those with escape paths to all switches.
    pub(super) fn with_reserve(&self, routes: NueRoutes) -> NueRoutes {
        // Switches are on layer 0, so the routes on others stay.
        let has_others = self.layers.len() > 1 && !self.has_loop(&routes.dependencies[1..]);
        let layers = if has_others { 1 } else { self.layers.len() };
        let root = self.center_of_all();
        let mut reserved =
            self.hosts(Rules { keep_dependencies: true, center: Some(root) }, layers);
        let others = self.route_like_hosts(&mut reserved);
        if !others.is_empty() {
            // The tree of the beginning.
            let lengths = self.first_lengths();
            let state = self.escape_from(root, &reserved.dependencies[0], &lengths);
            self.search_switches(&mut reserved, &others, state, &AtomicBool::new(true));
        }
        if has_others { self.with_first_layer(routes, reserved) } else { reserved }
    }

    /// The switch in the middle of the hosts of layer 0 and all switches.
    fn center_of_all(&self) -> u32 {
        escape::centers(self.graph.network, [&self.marks_of_all()])[0]
    }

    /// The hosts of layer 0 and all switches as destinations.
    fn marks_of_all(&self) -> escape::Targets {
        let mut marks = self.layers[0].marks.clone();
        marks.has_destinations.fill(true);
        marks
    }

    /// Replaces the routes to switches and to the hosts of layer 0. The lengths of links, which
    /// multicast trees follow, stay those of OpenSM's routes.
    fn with_first_layer(&self, mut routes: NueRoutes, mut first: NueRoutes) -> NueRoutes {
        for routes in [&mut routes, &mut first] {
            routes.columns.flush(&mut routes.tables);
        }
        let switches = self.targets.iter().filter(|target| target.is_switch());
        let lids = self.layers[0].targets.iter().chain(switches).flat_map(NueTarget::lids);
        let lids: Vec<usize> = lids.map(Lid::index).collect();
        for (table, other) in routes.tables.iter_mut().zip(&first.tables) {
            lids.iter().for_each(|&lid| table[lid] = other[lid]);
        }
        routes.dependencies[0] = first.dependencies.swap_remove(0);
        routes.escapes[0] = first.escapes[0];
        routes
    }

    fn switches_in_order(&self) -> Vec<NueTarget> {
        let mut switches: Vec<NueTarget> =
            self.targets.iter().filter(|target| target.is_switch()).copied().collect();
        switches.sort_by_key(|target| target.switch);
        switches
    }
}
