//! The register of losses: nodes and cables that were in the fabric and are missing, until they are
//! back, their ports have other cables, or an operator gives them up.

use super::cause::Subject;
use super::fact::{Cable, CableEnd, ExchangedCables, KnownNode};
use crate::fabric::successors::Successors;
use crate::fabric::{End, Fabric, NodeId, PortId};
use crate::ids::Guid;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Nodes, and cables, that are kept.
const MAX_KEPT: usize = 4096;

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Register {
    nodes: Vec<KnownNode>,
    cables: Vec<Cable>,
    /// Missing cables that had taken the place of displaced ones.
    provisional: Vec<Cable>,
    /// Cables between switches of which a port has another cable now.
    displaced: Vec<Cable>,
    /// Nodes that do not answer, and those that did not when this register was stored.
    #[serde(default)]
    silent: Vec<KnownNode>,
    /// Cables that do not belong where they are: it is right to unplug them.
    #[serde(skip)]
    unexpected: BTreeSet<[End; 2]>,
}

impl Register {
    pub fn nodes(&self) -> &[KnownNode] {
        &self.nodes
    }

    pub fn cables(&self) -> impl Iterator<Item = &Cable> {
        self.cables.iter().chain(&self.provisional)
    }

    /// A register in which cables are missing or displaced unless `fabric` has them as they should be.
    /// Cables of nodes that are not in the fabric are left out.
    pub fn of_expected(cables: &BTreeSet<[End; 2]>, fabric: &Fabric) -> Self {
        let absent = cables.iter().filter(|cable| !is_there(fabric, cable));
        let missing = absent.filter_map(|[one, other]| {
            Some(Cable::new(named_end(fabric, one)?, named_end(fabric, other)?))
        });
        let mut register = Self { cables: missing.take(MAX_KEPT).collect(), ..Self::default() };
        register.settle(fabric);
        register
    }

    /// Replaces the cables that are not missing when they are unplugged.
    pub fn expect_without(&mut self, cables: impl Iterator<Item = [End; 2]>) {
        self.unexpected = cables.collect();
    }

    /// The nodes that do not answer: those of the snapshot, and those that fell silent before a restart,
    /// as long as a link to them is up. Those without a link any more are lost.
    pub fn silent(
        &mut self,
        fabric: &Fabric,
        now: &[KnownNode],
        unanswered: &[CableEnd],
    ) -> &[KnownNode] {
        let links: BTreeSet<End> = unanswered.iter().map(CableEnd::end).collect();
        let before = std::mem::take(&mut self.silent).into_iter();
        let before: Vec<KnownNode> =
            before.filter(|it| is_new(now, it) && is_absent(fabric, it)).collect();
        let mut reached: BTreeSet<Guid> =
            before.iter().filter(|node| has_link(&links, node)).map(|node| node.guid).collect();
        // Nodes behind silent ones are silent, too.
        loop {
            let behind: Vec<Guid> = before
                .iter()
                .filter(|node| {
                    let mut far = node.cables.iter().map(|cable| cable.far_from(node.guid).guid);
                    !reached.contains(&node.guid) && far.any(|guid| reached.contains(&guid))
                })
                .map(|node| node.guid)
                .collect();
            if behind.is_empty() {
                break;
            }
            reached.extend(behind);
        }
        let (silent, lost): (Vec<KnownNode>, Vec<KnownNode>) =
            before.into_iter().partition(|node| reached.contains(&node.guid));
        let known: BTreeSet<Guid> = self.nodes.iter().map(|node| node.guid).collect();
        let room = MAX_KEPT.saturating_sub(self.nodes.len());
        self.nodes.extend(lost.into_iter().filter(|node| !known.contains(&node.guid)).take(room));
        self.silent = now.iter().cloned().chain(silent).take(MAX_KEPT).collect();
        &self.silent
    }

