//! Devices of the last snapshot that do not answer a heavy sweep although nothing shows that they
//! are gone: MADs get lost, and the management agent of a device may hang while the device forwards
//! packets.
//!
//! The ports of the neighbours are the evidence. A port that answered and has no trained link, a
//! link that was in use and is in INIT now, or another device at the far end of its cable tell that
//! the cable of the last snapshot is gone. A device that did not answer is
//!
//! * *unresponsive*, if a port that answered still shows a trained link to it, or if nobody can tell,
//!   because the neighbours do not answer either and one of them is unresponsive itself;
//! * *gone*, if its cables are, or if all its neighbours are gone.
//!
//! Unresponsive devices stay in the snapshot as they were last known, with the cables that are not
//! known to be gone. Answers that are missing from devices that gave others are replaced in the same
//! way.

use super::discovery_state::{DiscoveryState, same_device};
use super::evidence::Evidence;
use super::query::DiscoveryQuery;
use crate::fabric::{Fabric, Node, NodeId, Port, PortId};
use crate::ids::{Guid, PortNum};
use crate::wire::attr::tables::PkeyTable;
use crate::wire::attr::{NodeDescription, PhysState, PortInfo, PortState};
use std::collections::HashSet;
use std::sync::Arc;

/// The last snapshot, of which a heavy sweep keeps devices that do not answer.
#[derive(Clone, Debug)]
pub struct KnownDevices {
    pub fabric: Arc<Fabric>,
    /// P_Key tables by port slot.
    pub pkeys: Arc<Vec<PkeyTable>>,
    /// Node GUIDs of devices that have been unresponsive for so long that they count as gone.
    pub given_up: HashSet<Guid>,
}

/// Whether a device of the last snapshot answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Presence {
    /// It answered, and has this index.
    Answered(usize),
    /// Another device has one of its GUIDs, or it counts as gone.
    Gone,
    /// It did not answer; `None` until the neighbours have been examined.
    Absent(Option<Verdict>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Unresponsive,
    Gone,
    /// No port that answered tells anything: as its neighbours.
    Unknown,
}

/// The state of a cable of the last snapshot, as the port at its near end tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CableEvidence {
    Trained,
    Gone,
    /// The port did not answer.
    None,
}

/// Completes the snapshot by what is known of devices that did not answer.
pub(super) fn retain_unresponsive(
    state: &mut DiscoveryState,
    evidence: &mut Evidence,
    known: &KnownDevices,
) {
    let unanswered = evidence.unanswered();
    if unanswered.is_empty() {
        return;
    }
    Retention::new(state, known).run(&unanswered);
    for query in unanswered {
        if let DiscoveryQuery::Node { from: Some(from), .. } = query
            && let Some((peer, _)) = state.peer(from)
            && state.unresponsive.contains(&peer)
        {
            // The device has a fault of its own.
            evidence.drop(query);
        }
    }
}

struct Retention<'a> {
    state: &'a mut DiscoveryState,
    last: &'a Fabric,
    known: &'a KnownDevices,
    /// By node of `last`.
    presence: Vec<Presence>,
}

impl<'a> Retention<'a> {
    fn new(state: &'a mut DiscoveryState, known: &'a KnownDevices) -> Self {
        let last = &*known.fabric;
        let presence = last.node_ids().map(|id| presence(state, known, id)).collect();
        Self { state, last, known, presence }
    }

    fn run(mut self, unanswered: &[DiscoveryQuery]) {
        self.examine_neighbours();
        self.follow_neighbours();
        // The evidence is what the ports answered, so that it comes before the replaced answers.
        let cables = self.open_cables();
        self.replace_missing_answers(unanswered);
        let kept = self.last.node_ids().filter(|&id| self.is_kept(id));
        for id in kept.collect::<Vec<_>>() {
            self.keep(id);
        }
        for (near, far) in cables {
            if let (Some(near), Some(far)) = (self.end_now(near), self.end_now(far)) {
                self.state.connect(near, far);
            }
        }
        self.close_open_ends();
    }

    fn is_kept(&self, id: NodeId) -> bool {
        self.presence[id.index()] == Presence::Absent(Some(Verdict::Unresponsive))
    }

