//! Derives the proof of a plan that passed an incremental check from the earlier proof and the
//! additions.
//!
//! Nothing is checked again. The new proof contains the triples and dependencies of both plans
//! except those of lost cables, and upper bounds of the path lengths. The excess disappears with
//! the next full check.

use super::changed_routes::ChangedRoutes;
use super::check::Additions;
use super::fault_free::is_more_complete;
use crate::fabric::Fabric;
use crate::ids::Lid;
use crate::plan::routing::Lft;
use crate::verify::endpoints::DestinationTree;
use crate::verify::proof::{Proof, ProvenDependencies, ProvenRoutes};
use crate::verify::verdict::Verified;
use std::sync::Arc;

impl Additions {
    /// The proof of the plan with these additions to `proof`; `None` if it has a cycle.
    pub(super) fn added_to(
        self,
        proof: &Proof,
        fabric: &Arc<Fabric>,
        verified: &Verified,
    ) -> Option<Proof> {
        let mut trees = trees_after(proof, verified, &self);
        let mut destinations = proof.routes.destinations.clone();
        let new = &self.new_destinations;
        if !new.destinations.is_empty() {
            let known = Arc::make_mut(&mut destinations);
            new.destinations.iter().for_each(|&to| known[to.lid.index()] = Some(to));
            new.trees.iter().for_each(|&tree| trees[tree.lid.index()] = Some(tree));
        }
        let lost = &self.changes.ports;
        let mut network = proof.network.clone();
        let mut packed = proof.packed.clone();
        if !lost.is_empty() {
            network = Arc::new(network.without(lost));
            packed = Arc::new(network.packed());
        }
        let mut triples = proof.dependencies.triples.shared();
        for (&(channel, input, next), &sls) in &self.triples {
            let hop = network.hop_of(channel);
            triples.add(hop.channel_sets(), input, next, sls);
        }
        let mut cdg = (*proof.dependencies.cdg).clone();
        self.dependencies.iter().for_each(|&(from, to)| cdg.add(from, to));
        for &channel in &self.changes.channels {
            triples.remove_channel(&network, channel);
            cdg.remove_channel(&network, channel);
        }
        let fault_free = proof.fault_free.clone();
        Some(Proof {
            fabric: fabric.clone(),
            plan: verified.plan().clone(),
            routes: ProvenRoutes {
                tables: Arc::new(tables_after(proof, verified)),
                groups: verified.plan().multicast.clone(),
                destinations,
                trees: Arc::new(trees),
                sources: proof.routes.sources.clone(),
            },
            dependencies: ProvenDependencies::new(&network, triples, cdg)?,
            network,
            packed,
            group_notes: self.group_notes,
            summary: verified.summary().clone(),
            fault_free: fault_free.filter(|fault_free| is_more_complete(fault_free, fabric)),
            ..proof.clone()
        })
    }
}

/// The tables of the new plan, with empty ones for removed switches.
fn tables_after(proof: &Proof, verified: &Verified) -> Vec<Arc<Lft>> {
    let plan = verified.plan();
    let mut tables = plan.routing.lfts.clone();
    let max = plan.lids.max();
    tables.resize(proof.routes.tables.len(), Arc::new(Lft::empty(max)));
    tables
}

/// The trees of the new plan. A tree whose entries changed differently from those of its leader
/// becomes its own leader.
fn trees_after(
    proof: &Proof,
    verified: &Verified,
    additions: &Additions,
) -> Vec<Option<DestinationTree>> {
    let routes = ChangedRoutes::new(proof, verified.plan(), &additions.changes);
    let longest = additions.longest.min(u16::MAX.into()) as u16;
    let trees = proof.routes.trees.iter();
    trees.map(|tree| tree.as_ref().map(|tree| tree_after(&routes, tree, longest))).collect()
}

