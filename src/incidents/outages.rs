//! Folds lost and silent nodes and lost cables under their causes.
//!
//! A node that cannot be seen is dead, or cut off by others. Of two explanations the one with fewer
//! failures holds: neighbouring switches that have vanished behind fewer cables than there are switches
//! are cut off; else each switch with a cable to a present node has failed itself. Hosts and switches
//! that are only reached through vanished switches belong to these.

use super::cause::{IncidentCause, Subject, listed};
use super::fact::{Cable, DeviceClass, KnownNode};
use super::incident::{IncidentSeverity, Kind, Losses, MAX_NAMES};
use crate::fabric::End;
use crate::ids::Guid;
use crate::notes::counted;
use std::collections::{BTreeMap, BTreeSet};

/// Silent hosts at one switch that are one incident.
const MIN_TOGETHER: usize = 4;

/// The nodes that are lost or silent, and the cables that are lost.
#[derive(Default)]
pub(super) struct Outage<'a> {
    pub(super) nodes: BTreeMap<Guid, &'a KnownNode>,
    pub(super) cables: &'a [Cable],
    /// Ports with a link behind which nothing answers.
    pub(super) unanswered: BTreeSet<End>,
    /// The nodes do not answer, and nothing shows that their links are down.
    pub(super) is_silence: bool,
}

/// The nodes and cables that one cause takes away.
#[derive(Default)]
struct Share<'a> {
    /// The nodes that have failed themselves; none if a part is cut off.
    failed: Vec<&'a KnownNode>,
    nodes: Vec<&'a KnownNode>,
    cables: Vec<&'a Cable>,
    /// Cables that lead from a part to the rest of the fabric.
    boundary: Vec<&'a Cable>,
}

impl<'a> Outage<'a> {
    /// One cause for each failure. `elsewhere`: nodes that are gone for another reason.
    pub(super) fn causes(&self, elsewhere: &BTreeSet<Guid>) -> Vec<IncidentCause> {
        let mut shares: BTreeMap<Guid, Share<'a>> = BTreeMap::new();
        let mut share_of: BTreeMap<Guid, Guid> = BTreeMap::new();
        for component in self.components() {
            self.divide(&component, elsewhere, &mut shares, &mut share_of);
        }
        let together = self.silent_together();
        for (&guid, node) in
            self.nodes.iter().filter(|(_, node)| node.device != DeviceClass::Switch)
        {
            let switches = node.cables.iter().map(|cable| cable.far_from(guid).guid);
            let is_cut_off = switches.clone().all(|far| share_of.contains_key(&far));
            let owner = switches.filter_map(|far| share_of.get(&far).copied()).next();
            match owner.filter(|_| is_cut_off) {
                Some(owner) => {
                    shares.entry(owner).or_default().nodes.push(node);
                    share_of.insert(guid, owner);
                }
                None => {
                    let owner = together.get(&guid).copied().unwrap_or(guid);
                    let share = shares.entry(owner).or_default();
                    share.failed.push(node);
                    share.nodes.push(node);
                    share_of.insert(guid, owner);
                }
            }
        }
        let mut alone = Vec::new();
        for cable in self.cables {
            // A cable between two failures belongs to the first one.
            match cable.ends().iter().find_map(|end| share_of.get(&end.guid)) {
                Some(&owner) => shares.entry(owner).or_default().cables.push(cable),
                None => alone.push(lost_cable(cable)),
            }
        }
        let shared = shares.into_iter().map(|(guid, share)| self.cause(guid, &share));
        shared.chain(alone).collect()
    }

    /// The switch of each silent host that has several others beside it: one cause is more likely than
    /// many.
    fn silent_together(&self) -> BTreeMap<Guid, Guid> {
        let mut at_switch: BTreeMap<Guid, Vec<Guid>> = BTreeMap::new();
        if self.is_silence {
            for (&guid, node) in &self.nodes {
                if let [cable] = &node.cables[..]
                    && cable.far_from(guid).is_switch
                {
                    at_switch.entry(cable.far_from(guid).guid).or_default().push(guid);
                }
            }
        }
        at_switch.retain(|_, hosts| hosts.len() >= MIN_TOGETHER);
        let pairs = at_switch.into_iter();
        pairs
            .flat_map(|(switch, hosts)| hosts.into_iter().map(move |host| (host, switch)))
            .collect()
    }

    /// The vanished switches in groups that are cabled to each other.
    fn components(&self) -> Vec<Vec<Guid>> {
        let mut seen = BTreeSet::new();
        let mut components = Vec::new();
        for (&guid, node) in &self.nodes {
            if node.device != DeviceClass::Switch || !seen.insert(guid) {
                continue;
            }
            let mut component = vec![guid];
            let mut next = 0;
            while let Some(&at) = component.get(next) {
                next += 1;
                for far in self.switches_beside(at) {
                    if seen.insert(far) {
                        component.push(far);
                    }
                }
            }
            component.sort_unstable();
            components.push(component);
        }
        components
    }

