//! Conditions that hold once a fabric has been quiet for a while: the state of the devices,
//! compared with the fabric as it is, not with what the subnet manager believes.

use super::members::Member;
use super::scenario::Scenario;
use super::vports;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use testkit::dice::Dice;
use testkit::multicast::MulticastTrees;
use testkit::planning::PlanSetup;
use testkit::sa_client::{Client, DEFAULT_PREFIX, path_query, with_tid};
use testkit::{SimCluster, Sm};
use torus_sm::fabric::Fabric;
use torus_sm::fabric::synthetic::SyntheticView;
use torus_sm::fabric::topology::Topology;
use torus_sm::ids::{Guid, Lid, PortNum, Sl};
use torus_sm::plan::lids::Memory;
use torus_sm::plan::routing::torus::{Coordinates, Torus};
use torus_sm::plan::routing::{Lft, Routing};
use torus_sm::publish::Subnet;
use torus_sm::verify::{Checks, Summary, verify};
use torus_sm::wire::attr::{NodeKind, PortState, SmState};
use torus_sm::wire::mad::{Header, Status};
use torus_sm::wire::record::{PathRecord, Record};
use torus_sm::wire::sa::DATA_OFFSET;

const P1: PortNum = PortNum(1);
/// Faults of one kind that a check describes.
const MAX_DESCRIBED: usize = 4;
/// Pairs of hosts whose path records a check requests.
const PATH_QUERIES: u64 = 6;

thread_local! {
    /// Number of checks on this thread of a torus with repaired routes.
    static REPAIRED: Cell<usize> = const { Cell::new(0) };
}

/// Number of checks on this thread that found a torus with repaired routes.
pub(super) fn repaired_checks() -> usize {
    REPAIRED.with(Cell::get)
}

/// An end port: node GUID and port number.
type EndPort = (Guid, PortNum);

/// A host, its switch and the coordinates of that.
type Place = (Guid, Guid, Option<Coordinates>);

/// State that earlier checks saw, and later ones must see again.
#[derive(Default)]
pub(super) struct Memories {
    lids: HashMap<EndPort, (Lid, u8)>,
    /// SLs of the paths between hosts as torus-2QoS gave them, by hint. A host is known by its
    /// switch and the place of that in the torus, too: hosts may move, and after cables between
    /// switches were exchanged, torus-2QoS may place the switches otherwise.
    path_sls: HashMap<([Place; 2], u8), Sl>,
}

/// The part of the fabric that the subnet manager can reach.
struct Reachable {
    topology: Topology,
    /// Index of the subnet manager's node.
    local: usize,
}

impl Reachable {
    fn of(cluster: &SimCluster) -> Self {
        let home = cluster.shape.host_guid([0; 3], 0);
        let links = cluster.fabric.links();
        let mut known = BTreeSet::from([home]);
        let mut next = vec![home];
        while let Some(guid) = next.pop() {
            let ends = links.iter().flat_map(|&[a, b]| [(a.0, b.0), (b.0, a.0)]);
            for (_, peer) in ends.filter(|&(near, _)| near == guid) {
                if known.insert(peer) {
                    next.push(peer);
                }
            }
        }
        let all = cluster.topology.nodes.iter();
        let nodes: Vec<_> = all.filter(|node| known.contains(&node.guid)).cloned().collect();
        let index = |guid: Guid| nodes.iter().position(|node| node.guid == guid);
        let cables =
            links.iter().filter_map(|&[a, b]| Some([(index(a.0)?, a.1), (index(b.0)?, b.1)]));
        let cables = cables.collect();
        let local = index(home).expect("it reaches itself");
        let mut topology = Topology { nodes, cables, ..Topology::default() };
        topology.normalize();
        Self { topology, local }
    }

    fn guid(&self, node: usize) -> Guid {
        self.topology.nodes[node].guid
    }

    fn hosts(&self) -> Vec<Guid> {
        let hosts = self.topology.nodes.iter().filter(|node| node.kind == NodeKind::Ca);
        hosts.map(|node| node.guid).collect()
    }

