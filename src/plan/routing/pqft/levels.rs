//! The levels of the switches, and the cables between them.

use crate::config::guid_lists::GuidLists;
use crate::fabric::node_names::NodeName;
use crate::fabric::{Fabric, SwitchId};
use crate::ids::{Guid, Lid};
use crate::plan::LidTable;
use crate::plan::routing::structure::EngineStructure;
use crate::plan::routing::switch_graph::{SwitchGraph, linked_peer};
use crate::plan::routing::updn::ranks::{Ranks, UNRANKED};
use crate::wire::attr::NodeKind;
use std::collections::{BTreeMap, HashSet};

/// A port of a channel adapter or router that is linked to a switch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Host {
    pub base: Lid,
    pub lids: u16,
    pub switch: SwitchId,
    /// The port of the switch that leads to the host.
    pub switch_port: u8,
    /// True for compute nodes, whose switches are leaf switches.
    is_compute: bool,
}

/// All hosts with a LID, by switch and port. Compute nodes are the ports of `cn_guid_file`, else all
/// ports of channel adapters that are not in `io_guid_file`.
pub(super) fn hosts(fabric: &Fabric, lids: &LidTable, lists: &GuidLists) -> Vec<Host> {
    let compute: Option<HashSet<Guid>> =
        lists.compute_nodes.as_ref().map(|list| list.iter().copied().collect());
    let io: HashSet<Guid> = lists.io_nodes.iter().flatten().copied().collect();
    let end_ports = fabric.end_ports().filter(|&port| !fabric.node_of(port).is_switch());
    let ports = end_ports.filter_map(|port| {
        let peer = linked_peer(fabric, port)?;
        let guid = fabric.port(port).guid;
        let is_listed = compute.as_ref().map_or(!io.contains(&guid), |list| list.contains(&guid));
        Some(Host {
            base: lids.base(port)?,
            lids: 1 << lids.lmc(port),
            switch: fabric.node_of(peer).switch?,
            switch_port: fabric.port(peer).num.0,
            is_compute: is_listed && fabric.node_of(port).kind() == NodeKind::Ca,
        })
    });
    let mut hosts: Vec<Host> = ports.collect();
    hosts.sort_by_key(|host| (host.switch, host.switch_port));
    hosts
}

/// The parallel cables from one switch to another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Bundle {
    pub to: SwitchId,
    /// Output ports, ascending.
    pub ports: Vec<u8>,
}

/// The tree.
pub(super) struct Levels {
    /// By switch; 0 for leaf switches.
    pub by_switch: Vec<u32>,
    pub highest: u32,
    /// By switch: the bundles to the level above, by switch.
    pub up: Vec<Vec<Bundle>>,
    /// By switch: the bundles to the level below, by switch.
    pub down: Vec<Vec<Bundle>>,
    /// By switch.
    pub hosts: Vec<Vec<Host>>,
}

impl Levels {
    /// Finds the levels, or tells what does not fit.
    pub(super) fn new(
        fabric: &Fabric,
        graph: &SwitchGraph,
        hosts: &[Host],
        roots: Option<&[Guid]>,
    ) -> Result<Self, String> {
        let by_switch = by_switch(fabric, graph, hosts, roots)?;
        let mut up = vec![Vec::new(); graph.len()];
        let mut down = vec![Vec::new(); graph.len()];
        for switch in graph.switches() {
            let own = by_switch[switch.index()];
            let mut bundles: BTreeMap<SwitchId, Vec<u8>> = BTreeMap::new();
            for link in graph.links(switch) {
                bundles.entry(link.to).or_default().push(link.port);
            }
            for (to, ports) in bundles {
                let level = by_switch[to.index()];
                let bundle = Bundle { to, ports };
                if level == own + 1 {
                    up[switch.index()].push(bundle);
                } else if level + 1 == own {
                    down[switch.index()].push(bundle);
                } else {
                    let one = switch_name(fabric, switch);
                    let two = switch_name(fabric, to);
                    return Err(if own == 0 && level == 0 {
                        format!(
                            "\"{one}\" and \"{two}\" are cabled to each other, and both have hosts"
                        )
                    } else {
                        format!(
                            "\"{one}\" and \"{two}\" are cabled to each other, at levels {own} and \
                             {level} above the leaf switches"
                        )
                    });
                }
            }
        }
        let highest = by_switch.iter().copied().max().unwrap_or(0);
        let mut at = vec![Vec::new(); graph.len()];
        hosts.iter().for_each(|host| at[host.switch.index()].push(*host));
        Ok(Self { by_switch, highest, up, down, hosts: at })
    }

    pub(super) fn of(&self, switch: SwitchId) -> u32 {
        self.by_switch[switch.index()]
    }

    pub(super) fn switches(&self) -> impl Iterator<Item = SwitchId> + use<> {
        (0..self.by_switch.len() as u32).map(SwitchId)
    }

    /// The switches of a level with the hosts that decide on levels.
    pub(super) fn leaves(&self) -> impl Iterator<Item = SwitchId> + '_ {
        self.switches().filter(|&switch| self.of(switch) == 0)
    }

    pub(super) fn structure(&self) -> EngineStructure {
        EngineStructure::of_ranks(self.by_switch.iter().map(|level| self.highest - level))
    }
}

fn switch_name(fabric: &Fabric, switch: SwitchId) -> NodeName<'_> {
    fabric.switch(switch).name()
}

fn by_switch(
    fabric: &Fabric,
    graph: &SwitchGraph,
    hosts: &[Host],
    roots: Option<&[Guid]>,
) -> Result<Vec<u32>, String> {
    let roots: Vec<SwitchId> = roots
        .unwrap_or(&[])
        .iter()
        .filter_map(|guid| fabric.node(fabric.node_by_guid(*guid)?).switch)
        .collect();
    let mut leaves: Vec<SwitchId> =
        hosts.iter().filter(|host| host.is_compute).map(|host| host.switch).collect();
    leaves.dedup();
    if leaves.is_empty() {
        return Err("no switch has a compute node".to_owned());
    }
    let start = if roots.is_empty() { &leaves } else { &roots };
    let ranks = Ranks::from(graph, start);
    if let Some(switch) = graph.switches().find(|&switch| ranks.of(switch) == UNRANKED) {
        let name = fabric.switch(switch).name();
        let what = if roots.is_empty() { "a switch with hosts" } else { "a root" };
        return Err(format!("\"{name}\" has no path to {what}"));
    }
    if roots.is_empty() {
        return Ok(ranks.all().to_vec());
    }
    let bottom = ranks.of(leaves[0]);
    if let Some(&other) = leaves.iter().find(|&&leaf| ranks.of(leaf) != bottom) {
        let one = fabric.switch(leaves[0]).name();
        let two = fabric.switch(other).name();
        let rank = ranks.of(other);
        return Err(format!(
            "\"{one}\" and \"{two}\" have compute nodes, {bottom} and {rank} hops below the roots"
        ));
    }
    if let Some(deep) = graph.switches().find(|&switch| ranks.of(switch) > bottom) {
        let name = fabric.switch(deep).name();
        return Err(format!("\"{name}\" is below the leaf switches"));
    }
    Ok(ranks.all().iter().map(|rank| bottom - rank).collect())
}
