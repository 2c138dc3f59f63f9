//! `strict_transitions`: a torus changes from one repair to another without a moment in which a
//! credit loop could form.

use super::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use testkit::sa_client::joins;
use torus_sm::fabric::topology::Topology;
use torus_sm::ids::Sl;
use torus_sm::sim::SimFabric;
use torus_sm::transport::{PortIdentity, SendError};
use torus_sm::wire::attr::PortState;
use torus_sm::wire::attr::tables::LFT_NO_PATH;
use torus_sm::wire::mad::Header;

/// Time for which packets drain in these tests.
const DRAIN: Duration = Duration::from_millis(700);

/// A channel and its VL: the switch that sends, its port, and the VL.
type Lane = (Guid, u8, u8);
/// Lanes of which one may wait for the other.
type Dependencies = BTreeSet<(Lane, Lane)>;

/// Dependencies between lanes, from the tables of the devices after every Set of a forwarding table.
struct DependencyWatch {
    fabric: SimFabric,
    /// The far ends of cables between switches, and the hosts at switches.
    peers: BTreeMap<(Guid, u8), (Guid, u8)>,
    switches: Vec<Guid>,
    /// The switch of each host, with its port there.
    hosts: Vec<(Guid, Guid, u8)>,
    /// The SL of each path between hosts.
    sls: BTreeMap<(Guid, Guid), Sl>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// The dependencies after each Set, with its time.
    states: Vec<(Instant, Dependencies)>,
    /// The cycles of packets that may be in the fabric at the same time, by the number of the Set.
    cycles: Vec<usize>,
    sets: usize,
}

struct DependencyPort {
    inner: Arc<dyn MadPort>,
    watch: Arc<Mutex<Option<Arc<DependencyWatch>>>>,
}

impl MadPort for DependencyPort {
    fn identity(&self) -> &PortIdentity {
        self.inner.identity()
    }

    fn post(&self, out: &Outgoing<'_>) -> Result<(), SendError> {
        let posted = self.inner.post(out);
        let header = Header::read(out.mad);
        let is_table = [AttrId::LINEAR_FT, AttrId::MULTICAST_FT].contains(&header.attr_id());
        let watch = self.watch.lock().expect("no panic").clone();
        if let Some(watch) = watch
            && is_table
            && Method(header.method()) == Method::SET
        {
            watch.look();
        }
        posted
    }
}

impl DependencyWatch {
    /// A watch of a fabric that is up, whose paths keep their SLs.
    fn new(cluster: &SimCluster, sm: &Sm) -> Arc<Self> {
        let Topology { nodes, cables, .. } = &cluster.topology;
        let is_switch = |node: usize| nodes[node].kind == NodeKind::Switch;
        let end = |&(node, num): &(usize, PortNum)| (nodes[node].guid, num.0);
        let mut peers = BTreeMap::new();
        let mut hosts = Vec::new();
        for [a, b] in cables {
            match [a, b].map(|&(node, _)| is_switch(node)) {
                [true, true] => peers.extend([(end(a), end(b)), (end(b), end(a))]),
                [true, false] => hosts.push((end(b).0, end(a).0, end(a).1)),
                _ => hosts.push((end(a).0, end(b).0, end(b).1)),
            }
        }
        let subnet = sm.subnet.borrow().clone().expect("it is up");
        let slot = |guid: Guid| {
            let node = subnet.fabric.node_by_guid(guid).expect("a host");
            subnet.fabric.port_of(node, PortNum(1)).expect("a port")
        };
        let policy = &subnet.plan.routing.policy;
        let pairs = hosts.iter().flat_map(|from| hosts.iter().map(move |to| (from.0, to.0)));
        let sls = pairs.map(|pair| (pair, policy.path_sl(slot(pair.0), slot(pair.1), Sl(0))));
        let switches = nodes.iter().filter(|node| node.kind == NodeKind::Switch);
        Arc::new(Self {
            fabric: cluster.fabric.clone(),
            peers,
            switches: switches.map(|node| node.guid).collect(),
            sls: sls.collect(),
            hosts,
            seen: Mutex::default(),
        })
    }

