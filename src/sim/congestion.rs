//! Congestion control agent: Get and Set of the settings of switches and channel adapters (IBA
//! vol. 1, annex A10).
//!
//! A device checks the CC_Key as others check a B_Key: a Set with a wrong key is ignored and counted
//! as a violation, a Get succeeds, and shows the key only if it is not protected. Not modelled: the
//! lease of the key, traps, CongestionLog, TimeStamp, and congestion itself.

use super::devices::Devices;
use crate::wire::attr::{AttrId, NodeKind};
use crate::wire::congestion::{
    self, CCT_BLOCK, CLASS_VERSION, CaCongestionSetting, CongestionAttr, CongestionControlTable,
    CongestionInfo, CongestionKeyInfo, PORT_BLOCK, SwitchCongestionSetting,
    SwitchPortCongestionSetting,
};
use crate::wire::mad::{Mad, Method, Status};
use crate::wire::record::ClassPortInfo;
use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// Blocks of the congestion control table of every channel adapter.
pub(super) const TABLE_BLOCKS: usize = 2;

/// RespTimeValue: 4.096 us * 2^18 = 1.07 s.
const RESPONSE_TIME: u8 = 18;

/// The congestion control settings of an end port: of a switch, or of a port of a channel adapter.
/// After a reboot all are 0.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PortCongestionSettings {
    pub key: CongestionKeyInfo,
    /// Setting of a switch; unused on other nodes.
    pub switch: SwitchCongestionSetting,
    /// Settings of switch ports, by block of 32 ports; blocks that were never written are missing.
    pub switch_ports: BTreeMap<u8, SwitchPortCongestionSetting>,
    /// Setting of a channel adapter port; unused on switches.
    pub ca: CaCongestionSetting,
    /// Table of a channel adapter port; all blocks have the same limit.
    pub table: [CongestionControlTable; TABLE_BLOCKS],
}

/// A fault of a node's congestion control agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CongestionFault {
    /// The node has no such agent.
    Unsupported,
    /// Requests get no response.
    Silent,
    /// Sets get this status, and change nothing.
    Refuses(u16),
}

impl fmt::Display for CongestionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported => f.write_str("unsupported"),
            Self::Silent => f.write_str("silent"),
            Self::Refuses(status) => write!(f, "refused with status 0x{status:02x}"),
        }
    }
}

/// Reaction of a node's agent to a request of a general services class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum GmpAction {
    /// The MAD is the response.
    Respond,
    /// There is no response.
    Ignore,
    /// The node has no such agent.
    NotSupported,
}

/// The agents of all devices.
#[derive(Default)]
pub(super) struct CongestionAgents {
    /// By slot of the end port; without those that were never written.
    settings: HashMap<u32, Box<PortCongestionSettings>>,
    /// Requests received: `[Get, Set]` by attribute ID.
    pub(super) requests: BTreeMap<u16, [u64; 2]>,
}

impl CongestionAgents {
    /// The settings of an end port.
    pub(super) fn settings(&self, end_port: u32) -> PortCongestionSettings {
        self.settings.get(&end_port).map(|settings| (**settings).clone()).unwrap_or_default()
    }

    pub(super) fn settings_mut(&mut self, end_port: u32) -> &mut PortCongestionSettings {
        self.settings.entry(end_port).or_default()
    }

    /// Restores the factory settings.
    pub(super) fn reset(&mut self, end_port: u32) {
        self.settings.remove(&end_port);
    }

    /// Processes the request `mad`, received through the port `slot`, and replaces it with the
    /// response.
    pub(super) fn process(
        &mut self,
        devices: &Devices,
        slot: u32,
        fault: Option<CongestionFault>,
        mad: &mut Mad,
    ) -> GmpAction {
        let header = mad.header();
        let method = mad.method();
        let kind = devices.node(devices.port(slot).node).info.kind();
        let is_supported = matches!(kind, NodeKind::Switch | NodeKind::Ca)
            && fault != Some(CongestionFault::Unsupported);
        if method.is_response() || method == Method::TRAP_REPRESS || !is_supported {
            return GmpAction::NotSupported;
        }
        let is_set = method == Method::SET;
        self.requests.entry(header.attr_id()).or_default()[usize::from(is_set)] += 1;
        let end_port = devices.end_port(slot);
        if fault == Some(CongestionFault::Silent) || !self.admits_key(end_port, is_set, mad) {
            return GmpAction::Ignore;
        }
        let result = match fault {
            Some(CongestionFault::Refuses(status)) if is_set => Err(status),
            _ => self.attribute(end_port, kind, mad),
        };
        let mut header = mad.header();
        header.set_method(Method::GET_RESP.0);
        header.set_status(result.as_ref().err().copied().unwrap_or(Status::OK));
        mad.set_header(&header);
        if let Ok(data) = result {
            congestion::set_data(mad, &data);
        }
        GmpAction::Respond
    }