    /// The vanished switches at the far ends of the cables of one.
    fn switches_beside(&self, guid: Guid) -> Vec<Guid> {
        let cables = self.nodes[&guid].cables.iter();
        let far = cables.map(|cable| cable.far_from(guid).guid);
        far.filter(|far| self.nodes.get(far).is_some_and(|node| node.device == DeviceClass::Switch))
            .collect()
    }

    /// The cables of a switch to switches that are present.
    fn boundary(&self, guid: Guid, elsewhere: &BTreeSet<Guid>) -> Vec<&'a Cable> {
        self.nodes[&guid]
            .cables
            .iter()
            .filter(|cable| {
                let far = cable.far_from(guid);
                far.is_switch
                    && !self.nodes.contains_key(&far.guid)
                    && !elsewhere.contains(&far.guid)
            })
            .collect()
    }

    fn divide(
        &self,
        component: &[Guid],
        elsewhere: &BTreeSet<Guid>,
        shares: &mut BTreeMap<Guid, Share<'a>>,
        share_of: &mut BTreeMap<Guid, Guid>,
    ) {
        let boundaries: BTreeMap<Guid, Vec<&Cable>> =
            component.iter().map(|&guid| (guid, self.boundary(guid, elsewhere))).collect();
        let outward: usize = boundaries.values().map(Vec::len).sum();
        let is_part = !self.is_silence && component.len() > outward.max(1);
        let failed: Vec<Guid> = if is_part {
            vec![component[0]]
        } else {
            component.iter().copied().filter(|at| !boundaries[at].is_empty()).collect()
        };
        let failed = if failed.is_empty() { vec![component[0]] } else { failed };
        for &guid in component {
            let beside = self.switches_beside(guid);
            let owner = if failed.contains(&guid) {
                guid
            } else {
                *beside.iter().find(|far| failed.contains(far)).unwrap_or(&failed[0])
            };
            let share = shares.entry(owner).or_default();
            share.nodes.push(self.nodes[&guid]);
            share.boundary.extend(&boundaries[&guid]);
            if owner == guid && !is_part {
                share.failed.push(self.nodes[&guid]);
            }
            share_of.insert(guid, owner);
        }
    }

    fn cause(&self, guid: Guid, share: &Share<'_>) -> IncidentCause {
        let switches = share.nodes.iter().filter(|node| node.device == DeviceClass::Switch).count();
        let hosts = share.nodes.len() - switches;
        let names = share.nodes.iter().map(|node| node.name.clone());
        let takes = Losses {
            switches: switches as u32,
            hosts: hosts as u32,
            lids: share.nodes.iter().map(|node| node.lids).sum(),
            links: share.cables.len() as u32,
            names: names.take(MAX_NAMES).collect(),
        };
        let covers = share.nodes.iter().map(|node| Subject::Node(node.guid).id());
        let cables = share.cables.iter().map(|cable| Subject::Cable(cable.key()).id());
        let covers = covers.chain(cables).collect();
        match share.failed.first() {
            Some(node) if self.is_silence && share.failed.len() > 1 => {
                silent_hosts(guid, node, share.failed.len(), takes, covers)
            }
            Some(node) if self.is_silence => silent_node(node, takes, covers, hosts),
            Some(node) => {
                let near = node.cables.iter().map(|cable| cable.far_from(node.guid));
                let present = near.filter(|end| !self.nodes.contains_key(&end.guid));
                let down = present.map(|end| {
                    if self.unanswered.contains(&end.end()) {
                        format!("nothing answers behind {end}, although the link is up")
                    } else {
                        format!("{end} has no link to it any more")
                    }
                });
                lost_node(node, down.collect(), takes, covers)
            }
            None => lost_part(guid, share, takes, covers),
        }
    }
}

/// The others that go with a node, such as `, with 4 hosts`.
fn company(switches: usize, hosts: usize) -> String {
    let mut parts = Vec::new();
    if switches > 0 {
        parts.push(counted(switches, "switch", "switches"));
    }
    if hosts > 0 {
        parts.push(counted(hosts, "host", "hosts"));
    }
    if parts.is_empty() { String::new() } else { format!(", with {}", parts.join(" and ")) }
}

