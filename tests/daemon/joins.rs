//! Multicast groups that are created, deleted and changed: an incremental plan equals one from
//! scratch, and so does its verification; and a whole daemon whose hosts all join at once.

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use testkit::multicast::MulticastTrees;
use testkit::planning::PlanSetup;
use testkit::sa_client::joins;
use testkit::{SimCluster, Sm, settle};
use torus_sm::config::torus::TorusConfig;
use torus_sm::fabric::{Fabric, PortId};
use torus_sm::ids::{Guid, Mlid, PortNum, Sl};
use torus_sm::notes::Note;
use torus_sm::plan::Plan;
use torus_sm::plan::compute::{PlanInput, Registrations, compute};
use torus_sm::plan::multicast::{GroupMembers, MulticastDelta};
use torus_sm::plan::multicast_update::update_multicast;
use torus_sm::plan::partitions::{self, Partition};
use torus_sm::plan::routing::chain::{Chain, EngineRegistry};
use torus_sm::plan::update::BaselineInputs;
use torus_sm::sim::generate::Shape;
use torus_sm::verify::baseline::VerifiedBaseline;
use torus_sm::verify::multicast_delta::MulticastVerifier;
use torus_sm::verify::{Checks, Extent, Verified, VerifyFailure, verify};
use torus_sm::wire::attr::AttrId;
use torus_sm::wire::attr::tables::PkeyTable;
use torus_sm::wire::mad::Method;

// ---- plans and their verification ----

/// A fabric that is up, and the input of its plans except the groups.
struct PlanContext {
    site: PlanSetup,
    fabric: Arc<Fabric>,
    chain: Chain,
    config: Result<TorusConfig, Vec<Note>>,
    partitions: Vec<Partition>,
    pkeys: Arc<Vec<PkeyTable>>,
}

impl PlanContext {
    fn new(shape: &Shape, engine: &str) -> Self {
        let site = PlanSetup::generated(shape, engine, true);
        Self {
            fabric: Arc::new(site.fabric.clone()),
            chain: Chain::parse(engine, &EngineRegistry::standard(Arc::default()))
                .expect("an engine"),
            config: TorusConfig::parse(Path::new("torus-2QoS.conf"), &site.torus_conf),
            partitions: partitions::default(&site.options),
            pkeys: Arc::new(vec![PkeyTable::default(); site.fabric.ports().len()]),
            site,
        }
    }

    fn input<'a>(
        &'a self,
        groups: &'a [GroupMembers],
        previous: Option<&'a Plan>,
    ) -> PlanInput<'a> {
        PlanInput {
            fabric: &self.fabric,
            options: &self.site.options,
            memory: &self.site.memory,
            torus_config: &self.config,
            partitions: &self.partitions,
            observed_pkeys: &self.pkeys,
            registrations: Registrations { groups, ..Registrations::default() },
            previous,
            reregister: &|_| false,
            chain: &self.chain,
            qos_policy: None,
        }
    }

    /// The plan for these groups from scratch; `None` if the fabric cannot be routed.
    fn plan(&self, groups: &[GroupMembers]) -> Option<Plan> {
        compute(&self.input(groups, None)).ok().map(|planned| planned.plan)
    }

    fn baseline(&self, groups: &[GroupMembers], plan: &Plan) -> Option<VerifiedBaseline> {
        let inputs = BaselineInputs {
            fabric: self.fabric.clone(),
            options: Arc::new(self.site.options.clone()),
            partitions: Arc::new(self.partitions.clone()),
            observed_pkeys: self.pkeys.clone(),
            memory: self.site.memory.clone(),
        };
        VerifiedBaseline::compute(&self.input(groups, Some(plan)), inputs, &Checks::new(true), None)
    }

    fn with_groups_changed(&self, before: &Plan, change: &MulticastDelta) -> Plan {
        update_multicast(&self.fabric, &self.site.options, before, change)
    }
}

/// Groups by number whose members change; some share an MLID.
struct RandomGroups {
    groups: BTreeMap<u16, GroupMembers>,
    ends: Vec<PortId>,
}

impl RandomGroups {
    const MLIDS: [u16; 6] = [0xC000, 0xC001, 0xC001, 0xC005, 0xC3FF, 0xC001];

    fn new(fabric: &Fabric) -> Self {
        Self { groups: BTreeMap::new(), ends: fabric.end_ports().collect() }
    }