    /// From now on, dependencies are recorded.
    fn begin(&self) {
        let start = Seen { states: vec![(Instant::now(), self.dependencies())], ..Seen::default() };
        *self.seen.lock().expect("no panic") = start;
    }

    /// The number of Sets, and those of them after which a credit loop was possible.
    fn end(&self) -> (usize, Vec<usize>) {
        let seen = std::mem::take(&mut *self.seen.lock().expect("no panic"));
        (seen.sets, seen.cycles)
    }

    fn look(&self) {
        let now = Instant::now();
        let mut seen = self.seen.lock().expect("no panic");
        seen.sets += 1;
        let state = self.dependencies();
        // Packets that tables forwarded which were replaced longer ago have left the fabric.
        let replaced = seen.states.iter().skip(1).map(|state| state.0);
        let replaced: Vec<Instant> = replaced.chain([now]).collect();
        let mut age = replaced.iter().map(|at| now - *at);
        seen.states.retain(|_| age.next().is_some_and(|age| age < DRAIN));
        seen.states.push((now, state));
        let all = seen.states.iter().flat_map(|(_, state)| state).copied().collect();
        if has_cycle(&all) {
            let set = seen.sets;
            seen.cycles.push(set);
        }
    }

    fn vl(&self, switch: Guid, input: u8, output: u8, sl: Sl) -> u8 {
        let row = self.fabric.sl2vl(switch, PortNum(input), PortNum(output)).expect("a mapping");
        row.vls()[usize::from(sl.0)]
    }

    /// The lane of a packet that leaves a switch, and the switch at its far end with its port there;
    /// `None` if the port leads to no switch.
    fn hop(&self, at: (Guid, u8), output: u8, sl: Sl) -> Option<(Lane, (Guid, u8))> {
        let peer = *self.peers.get(&(at.0, output))?;
        let info = self.fabric.port_info(at.0, PortNum(output))?;
        if info.port_state() != PortState::Active {
            return None;
        }
        Some(((at.0, output, self.vl(at.0, at.1, output, sl)), peer))
    }

    /// The dependencies of all packets by the tables that the devices hold.
    fn dependencies(&self) -> Dependencies {
        let mut found = Dependencies::new();
        let tables: BTreeMap<Guid, Vec<u8>> =
            self.switches.iter().map(|&at| (at, self.fabric.lft(at).expect("a table"))).collect();
        for &(to, _, _) in &self.hosts {
            let lid = self.fabric.port_info(to, PortNum(1)).expect("a port").lid();
            for &(from, first, num) in &self.hosts {
                let sl = self.sls[&(from, to)];
                let mut at = (first, num);
                let mut last = None;
                for _ in 0..=self.switches.len() {
                    let output = tables[&at.0].get(lid.index()).copied().unwrap_or(LFT_NO_PATH);
                    let Some((lane, next)) = self.hop(at, output, sl) else { break };
                    found.extend(last.map(|last| (last, lane)));
                    (at, last) = (next, Some(lane));
                }
            }
        }
        self.add_multicast(&mut found);
        found
    }

    /// Adds the dependencies of packets to multicast groups, at SL 0.
    fn add_multicast(&self, found: &mut Dependencies) {
        let masks: BTreeMap<Guid, Vec<u16>> = self
            .switches
            .iter()
            .map(|&at| (at, self.fabric.mft(at, 0).expect("a table")))
            .collect();
        let ports = |at: Guid, group: usize| {
            let mask = masks[&at].get(group).copied().unwrap_or(0);
            (1..16u8).filter(move |port| mask >> port & 1 == 1)
        };
        for group in 0..8 {
            for &at in &self.switches {
                for (input, output) in ports(at, group)
                    .flat_map(|input| ports(at, group).map(move |output| (input, output)))
                    .filter(|(input, output)| input != output)
                {
                    let Some((lane, next)) = self.hop((at, input), output, Sl(0)) else { continue };
                    for further in ports(next.0, group).filter(|&port| port != next.1) {
                        let hop = self.hop(next, further, Sl(0));
                        found.extend(hop.map(|(after, _)| (lane, after)));
                    }
                }
            }
        }
    }
}

