//! Sources and destinations of packets: the end ports at each switch, and the unicast LIDs.

use super::group_sources::GroupSources;
use crate::fabric::{Fabric, PortId};
use crate::ids::{Lid, Sl};
use crate::plan::Plan;
use crate::plan::routing::RoutingPolicy;

/// A unicast LID that sources must reach.
#[derive(Clone, Copy)]
pub(super) struct Endpoint {
    /// SL group of the LID ([`RoutingPolicy::destination_group`]).
    pub group: u32,
    /// The switch at which the path ends.
    pub switch: u32,
    pub lid: Lid,
    /// The LID that decides on the SL ([`crate::plan::LidTable::route_lid`]).
    pub route_lid: Lid,
    pub port: PortId,
    /// Output port of that switch.
    pub exit: u8,
}

impl Endpoint {
    /// True if the LID is that of a switch.
    pub(super) fn is_switch(&self) -> bool {
        self.exit == 0
    }

    /// True if the same routes lead to both, with the same SLs.
    pub(super) fn has_same_route(&self, other: &Self) -> bool {
        self.group == other.group
            && self.switch == other.switch
            && self.lid == other.lid
            && self.exit == other.exit
    }
}

/// The tree that the entries of all switches for one LID form.
#[derive(Clone, Copy)]
pub(super) struct DestinationTree {
    pub lid: Lid,
    /// The LID that represents all LIDs with this tree: the entries of all switches but the last
    /// are the same.
    pub leader: Lid,
    /// Switches on the longest path.
    pub longest: u16,
}

/// The end ports at a switch.
#[derive(Clone, Default)]
pub(super) struct SourcePorts {
    /// End ports with a LID.
    pub ports: Vec<PortId>,
    /// Number of `ports` that are not port 0 of the switch.
    pub hosts: usize,
    /// The SL groups, each with one of its ports.
    groups: Vec<(u32, PortId)>,
}

impl SourcePorts {
    /// True if all SL groups here occur among `others`.
    pub(super) fn have_groups_of(&self, others: &Self) -> bool {
        self.groups.iter().all(|&(group, _)| has_group(&others.groups, group))
    }

    /// The SLs of paths from here to `to`, one bit for each.
    #[inline]
    pub(super) fn sls(&self, policy: &dyn RoutingPolicy, to: &Endpoint, hints: &[Sl]) -> u16 {
        let mut sls = 0;
        for &(_, source) in &self.groups {
            for &hint in hints {
                let sl = policy.path_sl_to_lid(source, to.port, to.route_lid, hint);
                sls |= 1 << (sl.0 & 0xF);
            }
        }
        sls
    }
}

fn has_group(groups: &[(u32, PortId)], group: u32) -> bool {
    groups.iter().any(|&(other, _)| other == group)
}

/// One end port of each SL group at each switch.
pub(super) fn group_sources<'a>(
    sources: &[SourcePorts],
    policy: &'a dyn RoutingPolicy,
) -> GroupSources<'a> {
    let mut groups = GroupSources::none(policy);
    for (switch, sources) in (0..).zip(sources) {
        sources.groups.iter().for_each(|&(_, port)| groups.add(switch, port));
    }
    groups
}

/// The end ports at each switch. Switches with an empty forwarding table were left out by the
/// engine and have none, and end ports without routes of their own send nothing.
pub(super) fn sources(
    fabric: &Fabric,
    plan: &Plan,
    policy: &dyn RoutingPolicy,
) -> Vec<SourcePorts> {
    sources_where(fabric, plan, policy, |_| true)
}

/// [`sources`] without the ports of switches.
pub(super) fn host_sources(
    fabric: &Fabric,
    plan: &Plan,
    policy: &dyn RoutingPolicy,
) -> Vec<SourcePorts> {
    sources_where(fabric, plan, policy, |port| !fabric.node_of(port).is_switch())
}

fn sources_where(
    fabric: &Fabric,
    plan: &Plan,
    policy: &dyn RoutingPolicy,
    is_source: impl Fn(PortId) -> bool,
) -> Vec<SourcePorts> {
    let mut sources = vec![SourcePorts::default(); fabric.switches().len()];
    let has_table: Vec<bool> = (0..sources.len())
        .map(|index| {
            let table = plan.routing.lfts.get(index);
            table.is_some_and(|table| table.top().is_some())
        })
        .collect();
    let with_lid = fabric.end_ports().filter(|&port| plan.lids.base(port).is_some());
    for port in with_lid.filter(|&port| is_source(port) && policy.has_routes(port)) {
        let Some(switch) = fabric.switch_behind(port).filter(|switch| has_table[switch.index()])
        else {
            continue;
        };
        let here = &mut sources[switch.index()];
        here.ports.push(port);
        here.hosts += usize::from(!fabric.node_of(port).is_switch());
        let group = policy.sl_group(port);
        if !here.groups.iter().any(|&(known, _)| known == group) {
            here.groups.push((group, port));
        }
    }
    sources
}

/// All destinations, ordered by SL group, switch and LID.
pub(super) fn destinations(
    fabric: &Fabric,
    plan: &Plan,
    policy: &dyn RoutingPolicy,
) -> Vec<Endpoint> {
    let all = plan.lids.iter().filter_map(|(lid, port)| {
        let switch = fabric.switch_behind(port)?.0;
        let is_switch = fabric.node_of(port).is_switch();
        let exit = if is_switch { 0 } else { fabric.port(fabric.port(port).peer?).num.0 };
        let route_lid = plan.lids.route_lid(lid);
        let group = policy.destination_group(port, route_lid);
        Some(Endpoint { group, switch, lid, route_lid, port, exit })
    });
    let mut all: Vec<_> = all.collect();
    all.sort_unstable_by_key(|to| (to.group, to.switch, to.lid));
    all
}
