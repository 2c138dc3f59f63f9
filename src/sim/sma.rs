//! Subnet management agent: Get and Set of attributes (IBA vol. 1, 14.2.5).

use super::devices::Devices;
use super::tables::AttributeData;
use crate::ids::PortNum;
use crate::wire::attr::{AttrId, MlnxExtPortInfo, PortInfo, SwitchInfo};
use crate::wire::mad::{Mad, Method, Status};
use crate::wire::smp::DATA_SIZE;

/// Action of a management agent after it has processed a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AgentAction {
    /// Send the response, which has replaced the request.
    Respond,
    /// Send nothing.
    Drop,
    /// Send trap 256 (bad M_Key), and no response.
    BadMKey,
}

/// Attribute data of a response, or an error status.
pub(super) type AttributeResult = Result<AttributeData, u16>;

/// `bytes`, zero-padded to the size of an attribute.
fn padded(bytes: &[u8]) -> AttributeData {
    let mut data = [0; DATA_SIZE];
    let len = bytes.len().min(DATA_SIZE);
    data[..len].copy_from_slice(&bytes[..len]);
    data
}

fn in_range(block: Option<AttributeData>) -> AttributeResult {
    block.ok_or(Status::BAD_FIELD)
}

impl Devices {
    /// Processes the request `mad`, received through the port `entry`, and replaces it with the
    /// response.
    pub(super) fn process_smp(&mut self, entry: u32, mad: &mut Mad) -> AgentAction {
        let method = mad.method();
        if method != Method::GET && method != Method::SET {
            return if method.is_response() || method == Method::TRAP_REPRESS {
                AgentAction::Drop
            } else {
                respond(mad, Err(Status::BAD_METHOD))
            };
        }
        let header = mad.header();
        if header.base_version() != 1 || header.class_version() != 1 {
            return respond(mad, Err(Status::BAD_VERSION));
        }
        if !self.admits_m_key(entry, mad) {
            return AgentAction::BadMKey;
        }
        let is_trusted = self.m_key_matches(entry, mad.smp().m_key());
        let write = (method == Method::SET).then(|| *mad.smp_data());
        let mut result = self.attribute(entry, header.attr_id(), header.attr_mod(), write.as_ref());
        if let Ok(data) = &mut result
            && header.attr_id() == AttrId::PORT_INFO
            && method == Method::GET
            && !is_trusted
            && self.end_port_info(entry).m_key_protect_bits() == 1
        {
            data[..8].fill(0);
        }
        respond(mad, result)
    }

    fn attribute(
        &mut self,
        entry: u32,
        id: u16,
        modifier: u32,
        write: Option<&AttributeData>,
    ) -> AttributeResult {
        let node = self.port(entry).node;
        match id {
            AttrId::NODE_INFO => self.node_info(entry, write),
            AttrId::NODE_DESCRIPTION if write.is_none() => Ok(self.node(node).description.0),
            AttrId::PORT_INFO => self.port_info(entry, modifier, write),
            AttrId::SWITCH_INFO if self.is_switch(node) => self.switch_info(node, write),
            AttrId::LINEAR_FT if self.is_switch(node) => in_range(self.lft(node, modifier, write)),
            AttrId::MULTICAST_FT if self.is_switch(node) => {
                in_range(self.mft(node, modifier, write))
            }
            AttrId::SL_TO_VL => in_range(self.sl_to_vl(entry, modifier, write)),
            AttrId::VL_ARBITRATION => in_range(self.vl_arb(entry, modifier, write)),
            AttrId::PKEY_TABLE => in_range(self.pkeys(entry, modifier, write)),
            AttrId::GUID_INFO => in_range(self.guids(entry, modifier, write)),
            AttrId::MLNX_EXT_PORT_INFO
                if MlnxExtPortInfo::is_supported_by(&self.node(node).info) =>
            {
                self.extended_port_info(entry, modifier, write)
            }
            AttrId::NOTICE => Ok([0; DATA_SIZE]),
            id => self.vendor_attribute(entry, id, modifier, write),
        }
    }

    fn node_info(&self, entry: u32, write: Option<&AttributeData>) -> AttributeResult {
        if write.is_some() {
            return Err(Status::BAD_METHOD_ATTR);
        }
        let port = self.port(entry);
        let mut info = self.node(port.node).info;
        info.set_local_port(port.num);
        info.set_port_guid(port.guid);
        Ok(padded(&info.0))
    }

    /// The port of the node of `entry` with a number; 0 is `entry` itself on a channel adapter.
    pub(super) fn numbered_port(&self, entry: u32, num: u32) -> Result<u32, u16> {
        let node = self.port(entry).node;
        match u8::try_from(num).map_err(|_| Status::BAD_FIELD)? {
            0 if !self.is_switch(node) => Ok(entry),
            num => self.slot(node, PortNum(num)).ok_or(Status::BAD_FIELD),
        }
    }

    /// The attribute modifier is the port number; on a channel adapter, 0 means the receiving port.
    /// Bit 31, support for extended link speeds, makes no difference here.
    fn port_info(
        &mut self,
        entry: u32,
        modifier: u32,
        write: Option<&AttributeData>,
    ) -> AttributeResult {
        let slot = self.numbered_port(entry, modifier & 0x7FFF_FFFF)?;
        let mut reregister = false;
        if let Some(data) = write {
            let wanted = PortInfo::read(data);
            let status = self.set_port_info(slot, &wanted);
            if status != Status::OK {
                return Err(status);
            }
            reregister = wanted.client_reregister();
            if reregister {
                self.port_events.entry(slot).or_default().reregistrations += 1;
            }
        }
        let mut info = self.port(slot).info;
        info.set_local_port(self.port(entry).num);
        info.set_client_reregister(reregister);
        Ok(info.0)
    }

    fn switch_info(&mut self, node: u32, write: Option<&AttributeData>) -> AttributeResult {
        let switch = self.switch_mut(node).ok_or(Status::BAD_METHOD_ATTR)?;
        if let Some(data) = write {
            let wanted = SwitchInfo::read(data);
            let info = &mut switch.info;
            if wanted.linear_fdb_top() >= info.linear_fdb_cap() {
                return Err(Status::BAD_FIELD);
            }
            info.set_linear_fdb_top(wanted.linear_fdb_top());
            info.set_life_time_value(wanted.life_time_value());
            info.set_default_port(wanted.default_port());
            info.set_default_mcast_primary(wanted.default_mcast_primary());
            info.set_default_mcast_not_primary(wanted.default_mcast_not_primary());
            info.set_multicast_fdb_top(wanted.multicast_fdb_top());
            if wanted.port_state_change() {
                info.set_port_state_change(false);
            }
        }
        Ok(padded(&switch.info.0))
    }
}

/// Makes the response with the result of a request.
pub(super) fn respond(mad: &mut Mad, result: AttributeResult) -> AgentAction {
    let mut header = mad.header();
    header.set_method(Method::GET_RESP.0);
    match result {
        Ok(data) => {
            header.set_status(Status::OK);
            *mad.smp_data_mut() = data;
        }
        Err(status) => header.set_status(status),
    }
    mad.set_header(&header);
    AgentAction::Respond
}