fn tree_after(routes: &ChangedRoutes<'_>, tree: &DestinationTree, longest: u16) -> DestinationTree {
    let leads = (is_changed(routes, tree.lid) || is_changed(routes, tree.leader))
        && !routes.follows_leader(*tree);
    DestinationTree {
        lid: tree.lid,
        leader: if leads { tree.lid } else { tree.leader },
        longest: if is_changed(routes, tree.lid) {
            tree.longest.max(longest)
        } else {
            tree.longest
        },
    }
}

fn is_changed(routes: &ChangedRoutes<'_>, lid: Lid) -> bool {
    !routes.of(lid).is_empty()
}

#[cfg(test)]
mod tests {
    use super::super::choose::{Known, prove, prove_after, verify_with};
    use super::*;
    use crate::config::options::Options;
    use crate::config::torus::TorusConfig;
    use crate::fabric::SwitchId;
    use crate::fabric::difference::Difference;
    use crate::fabric::synthetic::SyntheticView;
    use crate::plan::Plan;
    use crate::plan::compute::{PlanInput, Registrations, compute};
    use crate::plan::lids::Memory;
    use crate::plan::partitions;
    use crate::plan::routing::Routing;
    use crate::plan::routing::chain::{Chain, EngineRegistry};
    use crate::plan::tests::with_vports;
    use crate::sim::generate::Shape;
    use crate::verify::dependency_graph::ChainRanks;
    use crate::verify::dependency_graph::DependencyGraph;
    use crate::verify::endpoints::Endpoint;
    use crate::verify::full::unicast;
    use crate::verify::network::SwitchNetwork;
    use crate::verify::triples::{CollectedTriples, LOCAL_INPUT, TripleSls};
    use crate::verify::verdict::{Checks, Extent};
    use std::path::Path;

    fn planned(shape: &Shape, conf: &str) -> (Arc<Fabric>, Plan) {
        routed(shape, conf).expect("it is routed")
    }

    fn routed(shape: &Shape, conf: &str) -> Option<(Arc<Fabric>, Plan)> {
        let (fabric, plan, _) = remembering(shape, conf, &Memory::default())?;
        Some((fabric, plan))
    }

    /// [`routed`] with the LIDs of `memory`; also returns the memory for the next plan.
    fn remembering(
        shape: &Shape,
        conf: &str,
        memory: &Memory,
    ) -> Option<(Arc<Fabric>, Plan, Memory)> {
        plan_of(unplanned(shape), conf, memory)
    }

    fn unplanned(shape: &Shape) -> Fabric {
        let topology = shape.build().expect("it fits");
        Fabric::from_topology(&topology, 0, &SyntheticView::default()).expect("a node")
    }

    fn plan_of(fabric: Fabric, conf: &str, memory: &Memory) -> Option<(Arc<Fabric>, Plan, Memory)> {
        let options = Options { qos: true, ..Options::default() };
        let chain =
            Chain::parse("torus-2QoS,no_fallback", &EngineRegistry::standard(Arc::default()));
        let input = PlanInput {
            fabric: &fabric,
            options: &options,
            memory,
            torus_config: &TorusConfig::parse(Path::new("torus-2QoS.conf"), conf),
            partitions: &partitions::default(&options),
            observed_pkeys: &[],
            registrations: Registrations::default(),
            previous: None,
            reregister: &|_| false,
            chain: &chain.expect("an engine"),
            qos_policy: None,
        };
        let planned = compute(&input).ok()?;
        Some((Arc::new(fabric), planned.plan, planned.memory))
    }

