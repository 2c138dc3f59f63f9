//! Routes change while switches forward by groups: after each Set of a table, plain or adaptive, an adversary
//! chooses the ports of groups. No packet circles, and no pair of hosts is parted that was not parted by the
//! fault itself.

use crate::watched_port::{SetWatch, WatchedPort};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::torus::random::Random;
use testkit::{SimCluster, seeds};
use tokio::time::sleep;
use torus_sm::config::options::Options;
use torus_sm::fabric::synthetic::Hardware;
use torus_sm::fabric::topology::Topology;
use torus_sm::ids::{Guid, Lid, PortNum, Sl};
use torus_sm::sim::generate::{FabricShape, Shape};
use torus_sm::sim::{
    AdaptiveLimits, AttributeFault, Forwarding, PacketClass, PacketFate, SimFabric, Transport,
    VendorProfile,
};
use torus_sm::wire::attr::tables::LFT_NO_PATH;
use torus_sm::wire::attr::{AttrId, NodeKind};
use torus_sm::wire::mad::Status;

const PACKET: PacketClass = PacketClass { transport: Transport::Connection, sl: Sl(0) };
/// Attributes by whose Sets packets take other ways.
const TABLES: [u16; 4] =
    [AttrId::LINEAR_FT, AttrId::AR_INFO, AttrId::AR_GROUP_TABLE, AttrId::AR_LFT];

/// The environment variable with the seeds of random faults.
const SEEDS: &str = "TORUS_SM_ADAPTIVE_TRANSITIONS";

type Pair = (Guid, Lid);

/// The checks of a fabric.
struct AdversaryWatch {
    fabric: SimFabric,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// Pairs that are parted by the fault.
    parted: BTreeSet<Pair>,
    /// Pairs that would be parted by the fault without local repair.
    parted_by_plain: BTreeSet<Pair>,
    sets: [usize; 4],
    circles: Vec<String>,
    losses: Vec<(Pair, String)>,
}

impl AdversaryWatch {
    /// From now on other pairs must stay connected.
    fn begin(&self) {
        let parted = |by| {
            let fates = self.fabric.fates(PACKET, by).into_iter();
            fates.map(|(from, lid, _)| (from, lid)).collect()
        };
        let seen = Seen {
            parted: parted(Forwarding::Adaptive),
            parted_by_plain: parted(Forwarding::Plain),
            ..Seen::default()
        };
        *self.seen.lock().expect("no panic") = seen;
    }

    /// What was seen. Pairs that the new routes do not join were lost by the plan.
    fn end(&self) -> Seen {
        let mut seen = std::mem::take(&mut *self.seen.lock().expect("no panic"));
        let fates = self.fabric.fates(PACKET, Forwarding::Adaptive).into_iter();
        let parted: BTreeSet<Pair> = fates.map(|(from, lid, _)| (from, lid)).collect();
        seen.losses.retain(|(pair, _)| !parted.contains(pair));
        seen
    }
}

impl SetWatch for AdversaryWatch {
    fn look(&self, attr_id: u16) {
        let Some(table) = TABLES.iter().position(|&id| id == attr_id) else { return };
        let mut seen = self.seen.lock().expect("no panic");
        seen.sets[table] += 1;
        let place = format!("{} {:?}", AttrId::name(attr_id), seen.sets);
        for (from, lid, fate) in self.fabric.fates(PACKET, Forwarding::Adaptive) {
            let fault = format!("{place}: {from} to LID {lid}");
            if fate == PacketFate::Circles {
                seen.circles.push(fault);
            } else if !seen.parted.contains(&(from, lid)) {
                // A switch that forwards statically for a moment has no local repair.
                let is_repaired = seen.parted_by_plain.contains(&(from, lid));
                if !is_repaired || seen.sets[1] == 0 {
                    seen.losses.push(((from, lid), fault));
                }
            }
        }
    }
}

/// A fabric with adaptive routing, and how its switches behave.
struct Stage {
    cluster: SimCluster,
    options: Options,
    /// Sets of plain tables do not switch adaptive routing off.
    survives_plain_tables: bool,
}

impl Stage {
    fn torus(shape: &str, parallel: u8, engine: &str) -> Self {
        let shape = Shape { hosts: 1, parallel, ..shape.parse().expect("a shape") };
        Self::new(SimCluster::new(shape, Hardware::default(), 1), engine)
    }

