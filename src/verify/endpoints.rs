//! Where packets come from and go to: the end ports at each switch, and the LIDs to be reached.

use crate::fabric::{Fabric, PortId};
use crate::ids::{Lid, Sl};
use crate::plan::Plan;
use crate::plan::routing::RoutingPolicy;
use crate::wire::attr::tables::LFT_NO_PATH;

/// A LID to be reached.
#[derive(Clone, Copy)]
pub(super) struct Destination {
    /// As [`RoutingPolicy::sl_group`] groups ports.
    pub group: u32,
    /// The switch at which the path ends.
    pub switch: u32,
    pub lid: Lid,
    pub port: PortId,
    /// The output port there.
    pub exit: u8,
}

impl Destination {
    /// True if the same ways lead to both, with the same SLs.
    pub(super) fn has_same_route(&self, other: &Self) -> bool {
        let place = |to: &Self| (to.group, to.switch, to.lid, to.exit);
        place(self) == place(other)
    }
}

/// The tree that the entries of all switches for one LID form.
#[derive(Clone, Copy)]
pub(super) struct DestinationTree {
    pub lid: Lid,
    /// The LID that represents all LIDs with this tree: the entries of all switches but the last are the
    /// same.
    pub leader: Lid,
    /// Switches on the longest path.
    pub longest: u16,
}

/// The end ports at a switch.
#[derive(Clone, Default)]
pub(super) struct SourcePorts {
    /// All that have LIDs.
    pub ports: Vec<PortId>,
    /// One of each SL group.
    groups: Vec<(u32, PortId)>,
}

impl SourcePorts {
    /// True if there is no port here of another SL group than there.
    pub(super) fn have_groups_of(&self, others: &Self) -> bool {
        let is_there = |group: u32| others.groups.iter().any(|&(other, _)| other == group);
        self.groups.iter().all(|&(group, _)| is_there(group))
    }

    /// The SLs that paths to `to` have from here, a bit for each.
    #[inline]
    pub(super) fn sls(&self, policy: &dyn RoutingPolicy, to: PortId, hints: &[Sl]) -> u16 {
        let mut sls = 0;
        for &(_, source) in &self.groups {
            for &hint in hints {
                sls |= 1 << (policy.path_sl(source, to, hint).0 & 0xF);
            }
        }
        sls
    }
}

/// The end ports behind each switch that has a table; none behind switches left out.
pub(super) fn sources(
    fabric: &Fabric,
    plan: &Plan,
    policy: &dyn RoutingPolicy,
) -> Vec<SourcePorts> {
    let mut sources = vec![SourcePorts::default(); fabric.switches().len()];
    let has_table: Vec<bool> = (0..sources.len())
        .map(|index| {
            let table = plan.routing.lfts.get(index);
            table.is_some_and(|table| table.0.iter().any(|&port| port != LFT_NO_PATH))
        })
        .collect();
    for port in fabric.end_ports().filter(|&port| plan.lids.base(port).is_some()) {
        let Some(switch) = fabric.switch_behind(port).filter(|switch| has_table[switch.index()])
        else {
            continue;
        };
        let here = &mut sources[switch.index()];
        here.ports.push(port);
        let group = policy.sl_group(port);
        if !here.groups.iter().any(|&(known, _)| known == group) {
            here.groups.push((group, port));
        }
    }
    sources
}

pub(super) fn destinations(
    fabric: &Fabric,
    plan: &Plan,
    policy: &dyn RoutingPolicy,
) -> Vec<Destination> {
    let all = plan.lids.iter().filter_map(|(lid, port)| {
        let switch = fabric.switch_behind(port)?.0;
        let is_switch = fabric.node_of(port).is_switch();
        let exit = if is_switch { 0 } else { fabric.port(fabric.port(port).peer?).num.0 };
        Some(Destination { group: policy.sl_group(port), switch, lid, port, exit })
    });
    let mut all: Vec<_> = all.collect();
    all.sort_unstable_by_key(|to| (to.group, to.switch, to.lid));
    all
}
