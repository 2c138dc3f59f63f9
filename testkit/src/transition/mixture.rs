//! The channel dependencies while old and new entries are mixed, found by following every packet.

use super::{Devices, Scene};
use std::collections::{BTreeMap, BTreeSet};
use torus_sm::apply::transition::Steps;
use torus_sm::fabric::Fabric;
use torus_sm::fabric::{PortId, SwitchId};
use torus_sm::ids::{Lid, Mlid, PortNum};

/// Pairs of channels, named by the sending ports: a packet on the first may take the second next.
pub type Waits = BTreeSet<(PortId, PortId)>;

/// The dependencies of all packets of all end ports, in a fabric with a single VL, for all states
/// that `steps` allow.
pub fn waits(scene: &Scene, steps: &Steps) -> Waits {
    let old = held(scene);
    let new = Devices::planned(scene);
    let mut waits = Waits::new();
    let max = scene.old.lids.max().max(scene.new.lids.max()).0;
    for lid in (1..=max).map(Lid) {
        let senders = senders(scene, lid);
        let ways = |switch: SwitchId, _: Option<PortId>, is_bound: bool| {
            let old = old.out(switch, lid);
            let new = new.out(switch, lid);
            let commits = steps.committed_routes().holds(switch, lid);
            let ways = match (old == new, is_bound) {
                (true, _) => vec![(new, is_bound)],
                (false, true) => vec![(new, commits)],
                (false, false) => vec![(new, commits), (old, false)],
            };
            ways.into_iter().filter_map(|(num, is_bound)| Some((num?, is_bound))).collect()
        };
        follow(scene, senders, ways, &mut waits);
    }
    let mlids: BTreeSet<Mlid> = old.mlids().union(&new.mlids()).copied().collect();
    for mlid in mlids {
        let stages: &[&[&Devices<'_>]] =
            if old.has_ring_with(&new, mlid) { &[&[&old], &[&new]] } else { &[&[&old, &new]] };
        for stage in stages {
            let ports = |switch| -> BTreeSet<u8> {
                stage.iter().flat_map(|devices| devices.ports(mlid, switch)).collect()
            };
            let senders = scene.fabric.switch_ids();
            let senders =
                senders.filter(|&at| ports(at).iter().any(|&num| is_host(&scene.fabric, at, num)));
            let ways = |switch: SwitchId, came: Option<PortId>, _: bool| {
                let back = came.map(|slot| scene.fabric.port(slot).num.0);
                let ports = ports(switch).into_iter().filter(|&num| Some(num) != back);
                ports.map(|num| (num, false)).collect()
            };
            follow(scene, senders.collect(), ways, &mut waits);
        }
    }
    waits
}

fn is_host(fabric: &Fabric, switch: SwitchId, num: u8) -> bool {
    let slot = fabric.switch_port(switch, PortNum(num));
    let peer = slot.and_then(|slot| fabric.port(slot).peer);
    peer.is_none_or(|peer| !fabric.node_of(peer).is_switch())
}

/// The devices with the old plan's tables, rebooted or not.
pub fn held(scene: &Scene) -> Devices<'_> {
    let mut devices = Devices::new(scene);
    for switch in scene.fabric.switch_ids() {
        let node = scene.before.node_by_guid(scene.fabric.switch(switch).guid());
        if let Some(there) = node.and_then(|node| scene.before.node(node).switch) {
            devices.hold(switch, there);
        }
    }
    devices
}

/// Switches with an end port that may send to `lid`, before or after.
fn senders(scene: &Scene, lid: Lid) -> Vec<SwitchId> {
    let ports = scene.fabric.end_ports().filter(|port| {
        let there = scene.before.port_by_guid(scene.fabric.port(*port).guid);
        let knew = scene.old.lids.port(lid).and(there).and_then(|port| scene.old.lids.base(port));
        let knows = scene.new.lids.port(lid).and(scene.new.lids.base(*port));
        knew.or(knows).is_some()
    });
    ports.filter_map(|port| scene.fabric.switch_behind(port)).collect()
}

/// Follows packets. `ways` returns the ports by which a packet continues, and whether it can meet
/// new entries only from there on.
fn follow(
    scene: &Scene,
    senders: Vec<SwitchId>,
    ways: impl Fn(SwitchId, Option<PortId>, bool) -> Vec<(u8, bool)>,
    waits: &mut Waits,
) {
    let fabric = &scene.fabric;
    let channels = |switch: SwitchId, came: Option<PortId>, is_bound| {
        let ways = ways(switch, came, is_bound).into_iter().filter_map(|(num, is_bound)| {
            let slot = fabric.switch_port(switch, PortNum(num))?;
            Some((slot, fabric.port(slot).peer?, is_bound))
        });
        ways.filter(|way| fabric.node_of(way.1).is_switch()).collect::<Vec<_>>()
    };
    let mut under_way: Vec<_> =
        senders.into_iter().flat_map(|at| channels(at, None, false)).collect();
    let mut known: BTreeSet<_> = under_way.iter().copied().collect();
    while let Some((slot, peer, is_bound)) = under_way.pop() {
        let switch = fabric.node_of(peer).switch.expect("a switch");
        for next in channels(switch, Some(peer), is_bound) {
            waits.insert((slot, next.0));
            if known.insert(next) {
                under_way.push(next);
            }
        }
    }
}

/// True if the dependencies have a cycle.
pub fn has_cycle(waits: &Waits) -> bool {
    let mut left: BTreeMap<PortId, BTreeSet<PortId>> = BTreeMap::new();
    for &(channel, next) in waits {
        left.entry(channel).or_default().insert(next);
    }
    loop {
        let free: Vec<PortId> = left
            .iter()
            .filter(|(_, next)| next.iter().all(|next| !left.contains_key(next)))
            .map(|(&channel, _)| channel)
            .collect();
        if free.is_empty() {
            return !left.is_empty();
        }
        free.iter().for_each(|channel| drop(left.remove(channel)));
    }
}
