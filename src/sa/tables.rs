//! The records of forwarding, SL to VL, VL arbitration and P_Key tables, as planned.

use super::query::{Query, ReplyBuilder};
use super::status::ErrorStatus;
use crate::fabric::{PortId, SwitchId};
use crate::ids::{Lid, Mlid, PortNum};
use crate::wire::attr::tables::{LFT_BLOCK, MFT_BLOCK, MFT_POSITION_PORTS, MftBlock};
use crate::wire::record::tables::{
    LinearFtRecord, MulticastFtRecord, PkeyTableRecord, SlToVlRecord, SwitchInfoRecord,
    VlArbitrationRecord,
};
use crate::wire::sa::SaStatus;

/// Switches with their LIDs that a query means: the one at `lid` if the component `bit` is asked
/// for, else all.
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

/// SwitchInfoRecord.
pub(super) fn switch_infos(
    query: &Query<'_>,
    answer: &mut ReplyBuilder,
) -> Result<(), ErrorStatus> {
    let wanted: SwitchInfoRecord = query.record();
    for (switch, lid) in switches(query, SwitchInfoRecord::LID, wanted.lid()) {
        let mut record = SwitchInfoRecord::default();
        record.set_lid(lid);
        let planned = query.view.plan().switch_infos.get(switch.index()).copied();
        let info = planned.unwrap_or(query.view.fabric().switch(switch).switch_info);
        record.set_switch_info(&info);
        if answer.push(&record).is_break() {
            break;
        }
    }
    Ok(())
}