    /// Asserts that each triple of the new plan is in the proof or among the added ones.
    fn assert_complete(proof: &Proof, fabric: &Fabric, plan: &Plan, added: &TripleSls) {
        let network = SwitchNetwork::new(fabric);
        let old = &proof.network;
        let triples = CollectedTriples::new(&network);
        unicast::check(fabric, plan, &proof.checks, &network, &triples);
        for (index, channel) in network.channels.iter().enumerate() {
            let hop = old.hop(channel.port.0);
            for (input, next, sls) in triples.of(&network, index) {
                let input = match input {
                    LOCAL_INPUT => LOCAL_INPUT,
                    input => old_rank(&network, old, channel.from, input - 1) + 1,
                };
                let next = old_rank(&network, old, channel.to, next);
                let known = proof.dependencies.triples.get(hop.channel_sets(), input, next);
                let new = added.get(&(hop.channel, input, next)).copied().unwrap_or_default();
                let place = fabric.describe(channel.port);
                assert_eq!(sls & !(known | new), 0, "{place} from {input} to {next}");
            }
        }
    }

    fn old_rank(
        network: &SwitchNetwork,
        old: &SwitchNetwork,
        switch: SwitchId,
        out_index: u16,
    ) -> u16 {
        let channel = network.out_of(switch).start + usize::from(out_index);
        old.hop(network.channels[channel].port.0).out_index
    }

    /// Asserts the invariants of a proof: it has all triples and their dependencies, ranks decrease
    /// along dependencies, path lengths are upper bounds, and leaders have the same tree.
    fn assert_sound(proof: &Proof) {
        let fabric = &*proof.fabric;
        let plan = &*proof.plan;
        assert_complete(proof, fabric, plan, &TripleSls::new());
        let network = &*proof.network;
        let cdg = &proof.dependencies.cdg;
        let implied = DependencyGraph::new(network, &proof.sl_to_vl, &proof.dependencies.triples);
        for node in 0..implied.len() as u32 {
            let known: Vec<u32> = cdg.successors(node).collect();
            assert!(implied.successors(node).all(|next| known.contains(&next)), "{node}");
            assert!(
                known.iter().all(|&next| rank(&proof.dependencies.ranks, next)
                    < rank(&proof.dependencies.ranks, node)),
                "{node}"
            );
        }
        let (_, exact) = prove(&proof.fabric, plan.clone(), &proof.checks).expect("a clean plan");
        let exact = exact.expect("no credit loop");
        for (tree, exact) in proof.routes.trees.iter().zip(&*exact.routes.trees) {
            let Some((tree, exact)) = tree.zip(*exact) else {
                assert_eq!(tree.is_some(), exact.is_some());
                continue;
            };
            assert!(tree.longest >= exact.longest, "{:?}", tree.lid);
            assert!(
                fabric.switch_ids().all(|switch| is_end(
                    &tree.lid,
                    &proof.routes.destinations,
                    switch
                ) || same(
                    &tree.lid,
                    &tree.leader,
                    &plan.routing,
                    switch
                )),
                "{:?}",
                tree.lid
            );
        }
    }

    fn rank(ranks: &Arc<ChainRanks>, node: u32) -> u32 {
        ranks.of(node)
    }

    fn same(lid: &Lid, leader: &Lid, routing: &Arc<Routing>, switch: SwitchId) -> bool {
        let table = routing.lft(switch);
        table.entry(*lid) == table.entry(*leader)
    }

    fn is_end(lid: &Lid, destinations: &Arc<Vec<Option<Endpoint>>>, table: SwitchId) -> bool {
        destinations[lid.index()].is_some_and(|to| to.switch == table.0)
    }

    /// Asserts the invariants of the proof after a repair; false if the incremental check is
    /// inconclusive.
    fn is_sound_after_repair(
        proof: &Proof,
        repaired: &(Arc<Fabric>, Plan),
        checks: &Checks,
    ) -> bool {
        let (fabric, plan) = repaired;
        let difference = Difference::between(&proof.fabric, fabric).expect("its nodes");
        let covered = proof.check_changes(fabric, plan, checks, &difference);
        covered.is_some_and(|(base, summary, additions)| {
            assert_complete(&base, fabric, plan, &additions.triples);
            let verified = Verified { plan: Arc::new(plan.clone()), summary };
            assert_sound(&additions.added_to(&base, fabric, &verified).expect("no credit loop"));
            true
        })
    }

