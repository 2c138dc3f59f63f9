//! ClassPortInfo, NodeRecord, PortInfoRecord, LinkRecord and SMInfoRecord (IBA vol. 1, 15.2.5).

use super::query::{Query, ReplyBuilder};
use super::status::ErrorStatus;
use super::vport_records;
use crate::fabric::PortId;
use crate::ids::{Lid, MKey, PortNum, SmKey};
use crate::plan::LidTable;
use crate::transport::GSI_QKEY;
use crate::wire::attr::{CapMask, PortInfo, SmInfo};
use crate::wire::record::tables::LinkRecord;
use crate::wire::record::{
    ClassCap, ClassCap2, ClassPortInfo, NodeRecord, PortInfoRecord, SmInfoRecord, matches,
};
use std::ops::ControlFlow;

/// ClassPortInfo: the capabilities of this SA (IBA vol. 1, 15.2.5.1).
pub(super) fn class_port_info(
    query: &Query<'_>,
    reply: &mut ReplyBuilder,
) -> Result<(), ErrorStatus> {
    let options = query.view.options();
    let mut info = ClassPortInfo::default();
    info.set_base_version(1);
    info.set_class_version(crate::wire::sa::CLASS_VERSION);
    let multicast = if options.disable_multicast { 0 } else { ClassCap::UD_MULTICAST };
    info.set_capability_mask(ClassCap::MULTIPATH | ClassCap::PORT_INFO_CAPMASK_MATCH | multicast);
    let qos = if options.qos { ClassCap2::QOS } else { 0 };
    let multicast_top = if options.use_mfttop { ClassCap2::MULTICAST_TOP } else { 0 };
    info.set_capability_mask2(
        qos | multicast_top
            | ClassCap2::FULL_PORT_INFO
            | ClassCap2::EXTENDED_SPEEDS
            | ClassCap2::MULTICAST_SERVICE_RECORDS
            | ClassCap2::PORT_INFO_CAPMASK2_MATCH
            | ClassCap2::SEND_ONLY_FULL_MEMBER
            | ClassCap2::LINK_WIDTH_2X
            | ClassCap2::ALIAS_GUIDS
            | ClassCap2::LINK_SPEED_HDR
            | ClassCap2::LINK_SPEED_NDR,
    );
    info.set_resp_time_value(resp_time_code(options.transaction_timeout));
    info.set_redirect_qp(1);
    info.set_redirect_qkey(GSI_QKEY);
    info.set_trap_qkey(GSI_QKEY);
    let _ = reply.push(&info);
    Ok(())
}

/// The smallest RespTimeValue n for which 4.096 us * 2^n is at least `milliseconds`; at most 31.
fn resp_time_code(milliseconds: u32) -> u8 {
    (0..31).find(|code| 4096u64 << code >= u64::from(milliseconds) * 1_000_000).unwrap_or(31)
}

/// NodeRecord: one per end port.
pub(super) fn nodes(query: &Query<'_>, reply: &mut ReplyBuilder) -> Result<(), ErrorStatus> {
    let mut wanted: NodeRecord = query.record();
    let fabric = query.view.fabric();
    let shows_vport = vport_records::is_selected(query, NodeRecord::LID, wanted.lid());
    for vport in vport_records::vports(query, NodeRecord::LID, wanted.lid()) {
        if query.push_if_matching(&wanted, &vport.node(query), reply).is_break() {
            return Ok(());
        }
    }
    if shows_vport {
        return Ok(());
    }
    // An inner loop: the chained iterators of the end ports are faster driven from within.
    let _ = query.end_ports(NodeRecord::LID, wanted.lid()).try_for_each(|port| {
        let node = fabric.node_of(port);
        let mut info = node.info;
        info.set_port_guid(query.view.guid(port));
        info.set_local_port(fabric.port(port).num);
        let mut record = NodeRecord::default();
        record.set_lid(query.view.lids().base_or_zero(port));
        record.set_node_info(&info);
        record.set_description(&node.description);
        if query.has(NodeRecord::LID) {
            // Every LID of the port's LMC range selects the record, which contains the base LID.
            wanted.set_lid(record.lid());
        }
        query.push_if_matching(&wanted, &record, reply)
    });
    Ok(())
}

/// PortInfoRecord: one per port, including all ports of switches.
pub(super) fn port_infos(query: &Query<'_>, reply: &mut ReplyBuilder) -> Result<(), ErrorStatus> {
    let wanted: PortInfoRecord = query.record();
    let fabric = query.view.fabric();
    for vport in vport_records::vports(query, PortInfoRecord::LID, wanted.lid()) {
        let Some((record, info)) = vport.port_info(query) else { continue };
        let found = FoundPort { end: vport.end.physical, record, info };
        if found.push_if_matching(query, &wanted, reply).is_break() {
            return Ok(());
        }
    }
    if vport_records::is_selected(query, PortInfoRecord::LID, wanted.lid()) {
        return Ok(());
    }
    'ports: for end in query.end_ports(PortInfoRecord::LID, wanted.lid()) {
        let node = fabric.node_of(end);
        let numbers = if node.is_switch() {
            0..=node.num_ports()
        } else {
            let own = fabric.port(end).num.0;
            own..=own
        };
        for num in numbers {
            if query.has(PortInfoRecord::PORT) && wanted.port().0 != num {
                continue;
            }
            let port = fabric.port_of(fabric.port(end).node, PortNum(num));
            let Some((port, info)) = port.and_then(|p| Some((p, query.view.port_info(p)?))) else {
                continue;
            };
            let mut record = PortInfoRecord::default();
            record.set_lid(query.view.lids().base_or_zero(end));
            record.set_port(fabric.port(port).num);
            record.set_port_info(&info);
            let found = FoundPort { end, record, info };
            if found.push_if_matching(query, &wanted, reply).is_break() {
                break 'ports;
            }
        }
    }
    Ok(())
}

