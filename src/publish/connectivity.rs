//! Paths that still work while a rejected plan leaves the previous forwarding tables in force.

use super::Subnet;
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::PortNum;
use crate::ids::{Guid, Lid};
use crate::notes::{Note, counted};
use crate::plan::routing::Lft;
use crate::wire::attr::PortState;
use std::collections::BTreeSet;

/// Maximum number of disconnected hosts that the message names.
const MAX_LISTED_HOSTS: usize = 8;

/// The host paths that the tables of a published subnet still provide in a fabric that has changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResidualConnectivity {
    /// Generation of the published subnet.
    pub generation: u64,
    /// Number of ports of channel adapters and routers that both fabrics have and that are ACTIVE.
    pub hosts: usize,
    /// Number of such ports that only the published subnet has: the hosts that are gone.
    pub gone: usize,
    /// Ports that both fabrics have and that are not ACTIVE.
    pub inactive: Vec<PortId>,
    /// ACTIVE ports that only the new fabric has, or that were moved in it: there are no routes to
    /// them.
    pub added: Vec<PortId>,
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
enum DeliveryState {
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
            inactive: survey.inactive.clone(),
            added: survey.added.clone(),
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
                    DeliveryState::Delivered => arriving += 1,
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
    pub fn notes(&self, fabric: &Fabric) -> Vec<Note> {
        let Self { generation, paths, working, .. } = self;
        let hosts = counted(self.hosts, "ACTIVE host port", "ACTIVE host ports");
        let mut text = format!(
            "the routes of generation {generation} stay in force: {working} of {paths} paths between \
             {hosts} work"
        );
        if self.gone > 0 {
            let gone = counted(self.gone, "host port", "host ports");
            text += &format!("; {gone} left the fabric");
        }
        if !self.inactive.is_empty() {
            text += &format!("; not ACTIVE: {}", names(&self.inactive, fabric));
        }
        if !self.cut_off.is_empty() {
            text += &format!("; cut off: {}", names(&self.cut_off, fabric));
        }
        if let Some((from, to)) = self.broken {
            let from = fabric.describe(from);
            let to = fabric.describe(to);
            text += &format!("; an example of a broken path: from {from} to {to}");
        }
        let mut notes = vec![Note::warning(text)];
        if !self.added.is_empty() {
            notes.push(Note::warning(format!(
                "{} came or moved after these routes were computed, and other hosts have no path to \
                 them until a plan is accepted: {}",
                counted(self.added.len(), "host port", "host ports"),
                names(&self.added, fabric)
            )));
        }
        notes
    }
}

/// The first ports, and the number of the others.
fn names(ports: &[PortId], fabric: &Fabric) -> String {
    let named = ports.iter().take(MAX_LISTED_HOSTS).map(|&port| fabric.describe(port));
    let named: Vec<String> = named.collect();
    let more = ports.len().saturating_sub(MAX_LISTED_HOSTS);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}

/// A host that both fabrics have.
struct ConnectedHost {
    /// Its port in the new fabric.
    port: PortId,
    /// Its switch in the new fabric.
    switch: SwitchId,
    /// Its LID in the published subnet.
    lid: Lid,
}

/// The hosts of a subnet with their LIDs.
fn routed_hosts(subnet: &Subnet) -> impl Iterator<Item = (PortId, Lid)> + '_ {
    let fabric = &subnet.fabric;
    let hosts = fabric.end_ports().filter(|&port| !fabric.node_of(port).is_switch());
    hosts.filter_map(|port| Some((port, subnet.plan.lids.base(port)?)))
}

/// True if a host is attached to another port of the fabric than before.
fn is_moved(last: &Subnet, old: PortId, now: &Fabric, port: PortId) -> bool {
    far_end(&last.fabric, old) != far_end(now, port)
}

fn far_end(fabric: &Fabric, port: PortId) -> Option<(Guid, PortNum)> {
    fabric.port(port).peer.map(|far| fabric.end_of(far))
}

struct Survey<'a> {
    hosts: Vec<ConnectedHost>,
    gone: usize,
    inactive: Vec<PortId>,
    added: Vec<PortId>,
    /// The programmed table of each switch of the new fabric; `None` for new switches.
    tables: Vec<Option<&'a Lft>>,
}

impl<'a> Survey<'a> {
    fn new(last: &'a Subnet, now: &Fabric) -> Self {
        let tables = now
            .switch_ids()
            .map(|switch| {
                let node = last.fabric.node_by_guid(now.switch(switch).guid())?;
                let old = last.fabric.node(node).switch?;
                last.plan.routing.lfts.get(old.index()).map(|lft| &**lft)
            })
            .collect();
        let mut survey =
            Self { hosts: Vec::new(), gone: 0, inactive: Vec::new(), added: Vec::new(), tables };
        for (old, lid) in routed_hosts(last) {
            let port = now.port_by_guid(last.fabric.port(old).guid);
            match port.and_then(|port| Some((port, now.switch_behind(port)?))) {
                None => survey.gone += 1,
                Some((port, _)) if now.port(port).state() != PortState::Active => {
                    survey.inactive.push(port);
                }
                Some((port, _)) if is_moved(last, old, now, port) => survey.added.push(port),
                Some((port, switch)) => survey.hosts.push(ConnectedHost { port, switch, lid }),
            }
        }
        let known: BTreeSet<Guid> =
            routed_hosts(last).map(|(old, _)| last.fabric.port(old).guid).collect();
        survey.added.extend(now.end_ports().filter(|&port| {
            let is_host = !now.node_of(port).is_switch() && now.switch_behind(port).is_some();
            let is_active = now.port(port).state() == PortState::Active;
            is_host && is_active && !known.contains(&now.port(port).guid)
        }));
        survey
    }

    /// For each switch, whether its packets reach the host `to`.
    fn reach(&self, now: &Fabric, to: &ConnectedHost) -> Vec<DeliveryState> {
        let mut reach = vec![DeliveryState::Unknown; self.tables.len()];
        let mut path = Vec::new();
        for start in now.switch_ids() {
            let mut at = start;
            let end = loop {
                match reach[at.index()] {
                    DeliveryState::Unknown => {}
                    // A forwarding loop.
                    DeliveryState::Visiting => break DeliveryState::Lost,
                    known => break known,
                }
                reach[at.index()] = DeliveryState::Visiting;
                path.push(at);
                let port = self.tables[at.index()].and_then(|table| table.out(to.lid));
                let port = port.and_then(|num| now.switch_port(at, num.into()));
                let port = port.filter(|&port| now.port(port).state() == PortState::Active);
                match port.and_then(|port| now.port(port).peer) {
                    Some(peer) if peer == to.port => break DeliveryState::Delivered,
                    Some(peer) => match now.node_of(peer).switch {
                        Some(next) => at = next,
                        None => break DeliveryState::Lost,
                    },
                    None => break DeliveryState::Lost,
                }
            };
            path.drain(..).for_each(|visited: SwitchId| reach[visited.index()] = end);
        }
        reach
    }
}