    fn end_ports(&self) -> Vec<EndPort> {
        let num = |kind| if kind == NodeKind::Switch { PortNum(0) } else { P1 };
        self.topology.nodes.iter().map(|node| (node.guid, num(node.kind))).collect()
    }

    fn cables(&self) -> BTreeSet<[(Guid, PortNum); 2]> {
        let end = |(node, num): (usize, PortNum)| (self.guid(node), num);
        self.topology.cables.iter().map(|&[a, b]| sorted([end(a), end(b)])).collect()
    }
}

fn sorted(mut ends: [(Guid, PortNum); 2]) -> [(Guid, PortNum); 2] {
    ends.sort();
    ends
}

/// Faults found, at most [`MAX_DESCRIBED`] of a kind.
#[derive(Default)]
struct Findings(Vec<String>);

impl Findings {
    fn add(&mut self, faults: impl Iterator<Item = String>) {
        self.0.extend(faults.take(MAX_DESCRIBED));
    }
}

/// Faults of the devices' state; empty if there are none.
pub(super) async fn check(
    scenario: &Scenario,
    cluster: &SimCluster,
    sm: &Sm,
    members: &[Member],
    memories: &mut Memories,
) -> Vec<String> {
    let reachable = Reachable::of(cluster);
    if reachable.cables().is_empty() {
        // The port of the subnet manager is down: it waits for the link.
        return Vec::new();
    }
    if sm.state() != SmState::Master {
        return vec![format!("the subnet manager is {:?}", sm.state())];
    }
    let planned = plan_offline(scenario, cluster, &reachable);
    if let Some(refused) = sm.refused.borrow().clone() {
        return match planned {
            Ok((engine, _)) => {
                vec![format!("refused, but {engine} routes it: {:?}", refused.notes)]
            }
            Err(_) if refused.notes.is_empty() => vec!["refused without a reason".to_owned()],
            Err(_) => Vec::new(),
        };
    }
    let Some(subnet) = sm.subnet.borrow().clone() else { return vec!["no SUBNET UP".to_owned()] };
    let mut found = Findings::default();
    let planned = planned.map(|(engine, left_out)| {
        if left_out != left_out_of(&subnet.fabric, &subnet.summary) {
            found.0.push("other ports are left out than by an offline plan".to_owned());
        }
        engine
    });
    match planned {
        Ok(engine) if engine != subnet.plan.routing.engine => {
            found.0.push(format!("routed by {}, not {engine}", subnet.plan.routing.engine));
        }
        Ok(_) => {}
        Err(reason) => found.0.push(format!("routed, though an offline plan fails: {reason}")),
    }
    if subnet.failed_sets > 0 {
        found.0.push(format!("{} Sets failed", subnet.failed_sets));
    }
    check_snapshot(&reachable, &subnet.fabric, &mut found);
    check_states(cluster, &reachable, &mut found);
    let lids = check_lids(scenario, cluster, &reachable, memories, &mut found);
    if found.0.is_empty() {
        let mut tables = Vec::new();
        cluster.compare_tables(&subnet, &mut tables);
        found.add(tables.into_iter());
        let mut tables = Vec::new();
        cluster.compare_multicast_tables(&subnet, &mut tables);
        found.add(tables.into_iter());
        // A plan with ports left out gives the reason for each; its other ports are connected.
        let left_out = left_out_of(&subnet.fabric, &subnet.summary);
        let lids: Vec<_> =
            lids.into_iter().filter(|((guid, _), _)| !left_out.contains(guid)).collect();
        let is_repaired = Torus::of(&subnet.plan.routing).is_some_and(|it| it.repair().is_some());
        REPAIRED.with(|count| count.set(count.get() + usize::from(is_repaired)));
        check_pairs(cluster, &subnet, &lids, &mut found);
        check_loops(scenario, cluster, &subnet, &mut found);
        check_path_sls(&reachable, &subnet, &left_out, memories, &mut found);
        if left_out.is_empty() && !subnet.fabric.switches().is_empty() {
            check_members(cluster, &reachable, members, &mut found);
        }
    }
    if scenario.has_vports() {
        found.add(vports::faults(cluster, &reachable.hosts()).into_iter());
    }
    if found.0.is_empty() && subnet.summary.left_out.is_empty() {
        check_path_records(scenario, cluster, &reachable, &subnet, &mut found).await;
    }
    found.0
}

