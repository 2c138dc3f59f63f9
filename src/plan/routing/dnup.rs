//! DNUP: down/up routing, for fabrics in which some switches have no path over a root.
//!
//! A switch with hosts has rank 0, the others the distance to the nearest of these. Packets go up
//! towards higher ranks and down towards lower ones, and not down and then up again; links between
//! switches of equal rank may be taken at any time. With `connect_roots`, turns from down to up are
//! allowed with as many extra hops as the longest legal path has, and one more.
//!
//! Credit loops are excluded in trees, but not where switches of equal rank are linked in a circle;
//! verification warns about them. Hosts without a legal path have no route to each other, as in
//! OpenSM; `refuse_faulty_routes` refuses such fabrics and loops.

use super::balancing::hops::{HopRule, TargetHops};
use super::balancing::{Balancing, RouteProperties, has_hosts};
use super::switch_graph::SwitchGraph;
use super::updn::ranks::{Ranks, UNRANKED};
use super::{Engine, Routing, RoutingError, RoutingInput};
use crate::config::guid_lists::GuidLists;
use crate::fabric::SwitchId;
use crate::notes::Note;
use rayon::prelude::*;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

/// The name of the engine.
pub const NAME: &str = "dnup";

/// Hops from this on are too many, as in OpenSM.
const MAX_HOPS: u8 = 64;

/// The engine, with the contents of its GUID list files.
#[derive(Clone, Debug, Default)]
pub struct Dnup {
    lists: Arc<GuidLists>,
}

impl Dnup {
    pub fn new(lists: Arc<GuidLists>) -> Self {
        Self { lists }
    }
}

impl Engine for Dnup {
    fn name(&self) -> &'static str {
        NAME
    }

    fn route(&self, input: &RoutingInput<'_>) -> Result<Routing, RoutingError> {
        let graph = SwitchGraph::new(input.fabric, &self.lists.hop_weights);
        let leaves: Vec<SwitchId> =
            graph.switches().filter(|&switch| has_hosts(input.fabric, switch)).collect();
        if leaves.is_empty() {
            return Err(RoutingError::new(NAME, Note::error("AE0D", "no switch has a host")));
        }
        let ranks = Ranks::from(&graph, &leaves);
        if let Some(switch) = graph.switches().find(|&switch| ranks.of(switch) == UNRANKED) {
            let guid = input.fabric.switch(switch).guid();
            let text = format!("switch {guid} has no path to a switch with hosts");
            return Err(RoutingError::new(NAME, Note::error("AE0B", text)));
        }
        let connect_roots = input.options.connect_roots;
        let structure = ranks.structure();
        let mut rule = DownUp { ranks, penalty: 0 };
        if connect_roots {
            rule.penalty = rule.most_hops(&graph).saturating_add(1);
        }
        let balanced = Balancing {
            rule: Some(Arc::new(rule)),
            properties: RouteProperties {
                avoids_loops: !connect_roots,
                may_omit_switch_routes: true,
                may_use_uncabled_ports: false,
                unrouted_remedy: (!connect_roots).then_some(
                    "connect_roots allows other paths, and nue and minhop reach all hosts",
                ),
                dumps: Vec::new(),
                structure,
            },
            ..Balancing::of_shortest_paths(NAME, input, &self.lists, &graph)
        }
        .route();
        let refuses_gaps = input.options.refuse_faulty_routes;
        match balanced.gap_of_hosts(input.fabric).filter(|_| refuses_gaps) {
            None => Ok(balanced.routing),
            Some(gap) => {
                let what = gap.describe(input.fabric, input.lids);
                let text = format!(
                    "{what}: none that goes up first and then down; connect_roots allows others"
                );
                Err(RoutingError::new(NAME, Note::error("AE0E", text)))
            }
        }
    }
}

/// The hops over paths that go up first and then down.
#[derive(Clone, Debug)]
struct DownUp {
    ranks: Ranks,
    /// Extra hops of a turn from down to up; 0 forbids it.
    penalty: u8,
}

impl DownUp {
    /// The most hops that the search gives to any link without the penalty, as OpenSM counts them.
    fn most_hops(&self, graph: &SwitchGraph) -> u8 {
        let targets: Vec<SwitchId> = graph.switches().collect();
        targets
            .into_par_iter()
            .map_init(TargetHops::default, |hops, target| self.search(graph, target, hops))
            .max()
            .unwrap_or(0)
    }
}

impl HopRule for DownUp {
    fn hops_to(&self, graph: &SwitchGraph, target: SwitchId, hops: &mut TargetHops) {
        self.search(graph, target, hops);
    }
}

impl DownUp {
    /// Searches from the destination against the direction of the packets. `Greater` is a link to a
    /// higher rank, which packets take downwards. Returns the most hops that any link was given.
    fn search(&self, graph: &SwitchGraph, target: SwitchId, hops: &mut TargetHops) -> u8 {
        hops.reset(graph, target);
        let mut most = 0;
        let mut arrival = vec![Ordering::Greater; graph.len()];
        let mut is_waiting = vec![false; graph.len()];
        let mut queue = VecDeque::from([target]);
        while let Some(switch) = queue.pop_front() {
            is_waiting[switch.index()] = false;
            for (index, link) in graph.numbered_links(switch) {
                let direction = self.ranks.of(link.to).cmp(&self.ranks.of(switch));
                let mut hops_here = hops.least[switch.index()];
                let back = graph.reverse(index);
                let before = hops.by_link[back];
                if arrival[switch.index()] == Ordering::Less && direction == Ordering::Greater {
                    if self.penalty == 0 {
                        continue;
                    }
                    hops_here = hops_here.saturating_add(self.penalty);
                    if hops_here >= MAX_HOPS {
                        continue;
                    }
                }
                let next = hops_here.saturating_add(1);
                if next >= before {
                    continue;
                }
                hops.set(link.to, back, next);
                most = most.max(next);
                if !std::mem::replace(&mut is_waiting[link.to.index()], true) {
                    arrival[link.to.index()] = direction;
                    queue.push_back(link.to);
                }
            }
        }
        most
    }
}
