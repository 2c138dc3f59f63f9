//! SwitchInfoRecord and the records of forwarding, SL to VL, VL arbitration and P_Key tables, with
//! the planned content (IBA vol. 1, 15.2.5).

use super::query::{Query, ReplyBuilder};
use super::status::ErrorStatus;
use crate::fabric::{NodeId, PortId, SwitchId};
use crate::ids::{Lid, Mlid, PortNum};
use crate::wire::attr::tables::{MFT_BLOCK, MFT_POSITION_PORTS, MftBlock};
use crate::wire::record::tables::{
    LinearFtRecord, MulticastFtRecord, PkeyTableRecord, SlToVlRecord, SwitchInfoRecord,
    VlArbitrationRecord,
};
use crate::wire::sa::SaStatus;

/// Switches with their LIDs: only the owner of `lid` if the mask contains the component `bit`.
fn switches<'a>(
    query: &'a Query<'_>,
    bit: u64,
    lid: Lid,
) -> impl Iterator<Item = (SwitchId, Lid)> + 'a {
    query.end_ports(bit, lid).filter_map(|port| {
        let switch = query.view.fabric().node_of(port).switch?;
        Some((switch, query.view.lids().base(port)?))
    })
}

/// SwitchInfoRecord: one per switch.
pub(super) fn switch_infos(query: &Query<'_>, reply: &mut ReplyBuilder) -> Result<(), ErrorStatus> {
    let wanted: SwitchInfoRecord = query.record();
    for (switch, lid) in switches(query, SwitchInfoRecord::LID, wanted.lid()) {
        let mut record = SwitchInfoRecord::default();
        record.set_lid(lid);
        let planned = query.view.plan().switch_infos.get(switch.index()).copied();
        let info = planned.unwrap_or(query.view.fabric().switch(switch).switch_info);
        record.set_switch_info(&info);
        if reply.push(&record).is_break() {
            break;
        }
    }
    Ok(())
}