/// GUIDs of the end ports that a plan leaves without routes, which it gives reasons for.
fn left_out_of(fabric: &Fabric, summary: &Summary) -> BTreeSet<Guid> {
    summary.left_out.iter().map(|&port| fabric.node_of(port).guid()).collect()
}

/// The engine that routes the reachable part of the fabric, planned from scratch, and the end ports
/// that it leaves without routes.
fn plan_offline(
    scenario: &Scenario,
    cluster: &SimCluster,
    reachable: &Reachable,
) -> Result<(&'static str, BTreeSet<Guid>), String> {
    let view = SyntheticView { hardware: scenario.hardware.clone(), ..SyntheticView::default() };
    let fabric = Fabric::from_topology(&reachable.topology, reachable.local, &view);
    let setup = PlanSetup {
        fabric: fabric.ok_or("no fabric")?,
        options: scenario.options(cluster),
        memory: Memory::default(),
        torus_conf: scenario.shape.torus_conf(),
    };
    let plan = setup.plan(&[]).map_err(|error| format!("{error:?}"))?;
    let engine = plan.routing.engine;
    let verified = verify(&setup.fabric, plan, &Checks::new(scenario.qos));
    let verified = verified.map_err(|failure| failure.to_string())?;
    Ok((engine, left_out_of(&setup.fabric, verified.summary())))
}

/// The snapshot must have the nodes and cables that are reachable, and no others.
fn check_snapshot(reachable: &Reachable, snapshot: &Fabric, found: &mut Findings) {
    let known: BTreeSet<Guid> = snapshot.nodes().iter().map(|node| node.guid()).collect();
    let there: BTreeSet<Guid> = reachable.topology.nodes.iter().map(|node| node.guid).collect();
    found.add(there.difference(&known).map(|guid| format!("{guid} is not known")));
    found.add(known.difference(&there).map(|guid| format!("{guid} is taken for alive")));
    let end = |id| {
        let port = snapshot.port(id);
        (snapshot.node_of(id).guid(), port.num)
    };
    let peers = snapshot.port_ids().filter_map(|id| Some((id, snapshot.port(id).peer?)));
    let seen: BTreeSet<_> = peers.map(|(id, peer)| sorted([end(id), end(peer)])).collect();
    let there = reachable.cables();
    found.add(there.difference(&seen).map(|cable| format!("the cable {cable:?} is not known")));
    found.add(seen.difference(&there).map(|cable| format!("the cable {cable:?} is gone")));
}

/// Every reachable port must be ACTIVE.
fn check_states(cluster: &SimCluster, reachable: &Reachable, found: &mut Findings) {
    let ends = reachable.cables().into_iter().flatten();
    let state = |(guid, num)| cluster.fabric.port_info(guid, num).expect("a port").port_state();
    let wrong = ends.filter(|&end| state(end) != PortState::Active);
    found.add(wrong.map(|(guid, num)| format!("{guid}[{num}] is {}", state((guid, num)))));
}

/// Every reachable end port must have the LIDs that it had, and no other port has them.
fn check_lids(
    scenario: &Scenario,
    cluster: &SimCluster,
    reachable: &Reachable,
    memories: &mut Memories,
    found: &mut Findings,
) -> Vec<(EndPort, Vec<Lid>)> {
    let mut owners = BTreeMap::new();
    let mut lids = Vec::new();
    for (guid, num) in reachable.end_ports() {
        let info = cluster.fabric.port_info(guid, num).expect("a port");
        let base = info.lid();
        let lmc = info.lmc();
        let own: Vec<Lid> = (0..1 << lmc).map(|path| Lid(base.0 + path)).collect();
        for &lid in &own {
            if let Some(other) = owners.insert(lid, guid) {
                found.add(std::iter::once(format!("{guid} and {other} have LID {lid}")));
            }
        }
        if num == P1 && lmc != scenario.lmc {
            found.add(std::iter::once(format!("{guid} has LMC {lmc}")));
        }
        let before = *memories.lids.entry((guid, num)).or_insert((base, lmc));
        if base == Lid(0) || before != (base, lmc) {
            let text = format!("{guid} has LID {base} LMC {lmc}, not {} {}", before.0, before.1);
            found.add(std::iter::once(text));
        }
        lids.push(((guid, num), own));
    }
    lids
}