    #[test]
    fn proofs_stay_complete_after_lost_cables_and_repairs() {
        let mut shortened = 0;
        let mut repaired = 0;
        for (radix, looped, parallel) in [
            ([6, 5, 1], [true; 3], 1),
            ([5, 1, 8], [true, true, false], 1),
            ([3, 4, 5], [true; 3], 2),
            ([4, 4, 4], [false, true, true], 1),
        ] {
            let fault_free = Shape { looped, parallel, hosts: 2, ..Shape::torus(radix) };
            let conf = fault_free.torus_conf();
            let whole = planned(&fault_free, &conf);
            let (fabric, plan) = whole.clone();
            let checks = Checks::new(true);
            let (_, proof) = prove(&fabric, plan, &checks).expect("a clean plan");
            let proof = proof.expect("no credit loop");
            let mut lost = Vec::new();
            let mut carried = proof.clone();
            for number in 0..24u16 {
                let at = [number * 5, number * 3, number * 7];
                let at = std::array::from_fn(|axis| at[axis] % radix[axis]);
                let axis = usize::from(number % 3);
                if radix[axis] == 1 || !looped[axis] {
                    continue;
                }
                lost.push((at, axis));
                // One lost cable alone or, every fourth time, one more in addition to all others.
                let (proof, lost) = match number % 4 {
                    0 => (&mut carried, lost.clone()),
                    _ => (&mut proof.clone(), vec![lost.pop().expect("it was pushed")]),
                };
                let broken = Shape { missing_links: lost, ..fault_free.clone() };
                let Some((fabric, plan)) = routed(&broken, &conf) else { continue };
                let difference = Difference::between(&proof.fabric, &fabric).expect("its nodes");
                let covered = proof.check_changes(&fabric, &plan, &checks, &difference);
                let Some((base, summary, additions)) = covered else { continue };
                assert_complete(&base, &fabric, &plan, &additions.triples);
                shortened += usize::from(!additions.triples.is_empty());
                let verified = Verified { plan: Arc::new(plan), summary };
                *proof = additions.added_to(&base, &fabric, &verified).expect("no credit loop");
                assert_sound(proof);
                if number % 4 != 0 {
                    repaired += usize::from(is_sound_after_repair(proof, &whole, &checks));
                }
            }
        }
        assert!(shortened > 20 && repaired > 5, "{shortened} {repaired}");
    }

    /// The proof after a plan for other nodes; `None` if the incremental check is inconclusive.
    fn after_other_nodes(
        proof: &Proof,
        fabric: &Arc<Fabric>,
        plan: &Plan,
        checks: &Checks,
    ) -> Option<Proof> {
        let (base, summary, additions) = proof.check_changed_nodes(fabric, plan, checks)?;
        assert_complete(&base, fabric, plan, &additions.triples);
        let verified = Verified { plan: Arc::new(plan.clone()), summary };
        let after = additions.added_to(&base, fabric, &verified).expect("no credit loop");
        assert_sound(&after);
        Some(after)
    }

    /// Vports get LIDs of their own, and lose them, while all nodes stay.
    #[test]
    fn proofs_stay_complete_after_changed_lids_of_vports() {
        let shape = Shape { hosts: 2, ..Shape::torus([4, 4, 3]) };
        let conf = shape.torus_conf();
        let checks = Checks::new(true);
        let (fabric, plan, mut memory) = with_own_lids(&shape, 0, &Memory::default(), &conf);
        let (_, proof) = prove(&fabric, plan, &checks).expect("a clean plan");
        let mut proof = proof.expect("no credit loop");
        for (index, vports) in [(1, 96), (3, 288), (2, 192), (0, 0)] {
            let (fabric, plan, after) = with_own_lids(&shape, index, &memory, &conf);
            assert_eq!(plan.lids.of_vports().count(), vports);
            let difference = Difference::between(&proof.fabric, &fabric);
            let known = Known { proof: &proof, difference: difference.as_ref() };
            let (verified, findings) =
                verify_with(&fabric, plan.clone(), &checks, Some(known)).expect("a clean plan");
            assert_eq!(verified.summary().extent, Extent::Incremental, "{vports} vports");
            proof = findings.into_proof(&fabric, &verified, &checks).expect("no credit loop");
            assert_sound(&proof);
            memory = after;
            // A vport that a switch forwards elsewhere is found.
            let Some((lid, _)) = plan.lids.of_vports().next() else { continue };
            let mut wrong = plan.clone();
            let routing = Arc::make_mut(&mut wrong.routing);
            let table = Arc::make_mut(&mut routing.lfts[0]);
            table.set(lid, table.entry(lid) % 6 + 1);
            let known = Known { proof: &proof, difference: None };
            let found = verify_with(&fabric, wrong.clone(), &checks, Some(known));
            let expected = prove(&fabric, wrong, &checks);
            assert_eq!(found.is_ok(), expected.is_ok());
        }
    }