/// LinearForwardingTableRecord: one per block of 64 LIDs.
pub(super) fn linear(query: &Query<'_>, answer: &mut ReplyBuilder) -> Result<(), ErrorStatus> {
    let wanted: LinearFtRecord = query.record();
    for (switch, lid) in switches(query, LinearFtRecord::LID, wanted.lid()) {
        let Some(lft) = query.view.plan().routing.lfts.get(switch.index()) else { continue };
        for (block, entries) in lft.0.chunks_exact(LFT_BLOCK).enumerate() {
            if query.has(LinearFtRecord::BLOCK) && usize::from(wanted.block()) != block {
                continue;
            }
            let mut record = LinearFtRecord::default();
            record.set_lid(lid);
            record.set_block(block as u16);
            record.0[8..].copy_from_slice(entries);
            if answer.push(&record).is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// MulticastForwardingTableRecord: one per block of 32 MLIDs and position of 16 ports, as far as
/// MLIDs are in use.
pub(super) fn multicast(query: &Query<'_>, answer: &mut ReplyBuilder) -> Result<(), ErrorStatus> {
    let wanted: MulticastFtRecord = query.record();
    let tables = &query.view.plan().multicast.by_switch;
    for (switch, lid) in switches(query, MulticastFtRecord::LID, wanted.lid()) {
        let entries = tables.get(switch.index()).map_or(&[][..], Vec::as_slice);
        let place = |mlid: Mlid| usize::from(mlid.0.saturating_sub(Mlid::FIRST.0));
        let blocks = entries.last().map_or(0, |&(mlid, _)| place(mlid) / MFT_BLOCK + 1);
        let ports = usize::from(query.view.fabric().switch(switch).num_ports());
        for block in 0..blocks {
            for position in 0..=(ports / MFT_POSITION_PORTS) as u8 {
                let mut record = MulticastFtRecord::default();
                record.set_lid(lid);
                record.set_position(position);
                record.set_block(block as u16);
                let mut masks = MftBlock::default();
                for &(mlid, mask) in entries.iter().filter(|e| place(e.0) / MFT_BLOCK == block) {
                    masks.0[place(mlid) % MFT_BLOCK] = mask.position(position);
                }
                record.set_masks(&masks);
                let mut wanted = wanted;
                wanted.set_lid(lid);
                if query.push_if_matching(&wanted, &record, answer).is_break() {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

/// SLtoVLMappingTableRecord: one per pair of ports of a switch, one per port of other nodes, for
/// which the ports of the query do not count (IBA vol. 1, 15.2.5.4). Tables that this subnet
/// manager has not written (QoS is off, or the device has none) are 0, as with OpenSM.
pub(super) fn sl_to_vl(query: &Query<'_>, answer: &mut ReplyBuilder) -> Result<(), ErrorStatus> {
    let mut wanted: SlToVlRecord = query.record();
    let fabric = query.view.fabric();
    for end in query.end_ports(SlToVlRecord::LID, wanted.lid()) {
        let Some(lid) = query.view.lids().base(end) else { continue };
        wanted.set_lid(lid);
        let node = fabric.node_of(end);
        if !node.is_switch() {
            wanted.set_in_port(PortNum(0));
            wanted.set_out_port(PortNum(0));
            let record = mapping(query, end, (lid, 0, 0), fabric.port(end).num.0);
            if query.push_if_matching(&wanted, &record, answer).is_break() {
                return Ok(());
            }
            continue;
        }
        let ports = 0..=node.num_ports();
        for (output, input) in ports.clone().flat_map(|o| ports.clone().map(move |i| (o, i))) {
            let record = mapping(query, end, (lid, input, output), output);
            if query.push_if_matching(&wanted, &record, answer).is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The record of this name with the mapping as planned for `output`.
fn mapping(
    query: &Query<'_>,
    end: PortId,
    (lid, in_port, out_port): (Lid, u8, u8),
    output: u8,
) -> SlToVlRecord {
    let node = query.view.fabric().port(end).node;
    let written = query.view.plan().qos.sl_to_vl.get(node.index()).map_or(&[][..], Vec::as_slice);
    let mut record = SlToVlRecord::default();
    record.set_lid(lid);
    record.set_in_port(PortNum(in_port));
    record.set_out_port(PortNum(out_port));
    let place = written.binary_search_by_key(&(output, in_port), |&(input, out, _)| (out, input));
    if let Some((_, _, mapping)) = place.ok().and_then(|place| written.get(place)) {
        record.set_mapping(mapping);
    }
    record
}

/// Port slots whose tables belong to an end port: all of a switch, else the port itself.
fn slots(query: &Query<'_>, end: PortId) -> impl Iterator<Item = PortId> + use<> {
    let node = query.view.fabric().node_of(end);
    let ports = if node.is_switch() { u32::from(node.num_ports()) } else { 0 };
    (end.0..=end.0 + ports).map(PortId)
}

/// Blocks of VL arbitration of a port: two of low and two of high priority.
const VL_ARBITRATION_BLOCKS: std::ops::RangeInclusive<u8> = 1..=4;

/// VLArbitrationTableRecord: four per port. Blocks that this subnet manager has not written (QoS
/// is off, or the port has no such block) are empty, as with OpenSM: what the device was born
/// with is not asked for.
pub(super) fn vl_arbitration(
    query: &Query<'_>,
    answer: &mut ReplyBuilder,
) -> Result<(), ErrorStatus> {
    let mut wanted: VlArbitrationRecord = query.record();
    let tables = &query.view.plan().qos.vl_arbitration;
    for end in query.end_ports(VlArbitrationRecord::LID, wanted.lid()) {
        let Some(lid) = query.view.lids().base(end) else { continue };
        wanted.set_lid(lid);
        if !query.view.fabric().node_of(end).is_switch() {
            // Only switches have output ports to choose from (IBA vol. 1, 15.2.5.9).
            wanted.set_out_port(query.view.fabric().port(end).num);
        }
        for slot in slots(query, end) {
            let written = tables.get(slot.index()).map_or(&[][..], Vec::as_slice);
            for block in VL_ARBITRATION_BLOCKS {
                let mut record = VlArbitrationRecord::default();
                record.set_lid(lid);
                record.set_out_port(query.view.fabric().port(slot).num);
                record.set_block(block);
                if let Some((_, entries)) = written.iter().find(|(number, _)| *number == block) {
                    record.set_entries(entries);
                }
                if query.push_if_matching(&wanted, &record, answer).is_break() {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

/// P_KeyTableRecord: one per port and block, for trusted requesters only (IBA vol. 1, 15.4.1.2:
/// others would learn of partitions they are not in).
pub(super) fn pkeys(query: &Query<'_>, answer: &mut ReplyBuilder) -> Result<(), ErrorStatus> {
    if !query.trusted {
        return Err(ErrorStatus(SaStatus::REQ_INVALID));
    }
    let mut wanted: PkeyTableRecord = query.record();
    let tables = &query.view.plan().partitions.blocks;
    for end in query.end_ports(PkeyTableRecord::LID, wanted.lid()) {
        let Some(lid) = query.view.lids().base(end) else { continue };
        wanted.set_lid(lid);
        if !query.view.fabric().node_of(end).is_switch() {
            // Only switches have several tables at one LID.
            wanted.set_port(query.view.fabric().port(end).num);
        }
        for slot in slots(query, end) {
            for (block, keys) in tables.get(slot.index()).map_or(&[][..], Vec::as_slice) {
                let mut record = PkeyTableRecord::default();
                record.set_lid(lid);
                record.set_block(*block);
                record.set_port(query.view.fabric().port(slot).num);
                record.set_keys(keys);
                if query.push_if_matching(&wanted, &record, answer).is_break() {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}