fn lost_node(
    node: &KnownNode,
    down: Vec<String>,
    takes: Losses,
    covers: BTreeSet<String>,
) -> IncidentCause {
    let is_switch = node.device == DeviceClass::Switch;
    let others = (takes.switches as usize).saturating_sub(usize::from(is_switch));
    let hosts = (takes.hosts as usize).saturating_sub(usize::from(!is_switch));
    let device = node.device.name();
    let repair = match node.cables.first() {
        Some(cable) if node.cables.len() == 1 => format!(
            "check the power of the {device} \"{}\", then its only cable, at {}",
            node.name,
            cable.far_from(node.guid)
        ),
        _ => format!("check the power of the {device} \"{}\", and whether it boots", node.name),
    };
    let has_link = down.iter().any(|line| line.starts_with("nothing answers"));
    let mut evidence = listed(down.into_iter());
    if node.cables.len() > 1 && !has_link {
        let count = node.cables.len();
        evidence.insert(0, format!("all of its {count} cables went down"));
    }
    IncidentCause {
        subject: Subject::Node(node.guid),
        kind: if is_switch { Kind::LostSwitch } else { Kind::LostHost },
        severity: if is_switch { IncidentSeverity::Critical } else { IncidentSeverity::Warning },
        headline: format!(
            "the {device} \"{}\" ({}) is lost{}",
            node.name,
            node.guid,
            company(others, hosts)
        ),
        evidence,
        takes,
        risks: Vec::new(),
        repair,
        covers,
        is_over: false,
    }
}

fn silent_node(
    node: &KnownNode,
    takes: Losses,
    covers: BTreeSet<String>,
    behind: usize,
) -> IncidentCause {
    let is_switch = node.device == DeviceClass::Switch;
    let device = node.device.name();
    let hosts = if is_switch { behind } else { 0 };
    let more = match hosts {
        0 => String::new(),
        count => format!(", nor {} behind it", counted(count, "host", "hosts")),
    };
    IncidentCause {
        subject: Subject::Node(node.guid),
        kind: if is_switch { Kind::SilentSwitch } else { Kind::SilentHost },
        severity: if is_switch { IncidentSeverity::Critical } else { IncidentSeverity::Warning },
        headline: format!("the {device} \"{}\" ({}) does not answer{more}", node.name, node.guid),
        evidence: vec![
            "it answered before, and no neighbour reports its link down: its LIDs and routes stay \
             as they are"
                .to_owned(),
        ],
        takes: Losses { names: takes.names, ..Losses::default() },
        risks: vec!["its tables cannot be changed when another part fails".to_owned()],
        repair: format!("restart the management agent of the {device} \"{}\"", node.name),
        covers,
        is_over: false,
    }
}

/// The cause of several hosts at a switch that do not answer; `host` is one of them.
fn silent_hosts(
    switch: Guid,
    host: &KnownNode,
    count: usize,
    takes: Losses,
    covers: BTreeSet<String>,
) -> IncidentCause {
    let name = host.cables.first().map_or("", |cable| &cable.far_from(host.guid).name);
    IncidentCause {
        subject: Subject::Node(switch),
        kind: Kind::SilentHost,
        severity: IncidentSeverity::Warning,
        headline: format!("{count} hosts at the switch \"{name}\" ({switch}) do not answer"),
        evidence: vec![
            "they answered before, and the switch, which answers, reports their links up: their LIDs \
             and routes stay as they are"
                .to_owned(),
        ],
        takes: Losses { names: takes.names, ..Losses::default() },
        risks: vec!["their tables cannot be changed when another part fails".to_owned()],
        repair: format!("check whether SMPs pass the switch \"{name}\", then restart it"),
        covers,
        is_over: false,
    }
}

fn lost_part(
    guid: Guid,
    share: &Share<'_>,
    takes: Losses,
    covers: BTreeSet<String>,
) -> IncidentCause {
    let cables: Vec<String> = share.boundary.iter().map(ToString::to_string).collect();
    let repair = match cables.first() {
        Some(cable) => format!("check the cable {cable}, then the power of the switches behind it"),
        None => "check the power of these switches".to_owned(),
    };
    IncidentCause {
        subject: Subject::Part(guid),
        kind: Kind::LostPart,
        severity: IncidentSeverity::Critical,
        headline: format!(
            "a part of the fabric is cut off: {} and {}, behind {}",
            counted(takes.switches as usize, "switch", "switches"),
            counted(takes.hosts as usize, "host", "hosts"),
            counted(cables.len(), "cable", "cables"),
        ),
        evidence: listed(cables.into_iter().map(|cable| format!("{cable} is down"))),
        takes,
        risks: Vec::new(),
        repair,
        covers,
        is_over: false,
    }
}

fn lost_cable(cable: &Cable) -> IncidentCause {
    let subject = Subject::Cable(cable.key());
    IncidentCause {
        kind: Kind::LostCable,
        severity: IncidentSeverity::Warning,
        headline: format!("the cable {cable} is lost"),
        evidence: vec![
            "both of its nodes are in the fabric, and its ports have no link".to_owned(),
        ],
        takes: Losses { links: 1, ..Losses::default() },
        risks: Vec::new(),
        repair: format!("check both plugs of the cable {cable}, then replace it"),
        covers: BTreeSet::from([subject.id()]),
        is_over: false,
        subject,
    }
}