/// GUIDs of the hosts that the subnet manager can reach.
pub(super) fn reachable_hosts(cluster: &SimCluster) -> Vec<Guid> {
    Reachable::of(cluster).hosts()
}

/// True if the published subnet has a route between all end ports.
pub(super) fn is_connected(sm: &Sm) -> bool {
    sm.subnet.borrow().as_ref().is_some_and(|subnet| {
        let has_all =
            subnet.plan.routing.policy.unrouted_switches().is_none_or(|pairs| pairs.is_empty());
        has_all && subnet.summary.left_out.is_empty()
    })
}

/// True for a pair of nodes that a repaired torus leaves without a route, by its own account.
fn is_unrouted(subnet: &Subnet, from: Guid, to: Guid) -> bool {
    let switch = |guid: Guid| {
        let node = subnet.fabric.node_by_guid(guid)?;
        let fabric = &subnet.fabric;
        fabric.node(node).switch.or_else(|| fabric.switch_behind(fabric.port_of(node, P1)?))
    };
    let (Some(from), Some(to)) = (switch(from), switch(to)) else { return false };
    let unrouted = subnet.plan.routing.policy.unrouted_switches();
    unrouted.is_some_and(|pairs| pairs.contains(&[from, to]))
}

/// Packets from every end port must arrive at every LID, by the tables in the devices.
fn check_pairs(
    cluster: &SimCluster,
    subnet: &Subnet,
    lids: &[(EndPort, Vec<Lid>)],
    found: &mut Findings,
) {
    let ports: Vec<EndPort> = lids.iter().map(|&(port, _)| port).collect();
    let mut broken = Vec::new();
    for ((to, _), own) in lids {
        for &lid in own {
            let cut_off = cluster.fabric.cut_off(&ports, lid, true).into_iter();
            broken.extend(
                cut_off
                    .filter(|&(from, _)| !is_unrouted(subnet, from, *to))
                    .map(|(guid, num)| format!("nothing from {guid}[{num}] reaches {to} ({lid})")),
            );
        }
    }
    found.add(broken.into_iter());
}

/// The forwarding tables in the devices must pass verification, without a credit loop where the
/// engine excludes them.
fn check_loops(scenario: &Scenario, cluster: &SimCluster, subnet: &Subnet, found: &mut Findings) {
    let guid = |switch| subnet.fabric.switch(switch).guid();
    let read =
        |switch| Arc::new(Lft::from(&cluster.fabric.lft(guid(switch)).expect("a switch")[..]));
    let planned = &subnet.plan.routing.lfts;
    // A switch without routes keeps entries of before, which lead to nobody.
    let has_routes = |lft: &Lft| lft.top().is_some();
    let tables = subnet.fabric.switch_ids().zip(planned);
    let tables =
        tables.map(|(switch, lft)| if has_routes(lft) { read(switch) } else { lft.clone() });
    let lfts = tables.collect();
    let routing = Routing { lfts, ..(*subnet.plan.routing).clone() };
    let mut plan = (*subnet.plan).clone();
    plan.routing = Arc::new(routing);
    if let Err(failure) = verify(&subnet.fabric, plan, &Checks::new(scenario.qos)) {
        found.0.push(format!("the tables in the devices: {failure}"));
    }
}

