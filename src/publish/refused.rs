//! While no plan can be put into force: why, and what still works by the tables and answers that
//! stay.

use super::Subnet;
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::Lid;
use crate::notes::{Note, Severity};
use crate::plan::routing::{Dump, Lft};
use std::collections::BTreeSet;

/// Hosts that are named when they are cut off.
const NAMED: usize = 8;

/// A pass that ended without a plan. What is told is the same in the log and in reports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// What the operator is to hear, in order.
    pub notes: Vec<Note>,
    /// Dump files of the engines that refused.
    pub dumps: Vec<Dump>,
}

impl Refused {
    /// A refusal for the reasons in `notes`, in the words of `headline`. `last` is the subnet
    /// whose tables and answers stay, `fabric` what is there now.
    pub fn new(
        mut notes: Vec<Note>,
        dumps: Vec<Dump>,
        headline: String,
        last: Option<&Subnet>,
        fabric: &Fabric,
    ) -> Self {
        notes.push(Note::new(Severity::Error, None, headline));
        notes.push(match last {
            Some(last) => Standing::survey(last, fabric).note(fabric),
            None => Note::warning(
                "nothing is written: the tables in the fabric are whatever they were before this \
                 subnet manager started",
            ),
        });
        Self { notes, dumps }
    }
}

/// How far a published subnet still works in a fabric that has changed since.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standing {
    /// The generation of the subnet.
    pub generation: u64,
    /// Ports of channel adapters and routers that are in both.
    pub hosts: usize,
    /// Those that are gone.
    pub gone: usize,
    /// Ordered pairs of hosts.
    pub paths: usize,
    /// Those between which packets still arrive.
    pub working: usize,
    /// Hosts that no other reaches, as ports of the new fabric.
    pub cut_off: Vec<PortId>,
    /// One of the paths that do not work, of those between hosts that are not cut off.
    pub broken: Option<(PortId, PortId)>,
}

/// What one destination looks like from a switch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Unknown,
    OnTheWay,
    Arrives,
    Lost,
}

impl Standing {
    /// Follows the forwarding tables of `last` over the cables that `now` has.
    pub fn survey(last: &Subnet, now: &Fabric) -> Self {
        let survey = Survey::new(last, now);
        let mut standing = Self {
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
                    Reach::Arrives => arriving += 1,
                    _ => lost = lost.or(Some(source.port)),
                }
            }
            standing.working += arriving;
            match lost {
                Some(_) if arriving == 0 => standing.cut_off.push(destination.port),
                Some(source) => broken.push((source, destination.port)),
                None => {}
            }
        }
        let isolated: BTreeSet<PortId> = standing.cut_off.iter().copied().collect();
        let is_telling = |pair: &(PortId, PortId)| !isolated.contains(&pair.0);
        standing.broken = broken.into_iter().find(is_telling);
        standing
    }

    /// The same for the operator.
    pub fn note(&self, fabric: &Fabric) -> Note {
        let Self { generation, hosts, paths, working, .. } = self;
        let mut text = format!(
            "tables and answers of generation {generation} stay in force: of {paths} paths between \
             {hosts} host ports {working} work"
        );
        if self.gone > 0 {
            text += &format!("; {} host ports are gone", self.gone);
        }
        if !self.cut_off.is_empty() {
            let names = self.cut_off.iter().take(NAMED).map(|&port| fabric.describe(port));
            let names: Vec<String> = names.collect();
            let more = self.cut_off.len().saturating_sub(NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            text += &format!("; cut off: {}{more}", names.join(", "));
        }
        if let Some((from, to)) = self.broken {
            let (from, to) = (fabric.describe(from), fabric.describe(to));
            text += &format!("; broken is for example that from {from} to {to}");
        }
        Note::warning(text)
    }
}

/// A host that both fabrics have.
struct Host {
    /// Its port in the new fabric.
    port: PortId,
    /// The switch there.
    switch: SwitchId,
    /// Its LID.
    lid: Lid,
}

struct Survey<'a> {
    hosts: Vec<Host>,
    gone: usize,
    /// By switch of the new fabric: the table it has; `None` for switches that are new.
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

    /// By switch: whether packets from there arrive at a host.
    fn reach(&self, now: &Fabric, to: &Host) -> Vec<Reach> {
        let mut reach = vec![Reach::Unknown; self.tables.len()];
        let mut way = Vec::new();
        for start in now.switch_ids() {
            let mut at = start;
            let end = loop {
                match reach[at.index()] {
                    Reach::Unknown => {}
                    // Packets run in a circle.
                    Reach::OnTheWay => break Reach::Lost,
                    known => break known,
                }
                reach[at.index()] = Reach::OnTheWay;
                way.push(at);
                let port = self.tables[at.index()].and_then(|table| table.out(to.lid));
                let port = port.and_then(|num| now.switch_port(at, num.into()));
                match port.and_then(|port| now.port(port).peer) {
                    Some(peer) if peer == to.port => break Reach::Arrives,
                    Some(peer) => match now.node_of(peer).switch {
                        Some(next) => at = next,
                        None => break Reach::Lost,
                    },
                    None => break Reach::Lost,
                }
            };
            way.drain(..).for_each(|passed: SwitchId| reach[passed.index()] = end);
        }
        reach
    }
}
