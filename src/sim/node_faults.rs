//! Faults of a node's management agents.

use super::congestion::CongestionFault;
use super::devices::Devices;
use super::redirection::PerfRedirection;
use super::sma::{self, AgentAction};
use crate::wire::attr::{AttrId, NodeInfo};
use crate::wire::mad::{Class, Mad, Method, Status};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

/// Misbehaviour of a node's management agents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Misbehaviour {
    /// Sends no response and no trap; packets are still forwarded.
    Silent,
    /// The attribute data of responses is random.
    Garbage,
    /// Responses carry another transaction ID than the request.
    WrongTid,
}

impl fmt::Display for Misbehaviour {
    /// The command that causes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Silent => "silent",
            Self::Garbage => "garbage",
            Self::WrongTid => "wrong-tid",
        })
    }
}

/// Response to a Set that changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetFault {
    /// The response has the current data and this status.
    Refused(u16),
    /// The response has the status OK and the data of the request.
    Ignored,
}

impl fmt::Display for SetFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(status) => write!(f, "Sets refused with status 0x{status:02x}"),
            Self::Ignored => f.write_str("Sets ignored"),
        }
    }
}

/// Answer to all requests for an attribute of subnet management.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttributeFault {
    /// There is none.
    Silent,
    /// This status.
    Refused(u16),
}

impl fmt::Display for AttributeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent => f.write_str("requests ignored"),
            Self::Refused(status) => write!(f, "requests refused with status 0x{status:02x}"),
        }
    }
}

/// Stands for all attributes in [`NodeFaults::sets`], as in ibsim.
pub(super) const ALL_ATTRIBUTES: u16 = 0;

/// Faults of one node.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct NodeFaults {
    pub(super) misbehaviour: Option<Misbehaviour>,
    /// Time from a request to its response, in addition to that of the way.
    pub(super) response_time: Duration,
    /// NumPorts in NodeInfo, instead of the number of ports.
    pub(super) num_ports: Option<u8>,
    /// Sets without effect, by attribute ID.
    pub(super) sets: BTreeMap<u16, SetFault>,
    /// Attributes that are not answered as they should be.
    pub(super) attributes: BTreeMap<u16, AttributeFault>,
    pub(super) congestion: Option<CongestionFault>,
    /// Where the performance management agent answers, if not at the node.
    pub(super) perf_redirection: Option<PerfRedirection>,
}

impl NodeFaults {
    pub(super) fn fail_sets(&mut self, attr_id: u16, how: SetFault) {
        self.sets.insert(attr_id, how);
    }

    /// `None` ends the fault of the attribute.
    pub(super) fn set_attribute(&mut self, attr_id: u16, fault: Option<AttributeFault>) {
        match fault {
            Some(fault) => self.attributes.insert(attr_id, fault),
            None => self.attributes.remove(&attr_id),
        };
    }
}

/// Faults of all nodes, by node index.
#[derive(Default)]
pub(super) struct FaultyNodes(HashMap<u32, NodeFaults>);

impl FaultyNodes {
    pub(super) fn change(&mut self, node: u32, change: impl FnOnce(&mut NodeFaults)) {
        change(self.0.entry(node).or_default());
        self.0.retain(|_, faults| *faults != NodeFaults::default());
    }

    /// Ends all faults of a node.
    pub(super) fn clear(&mut self, node: u32) {
        self.0.remove(&node);
    }

    pub(super) fn has(&self, node: u32, misbehaviour: Misbehaviour) -> bool {
        self.get(node).is_some_and(|faults| faults.misbehaviour == Some(misbehaviour))
    }

    pub(super) fn response_time(&self, node: u32) -> Duration {
        self.get(node).map_or(Duration::ZERO, |faults| faults.response_time)
    }

    /// The fault of the node's congestion control agent.
    pub(super) fn congestion(&self, node: u32) -> Option<CongestionFault> {
        self.get(node)?.congestion
    }