    /// The ports of a node that had a peer, with that.
    fn cabled_ports(&self, id: NodeId) -> impl Iterator<Item = (PortId, PortId)> + use<'a> {
        let last = self.last;
        last.node(id).slots().filter_map(move |slot| Some((slot, last.port(slot).peer?)))
    }

    /// The evidence of the port `near` of the last snapshot about its cable.
    fn evidence(&self, near: PortId) -> CableEvidence {
        let before = self.last.port(near);
        let node = match self.presence[before.node.index()] {
            Presence::Answered(node) => node,
            Presence::Gone => return CableEvidence::Gone,
            Presence::Absent(_) => return CableEvidence::None,
        };
        let Some(port) = self.state.port((node, before.num)) else { return CableEvidence::Gone };
        match port.info() {
            _ if port.peer.is_some() => CableEvidence::Gone,
            None => CableEvidence::None,
            Some(now) if is_link_kept(before, &now) => CableEvidence::Trained,
            Some(_) => CableEvidence::Gone,
        }
    }

    /// Judges the devices that did not answer by the ports of their neighbours that did.
    fn examine_neighbours(&mut self) {
        for id in self.last.node_ids() {
            if self.presence[id.index()] != Presence::Absent(None) {
                continue;
            }
            let evidence: Vec<_> =
                self.cabled_ports(id).map(|(_, peer)| self.evidence(peer)).collect();
            let verdict = if evidence.contains(&CableEvidence::Trained) {
                Verdict::Unresponsive
            } else if evidence.contains(&CableEvidence::Gone) {
                Verdict::Gone
            } else {
                Verdict::Unknown
            };
            self.presence[id.index()] = Presence::Absent(Some(verdict));
        }
    }

    /// Devices about which nobody tells are unresponsive if they were cabled to one that is, or to
    /// one of whose port only the answer is missing; else they are gone.
    fn follow_neighbours(&mut self) {
        let mut queue: Vec<NodeId> = self
            .last
            .node_ids()
            .filter(|id| match self.presence[id.index()] {
                Presence::Absent(verdict) => verdict == Some(Verdict::Unresponsive),
                Presence::Answered(_) => true,
                Presence::Gone => false,
            })
            .collect();
        while let Some(id) = queue.pop() {
            for (_, peer) in self.cabled_ports(id) {
                let node = self.last.port(peer).node;
                let presence = &mut self.presence[node.index()];
                if *presence == Presence::Absent(Some(Verdict::Unknown)) {
                    *presence = Presence::Absent(Some(Verdict::Unresponsive));
                    queue.push(node);
                }
            }
        }
    }

    /// The cables of the last snapshot that the sweep did not find, and of which neither end tells
    /// that they are gone.
    fn open_cables(&self) -> Vec<(PortId, PortId)> {
        let ends = self.last.port_ids().filter_map(|near| Some((near, self.last.port(near).peer?)));
        ends.filter(|&(near, far)| near < far && self.is_open(near) && self.is_open(far)).collect()
    }

    fn is_open(&self, end: PortId) -> bool {
        let is_there = match self.presence[self.last.port(end).node.index()] {
            Presence::Answered(_) => true,
            Presence::Absent(verdict) => verdict == Some(Verdict::Unresponsive),
            Presence::Gone => false,
        };
        is_there && self.evidence(end) != CableEvidence::Gone
    }

    /// Takes answers that are missing from devices that gave others from the last snapshot.
    fn replace_missing_answers(&mut self, unanswered: &[DiscoveryQuery]) {
        for id in self.last.node_ids() {
            if let Presence::Answered(node) = self.presence[id.index()] {
                self.replace_answers_of(id, node);
            }
        }
        for &query in unanswered {
            let DiscoveryQuery::Pkeys { node, port, block } = query else { continue };
            let guid = self.state.node(node).guid();
            let slot = self.last.port_by_end((guid, port));
            let table = slot.and_then(|slot| self.known.pkeys.get(slot.index()));
            if let Some(keys) = table.and_then(|table| table.get(usize::from(block))) {
                self.state.replace_pkeys((node, port), block, *keys);
            }
        }
    }

    fn replace_answers_of(&mut self, id: NodeId, node: usize) {
        let before = self.last.node(id);
        let now = self.state.node_mut(node);
        if now.description == NodeDescription::default() {
            now.description = before.description;
        }
        if now.lacks_switch_info() {
            now.switch_info = before.switch_info;
        }
        for num in (0..=before.num_ports()).map(PortNum) {
            let Some(slot) = self.last.port_of(id, num) else { continue };
            let port = self.last.port(slot);
            let Some(now) = self.state.port((node, num)) else { continue };
            let is_free = now.guid.0 == 0 && !self.state.has_end_port(port.guid);
            let is_same = now.guid == port.guid || is_free;
            if now.info().is_none() && port.info().is_some() && is_same && !self.was_reset(slot) {
                self.restore_port(slot, (node, num));
            }
        }
    }

    /// True if the far end of a cable tells that its link was down meanwhile, or is.
    fn was_reset(&self, slot: PortId) -> bool {
        let Some(far) = self.last.port(slot).peer.map(|peer| self.last.port(peer)) else {
            return false;
        };
        let Presence::Answered(node) = self.presence[far.node.index()] else { return false };
        let now = self.state.port((node, far.num)).and_then(|port| port.info());
        now.is_some_and(|now| !is_link_kept(far, &now))
    }

    fn restore_port(&mut self, slot: PortId, end: (usize, PortNum)) {
        let before = self.last.port(slot);
        if before.guid.0 != 0 && (!self.state.node(end.0).is_switch() || end.1 == PortNum::ZERO) {
            self.state.port_owner.entry(before.guid).or_insert(end);
        }
        let Some(now) = self.state.slot(end) else { return };
        if let Some(port) = self.state.port_mut(end) {
            port.guid = before.guid;
            port.share_info(before);
        }
        if let Some(table) = self.known.pkeys.get(slot.index()).filter(|table| !table.is_empty()) {
            self.state.read_pkeys.entry(now).or_insert_with(|| table.to_vec());
        }
    }

    /// Adds an unresponsive device as it was last known.
    fn keep(&mut self, id: NodeId) {
        let before = self.last.node(id);
        let node = self.state.add(before.info, before.route);
        let Node { description, switch_info, .. } = *before;
        let kept = self.state.node_mut(node);
        (kept.description, kept.switch_info) = (description, switch_info);
        for num in (0..=before.num_ports()).map(PortNum) {
            if let Some(slot) = self.last.port_of(id, num) {
                self.restore_port(slot, (node, num));
            }
        }
        self.state.unresponsive.insert(node);
    }

    fn end_now(&self, slot: PortId) -> Option<(usize, PortNum)> {
        let port = self.last.port(slot);
        let node = self.state.find(self.last.node(port.node).guid())?;
        Some((node, port.num))
    }

    /// The ports of unresponsive devices whose cables are gone have no link any more.
    fn close_open_ends(&mut self) {
        for node in self.state.unresponsive.clone() {
            for num in (1..=self.state.node(node).num_ports()).map(PortNum) {
                if let Some(port) = self.state.port_mut((node, num))
                    && port.peer.is_none()
                {
                    port.change_info(|info| {
                        info.set_port_state(PortState::Down);
                        info.set_phys_state(PhysState::Polling);
                    });
                }
            }
        }
    }
}

fn presence(state: &DiscoveryState, known: &KnownDevices, id: NodeId) -> Presence {
    let last = &*known.fabric;
    let before = last.node(id);
    if let Some(node) = state.find(before.guid()) {
        let is_same = same_device(&state.node(node).info, &before.info);
        return if is_same { Presence::Answered(node) } else { Presence::Gone };
    }
    if known.given_up.contains(&before.guid())
        || last.ports_of(id).any(|port| has_other_owner(state, port))
    {
        return Presence::Gone;
    }
    Presence::Absent(None)
}

fn has_other_owner(state: &DiscoveryState, port: &Port) -> bool {
    port.guid.0 != 0 && state.has_end_port(port.guid)
}

/// True if a port that had a link has it still, and has not lost it meanwhile.
fn is_link_kept(before: &Port, now: &PortInfo) -> bool {
    let was_in_use = before.state() >= PortState::Armed;
    let is_in_init = now.port_state() == PortState::Init;
    DiscoveryState::has_trained_link(now) && !(was_in_use && is_in_init)
}