    fn with_own_lids(
        shape: &Shape,
        index: u16,
        memory: &Memory,
        conf: &str,
    ) -> (Arc<Fabric>, Plan, Memory) {
        let mut fabric = unplanned(shape);
        with_vports(&mut fabric, 4, |vport| {
            vport.lid_required = vport.index > 0 && vport.index <= index;
        });
        plan_of(fabric, conf, memory).expect("it is routed")
    }

    #[test]
    fn proofs_stay_complete_after_removed_switches_and_their_return() {
        let mut lost = 0;
        let mut routed = 0;
        let mut second = 0;
        let mut returned = [0; 2];
        for (radix, looped, parallel) in [
            ([5, 4, 1], [true; 3], 1),
            ([5, 4, 3], [true; 3], 1),
            ([3, 3, 4], [true; 3], 2),
            ([3, 5, 1], [false; 3], 1),
            ([4, 1, 4], [true, true, false], 1),
        ] {
            let fault_free = Shape { looped, parallel, hosts: 2, ..Shape::torus(radix) };
            let conf = fault_free.torus_conf();
            let checks = Checks::new(true);
            let (whole, plan, memory) =
                remembering(&fault_free, &conf, &Memory::default()).expect("it is routed");
            let (_, proof) = prove(&whole, plan.clone(), &checks).expect("a clean plan");
            let proof = proof.expect("no credit loop");
            let [x, y, z] = radix;
            let count = radix.iter().product::<u16>();
            let without = |numbers: &[u16]| {
                let missing_switches = numbers
                    .iter()
                    .map(|&number| [number % x, number / x % y, number / (x * y)])
                    .collect();
                let broken = Shape { missing_switches, ..fault_free.clone() };
                remembering(&broken, &conf, &memory)
            };
            for number in (1..count).step_by(1 + usize::from(count / 30)) {
                let Some((fabric, broken, _)) = without(&[number]) else { continue };
                let after = after_other_nodes(&proof, &fabric, &broken, &checks);
                let Some(after) = after else { continue };
                lost += 1;
                // A proof from a full check retains the switch as well.
                let full = prove_after(&fabric, broken, &checks, Some(&proof));
                let full = full.expect("a clean plan").1.expect("no credit loop");
                assert_sound(&full);
                for (proof, returned) in [after, full.clone()].iter().zip(&mut returned) {
                    let back = after_other_nodes(proof, &whole, &plan, &checks);
                    *returned += usize::from(back.is_some());
                }
                // One more switch in the same line along z.
                let both = without(&[number, (number + x * y) % count]);
                let Some((fabric, broken, _)) = both.filter(|_| z > 1) else { continue };
                routed += 1;
                let both = after_other_nodes(&full, &fabric, &broken, &checks);
                second += usize::from(both.is_some());
            }
        }
        assert!(lost > 50 && second > 0, "{lost} {routed} {second} {returned:?}");
        assert!(returned.iter().all(|&count| count > 20), "{returned:?}");
    }
}
