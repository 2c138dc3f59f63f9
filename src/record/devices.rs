//! The devices of a fabric as recorded answers show them. A heavy sweep of them takes routes of its
//! own, so that answers are found by device, attribute and modifier, whatever the route of the
//! recorded query.

use super::entry::{EntryBody, RecordEntry, RecordedMad};
use super::json::{DevicesJson, NodeJson};
use crate::ids::{Guid, PortNum};
use crate::transport::Agent;
use crate::transport::recorded::MadFate;
use crate::wire::attr::{AttrId, NodeInfo, NodeKind, PortInfo, PortState};
use crate::wire::mad::{Mad, Method, low_tid_of};
use crate::wire::smp::{DATA_SIZE, DirectedRoute};
use rustc_hash::{FxHashMap, FxHashSet};

/// The end of a cable.
type End = (Guid, PortNum);

/// The response to a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordedAnswer {
    Data([u8; DATA_SIZE]),
    /// An error status.
    Status(u16),
    /// The device did not answer, or the recording has no answer.
    None,
}

/// Attribute, modifier and port of an answer. The port is 0 unless each port has an attribute of
/// its own and is reached through its own cable.
type AnswerKey = (u16, u32, PortNum);

#[derive(Clone, Debug, Default)]
struct RecordedDevice {
    info: NodeInfo,
    /// GUIDs of the ports of a channel adapter or router.
    port_guids: FxHashMap<PortNum, Guid>,
    answers: FxHashMap<AnswerKey, RecordedAnswer>,
}

impl RecordedDevice {
    fn is_switch(&self) -> bool {
        self.info.kind() == NodeKind::Switch
    }

    fn key(&self, attr_id: u16, modifier: u32, arrival: PortNum) -> AnswerKey {
        let is_of_port = matches!(attr_id, AttrId::PORT_INFO | AttrId::PKEY_TABLE);
        let port = if is_of_port && !self.is_switch() { arrival } else { PortNum::ZERO };
        (attr_id, modifier, port)
    }

    /// NodeInfo through a port.
    fn node_info(&self, arrival: PortNum) -> RecordedAnswer {
        let mut info = self.info;
        info.set_local_port(arrival);
        if let Some(&guid) = self.port_guids.get(&arrival) {
            info.set_port_guid(guid);
        }
        RecordedAnswer::Data(padded(&info.0))
    }
}

fn padded(bytes: &[u8]) -> [u8; DATA_SIZE] {
    let mut data = [0; DATA_SIZE];
    data[..bytes.len()].copy_from_slice(bytes);
    data
}

/// The devices of a recording.
#[derive(Clone, Debug, Default)]
pub struct RecordedDevices {
    devices: FxHashMap<Guid, RecordedDevice>,
    cables: FxHashMap<End, End>,
    /// Ports whose far end does not answer NodeInfo.
    silent: FxHashSet<End>,
    /// The port of the subnet manager.
    local: Option<End>,
    /// Requests without an outcome, by the lower half of the transaction ID.
    pending: FxHashMap<u32, Mad>,
    /// Number of answers through cables that the recording does not contain.
    unplaced: usize,
    /// Number of changes so far.
    revision: u64,
}

impl RecordedDevices {
    /// The devices at the beginning of a recording.
    pub fn new(snapshot: Option<&DevicesJson>) -> Self {
        let mut devices = Self::default();
        let Some(snapshot) = snapshot else { return devices };
        devices.local = Some((snapshot.local.0.0, PortNum(snapshot.local.1)));
        for node in &snapshot.nodes {
            devices.add(node);
        }
        devices
    }

    /// The port of the subnet manager; `None` if the recording does not contain it.
    pub fn local(&self) -> Option<End> {
        self.local
    }

    /// Number of answers that belong to no known device.
    pub fn unplaced(&self) -> usize {
        self.unplaced
    }