    /// A port joins as a member or as a sender, or leaves; the MLID of the group.
    fn toggle(&mut self, group: u16, pick: usize, sends: bool) -> Mlid {
        let mlid = Mlid(Self::MLIDS[usize::from(group)]);
        let port = self.ends[pick % self.ends.len()];
        let entry = self.groups.entry(group).or_insert_with(|| {
            let sl = Sl([0, 8, 3][usize::from(group) % 3]);
            GroupMembers { mlid, sl, members: Vec::new(), senders: Vec::new() }
        });
        let role = if sends { &mut entry.senders } else { &mut entry.members };
        match role.binary_search(&port) {
            Ok(place) => drop(role.remove(place)),
            Err(place) => role.insert(place, port),
        }
        mlid
    }

    fn all(&self) -> Vec<GroupMembers> {
        let groups = self.groups.values();
        groups.filter(|g| !g.members.is_empty() || !g.senders.is_empty()).cloned().collect()
    }

    fn change(&self, mlids: BTreeSet<Mlid>) -> MulticastDelta {
        let mut groups = self.all();
        groups.retain(|group| mlids.contains(&group.mlid));
        MulticastDelta { mlids, groups }
    }
}

fn assert_same_plan(one: &Plan, two: &Plan) {
    assert_eq!(one.multicast, two.multicast);
    assert_eq!(one.notes, two.notes);
    assert_eq!(one.lids, two.lids);
    assert_eq!(one.routing.lfts, two.routing.lfts);
    assert!(one.ports == two.ports && one.switch_infos == two.switch_infos);
    assert!(one.qos == two.qos);
    assert_eq!(one.partitions, two.partitions);
}

/// Asserts that verification of the changes finds the same as full verification.
fn assert_same_findings(changes: &Verified, whole: &Result<Verified, VerifyFailure>) {
    let changes = changes.summary();
    let whole = whole.as_ref().expect("it passes").summary();
    assert_eq!(changes.extent, Extent::Incremental);
    assert_eq!((changes.lids, &changes.left_out), (whole.lids, &whole.left_out));
    assert_eq!((&changes.cycle, &changes.notes), (&whole.cycle, &whole.notes));
    assert!(changes.longest_path >= whole.longest_path);
    assert!(changes.dependencies >= whole.dependencies);
}

fn shapes() -> impl Strategy<Value = Shape> {
    let radix = (3..=5u16, 3..=4u16, 1..=3u16);
    let missing = prop::option::weighted(0.3, (0..3u16, 0..3u16));
    (radix, 1..=2u8, 1..=2u8, missing).prop_map(|((x, y, z), hosts, parallel, missing)| Shape {
        hosts,
        parallel,
        missing_switches: missing.map(|(x, y)| [x, y, 0]).into_iter().collect(),
        ..Shape::torus([x, y, z])
    })
}

type Toggle = (u16, usize, bool);