/// LinearForwardingTableRecord: one per block of 64 LIDs.
pub(super) fn linear(query: &Query<'_>, reply: &mut ReplyBuilder) -> Result<(), ErrorStatus> {
    let wanted: LinearFtRecord = query.record();
    for (switch, lid) in switches(query, LinearFtRecord::LID, wanted.lid()) {
        let Some(lft) = query.view.plan().routing.lfts.get(switch.index()) else { continue };
        for (block, entries) in lft.blocks().enumerate() {
            if query.has(LinearFtRecord::BLOCK) && usize::from(wanted.block()) != block {
                continue;
            }
            let mut record = LinearFtRecord::default();
            record.set_lid(lid);
            record.set_block(block as u16);
            record.0[8..].copy_from_slice(entries);
            if reply.push(&record).is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// MulticastForwardingTableRecord: one per block of 32 MLIDs and position of 16 ports, up to the
/// highest MLID in use.
pub(super) fn multicast(query: &Query<'_>, reply: &mut ReplyBuilder) -> Result<(), ErrorStatus> {
    let wanted: MulticastFtRecord = query.record();
    let tables = &query.view.plan().multicast.by_switch;
    for (switch, lid) in switches(query, MulticastFtRecord::LID, wanted.lid()) {
        let entries = tables.get(switch.index()).map_or(&[][..], Vec::as_slice);
        let blocks = entries.last().map_or(0, |&(mlid, _)| index_of_mlid(mlid) / MFT_BLOCK + 1);
        let ports = usize::from(query.view.fabric().switch(switch).num_ports());
        for block in 0..blocks {
            for position in 0..=(ports / MFT_POSITION_PORTS) as u8 {
                let mut record = MulticastFtRecord::default();
                record.set_lid(lid);
                record.set_position(position);
                record.set_block(block as u16);
                let mut masks = MftBlock::default();
                for &(mlid, mask) in
                    entries.iter().filter(|e| index_of_mlid(e.0) / MFT_BLOCK == block)
                {
                    masks.0[index_of_mlid(mlid) % MFT_BLOCK] = mask.position(position);
                }
                record.set_masks(&masks);
                let mut wanted = wanted;
                wanted.set_lid(lid);
                if query.push_if_matching(&wanted, &record, reply).is_break() {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

fn index_of_mlid(mlid: Mlid) -> usize {
    usize::from(mlid.0.saturating_sub(Mlid::FIRST.0))
}

/// SLtoVLMappingTableRecord: one per pair of ports of a switch, and one per port of other nodes,
/// where the port numbers of the query are ignored (IBA vol. 1, 15.2.5.4). Tables that are not
/// programmed (QoS is off, or the device has none) are reported as 0, as in OpenSM.
pub(super) fn sl_to_vl(query: &Query<'_>, reply: &mut ReplyBuilder) -> Result<(), ErrorStatus> {
    let mut wanted: SlToVlRecord = query.record();
    let fabric = query.view.fabric();
    for end in query.end_ports(SlToVlRecord::LID, wanted.lid()) {
        let Some(lid) = query.view.lids().base(end) else { continue };
        wanted.set_lid(lid);
        let node_id = fabric.port(end).node;
        let node = fabric.node_of(end);
        if !node.is_switch() {
            wanted.set_in_port(PortNum(0));
            wanted.set_out_port(PortNum(0));
            let mut record = SlToVlRecord::default();
            record.set_lid(lid);
            set_mapping(query, &mut record, node_id, fabric.port(end).num.0);
            if query.push_if_matching(&wanted, &record, reply).is_break() {
                return Ok(());
            }
            continue;
        }
        let ports = 0..=node.num_ports();
        for (output, input) in ports.clone().flat_map(|o| ports.clone().map(move |i| (o, i))) {
            let mut record = SlToVlRecord::default();
            record.set_lid(lid);
            record.set_in_port(PortNum(input));
            record.set_out_port(PortNum(output));
            set_mapping(query, &mut record, node_id, output);
            if query.push_if_matching(&wanted, &record, reply).is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Enters the planned mapping from the input port of the record to `output`.
fn set_mapping(query: &Query<'_>, record: &mut SlToVlRecord, node: NodeId, output: u8) {
    let written = query.view.plan().qos.sl_to_vl_of(node);
    let wanted = (output, record.in_port().0);
    let found = written.binary_search_by_key(&wanted, |&(input, out, _)| (out, input));
    if let Some((_, _, mapping)) = found.ok().and_then(|index| written.get(index)) {
        record.set_mapping(mapping);
    }
}

/// The ports whose tables belong to an end port: all ports of a switch, else the port itself.
fn owned_ports(query: &Query<'_>, end: PortId) -> impl Iterator<Item = PortId> + use<> {
    let node = query.view.fabric().node_of(end);
    let ports = if node.is_switch() { u32::from(node.num_ports()) } else { 0 };
    (end.0..=end.0 + ports).map(PortId)
}

/// Block numbers of a port's VL arbitration tables: two of low and two of high priority.
const VL_ARBITRATION_BLOCKS: std::ops::RangeInclusive<u8> = 1..=4;

/// VLArbitrationTableRecord: four per port. Blocks that are not programmed (QoS is off, or the port
/// has no such block) are reported as empty, as in OpenSM; the device's initial tables are not
/// read.
pub(super) fn vl_arbitration(
    query: &Query<'_>,
    reply: &mut ReplyBuilder,
) -> Result<(), ErrorStatus> {
    let mut wanted: VlArbitrationRecord = query.record();
    let tables = &query.view.plan().qos.vl_arbitration;
    for end in query.end_ports(VlArbitrationRecord::LID, wanted.lid()) {
        let Some(lid) = query.view.lids().base(end) else { continue };
        wanted.set_lid(lid);
        if !query.view.fabric().node_of(end).is_switch() {
            // The output port selects a record of switches only (IBA vol. 1, 15.2.5.9).
            wanted.set_out_port(query.view.fabric().port(end).num);
        }
        for port in owned_ports(query, end) {
            let written = tables.get(port.index()).map_or(&[][..], AsRef::as_ref);
            for block in VL_ARBITRATION_BLOCKS {
                let mut record = VlArbitrationRecord::default();
                record.set_lid(lid);
                record.set_out_port(query.view.fabric().port(port).num);
                record.set_block(block);
                if let Some((_, entries)) = written.iter().find(|(number, _)| *number == block) {
                    record.set_entries(entries);
                }
                if query.push_if_matching(&wanted, &record, reply).is_break() {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

/// P_KeyTableRecord: one per port and block, for trusted requesters only, as others must not learn
/// of partitions they are not members of (IBA vol. 1, 15.4.1.2).
pub(super) fn pkeys(query: &Query<'_>, reply: &mut ReplyBuilder) -> Result<(), ErrorStatus> {
    if !query.is_trusted() {
        return Err(ErrorStatus(SaStatus::REQ_INVALID));
    }
    let mut wanted: PkeyTableRecord = query.record();
    let tables = &query.view.plan().partitions;
    for end in query.end_ports(PkeyTableRecord::LID, wanted.lid()) {
        let Some(lid) = query.view.lids().base(end) else { continue };
        wanted.set_lid(lid);
        if !query.view.fabric().node_of(end).is_switch() {
            // The port number selects a record of switches only.
            wanted.set_port(query.view.fabric().port(end).num);
        }
        for port in owned_ports(query, end) {
            for (block, keys) in tables.blocks_of(port) {
                let mut record = PkeyTableRecord::default();
                record.set_lid(lid);
                record.set_block(*block);
                record.set_port(query.view.fabric().port(port).num);
                record.set_keys(keys);
                if query.push_if_matching(&wanted, &record, reply).is_break() {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}