fn has_cycle(dependencies: &Dependencies) -> bool {
    let mut left: BTreeMap<Lane, BTreeSet<Lane>> = BTreeMap::new();
    for &(lane, next) in dependencies {
        left.entry(lane).or_default().insert(next);
    }
    loop {
        let before = left.len();
        let lanes: BTreeSet<Lane> = left.keys().copied().collect();
        left.retain(|_, next| next.iter().any(|next| lanes.contains(next)));
        if left.len() == before {
            return before > 0;
        }
    }
}

fn options(cluster: &SimCluster, strict: bool) -> Options {
    Options {
        strict_transitions: strict,
        transition_drain_time: DRAIN.as_millis() as u32,
        ..cluster.options()
    }
}

/// A daemon on 6x6 without two switches, watched from now on.
async fn damaged(strict: bool) -> (SimCluster, Sm, Arc<DependencyWatch>) {
    let cluster = SimCluster::healthy("6x6x1", 1);
    let options = options(&cluster, strict);
    let slot = Arc::new(Mutex::new(None));
    let same = options.clone();
    let reload = Box::new(move || Ok(same.clone().into()));
    let sm = cluster.start_behind(ORIGIN, options, reload, |inner| {
        Arc::new(DependencyPort { inner, watch: slot.clone() })
    });
    settle().await;
    let members: Vec<_> = cluster.hosts().map(|host| (host, Guid(host.0 + 1))).collect();
    let stats = joins::all(&cluster.fabric, &members, Method::SET, 1, 1).await;
    assert_eq!(stats.granted, members.len());
    settle().await;
    let watch = DependencyWatch::new(&cluster, &sm);
    *slot.lock().expect("no panic") = Some(watch.clone());
    for at in [[1, 2, 0], [4, 4, 0]] {
        kill_switch(&cluster, at);
        sleep(Duration::from_secs(20)).await;
    }
    watch.begin();
    (cluster, sm, watch)
}

fn kill_switch(cluster: &SimCluster, at: [u16; 3]) {
    let guid = cluster.shape.switch_guid(at);
    (1..=4).for_each(|num| assert!(cluster.fabric.unlink(guid, PortNum(num))));
}

fn revive_switch(cluster: &SimCluster, at: [u16; 3]) {
    let guid = cluster.shape.switch_guid(at);
    (1..=4).for_each(|num| assert!(cluster.fabric.relink(guid, PortNum(num))));
}

fn differences(cluster: &SimCluster, sm: &Sm) -> Vec<String> {
    let mut differences = Vec::new();
    let subnet = sm.subnet.borrow().clone().expect("it is up");
    cluster.compare_tables(&subnet, &mut differences);
    cluster.compare_multicast_tables(&subnet, &mut differences);
    differences
}

