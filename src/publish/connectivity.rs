//! Paths that still work while a rejected plan leaves the previous forwarding tables in force.

use super::Subnet;
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::Lid;
use crate::notes::{Note, counted};
use crate::plan::routing::Lft;
use std::collections::BTreeSet;

/// Maximum number of disconnected hosts that the message names.
const MAX_LISTED_HOSTS: usize = 8;

/// The host paths that the tables of a published subnet still provide in a fabric that has changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResidualConnectivity {
    /// Generation of the published subnet.
    pub generation: u64,
    /// Number of ports of channel adapters and routers that both fabrics have.
    pub hosts: usize,
    /// Number of such ports that only the published subnet has: the hosts that are gone.
    pub gone: usize,
    /// Number of ordered pairs of hosts.
    pub paths: usize,
    /// Number of paths that still deliver packets.
    pub working: usize,
    /// Hosts that no other host reaches, as ports of the new fabric.
    pub cut_off: Vec<PortId>,
    /// The first broken path, source and destination, between hosts that are not cut off.
    pub broken: Option<(PortId, PortId)>,
}

/// Progress of the walk from a switch to one destination.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Unknown,
    /// On the path being followed.
    Visiting,
    Delivered,
    Lost,
}

impl ResidualConnectivity {
    /// Follows the forwarding tables of `last` over the links that `now` has.
    pub fn survey(last: &Subnet, now: &Fabric) -> Self {
        let survey = Survey::new(last, now);
        let mut connectivity = Self {
            generation: last.generation,
            hosts: survey.hosts.len(),
            gone: survey.gone,
            paths: survey.hosts.len() * survey.hosts.len().saturating_sub(1),
            working: 0,
            cut_off: Vec::new(),
            broken: None,
        };
        let mut broken = Vec::new();
        for destination in &survey.hosts {
            let reach = survey.reach(now, destination);
            let mut arriving = 0;
            let mut lost = None;
            for source in survey.hosts.iter().filter(|source| source.port != destination.port) {
                match reach[source.switch.index()] {
                    Reach::Delivered => arriving += 1,
                    _ => lost = lost.or(Some(source.port)),
                }
            }
            connectivity.working += arriving;
            match lost {
                Some(_) if arriving == 0 => connectivity.cut_off.push(destination.port),
                Some(source) => broken.push((source, destination.port)),
                None => {}
            }
        }
        let isolated: BTreeSet<PortId> = connectivity.cut_off.iter().copied().collect();
        connectivity.broken = broken.into_iter().find(|(source, _)| !isolated.contains(source));
        connectivity
    }

    /// Describes the result for the operator.
    pub fn note(&self, fabric: &Fabric) -> Note {
        let Self { generation, paths, working, .. } = self;
        let hosts = counted(self.hosts, "host port", "host ports");
        let mut text = format!(
            "forwarding tables and SA replies of generation {generation} stay in force: {working} \
             of {paths} paths between {hosts} work"
        );
        if self.gone > 0 {
            let gone = counted(self.gone, "host port", "host ports");
            text += &format!("; {gone} left the fabric");
        }
        if !self.cut_off.is_empty() {
            let names =
                self.cut_off.iter().take(MAX_LISTED_HOSTS).map(|&port| fabric.describe(port));
            let names: Vec<String> = names.collect();
            let more = self.cut_off.len().saturating_sub(MAX_LISTED_HOSTS);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            text += &format!("; cut off: {}{more}", names.join(", "));
        }
        if let Some((from, to)) = self.broken {
            let (from, to) = (fabric.describe(from), fabric.describe(to));
            text += &format!("; an example of a broken path: from {from} to {to}");
        }
        Note::warning(text)
    }
}

/// A host that both fabrics have.
struct Host {
    /// Its port in the new fabric.
    port: PortId,
    /// Its switch in the new fabric.
    switch: SwitchId,
    /// Its LID in the published subnet.
    lid: Lid,
}

struct Survey<'a> {
    hosts: Vec<Host>,
    gone: usize,
    /// The programmed table of each switch of the new fabric; `None` for new switches.
    tables: Vec<Option<&'a Lft>>,
}

impl<'a> Survey<'a> {
    fn new(last: &'a Subnet, now: &Fabric) -> Self {
        let (mut hosts, mut gone) = (Vec::new(), 0);
        let old_hosts =
            last.fabric.end_ports().filter(|&port| !last.fabric.node_of(port).is_switch());
        for old in old_hosts {
            let Some(lid) = last.plan.lids.base(old) else { continue };
            let port = now.port_by_guid(last.fabric.port(old).guid);
            let found = port.and_then(|port| Some((port, now.switch_behind(port)?)));
            match found {
                Some((port, switch)) => hosts.push(Host { port, switch, lid }),
                None => gone += 1,
            }
        }
        let table = |switch: SwitchId| {
            let node = last.fabric.node_by_guid(now.switch(switch).guid())?;
            let old = last.fabric.node(node).switch?;
            last.plan.routing.lfts.get(old.index()).map(|lft| &**lft)
        };
        Self { hosts, gone, tables: now.switch_ids().map(table).collect() }
    }

    /// For each switch, whether its packets reach the host `to`.
    fn reach(&self, now: &Fabric, to: &Host) -> Vec<Reach> {
        let mut reach = vec![Reach::Unknown; self.tables.len()];
        let mut path = Vec::new();
        for start in now.switch_ids() {
            let mut at = start;
            let end = loop {
                match reach[at.index()] {
                    Reach::Unknown => {}
                    // A forwarding loop.
                    Reach::Visiting => break Reach::Lost,
                    known => break known,
                }
                reach[at.index()] = Reach::Visiting;
                path.push(at);
                let port = self.tables[at.index()].and_then(|table| table.out(to.lid));
                let port = port.and_then(|num| now.switch_port(at, num.into()));
                match port.and_then(|port| now.port(port).peer) {
                    Some(peer) if peer == to.port => break Reach::Delivered,
                    Some(peer) => match now.node_of(peer).switch {
                        Some(next) => at = next,
                        None => break Reach::Lost,
                    },
                    None => break Reach::Lost,
                }
            };
            path.drain(..).for_each(|visited: SwitchId| reach[visited.index()] = end);
        }
        reach
    }
}