    /// A fat tree whose first host has the place of the daemon.
    fn tree(shape: &str, engine: &str) -> Self {
        let torus = Shape { hosts: 1, ..Shape::torus([3, 3, 1]) };
        let shape: FabricShape = shape.parse().expect("a shape");
        let mut topology: Topology = shape.build().expect("a fabric");
        let is_host =
            |node: &&mut torus_sm::fabric::topology::TopologyNode| node.kind == NodeKind::Ca;
        let first = topology.nodes.iter_mut().find(is_host).expect("a host");
        first.guid = torus.host_guid([0; 3], 0);
        Self::new(SimCluster::wired(torus, topology, Hardware::default(), 1), engine)
    }

    fn new(cluster: SimCluster, engine: &str) -> Self {
        let profile: VendorProfile =
            "mlnx:adaptive-routing-revised,out-of-order".parse().expect("it");
        cluster.fabric.set_vendor_profiles(profile);
        let options = Options { routing_engine: Some(engine.to_owned()), ..cluster.options() };
        Self { cluster, options, survives_plain_tables: true }
    }

    fn switches(&self) -> Vec<Guid> {
        let nodes = self.cluster.topology.nodes.iter();
        nodes.filter(|node| node.kind == NodeKind::Switch).map(|node| node.guid).collect()
    }

    /// The cables between each two switches, by one of their ends.
    fn bundles(&self) -> Vec<Vec<(Guid, PortNum)>> {
        let topology = &self.cluster.topology;
        let is_switch = |node: usize| topology.nodes[node].kind == NodeKind::Switch;
        let mut bundles: BTreeMap<[usize; 2], Vec<(Guid, PortNum)>> = BTreeMap::new();
        for [a, b] in &topology.cables {
            if is_switch(a.0) && is_switch(b.0) {
                bundles.entry([a.0, b.0]).or_default().push((topology.nodes[a.0].guid, a.1));
            }
        }
        bundles.into_values().collect()
    }

    /// Cuts and mends cables, with `trouble` before the last events. Returns what was seen of each event.
    async fn run(&self, events: usize, seed: u64, trouble: impl Fn(&SimFabric)) -> Vec<Seen> {
        let fabric = &self.cluster.fabric;
        for guid in self.switches() {
            let survives_plain_tables = self.survives_plain_tables;
            let limits = AdaptiveLimits { survives_plain_tables, ..AdaptiveLimits::default() };
            fabric.set_adaptive_limits(guid, limits);
        }
        let slot = Arc::new(Mutex::new(None));
        let same = self.options.clone();
        let reload = Box::new(move || Ok(same.clone().into()));
        let wrap = |port| -> Arc<dyn torus_sm::transport::MadPort> {
            Arc::new(WatchedPort::new(port, slot.clone()))
        };
        let _sm = self.cluster.start_behind([0; 3], self.options.clone(), reload, wrap);
        sleep(Duration::from_secs(30)).await;
        let watch = Arc::new(AdversaryWatch { fabric: fabric.clone(), seen: Mutex::default() });
        *slot.lock().expect("no panic") = Some(watch.clone());
        let bundles = self.bundles();
        let mut random = Random::new(seed);
        let mut cut: Vec<(Guid, PortNum)> = Vec::new();
        let mut all = Vec::new();
        for event in 0..events {
            if event == events / 2 {
                trouble(fabric);
            }
            if event % 3 == 2 {
                cut.drain(..).for_each(|(guid, port)| assert!(fabric.relink(guid, port)));
            } else {
                for _ in 0..=random.below(2) {
                    let bundle = &bundles[random.below(bundles.len())];
                    let count = 1 + random.below(bundle.len());
                    let cables = bundle.iter().take(count);
                    cut.extend(cables.filter(|(guid, port)| fabric.unlink(*guid, *port)));
                }
            }
            watch.begin();
            sleep(Duration::from_secs(30)).await;
            all.push(watch.end());
        }
        assert!(running(self) > 0);
        all
    }
}

/// Number of switches with adaptive routing on.
fn running(stage: &Stage) -> usize {
    let switches = stage.switches().into_iter();
    let infos = switches.filter_map(|guid| stage.cluster.fabric.adaptive(guid));
    infos.filter(|view| view.info.adaptive_routing()).count()
}

/// What was seen of several events.
struct Sums {
    /// Numbers of Sets by attribute.
    sets: [usize; 4],
    circles: Vec<String>,
    losses: Vec<String>,
}