/// Faults and returns, each from one repair to another; the Sets of each, and those of them after
/// which a credit loop was possible.
async fn events(strict: bool) -> Vec<(usize, Vec<usize>)> {
    let (cluster, sm, watch) = damaged(strict).await;
    let mut seen = Vec::new();
    let events: [&dyn Fn(); 5] = [
        &|| kill_switch(&cluster, [3, 1, 0]),
        &|| revive_switch(&cluster, [1, 2, 0]),
        &|| kill_switch(&cluster, [2, 4, 0]),
        &|| revive_switch(&cluster, [4, 4, 0]),
        &|| revive_switch(&cluster, [3, 1, 0]),
    ];
    for event in events {
        event();
        watch.begin();
        sleep(Duration::from_secs(30)).await;
        assert_eq!(differences(&cluster, &sm), [""; 0]);
        seen.push(watch.end());
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn no_credit_loop_is_possible_between_two_repairs() {
    for (event, (sets, cycles)) in events(true).await.into_iter().enumerate() {
        assert!(sets > 0, "event {event}");
        assert_eq!(cycles, [0; 0], "event {event}, of {sets} Sets");
    }
}

/// The events are such that old and new entries together have a credit loop.
#[tokio::test(start_paused = true)]
async fn a_usual_transition_between_two_repairs_may_deadlock() {
    let seen = events(false).await;
    assert!(seen.iter().any(|(_, cycles)| !cycles.is_empty()), "{seen:?}");
}

/// Hosts that reach one host, without those of these switches.
fn connected(cluster: &SimCluster, gone: &[[u16; 3]]) -> usize {
    let hosts: Vec<Guid> = cluster.hosts().collect();
    let gone: Vec<Guid> = gone.iter().map(|&at| cluster.shape.host_guid(at, 0)).collect();
    let left: Vec<Guid> = hosts.into_iter().filter(|host| !gone.contains(host)).collect();
    let pairs = left.iter().flat_map(|&from| left.iter().map(move |&to| (from, to)));
    let reaches = |&(from, to): &(Guid, Guid)| {
        let lid = cluster.fabric.port_info(to, PortNum(1)).expect("a port").lid();
        from != to && cluster.fabric.reaches(from, PortNum(1), lid, true)
    };
    pairs.filter(reaches).count()
}

#[tokio::test(start_paused = true)]
async fn a_fault_during_the_drain_is_routed_around_at_once() {
    let (cluster, sm, watch) = damaged(true).await;
    kill_switch(&cluster, [3, 1, 0]);
    sleep(DRAIN / 2).await;
    let gone = [[1, 2, 0], [4, 4, 0], [3, 1, 0], [2, 4, 0]];
    let during = connected(&cluster, &gone[..3]);
    assert!((1..33 * 32).contains(&during), "some pairs are disconnected: {during}");
    kill_switch(&cluster, [2, 4, 0]);
    // Packets drain again, because the second fault removes entries, too; nothing waits for both.
    sleep(DRAIN + DRAIN / 4).await;
    assert_eq!(connected(&cluster, &gone), 32 * 31);
    assert_eq!(differences(&cluster, &sm), [""; 0]);
    assert_eq!(watch.end().1, [0; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_reload_and_a_join_during_the_drain_follow_it() {
    let (cluster, sm, watch) = damaged(true).await;
    kill_switch(&cluster, [3, 1, 0]);
    sleep(DRAIN / 2).await;
    sm.tell(SmEvent::Reload);
    let host = cluster.shape.host_guid([0, 5, 0], 0);
    let leaving = [(host, Guid(host.0 + 1))];
    let stats = joins::all(&cluster.fabric, &leaving, Method::DELETE, 1, 1).await;
    assert_eq!(stats.granted, 1);
    sleep(Duration::from_secs(20)).await;
    assert_eq!(connected(&cluster, &[[1, 2, 0], [4, 4, 0], [3, 1, 0]]), 33 * 32);
    assert_eq!(differences(&cluster, &sm), [""; 0]);
    assert_eq!(watch.end().1, [0; 0]);
    assert_eq!(cluster.sets_of_another_sweep(&sm).await, 0);
}

/// A new host adds entries and changes none: nothing drains.
#[tokio::test(start_paused = true)]
async fn new_hosts_wait_for_no_drain() {
    let cluster = SimCluster::healthy("4x4x1", 1);
    let host = (cluster.shape.host_guid([2, 2, 0], 0), PortNum(1));
    assert!(cluster.fabric.unlink(host.0, host.1));
    let sm = cluster.start(ORIGIN, options(&cluster, true));
    settle().await;
    assert!(cluster.fabric.relink(host.0, host.1));
    settle().await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
}
