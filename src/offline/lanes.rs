//! Service levels of the paths between hosts, and the virtual lanes that they use between switches.

use super::hops::{self, NO_SWITCH, Neighbours};
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::{Lid, PortNum, Sl};
use crate::plan::Plan;
use crate::wire::attr::PortInfo;
use crate::wire::attr::tables::SlToVl;
use rayon::prelude::*;

/// Sets of SLs and VLs: bit n for number n.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct LaneUse {
    pub(super) sls: u16,
    pub(super) vls: u16,
}

impl LaneUse {
    fn with(self, other: Self) -> Self {
        Self { sls: self.sls | other.sls, vls: self.vls | other.vls }
    }
}

/// The SLs of the paths from all hosts to all LIDs of hosts, and their VLs on links between
/// switches. Paths with a requested SL other than 0 are not considered.
pub(super) fn in_use(fabric: &Fabric, plan: &Plan) -> LaneUse {
    let sources = Sources::new(fabric, plan);
    let next = Neighbours::new(fabric);
    let maps = Maps::new(fabric, plan);
    let is_host = |port: PortId| !fabric.node_of(port).is_switch();
    let lids: Vec<(Lid, PortId)> = plan.lids.iter().filter(|&(_, port)| is_host(port)).collect();
    let tracer = Tracer { fabric, plan, sources: &sources, next: &next, maps: &maps };
    let lanes = lids.par_iter().map(|&(lid, port)| tracer.to(lid, port));
    lanes.reduce(LaneUse::default, LaneUse::with)
}

/// The numbers of a set.
pub(super) fn numbers(set: u16) -> Vec<u8> {
    (0..16).filter(|bit| set >> bit & 1 == 1).collect()
}

/// Hosts with LIDs, one for each group of equal SLs at a switch.
struct Sources {
    /// By switch: host port, and the port of the switch behind which it is.
    at: Vec<Vec<(PortId, PortId)>>,
}

impl Sources {
    fn new(fabric: &Fabric, plan: &Plan) -> Self {
        let policy = &plan.routing.policy;
        let mut at = vec![Vec::new(); fabric.switches().len()];
        let mut groups = vec![Vec::new(); fabric.switches().len()];
        let hosts = fabric
            .end_ports()
            .filter(|&port| !fabric.node_of(port).is_switch() && plan.lids.base(port).is_some());
        for port in hosts {
            let entry = fabric.port(port).peer;
            let Some((entry, switch)) = entry.zip(fabric.switch_behind(port)) else { continue };
            let group = policy.sl_group(port);
            if !groups[switch.index()].contains(&group) {
                groups[switch.index()].push(group);
                at[switch.index()].push((port, entry));
            }
        }
        Self { at }
    }
}

/// The SL to VL mappings of the plan, sorted for look-up.
struct Maps<'a> {
    fabric: &'a Fabric,
    plan: &'a Plan,
    /// By switch: input port, output port, mapping; ascending.
    rows: Vec<Vec<(u8, u8, SlToVl)>>,
}

impl<'a> Maps<'a> {
    fn new(fabric: &'a Fabric, plan: &'a Plan) -> Self {
        let rows = fabric.switches().iter().map(|node| {
            let mut rows = plan.qos.sl_to_vl.get(node.index()).cloned().unwrap_or_default();
            rows.sort_unstable_by_key(|&(input, output, _)| (input, output));
            rows
        });
        Self { fabric, plan, rows: rows.collect() }
    }

    /// The VLs on which packets of the SLs leave a switch. Without a planned mapping VL n stands
    /// for SL n, modulo the number of data VLs.
    fn vls(&self, switch: SwitchId, input: PortId, output: PortId, sls: u16) -> u16 {
        let number = |port: PortId| self.fabric.port(port).num.0;
        let (from, to) = (number(input), number(output));
        let rows = &self.rows[switch.index()];
        let row = rows.binary_search_by_key(&(from, to), |&(input, output, _)| (input, output));
        let info = self.plan.ports.get(output.index()).copied().flatten();
        let data_vls = info.map_or(1, |info| PortInfo::data_vls(info.operational_vls())).max(1);
        let vl = |sl: u8| match row {
            Ok(row) => rows[row].2.vl(Sl(sl)).0,
            Err(_) => sl % data_vls,
        };
        numbers(sls).into_iter().map(vl).filter(|&vl| vl < 15).fold(0, |set, vl| set | 1 << vl)
    }
}

struct Tracer<'a> {
    fabric: &'a Fabric,
    plan: &'a Plan,
    sources: &'a Sources,
    next: &'a Neighbours,
    maps: &'a Maps<'a>,
}

impl Tracer<'_> {
    /// The SLs and VLs of the paths to one LID of a host: the SLs of all paths through a switch are
    /// collected from the farthest switches to the nearest.
    fn to(&self, lid: Lid, destination: PortId) -> LaneUse {
        let mut lanes = LaneUse::default();
        let Some(target) = self.fabric.switch_behind(destination) else { return lanes };
        let depths = hops::depths(self.plan, self.next, target.index(), lid);
        let mut order: Vec<usize> = (0..depths.len()).filter(|&at| depths[at] != u8::MAX).collect();
        order.sort_unstable_by_key(|&at| std::cmp::Reverse(depths[at]));
        let mut passing = vec![0u16; depths.len()];
        for at in order {
            let switch = SwitchId(at as u32);
            let output = self.output(switch, lid).filter(|_| switch != target);
            for &(host, entry) in
                self.sources.at[at].iter().filter(|(host, _)| *host != destination)
            {
                let sl = self.plan.routing.policy.path_sl_to_lid(host, destination, lid, Sl(0));
                let sls = 1 << (sl.0 & 15);
                passing[at] |= sls;
                if let Some(output) = output {
                    lanes.vls |= self.maps.vls(switch, entry, output, sls);
                }
            }
            lanes.sls |= passing[at];
            let Some(input) = output.and_then(|output| self.fabric.port(output).peer) else {
                continue;
            };
            let Some(after) = self.fabric.node_of(input).switch else { continue };
            passing[after.index()] |= passing[at];
            if let Some(output) = self.output(after, lid).filter(|_| after != target) {
                lanes.vls |= self.maps.vls(after, input, output, passing[at]);
            }
        }
        lanes
    }

    /// The port through which a switch sends packets to another switch.
    fn output(&self, switch: SwitchId, lid: Lid) -> Option<PortId> {
        let port = self.plan.routing.lfts.get(switch.index())?.out(lid)?;
        if self.next.of(switch.index(), port) == NO_SWITCH {
            return None;
        }
        self.fabric.switch_port(switch, PortNum(port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_listed_in_ascending_order() {
        assert!(numbers(0).is_empty());
        assert_eq!(numbers(0b1000_0000_0000_0101), [0, 2, 15]);
    }
}