    /// Where the node's performance management agent answers, if not at the node.
    pub(super) fn perf_redirection(&self, node: u32) -> Option<PerfRedirection> {
        self.get(node)?.perf_redirection
    }

    /// The node whose performance management agent answers there.
    pub(super) fn redirected_to(&self, place: PerfRedirection) -> Option<u32> {
        let mut faults = self.0.iter();
        faults.find(|(_, fault)| fault.perf_redirection == Some(place)).map(|(&node, _)| node)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &NodeFaults)> {
        self.0.iter().map(|(&node, faults)| (node, faults))
    }

    fn get(&self, node: u32) -> Option<&NodeFaults> {
        if self.0.is_empty() { None } else { self.0.get(&node) }
    }

    /// The fault of the node that concerns the SMP `mad`, if it is a Set.
    fn set_fault(&self, node: u32, mad: &Mad) -> Option<SetFault> {
        let faults = self.get(node).filter(|_| mad.method() == Method::SET)?;
        let attribute = faults.sets.get(&mad.header().attr_id());
        attribute.or_else(|| faults.sets.get(&ALL_ATTRIBUTES)).copied()
    }

    /// Processes the SMP `mad`, received through the port `slot`, as the agent of the node does,
    /// and replaces it with the response.
    pub(super) fn process_smp(
        &self,
        devices: &mut Devices,
        slot: u32,
        mad: &mut Mad,
    ) -> AgentAction {
        let node = devices.port(slot).node;
        let attribute = mad.header().attr_id();
        match self.get(node).and_then(|faults| faults.attributes.get(&attribute)) {
            Some(AttributeFault::Silent) => return AgentAction::Drop,
            Some(&AttributeFault::Refused(status)) => return sma::respond(mad, Err(status)),
            None => {}
        }
        match self.set_fault(node, mad) {
            Some(fault) => process_without_effect(devices, slot, mad, fault),
            None => devices.process_smp(slot, mad),
        }
    }

    /// Falsifies the response of a node. `fill` writes random data.
    pub(super) fn falsify(&self, node: u32, mad: &mut Mad, fill: impl FnOnce(&mut [u8])) {
        let Some(faults) = self.get(node) else { return };
        if let Some(num_ports) = faults.num_ports {
            falsify_num_ports(mad, num_ports);
        }
        match faults.misbehaviour {
            Some(Misbehaviour::Garbage) => fill(mad.smp_data_mut()),
            Some(Misbehaviour::WrongTid) => {
                let mut header = mad.header();
                header.set_tid(!header.tid());
                mad.set_header(&header);
            }
            Some(Misbehaviour::Silent) | None => {}
        }
    }
}

/// Answers a Set like a Get, with the status of the fault or the data of the request.
fn process_without_effect(
    devices: &mut Devices,
    slot: u32,
    mad: &mut Mad,
    fault: SetFault,
) -> AgentAction {
    let wanted = *mad.smp_data();
    let mut header = mad.header();
    header.set_method(Method::GET.0);
    mad.set_header(&header);
    let action = devices.process_smp(slot, mad);
    if action != AgentAction::Respond {
        return action;
    }
    match fault {
        SetFault::Refused(status) => {
            let mut header = mad.header();
            header.set_status(status);
            mad.set_header(&header);
        }
        SetFault::Ignored if mad.smp().status() == Status::OK => *mad.smp_data_mut() = wanted,
        SetFault::Ignored => {}
    }
    action
}

fn falsify_num_ports(mad: &mut Mad, num_ports: u8) {
    let header = mad.header();
    let is_smp = [Class::SUBN_LID, Class::SUBN_DIRECTED].contains(&header.class());
    if !is_smp || header.attr_id() != AttrId::NODE_INFO {
        return;
    }
    let mut info = NodeInfo::read(mad.smp_data());
    info.set_num_ports(num_ports);
    let length = info.0.len();
    mad.smp_data_mut()[..length].copy_from_slice(&info.0);
}
