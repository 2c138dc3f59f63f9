//! Histogram of path lengths.

use super::json::HopCount;
use crate::fabric::{Fabric, PortId};
use crate::ids::{Lid, PortNum};
use crate::plan::Plan;
use crate::verify::MAX_PATH_SWITCHES;
use rayon::prelude::*;

pub(super) const NO_SWITCH: u32 = u32::MAX;

/// Counts all paths between hosts (from port to base LID) by the number of switches they pass.
/// Paths that end in no route or a loop are not counted.
pub(super) fn histogram(fabric: &Fabric, plan: &Plan) -> Vec<HopCount> {
    let is_host = |port: &PortId| !fabric.node_of(*port).is_switch();
    let hosts: Vec<(PortId, usize, Lid)> = fabric
        .end_ports()
        .filter(is_host)
        .filter_map(|port| Some((port, fabric.switch_behind(port)?.index(), plan.lids.base(port)?)))
        .collect();
    let mut hosts_at = vec![0u64; fabric.switches().len()];
    hosts.iter().for_each(|&(_, switch, _)| hosts_at[switch] += 1);
    let next = Neighbours::new(fabric);
    let empty = || vec![0u64; MAX_PATH_SWITCHES as usize + 1];
    let counts = hosts
        .par_iter()
        .fold(empty, |mut counts, &(_, target, lid)| {
            let depths = depths(plan, &next, target, lid);
            for (switch, (&depth, &sources)) in depths.iter().zip(&hosts_at).enumerate() {
                let others = sources - u64::from(switch == target).min(sources);
                if let Some(count) = counts.get_mut(usize::from(depth)) {
                    *count += others;
                }
            }
            counts
        })
        .reduce(empty, |a, b| a.iter().zip(&b).map(|(a, b)| a + b).collect());
    let lengths = counts.into_iter().enumerate().skip(1).filter(|&(_, paths)| paths > 0);
    lengths.map(|(switches, paths)| HopCount { switches, paths }).collect()
}

/// By switch: number of switches on the path to `target`; 255 if there is no path.
pub(super) fn depths(plan: &Plan, next: &Neighbours, target: usize, lid: Lid) -> Vec<u8> {
    const UNKNOWN: u8 = 0;
    let mut depths = vec![UNKNOWN; next.first.len()];
    depths[target] = 1;
    let mut trail = Vec::new();
    for start in 0..depths.len() {
        let mut at = start;
        trail.clear();
        let mut depth = loop {
            if depths[at] != UNKNOWN {
                break depths[at];
            }
            let out = plan.routing.lfts.get(at).and_then(|table| table.out(lid));
            let to = out.map_or(NO_SWITCH, |port| next.of(at, port));
            trail.push(at);
            if to == NO_SWITCH || trail.len() > MAX_PATH_SWITCHES as usize {
                break u8::MAX;
            }
            at = to as usize;
        };
        while let Some(passed) = trail.pop() {
            depth = depth.saturating_add(1);
            depths[passed] = depth;
        }
    }
    depths
}

/// The switch behind each port of each switch.
pub(super) struct Neighbours {
    first: Vec<usize>,
    behind: Vec<u32>,
}

impl Neighbours {
    pub(super) fn new(fabric: &Fabric) -> Self {
        let mut neighbours = Self { first: Vec::new(), behind: Vec::new() };
        for switch in fabric.switch_ids() {
            neighbours.first.push(neighbours.behind.len());
            for num in 0..=fabric.switch(switch).num_ports() {
                let port = fabric.switch_port(switch, PortNum(num)).map(|id| fabric.port(id));
                let peer = port.and_then(|port| port.peer);
                let to = peer.and_then(|peer| fabric.node_of(peer).switch);
                neighbours.behind.push(to.map_or(NO_SWITCH, |to| to.0));
            }
        }
        neighbours
    }

    pub(super) fn of(&self, switch: usize, port: u8) -> u32 {
        let end = self.first.get(switch + 1).copied().unwrap_or(self.behind.len());
        let slot = self.first[switch] + usize::from(port);
        if slot < end { self.behind[slot] } else { NO_SWITCH }
    }
}