    /// True unless a Set has a wrong key, which is counted.
    fn admits_key(&mut self, end_port: u32, is_set: bool, mad: &Mad) -> bool {
        let Some(settings) = self.settings.get_mut(&end_port) else { return true };
        let held = settings.key.cc_key();
        let is_admitted = !is_set || !held.is_set() || held == congestion::cc_key(mad);
        if !is_admitted {
            let violations = settings.key.violations().saturating_add(1);
            settings.key.set_violations(violations);
        }
        is_admitted
    }

    /// Attribute data of the response, or an error status.
    fn attribute(&mut self, end_port: u32, kind: NodeKind, mad: &Mad) -> Result<Vec<u8>, u16> {
        let header = mad.header();
        let method = mad.method();
        if header.class_version() != CLASS_VERSION {
            return Err(Status::BAD_VERSION);
        }
        let is_set = match method {
            Method::GET => false,
            Method::SET => true,
            _ => return Err(Status::BAD_METHOD),
        };
        let data = congestion::data(mad);
        let modifier = header.attr_mod();
        let has_blocks = matches!(
            header.attr_id(),
            CongestionAttr::SWITCH_PORT_CONGESTION_SETTING
                | CongestionAttr::CONGESTION_CONTROL_TABLE
        );
        if modifier != 0 && !has_blocks {
            return Err(Status::BAD_FIELD);
        }
        match (header.attr_id(), is_set, kind) {
            (AttrId::CLASS_PORT_INFO, false, _) => Ok(class_port_info().0.to_vec()),
            (CongestionAttr::CONGESTION_INFO, false, _) => Ok(info(kind).0.to_vec()),
            (CongestionAttr::CONGESTION_KEY_INFO, ..) => {
                Ok(self.key_info(end_port, is_set, mad).0.to_vec())
            }
            (CongestionAttr::SWITCH_CONGESTION_SETTING, _, NodeKind::Switch) => {
                let held = &mut self.settings_mut(end_port).switch;
                if is_set {
                    held.update(&SwitchCongestionSetting::read(data));
                }
                Ok(held.0.to_vec())
            }
            (CongestionAttr::SWITCH_PORT_CONGESTION_SETTING, _, NodeKind::Switch) => {
                self.switch_ports(end_port, modifier, is_set.then_some(data))
            }
            (CongestionAttr::CA_CONGESTION_SETTING, _, NodeKind::Ca) => {
                let held = &mut self.settings_mut(end_port).ca;
                if is_set {
                    held.update(&CaCongestionSetting::read(data));
                }
                Ok(held.0.to_vec())
            }
            (CongestionAttr::CONGESTION_CONTROL_TABLE, _, NodeKind::Ca) => {
                self.table(end_port, modifier, is_set.then_some(data))
            }
            _ => Err(Status::BAD_METHOD_ATTR),
        }
    }

    fn key_info(&mut self, end_port: u32, is_set: bool, mad: &Mad) -> CongestionKeyInfo {
        let held = &mut self.settings_mut(end_port).key;
        if is_set {
            *held = CongestionKeyInfo::read(congestion::data(mad));
            return *held;
        }
        let mut shown = *held;
        if held.protect() && held.cc_key() != congestion::cc_key(mad) {
            shown.set_cc_key(Default::default());
        }
        shown
    }

    fn switch_ports(
        &mut self,
        end_port: u32,
        block: u32,
        wanted: Option<&congestion::CongestionData>,
    ) -> Result<Vec<u8>, u16> {
        let block = u8::try_from(block).map_err(|_| Status::BAD_FIELD)?;
        if usize::from(block) * PORT_BLOCK > u8::MAX.into() {
            return Err(Status::BAD_FIELD);
        }
        let held = self.settings_mut(end_port).switch_ports.entry(block).or_default();
        if let Some(data) = wanted {
            *held = SwitchPortCongestionSetting::read(data);
        }
        Ok(held.0.to_vec())
    }

    fn table(
        &mut self,
        end_port: u32,
        block: u32,
        wanted: Option<&congestion::CongestionData>,
    ) -> Result<Vec<u8>, u16> {
        let table = &mut self.settings_mut(end_port).table;
        let block = block as usize;
        if block >= TABLE_BLOCKS {
            return Err(Status::BAD_FIELD);
        }
        if let Some(data) = wanted {
            let wanted = CongestionControlTable::read(data);
            if usize::from(wanted.ccti_limit()) >= TABLE_BLOCKS * CCT_BLOCK {
                return Err(Status::BAD_FIELD);
            }
            table[block] = wanted;
            table.iter_mut().for_each(|block| block.set_ccti_limit(wanted.ccti_limit()));
        }
        Ok(table[block].0.to_vec())
    }
}

fn class_port_info() -> ClassPortInfo {
    let mut info = ClassPortInfo::default();
    info.set_base_version(1);
    info.set_class_version(CLASS_VERSION);
    info.set_resp_time_value(RESPONSE_TIME);
    info
}

fn info(kind: NodeKind) -> CongestionInfo {
    let mut info = CongestionInfo::default();
    match kind {
        NodeKind::Switch => info.set_capabilities(CongestionInfo::CREDIT_STARVATION),
        _ => info.set_control_table_cap(TABLE_BLOCKS as u8),
    }
    info
}

#[cfg(test)]
mod tests;
