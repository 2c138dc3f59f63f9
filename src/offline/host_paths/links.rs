//! The cables between switches and the hosts at switches, laid out for passes over all trees.

use crate::fabric::{Fabric, PortId};
use crate::ids::PortNum;
use crate::plan::Plan;
use crate::plan::routing::PathSources;

/// Marks ports without a switch behind them.
const NO_SWITCH: u32 = u32::MAX;

/// The far end of a cable to a switch.
#[derive(Clone, Copy)]
pub(super) struct HostPathEnd {
    pub(super) switch: u32,
    /// The port through which packets enter that switch.
    pub(super) input: u8,
}

/// The far end of each port of each switch.
pub(super) struct HostPathLinks {
    /// By switch: index of its port 0 in `ends`; one more entry ends the last switch.
    first: Vec<usize>,
    ends: Vec<HostPathEnd>,
}

impl HostPathLinks {
    pub(super) fn new(fabric: &Fabric) -> Self {
        let mut links = Self { first: vec![0], ends: Vec::new() };
        for switch in fabric.switch_ids() {
            for num in 0..=fabric.switch(switch).num_ports() {
                let port = fabric.switch_port(switch, PortNum(num)).map(|id| fabric.port(id));
                let end = port.and_then(|port| far_end(fabric, port.peer?));
                links.ends.push(end.unwrap_or(HostPathEnd { switch: NO_SWITCH, input: 0 }));
            }
            links.first.push(links.ends.len());
        }
        links
    }

    pub(super) fn switches(&self) -> usize {
        self.first.len() - 1
    }

    /// Number of ports of a switch, with port 0.
    pub(super) fn ports(&self, switch: usize) -> usize {
        self.first[switch + 1] - self.first[switch]
    }

    /// The numbers of the ports of a switch, from 0.
    pub(super) fn numbers(&self, switch: usize) -> std::ops::RangeInclusive<u8> {
        0..=(self.ports(switch) - 1) as u8
    }

    /// The switch behind a port; `None` without one.
    #[inline]
    pub(super) fn behind(&self, switch: usize, port: u8) -> Option<HostPathEnd> {
        let ends = &self.ends[self.first[switch]..self.first[switch + 1]];
        ends.get(usize::from(port)).copied().filter(|end| end.switch != NO_SWITCH)
    }
}

fn far_end(fabric: &Fabric, peer: PortId) -> Option<HostPathEnd> {
    let switch = fabric.node_of(peer).switch?;
    Some(HostPathEnd { switch: switch.0, input: fabric.port(peer).num.0 })
}

/// Hosts with LIDs at one switch whose paths have equal SLs.
pub(super) struct HostSource {
    /// The class of these SLs.
    group: u32,
    host: PortId,
    /// Another host of these.
    second: Option<PortId>,
    /// The ports of the switch behind which the hosts are, that of `host` first.
    pub(super) entries: Vec<u8>,
}

impl HostSource {
    /// One of the hosts that is not the destination itself.
    #[inline]
    pub(super) fn other_than(&self, destination: PortId) -> Option<PortId> {
        if self.host == destination { self.second } else { Some(self.host) }
    }
}

/// The hosts with LIDs at each switch.
pub(super) struct HostSources {
    /// By switch.
    list: Vec<HostSource>,
    /// By switch: index of its first one in `list`; one more entry ends the last switch.
    first: Vec<usize>,
    /// One host of each.
    paths: PathSources,
    hosts: Vec<u64>,
}

impl HostSources {
    pub(super) fn new(fabric: &Fabric, plan: &Plan) -> Self {
        let switches = fabric.switches().len();
        let mut at: Vec<Vec<HostSource>> = (0..switches).map(|_| Vec::new()).collect();
        let mut numbers = vec![0; switches];
        let hosts = fabric
            .end_ports()
            .filter(|&port| !fabric.node_of(port).is_switch() && plan.lids.base(port).is_some());
        for host in hosts {
            let Some(peer) = fabric.port(host).peer else { continue };
            let Some(switch) = fabric.node_of(peer).switch else { continue };
            numbers[switch.index()] += 1;
            let group = plan.routing.policy.sl_group(host);
            let entry = fabric.port(peer).num.0;
            let sources: &mut Vec<HostSource> = &mut at[switch.index()];
            match sources.iter_mut().find(|source| source.group == group) {
                Some(source) => {
                    source.second.get_or_insert(host);
                    source.entries.push(entry);
                }
                None => {
                    sources.push(HostSource { group, host, second: None, entries: vec![entry] })
                }
            }
        }
        let mut first = vec![0];
        for here in &at {
            first.push(first[first.len() - 1] + here.len());
        }
        let list: Vec<HostSource> = at.into_iter().flatten().collect();
        let mut paths = PathSources::default();
        list.iter().for_each(|source| paths.add(&*plan.routing.policy, source.host));
        Self { list, first, paths, hosts: numbers }
    }

    /// One host of each source, in the order of their switches.
    pub(super) fn paths(&self) -> &PathSources {
        &self.paths
    }

    /// The indices of the sources at a switch in [`HostSources::paths`].
    #[inline]
    pub(super) fn range(&self, switch: usize) -> std::ops::Range<usize> {
        self.first[switch]..self.first[switch + 1]
    }

    /// Number of hosts at a switch.
    #[inline]
    pub(super) fn hosts(&self, switch: usize) -> u64 {
        self.hosts[switch]
    }

    #[inline]
    pub(super) fn at(&self, switch: usize) -> &[HostSource] {
        &self.list[self.range(switch)]
    }
}