fn batches() -> impl Strategy<Value = Vec<Vec<Toggle>>> {
    let toggle = (0..6u16, any::<usize>(), prop::bool::weighted(0.2));
    prop::collection::vec(prop::collection::vec(toggle, 1..12), 2..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn incremental_plans_and_verdicts_of_groups_equal_full_ones(
        shape in shapes(),
        engine in prop::sample::select(vec!["torus-2QoS,no_fallback", "minhop"]),
        batches in batches(),
    ) {
        let context = PlanContext::new(&shape, engine);
        let mut random_groups = RandomGroups::new(&context.fabric);
        let Some(mut plan) = context.plan(&[]) else { return Ok(()) };
        let baseline = context.baseline(&[], &plan).map(Arc::new);
        let mut proof =
            baseline.and_then(|known| MulticastVerifier::new(known, &context.fabric, &plan));
        let is_whole_torus = engine != "minhop" && shape.missing_switches.is_empty();
        prop_assert!(proof.is_some() || !is_whole_torus);
        for batch in batches {
            let toggle = |(group, pick, sends)| random_groups.toggle(group, pick, sends);
            let mlids = batch.into_iter().map(toggle).collect();
            let change = random_groups.change(mlids);
            let next = context.with_groups_changed(&plan, &change);
            let scratch = context.plan(&random_groups.all()).expect("groups do not prevent routing");
            assert_same_plan(&next, &scratch);
            let checks = Checks::new(true);
            let whole = verify(&context.fabric, scratch, &checks);
            let next = Arc::new(next);
            let found = proof.as_mut().and_then(|known| known.check(&context.fabric, &next, &checks));
            // SL 3 has no tree of its own in torus-2QoS, and incremental verification may reject
            // it.
            if let Some(found) = found {
                assert_same_findings(&found, &whole);
            }
            plan = Plan::clone(&next);
        }
    }

    /// Wrong entries are found by verification of the changes, unless it declines to give a
    /// verdict.
    #[test]
    fn corrupt_trees_are_rejected(
        shape in shapes(),
        joins in prop::collection::vec((0..6u16, any::<usize>()), 2..30),
        entries in prop::collection::vec((any::<usize>(), 0u8..12, any::<bool>()), 1..4),
    ) {
        let context = PlanContext::new(&shape, "torus-2QoS,no_fallback");
        let mut random_groups = RandomGroups::new(&context.fabric);
        let Some(plan) = context.plan(&[]) else { return Ok(()) };
        let Some(baseline) = context.baseline(&[], &plan).map(Arc::new) else { return Ok(()) };
        let Some(mut proof) = MulticastVerifier::new(baseline, &context.fabric, &plan) else {
            return Ok(());
        };
        let join = |(group, pick)| random_groups.toggle(group, pick, false);
        let mlids = joins.into_iter().map(join).collect();
        let mut next = context.with_groups_changed(&plan, &random_groups.change(mlids));
        let checks = Checks::new(true);
        let _ = proof.check(&context.fabric, &Arc::new(next.clone()), &checks);
        for (entry, port, is_added) in entries {
            let count = next.multicast.by_switch.iter().flatten().count();
            let tables = Arc::make_mut(&mut next.multicast);
            let mut all = tables.by_switch.iter_mut().flatten();
            let Some((_, mask)) = all.nth(entry % count.max(1)) else { continue };
            if is_added { mask.insert(port) } else { mask.remove(port) }
        }
        let whole = verify(&context.fabric, next.clone(), &checks);
        if let Some(found) = proof.check(&context.fabric, &Arc::new(next), &checks) {
            assert_same_findings(&found, &whole);
        }
    }
}

/// On a torus without faults verification of the changed trees suffices for any join.
#[test]
fn groups_of_an_intact_torus_need_no_full_verification() {
    let context = PlanContext::new(&Shape { hosts: 2, ..Shape::torus([4, 5, 3]) }, "torus-2QoS");
    let mut random_groups = RandomGroups::new(&context.fabric);
    let mut plan = Arc::new(context.plan(&[]).expect("a torus"));
    let baseline = context.baseline(&[], &plan).expect("a clean plan");
    let known = MulticastVerifier::new(Arc::new(baseline), &context.fabric, &plan);
    let mut known = known.expect("the baseline is that of the plan in force");
    for pick in 0..40 {
        let mlids = [0, 1, 3]
            .map(|group| random_groups.toggle(group, pick * (7 + usize::from(group)), false));
        let change = random_groups.change(BTreeSet::from(mlids));
        plan = Arc::new(context.with_groups_changed(&plan, &change));
        assert!(known.check(&context.fabric, &plan, &Checks::new(true)).is_some(), "join {pick}");
    }
}

// ---- a whole daemon ----

async fn up(cluster: &SimCluster) -> Sm {
    let sm = cluster.start([0, 0, 0], cluster.options());
    settle().await;
    assert_eq!(sm.engine(), "torus-2QoS");
    sm
}

/// Checks that the trees of these MLIDs lead to these hosts and no others.
fn check_trees(
    cluster: &SimCluster,
    mlids: &BTreeMap<usize, BTreeSet<Mlid>>,
    hosts: &BTreeSet<Guid>,
) {
    let tables = MulticastTrees::read(&cluster.fabric, &cluster.topology);
    for (group, mlids) in mlids {
        let [mlid] = Vec::from_iter(mlids)[..] else { panic!("group {group} has {mlids:?}") };
        assert_eq!(tables.members(*mlid).as_ref(), Ok(hosts), "group {group}");
    }
    let all: BTreeSet<Mlid> = mlids.values().flatten().copied().collect();
    assert_eq!(all.len(), mlids.len(), "each group has an MLID of its own");
}

fn mft_sets(cluster: &SimCluster) -> u64 {
    cluster.fabric.requests(AttrId::MULTICAST_FT)[1]
}

#[tokio::test(start_paused = true)]
async fn many_joins_write_few_blocks_and_leaves_release_them() {
    const GROUPS: usize = 40;
    let cluster = SimCluster::healthy("4x4x3", 2);
    let sm = up(&cluster).await;
    let empty = MulticastTrees::read(&cluster.fabric, &cluster.topology).mlids();
    let hosts = joins::hosts(&cluster.topology);
    let nodes: BTreeSet<Guid> = hosts.iter().map(|&(node, _)| node).collect();
    cluster.fabric.reset_counters();
    let tally = joins::all(&cluster.fabric, &hosts, Method::SET, GROUPS, 10).await;
    assert_eq!((tally.granted, &tally.refused[..]), (hosts.len() * GROUPS, &[][..]));
    assert_eq!(tally.unanswered, 0);
    let given: BTreeSet<Mlid> = tally.mlids.values().flatten().copied().collect();
    // Every host whose join was granted is in the tables.
    check_trees(&cluster, &tally.mlids, &nodes);
    let blocks = 48 * 2;
    let sets = mft_sets(&cluster);
    assert!((blocks..=blocks * 8).contains(&sets), "{sets} Sets for {blocks} blocks");
    let [lfts, ports] =
        [AttrId::LINEAR_FT, AttrId::PORT_INFO].map(|id| cluster.fabric.requests(id));
    assert_eq!((lfts, ports), ([0, 0], [0, 0]), "nothing else was read or written");
    assert_eq!(cluster.faults(&sm), [""; 0]);

    let (leaving, staying) = hosts.split_at(hosts.len() / 2);
    let tally = joins::all(&cluster.fabric, leaving, Method::DELETE, GROUPS, 10).await;
    assert_eq!((tally.granted, &tally.refused[..]), (leaving.len() * GROUPS, &[][..]));
    settle().await;
    let nodes = staying.iter().map(|&(node, _)| node).collect();
    check_trees(&cluster, &tally.mlids, &nodes);
    // A heavy sweep finds nothing to correct.
    assert_eq!(cluster.sets_of_another_sweep(&sm).await, 0);

    joins::all(&cluster.fabric, staying, Method::DELETE, GROUPS, 10).await;
    settle().await;
    assert_eq!(
        MulticastTrees::read(&cluster.fabric, &cluster.topology).mlids(),
        empty,
        "MLIDs are released"
    );
    assert_eq!(cluster.sets_of_another_sweep(&sm).await, 0);
    let tally = joins::all(&cluster.fabric, staying, Method::SET, 3, 1).await;
    let again: BTreeSet<Mlid> = tally.mlids.values().flatten().copied().collect();
    assert!(again.iter().eq(given.iter().take(3)), "{again:?} of {given:?}");
    assert_eq!(sm.stop().await, torus_sm::daemon::sm_loop::run::Exit::Clean);
}

#[tokio::test(start_paused = true)]
async fn a_single_join_is_answered_once_its_branch_is_written() {
    let cluster = SimCluster::healthy("4x4x1", 1);
    let sm = up(&cluster).await;
    let hosts = joins::hosts(&cluster.topology);
    let generation = sm.generation();
    for (count, host) in hosts.iter().enumerate() {
        let tally =
            joins::all(&cluster.fabric, std::slice::from_ref(host), Method::SET, 1, 1).await;
        // On the paused clock time passes only while a task waits.
        assert_eq!((tally.granted, tally.longest.as_millis()), (1, 0), "host {count}");
        let nodes = hosts[..=count].iter().map(|&(node, _)| node).collect();
        if count > 0 {
            check_trees(&cluster, &tally.mlids, &nodes);
        }
    }
    assert_eq!(sm.generation(), generation + hosts.len() as u64);
    // Unicast and multicast are routed around a link that is lost afterwards.
    let cable = (cluster.shape.switch_guid([1, 1, 0]), PortNum(1));
    assert!(cluster.fabric.unlink(cable.0, cable.1));
    settle().await;
    let mlid = *MulticastTrees::read(&cluster.fabric, &cluster.topology)
        .mlids()
        .iter()
        .max()
        .expect("one");
    let members = MulticastTrees::read(&cluster.fabric, &cluster.topology).members(mlid);
    assert_eq!(members.map(|members| members.len()), Ok(hosts.len()));
    assert_eq!(cluster.sets_of_another_sweep(&sm).await, 0);
}