/// A port that a query may select.
struct FoundPort {
    /// The end port of its node.
    end: PortId,
    record: PortInfoRecord,
    info: PortInfo,
}

impl FoundPort {
    fn push_if_matching(
        mut self,
        query: &Query<'_>,
        wanted: &PortInfoRecord,
        reply: &mut ReplyBuilder,
    ) -> ControlFlow<()> {
        if !self.matches(query, wanted) {
            return ControlFlow::Continue(());
        }
        let mut reported = self.info;
        if !query.is_privileged() {
            reported.set_m_key(MKey::NONE);
        }
        let options = if query.has(PortInfoRecord::OPTIONS) { wanted.options() } else { 0 };
        if options & PortInfoRecord::FULL_PORT_INFO == 0 && has_extended_speeds(query, self.end) {
            report_as_qdr(&mut reported);
        }
        self.record.set_options(options);
        self.record.set_port_info(&reported);
        reply.push(&self.record)
    }

    /// Compares the selected components, with these exceptions: the LID has been matched by LMC range,
    /// the options are not compared, only privileged requesters may select by M_Key, and the attribute
    /// modifier can ask for single capabilities instead of equal masks.
    fn matches(&self, query: &Query<'_>, wanted: &PortInfoRecord) -> bool {
        let mut mask = query.mask & !(PortInfoRecord::LID | PortInfoRecord::OPTIONS);
        if mask & PortInfoRecord::M_KEY != 0 && !query.is_privileged() {
            return false;
        }
        if query.modifier & PortInfoRecord::MATCH_CAPABILITIES != 0 {
            let asked = wanted.port_info();
            let bits = asked.capability_mask();
            let bits2 = asked.capability_mask2();
            let lacks = query.has(PortInfoRecord::CAPABILITY_MASK) && !self.info.has(bits);
            let lacks2 = query.has(PortInfoRecord::CAPABILITY_MASK2)
                && self.info.capability_mask2() & bits2 != bits2;
            if lacks || lacks2 {
                return false;
            }
            mask &= !(PortInfoRecord::CAPABILITY_MASK | PortInfoRecord::CAPABILITY_MASK2);
        }
        matches(mask, wanted, &self.record)
    }
}

/// True if the device supports extended speeds. A switch reports this at port 0 for all its ports.
fn has_extended_speeds(query: &Query<'_>, end: PortId) -> bool {
    query.view.port_info(end).is_some_and(|info| info.has(CapMask::EXTENDED_SPEEDS))
}

/// Reports a link of extended speed as QDR, for requesters that do not set FullPortInfo.
fn report_as_qdr(info: &mut PortInfo) {
    const QDR: u8 = 4;
    if info.link_speed_ext_active() != 0 {
        info.set_link_speed_enabled(info.link_speed_enabled() | QDR);
        info.set_link_speed_supported(info.link_speed_supported() | QDR);
        info.set_link_speed_active(info.link_speed_active() | QDR);
    }
}

/// LinkRecord: two per link, one from each end.
pub(super) fn links(query: &Query<'_>, reply: &mut ReplyBuilder) -> Result<(), ErrorStatus> {
    let fabric = query.view.fabric();
    let lids = query.view.lids();
    let mut wanted: LinkRecord = query.record();
    wanted.set_from_lid(base_lid(lids, wanted.from_lid()));
    wanted.set_to_lid(base_lid(lids, wanted.to_lid()));
    for (id, port) in fabric.port_ids().zip(fabric.ports()) {
        let Some(peer) = port.peer else { continue };
        let from = lids.base_of_owner(fabric, id);
        let to = lids.base_of_owner(fabric, peer);
        let (Some(from), Some(to)) = (from, to) else { continue };
        if !query.is_visible(id) || !query.is_visible(peer) {
            continue;
        }
        let mut record = LinkRecord::default();
        record.set_from_lid(from);
        record.set_from_port(port.num);
        record.set_to_port(fabric.port(peer).num);
        record.set_to_lid(to);
        if query.push_if_matching(&wanted, &record, reply).is_break() {
            break;
        }
    }
    Ok(())
}

/// Every LID of the port's LMC range selects the record, which contains the base LID.
fn base_lid(lids: &LidTable, lid: Lid) -> Lid {
    lids.port(lid).and_then(|port| lids.base(port)).unwrap_or(lid)
}

/// SMInfoRecord: one per subnet manager, with the SM_Key cleared.
pub(super) fn managers(
    query: &Query<'_>,
    managers: &[SmInfo],
    reply: &mut ReplyBuilder,
) -> Result<(), ErrorStatus> {
    let mut wanted: SmInfoRecord = query.record();
    let view = &query.view;
    let selected = view.lids().port(wanted.lid());
    for manager in managers {
        let Some(port) = view.fabric().port_by_guid(manager.guid()) else { continue };
        if !query.is_visible(port) {
            continue;
        }
        let mut info = *manager;
        info.set_sm_key(SmKey::NONE);
        let mut record = SmInfoRecord::default();
        record.set_lid(view.lids().base_or_zero(port));
        record.set_sm_info(&info);
        if selected == Some(port) {
            wanted.set_lid(record.lid());
        }
        if query.push_if_matching(&wanted, &record, reply).is_break() {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::resp_time_code;

    #[test]
    fn response_time_covers_the_timeout() {
        assert_eq!(resp_time_code(200), 16);
        assert_eq!(resp_time_code(1), 8);
        assert_eq!(resp_time_code(0), 0);
        assert_eq!(resp_time_code(u32::MAX), 31, "the largest code");
    }
}