/// The SLs of paths between hosts must stay.
fn check_path_sls(
    reachable: &Reachable,
    subnet: &Subnet,
    left_out: &BTreeSet<Guid>,
    memories: &mut Memories,
    found: &mut Findings,
) {
    let Some(torus) = Torus::of(&subnet.plan.routing) else { return };
    let port = |guid: &Guid| {
        let node = subnet.fabric.node_by_guid(*guid)?;
        let port = subnet.fabric.port_of(node, P1)?;
        let switch = subnet.fabric.switch_behind(port)?;
        let place = (*guid, subnet.fabric.switch(switch).guid(), torus.coordinates(switch));
        Some((place, port))
    };
    let all = reachable.hosts();
    let hosts: Vec<_> =
        all.iter().filter(|guid| !left_out.contains(guid)).filter_map(port).collect();
    let mut changed = Vec::new();
    for &(from, source) in &hosts {
        for &(to, destination) in &hosts {
            for hint in [0, 8] {
                let sl = subnet.plan.routing.policy.path_sl(source, destination, Sl(hint));
                let before = *memories.path_sls.entry(([from, to], hint)).or_insert(sl);
                if before != sl {
                    let from = from.0;
                    let to = to.0;
                    changed.push(format!("the SL from {from} to {to} was {before} and is {sl}"));
                }
            }
        }
    }
    found.add(changed.into_iter());
}

/// The multicast trees in the devices must connect all members that are reachable.
fn check_members(
    cluster: &SimCluster,
    reachable: &Reachable,
    members: &[Member],
    found: &mut Findings,
) {
    let trees = MulticastTrees::read(&cluster.fabric, &reachable.topology);
    let hosts: BTreeSet<Guid> = reachable.hosts().into_iter().collect();
    let mut groups = BTreeMap::<_, BTreeSet<Guid>>::new();
    for member in members.iter().filter(|member| hosts.contains(&member.host)) {
        for &group in &member.groups {
            match member.mlid(group) {
                Some(mlid) => drop(groups.entry(mlid).or_default().insert(member.host)),
                None => found.0.push(format!("{} has not joined group {group}", member.host)),
            }
        }
    }
    for (mlid, wanted) in groups.iter().filter(|(_, wanted)| wanted.len() > 1) {
        match trees.members(*mlid) {
            Ok(reached) => found.add(
                wanted.difference(&reached).map(|host| format!("{mlid} does not reach {host}")),
            ),
            Err(fault) => found.0.push(fault),
        }
    }
}

/// Path records between random hosts must have the LIDs in the devices and the SL of the plan.
async fn check_path_records(
    scenario: &Scenario,
    cluster: &SimCluster,
    reachable: &Reachable,
    subnet: &Subnet,
    found: &mut Findings,
) {
    let hosts = reachable.hosts();
    let dice = &mut Dice::new(scenario.seed);
    let asking = Client::attach(&cluster.fabric, dice.pick(&hosts));
    for query in 0..PATH_QUERIES {
        let from = dice.pick(&hosts);
        let to = dice.pick(&hosts);
        let port_guid = |guid: Guid| Guid(guid.0 + 1);
        let mad =
            with_tid(path_query(DEFAULT_PREFIX, [port_guid(from), port_guid(to)]), 1000 + query);
        asking.send(&mad, Duration::from_secs(1), 3);
        let Some(reply) = asking.reply().await.1 else {
            found.0.push(format!("no reply to a path query from {from} to {to}"));
            return;
        };
        let status = Header::read(&reply).status();
        if status != Status::OK {
            if !is_unrouted(subnet, from, to) {
                found.0.push(format!("path query from {from} to {to}: status 0x{status:04x}"));
            }
            continue;
        }
        let record = PathRecord::parse(&reply[DATA_OFFSET..]);
        let lid = |guid| cluster.fabric.port_info(guid, P1).expect("a port").lid();
        let id = |guid| {
            let node = subnet.fabric.node_by_guid(guid)?;
            subnet.fabric.port_of(node, P1)
        };
        if (record.slid(), record.dlid()) != (lid(from), lid(to)) {
            let slid = record.slid();
            let dlid = record.dlid();
            found.0.push(format!("the path from {from} to {to} has LIDs {slid} and {dlid}"));
        }
        let (Some(source), Some(destination)) = (id(from), id(to)) else { continue };
        let sl = subnet.plan.routing.policy.path_sl(source, destination, Sl(0));
        if from != to && record.sl() != sl {
            found.0.push(format!("the path from {from} to {to} has SL {}, not {sl}", record.sl()));
        }
    }
}
