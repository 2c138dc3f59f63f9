//! The performance management agent: counters read and cleared (IBA vol. 1, 16.1.3).

use super::device::Devices;
use super::meters::Meters;
use super::sma::Verdict;
use crate::ids::PortNum;
use crate::wire::attr::AttrId;
use crate::wire::mad::{Mad, Method, Status};
use crate::wire::perf::{ALL_PORTS, CLASS_VERSION, Group, PerfCap, PerfData};
use crate::wire::record::ClassPortInfo;

/// Answers take 1.07 s at most: 4.096 us * 2^18, as adapters say.
const RESPONSE_TIME: u8 = 18;

/// Turns the request `mad`, which arrived through the port `entry`, into its response.
pub(super) fn answer(devices: &Devices, meters: &mut Meters, entry: u32, mad: &mut Mad) -> Verdict {
    let method = mad.method();
    if method.is_response() || method == Method::TRAP_REPRESS || method == Method::TRAP {
        return Verdict::Drop;
    }
    let outcome = judge(devices, meters, entry, mad);
    let mut header = mad.header();
    header.set_method(Method::GET_RESP.0);
    header.set_status(outcome.err().unwrap_or(Status::OK));
    mad.set_header(&header);
    if let Ok(data) = outcome {
        data.write(mad);
    }
    Verdict::Respond
}

fn judge(devices: &Devices, meters: &mut Meters, entry: u32, mad: &Mad) -> Result<PerfData, u16> {
    let (header, method) = (mad.header(), mad.method());
    if header.base_version() != 1 || header.class_version() != CLASS_VERSION {
        return Err(Status::BAD_VERSION);
    }
    if method != Method::GET && method != Method::SET {
        return Err(Status::BAD_METHOD);
    }
    let is_set = method == Method::SET;
    match Group::by_id(header.attr_id()) {
        Some(_) if header.attr_mod() != 0 => Err(Status::BAD_FIELD),
        Some(group) => counters(devices, meters, entry, group, is_set, PerfData::of(mad)),
        None if header.attr_id() == AttrId::CLASS_PORT_INFO && !is_set => {
            Ok(class_port_info(devices.is_switch_slot(entry)))
        }
        None => Err(Status::BAD_METHOD_ATTR),
    }
}

fn class_port_info(is_switch: bool) -> PerfData {
    let mut info = ClassPortInfo::default();
    info.set_base_version(1);
    info.set_class_version(CLASS_VERSION);
    let all_ports = if is_switch { PerfCap::ALL_PORT_SELECT } else { 0 };
    info.set_capability_mask(PerfCap::EXTENDED_WIDTH | PerfCap::XMIT_WAIT | all_ports);
    info.set_resp_time_value(RESPONSE_TIME);
    let mut data = PerfData::default();
    info.write(&mut data.0);
    data
}

/// Reads the counters of a port or, on a switch, the sums over all; a Set clears what it selects
/// before.
fn counters(
    devices: &Devices,
    meters: &mut Meters,
    entry: u32,
    group: &Group,
    is_set: bool,
    wanted: PerfData,
) -> Result<PerfData, u16> {
    let slots = selected(devices, entry, wanted.port_select()).ok_or(Status::BAD_FIELD)?;
    let selection = group.selection(&wanted);
    let mut data = PerfData::default();
    data.set_port_select(wanted.port_select());
    group.select(&mut data, selection);
    for slot in slots {
        if is_set {
            meters.clear(slot, group, selection);
        }
        for counter in group.counters {
            let sum = data.counter(counter).saturating_add(meters.value(slot, group, counter));
            data.set_counter(counter, sum);
        }
    }
    Ok(data)
}

/// The ports that PortSelect means: on a channel adapter the one asked through, by its number;
/// on a switch any, or all.
fn selected(devices: &Devices, entry: u32, num: PortNum) -> Option<std::ops::RangeInclusive<u32>> {
    let port = devices.port(entry);
    if !devices.is_switch(port.node) {
        return (port.num == num).then_some(entry..=entry);
    }
    if num == ALL_PORTS {
        let node = devices.node(port.node);
        return Some(node.first..=node.first + u32::from(node.info.num_ports()));
    }
    devices.slot(port.node, num).map(|slot| slot..=slot)
}