    /// Records what `new` lacks of `old`, and forgets what it has.
    pub fn update(&mut self, old: &Fabric, new: &Fabric) {
        if old.has_same_ids(new) {
            self.note_unplugged(old, unplugged(old, new));
        } else {
            let successors = Successors::between(old, new);
            let gone = old.node_ids().filter(|&id| !successors.has(id));
            for id in gone {
                if new.node_by_guid(old.node(id).guid()).is_none() {
                    self.note_lost(old, id);
                }
            }
            self.note_unplugged(old, unplugged_of_moved(old, new, &successors));
        }
        self.settle(new);
    }

    fn note_lost(&mut self, old: &Fabric, id: NodeId) {
        if self.nodes.len() >= MAX_KEPT {
            return;
        }
        let mut node = KnownNode::of(old, id);
        // Cables that went down before the node did.
        let earlier = self.cables().filter(|cable| has_node(cable, node.guid));
        node.cables.extend(earlier.cloned().collect::<Vec<_>>());
        node.cables.sort_unstable();
        node.cables.dedup();
        self.nodes.push(node);
    }

    /// Records cables of `old` as missing, each given by one of its ports.
    fn note_unplugged(&mut self, old: &Fabric, ports: impl Iterator<Item = PortId>) {
        let occupied: BTreeSet<End> = self.displaced.iter().flat_map(Cable::key).collect();
        for cable in ports.filter_map(|port| Cable::of(old, port)) {
            if self.cables.len() + self.provisional.len() >= MAX_KEPT {
                return;
            }
            if self.unexpected.contains(&cable.key()) {
                continue;
            }
            if cable.key().iter().any(|end| occupied.contains(end)) {
                self.provisional.push(cable)
            } else {
                self.cables.push(cable)
            }
        }
    }

    /// Forgets what is in the fabric. A cable is not missing any more when one of its ports has another
    /// one; between switches it is remembered all the same, because plugs may be exchanged one after the
    /// other.
    pub fn settle(&mut self, fabric: &Fabric) {
        self.nodes.retain(|node| fabric.node_by_guid(node.guid).is_none());
        let mut known = std::mem::take(&mut self.cables);
        known.append(&mut self.displaced);
        known.sort_unstable();
        known.dedup();
        for cable in known {
            let [one, other] = cable.key();
            let now = [far_end(fabric, one), far_end(fabric, other)];
            if now == [None, None] {
                self.cables.push(cable);
            } else if now[0] != Some(other) && cable.joins_switches() {
                self.displaced.push(cable);
            }
        }
        self.provisional.retain(|cable| {
            let [one, other] = cable.key();
            far_end(fabric, one).is_none() && far_end(fabric, other).is_none()
        });
        self.displaced.truncate(MAX_KEPT.saturating_sub(self.cables.len()));
    }

    /// The cables that took the place of two others, so that the exchange of two plugs brings these
    /// back.
    pub fn exchanged(&self, fabric: &Fabric) -> Vec<ExchangedCables> {
        let mut found = BTreeSet::new();
        let displaced: BTreeMap<[End; 2], &Cable> =
            self.displaced.iter().map(|cable| (cable.key(), cable)).collect();
        for cable in &self.displaced {
            let [near, far] = cable.key();
            let (Some(x), Some(y)) = (far_end(fabric, near), far_end(fabric, far)) else {
                continue;
            };
            let mut other = [x, y];
            other.sort_unstable();
            if !displaced.contains_key(&other) {
                continue;
            }
            let ports = [near, far, x].map(|end| port_of(fabric, end));
            let [Some(near), Some(far), Some(plug)] = ports else { continue };
            let reason = "before, each was plugged in at the place of the other";
            let exchanged = ExchangedCables::of(fabric, [near, far], [plug, far], reason);
            let Some(exchanged) = exchanged else { continue };
            if !found.iter().any(|it: &ExchangedCables| it.cables == exchanged.cables) {
                found.insert(exchanged);
            }
        }
        found.into_iter().collect()
    }

