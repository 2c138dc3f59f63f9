//! Routes to the LIDs of vports: each switch forwards them as the base LID of the physical port.
//!
//! Engines route physical ports only, so that vports change none of their routes.

use super::lft::{BlockPool, SHARING_TABLES};
use super::{Lft, Routing};
use crate::ids::Lid;
use crate::plan::LidTable;
use crate::wire::attr::tables::LFT_NO_PATH;
use rayon::prelude::*;
use std::sync::Arc;

/// An entry to write.
#[derive(Clone, Copy)]
struct LidEntry {
    lid: Lid,
    /// The LID with the same routes; `None` for a LID that no vport has any more.
    like: Option<Lid>,
}

impl LidEntry {
    fn port(self, table: &Lft) -> u8 {
        self.like.map_or(LFT_NO_PATH, |lid| table.entry(lid))
    }
}

/// Adds the routes to the vports of `lids`, and removes those to the vports of `before`, the LIDs of
/// earlier routes that an engine may have kept.
pub fn with_vports(
    routing: Arc<Routing>,
    lids: &LidTable,
    before: Option<&LidTable>,
) -> Arc<Routing> {
    let gone = before.into_iter().flat_map(LidTable::of_vports).map(|(lid, _)| lid);
    let gone = gone.filter(|&lid| lids.port(lid).is_none());
    let removed = gone.map(|lid| LidEntry { lid, like: None });
    let present = lids.of_vports();
    let added = present.map(|(lid, vport)| LidEntry { lid, like: lids.base(vport.physical) });
    let entries: Vec<LidEntry> = removed.chain(added).collect();
    if entries.is_empty() {
        return routing;
    }
    let tables = routing.lfts.par_chunks(SHARING_TABLES).flat_map_iter(|tables| {
        let mut pool = BlockPool::default();
        let entries = &entries;
        tables.iter().map(move |table| with_entries(table, entries, lids.max(), &mut pool))
    });
    let lfts: Vec<Arc<Lft>> = tables.collect();
    let is_same = lfts.iter().zip(&routing.lfts).all(|(new, old)| Arc::ptr_eq(new, old));
    if is_same { routing } else { Arc::new(Routing { lfts, ..Routing::clone(&routing) }) }
}

fn with_entries(
    table: &Arc<Lft>,
    entries: &[LidEntry],
    max: Lid,
    pool: &mut BlockPool,
) -> Arc<Lft> {
    let mut all = entries.iter();
    if table.has_size_for(max) && all.all(|entry| table.entry(entry.lid) == entry.port(table)) {
        return table.clone();
    }
    let mut new = Lft::clone(table);
    new.resize(max);
    let mut wanted: Vec<u8> = new.entries().collect();
    for entry in entries {
        if let Some(held) = wanted.get_mut(entry.lid.index()) {
            *held = entry.port(table);
        }
    }
    Arc::new(pool.table(&wanted, Some(&new)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::options::Options;
    use crate::fabric::Fabric;
    use crate::fabric::synthetic::SyntheticView;
    use crate::plan::Plan;
    use crate::plan::compute::{PlanInput, Planned, Registrations, compute};
    use crate::plan::lids::Memory;
    use crate::plan::partitions;
    use crate::plan::routing::chain::{Chain, EngineRegistry};
    use crate::plan::tests::{ring, with_vports};
    use crate::plan::update::{BaselineInputs, PlanBaseline, update};
    use crate::verify::{Checks, verify};

    fn fabric(lid_required: impl Fn(u16) -> bool) -> Arc<Fabric> {
        let mut fabric =
            Fabric::from_topology(&ring(4, &[]), 0, &SyntheticView::default()).expect("a fabric");
        with_vports(&mut fabric, 3, |vport| vport.lid_required = lid_required(vport.index));
        Arc::new(fabric)
    }

    /// Calls `work` with the input of a plan by an engine.
    fn with_input<T>(
        fabric: &Fabric,
        engine: &str,
        memory: &Memory,
        work: impl FnOnce(&PlanInput<'_>) -> T,
    ) -> T {
        let options = Options::default();
        let chain = Chain::parse(engine, &EngineRegistry::standard(Arc::default()));
        work(&PlanInput {
            fabric,
            options: &options,
            memory,
            torus_config: &Err(Vec::new()),
            partitions: &partitions::default(&options),
            observed_pkeys: &[],
            registrations: Registrations::default(),
            previous: None,
            reregister: &|_| false,
            chain: &chain.expect("an engine"),
            qos_policy: None,
        })
    }

    fn assert_routed(plan: &Plan, vports: usize) {
        let vport_lids: Vec<_> = plan.lids.of_vports().collect();
        assert_eq!(vport_lids.len(), vports);
        for table in &plan.routing.lfts {
            let used = table.entries().filter(|&port| port != LFT_NO_PATH).count();
            assert_eq!(used, plan.lids.iter().count(), "{}", plan.routing.engine);
            for &(lid, vport) in &vport_lids {
                let base = plan.lids.base(vport.physical).expect("a LID");
                assert_eq!(table.entry(lid), table.entry(base), "{}", plan.routing.engine);
            }
        }
    }

    #[test]
    fn all_engines_route_vports_as_their_ports() {
        for engine in ["minhop", "updn", "dnup", "dor", "lash", "sssp", "dfsssp", "nue"] {
            let fabric = fabric(|index| index == 2);
            let planned = with_input(&fabric, engine, &Memory::default(), compute);
            let plan = planned.expect("it is routed").plan;
            assert_routed(&plan, 4);
            let verified = verify(&fabric, plan, &Checks::new(false));
            assert!(verified.is_ok(), "{engine}: {:?}", verified.err());
        }
    }

    /// The incremental plan after vports got or lost LIDs equals the plan from scratch.
    #[test]
    fn an_update_adds_and_removes_vports() {
        let mut memory = Memory::default();
        let mut last: Option<(Arc<Fabric>, Planned)> = None;
        let wanted: [fn(u16) -> bool; 4] =
            [|_| false, |index| index == 1, |index| index > 0, |index| index == 2];
        for (wanted, vports) in wanted.into_iter().zip([0, 4, 8, 4]) {
            let fabric = fabric(wanted);
            let scratch = with_input(&fabric, "minhop", &memory, compute).expect("it is routed");
            assert_routed(&scratch.plan, vports);
            if let Some((old, planned)) = last {
                let (plan, state) = planned.split();
                let inputs = BaselineInputs {
                    fabric: old,
                    options: Arc::new(Options::default()),
                    partitions: Arc::new(partitions::default(&Options::default())),
                    observed_pkeys: Arc::default(),
                    memory: Memory::default(),
                };
                let baseline = PlanBaseline::new(inputs, state, Arc::new(plan));
                let updated =
                    with_input(&fabric, "minhop", &memory, |input| update(input, &baseline));
                let updated = updated.0.expect("it is routed");
                assert!(Arc::ptr_eq(&updated.plan.routing.policy, &baseline.plan.routing.policy));
                assert_eq!(updated.plan.routing.lfts, scratch.plan.routing.lfts);
                assert_eq!(updated.plan.lids, scratch.plan.lids);
                assert_eq!(updated.memory, scratch.memory);
            }
            memory = scratch.memory.clone();
            last = Some((fabric, scratch));
        }
    }
}