fn sums(all: &[Seen]) -> Sums {
    let mut sets = [0; 4];
    for seen in all {
        sets.iter_mut().zip(seen.sets).for_each(|(sum, count)| *sum += count);
    }
    let circles = all.iter().flat_map(|seen| seen.circles.iter().cloned()).collect();
    let losses = all.iter().flat_map(|seen| seen.losses.iter().map(|(_, fault)| fault.clone()));
    let losses = losses.collect();
    Sums { sets, circles, losses }
}

fn stages() -> Vec<Stage> {
    vec![
        Stage::torus("4x4x1", 2, "ar_torus,no_fallback"),
        Stage::torus("5x3x1", 3, "ar_torus,no_fallback"),
        Stage::torus("3x3x2", 2, "ar_torus,no_fallback"),
        Stage::tree("fattree:2x4x3x2", "ar_updn"),
        Stage::tree("fattree:2x4x3x2", "ar_minhop"),
    ]
}

#[tokio::test(start_paused = true)]
async fn routes_change_without_loops_while_switches_choose_ports() {
    let mut kept = 0;
    for seed in seeds(SEEDS, 1..2) {
        for (stage, survives_plain_tables) in
            stages().into_iter().zip([true; 5]).chain(stages().into_iter().zip([false; 5]))
        {
            let stage = Stage { survives_plain_tables, ..stage };
            let all = stage.run(9, seed, |_| {}).await;
            let Sums { sets, circles, losses } = sums(&all);
            assert_eq!(circles, [""; 0], "{SEEDS}={seed}");
            assert_eq!(losses, [""; 0], "{SEEDS}={seed}");
            assert!(sets[0] > 0 && sets[3] > 0, "{sets:?}");
            kept += all.iter().filter(|seen| seen.sets[1] == 0 && seen.sets[0] > 0).count();
        }
    }
    assert!(kept > 0, "some changes need no switch to forward statically");
}

/// A strict transition removes entries, which has no effect on switches that forward by groups.
#[tokio::test(start_paused = true)]
async fn strict_transitions_switch_adaptive_routing_off() {
    let mut stage = Stage::torus("4x4x1", 2, "ar_torus,no_fallback");
    stage.options.strict_transitions = true;
    let Sums { sets, circles, .. } = sums(&stage.run(6, 3, |_| {}).await);
    assert_eq!(circles, [""; 0]);
    assert!(sets[1] >= 2 * 16, "all are switched off and on: {sets:?}");
}

/// A switch that is silent or refuses while it should be switched off delays no other one.
#[tokio::test(start_paused = true)]
async fn a_switch_that_cannot_be_switched_off_does_not_end_the_change() {
    let faults = [AttributeFault::Silent, AttributeFault::Refused(Status::BAD_FIELD)];
    for (fault, seed) in
        faults.into_iter().flat_map(|fault| seeds(SEEDS, 1..3).map(move |seed| (fault, seed)))
    {
        let stage = Stage::torus("4x4x1", 2, "ar_torus,no_fallback");
        let bad = stage.cluster.shape.switch_guid([2, 2, 0]);
        let trouble = |fabric: &SimFabric| {
            assert!(fabric.set_attribute_fault(bad, AttrId::AR_INFO, Some(fault)));
        };
        let all = stage.run(9, seed, trouble).await;
        let others = sums(&all[..4]);
        assert_eq!(others.circles, [""; 0], "{SEEDS}={seed}");
        assert_eq!(running(&stage), 15 + usize::from(is_on(&stage, bad)));
        let fates = stage.cluster.fabric.fates(PACKET, Forwarding::Adaptive);
        assert_eq!(fates, [], "{SEEDS}={seed}");
        assert_routes_are_static(&stage.cluster.fabric, bad);
    }
}

/// A switch that is still on has the static routes in its adaptive table.
fn assert_routes_are_static(fabric: &SimFabric, guid: Guid) {
    let plain = fabric.lft(guid).expect("a switch");
    let entries = fabric.adaptive(guid).expect("a switch").entries;
    for (lid, entry) in entries.iter().enumerate().filter(|(_, entry)| entry.port != LFT_NO_PATH) {
        assert_eq!((entry.port, entry.group), (plain[lid], 0), "LID {lid}");
    }
}

fn is_on(stage: &Stage, guid: Guid) -> bool {
    let view = stage.cluster.fabric.adaptive(guid).expect("a switch");
    view.info.adaptive_routing()
}