    /// Gives up nodes and cables, so that they do not count as missing any more. `ids`: identifiers of
    /// their subjects, as in [`super::cause::IncidentCause::covers`]. True if one of them was missing.
    pub fn give_up(&mut self, ids: &BTreeSet<String>) -> bool {
        let sizes =
            |it: &Self| [it.nodes.len(), it.cables.len(), it.provisional.len(), it.displaced.len()];
        let before = sizes(self);
        self.nodes.retain(|node| !is_given_up(ids, Subject::Node(node.guid)));
        self.cables.retain(|cable| !is_given_up(ids, Subject::Cable(cable.key())));
        self.provisional.retain(|cable| !is_given_up(ids, Subject::Cable(cable.key())));
        // The cables that took its place are those that are accepted.
        let places: BTreeSet<End> = self
            .displaced
            .iter()
            .flat_map(Cable::key)
            .filter(|(guid, port)| ids.contains(&format!("cable-{guid}-{port}")))
            .collect();
        self.displaced.retain(|cable| !cable.key().iter().any(|end| places.contains(end)));
        before != sizes(self)
    }
}

fn is_given_up(ids: &BTreeSet<String>, subject: Subject) -> bool {
    ids.contains(&subject.id())
}

fn has_link(links: &BTreeSet<End>, node: &KnownNode) -> bool {
    node.cables.iter().any(|cable| links.contains(&cable.far_from(node.guid).end()))
}

fn is_absent(fabric: &Fabric, node: &KnownNode) -> bool {
    fabric.node_by_guid(node.guid).is_none()
}

fn is_new(now: &[KnownNode], node: &KnownNode) -> bool {
    now.iter().all(|other| other.guid != node.guid)
}

fn is_there(fabric: &Fabric, cable: &[End; 2]) -> bool {
    far_end(fabric, cable[0]) == Some(cable[1])
}

fn named_end(fabric: &Fabric, &(guid, port): &End) -> Option<CableEnd> {
    let node = fabric.node(fabric.node_by_guid(guid)?);
    let name = node.name().to_string();
    Some(CableEnd { guid, port, name, is_switch: node.is_switch() })
}

/// The lower ports of the cables that `new` lacks of `old`, which has the same nodes and ports.
fn unplugged<'a>(old: &'a Fabric, new: &'a Fabric) -> impl Iterator<Item = PortId> + 'a {
    old.ports().unshared(new.ports()).flat_map(|(first, before, now)| {
        let pairs = before.iter().zip(now).enumerate();
        pairs.filter_map(move |(index, (before, now))| {
            let port = PortId((first + index) as u32);
            let is_lower = before.peer.is_some_and(|peer| peer > port);
            (is_lower && before.peer != now.peer).then_some(port)
        })
    })
}

/// The lower ports of the cables that `new` lacks of `old`.
fn unplugged_of_moved(
    old: &Fabric,
    new: &Fabric,
    successors: &Successors,
) -> impl Iterator<Item = PortId> {
    old.port_ids().zip(old.ports()).filter_map(|(port, known)| {
        let peer = known.peer.filter(|&peer| peer > port)?;
        let now = successors.port(known).and_then(|port| new.port(port).peer);
        let is_there = now.is_some() && now == successors.port(old.port(peer));
        (!is_there).then_some(port)
    })
}

fn has_node(cable: &Cable, guid: Guid) -> bool {
    cable.ends().iter().any(|end| end.guid == guid)
}

fn port_of(fabric: &Fabric, (guid, num): End) -> Option<PortId> {
    fabric.port_of(fabric.node_by_guid(guid)?, num)
}

/// The far end of the cable at a port now.
fn far_end(fabric: &Fabric, end: End) -> Option<End> {
    let peer = fabric.port(port_of(fabric, end)?).peer?;
    Some(fabric.end_of(peer))
}