    /// Number of answers and cables that were new so far: equal numbers mean equal devices.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    fn add(&mut self, node: &NodeJson) {
        let info = NodeInfo::read(&node.info.0);
        let guid = info.node_guid();
        let mut device = RecordedDevice { info, ..RecordedDevice::default() };
        let mut answers = FxHashMap::default();
        answers.insert(
            (AttrId::NODE_DESCRIPTION, 0, PortNum::ZERO),
            RecordedAnswer::Data(node.description.0),
        );
        if device.is_switch() {
            answers.insert(
                (AttrId::SWITCH_INFO, 0, PortNum::ZERO),
                RecordedAnswer::Data(node.switch_info.0),
            );
        }
        for (port, num) in node.ports.iter().zip(0..=u8::MAX) {
            let num = PortNum(num);
            if !device.is_switch() && port.guid.0.0 != 0 {
                device.port_guids.insert(num, port.guid.0);
            }
            if let Some(info) = &port.info {
                answers.insert(
                    device.key(AttrId::PORT_INFO, num.0.into(), num),
                    RecordedAnswer::Data(info.0),
                );
            }
            for (block, number) in port.pkeys.iter().zip(0..=u16::MAX) {
                let high = if device.is_switch() { u32::from(num.0) << 16 } else { 0 };
                let key = device.key(AttrId::PKEY_TABLE, high | u32::from(number), num);
                answers.insert(key, RecordedAnswer::Data(block.0));
            }
            if let Some((peer, to)) = port.peer {
                self.cables.insert((guid, num), (peer.0, PortNum(to)));
            }
        }
        device.answers = answers;
        self.devices.insert(guid, device);
    }

    /// Updates the devices by an entry of the recording.
    pub fn apply(&mut self, entry: &RecordEntry) {
        let EntryBody::Mad(recorded) = &entry.body else { return };
        if recorded.agent != Agent::SmiDirected {
            return;
        }
        let Some(tid) = low_tid_of(&recorded.mad.0) else { return };
        match recorded.fate {
            MadFate::Sent if !recorded.mad.method().is_response() => {
                self.pending.insert(tid, recorded.mad);
            }
            MadFate::Sent => {}
            MadFate::NotSent => {
                self.pending.remove(&tid);
            }
            MadFate::Received => self.received(tid, recorded),
            MadFate::Unanswered => {
                if let Some(request) = self.pending.remove(&tid) {
                    self.store(&request, RecordedAnswer::None);
                }
            }
        }
    }

    fn received(&mut self, tid: u32, recorded: &RecordedMad) {
        let mad = &recorded.mad;
        if mad.method() != Method::GET_RESP {
            return;
        }
        // The request may be older than the recording.
        let request = self.pending.remove(&tid).unwrap_or(*mad);
        let asked = request.header();
        let header = mad.header();
        if (asked.attr_id(), asked.attr_mod()) != (header.attr_id(), header.attr_mod()) {
            return;
        }
        let answer = match mad.smp().status() {
            0 => RecordedAnswer::Data(*mad.smp_data()),
            status => RecordedAnswer::Status(status),
        };
        self.store(&request, answer);
    }

    /// Stores the answer to a request. A refused or lost Set changes nothing.
    fn store(&mut self, request: &Mad, answer: RecordedAnswer) {
        let is_get = request.method() == Method::GET;
        if !is_get && !matches!(answer, RecordedAnswer::Data(_)) {
            return;
        }
        let Some(route) = request.smp().route() else { return };
        let attr_id = request.header().attr_id();
        // Bit 31 of a PortInfo Set says that the SM knows extended link speeds.
        let modifier = match attr_id {
            AttrId::PORT_INFO => request.header().attr_mod() & 0xff,
            _ => request.header().attr_mod(),
        };
        if attr_id == AttrId::NODE_INFO {
            self.store_node_info(&route, answer);
            return;
        }
        if !is_discovered(attr_id) {
            return;
        }
        let Some((guid, arrival)) = self.walk(&route) else {
            self.unplaced += 1;
            return;
        };
        let Some(device) = self.devices.get_mut(&guid) else { return };
        let key = device.key(attr_id, modifier, arrival);
        if device.answers.insert(key, answer) != Some(answer) {
            self.revision += 1;
        }
        let port = PortNum(modifier as u8);
        if let (AttrId::PORT_INFO, RecordedAnswer::Data(data)) = (attr_id, answer)
            && is_without_link(&PortInfo::read(&data))
            && (port != PortNum::ZERO || !device.is_switch())
        {
            self.disconnect((guid, port));
        }
    }

    fn store_node_info(&mut self, route: &DirectedRoute, answer: RecordedAnswer) {
        let exits: Vec<PortNum> = route.exits().collect();
        let from = match exits.split_last() {
            None => None,
            Some((&exit, before)) => {
                let before = DirectedRoute::new(before).and_then(|route| self.walk(&route));
                let Some((guid, _)) = before else {
                    self.unplaced += 1;
                    return;
                };
                Some((guid, exit))
            }
        };
        match (from, answer) {
            (_, RecordedAnswer::Data(data)) => self.store_node(from, NodeInfo::read(&data)),
            (Some(from), _) => {
                if self.silent.insert(from) {
                    self.revision += 1;
                }
            }
            (None, _) => {}
        }
    }

    /// Stores the node that answered behind a port, or that is the local one.
    fn store_node(&mut self, from: Option<End>, info: NodeInfo) {
        let end = (info.node_guid(), info.local_port());
        let device = self.devices.entry(end.0).or_default();
        device.info = info;
        if !device.is_switch() {
            device.port_guids.insert(end.1, info.port_guid());
        }
        match from {
            None => self.local = Some(end),
            Some(from) => {
                if self.silent.remove(&from) {
                    self.revision += 1;
                }
                if self.cables.get(&from) != Some(&end) {
                    self.disconnect(from);
                    self.disconnect(end);
                    self.cables.insert(from, end);
                    self.cables.insert(end, from);
                    self.revision += 1;
                }
            }
        }
    }

    fn disconnect(&mut self, end: End) {
        self.silent.remove(&end);
        if let Some(peer) = self.cables.remove(&end) {
            self.cables.remove(&peer);
            self.revision += 1;
        }
    }

    /// The device at the end of a route, and the port by which the route reaches it.
    fn walk(&self, route: &DirectedRoute) -> Option<End> {
        let mut at = self.local?;
        for exit in route.exits() {
            at = *self.cables.get(&(at.0, exit))?;
        }
        Some(at)
    }

    /// The answer to SubnGet of an attribute at the end of a route.
    pub fn answer(&self, route: &DirectedRoute, attr_id: u16, modifier: u32) -> RecordedAnswer {
        let Some((guid, arrival)) = self.walk(route) else { return RecordedAnswer::None };
        let Some(device) = self.devices.get(&guid) else { return RecordedAnswer::None };
        if attr_id == AttrId::NODE_INFO {
            let is_silent = self
                .cables
                .get(&(guid, arrival))
                .is_some_and(|from| !route.is_empty() && self.silent.contains(from));
            return if is_silent { RecordedAnswer::None } else { device.node_info(arrival) };
        }
        let key = device.key(attr_id, modifier, arrival);
        device.answers.get(&key).copied().unwrap_or(RecordedAnswer::None)
    }
}

/// True for the attributes that sweeps read.
fn is_discovered(attr_id: u16) -> bool {
    matches!(
        attr_id,
        AttrId::NODE_DESCRIPTION
            | AttrId::SWITCH_INFO
            | AttrId::PORT_INFO
            | AttrId::PKEY_TABLE
            | AttrId::SM_INFO
    )
}

fn is_without_link(info: &PortInfo) -> bool {
    info.port_state() == PortState::Down
}
