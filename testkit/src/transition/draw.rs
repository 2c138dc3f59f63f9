//! Random fabrics, failures and routes from a seed.

use super::Scene;
use crate::dice::Dice;
use std::collections::BTreeMap;
use std::sync::Arc;
use torus_sm::fabric::synthetic::SyntheticView;
use torus_sm::fabric::topology::{NextPorts, Topology, TopologyNode};
use torus_sm::fabric::{Fabric, PortId, SwitchId};
use torus_sm::ids::{Guid, Lid, Mlid, PortNum, Sl};
use torus_sm::plan::multicast::MulticastTables;
use torus_sm::plan::port_targets::PortTargets;
use torus_sm::plan::routing::{Lft, PortMask, Routing, RoutingPolicy};
use torus_sm::plan::{LidTable, Plan};
use torus_sm::wire::attr::{NodeKind, PortState, SwitchInfo};

/// A policy that gives every path SL 0.
pub struct Plain;

impl RoutingPolicy for Plain {
    fn path_sl(&self, _source: PortId, _destination: PortId, hint: Sl) -> Sl {
        hint
    }

    fn sl_group(&self, _port: PortId) -> u32 {
        0
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

const SWITCH: u64 = 0x100;
const HOST: u64 = 0x1000;
const MLIDS: usize = 6;

/// LIDs by port GUID.
pub type Lids = BTreeMap<Guid, Lid>;

fn node(kind: NodeKind, guid: u64, num_ports: u8) -> TopologyNode {
    TopologyNode::new(kind, Guid(guid), num_ports).described(format!("{guid:x}"))
}

/// A connected graph of switches with hosts; the first node is a host.
fn topology(dice: &mut Dice) -> Topology {
    let switches = 3 + dice.index(6);
    let mut ports = NextPorts::new(switches);
    let mut topology = Topology::default();
    let mut cables = Vec::new();
    for at in 1..switches {
        cables.push([ports.take(at), ports.take(dice.index(at))]);
    }
    for _ in 0..2 + dice.index(2 * switches) {
        let a = dice.index(switches);
        let b = dice.index(switches);
        if a != b {
            cables.push([ports.take(a), ports.take(b)]);
        }
    }
    let hosts = 2 + dice.index(6);
    for host in 0..hosts {
        cables.push([ports.take(dice.index(switches)), (switches + host, PortNum(1))]);
    }
    topology.cables = cables
        .into_iter()
        .map(|ends| ends.map(|(at, num)| ((at + hosts) % (switches + hosts), num)))
        .collect();
    topology.nodes.extend((0..hosts as u64).map(|at| node(NodeKind::Ca, HOST + at, 1)));
    // More than 16 ports, so that multicast tables have several positions.
    topology.nodes.extend((0..switches as u64).map(|at| node(NodeKind::Switch, SWITCH + at, 40)));
    topology
}

/// Updates the snapshot to a fabric in operation: all links are ACTIVE, and all devices have the
/// LIDs and LinearFDBTops of a plan.
pub fn at_work(fabric: &mut Fabric, lids: &LidTable, tops: &[SwitchInfo]) {
    let ports = fabric.end_ports().filter_map(|port| {
        let mut info = fabric.port(port).info()?;
        info.set_lid(lids.base(port)?);
        Some((port, info))
    });
    let ports: Vec<_> = ports.collect();
    let switches: Vec<_> = fabric.switch_ids().zip(tops.iter().copied()).collect();
    fabric.acknowledge(&ports, &switches);
}

/// Puts both ends of the link at a switch port into INIT.
fn darken(fabric: &mut Fabric, slot: PortId) {
    let ends = [Some(slot), fabric.port(slot).peer];
    for end in ends.into_iter().flatten() {
        let Some(mut info) = fabric.port(end).info() else { continue };
        info.set_port_state(PortState::Init);
        fabric.acknowledge(&[(end, info)], &[]);
    }
}

fn lid_table(fabric: &Fabric, lids: &Lids) -> LidTable {
    let mut table = LidTable::new(fabric.ports().len());
    for port in fabric.end_ports() {
        if let Some(&lid) = lids.get(&fabric.port(port).guid) {
            table.assign(port, lid, 0);
        }
    }
    table
}

/// Switch ports with a link to another switch, and its far end.
fn neighbours(fabric: &Fabric, switch: SwitchId) -> Vec<(u8, SwitchId)> {
    let ports = fabric.ports_of(fabric.switches()[switch.index()]);
    ports.filter_map(|port| Some((port.num.0, to(fabric, port.peer?)?))).collect()
}

fn to(fabric: &Fabric, peer: PortId) -> Option<SwitchId> {
    fabric.node_of(peer).switch
}

/// A random tree towards a switch: the output port by switch. A port of `keep` that leads into the
/// tree is mostly kept.
fn tree(
    fabric: &Fabric,
    root: SwitchId,
    keep: impl Fn(SwitchId) -> Option<u8>,
    dice: &mut Dice,
) -> Vec<Option<u8>> {
    let mut ways = vec![None; fabric.switches().len()];
    let mut is_in = vec![false; ways.len()];
    is_in[root.index()] = true;
    loop {
        let mut edges: Vec<(SwitchId, u8)> = Vec::new();
        for switch in fabric.switch_ids().filter(|at| !is_in[at.index()]) {
            let leads_in = neighbours(fabric, switch).into_iter();
            let leads_in = leads_in.filter(|(_, to)| is_in[to.index()]);
            edges.extend(leads_in.map(|(num, _)| (switch, num)));
        }
        let kept = edges.iter().copied().filter(|&(at, num)| keep(at) == Some(num));
        let kept: Vec<_> = kept.collect();
        let choice = if kept.is_empty() || dice.one_in(6) { &edges } else { &kept };
        if choice.is_empty() {
            return ways;
        }
        let (switch, num) = choice[dice.index(choice.len())];
        ways[switch.index()] = Some(num);
        is_in[switch.index()] = true;
    }
}

fn exit(fabric: &Fabric, port: PortId) -> Option<(SwitchId, u8)> {
    let switch = fabric.switch_behind(port)?;
    let is_switch = fabric.node_of(port).is_switch();
    let num = if is_switch { 0 } else { fabric.port(fabric.port(port).peer?).num.0 };
    Some((switch, num))
}

/// Routes to all LIDs by random trees, similar to those of `last` (a fabric and its plan) if given.
fn lfts(
    fabric: &Fabric,
    lids: &LidTable,
    last: Option<(&Fabric, &Plan)>,
    dice: &mut Dice,
) -> Vec<Arc<Lft>> {
    let mut tables = vec![Lft::empty(lids.max()); fabric.switches().len()];
    for (lid, port) in lids.iter() {
        let Some((root, num)) = exit(fabric, port) else { continue };
        let keep = |switch: SwitchId| {
            let (before, plan) = last?;
            let node = before.node_by_guid(fabric.switch(switch).guid())?;
            plan.routing.lft(before.node(node).switch?).out(lid)
        };
        tables[root.index()].set(lid, num);
        let ways = tree(fabric, root, keep, dice);
        for (table, way) in tables.iter_mut().zip(ways) {
            if let Some(num) = way {
                table.set(lid, num);
            }
        }
    }
    tables.into_iter().map(Arc::new).collect()
}

/// Random trees between random members.
fn groups(fabric: &Fabric, dice: &mut Dice) -> MulticastTables {
    let mut tables = MulticastTables::default();
    tables.by_switch.resize(fabric.switches().len(), Vec::new());
    let hosts: Vec<PortId> =
        fabric.end_ports().filter(|&port| !fabric.node_of(port).is_switch()).collect();
    for mlid in (0..MLIDS).map(|index| Mlid(0xC000 + 17 * index as u16)) {
        let mut masks = vec![PortMask::default(); tables.by_switch.len()];
        let members: Vec<PortId> = hosts.iter().copied().filter(|_| !dice.one_in(3)).collect();
        let Some(&first) = members.first() else { continue };
        let Some((root, _)) = exit(fabric, first) else { continue };
        let ways = tree(fabric, root, |_| None, dice);
        for (mut switch, num) in members.iter().filter_map(|&port| exit(fabric, port)) {
            masks[switch.index()].insert(num);
            while let Some(num) = ways[switch.index()] {
                masks[switch.index()].insert(num);
                let slot = fabric.switch_port(switch, PortNum(num)).expect("a port");
                let peer = fabric.port(slot).peer.expect("a cable");
                switch = fabric.node_of(peer).switch.expect("a switch");
                masks[switch.index()].insert(fabric.port(peer).num.0);
            }
        }
        for (table, mask) in tables.by_switch.iter_mut().zip(masks) {
            if !mask.is_empty() {
                table.push((mlid, mask));
            }
        }
    }
    tables
}

fn plan(fabric: &Fabric, lids: &Lids, last: Option<(&Fabric, &Plan)>, dice: &mut Dice) -> Plan {
    let lids = lid_table(fabric, lids);
    let routing = Routing {
        engine: "drawn",
        lfts: lfts(fabric, &lids, last, dice),
        policy: Arc::new(Plain),
        notes: Vec::new(),
        routing_errors: Vec::new(),
    };
    Plan {
        ports: PortTargets::none(fabric.ports().len()),
        switch_infos: fabric
            .switch_ids()
            .map(|switch| {
                let mut info = fabric.switch(switch).switch_info;
                info.set_linear_fdb_top(lids.max().0);
                info
            })
            .collect(),
        vport_aliases: Vec::new(),
        aliases: Vec::new(),
        routing: Arc::new(routing),
        qos: Default::default(),
        partitions: Default::default(),
        multicast: Arc::new(groups(fabric, dice)),
        notes: Vec::new(),
        lids: Arc::new(lids),
    }
}

fn picture(topology: &Topology) -> Fabric {
    let view = SyntheticView { state: PortState::Active, ..SyntheticView::default() };
    Fabric::from_topology(topology, 0, &view).expect("node 0")
}

/// LIDs for all end ports, spread over three blocks.
fn draw_lids(topology: &Topology, dice: &mut Dice) -> Lids {
    let mut free: Vec<u16> = (1..170).collect();
    let nodes = topology.nodes.iter();
    nodes.map(|node| (guid(node), Lid(free.swap_remove(dice.index(free.len()))))).collect()
}

fn guid(node: &TopologyNode) -> Guid {
    node.port_guid(if node.kind == NodeKind::Switch { PortNum(0) } else { PortNum(1) })
}

/// Two plans for a random fabric: links fail and come up, a switch may be rebooted, LIDs of hosts
/// are added, removed and moved; routes are similar to each other or have nothing in common.
pub fn scene(dice: &mut Dice) -> Scene {
    let whole = topology(dice);
    let count = whole.cables.len();
    // Fate of a link: 1: absent before, 2: absent now, else present in both snapshots.
    let fates: Vec<usize> = (0..count)
        .map(|cable| if is_trunk(&whole.nodes, &whole.cables[cable]) { dice.index(8) } else { 0 })
        .collect();
    let mut before = picture(&without(&whole, &fates, 1));
    let lids = draw_lids(&whole, dice);
    let mut old_lids = lids.clone();
    let mut new_lids = lids.clone();
    let hosts: Vec<Guid> = lids.keys().copied().filter(|guid| guid.0 > HOST).collect();
    for guid in &hosts {
        match dice.index(12) {
            0 => drop(old_lids.remove(guid)),
            1 => drop(new_lids.remove(guid)),
            2 => {
                // Two hosts exchange their LIDs.
                let other = hosts[dice.index(hosts.len())];
                let a = new_lids.get(guid).copied();
                let b = new_lids.get(&other).copied();
                if let (Some(a), Some(b)) = (a, b) {
                    new_lids.extend([(*guid, b), (other, a)]);
                }
            }
            _ => {}
        }
    }
    let old = plan(&before, &old_lids, None, dice);
    at_work(&mut before, &old.lids, &old.switch_infos);
    let mut fabric = picture(&without(&whole, &fates, 2));
    let near = !dice.one_in(3);
    let new = plan(&fabric, &new_lids, near.then_some((&before, &old)), dice);
    go_on(&before, &mut fabric, &new);
    if dice.one_in(3) {
        reboot(&mut fabric, dice);
    }
    Scene { before: Arc::new(before), old: Arc::new(old), fabric, new }
}

/// The topology without the cables of one fate.
fn without(whole: &Topology, fates: &[usize], fate: usize) -> Topology {
    let mut topology = whole.clone();
    let mut fates = fates.iter();
    topology.cables.retain(|_| fates.next().is_some_and(|&own| own != fate));
    topology
}

fn is_trunk(nodes: &[TopologyNode], ends: &[(usize, PortNum); 2]) -> bool {
    ends.iter().all(|&(node, _)| nodes[node].kind == NodeKind::Switch)
}

/// Carries the state of a running fabric over to a new snapshot: LIDs and tables are those of
/// `before`, new links are in INIT.
pub fn go_on(before: &Fabric, fabric: &mut Fabric, new: &Plan) {
    remember(before, fabric, new);
    for slot in fabric.port_ids().collect::<Vec<_>>() {
        let num = fabric.port(slot).num;
        let node = fabric.node_of(slot);
        let there = before.node_by_guid(node.guid());
        let there = there.and_then(|node| before.port_of(node, num)).map(|at| before.port(at));
        let is_new = there.is_none_or(|port| port.peer.is_none());
        if fabric.port(slot).peer.is_some() && is_new {
            darken(fabric, slot);
        }
    }
}

/// Gives the devices of a new snapshot the LIDs and LinearFDBTops they had; new switches have
/// neither.
fn remember(before: &Fabric, fabric: &mut Fabric, new: &Plan) {
    let mut lids = LidTable::new(fabric.ports().len());
    for (lid, port) in new.lids.iter() {
        if before.port_by_guid(fabric.port(port).guid).is_some() {
            lids.assign(port, lid, 0);
        }
    }
    let tops: Vec<SwitchInfo> = fabric
        .switch_ids()
        .map(|switch| {
            let node = before.node_by_guid(fabric.switch(switch).guid());
            node.map_or(fabric.switch(switch).switch_info, |node| before.node(node).switch_info)
        })
        .collect();
    at_work(fabric, &lids, &tops);
}

/// Resets a switch to its power-on state; its links train again.
fn reboot(fabric: &mut Fabric, dice: &mut Dice) {
    let switch = SwitchId(dice.index(fabric.switches().len()) as u32);
    let node = fabric.switches()[switch.index()];
    let first = fabric.node(node).first_port;
    let slots = fabric.ports_of(node).len() as u32;
    for slot in (0..slots).map(|num| PortId(first.0 + num)) {
        darken(fabric, slot);
    }
    let mut info = fabric.port(first).info().expect("port 0");
    info.set_lid(Lid(0));
    let mut switch_info = fabric.node(node).switch_info;
    switch_info.set_linear_fdb_top(0);
    fabric.acknowledge(&[(first, info)], &[(switch, switch_info)]);
}
